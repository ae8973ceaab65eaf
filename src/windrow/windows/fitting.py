"""Windows that lie on cuts: a synopsis can answer a lookup only if both of its edges are cuts.

Cuts are a few progressions (period, phase). So the ends of windows of one length whose two edges are cuts are
progressions again: e ≡ q₁ (mod p₁) and e − length ≡ q₂ (mod p₂) meet in one class modulo lcm(p₁, p₂), or never (the
Chinese remainder theorem). This finds the latest one without a search through the cuts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from windrow.types import POINT_MAX
from windrow.windows.cuts import CutSchedule, Progression


def floor_cut(schedule: CutSchedule, point: int) -> int:
    """The greatest cut at or below a point: the start of its pane."""
    at = max((i for i, (start, _) in enumerate(schedule.regimes) if start <= point), default=0)
    start, cuts = schedule.regimes[at]
    floor = max(point - (point - phase) % period for period, phase in cuts.progressions)
    return max(floor, start) if at else floor


def ceiling_cut(schedule: CutSchedule, point: int) -> int:
    """The least cut at or above a point."""
    if is_cut(schedule, point):
        return point
    at = max((i for i, (start, _) in enumerate(schedule.regimes) if start <= point), default=0)
    above = schedule.regimes[at][1].above(point)
    return min(above, schedule.regimes[at + 1][0]) if at + 1 < len(schedule.regimes) else above


def is_cut(schedule: CutSchedule, point: int) -> bool:
    return floor_cut(schedule, point) == point


def latest_end(schedule: CutSchedule, length: int, low: int, high: int) -> int | None:
    """The greatest end of a window of this length within [low, high] whose two edges are cuts, or None."""
    ends = [end for end in _ends(schedule, length, low, high) if low <= end - length and end <= high]
    return max(ends, default=None)


def _ends(schedule: CutSchedule, length: int, low: int, high: int) -> Iterator[int]:
    """The latest such end for each pair of regimes, and the ends of windows with an edge at the start of a regime."""
    starts = [start for start, _ in schedule.regimes]
    bounds = [(start, upto - 1) for start, upto in zip(starts, [*starts[1:], POINT_MAX], strict=True)]
    for end in {*starts[1:], *(start + length for start in starts[1:])}:
        if is_cut(schedule, end) and is_cut(schedule, end - length):
            yield end
    for (first_end, last_end), (_, end_cuts) in zip(bounds, schedule.regimes, strict=True):
        for (first, last), (_, start_cuts) in zip(bounds, schedule.regimes, strict=True):
            least = max(first_end, first + length, low + length)
            most = min(last_end, last + length, high)
            for one in end_cuts.progressions if least <= most else ():
                for other in start_cuts.progressions:
                    met = _greatest_common(one, (other[0], other[1] + length), most)
                    if met is not None and met >= least:
                        yield met


def _greatest_common(one: Progression, other: Progression, most: int) -> int | None:
    """The greatest member ≤ most of both progressions."""
    (p1, q1), (p2, q2) = one, other
    shared = math.gcd(p1, p2)
    if (q2 - q1) % shared:
        return None
    steps = (q2 - q1) // shared * pow(p1 // shared, -1, p2 // shared) % (p2 // shared)
    return most - (most - (q1 + p1 * steps)) % (p1 // shared * p2)


def nearest_windows(schedule: CutSchedule, start: int, end: int) -> list[tuple[int, int]]:
    """Windows on cuts near [start, end), the nearest first."""
    edges = [(floor_cut(schedule, point), ceiling_cut(schedule, point)) for point in (start, end)]
    windows = {(low, high) for low in edges[0] for high in edges[1] if low < high}
    return sorted(windows, key=lambda window: (abs(window[1] - end) + abs(window[0] - start), window))
