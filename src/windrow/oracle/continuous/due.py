"""Which ticks of a plan are due, from the frontiers of its streams after each event.

A tick b is due when no stream of the plan can bring a tuple below b any more: its frontier is at least b, or its input
has ended. When all inputs have ended, the plan goes on to the first tick above their greatest point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windrow.oracle.admission import Admitted
from windrow.oracle.continuous.plan import StandingPlan

INFINITE = 1 << 80


@dataclass(frozen=True)
class DueRange:
    """The ticks from `first` to `last` that the plan has processed."""

    first: int
    last: int

    def all(self, step: int) -> range:
        return range(self.first, self.last + 1, step)

    def among(self, ticks: Iterable[int]) -> list[int]:
        return sorted({tick for tick in ticks if self.first <= tick <= self.last})


def due_of(
    plan: StandingPlan,
    log: Sequence[str],
    admitted: Mapping[str, Admitted],
    axes: Mapping[str, set[str]],
    points: Mapping[str, Sequence[int]],
    beyond: int | None = None,
) -> DueRange | None:
    """The ticks that the plan has processed after the events of the log; None if none.

    `log` has the stream of each event. `admitted` has the streams of the plan, and those that feed its tables; `axes`
    the window attributes of each, and `points` the points of its tuples. At the end of all input a plan goes on to the
    first tick above `beyond`, if that is given.
    """
    every = [point for name in plan.streams for point in points[name]]
    if not every:
        return None
    reached = reached_after(plan, log, admitted, axes)
    if all(one.ended for one in admitted.values()):
        least_end = plan.first_above(max(point for some in points.values() for point in some))
        reached.append(least_end if beyond is None else max(least_end, plan.floor(beyond)))
    first, last = plan.first_above(min(every)), max(reached)
    before = max(reached[: plan.created + 1])
    first = max(first, before + plan.step) if before > -INFINITE else first
    return DueRange(first, last) if first <= last else None


def reached_after(
    plan: StandingPlan,
    log: Sequence[str],
    admitted: Mapping[str, Admitted],
    axes: Mapping[str, set[str]],
    at_end: int | None = None,
) -> list[int]:
    """The last due tick before the first event and after each event; −INFINITE: none is. `at_end`: what takes the place
    of the tick that is due once all inputs have ended, which frontiers alone do not say."""
    events = dict.fromkeys(admitted, 0)
    found = [-INFINITE]
    for name in log:
        if name in events:
            events[name] += 1
        frontiers = [_frontier(admitted[one], count, axes[one]) for one, count in events.items()]
        least = min(frontiers)
        is_promise = -INFINITE < least < INFINITE
        if least >= INFINITE and at_end is not None:
            found.append(at_end)
        else:
            found.append(max(found[-1], plan.floor(least)) if is_promise else found[-1])
    return found


def _frontier(state: Admitted, events: int, axes: set[str]) -> int:
    """The least frontier of the window attributes after so many events of the stream."""
    if not events:
        return -INFINITE
    instant = state.instants[events - 1]
    if instant.ended:
        return INFINITE
    known = [instant.frontiers[column] for column in axes]
    return min(-INFINITE if frontier is None else frontier for frontier in known)
