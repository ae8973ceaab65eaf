"""What ticks leave of a synopsis: cells that no window needs expire, and the past of landmark windows collapses."""

from __future__ import annotations

from windrow.engine.state import StreamState, SynopsisState
from windrow.engine.store.tick_commits import Expiry
from windrow.engine.ticks.due import ranked_below
from windrow.optimizer.sharing.synopsis_plans import LANDMARK
from windrow.synopses import Ability
from windrow.windows.frontier import greater


def expired(stream: StreamState, state: SynopsisState, upto: int) -> Expiry | None:
    """What no window to come, none that may still be corrected, and not the last that was answered, can hold; None
    where nothing has changed. The last one is kept for lookups: else a tumbling window would leave nothing to look up.

    Never above the open pane: where SLIDE exceeds RANGE, a query that joins later may need what lies between.
    """
    if state.synopsis.cannot(Ability.PANES) is not None or not state.plan.queries:
        return None
    horizon, below = stream.horizon(state.plan.axis, upto), state.kept_from
    if horizon is not None:
        needed = [plan.window.held_from(horizon) for _, plan in state.plan.queries]
        below = greater(below, min(*needed, state.closed_at(horizon)))
    ranked = ranked_below(stream, state, upto)
    return None if (below, ranked) == (state.kept_from, state.ranked) else Expiry(state, below, ranked)


def expire(gone: Expiry) -> None:
    """Once it is committed: in memory."""
    if gone.below is not None:
        gone.state.synopsis.expire(gone.below)


def collapse(stream: StreamState, state: SynopsisState, upto: int) -> None:
    """Landmark windows look at their past as a whole: it becomes one pane, as far as nothing can come into it; one more
    for each query that came later, whose past is shorter."""
    horizon = stream.horizon(state.plan.axis, upto)
    if state.plan.style[0] == LANDMARK and horizon is not None:
        state.synopsis.collapse(state.closed_at(horizon), stream.landmarks(state))
