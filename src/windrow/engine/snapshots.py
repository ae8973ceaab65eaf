"""One-time questions over a window, answered from the synopsis of any standing query that has what they need.

A synopsis fits if it is of the same stream and axis, has the same keys, keeps every accumulator that the question reads
(rule SS1: different aggregates that need the same data per interval) or those that it is derived from (SS4), and a
window of the length asked for lies on its cuts within its span. Of those that fit, the one with the latest window
answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlglot import exp

from windrow.cql.dialect import CQL, window_of
from windrow.cql.intervals import UNITS_US
from windrow.cql.window_clause import Measure, WindowClause
from windrow.engine.lookups import Asked, Span, span_of
from windrow.engine.state import StreamState, SynopsisState
from windrow.errors import SpanError, UnsupportedError
from windrow.optimizer.derivations import Derivation, derivations_of, read_of
from windrow.optimizer.sharing import FREQUENT, style_for
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import Finalise
from windrow.synopses import PartitionedSynopsis
from windrow.windows import SlidingWindow


@dataclass(frozen=True)
class Fit:
    """A synopsis that can answer a question, and the latest window that it can."""

    state: SynopsisState
    span: Span
    start: int
    end: int
    derived: tuple[Derivation, ...] = ()

    def asked(self, plan: Finalise) -> Asked:
        return Asked(plan, np.array([self.start], np.int64), np.array([self.end], np.int64), self.derived)


def fitting(stream: StreamState, plan: Finalise, select: exp.Expr) -> Fit:
    """The synopsis that answers a question; an error says what is missing, and which standing query would have it.

    The caller holds the stream's lock.
    """
    found: list[Fit] = []
    missing: list[str] = []
    for state in stream.synopses.values():
        fit = _fit(stream, state, plan)
        if isinstance(fit, Fit):
            found.append(fit)
        else:
            missing.append(f"synopsis {state.plan.id} {fit}")
    if found:
        return max(found, key=lambda fit: fit.end)
    told = "; ".join(missing[:5]) or f"no standing query reads '{stream.name}'"
    raise UnsupportedError(
        f"no synopsis can answer this: {told}",
        remedy=f"This standing query would keep what it needs: {provider(plan, select)}",
    )


def _fit(stream: StreamState, state: SynopsisState, plan: Finalise) -> Fit | str:
    """The latest window that a synopsis can answer; or why it cannot."""
    window = plan.window
    assert isinstance(window, SlidingWindow)
    columns = stream.definition.columns
    derived: tuple[Derivation, ...] = ()
    if state.plan.style[0] != FREQUENT:  # of lists, what is left out has gone
        derived = derivations_of(plan.input, state.plan.accumulators, state.since, columns)
    needed = read_of(plan.input, derived)
    why = next(_misfits(state, plan, needed), None)
    if why is not None:
        return why
    since = [state.since[a.id] for a in needed]
    try:
        span = span_of(stream, state, plan.scan.attribute, since)
        end = span.latest(window.range, window.offset)
    except SpanError as error:
        return f"does not fit: {error.message}"
    return Fit(state, span, end - window.range, end, derived)


def _misfits(state: SynopsisState, plan: Finalise, needed: Sequence[Accumulator]) -> Iterator[str]:
    """What keeps a synopsis from answering, other than its span."""
    aggregate = plan.input
    if isinstance(state.synopsis, PartitionedSynopsis):
        yield "counts rows per partition"
    if state.plan.style[0] == "landmark":
        yield "holds its past as a whole"
    if not state.plan.queries:
        yield "is no longer kept: its queries are suspended"
    if state.plan.axis != plan.scan.attribute.column:
        yield f"is on another axis than {plan.scan.attribute}"
    if (state.plan.keys, state.plan.values) != (aggregate.cell_keys, aggregate.values):
        yield f"is grouped by {', '.join(key.sql for key in state.plan.keys) or 'nothing'}"
    mine, kept = style_for(plan, state.plan.schedule), state.plan.style
    if mine != kept and FREQUENT in (mine[0], kept[0]):
        yield "keeps other top-k lists, or none"
    absent = [a for a in needed if a.id not in state.since]
    if absent:
        yield f"does not keep {', '.join(_named(a) for a in absent[:3])}"


def _named(accumulator: Accumulator) -> str:
    """An accumulator for people."""
    what = accumulator.kind.value if accumulator.arg is None else f"{accumulator.kind.value} of {accumulator.arg}"
    return f"the {what}" + (f" where {accumulator.condition}" if accumulator.condition else "")


def provider(plan: Finalise, select: exp.Expr) -> str:
    """A standing query whose synopsis would answer the question: as far back, and cut where it needs cuts."""
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
