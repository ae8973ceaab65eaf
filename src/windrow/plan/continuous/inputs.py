"""The inputs of a SELECT: windows over streams, which Spark computes columns for, and parts of the plan.

A sub-query that only selects and projects tuples of one stream is a `StreamView`: whatever is computed from it is
computed by Spark when the tuple arrives, as from the stream itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from sqlglot import exp

from windrow.catalog.definitions import StreamDef
from windrow.plan.algebra.nodes import (
    Computed,
    Filter,
    Lifetime,
    Node,
    PlanColumn,
    Project,
    RowsWindow,
    StreamColumn,
    StreamWindow,
)
from windrow.plan.binder import TypesOf
from windrow.plan.continuous.shape import shown
from windrow.plan.nodes import Attribute
from windrow.plan.texts import as_valid_text
from windrow.types import SqlType


class Columns:
    """Gives plan columns their ids, and knows them by `c<id>`."""

    def __init__(self) -> None:
        self._ids = count()
        self._known: dict[str, PlanColumn] = {}

    def new(self, name: str, kind: SqlType) -> PlanColumn:
        column = PlanColumn(next(self._ids), name, kind)
        self._known[column.sql] = column
        return column

    def __getitem__(self, sql: str) -> PlanColumn:
        return self._known[sql]

    def types(self, names: Iterable[str]) -> dict[str, SqlType]:
        return {name: self._known[name].type for name in names}


@dataclass(frozen=True)
class Item:
    """A named column of an input. `tree` is over the stream's columns, or the column `c<id>` of a node."""

    name: str
    tree: exp.Expr
    type: SqlType


@dataclass(frozen=True)
class RowCount:
    """The size of a count-based window, and the columns of the stream that it is partitioned by."""

    size: int
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class StreamView:
    """Selection and projection over a window of one stream. The trees of items and predicates are Spark SQL over the
    stream's columns, quoted. `rows`: the window is count-based; then `lifetime` only says whether it is INTERNAL."""

    stream: StreamDef
    attribute: Attribute
    lifetime: Lifetime
    items: tuple[Item, ...]
    predicates: tuple[str, ...] = ()
    rows: RowCount | None = None
    alias: str | None = None


Relation = StreamView | Node
"""What a query in FROM is."""


def quoted(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def named_column(column: PlanColumn) -> exp.Column:
    return exp.column(column.sql)


@dataclass
class StreamInput:
    """A window over a stream. Columns are made as they are asked for; `node` keeps those that are used."""

    alias: str
    view: StreamView
    columns: Columns
    predicates: list[str] = field(default_factory=list)
    _made: dict[str, StreamColumn] = field(default_factory=dict)
    _types: dict[str, SqlType] = field(default_factory=dict)

    @property
    def items(self) -> Sequence[Item]:
        return self.view.items

    @property
    def called(self) -> str:
        """What it is called in errors."""
        return f"stream '{self.view.stream.name}'"

    def spark(self, tree: exp.Expr, items: Mapping[str, Item]) -> exp.Expr:
        """The tree over the stream's own columns, for a tree over `items` (in lower case)."""

        def replaced(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            found = items[node.name.lower()].tree.copy()
            return found if isinstance(found, (exp.Column, exp.Literal)) else exp.paren(found, copy=False)

        return tree.copy().transform(replaced).unnest()

    def type_of(self, sql: str, types_of: TypesOf) -> SqlType:
        known = {shown(quoted(name)): kind for name, kind in self.view.stream.columns}
        if sql not in self._types:
            self._types[sql] = known[sql] if sql in known else types_of(self.view.stream.columns, [sql])[0]
        return self._types[sql]

    def column(self, sql: str, kind: SqlType, name: str) -> PlanColumn:
        """The plan column that Spark computes by `sql`."""
        if sql not in self._made:
            text = as_valid_text(sql, kind, self.view.stream.columns)
            self._made[sql] = StreamColumn(self.columns.new(name, kind), text)
        return self._made[sql].column

    def node(self, used: Collection[str]) -> Node:
        if self.view.rows is not None:
            return self._rows_window(self.view.rows, used)
        made = tuple(one for one in self._made.values() if one.column.sql in used)
        return stream_window(self.view, made, self.predicates)

    def _rows_window(self, rows: RowCount, used: Collection[str]) -> Node:
        """A count-based window counts every tuple, so its predicates are columns that Spark computes, and stand in a
        selection above it."""
        stream = self.view.stream
        partition = [self.column(shown(quoted(name)), stream.type_of(name), name) for name in rows.partition]
        texts = dict.fromkeys((*self.view.predicates, *self.predicates))
        passed = [self.column(text, SqlType("BOOLEAN"), text.lower()) for text in texts]
        wanted = {*used, *(column.sql for column in (*partition, *passed))}
        made = tuple(one for one in self._made.values() if one.column.sql in wanted)
        keys = tuple(dict.fromkeys(partition))
        is_internal = self.view.lifetime.internal
        window = RowsWindow(stream.name, self.view.attribute, rows.size, keys, made, self.view.alias, is_internal)
        return Filter(window, both([named_column(column) for column in passed])) if passed else window


@dataclass
class PlanInput:
    """A part of the plan, with the conditions on it alone."""

    alias: str
    part: Node
    predicates: list[exp.Expr] = field(default_factory=list)
    of_table: str | None = None
    """The name of the table that it is."""
    nrr: str | None = None
    """The same, if the table is NON RETROACTIVE."""

    @property
    def items(self) -> Sequence[Item]:
        return [Item(column.name, named_column(column), column.type) for column in self.part.schema]

    @property
    def called(self) -> str:
        if self.of_table is not None:
            return f"table '{self.of_table}'"
        return f"sub-query '{self.alias}'" if self.alias else "the sub-query"

    def node(self, used: Collection[str]) -> Node:
        return Filter(self.part, both(self.predicates)) if self.predicates else self.part


Input = StreamInput | PlanInput


def both(predicates: Sequence[exp.Expr]) -> exp.Expr:
    """The conjunction of predicates."""
    return exp.and_(*predicates, copy=False)


def stream_window(view: StreamView, columns: tuple[StreamColumn, ...], more: Sequence[str] = ()) -> StreamWindow:
    texts = list(dict.fromkeys((*view.predicates, *more)))
    predicate = texts[0] if len(texts) == 1 else " AND ".join(f"({text})" for text in texts)
    return StreamWindow(view.stream.name, view.attribute, view.lifetime, columns, predicate or None, view.alias)


def names_of(relation: Relation) -> list[str]:
    """The names of a relation's columns."""
    return [one.name for one in (relation.items if isinstance(relation, StreamView) else relation.schema)]


def node_of(relation: Relation, columns: Columns) -> Node:
    """The relation as a node of the plan."""
    if not isinstance(relation, StreamView):
        return relation
    taken = StreamInput("", relation, columns)
    chosen = [taken.column(shown(item.tree), item.type, item.name) for item in relation.items]
    window = taken.node({column.sql for column in chosen})
    if [column.name for column in window.schema] == [item.name for item in relation.items]:
        return window
    return Project(
        window,
        tuple(
            Computed(columns.new(item.name, item.type), named_column(column))
            for item, column in zip(relation.items, chosen, strict=True)
        ),
    )
