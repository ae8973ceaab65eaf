"""Turn a parsed query into a logical plan: resolve names and types, and report mistakes at their place.

Types come from Spark's analyser (`TypesOf`), because Spark SQL defines the meaning of expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlglot import exp

from windrow.catalog.definitions import StreamDef
from windrow.cql.dialect import CQL, OwnAggregate, window_of
from windrow.cql.final.sql import to_duckdb
from windrow.cql.functions import check_functions
from windrow.cql.tokens import nearest, place_at, place_of
from windrow.cql.window_clause import WindowClause
from windrow.errors import BindError, FunctionError, Place, UnsupportedError
from windrow.plan.accumulators import AggregateCall
from windrow.plan.aggregates import decompose
from windrow.plan.bind_window import BoundWindow, bind_snapshot_window, bind_window
from windrow.plan.calls import COUNT_DISTINCT, ArgumentError, ParsedCall, check_call, parameters_of, written_call
from windrow.plan.mistyped import OVER_GROUPS, refuse_mistyped
from windrow.plan.nodes import (
    Finalise,
    Key,
    Order,
    Output,
    Scan,
    Selection,
    WindowAggregate,
    internal_columns,
)
from windrow.plan.texts import as_valid_text
from windrow.plan.trees import not_grouped, replace_children
from windrow.types import SqlType
from windrow.windows import SlidingWindow

TypesOf = Callable[[Sequence[tuple[str, SqlType]], Sequence[str]], list[SqlType]]
"""(columns, Spark SQL expressions) → their types; raises BindError if Spark refuses an expression."""

_CLAUSES = {"kind", "hint", "distinct", "expressions", "limit", "from_", "where", "group", "having", "order"}
MAX_LIMIT = (1 << 31) - 1
RESERVED_OUTPUTS = ("window_start", "window_end", "is_revision")


def bind_query(
    select: exp.Expr, text: str, stream_of: Callable[[str, Place | None], StreamDef], types_of: TypesOf
) -> Finalise:
    """The logical plan of a standing query; raises BindError at the place of a mistake."""
    return _Binder(select, text, stream_of, types_of, bind_window).bind()


def bind_snapshot(
    select: exp.Expr, text: str, stream_of: Callable[[str, Place | None], StreamDef], types_of: TypesOf
) -> Finalise:
    """The logical plan of a snapshot query. Only the length and the OFFSET of its window have a meaning."""
    return _Binder(select, text, stream_of, types_of, bind_snapshot_window).bind()


class _Binder:
    def __init__(
        self,
        select: exp.Expr,
        text: str,
        stream_of: Callable[[str, Place | None], StreamDef],
        types_of: TypesOf,
        bind_window: Callable[[WindowClause | None, StreamDef], BoundWindow],
    ):
        self._text = text
        self._types_of = types_of
        check_functions(select, text)
        self._select = self._shape(select)
        table = self._select.args["from_"].this
        self._stream = stream_of(table.name, self._place(table.this))
        self._names = {name.lower(): name for name, _ in self._stream.columns}
        self._qualifiers = {(table.alias or table.name).lower()}
        self._refuse_selection(window_of(table))
        self._bound = bind_window(window_of(table), self._stream)
        self._calls: dict[str, AggregateCall] = {}

    def _place(self, node: exp.Expr | None) -> Place | None:
        return None if node is None else place_of(node, self._text)

    def _shape(self, select: exp.Expr) -> exp.Select:
        """The SELECT; raises UnsupportedError if it has a clause that this version does not execute."""
        if not isinstance(select, exp.Select):
            raise UnsupportedError(
                "this version answers a single SELECT; set operations come later", place=self._place(select)
            )
        for name, value in select.args.items():
            if value and name not in _CLAUSES:
                raise UnsupportedError(
                    f"this version does not execute {name.strip('_').upper()} in a standing query",
                    remedy="Leave it out.",
                )
        source = select.args.get("from_")
        if source is None:
            raise BindError("a standing query reads a stream", remedy="Add FROM stream [RANGE … SLIDE …].")
        if not isinstance(source.this, exp.Table) or source.this.args.get("joins"):
            raise UnsupportedError("this version reads one stream per query", place=self._place(source.this))
        if not isinstance(source.this.this, exp.Identifier):
            raise UnsupportedError(
                "a standing query reads a stream, not a function",
                place=self._place(source.this),
                remedy="A SELECT by itself reads answers('query') and dead_letters('stream').",
            )
        return select.copy()

    def _refuse_selection(self, window: WindowClause | None) -> None:
        """Refuse a query without GROUP BY and without an aggregate."""
        clauses = [self._select.args.get(name) for name in ("group", "having", "order")]
        trees = [*self._select.expressions, *clauses[1:]]
        is_grouped = clauses[0] is not None or (window is not None and window.pattr)
        if is_grouped or any(tree.find(exp.AggFunc) for tree in trees if tree is not None):
            return
        for item in self._select.expressions:
            self._resolve(self._item(item)[1])
        raise UnsupportedError(
            "a one-time query over a stream has an aggregate, GROUP BY, or both: it reads kept aggregates, not tuples",
            place=self._place(self._select.expressions[0]),
            remedy="A standing query may select rows: CREATE QUERY name AS SELECT …, and then SELECT … FROM name. Or "
            "GROUP BY all that is selected: a row for each different combination in the window.",
        )

    def bind(self) -> Finalise:
        bound = self._bound
        self._refuse_mistyped()
        items = [self._item(node) for node in self._select.expressions]
        where = self._predicate()
        partition = [exp.column(exp.to_identifier(name, quoted=True)) for name in bound.partition]
        key_trees = list({_sql(tree): tree for tree in partition + self._keys(items)}.values())
        key_sql = [_sql(tree) for tree in key_trees]
        key_types = self._types_of(self._stream.columns, key_sql) if key_sql else []
        for tree, kind in zip(key_trees, key_types, strict=True):
            if kind.name == "VOID":
                raise BindError(
                    "GROUP BY takes a typed expression, not NULL", place=self._place(tree), remedy="Leave it out."
                )
        for _, tree in items:
            self._carry(tree, key_sql, key_types)
        aliases = {name.lower(): tree for name, tree in items}
        outputs = [(name, self._final(tree, key_sql, where, "the select list")) for name, tree in items]
        having = self._having(aliases, key_sql, where)
        order = self._order(items, aliases, key_sql, where)
        scan = Selection(Scan(self._stream.name, bound.attribute), where)
        keys = tuple(self._key(sql, kind) for sql, kind in zip(key_sql, key_types, strict=True))
        aggregate = WindowAggregate(scan, bound.window, keys, tuple(self._calls.values()), len(partition))
        if aggregate.frequent is not None:
            self._check_frequent(aggregate)
        columns = internal_columns(aggregate)
        written = [tree for _, tree in items] + [o.this for o in self._ordered()]
        for tree, origin in zip([tree for _, tree in outputs] + [o.expression for o in order], written, strict=True):
            self._translatable(tree, columns, origin)
        for item, origin in zip(order, self._ordered(), strict=True):
            self._orderable(item.expression, dict(columns), origin.this)
        if having is not None:
            types = {name.lower(): kind for name, kind in columns}
            refuse_mistyped(having, types, self._place, OVER_GROUPS)
            self._translatable(having, columns, self._select.args["having"].this)
            self._boolean(_sql(having), self._select.args["having"].this, "HAVING", columns)
        return Finalise(aggregate, self._typed(aggregate, outputs), having, order, self._limit())

    def _refuse_mistyped(self) -> None:
        """Look at all clauses in which a name means a column of the stream."""
        columns = {name.lower(): kind for name, kind in self._stream.columns}
        clauses = [self._select.args.get(name) for name in ("where", "group")]
        for tree in (*self._select.expressions, *clauses):
            if tree is not None:
                refuse_mistyped(tree, columns, self._place)

    def _translatable(self, tree: exp.Expr, columns: Sequence[tuple[str, SqlType]], origin: exp.Expr) -> None:
        """Refuse what DuckDB cannot compute, at its place or else at that of the whole expression."""
        try:
            to_duckdb(tree, dict(columns), self._text)
        except FunctionError as error:
            raise FunctionError(error.message, place=error.place or self._place(origin), remedy=error.remedy) from None

    def _check_frequent(self, aggregate: WindowAggregate) -> None:
        """Refuse what FREQUENT_ITEMS cannot do: it keeps closed panes only, and of these only top-k lists."""
        why, remedy = None, "Use TOP_K, which is exact."
        others = [call for call in aggregate.aggregates if call.values and call is not aggregate.frequent]
        if self._stream.revises:
            why = "FREQUENT_ITEMS needs complete parts of the stream, and LATE REVISE counts later tuples"
        elif not isinstance(aggregate.window, SlidingWindow):
            why = "FREQUENT_ITEMS is of windows with RANGE or ROWS that slide by time or by rows, without PARTITION BY"
        elif others:
            shown = {COUNT_DISTINCT: "COUNT(DISTINCT …)", "FREQUENT_ITEMS": "a second FREQUENT_ITEMS"}
            names = " and ".join(dict.fromkeys(shown.get(call.function, call.function) for call in others))
            why = f"FREQUENT_ITEMS forgets rare values: {names} cannot stand beside it"
            remedy = (
                f"Create two queries, one with FREQUENT_ITEMS alone, one with {names}; or use TOP_K, which is exact."
            )
        if why is not None:
            calls = (call for call in self._select.find_all(OwnAggregate) if call.this == "FREQUENT_ITEMS")
            raise UnsupportedError(why, place=self._place(next(calls, None)), remedy=remedy)

    def _orderable(self, tree: exp.Expr, types: dict[str, SqlType], origin: exp.Expr) -> None:
        inner = tree.unnest()
        if isinstance(inner, exp.Column) and types[inner.name].is_nested:
            raise BindError(
                f"ORDER BY needs a value that has an order, and this is {types[inner.name]}",
                place=self._place(origin),
                remedy="Order by a group key, or by another aggregate.",
            )

    def _ordered(self) -> list[exp.Expr]:
        order = self._select.args.get("order")
        return list(order.expressions) if order else []

    def _item(self, node: exp.Expr) -> tuple[str, exp.Expr]:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise UnsupportedError(
                "SELECT * is for standing queries without an aggregate, and for one-time queries over answers",
                place=self._place(node),
                remedy="List the keys and the aggregates, for example SELECT k, COUNT(*) … GROUP BY k.",
            )
        tree = node.this if isinstance(node, exp.Alias) else node
        name = node.alias_or_name if isinstance(node, (exp.Alias, exp.Column)) else _default_name(tree)
        if name.lower() in RESERVED_OUTPUTS:
            raise BindError(
                f"'{name}' is a column that every answer has",
                place=self._place(node),
                remedy="Leave it out." if isinstance(node, exp.Column) else "Choose another alias.",
            )
        return name, tree

    def _predicate(self) -> str | None:
        where = self._select.args.get("where")
        if where is None:
            return None
        self._no_aggregate(where.this, "WHERE", "Use HAVING, or FILTER (WHERE …) inside the aggregate.")
        return self._boolean(_sql(self._resolve(where.this)), where.this, "WHERE")

    def _boolean(
        self, sql: str, node: exp.Expr, clause: str, columns: Sequence[tuple[str, SqlType]] | None = None
    ) -> str:
        """The condition, as a BOOLEAN also if it is NULL. Raises BindError if it is of another type."""
        kind = self._types_of(columns if columns is not None else self._stream.columns, [sql])[0]
        if kind.name not in ("BOOLEAN", "VOID"):
            shown = node.sql(dialect=CQL) if isinstance(node, exp.Column) else "x"
            example = "> 0" if kind.is_numeric else "= 'a'" if kind.name == "STRING" else "IS NOT NULL"
            raise BindError(
                f"{clause} needs a condition, and this is {kind}",
                place=self._place(node),
                remedy=f"Write a comparison, for example {shown} {example}.",
            )
        return f"CAST({sql} AS BOOLEAN)" if kind.name == "VOID" else sql

    def _no_aggregate(self, tree: exp.Expr, clause: str, remedy: str) -> None:
        found = tree.find(exp.AggFunc)
        if found is not None:
            raise BindError(f"an aggregate cannot stand in {clause}", place=self._place(found), remedy=remedy)

    def _keys(self, items: Sequence[tuple[str, exp.Expr]]) -> list[exp.Expr]:
        group = self._select.args.get("group")
        if group is None:
            return []
        for name, value in group.args.items():
            if value and name != "expressions":
                raise UnsupportedError(
                    f"GROUP BY {name.upper()} is not executed yet", remedy="Create a query for each GROUP BY."
                )
        trees = []
        for node in group.expressions:
            tree = self._group_item(node, items)
            self._no_aggregate(tree, "GROUP BY", "Group by a column or an expression of columns.")
            trees.append(self._resolve(tree).unnest())
        unique = {_sql(tree): tree for tree in trees}
        return list(unique.values())

    def _carry(self, tree: exp.Expr, keys: list[str], types: list[SqlType]) -> None:
        """Make functions of the keys that only Spark can evaluate keys themselves; this splits no group."""
        if written_call(tree) is not None or tree.find(exp.Column) is None:
            return
        if tree.find(exp.AggFunc) is not None:
            for part in tree.iter_expressions():
                self._carry(part, keys, types)
            return
        try:
            final = self._final(tree, keys, None, "the select list")
            to_duckdb(final, {f"k{i}": kind for i, kind in enumerate(types)})
        except FunctionError:
            keys.append(_sql(self._resolve(tree)))
            types += self._types_of(self._stream.columns, keys[-1:])
        except BindError:
            return  # a column that is not grouped: binding the select list reports it with its place

    def _group_item(self, node: exp.Expr, items: Sequence[tuple[str, exp.Expr]]) -> exp.Expr:
        if isinstance(node, exp.Literal) and not node.is_string:
            return self._ordinal(node, items, "GROUP BY")
        if isinstance(node, exp.Column) and not node.table and node.name.lower() not in self._names:
            for name, tree in items:
                if name.lower() == node.name.lower():
                    return tree
            raise self._unknown(node.name, self._place(node), [name for name, _ in items])
        return node

    def _ordinal(self, node: exp.Literal, items: Sequence[tuple[str, exp.Expr]], clause: str) -> exp.Expr:
        if not node.this.isdigit() or not 1 <= int(node.this) <= len(items):
            columns = "1 column" if len(items) == 1 else f"{len(items)} columns"
            raise BindError(
                f"{clause} {node.this}: the select list has {columns}",
                place=self._place(node),
                remedy="Give a number within it, counted from 1, or the name of a column.",
            )
        return items[int(node.this) - 1][1]

    def _resolve(self, tree: exp.Expr) -> exp.Expr:
        """The tree with columns under their declared names, quoted; raises BindError for unknown columns."""

        def named(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            if node.table and node.table.lower() not in self._qualifiers:
                known = " or ".join(sorted(self._qualifiers))
                raise BindError(
                    f"'{node.table}' is not in FROM",
                    place=self._place(node),
                    remedy=f"Write {known}.{node.name}, or {node.name} alone.",
                )
            name = self._names.get(node.name.lower())
            if name is None:
                raise self._unknown(node.name, self._place(node))
            return exp.column(exp.to_identifier(name, quoted=True))

        return tree.copy().transform(named)

    def _unknown(self, name: str, place: Place | None, aliases: Collection[str] = ()) -> BindError:
        """The error for an unknown column. `aliases` are those of the select list, if the clause accepts them."""
        if name.lower() in RESERVED_OUTPUTS:
            return BindError(
                f"'{name}' is a column of the answer, not of the stream",
                place=place,
                remedy="Leave it out: every row names its window, and GROUP BY groups within each window.",
            )
        offered = {alias.lower(): alias for alias in aliases} | self._names
        near = nearest(name.lower(), offered)
        hint = f"Did you mean '{offered[near]}'? " if near else ""
        named = f" Aliases: {', '.join(aliases)}." if aliases else ""
        return BindError(
            f"stream '{self._stream.name}' has no column '{name}'" + (", nor is it an alias" if aliases else ""),
            place=place,
            remedy=f"{hint}Its columns: {', '.join(self._names.values())}.{named}",
        )

    def _final(self, tree: exp.Expr, keys: Sequence[str], where: str | None, clause: str) -> exp.Expr:
        """The expression rewritten over k0… (keys) and a0… (aggregates)."""

        def rewrite(node: exp.Expr) -> exp.Expr:
            check_call(node, self._place)
            call = written_call(node)
            if call is not None:
                return self._placed(exp.column(self._call(call, where)), node)
            if isinstance(node, (exp.Star, exp.Identifier)):
                return node
            if node.find(exp.AggFunc) is None:
                sql = _sql(self._resolve(node))
                if sql in keys:
                    return self._placed(exp.column(f"k{keys.index(sql)}"), node)
            if isinstance(node, exp.Column):
                self._resolve(node)
                raise not_grouped(node, clause, self._place(node))
            return replace_children(node, rewrite)

        return rewrite(tree.copy())

    def _placed(self, column: exp.Expr, written: exp.Expr) -> exp.Expr:
        """The column with the place of the expression that it replaces, including the closing parenthesis."""
        parts = [part.meta for part in written.walk() if part.meta_get("start") is not None]
        if parts:
            start, end = min(meta["start"] for meta in parts), max(meta["end"] for meta in parts)
            text = self._text
            while text.count("(", start, end + 1) > text.count(")", start, end + 1) and text[end + 1 : end + 2] == ")":
                end += 1
            column.meta.update(start=start, end=end)
        return column

    def _call(self, found: ParsedCall, where: str | None) -> str:
        """The name (a0…) of an aggregate; adds the aggregate if it is new."""
        for inner in found.arguments:
            self._no_aggregate(inner, "an aggregate", "Aggregates cannot be nested.")
        parameters = parameters_of(found, self._signed_place)
        args = [_sql(self._resolve(arg)) for arg in found.arguments]
        kinds = self._types_of(self._stream.columns, args) if args else []
        filter_sql = None
        if found.condition is not None:
            self._no_aggregate(found.condition, "FILTER", "Aggregates cannot be nested.")
            filter_sql = self._boolean(_sql(self._resolve(found.condition)), found.condition, "FILTER")
        both = filter_sql if where is None else where if filter_sql is None else f"({where}) AND ({filter_sql})"
        key = "\x00".join(map(str, (found.function, *args, *parameters, both)))
        if key not in self._calls:
            given = [self._key(sql, type_) for sql, type_ in zip(args, kinds, strict=True)]
            first, kind, more = (given[0].sql, given[0].type, tuple(given[1:])) if given else (None, None, ())
            try:
                self._calls[key] = decompose(found.function, first, kind, both, parameters, more)
            except UnsupportedError as error:
                raise UnsupportedError(error.message, place=self._place(found.node), remedy=error.remedy) from None
            except BindError as error:
                at = error.at if isinstance(error, ArgumentError) else 0
                place = self._place(found.arguments[at] if found.arguments else None)
                raise BindError(error.message, place=place, remedy=error.remedy) from None
        return f"a{list(self._calls).index(key)}"

    def _key(self, sql: str, kind: SqlType) -> Key:
        return Key(as_valid_text(sql, kind, self._stream.columns), kind)

    def _having(self, aliases: dict[str, exp.Expr], keys: Sequence[str], where: str | None) -> exp.Expr | None:
        having = self._select.args.get("having")
        if having is None:
            return None
        return self._final(self._expand(having.this, aliases), keys, where, "HAVING")

    def _expand(self, tree: exp.Expr, aliases: dict[str, exp.Expr]) -> exp.Expr:
        """The tree with aliases of the select list replaced by their expressions; columns take precedence."""

        def expand(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and not node.table and node.name.lower() not in self._names:
                meant = aliases.get(node.name.lower())
                if meant is None:
                    raise self._unknown(node.name, self._place(node), list(aliases))
                return exp.paren(meant.copy())
            return node

        return tree.copy().transform(expand)

    def _order(
        self,
        items: Sequence[tuple[str, exp.Expr]],
        aliases: dict[str, exp.Expr],
        keys: Sequence[str],
        where: str | None,
    ) -> tuple[Order, ...]:
        out = []
        for node in self._ordered():
            tree = node.this
            if isinstance(tree, exp.Literal) and not tree.is_string:
                tree = self._ordinal(tree, items, "ORDER BY")
            elif isinstance(tree, exp.Column) and not tree.table and tree.name.lower() in aliases:
                tree = aliases[tree.name.lower()]
            descending = bool(node.args.get("desc"))
            nulls_first = node.args.get("nulls_first")
            out.append(
                Order(
                    self._final(self._expand(tree, aliases), keys, where, "ORDER BY"),
                    descending,
                    (not descending) if nulls_first is None else bool(nulls_first),
                )
            )
        return tuple(out)

    def _limit(self) -> int | None:
        limit = self._select.args.get("limit")
        if limit is None:
            return None
        value = limit.expression
        is_whole = isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit()
        if not is_whole or int(value.this) > MAX_LIMIT:
            raise BindError(
                f"LIMIT is a whole number from 0 to {MAX_LIMIT:,}, not {value.sql(dialect=CQL)}",
                place=self._signed_place(value),
                remedy="For example LIMIT 10, the first ten rows of each window.",
            )
        return int(value.this)

    def _signed_place(self, value: exp.Expr | None) -> Place | None:
        """The place of a number including its minus sign, which sqlglot gives no place."""
        start = value.this.meta_get("start") if isinstance(value, exp.Neg) else None
        if start is None or value is None:
            return self._place(value)
        return place_at(self._text, self._text.rindex("-", 0, start), value.this.meta_get("end") + 1)

    def _typed(self, aggregate: WindowAggregate, outputs: Sequence[tuple[str, exp.Expr]]) -> tuple[Output, ...]:
        columns = internal_columns(aggregate)
        known = dict(columns)
        computed = [_sql(tree) for _, tree in outputs if not isinstance(tree, exp.Column)]
        computed_types = iter(self._types_of(columns, computed) if computed else ())
        types = [known[tree.name] if isinstance(tree, exp.Column) else next(computed_types) for _, tree in outputs]
        seen: set[str] = set()
        for (name, _), written in zip(outputs, self._select.expressions, strict=True):
            if name.lower() in seen:
                raise BindError(
                    f"two columns of the answer are called '{name}'",
                    place=self._place(written),
                    remedy="Give one of them an alias with AS.",
                )
            seen.add(name.lower())
        return tuple(Output(name, tree, kind) for (name, tree), kind in zip(outputs, types, strict=True))


def _default_name(tree: exp.Expr) -> str:
    """The expression in lower case, as in Spark."""
    return _sql(tree).lower()


def _sql(tree: exp.Expr) -> str:
    return tree.sql(dialect=CQL)
