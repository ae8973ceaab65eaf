"""Advances a continuous plan over all ticks that are due.

    advance(plan, state before, new tuples, due) = (state after, changes)

A pure function: it changes none of its arguments, and a call that fails leaves nothing behind. The changes do not
depend on how the ticks were batched.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from windrow.operators.changes import Reported, report, report_expiry
from windrow.operators.distinct import distinct
from windrow.operators.group_by import CELLS, group_by
from windrow.operators.join import Kept, Reused, Stored, join
from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.parts import StatePart
from windrow.operators.layouts.queue import RowQueue
from windrow.operators.layouts.row_list import RowList
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.merge_union import merge_union
from windrow.operators.negation.outer_join import outer_join
from windrow.operators.negation.output_rows import output_rows
from windrow.operators.negation.rows_window import COUNTED, rows_window
from windrow.operators.negation.semi_join import semi_join
from windrow.operators.negation.set_operation import LEAVING, set_operation
from windrow.operators.negation.sides import Side
from windrow.operators.output_window import output_window
from windrow.operators.projection import project
from windrow.operators.relations.nrr_join import nrr_join
from windrow.operators.relations.table_scan import TableRows, scan_table
from windrow.operators.scan import StreamRows, scan, stored_schema, window_of
from windrow.operators.selection import select
from windrow.operators.stages.cutting import Stage, windows_below
from windrow.operators.state import (
    OUTPUT,
    ROOT,
    PlanState,
    empty_tables,
    has_ends,
    has_internal,
    is_direct,
    is_internal,
    keeps_live_rows,
    reads_live_rows,
)
from windrow.operators.strategies.direct_distinct import CAME, direct_distinct
from windrow.operators.strategies.negative_tuples import negative_tuples
from windrow.operators.strict.distinct import LIVE, counting_distinct
from windrow.operators.strict.group_by import ROWS, group_live_rows
from windrow.operators.strict.join import Alive, strict_join
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.metering import PlanMeter
from windrow.operators.tables.permit import permit_of_thread
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import EXP, DueTicks
from windrow.operators.to_stream import to_stream
from windrow.operators.top_rows import SHOWN, top_rows
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Expiring,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    OutputRows,
    OutputWindow,
    Project,
    RowsWindow,
    SemiJoin,
    SetOperation,
    StreamWindow,
    TableScan,
    TopRows,
    ToStream,
    Window,
    WindowExpiry,
    distinct_below,
)
from windrow.types import SqlType


@dataclass(frozen=True)
class Advance:
    """The changes of a batch of ticks, the state after it, and the parts of state that must be made durable."""

    changes: pa.Table
    state: PlanState
    parts: tuple[StatePart, ...]
    edges: Mapping[str, Edge] = field(default_factory=dict)
    """By path, the outputs that were asked for. Their `overflows` are those of all nodes below, too."""
    overflows: int = 0
    """How many values are NULL because they do not fit."""


def advance(
    plan: ContinuousPlan,
    state: PlanState,
    inputs: Mapping[int, StreamRows],
    due: DueTicks,
    kernel: Kernel,
    explicit_expiry: bool = False,
    meter: PlanMeter | None = None,
    given: Mapping[str, Edge] | None = None,
    relations: Mapping[str, TableRows] | None = None,
    asked: Collection[str] = (),
) -> Advance:
    """Process all due ticks. `inputs[i]` are the tuples of `plan.windows[i]`; a window without tuples may be missing.

    `explicit_expiry` adds a '-' at the tick at which a row expires. `meter` counts what the operators do. `given`: by
    path, the output of nodes that were processed before, by `emit`. `relations`: by path, what is read of tables.
    `asked`: the paths whose outputs are wanted, too.
    Raises ValueError if the due ticks do not follow those of the state.
    """
    if state.ticked is not None and state.ticked != due.before:
        raise ValueError(f"the plan has ticked at {state.ticked}, and the due ticks begin after {due.before}")
    batch = TickBatch(due, kernel, has_internal(plan))
    run = _Run(plan, state, inputs, batch, meter or PlanMeter(), given or {}, relations or {}, asked)
    edge = run.edge(plan.root, ROOT)
    if explicit_expiry and has_ends(plan.root):
        reported = report_expiry(edge, OUTPUT, run.table(OUTPUT), due)
    else:
        reported = report(edge, due)
    return run.result(reported)


@dataclass(frozen=True)
class Emission:
    """The output of a part of a plan, the state of its operators after it, and the parts that must be made durable."""

    edge: Edge
    state: PlanState
    parts: tuple[StatePart, ...]
    edges: Mapping[str, Edge] = field(default_factory=dict)
    overflows: int = 0


def emit(
    plan: ContinuousPlan,
    stage: Stage,
    state: PlanState,
    inputs: Mapping[int, StreamRows],
    given: Mapping[str, Edge],
    due: DueTicks,
    kernel: Kernel,
    meter: PlanMeter,
    relations: Mapping[str, TableRows] | None = None,
    asked: Collection[str] = (),
) -> Emission:
    """Process all due ticks in a stage that is not the last; the arguments are those of `advance`."""
    batch = TickBatch(due, kernel, has_internal(plan))
    run = _Run(plan, state, inputs, batch, meter, given, relations or {}, asked, windows=stage.first)
    run.on_grid(stage.at_instants)
    edge = run.edge(stage.node, stage.path)
    return Emission(edge, run.state_after, tuple(run.parts), run.edges, run.overflows)


def joined(join: Join, inputs: Mapping[int, StreamRows], due: DueTicks, kernel: Kernel, has_until: bool) -> Edge:
    """The new results of a join that reads nothing but windows. `has_until`: the plan that it is for sees INTERNAL
    windows."""
    plan = ContinuousPlan(join, SqlType("BIGINT"), due.step, due.origin)
    return _Run(plan, PlanState(), inputs, TickBatch(due, kernel, has_until), PlanMeter(), {}).edge(join, ROOT)


@dataclass
class _Run:
    """One call of `advance`: gathers what operators give."""

    plan: ContinuousPlan
    state: PlanState
    inputs: Mapping[int, StreamRows]
    batch: TickBatch
    meter: PlanMeter
    given: Mapping[str, Edge]
    relations: Mapping[str, TableRows] = field(default_factory=dict)
    asked: Collection[str] = ()
    edges: dict[str, Edge] = field(default_factory=dict)
    after: dict[str, StateTable] = field(default_factory=dict)
    parts: list[StatePart] = field(default_factory=list)
    windows: int = 0
    overflows: int = 0
    inputs_s: float = 0.0
    """What the inputs of the node that is being processed have taken so far."""
    ticks: DueTicks = field(init=False)

    def __post_init__(self) -> None:
        self.ticks = self.batch.due

    def on_grid(self, at_instants: bool) -> TickBatch:
        """Evaluate what follows at every instant, or at ticks; returns how it was before."""
        before = self.batch
        self.batch = replace(before, due=self.ticks.instants if at_instants else self.ticks)
        return before

    def table(self, path: str) -> StateTable:
        found = self.state.tables.get(path)
        return empty_tables(self.plan)[path] if found is None else found

    def keyed(self, path: str) -> Keyed:
        found = self.table(path)
        assert isinstance(found, Keyed)
        return found

    def calendar(self, path: str) -> Calendar:
        found = self.table(path)
        assert isinstance(found, Calendar)
        return found

    def listed(self, path: str) -> RowList:
        found = self.table(path)
        assert isinstance(found, RowList)
        return found

    def edge(self, node: Node, path: str) -> Edge:
        """The new rows of a node, metered."""
        if path in self.given:
            self.windows += windows_below(node)
            return self._counted(self.given[path])
        permit_of_thread().check()
        started, before, beside = time.perf_counter(), self.overflows, self.inputs_s
        self.inputs_s = 0.0
        edge = self._counted(self._edge(node, path))
        # Table.nbytes would be exact for slices, and costs a hundred times as much.
        nbytes, took = edge.rows.get_total_buffer_size(), time.perf_counter() - started
        self.meter.add(path, edge.rows.num_rows, nbytes, took - self.inputs_s)
        self.inputs_s = beside + took
        if path in self.asked:
            self.edges[path] = replace(edge, overflows=self.overflows - before)
        return edge

    def _counted(self, edge: Edge) -> Edge:
        """The edge without its overflows, which are counted once: operators above may hand them on."""
        self.overflows += edge.overflows
        return replace(edge, overflows=0) if edge.overflows else edge

    def _edge(self, node: Node, path: str) -> Edge:
        if isinstance(node, StreamWindow):
            return scan(node, self._stored(node).new, self.batch.has_until)
        if isinstance(node, TableScan):
            return scan_table(node, self.relations.get(path), self.batch.due)
        if isinstance(node, RowsWindow):
            tables = self.keyed(path), self.keyed(path + COUNTED)
            return self._kept(rows_window(node, self._stored(node).new, path, *tables, self.batch))
        if isinstance(node, Join):
            return self._join(node, path)
        if isinstance(node, SemiJoin | OuterJoin):
            return self._kept(self._negated(node, *(self._side(node, i, path) for i in (0, 1))))
        if isinstance(node, NrrJoin):
            return self._nrr_join(node, path)
        if isinstance(node, ToStream):
            return self._to_stream(node, path)
        edges = [self.edge(one, f"{path}.{i}") for i, one in enumerate(node.inputs)]
        return self._kept(self._step(node, edges, path))

    def _negated(self, node: SemiJoin | OuterJoin, left: Side, right: Side) -> Outcome:
        if isinstance(node, SemiJoin):
            return semi_join(node, left, right, self.batch)
        return outer_join(node, left, right, self.batch)

    def _kept(self, step: Outcome) -> Edge:
        self._keep(step.tables, step.parts)
        return step.edge

    def _step(self, node: Node, edges: list[Edge], path: str) -> Outcome:
        batch, edge = self.batch, edges[0]
        if isinstance(node, Filter):
            return Outcome(select(node, edge, batch.kernel))
        if isinstance(node, Project):
            return Outcome(project(node, edge, batch.kernel))
        if isinstance(node, MergeUnion):
            return Outcome(merge_union(node, edges, batch.due))
        if isinstance(node, WindowExpiry):
            is_negative = node.how is Expiring.NEGATIVE
            return negative_tuples(edge, path, self.calendar(path), batch.due) if is_negative else Outcome(edge)
        if isinstance(node, SetOperation):
            return set_operation(node, edges, path, self.keyed(path), self.calendar(path + LEAVING), batch)
        if isinstance(node, Distinct):
            return self._distinct(node, edge, path)
        if isinstance(node, GroupBy):
            return self._group_by(node, edge, path)
        if isinstance(node, OutputWindow):
            queue = self.table(path)
            assert isinstance(queue, RowQueue) and not edge.is_strict  # only what is MONOTONIC can be windowed
            return output_window(node, edge, path, queue, batch)
        if isinstance(node, OutputRows):
            assert not edge.is_strict
            return output_rows(node, edge, path, self.keyed(path), self.keyed(path + COUNTED), batch)
        assert isinstance(node, TopRows)
        return top_rows(node, edge, path, self.table(path), self.keyed(path + SHOWN), batch)

    def _to_stream(self, node: ToStream, path: str) -> Edge:
        around = self.on_grid(node.restores)
        edge = self.edge(node.input, f"{path}.0")
        self.batch = around
        batch = replace(around, due=self.ticks)  # a stream is of ticks, whatever the grid above it
        return self._kept(to_stream(node, edge, path, self.table(path) if keeps_live_rows(node) else None, batch))

    def _distinct(self, node: Distinct, edge: Edge, path: str) -> Outcome:
        if is_direct(node):
            return direct_distinct(node, edge, path, self.listed(path), self.listed(path + CAME), self.batch)
        if not edge.is_strict:
            return distinct(node, edge, path, self.keyed(path), self.batch)
        live = self.table(path + LIVE) if has_ends(node.input) else None
        return counting_distinct(node, edge, path, self.keyed(path), live, self.batch)

    def _group_by(self, node: GroupBy, edge: Edge, path: str) -> Outcome:
        groups, internal = self.keyed(path), is_internal(node)
        if reads_live_rows(node):
            return group_live_rows(node, edge, path, groups, self.table(path + ROWS), self.batch, internal)
        return group_by(node, edge, path, groups, self.calendar(path + CELLS), self.batch, internal)

    def _stored(self, window: Window) -> StreamRows:
        """The tuples of the next window: windows are met from left to right, as in `plan.windows`."""
        at, self.windows = self.windows, self.windows + 1
        found = self.inputs.get(at)
        return StreamRows(stored_schema(window).empty_table()) if found is None else found

    def _join(self, node: Join, path: str) -> Edge:
        new: list[Edge] = []
        old: list[Stored | Kept | Reused | Alive] = []
        for i, one in enumerate(node.inputs):
            first, table = self.windows, f"{path}.{i}/old"
            edge = self.edge(one, f"{path}.{i}")
            new.append(edge)
            window = window_of(one)
            if window is not None:
                rows = self.inputs[first].old if first in self.inputs else None
                if rows is None or not rows.num_rows:
                    self.batch.kernel.indexes.forget(one)
                old.append(Stored(one, stored_schema(window).empty_table() if rows is None else rows))
            elif edge.is_strict:
                old.append(Alive(table, self.table(table)))
            elif i in node.reused:
                old.append(self._reused(one, f"{path}.{i}"))
            else:
                old.append(Kept(one.schema, self._remember(table, edge)))
        if not any(edge.is_strict for edge in new):
            return join(node, new, [one for one in old if not isinstance(one, Alive)], self.batch)
        step = strict_join(node, new, old, self.batch)
        self._keep(step.tables, step.parts)
        return step.edge

    def _reused(self, node: Node, path: str) -> Reused:
        """The rows of an input that is δ*, as of before the batch."""
        found = distinct_below(node)
        assert found is not None
        return Reused(node, found, self.keyed(path + ".0" * _depth(node)))

    def _nrr_join(self, node: NrrJoin, path: str) -> Edge:
        edge = self.edge(node.input, f"{path}.0")
        table = self.relations.get(f"{path}.1" + ".0" * _depth(node.table))
        return self._kept(nrr_join(node, edge, table, self.batch))

    def _side(self, node: SemiJoin | OuterJoin, i: int, path: str) -> Side:
        """An input of a semi-join or an outer join: its new rows, and where the earlier ones are."""
        first, one, keys = self.windows, node.inputs[i], tuple(key[i] for key in node.keys)
        edge = self.edge(one, f"{path}.{i}")
        window, table = window_of(one), f"{path}.{i}/old"
        if window is None:
            return Side(one, edge, keys, table, self.table(table), None)
        rows = self.inputs[first].old if first in self.inputs else None
        return Side(one, edge, keys, table, None, stored_schema(window).empty_table() if rows is None else rows)

    def _remember(self, path: str, edge: Edge) -> Calendar | RowList:
        """Keep the new rows of a join's input for later batches; returns the old ones."""
        kept, upto = self.table(path), self.batch.due.upto
        assert isinstance(kept, Calendar | RowList)
        rows = taken(edge.rows, longs(edge.rows.column(EXP)) > upto)
        self._keep({path: kept.appended(rows).settled(upto)}, tuple(kept.cut(path, rows)))
        return kept

    def _keep(self, tables: Mapping[str, StateTable], parts: tuple[StatePart, ...]) -> None:
        self.after.update(tables)
        self.parts += parts

    def result(self, reported: Reported) -> Advance:
        self._keep(reported.tables, reported.parts)
        return Advance(reported.changes, self.state_after, tuple(self.parts), self.edges, self.overflows)

    @property
    def state_after(self) -> PlanState:
        """Without empty tables, unless their layout was chosen: the durable parts that follow have the same one."""
        tables = {**self.state.tables, **self.after}
        kept = {path: table for path, table in tables.items() if table.count or table.departures is not None}
        return PlanState(kept, self.batch.due.upto)


def _depth(node: Node) -> int:
    """How many selections and projections are above another operator."""
    return 1 + _depth(node.input) if isinstance(node, Filter | Project) else 0
