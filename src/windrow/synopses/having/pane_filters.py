"""SubStream Filters over the cells of closed panes: they find the groups that may pass HAVING.

Arasu and Widom, VLDB 2004, section 4. One filter serves many thresholds and windows. Windows lie on pane edges, so a
cell is an element: its group is the substream, the pane's start the timestamp, the cell's count or sum the weight
(CI-SUM, section 4.2; for COUNT too, since a cell counts many tuples). Filters answer suffix windows, so the panes below
e are fed before the windows that end at e are looked up. The keys that an index finds depend only on the level and the
window's start, so thresholds of one level need one search.

A filter is rebuilt from the cells when groups are renumbered, when late cells are merged into closed panes, or when
longer windows come. It is a second view of the synopsis and never saved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from weakref import ReferenceType, ref

import numpy as np

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.answering.closed_panes import ClosedPanes
from windrow.synopses.answering.gathering import ClosedCells
from windrow.synopses.cells.arrays import Longs
from windrow.synopses.cells.groups import Ids
from windrow.synopses.having.collective_index import CollectiveIndex, Levels
from windrow.synopses.having.filter_tests import FilterTest
from windrow.synopses.having.pane_extremes import PaneExtremes
from windrow.synopses.having.units import Units, coarseness, level_of
from windrow.synopses.lookups import Pairs
from windrow.types import POINT_MIN
from windrow.windows import Points

HEAVIEST = 1 << 40
"""The greatest sum of a cell that an index accepts."""

LONGEST = 1 << 60
"""The greatest total weight that an index takes in before it starts again empty."""

_SHARE_MEMORY = 0.7


@dataclass(frozen=True)
class FilterRequest:
    """A test and the windows [start, end) of a query, ends ascending; none is longer than `reach`.

    `exact`: the aggregates of the groups found are compared again afterwards.
    """

    test: FilterTest
    starts: Points
    ends: Points
    reach: int
    exact: bool = True


class CollectiveFilter:
    """CI-COUNT or CI-SUM over cells, in units of 2^shift (`units.py`).

    A negative cell counts as 0, so the index has too much. That is harmless where `more than v` is compared again;
    other tests do not use the filter over windows with such a cell (`negative_upto`). The index is not complete up to
    the pane `blind_upto`.
    """

    def __init__(self, accumulator: Accumulator, levels: Levels, reach: int, shift: int):
        self._accumulator, self.levels, self.reach = accumulator, levels, reach
        self.shift = shift
        self._units = Units(shift)
        self._index = CollectiveIndex(levels, reach)
        self._total = 0
        self.negative_upto = self.blind_upto = POINT_MIN
        self.upto: int | None = None

    @property
    def size(self) -> int:
        return self._index.size

    def feed(self, cells: ClosedCells) -> None:
        panes, groups, weights = cells.panes, cells.groups, self._weights(cells)
        for unfit, name in ((weights < 0, "negative_upto"), (weights > HEAVIEST, "blind_upto")):
            if unfit.any():
                setattr(self, name, int(panes[unfit].max()))
        fit = (weights > 0) & (weights <= HEAVIEST)
        if not fit.all():
            panes, groups, weights = panes[fit], groups[fit], weights[fit]
        self._total += int(weights.sum())
        if self._total > LONGEST:
            self._index, self._total, self.blind_upto = CollectiveIndex(self.levels, self.reach), 0, int(panes[-1])
            return
        units = self._units.passed(panes, groups, weights)
        counted = slice(None) if self.shift == 0 else units > 0
        self._index.update(groups[counted], panes[counted], units[counted])

    def _weights(self, cells: ClosedCells) -> Longs:
        if self._accumulator.kind is not Kind.SUM_LONG:
            return np.asarray(cells.state[0])
        high, low = cells.state
        high = high + (low >> 32)
        fits = np.abs(high) <= HEAVIEST >> 32
        return np.asarray(np.where(fits, (high << 32) + (low & 0xFFFFFFFF), np.sign(high) * 2 * HEAVIEST))

    def answers(self, request: FilterRequest, start: int) -> bool:
        """Whether the filter can answer a request over the panes from `start` on."""
        if start <= self.blind_upto:
            return False
        return start > self.negative_upto or (request.test.is_outer and request.exact)

    def serves(self, reach: int, shift: int) -> bool:
        return self.reach >= reach and self.shift <= shift

    def level(self, test: FilterTest) -> int:
        return level_of(test, self.levels, self.shift)

    def found(self, level: int, start: int) -> Ids:
        return np.sort(self._index.newer(level, start - 1))


class ExtremeFilter:
    """MAX over cells; MIN with complemented codes."""

    shift = 0

    def __init__(self, accumulator: Accumulator, reach: int):
        self._is_max = accumulator.kind is Kind.GREATEST
        self._panes = PaneExtremes(reach)
        self.reach = reach
        self.upto: int | None = None

    @property
    def size(self) -> int:
        return self._panes.size

    def feed(self, cells: ClosedCells) -> None:
        codes = cells.state[0]
        self._panes.feed(cells.panes, cells.groups, codes if self._is_max else ~codes)

    def answers(self, request: FilterRequest, start: int) -> bool:
        return True

    def serves(self, reach: int, shift: int) -> bool:
        return self.reach >= reach

    def level(self, test: FilterTest) -> int:
        return test.value

    def found(self, level: int, start: int) -> Ids:
        return self._panes.at_least(level, start)


PaneFilter = CollectiveFilter | ExtremeFilter


class PaneFilters:
    """The filters of one synopsis by accumulator, made on first use."""

    def __init__(self) -> None:
        self._filters: dict[Accumulator, PaneFilter] = {}
        self._levels = Levels(1)
        self._of: tuple[ReferenceType[ClosedPanes], int] | None = None
        self._shares: dict[Accumulator, float] = {}

    @property
    def size(self) -> int:
        """The number of values held."""
        return sum(filter_.size for filter_ in self._filters.values())

    def __contains__(self, accumulator: Accumulator) -> bool:
        return accumulator in self._filters

    def keep(self, wanted: Collection[Accumulator]) -> None:
        """Drop the filters and shares of accumulators that are not wanted."""
        self._filters = {a: filter_ for a, filter_ in self._filters.items() if a in wanted}
        self._shares = {a: share for a, share in self._shares.items() if a in wanted}

    def learn(self, accumulator: Accumulator, share: float) -> None:
        """Record the share of the groups that just passed the tests of an accumulator."""
        known = self._shares.get(accumulator, share)
        self._shares[accumulator] = _SHARE_MEMORY * known + (1 - _SHARE_MEMORY) * share

    def share(self, accumulator: Accumulator) -> float | None:
        """The share of the groups that passed lately, smoothed; None if unknown."""
        return self._shares.get(accumulator)

    def candidates(
        self, synopsis: ClosedPanes, requests: Sequence[FilterRequest], levels: Levels
    ) -> list[Pairs | None]:
        """For every request the groups that may pass, by window; None if a filter cannot answer one of the windows."""
        self._refresh(synopsis, levels)
        for accumulator in dict.fromkeys(a for one in requests for a in one.test.reads):
            self._provide(accumulator, [one for one in requests if accumulator in one.test.reads])
        ends = np.concatenate([one.ends for one in requests])
        owner = np.repeat(np.arange(len(requests)), [one.ends.size for one in requests])
        index = np.concatenate([np.arange(one.ends.size) for one in requests])
        found: list[list[Ids] | None] = [[] for _ in requests]
        end, findings = POINT_MIN, _Findings(self._filters)
        for i in np.argsort(ends, kind="stable").tolist():
            one, into = requests[owner[i]], found[owner[i]]
            if ends[i] != end:
                end, findings = int(ends[i]), _Findings(self._filters)
            for accumulator in one.test.reads:
                self._feed(synopsis, accumulator, end)
            ids = findings.passing(one, int(one.starts[index[i]]))
            if ids is None:
                found[owner[i]] = None
            elif into is not None:
                into.append(ids)
        return [None if ids is None else _pairs(ids) for ids in found]

    def _refresh(self, synopsis: ClosedPanes, levels: Levels) -> None:
        """Drop all filters if the cells or the group ids changed, also by a stay in another home."""
        of = ref(synopsis), synopsis.revision
        if (of, levels) != (self._of, self._levels):
            self._filters = {}
            self._of, self._levels = of, levels

    def _provide(self, accumulator: Accumulator, requests: Sequence[FilterRequest]) -> None:
        """Make sure that the filter has the reach and fineness of all requests and is not ahead of their windows.

        It is ahead when a tick failed and is tried again.
        """
        held = self._filters.get(accumulator)
        first, reach = min(int(one.ends[0]) for one in requests), max(one.reach for one in requests)
        shift = min(coarseness(one.test, one.exact) for one in requests)
        if held is not None:
            if held.serves(reach, shift) and (held.upto is None or held.upto <= first):
                return
            reach, shift = max(reach, held.reach), min(shift, held.shift)
        is_extreme = accumulator.kind in (Kind.LEAST, Kind.GREATEST)
        self._filters[accumulator] = (
            ExtremeFilter(accumulator, reach)
            if is_extreme
            else CollectiveFilter(accumulator, self._levels, reach, shift)
        )

    def _feed(self, synopsis: ClosedPanes, accumulator: Accumulator, end: int) -> None:
        filter_ = self._filters[accumulator]
        first = max(POINT_MIN, end - filter_.reach)
        if filter_.upto is not None:
            first = max(first, filter_.upto)
        if first < end:
            for cells in synopsis.closed_cells(accumulator, first, end):
                if cells.panes.size:
                    filter_.feed(cells)
        filter_.upto = end


class _Findings:
    """The findings of filters for one window end; equal levels and starts are searched once."""

    def __init__(self, filters: dict[Accumulator, PaneFilter]):
        self._filters = filters
        self._found: dict[tuple[Accumulator, int, int], Ids] = {}

    def passing(self, request: FilterRequest, start: int) -> Ids | None:
        test = request.test
        filter_ = self._filters[test.of]
        if not filter_.answers(request, start):
            return None
        beyond = self._ids(test.of, filter_.level(test), start)
        if test.is_outer:
            return beyond
        alive_in = self._filters[test.alive]
        if test.kind.is_collective and test.value < 1:
            return np.zeros(0, np.int64)
        if not alive_in.answers(request, start):
            return None
        return np.setdiff1d(self._ids(test.alive, 0, start), beyond, assume_unique=True)

    def _ids(self, accumulator: Accumulator, level: int, start: int) -> Ids:
        key = (accumulator, level, start)
        if key not in self._found:
            self._found[key] = self._filters[accumulator].found(level, start)
        return self._found[key]


def _pairs(ids: Sequence[Ids]) -> Pairs:
    window = np.repeat(np.arange(len(ids)), [groups.size for groups in ids])
    return Pairs(window, np.concatenate(ids) if ids else np.zeros(0, np.int64))
