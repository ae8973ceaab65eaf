"""One-time queries over a window, answered from the synopsis of a standing query.

A synopsis fits if it has the same stream, axis and keys, keeps every accumulator that the query reads (rule SS1) or the
accumulators from which it is derived (SS4), and a window of the requested length lies on its cuts within its span. Of
the synopses that fit, the one with the latest window answers. If none fits, the error says what each one lacks and when
one will have the window; otherwise it proposes a standing query that would keep the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlglot import exp

from windrow.cql.dialect import CQL, window_of
from windrow.cql.intervals import format_interval
from windrow.cql.tokens import place_of
from windrow.cql.window_clause import Measure, WindowClause, WindowKind
from windrow.engine.ask.lookups import LookupRequest, Span, span_of
from windrow.engine.state import StreamState, SynopsisState
from windrow.errors import Place, SpanError, UnsupportedError
from windrow.optimizer.sharing.derivations import Derivation, derivations_of, read_of
from windrow.optimizer.sharing.synopsis_plans import FREQUENT
from windrow.plan.accumulators import Accumulator
from windrow.plan.continuous.deciding import is_grouped
from windrow.plan.nodes import Finalise, Key
from windrow.settings import Settings
from windrow.synopses import Ability
from windrow.types import POINT_MIN, UNITS_US, point_text
from windrow.windows import SlidingWindow
from windrow.windows.fitting import ceiling_cut, is_cut


@dataclass(frozen=True)
class SnapshotFit:
    """A synopsis that can answer a one-time query, and the latest window that it can answer."""

    state: SynopsisState
    span: Span
    start: int
    end: int
    derived: tuple[Derivation, ...] = ()

    def request(self, plan: Finalise) -> LookupRequest:
        return LookupRequest(plan, np.array([self.start], np.int64), np.array([self.end], np.int64), self.derived)


@dataclass(frozen=True)
class SnapshotMisfit:
    """Why a synopsis cannot answer; `wait` says when it will be able to, if ever."""

    why: str
    wait: str | None = None


def fitting(stream: StreamState, plan: Finalise, select: exp.Expr, settings: Settings, text: str) -> SnapshotFit:
    """The synopsis that answers a one-time query. Raises UnsupportedError if none fits.

    The caller holds the stream's lock.
    """
    derives = "SS4" not in settings.rules_off
    found: list[SnapshotFit] = []
    missing: list[tuple[SynopsisState, SnapshotMisfit]] = []
    for state in stream.synopses.values():
        fit = _fit(stream, state, plan, derives)
        if isinstance(fit, SnapshotFit):
            found.append(fit)
        else:
            missing.append((state, fit))
    if found:
        return max(found, key=lambda fit: fit.end)
    missing.sort(key=lambda entry: entry[1].wait is None)
    reasons = "; ".join(f"{_titled(state)} {misfit.why}" for state, misfit in missing[:5])
    reasons = reasons or f"none with SLIDE reads '{stream.name}'"
    wait = missing[0][1].wait if missing else None
    raise UnsupportedError(
        f"no standing query can answer this: {reasons}",
        place=_place(select, text),
        remedy=wait or f"{_retaining(stream, plan)} {provider(plan, select)}",
    )


def _retaining(stream: StreamState, plan: Finalise) -> str:
    """What would keep what a query needs: the tuples themselves, or the state of a standing query, whose text
    follows."""
    window, attribute = plan.window, plan.scan.attribute
    assert isinstance(window, SlidingWindow)
    reach, retained = window.range + window.offset, stream.definition.retained
    is_kept = retained is not None and retained.length >= reach
    if attribute.is_rows or stream.definition.revises or stream.definition.is_derived or is_kept:
        return "This standing query would keep what it needs:"
    length = format_interval(reach).upper() if attribute.type.is_timestamp else str(reach)
    return (
        f"Create the stream with RETAIN {length}, which keeps its tuples for questions. This standing query would keep "
        "what it needs, too:"
    )


def is_aggregate(select: exp.Expr) -> bool:
    """Whether a SELECT over streams asks for one window of aggregates, which the state of a standing query answers."""
    tables = list(select.find_all(exp.Table))
    window = window_of(tables[0]) if len(tables) == 1 else None
    if window is None or window.slide is not None or window.kind is WindowKind.NOW:
        return False
    return is_grouped(select) and not select.args.get("distinct")


def _titled(state: SynopsisState) -> str:
    """The state, by the names of the queries that share it."""
    names = [name for name, _ in state.plan.queries]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"the state of {', '.join(names[:2])}{more}" if names else f"state {state.plan.id}"


def _place(select: exp.Expr, text: str) -> Place | None:
    """The place of the stream and its window in the text."""
    table = select.args["from_"].this
    clause, name = window_of(table), place_of(table.this, text)
    if clause is None or clause.place is None or name is None or name.line != clause.place.line:
        return name
    return replace(name, length=clause.place.column + clause.place.length - name.column)


def _fit(stream: StreamState, state: SynopsisState, plan: Finalise, derives: bool) -> SnapshotFit | SnapshotMisfit:
    """The latest window that a synopsis can answer, or why it cannot. `derivations_of` takes longest, so it is
    called after the cheap tests."""
    window = plan.window
    assert isinstance(window, SlidingWindow)
    why = next(_misfits(state, plan), None)
    if why is not None:
        return SnapshotMisfit(why)
    derived: tuple[Derivation, ...] = ()
    if derives and state.plan.style[0] != FREQUENT:  # its lists have dropped values, so sums of them are not exact
        derived = derivations_of(plan.input, state.plan.accumulators, state.since, stream.definition.columns)
    needed = read_of(plan.input, derived)
    absent = [a for a in needed if a.id not in state.since]
    if absent:
        return SnapshotMisfit(f"does not keep {', '.join(_named(a) for a in absent[:3])}")
    since = [state.since[a.id] for a in needed]
    try:
        span = span_of(stream, state, plan.scan.attribute, since)
    except SpanError as error:
        return SnapshotMisfit(f"has what it needs, but {error.message}", error.remedy)
    try:
        end = span.latest(window.range, window.offset)
    except SpanError as error:
        return _awaited(stream, state, span, window) or SnapshotMisfit(f"does not fit: {error.message}")
    return SnapshotFit(state, span, end - window.range, end, derived)


MOST_STARTS = 64
"""The most cuts tried as the start of the first complete window."""


def _awaited(stream: StreamState, state: SynopsisState, span: Span, window: SlidingWindow) -> SnapshotMisfit | None:
    """When a synopsis will have kept its cells for the length of the window; None if it never will."""
    schedule, start = span.schedule, span.low
    for _ in range(MOST_STARTS if start > POINT_MIN else 0):
        start = ceiling_cut(schedule, start)
        end = start + window.range
        frontier = ceiling_cut(schedule, end + window.offset)
        if is_cut(schedule, end) and frontier > span.high and _held_from(stream, state, frontier) <= start:
            first = f"its first complete window of {span.length(window.range)} is {span.shown(start, end)}"
            upto, now = (point_text(point, span.type) for point in (frontier, stream.ticked[state.plan.axis]))
            return SnapshotMisfit(
                f"has what it needs from {point_text(span.low, span.type)} on: {first}",
                f"Ask again when the stream is closed up to {upto}; now it is up to {now}.",
            )
        start += 1
    return None


def _held_from(stream: StreamState, state: SynopsisState, frontier: int) -> int:
    """The first point whose cells will still be kept when the frontier is at `frontier`."""
    horizon = stream.horizon(state.plan.axis, frontier)
    windows = [plan.window for _, plan in state.plan.queries]
    return POINT_MIN if horizon is None else min((w.held_from(horizon) for w in windows), default=POINT_MIN)


def _misfits(state: SynopsisState, plan: Finalise) -> Iterator[str]:
    """Why a synopsis cannot answer, apart from its accumulators and its span."""
    unable = state.synopsis.cannot(Ability.LOOK_UP)
    if unable is not None:
        yield f"cannot be looked up: {unable}"
    if state.plan.style[0] == "landmark":
        yield "has merged its past, for landmark windows"
    if not state.plan.queries:
        yield "is no longer kept: its queries are suspended"
    if state.plan.axis != plan.scan.attribute.column:
        yield f"is on another axis than {plan.scan.attribute}"
    yield from _other_cells(state, plan)
    if plan.input.frequent is not None:
        yield "has lists per pane, and the list of a one-time query is that of its window"
    elif state.plan.style[0] == FREQUENT:
        yield "keeps top-k lists alone"


def _other_cells(state: SynopsisState, plan: Finalise) -> Iterator[str]:
    """The difference if the synopsis has another GROUP BY, or holistic aggregates that count other columns."""
    aggregate = plan.input
    if state.plan.group_keys != aggregate.keys:
        yield f"is grouped by {_listed(state.plan.group_keys) or 'nothing'}"
    elif state.plan.values != aggregate.values:
        counted, needed = _listed(state.plan.values), _listed(aggregate.values)
        has = f"counts the values of {counted}{' together' if len(state.plan.values) > 1 else ''}"
        has = has if counted else "counts the values of no column"
        yield f"{has}, and this " + (f"needs those of {needed}" if needed else "needs no such counts")


def _listed(keys: Sequence[Key]) -> str:
    return ", ".join(key.sql for key in keys)


def _named(accumulator: Accumulator) -> str:
    """An accumulator in words."""
    what = accumulator.kind.value if accumulator.arg is None else f"{accumulator.kind.value} of {accumulator.arg}"
    return f"the {what}" + (f" where {accumulator.condition}" if accumulator.condition else "")


def provider(plan: Finalise, select: exp.Expr) -> str:
    """The text of a standing query whose synopsis would answer the one-time query."""
    window = plan.window
    assert isinstance(window, SlidingWindow)
    edges = math.gcd(window.range, window.offset)
    units = sorted(UNITS_US.values(), reverse=True) if plan.scan.attribute.type.is_timestamp else [1]
    slide = next((unit for unit in units if unit < edges and edges % unit == 0), edges)
    tree = select.copy()
    table = tree.args["from_"].this
    clause = window_of(table)
    assert isinstance(clause, WindowClause) and clause.range is not None
    unit = clause.range.unit
    whole = Measure(window.range + window.offset, unit)
    table.set("window", replace(clause, range=whole, offset=None, slide=Measure(slide, unit)))
    return f"CREATE QUERY name AS {tree.sql(CQL)}"
