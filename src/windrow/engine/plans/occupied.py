"""The windows of a periodic plan that hold a tuple: only these are answered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.operators.ticks import DueTicks, OccupiedTicks, Points

LONG_GAP = 1_000
"""So many ticks in a row without a tuple in any window are not processed one by one."""


def occupied(due: DueTicks, lifetimes: Sequence[tuple[Points, Points]], covered: int | None) -> OccupiedTicks:
    """The runs of due ticks. `lifetimes` are the births and ends of new tuples, by window. Earlier tuples are in
    windows at all ticks below `covered` (None: there are none)."""
    births = np.concatenate([one for one, _ in lifetimes]) if lifetimes else np.zeros(0, np.int64)
    ends = np.concatenate([one for _, one in lifetimes]) if lifetimes else np.zeros(0, np.int64)
    enter, leave = due.first_above(births), due.first_above(ends)
    if covered is not None and covered > due.before:
        enter, leave = np.append(enter, due.before), np.append(leave, covered)
    order = np.argsort(enter, kind="stable")
    enter, leave = enter[order], np.maximum.accumulate(leave[order]) if order.size else leave
    is_first = np.ones(enter.size, bool)
    is_first[1:] = enter[1:] > leave[:-1]
    is_last = np.append(is_first[1:], True)[: enter.size]
    return OccupiedTicks(enter[is_first], leave[is_last])


def without_gaps(due: DueTicks, runs: OccupiedTicks) -> DueTicks | None:
    """The part of the due ticks up to the first long gap, and not beginning in one; None if it is all a gap."""
    before, upto = due.before, due.upto
    if not runs.starts.size or runs.starts[0] > upto:
        return None if due.count > LONG_GAP else due
    if runs.starts[0] - before > LONG_GAP * due.step:
        before = int(runs.starts[0]) - due.step
    for start, stop in zip(runs.starts[1:], runs.stops[:-1], strict=True):
        if start - stop > LONG_GAP * due.step:
            upto = min(upto, int(stop))
            break
    else:
        if upto - runs.stops[-1] > LONG_GAP * due.step:
            upto = int(runs.stops[-1])
    return DueTicks(before, upto, due.step, due.origin) if upto > before else due
