"""A plan takes the place of another after a tick.

    carry:    sub-plans that both plans have keep their state, and tell which rows of their output are alive
    rebuild:  the new plan is advanced once, up to the tick, over these rows and over what is kept of its other windows

So an operator above a sub-plan that is carried over sees all that is alive, also where the tuples themselves are gone.
Both are pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from sqlglot import exp

from windrow.operators.advance import Advance, advance
from windrow.operators.carrying.live_rows import above_of, from_answer, last_rows, live_rows
from windrow.operators.carrying.matching import (
    SameSubPlan,
    nodes_by_path,
    resized_windows,
    same_subplans,
    windows_by_path,
)
from windrow.operators.changes import stored
from windrow.operators.layouts.choosing import begun
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.steps import StateTable
from windrow.operators.negation.rows_window import COUNTED, Counting, resized
from windrow.operators.relations.table_scan import TableRows
from windrow.operators.scan import POINT, StreamRows, births_end, split
from windrow.operators.state import ROOT, PlanState, empty_tables
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import TS, DueTicks
from windrow.operators.view import beginning
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Join,
    Node,
    OutputRows,
    OutputWindow,
    RowsWindow,
    ToStream,
    Window,
    walk,
)
from windrow.plan.algebra.rewriting import substituted, text_of


@dataclass(frozen=True)
class CarriedState:
    """What a new plan has of the state of an old one after a tick.

    `tables` are the tables of the sub-plans that are carried over, `outputs` the rows of their output that are alive,
    both by paths of the new plan. `windows`: the windows below these, and which windows of the old plan they are; of
    all other windows the tuples must be read again. `lacking`: those of them below a count-based window that has become
    longer, and has no more rows than before. `rebuilt` are the paths of operators whose state is made anew. `is_whole`:
    the plans are the same.
    """

    tables: Mapping[str, StateTable] = field(default_factory=dict)
    outputs: Mapping[str, Edge] = field(default_factory=dict)
    windows: Mapping[int, int] = field(default_factory=dict)
    lacking: frozenset[int] = frozenset()
    rebuilt: tuple[str, ...] = ()
    is_whole: bool = False


def carry(
    old: ContinuousPlan,
    state: PlanState,
    new: ContinuousPlan,
    ticked: int,
    answer: pa.Table | None = None,
    tables_changed: bool = False,
) -> CarriedState:
    """What the new plan has of the old one's state after its last tick. `answer`: the old answer, as stored changes;
    None if it is not kept. `tables_changed`: tables have changed since that tick."""
    same = same_subplans(old, new, tables_changed)
    found = _Carrying(old, state, new, ticked, answer, same, resized_windows(old, new))
    root = same.get(ROOT)
    if root is not None and root.old == ROOT and (answer is None or isinstance(new.root, ToStream)):
        found.take(root, None)
        return found.carried(is_whole=True)
    found.visit(new.root, ROOT)
    return found.carried(is_whole=root is not None and ROOT in found.outputs)


@dataclass
class _Carrying:
    """One call of `carry`."""

    old: ContinuousPlan
    state: PlanState
    new: ContinuousPlan
    ticked: int
    answer: pa.Table | None
    same: Mapping[str, SameSubPlan]
    resized: Mapping[str, SameSubPlan]
    tables: dict[str, StateTable] = field(default_factory=dict)
    outputs: dict[str, Edge] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)
    lacking: set[int] = field(default_factory=set)
    rebuilt: list[str] = field(default_factory=list)

    def visit(self, node: Node, path: str) -> None:
        """Carry the largest sub-plans below a node whose state tells their output."""
        match = self.same.get(path)
        edge = None if match is None else self._output(match)
        if match is not None and edge is not None:
            self.take(match, Edge(match.renamed(edge.rows), node.schema, edge.is_strict))
            return
        if isinstance(node, Counting) and path in self.resized:
            self._take_resized(node, self.resized[path])
            return
        self._rebuild(node, path)
        if isinstance(node, OutputWindow | OutputRows):  # no state tells what was reported at earlier ticks
            for below, one in nodes_by_path(node.input, f"{path}.0"):
                self._rebuild(one, below)
            return
        for i, one in enumerate(node.inputs):
            self.visit(one, f"{path}.{i}")

    def _output(self, match: SameSubPlan) -> Edge | None:
        if match.old == ROOT and self.answer is not None and not isinstance(match.node, ToStream):
            return from_answer(match.node, self.answer, self.ticked)
        back = {new: exp.column(old) for old, new in match.names.items()}
        above, at = above_of(self.new.root, match.new)
        needed = [text_of(substituted(key[at], back)) for key in above.keys] if isinstance(above, Join) else []
        return live_rows(self.old, self.state, match.node, match.old, self.ticked, frozenset(needed))

    def _rebuild(self, node: Node, path: str) -> None:
        own = (path, *(f"{path}.{i}/old" for i in range(len(node.inputs))))
        if any(one in empty_tables(self.new) for one in own):
            self.rebuilt.append(path)

    def _take_resized(self, node: Counting, match: SameSubPlan) -> None:
        """Carry a count-based window over that has had another number of rows."""
        assert isinstance(match.node, Counting)
        before = set(self.windows)
        self.take(match, None)
        ring, counted = self.tables.get(match.new), self.tables.get(match.new + COUNTED)
        if isinstance(ring, Keyed) and isinstance(counted, Keyed):
            self.tables[match.new], is_whole = resized(node, match.node.size, ring, counted)
            self.lacking |= set() if is_whole else self.windows.keys() - before
        self.outputs[match.new] = last_rows(node, self.tables.get(match.new), self.ticked)

    def take(self, match: SameSubPlan, edge: Edge | None) -> None:
        """Carry a sub-plan over."""
        empty = empty_tables(self.new)
        for path, table in self.state.tables.items():
            to = match.within(path)
            if to is not None:
                self.tables[to] = _moved(match, table, empty[to], self.ticked)
        if edge is not None:
            self.outputs[match.new] = edge
        old, new = windows_by_path(self.old), windows_by_path(self.new)
        for path, number in old.items():
            to = match.within(path)
            if to is not None:
                self.windows[new[to]] = number

    def carried(self, is_whole: bool) -> CarriedState:
        windows = self.windows, frozenset(self.lacking)
        return CarriedState(self.tables, self.outputs, *windows, tuple(self.rebuilt), is_whole)


def _moved(match: SameSubPlan, table: StateTable, empty: StateTable, ticked: int) -> StateTable:
    """A table under the names of the new plan."""
    if match.keeps_names and type(table) is type(empty):
        return table
    for part in table.parts("", ticked):
        part = replace(part, rows=match.renamed(part.rows))
        empty = begun(empty, part).appended(part.rows)
    return empty.settled(ticked)


@dataclass(frozen=True)
class RebuiltState:
    """The state of a plan after a tick, and its answer there, as stored changes of that tick; None for a stream, which
    has reported nothing yet."""

    state: PlanState
    answer: pa.Table | None


def rebuild(
    plan: ContinuousPlan,
    carried: CarriedState,
    rows: Mapping[int, pa.Table],
    ticked: int,
    kernel: Kernel,
    explicit_expiry: bool = False,
    relations: Mapping[str, TableRows] | None = None,
) -> RebuiltState:
    """The state of the plan as if it had seen these tuples and what is carried over. `rows`: the stored tuples of the
    windows that are not carried over. `relations`: all rows of the tables, by path."""
    relations = relations or {}
    if not isinstance(plan.root, ToStream):
        done = _advanced(plan, carried.outputs, rows, ticked, kernel, explicit_expiry, relations)
        tables = {**done.state.tables, **carried.tables}
        return RebuiltState(PlanState(tables, ticked), beginning(stored(done.changes), ticked))
    if carried.is_whole:
        return RebuiltState(PlanState(carried.tables, ticked), None)
    if plan.root.restores:  # its state is of instants, and nothing is carried over
        done = _advanced(plan, {}, rows, ticked, kernel, explicit_expiry, relations)
        return RebuiltState(done.state, None)
    # A stream reports the past at no tick: first what it is made of, then that at one tick.
    below, at = replace(plan, root=plan.root.input), f"{ROOT}.0"
    given = {_raised(path): edge for path, edge in carried.outputs.items()}
    inner = _advanced(below, given, rows, ticked, kernel, False, {_raised(p): one for p, one in relations.items()})
    alive = from_answer(below.root, beginning(stored(inner.changes), ticked), ticked)
    outer = _advanced(plan, {at: _at_once(alive, ticked)}, {}, ticked, kernel, explicit_expiry, {})
    lowered = {at + path[len(ROOT) :]: table for path, table in inner.state.tables.items()}
    return RebuiltState(PlanState({**lowered, **outer.state.tables, **carried.tables}, ticked), None)


def _raised(path: str) -> str:
    """The path of a node when the input of the root is the root."""
    return ROOT + path[len(f"{ROOT}.0") :]


def _at_once(edge: Edge, ticked: int) -> Edge:
    """Live rows as if they came at the tick alone."""
    births = pa.array(np.full(edge.rows.num_rows, ticked - 1, np.int64))
    return replace(edge, rows=edge.rows.set_column(edge.rows.column_names.index(TS), TS, births))


def _advanced(
    plan: ContinuousPlan,
    given: Mapping[str, Edge],
    rows: Mapping[int, pa.Table],
    ticked: int,
    kernel: Kernel,
    explicit_expiry: bool,
    relations: Mapping[str, TableRows],
) -> Advance:
    """One batch from the first of these tuples up to the tick."""
    windows, looks_back = plan.windows, any(isinstance(one, OutputWindow | OutputRows) for one in walk(plan.root))
    needed = {i: table if looks_back else _alive(windows[i], table, ticked) for i, table in rows.items()}
    due = DueTicks(_begin(plan, needed, list(given.values()), ticked), ticked, plan.step, plan.origin)
    inputs = {i: StreamRows(split(windows[i], table, due).new) for i, table in needed.items()}
    return advance(plan, PlanState(), inputs, due, kernel, explicit_expiry, given=given, relations=relations)


def _alive(window: Window, rows: pa.Table, ticked: int) -> pa.Table:
    """The tuples that are in the window at the tick; of a count-based one all may be."""
    if isinstance(window, RowsWindow):
        return rows
    births = longs(rows.column(POINT)) + window.lifetime.offset
    return taken(rows, (births < ticked) & (births_end(births, window.lifetime) >= ticked))


def _begin(plan: ContinuousPlan, rows: Mapping[int, pa.Table], edges: Sequence[Edge], ticked: int) -> int:
    """The last tick at or below all births, and below the tick."""
    births = [longs(table.column(POINT)) + plan.windows[i].lifetime.offset for i, table in rows.items()]
    births += [longs(edge.rows.column(TS)) for edge in edges]
    first = min((int(one.min()) for one in births if one.size), default=ticked)
    return min((first - plan.origin) // plan.step * plan.step + plan.origin, ticked - plan.step)
