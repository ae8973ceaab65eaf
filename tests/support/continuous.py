"""Continuous plans built by hand, and runs of them in any batches, with or without a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from windrow.cql.select_text import parse_expression
from windrow.operators.advance import advance
from windrow.operators.changes import changes_schema, in_order
from windrow.operators.layouts.parts import StatePart
from windrow.operators.relations.table_scan import TableRows
from windrow.operators.scan import ARRIVED, StreamRows, needs_history, split, stored_schema
from windrow.operators.sharing.subplans import CompactedOnce
from windrow.operators.state import PlanState, compacted, restore
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import DueTicks
from windrow.operators.view import LiveView
from windrow.plan.accumulators import Key
from windrow.plan.aggregates import decompose
from windrow.plan.algebra.nodes import (
    Aggregated,
    Computed,
    ContinuousPlan,
    Filter,
    GroupBy,
    Join,
    Lifetime,
    MergeUnion,
    Node,
    OuterJoin,
    PlanColumn,
    Project,
    RowsWindow,
    SemiJoin,
    SetKind,
    SetOperation,
    StreamColumn,
    StreamWindow,
    TopRows,
)
from windrow.plan.nodes import Attribute, Order
from windrow.reference.window_operators import History, WindowOperators
from windrow.types import SqlType

BIGINT, INT, DOUBLE, STRING = SqlType("BIGINT"), SqlType("INT"), SqlType("DOUBLE"), SqlType("STRING")
KERNEL = Kernel()


@dataclass
class Builder:
    """Makes nodes; every column gets an id of its own."""

    ids: int = 0
    names: dict[str, str] = field(default_factory=dict)

    def column(self, name: str, kind: SqlType) -> PlanColumn:
        self.ids += 1
        return PlanColumn(self.ids, name, kind)

    def window(
        self, range_: int | None, columns: dict[str, SqlType], offset: int = 0, internal: bool = False
    ) -> StreamWindow:
        made = tuple(StreamColumn(self.column(name, kind), name) for name, kind in columns.items())
        return StreamWindow("s", Attribute("t", BIGINT), Lifetime(range_, offset, internal), made)

    def filter(self, node: Node, predicate: str) -> Filter:
        return Filter(node, self.tree(node, predicate))

    def project(self, node: Node, **columns: tuple[str, SqlType]) -> Project:
        made = (Computed(self.column(name, kind), self.tree(node, sql)) for name, (sql, kind) in columns.items())
        return Project(node, tuple(made))

    def union(self, *nodes: Node) -> MergeUnion:
        return MergeUnion(nodes, tuple(self.column(c.name, c.type) for c in nodes[0].schema))

    def join(self, *nodes: Node, on: Sequence[str] = (), condition: str | None = None) -> Join:
        """`on` names columns that are in all inputs; `condition` has `$i.name` for column `name` of input i."""
        keys = tuple(tuple(self.tree(node, f"$.{name}") for node in nodes) for name in on)
        tree = None
        if condition is not None:
            for i, node in enumerate(nodes):
                for c in node.schema:
                    condition = condition.replace(f"${i}.{c.name}", c.sql)
            tree = parse_expression(condition)
        return Join(nodes, keys, tree)

    def rows_window(self, size: int, columns: dict[str, SqlType], by: Sequence[str] = ()) -> RowsWindow:
        made = tuple(StreamColumn(self.column(name, kind), name) for name, kind in columns.items())
        partition = tuple(one.column for one in made if one.column.name in by)
        return RowsWindow("s", Attribute("t", BIGINT), size, partition, made)

    def semi_join(
        self, left: Node, right: Node, on: Sequence[str], condition: str | None = None, **more: Any
    ) -> SemiJoin:
        """As `join`."""
        made = self.join(left, right, on=on, condition=condition)
        return SemiJoin(left, right, made.keys, made.condition, **more)

    def outer_join(
        self, left: Node, right: Node, on: Sequence[str], condition: str | None = None, **more: Any
    ) -> OuterJoin:
        """As `join`."""
        made = self.join(left, right, on=on, condition=condition)
        return OuterJoin(left, right, made.keys, made.condition, **more)

    def set_operation(self, left: Node, right: Node, kind: SetKind, is_all: bool) -> SetOperation:
        return SetOperation((left, right), tuple(self.column(c.name, c.type) for c in left.schema), kind, is_all)

    def group_by(self, node: Node, keys: Sequence[str], *calls: tuple[Any, ...]) -> GroupBy:
        """A call is (function, column or None, parameters…)."""
        made = []
        for function, arg, *parameters in calls:
            c = None if arg is None else named(node, arg)
            call = decompose(function, c and c.sql, c and c.type, None, tuple(parameters))
            made.append(Aggregated(self.column(f"{function}_{arg}", call.result), call))
        return GroupBy(node, tuple(named(node, key) for key in keys), tuple(made))

    def top(self, node: Node, by: str, limit: int, descending: bool = False) -> TopRows:
        return TopRows(node, (Order(self.tree(node, by), descending, not descending),), limit)

    def tree(self, node: Node, sql: str) -> Any:
        """An expression; `$.name` is a column of the node."""
        for c in sorted(node.schema, key=lambda one: -len(one.name)):
            sql = sql.replace(f"$.{c.name}", c.sql)
        return parse_expression(sql)


def named(node: Node, name: str) -> PlanColumn:
    return next(c for c in node.schema if c.name == name)


def plan_of(root: Node, step: int = 1) -> ContinuousPlan:
    return ContinuousPlan(root, BIGINT, step)


def batches_of(ticks: Iterable[int], step: int) -> Iterator[DueTicks]:
    """Batches that end at these ticks, the first of which is where the run starts."""
    ends = list(ticks)
    for before, upto in zip(ends, ends[1:], strict=False):
        yield DueTicks(before, upto, step)


def stored(plan: ContinuousPlan, history: History) -> list[pa.Table]:
    """The history, in the order of arrival, as stored tables."""
    out = []
    for window, rows in zip(plan.windows, history, strict=True):
        schema = stored_schema(window)
        numbers = [[number] if ARRIVED in schema.names else [] for number in range(len(rows))]
        told = [(t, *number, *values) for number, (t, values) in zip(numbers, rows, strict=True)]
        columns = list(zip(*told, strict=True)) or [[] for _ in schema]
        out.append(
            pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        )
    return out


def inputs_of(plan: ContinuousPlan, tables: Sequence[pa.Table], due: DueTicks) -> dict[int, StreamRows]:
    found = {}
    for i, (window, table, history) in enumerate(zip(plan.windows, tables, needs_history(plan), strict=True)):
        rows = split(window, table, due)
        found[i] = rows if history else StreamRows(rows.new)
    return found


@dataclass
class Run:
    """What a run made: the changes of each batch, the state and the durable parts at its end."""

    plan: ContinuousPlan
    changes: list[pa.Table] = field(default_factory=list)
    state: PlanState = field(default_factory=PlanState)
    parts: list[StatePart] = field(default_factory=list)
    overflows: int = 0

    @property
    def all_changes(self) -> pa.Table:
        return pa.concat_tables([changes_schema(self.plan.schema).empty_table(), *self.changes])


def run(
    plan: ContinuousPlan,
    history: History,
    ticks: Iterable[int],
    restart: Callable[[int], str | None] = lambda tick: None,
    each: Callable[[Run, int], None] = lambda run, tick: None,
    relations: Callable[[DueTicks], Mapping[str, TableRows]] = lambda due: {},
    **settings: Any,
) -> Run:
    """Run a plan in batches that end at these ticks. `relations`: what a batch reads of tables, by path.

    `restart(tick)`: None, or 'parts' (restore from all parts) or 'compacted' (from parts that replace them, in layouts
    that may have changed).
    """
    out, tables = Run(plan), stored(plan, history)
    for due in batches_of(ticks, plan.step):
        inputs = inputs_of(plan, tables, due)
        done = advance(plan, out.state, inputs, due, KERNEL, relations=relations(due), **settings)
        out.changes.append(in_order([done.changes]))
        out.state = done.state
        out.parts += done.parts
        out.overflows += done.overflows
        each(out, due.upto)
        how = restart(due.upto)
        if how is not None:
            out.state = CompactedOnce().relaid(plan, out.state) if how == "compacted" else out.state
            out.parts = compacted(out.state) if how == "compacted" else out.parts
            out.parts = [part for part in out.parts if not part.is_expired(due.upto)]
            out.state = restore(plan, out.parts, due.upto)
    return out


def replayed(changes: pa.Table, tick: int) -> Counter[Any]:
    """R(tick) by the definition of changes: what came up to the tick and was not withdrawn, with ts < tick ≤ exp.

    A withdrawal takes a row with equal values and exp; there must be one.
    """
    there: dict[Any, list[tuple[int, int]]] = {}
    for op, at, ts, exp, *values in rows_of(changes):
        if at > tick:
            continue
        rows, end = there.setdefault(plain(values), []), 1 << 62 if exp is None else exp
        if op == "+":
            rows.append((end, ts))
        else:
            rows.remove(next(row for row in rows if row[0] == end))
    return Counter({v: n for v, rows in there.items() if (n := sum(ts < tick <= exp for exp, ts in rows))})


def batch_ends(plan: ContinuousPlan, drawn: Iterable[int], last: int) -> list[int]:
    """Where batches end: 0, some ticks, and the last one, which is not before `last`."""
    inner = {tick * plan.step for tick in drawn if 0 < tick * plan.step < last}
    return [0, *sorted(inner), -(-last // plan.step) * plan.step]


def assert_by_definition(plan: ContinuousPlan, history: History, changes: pa.Table, last: int) -> None:
    """The changes, replayed at every tick, are the answers by definition."""
    naive = WindowOperators(plan, history, plan.step)
    for tick in range(plan.step, last + 1, plan.step):
        assert replayed(changes, tick) == counted(naive.answer(tick)), tick


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def shown(table: pa.Table) -> list[str]:
    """The rows as texts, which are equal for NaNs and for zeros of either sign: a withdrawal may bring the other zero."""
    return [repr(tuple(x + 0.0 if isinstance(x, float) else x for x in row)) for row in rows_of(table)]


def plain(value: Any) -> Any:
    """A value that can be compared: doubles to nine digits, one NaN and one zero."""
    if isinstance(value, float):
        return "nan" if value != value else f"{value + 0.0:.9g}"
    if isinstance(value, list | tuple):
        return tuple(plain(one) for one in value)
    if isinstance(value, dict):
        return tuple((name, plain(one)) for name, one in value.items())
    return value


def viewed(view: LiveView, tick: int) -> Counter[Any]:
    return Counter(plain(values) for values in rows_of(view.at(tick)))


def counted(rows: Iterable[Any]) -> Counter[Any]:
    return Counter(plain(values) for values in rows)


def key_of(column: PlanColumn) -> Key:
    return Key(column.sql, column.type)
