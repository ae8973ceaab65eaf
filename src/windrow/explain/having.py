"""EXPLAIN of HAVING: the SubStream Filter of a query, its sharing, and its estimated costs."""

from __future__ import annotations

from windrow.cql.dialect import CQL
from windrow.engine.choices.having import FilterFit, fit_of, is_kept, levels_of
from windrow.engine.state import StreamState, SynopsisState
from windrow.explain.decisions import filter_decided
from windrow.plan.nodes import Finalise
from windrow.settings import Settings
from windrow.synopses import Ability
from windrow.synopses.answering.planner import HavingWay


def filter_line(plan: Finalise, stream: StreamState, state: SynopsisState | None, settings: Settings) -> str | None:
    """The line about the filter; None for a query without HAVING."""
    if plan.having is None:
        return None
    revises = stream.definition.revises
    fit = _filtered(plan, stream, state, settings)
    if isinstance(fit, str):
        return f"      SubStream Filter: none, {fit}"
    epsilon = f", ε {levels_of(settings).epsilon:.2g}" if fit.test.kind.is_collective else ""
    named = (
        f"SubStream Filter {fit.test.kind.value} for {fit.bound.text}{epsilon}, {_sharing(plan, fit, state, revises)}"
    )
    used = _is_used(plan, fit, state, settings)
    if _may_relax(fit, revises, settings) and used is not False:
        named += f", approximate{'' if used else ' where it is used'}: {_relaxed(fit, settings)}"
    else:
        named += ", exact"
    decision = None if state is None else state.having.decisions.get(fit.test.of)
    text = f"      {named}; {filter_decided(decision, settings)}"
    return text if not _unfiltered(plan, state) else f"{text}; {_UNFILTERED}"


_UNFILTERED = "the last windows were answered exactly without it: they hold negative or too large sums"


def having_text(plan: Finalise, stream: StreamState, state: SynopsisState | None, settings: Settings) -> str | None:
    """The HAVING text as evaluated, if some bound is not compared again; else None."""
    fit = None if plan.having is None else _filtered(plan, stream, state, settings)
    if not isinstance(fit, FilterFit) or not _may_relax(fit, stream.definition.revises, settings):
        return None
    if not _is_used(plan, fit, state, settings):
        return None
    rest = fit.approximate.having if fit.approximate is not None else None
    left = "" if rest is None else f"{rest.sql(dialect=CQL)}; "
    return f"{left}{fit.bound.text} is not compared: {_relaxed(fit, settings)} (approximate_having)"


def _filtered(plan: Finalise, stream: StreamState, state: SynopsisState | None, settings: Settings) -> FilterFit | str:
    """How a filter serves the query, or the reason why none does."""
    fit = fit_of(plan, stream.definition.revises)
    if isinstance(fit, str):
        return fit
    unable = None if state is None else state.synopsis.cannot(Ability.NARROW)
    if unable is not None:
        return unable
    if state is not None and not all(is_kept(state.plan, name, fit) for name, one in state.plan.queries if one is plan):
        return "the bounded aggregate is derived from other accumulators"
    return "switched off" if settings.text("substream_filters") == "off" else fit


def _may_relax(fit: FilterFit, revises: bool, settings: Settings) -> bool:
    return settings.text("approximate_having") == "on" and not revises and fit.approximate is not None


def _unfiltered(plan: Finalise, state: SynopsisState | None) -> bool:
    """Whether the filter could not answer the windows that were due last."""
    return state is not None and any(
        one is plan and name in state.having.unfiltered for name, one in state.plan.queries
    )


def _is_used(plan: Finalise, fit: FilterFit, state: SynopsisState | None, settings: Settings) -> bool | None:
    """Whether windows are answered through the filter; None if not decided yet."""
    decision = None if state is None else state.having.decisions.get(fit.test.of)
    if _unfiltered(plan, state):
        return False
    if decision is None:
        return True if settings.text("substream_filters") == "on" else None
    return decision.chosen is HavingWay.FILTER


def _sharing(plan: Finalise, fit: FilterFit, state: SynopsisState | None, revises: bool) -> str:
    plans = [] if state is None else [other for _, other in state.plan.queries]
    fits = [fit_of(other, revises) for other in (*plans, *(() if any(p is plan for p in plans) else (plan,)))]
    users = sum(isinstance(other, FilterFit) and other.test.of == fit.test.of for other in fits)
    return f"shared by {users} queries" if users > 1 else "not shared"


def _relaxed(fit: FilterFit, settings: Settings) -> str:
    epsilon = levels_of(settings).epsilon
    if fit.test.is_outer:
        return f"groups above {fit.test.value * (1 - epsilon):.4g} may be shown"
    return f"groups below {fit.test.value / (1 - epsilon):.4g} may be shown"
