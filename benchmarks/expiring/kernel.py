"""The kernels of a plan tick by tick, without Spark: their time, what they keep, and the answer.

The result of a query is materialised as its strategy says (section 5.3.2 of the paper): by UPA in a calendar, with
tombstones or as a hash table where rows are withdrawn; by NT in a hash table; by DIRECT in a list that is scanned at
every tick. That is part of the time and of the bytes, as in the paper. Tuples that a plan reads again from the windows'
stores are part of the bytes, too, and so are the indexes of their keys.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from expiring.queries import Query
from expiring.trace import POINT, Trace
from windrow.dataplane.stores.runs import FileRuns
from windrow.engine.kept.rewrites import PANES
from windrow.operators import state as plan_states
from windrow.operators.advance import advance
from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.choosing import relaid
from windrow.operators.layouts.live import LEAVE, after_changes, live_calendar, live_table, net_changes
from windrow.operators.layouts.row_list import RowList
from windrow.operators.layouts.steps import StateTable
from windrow.operators.scan import StreamRows, needs_history
from windrow.operators.sharing.subplans import CompactedOnce
from windrow.operators.state import PlanState, interval
from windrow.operators.tables.edges import COUNT, Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.rows import appended, hashed, longs, taken
from windrow.operators.ticks import EXP, DueTicks
from windrow.optimizer.execution import DIRECT, NEGATIVE, UPA
from windrow.plan.algebra.nodes import ContinuousPlan

PER_TICK = 1_000
"""Tuples of all links that come at a tick."""

FILLED_IN = 20
"""Batches in which a window is filled; after each, layouts are chosen, as the engine does. Two windows pass before
anything is measured: in the first one nothing expires."""


@dataclass(frozen=True)
class Way:
    """A strategy, and the partitions of its calendars."""

    name: str
    execution: str
    partitions: int = 20


WAYS = (
    Way("UPA(10)", UPA, 10),
    Way("UPA(50)", UPA, 50),
    Way("NT", NEGATIVE),
    Way("DIRECT", DIRECT),
)


@dataclass
class Answer:
    """The materialised result of a query."""

    plan: ContinuousPlan
    table: StateTable

    @staticmethod
    def of(plan: ContinuousPlan, execution: str) -> Answer:
        root = plan.root
        if execution == DIRECT:
            return Answer(plan, RowList(LEAVE))
        if not plan_states.is_strict(root):
            return Answer(plan, Calendar(LEAVE, interval(root)))
        if execution == NEGATIVE:
            return Answer(plan, live_table(root.schema))
        return Answer(plan, live_calendar(root.schema, interval(root), may_change=True))

    def add(self, edge: Edge, due: DueTicks) -> None:
        """Apply what a batch changes, and drop what has expired."""
        if edge.is_strict:
            self.table, _ = after_changes(self.table, "", net_changes(edge, due), edge, due, True)
            return
        assert isinstance(self.table, Calendar | RowList)
        leave = due.first_above(longs(edge.rows.column(EXP)))
        rows = taken(appended(edge.rows, **{LEAVE: leave}), leave > due.upto)
        self.table = self.table.appended(rows).settled(due.upto)

    def choose_layout(self, ticked: int) -> None:
        """What the engine does when it merges state: the share of rows withdrawn decides."""
        if self.table.departures is not None:
            empty = live_calendar(self.plan.root.schema, interval(self.plan.root), may_change=True)
            self.table = relaid(self.table, empty, ticked)

    def checksum(self, ticked: int) -> tuple[int, int]:
        """How many rows the answer has after a tick, and the sum of their hashes."""
        names = [column.sql for column in self.plan.schema]
        parts = [part.rows for part in self.table.parts("", ticked)]
        if not parts:
            return 0, 0
        rows = pa.concat_tables(parts).combine_chunks()
        counts = longs(rows.column(COUNT)) if COUNT in rows.column_names else np.ones(rows.num_rows, np.int64)
        words = hashed([rows.column(name) for name in names], rows.num_rows)
        with np.errstate(over="ignore"):
            total = (words.astype(np.uint64) * counts.astype(np.uint64)).sum(dtype=np.uint64)
        return int(counts.sum()), int(total)


@dataclass
class Links:
    """What the windows of a plan read of a trace."""

    plan: ContinuousPlan
    trace: Trace
    tables: list[pa.Table] = field(default_factory=list)
    points: list[np.ndarray] = field(default_factory=list)
    runs: FileRuns = field(default_factory=FileRuns)

    def __post_init__(self) -> None:
        for window in self.plan.windows:
            rows = self.trace.links[int(window.stream[-1]) - 1]
            if window.predicate is not None:
                kind = int(window.predicate.rpartition(" ")[2])
                rows = taken(rows, longs(rows.column("protocol")) == kind)
            columns = {POINT: rows.column(POINT), **{one.column.sql: rows.column(one.sql) for one in window.columns}}
            self.tables.append(pa.table(columns).combine_chunks())
            self.points.append(longs(self.tables[-1].column(POINT)))

    def rows(self, due: DueTicks) -> dict[int, StreamRows]:
        """What comes at the due ticks, and what is read again."""
        found = {}
        for i, history in enumerate(needs_history(self.plan)):
            first = due.before - self.trace.window
            at = np.searchsorted(self.points[i], [first, due.before, due.upto]).tolist()
            new = self.tables[i].slice(at[1], at[2] - at[1])
            found[i] = StreamRows(new, self._stored(i, at[0], at[1]) if history else None)
        return found

    def _stored(self, i: int, first: int, last: int) -> pa.Table:
        """Rows in the chunks in which a window store gives them: files of a pane each are read in runs. Of the oldest
        file some rows are taken; the newest one grows."""
        rows = self.tables[i]
        size = max(1, rows.num_rows * self.trace.window // self.trace.count // PANES)
        begin = min(-(-first // size), last // size)
        self.runs.forget([f"{i}/{pane}" for pane in range(begin)])
        whole = [f"{i}/{pane}" for pane in range(begin, last // size)]
        files = self.runs.tables(i, whole, lambda path: rows.slice(int(path.split("/")[1]) * size, size))
        oldest = taken(rows, np.arange(first, max(first, begin * size)))
        newest = rows.slice(max(first, last // size * size), last - max(first, last // size * size))
        return pa.concat_tables([oldest, *files, newest])


def measured(query: Query, trace: Trace, way: Way, ticks: int) -> dict[str, Any]:
    """The kernel time per 1,000 tuples, in seconds, after the windows are full; the bytes kept; the answer."""
    plan_states.SHARE = way.partitions
    step = PER_TICK // len(query.links)
    plan = query.plan(trace.window, step, way.execution, trace.facts)
    links, kernel = Links(plan, trace), Kernel()
    answer, state = Answer.of(plan, way.execution), PlanState()
    times, results = list[float](), list[int]()
    full = -(-2 * trace.window // step) * step
    filling = [full * i // (2 * FILLED_IN) // step * step for i in range(2 * FILLED_IN + 1)]
    ends = sorted({*filling, *range(full, full + (ticks // 2 + ticks) * step + 1, step)})
    for before, upto in zip(ends, ends[1:], strict=False):
        due = DueTicks(before, upto, step)
        rows = links.rows(due)
        begin = time.perf_counter()
        done = advance(plan, state, rows, due, kernel, asked=["0"])
        answer.add(done.edges["0"], due)
        times.append(time.perf_counter() - begin)
        state = done.state
        if upto <= full:
            answer.choose_layout(upto)
            state = CompactedOnce().relaid(plan, state)
        results.append(done.changes.num_rows)
    stored = sum(one.old.nbytes for one in links.rows(due).values() if one.old is not None)
    kept = {"operators": state.nbytes, "windows": stored + kernel.indexes.nbytes, "answer": answer.table.nbytes}
    departures = answer.table.departures
    return {
        "ms": 1_000 * statistics.median(times[-ticks:]) * 1_000 / (step * len(query.links)),
        "bytes": sum(kept.values()),
        "kept": kept,
        "changes_per_tick": statistics.mean(results[-ticks:]),
        "answer": list(answer.checksum(upto)),
        "layout": answer.table.layout.name,
        **({} if departures is None else {"premature": round(departures.share, 3)}),
    }
