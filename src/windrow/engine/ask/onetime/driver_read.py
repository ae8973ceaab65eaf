"""A one-time query as a plan that ticks once: its operators are evaluated over the tuples that its windows hold.

All tuples of a window are presented as born just before the instant. So every operator sees one tick, and what it gives
is the relation at that instant: the semantics are those of continuous queries.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.stores import WindowSource
from windrow.engine.ask.onetime.pinning import AskedWindows, Pinning, bounds_at
from windrow.engine.ask.onetime.sources import AskedSources
from windrow.engine.ask.onetime.windowed_read import WindowedRead
from windrow.engine.isolation.interface import PaneRange, Partial, PinnedVersion
from windrow.engine.plans.tables import ordered, view_schema
from windrow.operators.advance import advance
from windrow.operators.changes import HEAD, OP
from windrow.operators.scan import POINT, StreamRows, stored_schema
from windrow.operators.stages.partials import partial_plan
from windrow.operators.state import PlanState
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import DueTicks
from windrow.optimizer.pipeline import OptimizedPlan
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Lifetime,
    Node,
    StreamColumn,
    StreamWindow,
    TableScan,
    TopRows,
    Window,
    walk,
)
from windrow.plan.algebra.rewriting import rewritten
from windrow.plan.nodes import Attribute
from windrow.types import POINT_MIN, SqlType

MOST_REMEMBERED = 1 << 16
"""An answer of at most so many bytes is remembered."""


class DriverRead(WindowedRead):
    """A one-time query whose plan is evaluated in this process."""

    answered_from = "driver"

    def __init__(self, optimized: OptimizedPlan, sources: AskedSources, text: str, pinning: Pinning, kernel: Kernel):
        self.optimized = optimized
        plan = optimized.plan
        super().__init__(AskedWindows(plan.windows, plan.point, plan.step), sources, text, pinning, kernel)
        root, top = _without_limit(plan)
        self._limit = None if top is None else top.limit
        self._once = replace(plan, root=_as_windows(root))
        read = [node for node in walk(plan.root) if isinstance(node, Window | TableScan)]
        self._tables = [node if isinstance(node, TableScan) else None for node in read]
        self._answered: tuple[list[weakref.ref[pa.Table]], pa.Table] | None = None
        self.partial = None if len(read) != 1 or any(self._tables) else partial_plan(root, top)
        """The part of the plan that is evaluated over runs of panes; None: all tuples are needed at once."""

    @property
    def plan(self) -> ContinuousPlan:
        return self.optimized.plan

    @property
    def keeps_partials(self) -> bool:
        return self.partial is not None

    def partials(self, runs: Sequence[PaneRange], at: PinnedVersion) -> Iterator[Partial]:
        """The partial results of runs of panes, as Arrow tables."""
        assert self.partial is not None
        source, names = self.source(at), stored_schema(self.partial.window).names
        for run in runs:
            rows = source.rows(at.files[source.store], *self.points(run), self.kernel)
            yield self.partial.partial(rows.rename_columns(names), self.kernel)

    def source(self, at: PinnedVersion) -> WindowSource:
        """How the window is read of which partial results are kept."""
        found = at.reading[0]
        assert isinstance(found, WindowSource)
        return found

    def points(self, run: PaneRange) -> tuple[int, int]:
        """The points of a run of panes that the window counts."""
        assert self.partial is not None
        lo, since = POINT_MIN if run.lo is None else run.lo, self.partial.window.lifetime.since
        return (lo if since is None else min(max(lo, since), run.hi)), run.hi

    def _partial_of_none(self) -> Partial:
        assert self.partial is not None
        return self.partial.partial(stored_schema(self.partial.window).empty_table(), self.kernel)

    def answer(self, partials: Sequence[Partial], at: PinnedVersion) -> pa.Table:
        """The relation at the instant of a version, in the order of ORDER BY."""
        if self.partial is not None and at.instant is not None:
            lo, hi = bounds_at(self.asked.windows[0], at.instant)
            # [SINCE p] holds nothing before p.
            found = list(partials) or (
                list(self.partials([PaneRange(0, lo, hi)], at)) if lo < hi else [self._partial_of_none()]
            )
            merged = self.partial.merged(found, self.kernel)
            return self.evaluated({}, {self.partial.path: self.partial.output(merged, self.due(at), self.kernel)}, at)
        windows, inputs = count(), dict[int, StreamRows]()
        for i, table in enumerate(self._tables):
            inputs[i] = self._tuples(next(windows), at) if table is None else self._rows(table, at)
        return self.evaluated(inputs, {}, at)

    def evaluated(self, inputs: dict[int, StreamRows], given: dict[str, Edge], at: PinnedVersion) -> pa.Table:
        """The answer from the tuples of windows, or from the output of nodes, by path."""
        done = advance(self._once, PlanState(), inputs, self.due(at), self.kernel, given=given)
        rows = done.changes.filter(pc.equal(done.changes.column(OP), "+"))
        shown = pa.Table.from_arrays(rows.columns[len(HEAD) :], schema=view_schema(self.plan))
        return ordered(self.plan, shown, self.kernel).slice(0, self._limit)

    def of_tables(self, at: PinnedVersion) -> pa.Table:
        """The answer to a query that reads tables alone. If it comes again before one of them has moved, its last
        answer is given, unless that is large."""
        read = [at.tables[scan.table] for scan in self._tables if scan is not None]
        known = self._answered
        if known is not None and all(one() is table for one, table in zip(known[0], read, strict=True)):
            return known[1]
        found = self.answer((), at)
        self._answered = ([weakref.ref(table) for table in read], found) if found.nbytes <= MOST_REMEMBERED else None
        return found

    def due(self, at: PinnedVersion) -> DueTicks:
        """The one tick that is evaluated."""
        step = self.plan.step
        instant = step if at.instant is None else at.instant
        return DueTicks(instant - step, instant, step, self.plan.origin)

    def _tuples(self, i: int, at: PinnedVersion) -> StreamRows:
        """What a window holds, as born just before the instant."""
        window, rows = self.plan.windows[i], self.held(i, at)
        born = pa.array(np.full(rows.num_rows, self.due(at).upto - 1 - window.lifetime.offset))
        return StreamRows(rows.set_column(0, POINT, born).rename_columns(stored_schema(window).names))

    def _rows(self, scan: TableScan, at: PinnedVersion) -> StreamRows:
        """The rows of a table, in their order, as born just before the instant."""
        rows = at.tables[scan.table]
        born = {POINT: pa.array(np.full(rows.num_rows, self.due(at).upto - 1))}
        return StreamRows(pa.table(born | {one.column.sql: rows.column(one.name) for one in scan.columns}))


def _without_limit(plan: ContinuousPlan) -> tuple[Node, TopRows | None]:
    """The root without ORDER BY and LIMIT, and these: of one relation, the first rows are those of its sorted rows."""
    root = plan.root
    if isinstance(root, TopRows) and root.order and root.order == plan.order:
        return root.input, root
    return root, None


def _as_windows(root: Node) -> Node:
    """The plan with tables in the form of windows: at one instant nothing comes or goes, so they need no changes."""

    def change(node: Node) -> Node:
        if not isinstance(node, TableScan):
            return node
        columns = tuple(StreamColumn(one.column, one.name) for one in node.columns)
        return StreamWindow(node.table, Attribute(POINT, SqlType("BIGINT")), Lifetime(None), columns)

    return rewritten(root, change)
