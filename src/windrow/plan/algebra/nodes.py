"""The nodes of a continuous plan, over sets of lifetimes.

Every row of an edge has a lifetime [ts, exp): it is in the answer of tick b if ts < b ≤ exp, unless it is withdrawn
before (negation, outer joins, set operations, count-based windows, group-by, LIMIT). An expression is a sqlglot
tree in which the column `c7` is the plan column with id 7. Ids are unique within a plan; a rule that moves an
expression need not rename anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from sqlglot import exp

from windrow.plan.accumulators import AggregateCall
from windrow.plan.nodes import Attribute, Order
from windrow.types import SqlType


@dataclass(frozen=True)
class PlanColumn:
    """A column of an edge. `name` is what the user reads, `id` what the plan uses."""

    id: int
    name: str
    type: SqlType

    @property
    def sql(self) -> str:
        """Its name in expressions and in the tables of an edge."""
        return f"c{self.id}"


@dataclass(frozen=True)
class Lifetime:
    """The window over a stream or a sub-query: a tuple with point t lives [t + offset, t + offset + range).

    `range` None: it never expires. `internal`: it expires from the state, but results made of it stay in the output
    (Golab's dissertation, section 3.3.2). `since`: the window holds no tuple below this point; a predicate drops them.
    """

    range: int | None
    offset: int = 0
    internal: bool = False
    since: int | None = None
    is_now: bool = field(default=False, compare=False, repr=False)
    """Whether the user wrote [NOW], which changes no answer."""

    def __post_init__(self) -> None:
        if (self.range is not None and self.range <= 0) or self.offset < 0:
            raise ValueError("a window has a positive RANGE, and an OFFSET that is not negative")


@dataclass(frozen=True)
class Computed:
    """A column and the expression over the input's columns that computes it."""

    column: PlanColumn
    expression: exp.Expr

    @property
    def is_renamed(self) -> bool:
        """Whether it is just a column of the input."""
        return isinstance(self.expression, exp.Column)


@dataclass(frozen=True)
class StreamColumn:
    """A column that Spark computes of a stream's tuple on arrival: `sql` is Spark SQL over the stream's columns."""

    column: PlanColumn
    sql: str


@dataclass(frozen=True)
class StreamWindow:
    """A window over a stream, and the columns that the plan needs of its tuples.

    `predicate` is Spark SQL over the stream's columns; only tuples for which it is true are kept. Two windows over one
    stream (a self-join) are two nodes with different column ids.
    """

    stream: str
    attribute: Attribute
    lifetime: Lifetime
    columns: tuple[StreamColumn, ...]
    predicate: str | None = None
    alias: str | None = field(default=None, compare=False, repr=False)
    """What the user calls it, which changes no answer."""

    @property
    def called(self) -> str:
        return self.alias or self.stream

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return tuple(one.column for one in self.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class RowsWindow:
    """A count-based window over a stream: the last `size` tuples below the tick by (point, arrival number), of each
    combination of values of `partition` if that is not empty.

    Every tuple counts, so there is no predicate: a selection stands above the window. When a tuple leaves depends on
    those that come later.
    """

    stream: str
    attribute: Attribute
    size: int
    partition: tuple[PlanColumn, ...]
    columns: tuple[StreamColumn, ...]
    alias: str | None = field(default=None, compare=False, repr=False)
    """What the user calls it, which changes no answer."""
    internal: bool = False
    """Whether the values of an aggregate over it stay. The binder replaces such a window: a plan has none."""

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise ValueError("a count-based window has at least one row")
        if any(column not in self.schema for column in self.partition):
            raise ValueError("a count-based window is partitioned by its own columns")

    @property
    def called(self) -> str:
        return self.alias or self.stream

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return tuple(one.column for one in self.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def predicate(self) -> None:
        """A count-based window keeps every tuple."""
        return None

    @property
    def lifetime(self) -> Lifetime:
        """Nothing is known of the end of a tuple when it comes."""
        return Lifetime(None, internal=self.internal)


@dataclass(frozen=True)
class _OverOne:
    """A node over one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class _SameColumns(_OverOne):
    """One that shows the columns of its input."""

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return self.input.schema


@dataclass(frozen=True)
class Filter(_SameColumns):
    """Selection: the rows for which the predicate is true."""

    predicate: exp.Expr


@dataclass(frozen=True)
class Project(_OverOne):
    """Projection. It keeps duplicates and lifetimes."""

    columns: tuple[Computed, ...]

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return tuple(one.column for one in self.columns)


@dataclass(frozen=True)
class MergeUnion:
    """UNION ALL: column i of every input becomes column i of `columns`. The types are equal."""

    inputs: tuple[Node, ...]
    columns: tuple[PlanColumn, ...]

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise ValueError("a union has at least two inputs")
        types = [tuple(column.type for column in one.schema) for one in self.inputs]
        if any(one != tuple(column.type for column in self.columns) for one in types):
            raise ValueError("the inputs of a union have the same types")

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return self.columns


MOST_INPUTS = 8
"""The most inputs of a join."""


@dataclass(frozen=True)
class Join:
    """Inner join of two to eight inputs.

    keys[k][i] is the k-th key of input i: the keys of all inputs are equal, and of one type; a NULL equals nothing.
    Without keys it is a product. `condition` is over the columns of all inputs. A result lives from the latest ts to
    the earliest exp of its parts. `reused` are inputs that are DISTINCT, perhaps below selections and projections,
    whose rows the join reads from the state of δ* instead of keeping them itself.
    """

    inputs: tuple[Node, ...]
    keys: tuple[tuple[exp.Expr, ...], ...] = ()
    condition: exp.Expr | None = None
    reused: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 2 <= len(self.inputs) <= MOST_INPUTS:
            raise ValueError("a join has two to eight inputs")
        if any(len(key) != len(self.inputs) for key in self.keys):
            raise ValueError("a join key has an expression for every input")
        if any(distinct_below(self.inputs[i]) is None for i in self.reused):
            raise ValueError("a join reads the state of a DISTINCT")

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return tuple(column for one in self.inputs for column in one.schema)


Key = tuple[exp.Expr, exp.Expr]
"""Expressions over the left and over the right input, of one type."""


@dataclass(frozen=True)
class SemiJoin:
    """The rows of `left` at the ticks at which a matching row of `right` is alive; `is_anti`: at which none is.

    Rows match if their keys are equal and the condition, over the columns of both, is true. A NULL key equals nothing,
    except that NULL equals NULL where `null_safe` says so, which is empty or has an entry for every key. A row keeps
    the exp that it has in `left`, and is withdrawn before it when its matches change.
    """

    left: Node
    right: Node
    keys: tuple[Key, ...] = ()
    condition: exp.Expr | None = None
    is_anti: bool = False
    null_safe: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if any(len(key) != 2 for key in self.keys):
            raise ValueError("a key has an expression for either input")
        if self.null_safe and len(self.null_safe) != len(self.keys):
            raise ValueError("null_safe has an entry for every key, or none")

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return self.left.schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class OuterJoin:
    """The results of the inner join, and the rows of a kept side at the ticks at which they have no match, with NULL in
    the columns of the other side. Keys and condition are as in a semi-join; a NULL key equals nothing.

    LEFT keeps the left side, RIGHT the right one, FULL both.
    """

    left: Node
    right: Node
    keys: tuple[Key, ...] = ()
    condition: exp.Expr | None = None
    keeps_left: bool = True
    keeps_right: bool = False

    def __post_init__(self) -> None:
        if any(len(key) != 2 for key in self.keys):
            raise ValueError("a key has an expression for either input")
        if not (self.keeps_left or self.keeps_right):
            raise ValueError("an outer join keeps a side; one that keeps none is a Join")

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return (*self.left.schema, *self.right.schema)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table, under the name that it has there."""

    column: PlanColumn
    name: str


@dataclass(frozen=True)
class TableScan:
    """The rows of a table at every tick. INSERT, UPDATE and DELETE come as changes at the tick at which they take
    effect; nobody can predict when a row goes."""

    table: str
    columns: tuple[TableColumn, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("a scan of a table has a column, by which its rows are counted")

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return tuple(one.column for one in self.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class NrrJoin:
    """The join with a table that is NON RETROACTIVE: each new row of `input` meets the version of `table` as of its
    first tick. A result keeps the lifetime of that row, whatever becomes of the table (Golab's dissertation, section
    3.3.1).

    Rows match if their keys are equal, a NULL equals nothing, and the condition is true. `is_left`: a row without a
    match gives a result, too, with NULL in the columns of the table.
    """

    input: Node
    table: Node
    keys: tuple[Key, ...] = ()
    condition: exp.Expr | None = None
    is_left: bool = False

    def __post_init__(self) -> None:
        if any(len(key) != 2 for key in self.keys):
            raise ValueError("a key has an expression for either input")

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return (*self.input.schema, *self.table.schema)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.table)


class SetKind(Enum):
    """Set operations beside UNION."""

    EXCEPT = "except"
    INTERSECT = "intersect"


@dataclass(frozen=True)
class SetOperation:
    """EXCEPT and INTERSECT of two inputs: column i of both becomes column i of `columns`. The types are equal.

    With l and r rows of a value at a tick (NULL equals NULL), the value is there

        EXCEPT ALL: max(0, l − r) times         EXCEPT: once, if l > 0 and r = 0
        INTERSECT ALL: min(l, r) times          INTERSECT: once, if l > 0 and r > 0
    """

    inputs: tuple[Node, ...]
    columns: tuple[PlanColumn, ...]
    kind: SetKind
    is_all: bool = False

    def __post_init__(self) -> None:
        if len(self.inputs) != 2:
            raise ValueError("a set operation has two inputs")
        types = [tuple(column.type for column in one.schema) for one in self.inputs]
        if any(one != tuple(column.type for column in self.columns) for one in types):
            raise ValueError("the inputs of a set operation have the same types")

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return self.columns


@dataclass(frozen=True)
class Distinct(_SameColumns):
    """Duplicate elimination over all columns."""


@dataclass(frozen=True)
class Aggregated:
    """A column and the aggregate that computes it. Arguments and conditions of its accumulators are texts over the
    columns of the input: `c7`, or an expression of such."""

    column: PlanColumn
    call: AggregateCall


@dataclass(frozen=True)
class GroupBy(_OverOne):
    """Group-by with aggregates. The keys are columns of the input. Without keys there is always exactly one row."""

    keys: tuple[PlanColumn, ...]
    aggregates: tuple[Aggregated, ...]

    def __post_init__(self) -> None:
        if any(key not in self.input.schema for key in self.keys):
            raise ValueError("a group key is a column of the input")

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return (*self.keys, *(one.column for one in self.aggregates))


@dataclass(frozen=True)
class OutputWindow(_SameColumns):
    """A window over the output of a sub-query, which is MONOTONIC: a result born at ts lives [ts, ts + range)."""

    lifetime: Lifetime


class Expiring(Enum):
    """How operators learn that a row of a window has expired, where a whole plan is run one way."""

    NEGATIVE = "negative"
    DIRECT = "direct"


@dataclass(frozen=True)
class WindowExpiry(_SameColumns):
    """Stands above a window in a plan that is run one way (Golab's dissertation, section 2.3.3).

    NEGATIVE: a row that expires is withdrawn by a negative tuple, and no row says when it ends. DIRECT: rows go on as
    they are, and the operators above find the expired ones by scanning what they keep. Without this node operators do
    what suits the update pattern of each edge.
    """

    how: Expiring


@dataclass(frozen=True)
class OutputRows(_SameColumns):
    """A count-based window over the output of a sub-query, which is MONOTONIC: the last `size` results born below the
    tick, by (ts, then all columns). When a result leaves depends on those that come later."""

    size: int

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise ValueError("a count-based window has at least one row")

    @property
    def partition(self) -> tuple[PlanColumn, ...]:
        """All results are counted together."""
        return ()


class Streaming(Enum):
    """Relation-to-stream operators."""

    ISTREAM = "istream"
    DSTREAM = "dstream"
    RSTREAM = "rstream"


@dataclass(frozen=True)
class ToStream(_SameColumns):
    """What came (ISTREAM), what went (DSTREAM), or all that is there (RSTREAM) at every tick.

    `restores`: what came and went between two ticks is reported, too. Then everything below, down to the next such
    node, is evaluated at every instant, not only at ticks (Golab's dissertation, section 3.3.4).
    """

    kind: Streaming
    restores: bool = False

    def __post_init__(self) -> None:
        if self.restores and self.kind is Streaming.DSTREAM:
            raise ValueError("DSTREAM does not restore")

    @property
    def words(self) -> str:
        """What a user writes for it."""
        return f"{self.kind.name} RESTORE" if self.restores else self.kind.name


@dataclass(frozen=True)
class TopRows(_SameColumns):
    """ORDER BY with LIMIT: the first `limit` rows of every tick. Ties are broken by all columns."""

    order: tuple[Order, ...]
    limit: int

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise ValueError("LIMIT is not negative")


Window = StreamWindow | RowsWindow
"""A window over a stream, which is read from a window store."""

Node = (
    StreamWindow
    | RowsWindow
    | Filter
    | Project
    | MergeUnion
    | Join
    | SemiJoin
    | OuterJoin
    | TableScan
    | NrrJoin
    | SetOperation
    | Distinct
    | GroupBy
    | OutputWindow
    | WindowExpiry
    | OutputRows
    | ToStream
    | TopRows
)


@dataclass(frozen=True)
class ContinuousPlan:
    """The plan of a continuous query.

    It ticks at `origin` + multiples of `step`, in points of the attribute's type `point`. `periodic`: the query has a
    SLIDE, which is `step`; its answer at every tick is delivered as the answer to a window. `order` sorts the view.
    """

    root: Node
    point: SqlType
    step: int
    origin: int = 0
    periodic: bool = False
    order: tuple[Order, ...] = ()

    def __post_init__(self) -> None:
        if self.step <= 0:
            raise ValueError("a plan ticks by a positive step")

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return self.root.schema

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """Its windows over streams, from left to right."""
        return tuple(node for node in walk(self.root) if isinstance(node, Window))

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that it reads."""
        return tuple(dict.fromkeys(node.table for node in walk(self.root) if isinstance(node, TableScan)))

    @cached_property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(window.stream for window in self.windows))


def distinct_below(node: Node) -> Distinct | None:
    """The DISTINCT below selections and projections; None if there is another operator."""
    while isinstance(node, Filter | Project):
        node = node.input
    return node if isinstance(node, Distinct) else None


def walk(node: Node) -> Iterator[Node]:
    """The nodes below and including this one, inputs first, from left to right."""
    for one in node.inputs:
        yield from walk(one)
    yield node


def columns_in(expression: exp.Expr) -> frozenset[str]:
    """The names of the plan columns (`c7`) that an expression reads."""
    return frozenset(column.name for column in expression.find_all(exp.Column))
