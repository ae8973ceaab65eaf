"""Expiry: cells that no window needs any more expire, and the past of landmark windows collapses."""

from __future__ import annotations

from windrow.engine.state import StreamState, SynopsisState
from windrow.engine.store.tick_commits import Expiry
from windrow.engine.ticks.due import ranked_below
from windrow.optimizer.sharing.synopsis_plans import LANDMARK
from windrow.synopses import Ability
from windrow.windows.frontier import max_or_none


def expired(stream: StreamState, state: SynopsisState, upto: int) -> Expiry | None:
    """The expiry of cells that are in no later window, in none that may still be corrected, and not in the last
    answered window; None if nothing changes. The last window is kept for lookups: tumbling windows would otherwise
    leave none.

    It never reaches above the open pane: if SLIDE exceeds RANGE, a query that joins later may need the cells between.
    """
    if state.synopsis.cannot(Ability.PANES) is not None or not state.plan.queries:
        return None
    horizon, below = stream.horizon(state.plan.axis, upto), state.kept_from
    if horizon is not None:
        needed = [plan.window.held_from(horizon) for _, plan in state.plan.queries]
        below = max_or_none(below, min(*needed, state.closed_at(horizon)))
    ranked = ranked_below(stream, state, upto)
    return None if (below, ranked) == (state.kept_from, state.ranked) else Expiry(state, below, ranked)


def expire(gone: Expiry) -> None:
    """Expire the cells in memory, after the commit."""
    if gone.below is not None:
        gone.state.synopsis.expire(gone.below)


def collapse(stream: StreamState, state: SynopsisState, upto: int) -> None:
    """Merge the past of landmark windows into one pane, as far as no tuple can fall into it, and into one more for each
    query that was created later."""
    horizon = stream.horizon(state.plan.axis, upto)
    if state.plan.style[0] == LANDMARK and horizon is not None:
        state.synopsis.collapse(state.closed_at(horizon), stream.landmarks(state))
