"""Bind one SELECT: FROM, WHERE, GROUP BY, the select list, DISTINCT, ORDER BY, LIMIT, and ISTREAM or the like."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from sqlglot import exp

from windrow.cql.window_clause import WindowClause
from windrow.errors import BindError, UnsupportedError
from windrow.plan.algebra.nodes import Computed, Node, Project, Streaming, ToStream, columns_in
from windrow.plan.continuous.combining import distinct, limited
from windrow.plan.continuous.context import BindContext, BoundQuery, InnerQuery
from windrow.plan.continuous.deciding import is_grouped
from windrow.plan.continuous.expressions import Expressions, conjuncts
from windrow.plan.continuous.grouping import GroupBinder, SelectItem
from windrow.plan.continuous.inputs import Item, PlanInput, Relation, StreamInput, StreamView, names_of, node_of
from windrow.plan.continuous.joining import Joining
from windrow.plan.continuous.ordering import Ordering, limit_of
from windrow.plan.continuous.properties import (
    as_external,
    has_internal,
    is_monotonic,
    is_unbounded,
    refuse_internal,
    windows_below,
)
from windrow.plan.continuous.scope import Scope
from windrow.plan.continuous.shape import join_kind, shown, sources_of
from windrow.plan.continuous.sources import bind_source
from windrow.plan.continuous.streams.around_list import streamed_list
from windrow.plan.continuous.streams.output_windows import as_growing, refuse_around, windowed
from windrow.plan.continuous.subqueries.conditions import Membership, conditions_of
from windrow.plan.continuous.subqueries.correlation import Lifting, outer_columns, refuse_correlated
from windrow.plan.continuous.subqueries.members import Members


def bind_select(select: exp.Select, context: BindContext) -> BoundQuery:
    """Bind a SELECT; raises BindError at the place of a mistake."""
    return _SelectBinder(select, context).bind()


def bind_inner_select(select: exp.Select, context: BindContext, index: int, is_compared: bool) -> InnerQuery:
    """Bind the SELECT of EXISTS, or of IN, which is compared, as input `index` of the query around."""
    return _SelectBinder(select, context).bind_inner(index, is_compared)


class _SelectBinder:
    def __init__(self, select: exp.Select, context: BindContext):
        self._select = select
        self._is_grouped = is_grouped(select)
        self._context = context
        self._written, self._kind, self._restores, self._window = self._list()
        self._scope = Scope(context.text, context.around)
        self._expressions = Expressions(self._scope, context.columns, context.types_of, context.text)
        self._joining = Joining(self._expressions)

    def bind(self) -> BoundQuery:
        self._from()
        self._where()
        return self._output()

    def _output(self) -> BoundQuery:
        items = self._items()
        relation = self._grouped(items) if self._is_grouped else self._plain(items)
        is_distinct = self._select.args.get("distinct") is not None
        limit, order = limit_of(self._select, self._context.text), self._select.args.get("order")
        if self._window is not None:
            relation = self._windowed(relation, self._window)
        if not is_distinct and limit is None and order is None and self._kind is None:
            return BoundQuery(relation)
        node = node_of(relation, self._context.columns)
        if is_distinct:
            node = distinct(node, self._select.args["distinct"], self._context)
        bound = Ordering(
            node.schema, [self._canonical(item.tree) for item in items], self._canonical, self._context.text
        )
        terms = bound.bind(order)
        node = limited(node, terms, limit)
        return BoundQuery(node if self._kind is None else self._stream(node, self._kind), terms)

    def bind_inner(self, index: int, is_compared: bool) -> InnerQuery:
        """DISTINCT and ORDER BY change nothing here."""
        self._from()
        correlated = self._where()
        if correlated:
            refuse_correlated(self._select, correlated, self._is_grouped, self._scope)
        is_streamed = self._kind is not None or self._window is not None
        if self._is_grouped or self._select.args.get("limit") is not None or is_streamed:
            relation = self._output().relation
            return InnerQuery(relation, tuple(names_of(relation)))
        lifting = Lifting(self._scope, index)
        conditions = tuple(lifting.lifted(tree) for tree in correlated)
        values = self._items() if is_compared else self._ignored()
        named = [SelectItem(f"__v{i}", item.tree, item.written) for i, item in enumerate(values)]
        relation = self._plain([*named, *lifting.items])
        return InnerQuery(relation, tuple(item.name for item in named), conditions)

    def _ignored(self) -> list[SelectItem]:
        """No items: what EXISTS selects does not matter, but its names are checked."""
        for node in self._written:
            tree = node.unalias()
            if not tree.is_star and not outer_columns(tree, self._scope):
                self._expressions.resolve(tree)
        return []

    # -- FROM and WHERE ------------------------------------------------------------------------

    def _from(self) -> None:
        sources = sources_of(self._select)
        if self._select.args.get("from_") is None:
            raise BindError(
                "a standing query reads a stream",
                place=self._context.place(self._select),
                remedy="Add FROM stream [RANGE …].",
            )
        for source, join in zip(sources, [None, *(self._select.args.get("joins") or [])], strict=True):
            self._scope.add(bind_source(source, self._context), self._context.place(source))
            if join is not None:
                self._on(join)

    def _on(self, join: exp.Expr) -> None:
        kind = join_kind(join)
        assert kind is not None
        self._joining.join(kind)
        if join.args.get("on") is not None:
            self._joining.add(join.args["on"], "ON")
        for name in join.args.get("using") or ():
            left, right = self._scope.share(name, kind)
            self._joining.add_on(exp.EQ(this=left, expression=right), "USING")
        self._joining.joined()

    def _where(self) -> list[exp.Expr]:
        """Add the conditions of WHERE. Returns those that compare with the query around this one."""
        where, correlated = self._select.args.get("where"), list[exp.Expr]()
        members = Members(self._expressions, self._joining, self._context)
        for one in conditions_of(where.this, self._context.text) if where is not None else ():
            if isinstance(one, Membership):
                members.add(one)
                continue
            for tree in conjuncts(one.tree):
                if outer_columns(tree, self._scope):
                    self._expressions.no_aggregate(tree, "WHERE", "Aggregate in a sub-query in FROM.")
                    correlated.append(tree)
                else:
                    self._joining.add(tree, "WHERE")
        return correlated

    def _joined(self, used: Collection[str]) -> Node:
        """The inputs joined, with the columns that are used."""
        node = self._joining.node(used)
        internal = (
            source
            for source, one in zip(sources_of(self._select), self._scope.inputs, strict=False)
            if (has_internal(one.part) if isinstance(one, PlanInput) else one.view.lifetime.internal)
        )
        refuse_internal(node, self._context.place(next(internal, self._select)), self._is_grouped)
        return node

    # -- the select list -----------------------------------------------------------------------------

    def _list(self) -> tuple[Sequence[exp.Expr], Streaming | None, bool, WindowClause | None]:
        """The items as written; ISTREAM, DSTREAM or RSTREAM around them; whether it restores; the window of WSTREAM."""
        if not self._select.expressions:
            raise BindError(
                "the select list is empty",
                place=self._context.place(self._select),
                remedy="For example SELECT * FROM …",
            )
        items, streamed = streamed_list(self._select, self._context.text)
        if streamed is None:
            return items, None, False, None
        is_continual = streamed.restores or (streamed.window is not None and not self._is_grouped)
        self._context = replace(self._context, is_continual=is_continual)
        return items, streamed.kind, streamed.restores, streamed.window

    def _items(self) -> list[SelectItem]:
        items: list[SelectItem] = []
        for node in self._written:
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                items += [SelectItem(name, tree, node) for name, tree in self._scope.star(node)]
                continue
            tree = node.this if isinstance(node, exp.Alias) else node
            name = node.alias_or_name if isinstance(node, (exp.Alias, exp.Column)) else shown(tree).lower()
            items.append(SelectItem(name, tree, node))
        self._refuse_equal_names(items)
        return items

    def _refuse_equal_names(self, items: Sequence[SelectItem]) -> None:
        seen: set[str] = set()
        for item in items:
            if item.name.lower() in seen:
                raise BindError(
                    f"two columns of the answer are called '{item.name}'",
                    place=self._context.place(item.written),
                    remedy=self._to_name(item),
                )
            seen.add(item.name.lower())

    def _to_name(self, item: SelectItem) -> str:
        holders = self._scope.qualifiers(item.name)
        if isinstance(item.written, exp.Alias) or len(holders) < 2:
            return "Give one of them an alias with AS."
        named = ", ".join(f"{one}.{item.name} AS {one}_{item.name}" for one in holders)
        return f"List the columns, with aliases: {named}."

    def _canonical(self, tree: exp.Expr) -> str | None:
        try:
            return shown(self._scope.resolve(tree).unnest())
        except BindError:
            return None

    # -- without GROUP BY ----------------------------------------------------------------------------

    def _plain(self, items: Sequence[SelectItem]) -> Relation:
        if self._select.args.get("having") is not None:
            raise BindError(
                "HAVING is of a query with GROUP BY or an aggregate",
                place=self._context.place(self._select.args["having"]),
                remedy="Use WHERE.",
            )
        trees = [self._expressions.resolve(item.tree) for item in items]
        view = self._view(items, trees)
        if view is not None:
            return view
        values = [self._expressions.value(tree, item.written) for tree, item in zip(trees, items, strict=True)]
        used = {name for tree, _ in values for name in columns_in(tree)}
        return self._project(self._joined(used), items, [tree for tree, _ in values])

    def _view(self, items: Sequence[SelectItem], trees: Sequence[exp.Expr]) -> StreamView | None:
        """The SELECT as a view of its stream, if it reads only one."""
        given = self._scope.inputs[0]
        if len(self._scope.inputs) > 1 or not isinstance(given, StreamInput):
            return None
        if given.view.rows is not None and given.view.lifetime.internal:
            return None  # `_joined` refuses it
        made = []
        for item, tree in zip(items, trees, strict=True):
            spark = self._expressions.spark_tree(tree, given)
            kind = given.type_of(shown(spark), self._expressions.types_at(tree))
            if kind.name == "VOID":
                return None
            made.append(Item(item.name, spark, kind))
        return replace(given.view, items=tuple(made), predicates=(*given.view.predicates, *given.predicates))

    def _project(self, node: Node, items: Sequence[SelectItem], lowered: Sequence[exp.Expr]) -> Node:
        """The select list over a node; the node itself if it has just these columns."""
        same = [(column.sql, column.name) for column in node.schema]
        if same == [(tree.name, item.name) for tree, item in zip(lowered, items, strict=True)] and all(
            isinstance(tree, exp.Column) for tree in lowered
        ):
            return node
        columns = self._context.columns
        kinds = [self._expressions.type_of(tree) for tree in lowered]
        return Project(
            node,
            tuple(
                Computed(columns.new(item.name, kind), tree)
                for item, kind, tree in zip(items, kinds, lowered, strict=True)
            ),
        )

    # -- with GROUP BY -------------------------------------------------------------------------------

    def _grouped(self, items: Sequence[SelectItem]) -> Node:
        grouping = GroupBinder(self._expressions, items)
        grouping.add_keys(self._select.args.get("group"))
        for item in items:
            grouping.carry(item.tree)
        lowered = [grouping.final(item.tree, "the select list") for item in items]
        for tree, item in zip(lowered, items, strict=True):
            self._expressions.computable(tree, item.written, grouped=True)
        having = grouping.having(self._select.args.get("having"))
        base = self._joined(grouping.used)
        internal = {window.lifetime.internal for window in windows_below(base)}
        if internal == {True, False}:
            raise UnsupportedError(
                "an aggregate over INTERNAL and other windows together has no clear meaning",
                place=self._context.place(self._select),
                remedy="Make all windows INTERNAL (every new value is reported, none is withdrawn), or none.",
            )
        if internal == {True}:
            # The state is that of external windows; every value that comes is reported, and stays (section 3.3.2).
            base = as_external(base)
            self._kind = self._kind or self._by_itself
        return self._project(grouping.node(base, having), items, lowered)

    # -- ISTREAM, DSTREAM, RSTREAM -------------------------------------------------------------------

    def _stream(self, node: Node, kind: Streaming) -> Node:
        place = self._context.place(self._select)
        if kind is Streaming.RSTREAM and not self._context.clock.periodic and is_unbounded(node):
            raise UnsupportedError(
                "RSTREAM repeats the whole answer at every tick, and rows of an UNBOUNDED or INTERNAL window stay in "
                "it for ever",
                place=place,
                remedy="Use ISTREAM, a RANGE, or a SLIDE on the windows.",
            )
        if kind is Streaming.DSTREAM and is_monotonic(node):
            raise BindError(
                "DSTREAM is of rows that leave the answer, and none leave this one",
                place=place,
                remedy="Use ISTREAM, or a RANGE without INTERNAL.",
            )
        return ToStream(node, kind, self._restores)

    # -- WSTREAM -------------------------------------------------------------------------------------

    def _windowed(self, relation: Relation, clause: WindowClause) -> Relation:
        """The window on the results. Those of an aggregate are the values that it takes, one after the other."""
        for word in ("distinct", "limit"):
            if self._select.args.get(word) is not None:
                refuse_around(word.upper(), clause.place)
        if self._is_grouped:
            kind, self._kind = self._kind or self._by_itself, None
            node = node_of(relation, self._context.columns)
            return windowed(self._stream(node, kind), clause, self._context)
        return windowed(as_growing(relation, clause.place), clause, self._context)

    @property
    def _by_itself(self) -> Streaming:
        """How the values of an aggregate become a stream: with SLIDE there is one per window."""
        return Streaming.RSTREAM if self._context.clock.periodic else Streaming.ISTREAM
