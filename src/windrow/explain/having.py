"""EXPLAIN of HAVING: whether a SubStream Filter names who may pass, with whom it is shared, at what estimated costs."""

from __future__ import annotations

from windrow.engine.having import Decision, Fit, fit_of, is_kept, levels_of
from windrow.engine.state import StreamState, SynopsisState
from windrow.plan.nodes import Finalise
from windrow.settings import Settings
from windrow.synopses.stored import StoredSynopsis


def filter_line(plan: Finalise, stream: StreamState, state: SynopsisState | None, settings: Settings) -> str | None:
    """One line; None for a query without HAVING."""
    if plan.having is None:
        return None
    revises = stream.definition.revises
    fit = fit_of(plan, revises)
    if isinstance(fit, str):
        return f"      SubStream Filter: none, {fit}"
    if state is not None and isinstance(state.synopsis, StoredSynopsis):
        return "      SubStream Filter: none, its cells are in the Spark home"
    if state is not None and not all(is_kept(state.plan, name, fit) for name, one in state.plan.queries if one is plan):
        return "      SubStream Filter: none, what it bounds is derived from others' cells"
    if settings.text("substream_filters") == "off":
        return "      SubStream Filter: none, switched off"
    epsilon = f", ε {levels_of(settings).epsilon:.2g}" if fit.test.kind.is_collective else ""
    named = (
        f"SubStream Filter {fit.test.kind.value} for {fit.bound.text}{epsilon}, {_sharing(plan, fit, state, revises)}"
    )
    if settings.text("approximate_having") == "on" and not revises and fit.approximate is not None:
        named += f", approximate: {_relaxed(fit, settings)}"
    else:
        named += ", exact"
    decision = None if state is None else state.having.decisions.get(fit.test.of)
    return f"      {named}; {_decided(decision, settings)}"


def _sharing(plan: Finalise, fit: Fit, state: SynopsisState | None, revises: bool) -> str:
    plans = [] if state is None else [other for _, other in state.plan.queries]
    fits = [fit_of(other, revises) for other in (*plans, *(() if any(p is plan for p in plans) else (plan,)))]
    users = sum(isinstance(other, Fit) and other.test.of == fit.test.of for other in fits)
    return f"shared by {users} queries" if users > 1 else "not shared"


def _relaxed(fit: Fit, settings: Settings) -> str:
    epsilon = levels_of(settings).epsilon
    if fit.test.is_outer:
        return f"groups above {fit.test.value * (1 - epsilon):.4g} may be shown"
    return f"groups below {fit.test.value / (1 - epsilon):.4g} may be shown"


def _decided(decision: Decision | None, settings: Settings) -> str:
    if decision is None:
        return "used" if settings.text("substream_filters") == "on" else "decided when windows are due"
    what = "used" if decision.used else "not used"
    if decision.work is None:
        return f"{what}, {decision.why}"
    work = decision.work
    return (
        f"{what}, {decision.why}: estimated {work.filter_ns / 1e6:.3g} ms a tick with it, {work.pass_ns / 1e6:.3g} ms "
        f"without, for {work.windows} windows of {work.groups} groups, {work.share:.2%} of which pass"
    )
