"""Ticks: all the windows that the frontier has passed, answered in one pass per synopsis, delivered and committed.

A tick batch is everything due, in slices of bounded size; each slice is one commit. Which windows are in
which slice changes nothing about the answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.dataplane.answers import Finisher
from windrow.engine.delivery import Delivered, Delivery
from windrow.engine.journal import Journal
from windrow.engine.state import QueryState, StreamState, SynopsisState, window_starts
from windrow.settings import Settings
from windrow.synopses import Looked, Lookup
from windrow.synopses.results import overflows
from windrow.windows import Points, due_windows

SLOTS_PER_SLICE = 4_000_000
"""(window, group) slots answered per commit: bounds memory, about 100 MB for three aggregates."""


ANSWER_BLOCKS = 4
"""Small blocks of answers before they are folded, as a multiple of the setting `synopsis_blocks`."""


@dataclass(frozen=True)
class Due:
    """The windows that one query must answer now."""

    synopsis: SynopsisState
    query: QueryState
    ends: Points


class Ticker:
    """Applies ticks to one stream at a time."""

    def __init__(self, journal: Journal, delivery: Delivery):
        self._journal = journal
        self._delivery = delivery
        self._finisher = Finisher()

    def close(self) -> None:
        self._finisher.close()

    def tick(self, stream: StreamState, settings: Settings) -> int:
        """Answer everything due; returns how many windows were answered."""
        with stream.lock:
            self._delivery.publish(stream)
            frontier = stream.frontier.value
            if frontier is None or (stream.ticked is not None and frontier <= stream.ticked):
                return 0
            started = time.monotonic()
            for state in stream.synopses.values():
                state.synopsis.close(_pane_start(state, frontier))
            due = [item for item in self._due(stream, frontier, settings) if item.ends.size]
            answered = 0
            for upto, part in _slices(due, frontier):
                answered += self._slice(stream, upto, part, settings)
            self._journal.compact_answers(
                ANSWER_BLOCKS * settings.integer("synopsis_blocks"), settings.integer("retained_answers")
            )
            stream.metrics.tick_s += time.monotonic() - started
            stream.metrics.tick_batches += 1
            return answered

    def _due(self, stream: StreamState, frontier: int, settings: Settings) -> Iterator[Due]:
        for state in stream.synopses.values():
            panes = state.synopsis.closed_panes
            for name, plan in state.plan.queries:
                query, window = stream.queries[name], plan.window
                after = window.last_closed(stream.ticked) if stream.ticked is not None else None
                seen = panes if query.since is None else panes[np.searchsorted(panes, query.since) :]
                upto = window.last_closed(frontier)
                if settings.text("empty_windows") == "emit" and not plan.input.keys and stream.least is not None:
                    first = stream.least if query.since is None else max(stream.least, query.since)
                    wids = _every(window.first_wid(first), after, upto)
                else:
                    if after is None:
                        after = window.first_wid(int(seen[0])) - 1 if seen.size else upto
                    reach = np.searchsorted(seen, window.extent(after + 1)[0])
                    wids = due_windows(window, seen[reach:], after, upto)
                yield Due(state, query, window.ends(wids))

    def _slice(self, stream: StreamState, upto: int, due: Sequence[Due], settings: Settings) -> int:
        delivered: list[Delivered] = []
        for state in stream.synopses.values():
            mine = [item for item in due if item.synopsis is state]
            if mine:
                delivered += self._answer(stream, state, mine)
        expired = [
            (state, below) for state in stream.synopses.values() if (below := _needed_from(state, upto)) is not None
        ]
        self._delivery.commit(stream, upto, delivered, expired, settings)
        for state, below in expired:
            state.kept_from = below
            state.synopsis.expire(below)
            state.plan = replace(state.plan, schedule=state.plan.schedule.pruned(below))
        self._delivery.publish(stream)
        return sum(int(item.ends.size) for item in due)

    def _answer(self, stream: StreamState, state: SynopsisState, due: Sequence[Due]) -> list[Delivered]:
        lookups = [_lookup(item) for item in due]
        tables: dict[str, list[pa.Table]] = {item.query.name: [] for item in due}
        done: dict[str, int] = dict.fromkeys(tables, 0)
        spoiled: dict[str, int] = dict.fromkeys(tables, 0)
        by_name = {item.query.name: item for item in due}
        for looked in state.synopsis.answer(lookups):
            item = by_name[looked.query]
            if item.query.error is not None:
                continue
            first = done[looked.query]
            done[looked.query] += looked.windows
            try:
                table = self._finish(item, looked, first, state)
            except Exception as error:
                self._journal.suspend(stream, item.query, str(error).splitlines()[0])
                continue
            tables[looked.query].append(table)
            spoiled[looked.query] += sum(overflows(call, looked.states) for call in item.query.plan.input.aggregates)
        return [
            Delivered(item.query, item.ends, pa.concat_tables(tables[item.query.name]), spoiled[item.query.name])
            for item in due
            if item.query.error is None
        ]

    def _finish(self, item: Due, looked: Looked, first: int, state: SynopsisState) -> pa.Table:
        ends = item.ends[first : first + looked.windows]
        starts = ends - item.query.plan.window.range
        return self._finisher.finish(item.query.plan, looked, starts, ends, state.synopsis.groups)


def _every(first: int, after: int | None, upto: int) -> Points:
    low = first if after is None else max(first, after + 1)
    return np.arange(low, upto + 1, dtype=np.int64)


def _lookup(item: Due) -> Lookup:
    aggregate = item.query.plan.input
    return Lookup(
        item.query.name,
        window_starts(item.query, item.ends),
        item.ends,
        aggregate.presence,
        aggregate.accumulators,
        not aggregate.keys,
    )


def _pane_start(state: SynopsisState, point: int) -> int:
    return int(state.plan.schedule.pane_starts(np.array([point]))[0])


def _needed_from(state: SynopsisState, upto: int) -> int | None:
    """The least point that a window still to come can hold; None where nothing can be said.

    Never above the open pane: where SLIDE exceeds RANGE, a query that joins later may need what lies between.
    """
    starts = [plan.window.extent(plan.window.last_closed(upto) + 1)[0] for _, plan in state.plan.queries]
    if not starts:
        return None
    below = min(*starts, _pane_start(state, upto))
    return below if state.kept_from is None or below > state.kept_from else None


def _slices(due: Sequence[Due], frontier: int) -> Iterator[tuple[int, list[Due]]]:
    """Cut the due windows at common ends into parts of bounded size; the last part reaches the frontier."""
    if not due:
        yield frontier, []
        return
    ends = np.concatenate([item.ends for item in due])
    slots = np.concatenate([np.full(item.ends.size, item.synopsis.synopsis.groups.count) for item in due])
    order = np.argsort(ends, kind="stable")
    part_of = np.cumsum(slots[order]) // SLOTS_PER_SLICE
    last = np.flatnonzero(np.append(part_of[1:] != part_of[:-1], True))
    bounds = sorted(set(ends[order][last].tolist()))
    bounds[-1] = frontier
    below: int | None = None
    for bound in bounds:
        part = []
        for item in due:
            first = 0 if below is None else int(np.searchsorted(item.ends, below, side="right"))
            final = int(np.searchsorted(item.ends, bound, side="right"))
            if final > first:
                part.append(Due(item.synopsis, item.query, item.ends[first:final]))
        yield bound, part
        below = bound
