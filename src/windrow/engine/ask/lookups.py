"""Lookups: a query's answer over any suffix or historical window within the span of its synopsis.

A synopsis holds cells per pane, so a window can be answered where both of its edges are cuts, where nothing in it has
been let go of, and where all of it is closed (004_65e36a58973a8297.txt, section 2: S[T_L, T_R]). What is looked up is
answered as ticks are: one question to the synopsis, and HAVING, ORDER BY, LIMIT and expressions for each window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.cql.intervals import format_interval
from windrow.dataplane.answers.finishing import Finisher, answer_schema, plain
from windrow.engine.ask.holistic_choice import HolisticRequest
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.errors import ExecutionError, SpanError, UnsupportedError
from windrow.optimizer.sharing.derivations import Derivation
from windrow.plan.nodes import Attribute, Finalise
from windrow.synopses import Ability, Asker, Lookup
from windrow.synopses.answering.planner import why_not_selected
from windrow.synopses.holistic.selecting import selected
from windrow.types import POINT_MIN, SqlType, point_text
from windrow.windows import CutSchedule, LandmarkWindow, Points, SlideByTuple
from windrow.windows.fitting import is_cut, latest_end, near

SLOTS_AT_ONCE = 4_000_000
"""(window, group) slots looked up at once: bounds memory."""


@dataclass(frozen=True)
class Span:
    """Where windows may lie: panes from `low` on are kept (POINT_MIN: all that came), those below `high` are closed."""

    schedule: CutSchedule
    low: int
    high: int
    type: SqlType

    def latest(self, length: int, back: int = 0) -> int:
        """The end of the latest window of this length that fits, at least `back` before what is closed."""
        end = latest_end(self.schedule, length, self.low, self.high - back)
        if end is None:
            raise self._misfit(self.high - back - length, self.high - back)
        return end

    def check(self, start: int, end: int) -> None:
        """Raise where the window [start, end) cannot be looked up."""
        if end > self.high:
            raise SpanError(f"{self.shown(start, end)} is not closed yet: {self}", remedy="Ask for an earlier end.")
        if start < self.low:
            raise self._before(f"{self.shown(start, end)} begins before what is kept: {self}", end)
        if not (is_cut(self.schedule, start) and is_cut(self.schedule, end)):
            raise self._misfit(start, end)

    def _misfit(self, start: int, end: int) -> SpanError:
        """No window fits as asked: which ones near it do."""
        edges = [is_cut(self.schedule, point) for point in (start, end)]
        if all(edges) and start < self.low:
            longer = f"a window of {self.length(end - start)} is longer than"
            begins = f"{self.shown(start, end)} begins before"
            return self._before(f"{longer if end - start > self.high - self.low else begins} what is kept: {self}", end)
        fit = [one for one in near(self.schedule, start, end) if self.low <= one[0] and one[1] <= self.high]
        told = ", ".join(f"{self.shown(*one)} ({self.length(one[1] - one[0])})" for one in fit[:2])
        return SpanError(
            f"{self.shown(start, end)} has an edge inside a pane: the synopsis has cuts {self.cuts()}",
            remedy=f"Near it fit: {told}." if told else f"None near it fits; {self}.",
        )

    def _before(self, message: str, end: int) -> SpanError:
        """Too far back: what there is, and what would keep more."""
        if self.low >= self.high:
            ask = f"Ask again when windows from {point_text(self.low, self.type)} on are closed"
        elif end > self.low:
            ask = f"Ask for at most {self.length(end - self.low)} with that end"
        else:
            back = f"{self.length(self.high - self.low)} back from {point_text(self.high, self.type)}"
            ask = f"What is kept reaches {back}: ask for an end above {point_text(self.low, self.type)}"
        return SpanError(message, remedy=f"{ask}, or create a query with a longer window: its synopsis keeps more.")

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
            return f"what is kept begins at {point_text(self.low, self.type)}, and nothing of it is closed yet"
        low = "the beginning" if self.low == POINT_MIN else point_text(self.low, self.type)
        return f"windows from {low} to {point_text(self.high, self.type)} can be looked up"


def span_of(stream: StreamState, state: SynopsisState, attribute: Attribute, since: Sequence[int | None]) -> Span:
    """What of a synopsis can be looked up by who sees tuples from these points on."""
    ticked = stream.ticked.get(state.plan.axis)
    if ticked is None:
        raise SpanError(
            f"nothing of stream '{stream.name}' is closed yet on {attribute}",
            remedy="Lookups are of closed windows: feed rows, or punctuate.",
        )
    known = [point for point in (state.kept_from, state.complete_from, *since) if point is not None]
    return Span(state.plan.schedule, max(known, default=POINT_MIN), state.closed_at(ticked), attribute.type)


@dataclass(frozen=True)
class LookupRequest:
    """Windows of one plan, in the order asked: [starts[i], ends[i]); `derived` is what its synopsis does not keep.
    `query`: the standing query that is asked, by name."""

    plan: Finalise
    starts: Points
    ends: Points
    derived: tuple[Derivation, ...] = ()
    query: str = ""

    def part(self, some: slice) -> LookupRequest:
        return replace(self, starts=self.starts[some], ends=self.ends[some])


class Lookups:
    """Answers lookups, of one stream at a time. The caller holds the stream's lock: it sees every tick committed."""

    def __init__(self, finisher: Finisher):
        self._finisher = finisher

    def lookup(
        self, stream: StreamState, query: QueryState, lengths: Sequence[int], ats: Sequence[int | None]
    ) -> pa.Table:
        """The query's answers over windows of these lengths that end there; None: at the latest end that fits."""
        state = self._home(stream, query)
        span = span_of(stream, state, query.plan.scan.attribute, (query.since,))
        if isinstance(query.plan.window, SlideByTuple):  # which holds its end
            ats = [None if at is None else at + 1 for at in ats]
        starts, ends = _windows(span, lengths, ats)
        derived = state.plan.derived.get(query.name, ())
        return self.answer(state, LookupRequest(query.plan, starts, ends, derived, query.name))

    def _home(self, stream: StreamState, query: QueryState) -> SynopsisState:
        """The synopsis that a query uses."""
        state = stream.synopses.get(query.synopsis)
        why = None if state is None else state.synopsis.cannot(Ability.LOOK_UP)
        if why is not None:
            raise UnsupportedError(
                f"windows of other lengths cannot be looked up of query '{query.name}': {why}",
                remedy="Create a query with the window that you need, or GROUP BY over a window of time.",
            )
        if isinstance(query.plan.window, LandmarkWindow):
            raise UnsupportedError(
                f"query '{query.name}' has a landmark window, whose past is held as a whole",
                remedy="answer() has the whole; for suffixes create a query with a RANGE.",
            )
        if state is not None and query.error is None:
            return state
        raise SpanError(f"query '{query.name}' has no synopsis", remedy="It was dropped or suspended just now.")

    def answer(self, state: SynopsisState, asked: LookupRequest) -> pa.Table:
        """The answers to windows that were checked, in the order asked."""
        schema = answer_schema(asked.plan.outputs, asked.plan.scan.attribute.type)
        by_selection = _selects(state, asked)
        slots = state.synopsis.slots(keys=len(asked.plan.input.keys) if by_selection else None)
        step = max(1, SLOTS_AT_ONCE // max(1, slots))
        some = [asked.part(slice(i, i + step)) for i in range(0, asked.ends.size, step)]
        parts = [self._part(state, part, by_selection) for part in some]
        if len(parts) == 1:
            return plain(parts[0], schema)
        return pa.concat_tables([schema.empty_table(), *(plain(part, schema) for part in parts)])

    def _part(self, state: SynopsisState, asked: LookupRequest, by_selection: bool) -> pa.Table:
        plan, aggregate, cells = asked.plan, asked.plan.input, state.synopsis.readable
        lookup = Lookup(
            "", asked.starts, asked.ends, aggregate.presence, aggregate.accumulators, not aggregate.cell_keys
        )
        if by_selection and cells is not None:
            (looked,) = selected(cells, [(aggregate, lookup)])
        else:
            (looked,) = state.ask([lookup], Asker(plan, asked.derived))
        try:
            return self._finisher.finish(plan, looked, *_shown(asked), state.synopsis.groups).table
        except Exception as error:
            raise ExecutionError(f"the lookup failed: {str(error).splitlines()[0]}") from error


def _selects(state: SynopsisState, asked: LookupRequest) -> bool:
    """Whether holistic aggregates are selected from sorted base intervals: no answer given here is ever corrected, and
    all groups are closed."""
    aggregate = asked.plan.input
    cells = state.synopsis.readable
    if cells is None or not aggregate.is_holistic or not asked.ends.size:
        return False
    hindered = why_not_selected(aggregate, revises=False, derived=bool(asked.derived), promised=False)
    (found,) = state.holistic.selects(
        cells, [HolisticRequest(asked.query, aggregate, asked.starts, asked.ends, hindered)]
    )
    return found


def _shown(asked: LookupRequest) -> tuple[Points, Points]:
    """window_start and window_end: those of windows that slide by tuple hold start < t ≤ end."""
    if isinstance(asked.plan.window, SlideByTuple):
        return asked.starts - 1, asked.ends - 1
    return asked.starts, asked.ends


def _windows(span: Span, lengths: Sequence[int], ats: Sequence[int | None]) -> tuple[Points, Points]:
    """The windows that are asked for, checked all at once."""
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
