"""Lookups: a query's answer over any suffix or historical window within the span of its synopsis.

A synopsis holds cells per pane. So it can answer a window if both edges are cuts, no pane of it has expired, and all of
it is closed (Arasu and Widom, VLDB 2004, section 2: S[T_L, T_R]). A lookup is answered as a tick is: one request to the
synopsis, then HAVING, ORDER BY, LIMIT and expressions for each window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.cql.intervals import format_interval
from windrow.dataplane.answers.finishing import Finisher, answer_schema, plain
from windrow.engine.choices.holistic_choice import HolisticRequest
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.errors import ExecutionError, SpanError, UnsupportedError, first_line
from windrow.optimizer.sharing.derivations import Derivation
from windrow.plan.nodes import Attribute, Finalise
from windrow.synopses import Ability, Lookup, OneTimeQuery
from windrow.synopses.answering.planner import why_not_selected
from windrow.synopses.holistic.selecting import selected
from windrow.types import POINT_MIN, SqlType, point_text
from windrow.windows import CutSchedule, LandmarkWindow, Points, SlideByTuple
from windrow.windows.fitting import is_cut, latest_end, nearest_windows

SLOTS_AT_ONCE = 4_000_000
"""The most (window, group) slots looked up at once; it bounds memory."""


@dataclass(frozen=True)
class Span:
    """The range of possible windows: panes from `low` on are kept (POINT_MIN: all), panes below `high` are closed."""

    schedule: CutSchedule
    low: int
    high: int
    type: SqlType

    def latest(self, length: int, back: int = 0) -> int:
        """The end of the latest window of this length that fits, at least `back` points before `high`."""
        end = latest_end(self.schedule, length, self.low, self.high - back)
        if end is None:
            raise self._misfit(self.high - back - length, self.high - back)
        return end

    def check(self, start: int, end: int) -> None:
        """Raise SpanError if the window [start, end) cannot be looked up."""
        if end > self.high:
            raise SpanError(f"{self.shown(start, end)} is not closed yet: {self}", remedy="Ask for an earlier end.")
        if start < self.low:
            raise self._before(f"{self.shown(start, end)} begins before what is kept: {self}", end)
        if not (is_cut(self.schedule, start) and is_cut(self.schedule, end)):
            raise self._misfit(start, end)

    def _misfit(self, start: int, end: int) -> SpanError:
        """The error for a window that does not fit; it names windows nearby that do."""
        edges = [is_cut(self.schedule, point) for point in (start, end)]
        if all(edges) and start < self.low:
            longer = f"a window of {self.length(end - start)} is longer than"
            begins = f"{self.shown(start, end)} begins before"
            return self._before(f"{longer if end - start > self.high - self.low else begins} what is kept: {self}", end)
        fits = [(s, e) for s, e in nearest_windows(self.schedule, start, end) if self.low <= s and e <= self.high]
        nearby = ", ".join(f"{self.shown(s, e)} ({self.length(e - s)})" for s, e in fits[:2])
        return SpanError(
            f"{self.shown(start, end)} cannot be looked up: windows can begin and end only {self.cuts()}",
            remedy=f"Windows near it that fit: {nearby}." if nearby else f"No window near it fits; {self}.",
        )

    def _before(self, message: str, end: int) -> SpanError:
        """The error for a window that begins too far back, with the span and how to keep more."""
        if self.low >= self.high:
            ask = f"Ask again when windows from {point_text(self.low, self.type)} on are closed"
        elif end > self.low:
            ask = f"Ask for at most {self.length(end - self.low)} with that end"
        else:
            back = f"{self.length(self.high - self.low)} back from {point_text(self.high, self.type)}"
            ask = f"Windows are kept {back}: ask for an end above {point_text(self.low, self.type)}"
        return SpanError(message, remedy=f"{ask}, or create a query with a longer window: it keeps more.")

    def cuts(self) -> str:
        return " and ".join(
            f"every {self.length(period)}" + (f" from {self.length(phase)}" if phase else "")
            for period, phase in self.schedule.current.progressions
        )

    def length(self, points: int) -> str:
        return format_interval(points) if self.type.is_timestamp else str(points)

    def shown(self, start: int, end: int) -> str:
        return f"[{point_text(start, self.type)}, {point_text(end, self.type)})"

    def __str__(self) -> str:
        if self.low >= self.high:
            return f"windows from {point_text(self.low, self.type)} on are kept, and none is closed yet"
        low = "the beginning" if self.low == POINT_MIN else point_text(self.low, self.type)
        return f"windows from {low} to {point_text(self.high, self.type)} can be looked up"


def span_of(stream: StreamState, state: SynopsisState, attribute: Attribute, since: Sequence[int | None]) -> Span:
    """The span of a synopsis for a query that sees tuples from the points `since` on."""
    ticked = stream.ticked.get(state.plan.axis)
    if ticked is None:
        raise SpanError(
            f"stream '{stream.name}' has no closed window on {attribute} yet",
            remedy="Lookups read closed windows: feed rows, or punctuate.",
        )
    known = [point for point in (state.kept_from, state.complete_from, *since) if point is not None]
    return Span(state.plan.schedule, max(known, default=POINT_MIN), state.closed_at(ticked), attribute.type)


@dataclass(frozen=True)
class LookupRequest:
    """Windows [starts[i], ends[i]) to look up for one plan, in the order of the result. `derived` are the accumulators
    that its synopsis does not keep; `query` is the name of the standing query, if there is one."""

    plan: Finalise
    starts: Points
    ends: Points
    derived: tuple[Derivation, ...] = ()
    query: str = ""

    def part(self, some: slice) -> LookupRequest:
        return replace(self, starts=self.starts[some], ends=self.ends[some])


@dataclass(frozen=True)
class HeldLookup:
    """A lookup as of when it was made. `rows` gives its answers, without the stream's lock; `is_done`: at once. What it
    reads stays until `release` is called."""

    rows: Callable[[], pa.Table]
    is_done: bool = True
    release: Callable[[], None] = lambda: None


class Lookups:
    """Answers lookups. The caller holds the stream's lock, so a lookup sees whole ticks; a Spark job runs later, when
    the caller does not hold it, over what was there."""

    def __init__(self, finisher: Finisher):
        self._finisher = finisher

    def lookup(
        self, stream: StreamState, query: QueryState, lengths: Sequence[int], ats: Sequence[int | None]
    ) -> HeldLookup:
        """The query's answers over windows of these lengths that end at `ats`; None: at the latest end that fits."""
        state = self._home(stream, query)
        span = span_of(stream, state, query.plan.scan.attribute, (query.since,))
        if isinstance(query.plan.window, SlideByTuple):  # such a window includes its end
            ats = [None if at is None else at + 1 for at in ats]
        starts, ends = _windows(span, lengths, ats)
        derived = state.plan.derived.get(query.name, ())
        return self.held(state, LookupRequest(query.plan, starts, ends, derived, query.name))

    def _home(self, stream: StreamState, query: QueryState) -> SynopsisState:
        """The synopsis of a query; raises if it cannot be looked up."""
        state = stream.synopses.get(query.synopsis)
        why = None if state is None else state.synopsis.cannot(Ability.LOOK_UP)
        if why is not None:
            raise UnsupportedError(
                f"query '{query.name}' cannot look up windows of other lengths: {why}",
                remedy="Create a query with the window that you need, or GROUP BY over a window of time.",
            )
        if isinstance(query.plan.window, LandmarkWindow):
            raise UnsupportedError(
                f"query '{query.name}' has a landmark window, whose past is merged",
                remedy="answer() returns the whole window; for suffixes create a query with a RANGE.",
            )
        if state is not None and query.error is None:
            return state
        raise SpanError(f"query '{query.name}' keeps no state", remedy="It was dropped or suspended just now.")

    def held(self, state: SynopsisState, request: LookupRequest) -> HeldLookup:
        """The answers to windows that were checked, in their order."""
        pinned = state.synopsis.pinned()
        if pinned is None:
            rows = self._answer(state, request)
            return HeldLookup(lambda: rows)
        synopsis, release = pinned
        kept = replace(state, synopsis=synopsis)
        return HeldLookup(lambda: self._answer(kept, request), False, release)

    def _answer(self, state: SynopsisState, request: LookupRequest) -> pa.Table:
        schema = answer_schema(request.plan.outputs, request.plan.scan.attribute.type)
        by_selection = _selects(state, request)
        slots = state.synopsis.slots(keys=len(request.plan.input.keys) if by_selection else None)
        step = max(1, SLOTS_AT_ONCE // max(1, slots))
        requests = [request.part(slice(i, i + step)) for i in range(0, request.ends.size, step)]
        parts = [self._part(state, request, by_selection) for request in requests]
        if len(parts) == 1:
            return plain(parts[0], schema)
        return pa.concat_tables([schema.empty_table(), *(plain(part, schema) for part in parts)])

    def _part(self, state: SynopsisState, request: LookupRequest, by_selection: bool) -> pa.Table:
        plan, aggregate, cells = request.plan, request.plan.input, state.synopsis.readable
        lookup = Lookup(
            "", request.starts, request.ends, aggregate.presence, aggregate.accumulators, not aggregate.cell_keys
        )
        if by_selection and cells is not None:
            (looked,) = selected(cells, [(aggregate, lookup)])
        else:
            (looked,) = state.ask([lookup], OneTimeQuery(plan, request.derived))
        try:
            return self._finisher.finish(plan, looked, *_shown(request), state.synopsis.groups).table
        except Exception as error:
            raise ExecutionError(f"the lookup failed: {first_line(error)}") from error


def _selects(state: SynopsisState, request: LookupRequest) -> bool:
    """Whether holistic aggregates are selected from sorted base intervals. Answers to lookups are never corrected, and
    all groups are closed, so neither hinders it."""
    aggregate = request.plan.input
    if state.synopsis.cannot(Ability.READ) is not None or not aggregate.is_holistic or not request.ends.size:
        return False
    hindered = why_not_selected(aggregate, revises=False, derived=bool(request.derived), promised=False)
    windows = HolisticRequest(request.query, aggregate, request.starts, request.ends, hindered)
    (found,) = state.holistic.selects(state.synopsis, [windows])
    return found


def _shown(request: LookupRequest) -> tuple[Points, Points]:
    """window_start and window_end. A window that slides by tuple holds start < t ≤ end."""
    if isinstance(request.plan.window, SlideByTuple):
        return request.starts - 1, request.ends - 1
    return request.starts, request.ends


def _windows(span: Span, lengths: Sequence[int], ats: Sequence[int | None]) -> tuple[Points, Points]:
    """The starts and ends of the requested windows, checked all at once."""
    latest = {length: span.latest(length) for length in {n for n, at in zip(lengths, ats, strict=True) if at is None}}
    given = [latest[length] if at is None else at for length, at in zip(lengths, ats, strict=True)]
    ends = np.array(given, np.int64)
    starts = ends - np.array(lengths, np.int64)
    wrong = (ends > span.high) | (starts < span.low)
    for edges in (starts, ends):
        wrong |= span.schedule.pane_starts(edges) != edges
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        span.check(int(starts[first]), int(ends[first]))
    return starts, ends
