"""A standing query as one plain Spark SQL statement over all its windows at once.

Every row that counts is joined with every look at a window that holds it (`looks`), and the result is grouped by look
and by the query's keys. There are no panes, no partial aggregates and no incremental state. The statement differs from
the user's text only in this:

- Without GROUP BY and PARTITION BY, the WHERE clause moves into the FILTER of each aggregate. So a window that holds
  tuples has its one row even if none of them qualifies.
- SUM of integers is added up as DECIMAL and is NULL if the total does not fit a BIGINT. Spark's SUM wraps, and the
  result of `try_sum` depends on the order of addition.
- ORDER BY and LIMIT become a row number per window. Ties are broken by all columns of the select list that have an
  order, then by the keys.
- Aggregates that Spark SQL lacks are written with those it has, or collect what `holistic` counts in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from windrow.cql.dialect import CQL, OwnAggregate
from windrow.errors import UnsupportedError
from windrow.oracle import holistic

ROWS, LOOKS = "windrow_oracle_rows", "windrow_oracle_looks"
POINT, PART, ARRIVED, LASTING = "__t", "__part", "__arrived", "__lasting"
"""The columns of a row beside the stream's; see `looks.Counted`."""
ID, LO, HI, OF_PART, FIRST, AT = "__id", "__lo", "__hi", "__of_part", "__first", "__at"
"""The columns of a look."""

TypeNames = Callable[[list[str]], list[str]]
"""A function from Spark SQL expressions over the query's table to the names of their types."""

_INTEGER_TYPES = {"byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint"}


@dataclass(frozen=True)
class Parts:
    """The clauses of a SELECT, with aliases and ordinals replaced by what they stand for."""

    table_alias: str
    names: tuple[str, ...]
    items: tuple[exp.Expr, ...]
    where: exp.Expr | None
    keys: tuple[exp.Expr, ...]
    grouped: bool
    having: exp.Expr | None
    order: tuple[exp.Ordered, ...]
    limit: int | None

    @property
    def numbered(self) -> bool:
        """Whether the rows of a window are ordered."""
        return bool(self.order) or self.limit is not None

    @property
    def aggregated(self) -> bool:
        return self.grouped or any(e.find(exp.AggFunc) for e in (*self.items, self.having) if e is not None)

    @property
    def ungrouped(self) -> bool:
        """Whether each window has exactly one row."""
        return self.aggregated and not self.grouped

    @property
    def plain_keys(self) -> frozenset[str]:
        """The GROUP BY keys that are plain columns, in lower case."""
        keys = [key.unnest() for key in self.keys]
        return frozenset(key.name.lower() for key in keys if isinstance(key, exp.Column))


def table_of(select: exp.Expr) -> exp.Table:
    """The one stream that a periodic query reads."""
    if not isinstance(select, exp.Select) or select.args.get("joins") or select.args.get("distinct"):
        raise UnsupportedError("the oracle evaluates a plain SELECT over one stream")
    tables = list(select.find_all(exp.Table))
    if len(tables) != 1 or select.find(exp.Subquery):
        raise UnsupportedError("the oracle evaluates a SELECT over exactly one stream")
    return tables[0]


def take_apart(select: exp.Expr, columns: set[str], is_partitioned: bool = False) -> Parts:
    """The clauses of a SELECT. `columns` are the stream's, in lower case: in GROUP BY a column hides an alias,
    elsewhere an alias hides a column.

    A query over a partitioned window is grouped even without GROUP BY, by partition.
    """
    table = table_of(select)
    items = tuple(item.unalias().copy() for item in select.expressions)
    aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    group, having, order = (select.args.get(part) for part in ("group", "having", "order"))
    group_aliases = {name: item for name, item in aliases.items() if name not in columns}
    keys = tuple(_resolve(_ordinal(key, items), group_aliases) for key in (group.expressions if group else ()))
    limit = select.args.get("limit")
    return Parts(
        table_alias=table.alias_or_name,
        names=tuple(_name(item) for item in select.expressions),
        items=items,
        where=_this(select.args.get("where")),
        keys=keys,
        grouped=is_partitioned or group is not None,
        having=_resolve(having.this, aliases) if having else None,
        order=tuple(resolved_order(item, items, aliases) for item in (order.expressions if order else ())),
        limit=int(limit.expression.name) if limit else None,
    )


