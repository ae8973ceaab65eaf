"""Bind one SELECT: FROM, WHERE, GROUP BY, the select list, DISTINCT, ORDER BY, LIMIT, and ISTREAM around it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from windrow.cql.dialect import RelationToStream
from windrow.errors import BindError, UnsupportedError
from windrow.plan.algebra.nodes import Computed, Node, Project, Streaming, ToStream, columns_in
from windrow.plan.continuous.combining import distinct, limited, refuse_strict
from windrow.plan.continuous.context import BindContext, BoundQuery
from windrow.plan.continuous.deciding import is_grouped
from windrow.plan.continuous.expressions import Expressions
from windrow.plan.continuous.grouping import GroupBinder, SelectItem
from windrow.plan.continuous.inputs import Item, PlanInput, Relation, StreamInput, StreamView, node_of
from windrow.plan.continuous.joining import Joining
from windrow.plan.continuous.ordering import Ordering, limit_of
from windrow.plan.continuous.properties import as_external, is_monotonic, is_unbounded, windows_below
from windrow.plan.continuous.scope import Scope
from windrow.plan.continuous.shape import shown, sources_of
from windrow.plan.continuous.sources import bind_source


def bind_select(select: exp.Select, context: BindContext) -> BoundQuery:
    """Bind a SELECT; raises BindError at the place of a mistake."""
    return _SelectBinder(select, context).bind()


class _SelectBinder:
    def __init__(self, select: exp.Select, context: BindContext):
        self._select = select
        self._context = context
        self._scope = Scope(context.text)
        self._expressions = Expressions(self._scope, context.columns, context.types_of, context.text)
        self._joining = Joining(self._expressions)
        self._written, self._kind = self._list()
        self._is_grouped = is_grouped(select)

    def bind(self) -> BoundQuery:
        self._from()
        where = self._select.args.get("where")
        if where is not None:
            self._joining.add(where.this, "WHERE")
        items = self._items()
        relation = self._grouped(items) if self._is_grouped else self._plain(items)
        is_distinct = self._select.args.get("distinct") is not None
        limit, order = limit_of(self._select, self._context.text), self._select.args.get("order")
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

    # -- FROM ----------------------------------------------------------------------------------

    def _from(self) -> None:
        sources = sources_of(self._select)
        if not sources:
            raise BindError(
                "a standing query reads a stream",
                place=self._context.place(self._select),
                remedy="Add FROM stream [RANGE …].",
            )
        for source, join in zip(sources, [None, *(self._select.args.get("joins") or [])], strict=True):
            given = bind_source(source, self._context)
            if isinstance(given, PlanInput) and (len(sources) > 1 or self._is_grouped):
                above = "a join" if len(sources) > 1 else "an aggregate"
                refuse_strict(given.part, above, source, self._context)
            self._scope.add(given, self._context.place(source))
            if join is not None:
                self._on(join)

    def _on(self, join: exp.Expr) -> None:
        if join.args.get("on") is not None:
            self._joining.add(join.args["on"], "ON")
        for name in join.args.get("using") or ():
            left, right = self._scope.share(name)
            self._joining.add_resolved(exp.EQ(this=left, expression=right), "USING")

    # -- the select list -----------------------------------------------------------------------------

    def _list(self) -> tuple[Sequence[exp.Expr], Streaming | None]:
        """The items as written, without ISTREAM, DSTREAM or RSTREAM around them."""
        items = self._select.expressions
        if not items:
            raise BindError(
                "the select list is empty",
                place=self._context.place(self._select),
                remedy="For example SELECT * FROM …",
            )
        bare = [item.this if isinstance(item, exp.Alias) else item for item in items]
        found = next((one for one in bare if isinstance(one, RelationToStream)), None)
        if found is None:
            return items, None
        if len(items) > 1 or bare[0] is not items[0] or not found.expressions:
            raise BindError(
                f"{found.this} stands around the whole select list",
                place=self._context.place(found),
                remedy=f"Write SELECT {found.this}(a AS x, b) FROM …, or {found.this}(*).",
            )
        self._select.set("expressions", [item.copy() for item in found.expressions])
        return self._select.expressions, Streaming[found.this]

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
        return self._project(self._joining.node(used), items, [tree for tree, _ in values])

    def _view(self, items: Sequence[SelectItem], trees: Sequence[exp.Expr]) -> StreamView | None:
        """The SELECT as a view of its stream, if it reads only one."""
        given = self._scope.inputs[0]
        if len(self._scope.inputs) > 1 or not isinstance(given, StreamInput):
            return None
        made = []
        for item, tree in zip(items, trees, strict=True):
            spark = self._expressions.spark_tree(tree, given)
            kind = given.type_of(shown(spark), self._expressions.types_at(tree))
            if kind.name == "VOID":
                return None
            made.append(Item(item.name, spark, kind))
        view = given.view
        return StreamView(
            view.stream, view.attribute, view.lifetime, tuple(made), (*view.predicates, *given.predicates), view.alias
        )

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
        base = self._joining.node(grouping.used)
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
            self._kind = self._kind or (Streaming.RSTREAM if self._context.clock.periodic else Streaming.ISTREAM)
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
        return ToStream(node, kind)