def _name(item: exp.Expr) -> str:
    return str(item.alias_or_name) if isinstance(item, exp.Alias | exp.Column) else item.sql(dialect=CQL)


def _this(clause: exp.Expr | None) -> exp.Expr | None:
    return clause.this.copy() if clause is not None else None


def _ordinal(key: exp.Expr, items: tuple[exp.Expr, ...]) -> exp.Expr:
    return items[int(key.name) - 1] if isinstance(key, exp.Literal) and key.is_int else key


def resolved_order(item: exp.Expr, items: tuple[exp.Expr, ...], aliases: dict[str, exp.Expr]) -> exp.Ordered:
    """An item of ORDER BY with ordinals and aliases replaced by what they stand for."""
    ordered = item.copy() if isinstance(item, exp.Ordered) else exp.Ordered(this=item.copy())
    ordered.set("this", _resolve(_ordinal(ordered.this, items), aliases))
    return ordered


def _resolve(node: exp.Expr, aliases: dict[str, exp.Expr]) -> exp.Expr:
    """`node` with the aliases of select items replaced, except inside an aggregate, where a name is a column."""

    def replace(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in aliases:
            if not part.find_ancestor(exp.AggFunc):
                return exp.paren(aliases[part.name.lower()].copy(), copy=False)
        return part

    return node.copy().transform(replace)


def spark_statement(parts: Parts, type_names: TypeNames, partition: tuple[str, ...] = ()) -> str:
    """The statement. It returns the look's `__id`, then the select list as `__c0`, `__c1`, …

    With ORDER BY or LIMIT the rows of a look come in answer order. The columns of `partition` have one value in each
    look, so they may be selected like keys.
    """
    ungrouped = parts.ungrouped
    outputs = [*parts.items, *(item.this for item in parts.order)]
    named = [*(f"__c{i}" for i in range(len(parts.items))), *(f"__o{i}" for i in range(len(parts.order)))]
    having = [parts.having] if parts.having is not None else []
    kept = _present(parts.where) if ungrouped else None
    rewritten = exact_aggregates([*outputs, *having], kept, type_names)
    texts = [node.sql(dialect="spark") for node in rewritten]
    keys = [key.sql(dialect="spark") for key in parts.keys if not isinstance(key.unnest(), exp.Literal)]
    keys = [f"`{name}`" for name in partition] + keys
    listed = ", ".join(f"{text} AS `{name}`" for text, name in zip(texts, named, strict=False))
    listed += "".join(f", {key} AS `__k{i}`" for i, key in enumerate(keys) if parts.numbered)
    inner = f"SELECT `{ID}`, {listed} FROM ({_joined(ungrouped)}) AS `{parts.table_alias}`"
    if parts.where is not None and not ungrouped:
        inner += f" WHERE {parts.where.sql(dialect='spark')}"
    if parts.aggregated:
        inner += " GROUP BY " + ", ".join([f"`{ID}`", *keys])
    if having:
        inner += f" HAVING {texts[-1]}"
    return _numbered(inner, parts, len(keys)) if parts.numbered else inner


def _joined(ungrouped: bool) -> str:
    """The rows joined with the looks that see them. An ungrouped query also keeps looks that see no row."""
    side = "LEFT JOIN" if ungrouped else "JOIN"
    holds = f"(e.`{LO}` IS NULL OR r.`{POINT}` >= e.`{LO}`) AND r.`{POINT}` < e.`{HI}`"
    had_come = f"r.`{ARRIVED}` <= IF(r.`{LASTING}`, e.`{AT}`, e.`{FIRST}`)"
    of_part = f"r.`{PART}` = e.`{OF_PART}`"
    return f"SELECT * FROM {LOOKS} AS e {side} {ROWS} AS r ON {holds} AND {had_come} AND {of_part}"


def _numbered(inner: str, parts: Parts, keys: int) -> str:
    columns = [f"`__c{i}`" for i in range(len(parts.items))]
    ties = [name for name, item in zip(columns, parts.items, strict=True) if not holistic.is_collected(item)]
    ties += [f"`__k{i}`" for i in range(keys) if len(ties) < len(columns)]
    orders = []
    for i, item in enumerate(parts.order):
        named = item.copy()
        named.set("this", exp.column(f"__o{i}", quoted=True))
        orders.append(named.sql(dialect="spark"))
    number = f"ROW_NUMBER() OVER (PARTITION BY `{ID}` ORDER BY {', '.join([*orders, *ties]) or ID})"
    limit = f" WHERE `__n` <= {parts.limit}" if parts.limit is not None else ""
    return (
        f"SELECT `{ID}`, {', '.join(columns)}"
        f" FROM (SELECT *, {number} AS `__n` FROM ({inner})){limit}"
        f" ORDER BY `{ID}`, `__n`"
    )


def _present(condition: exp.Expr | None) -> exp.Expr:
    """Whether a row of a look is a tuple that meets the condition."""
    present: exp.Expr = exp.column(POINT, quoted=True).is_(exp.null()).not_()
    return present if condition is None else exp.and_(present, condition)


def exact_aggregates(
    nodes: Sequence[exp.Expr], kept: exp.Expr | None, type_names: TypeNames, point: str = f"`{POINT}`"
) -> list[exp.Expr]:
    """The expressions with integer sums made exact, and with our own aggregates in Spark SQL.

    With `kept`, aggregates see only the rows for which it is true. `point` is the text of a row's point.
    """
    roots = [exp.Tuple(expressions=[node.copy()]) for node in nodes]
    if kept is not None:
        for agg in _aggregates(roots):
            _add_filter(agg, kept)
    sums = [agg for agg in _aggregates(roots) if isinstance(agg, exp.Sum) and not isinstance(agg.this, exp.Distinct)]
    types = type_names([agg.this.sql(dialect="spark") for agg in sums]) if sums else []
    for agg, kind in zip(sums, types, strict=True):
        if kind in _INTEGER_TYPES:
            _make_exact(agg)
    numbers = [text for agg in _aggregates(roots) for text in holistic.numbers_of(agg)]
    for text, kind in zip(numbers, type_names(numbers) if numbers else [], strict=True):
        if kind == "string":
            raise UnsupportedError(f"MEDIAN and the weights of TOP_K are of numbers, and {text} is a string")
    for agg in _aggregates(roots):
        if isinstance(agg, OwnAggregate):
            whole = agg.parent if isinstance(agg.parent, exp.Filter) else agg
            whole.replace(exp.Var(this=holistic.spark_text(whole, point)))
    return [root.expressions[0] for root in roots]


def _aggregates(roots: list[exp.Tuple]) -> list[exp.AggFunc]:
    return [agg for root in roots for agg in root.find_all(exp.AggFunc)]


def _add_filter(agg: exp.Expr, condition: exp.Expr) -> None:
    parent = agg.parent
    if isinstance(parent, exp.Filter):
        parent.set("expression", exp.Where(this=exp.and_(condition, parent.expression.this)))
    else:
        agg.replace(exp.Filter(this=agg.copy(), expression=exp.Where(this=condition.copy())))


def _make_exact(agg: exp.Expr) -> None:
    """Replace SUM(x), with its FILTER, by TRY_CAST(SUM(CAST(x AS DECIMAL(19, 0))) AS BIGINT)."""
    agg.set("this", exp.cast(agg.this, "DECIMAL(19, 0)"))
    whole = agg.parent if isinstance(agg.parent, exp.Filter) else agg
    whole.replace(exp.TryCast(this=whole.copy(), to=exp.DataType.build("BIGINT"), safe=True))
