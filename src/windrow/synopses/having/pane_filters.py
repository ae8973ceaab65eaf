"""SubStream Filters over the cells of closed panes: who may pass HAVING, for many thresholds and windows at once.

004_65e36a58973a8297.txt, section 4. Windows lie on pane edges, so a cell is an element: the group is its substream, the
pane's start its timestamp, the cell's count or sum its weight (CI-SUM, section 4.2; for COUNT too, since a cell counts
many tuples). Filters answer suffix windows, so panes are fed in step with the windows that are due: before those that
end at e are asked, the panes below e are fed. Which keys an index finds depends on its level and the window's start
only: thresholds of one level are one look.

A filter is built anew from the cells when groups were renumbered, when late cells were merged into closed panes, or
when longer windows come; it is nothing but a second view of the synopsis, and never saved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from weakref import ReferenceType, ref

import numpy as np

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.answering.gathering import ClosedCells
from windrow.synopses.cells.groups import Ids
from windrow.synopses.having.collective_index import CollectiveIndex, Levels
from windrow.synopses.having.filter_tests import FilterTest
from windrow.synopses.having.pane_extremes import PaneExtremes
from windrow.synopses.having.units import Units, coarseness, level_of
from windrow.synopses.index.sequence import Longs
from windrow.synopses.kinds.basic_interval import BasicIntervalSynopsis
from windrow.synopses.lookups import Pairs
from windrow.types import POINT_MIN
from windrow.windows import Points

HEAVIEST = 1 << 40
"""The greatest sum of a cell that an index takes."""

LONGEST = 1 << 60
"""How many units a substream may come to before its index begins anew."""

_SHARE_MEMORY = 0.7


@dataclass(frozen=True)
class FilterRequest:
    """The windows [start, end) of a query, ends ascending, that a test is asked over; none is longer than `reach`.

    `exact`: the aggregates are compared once more afterwards.
    """

    test: FilterTest
    starts: Points
    ends: Points
    reach: int
    exact: bool = True


class CollectiveFilter:
    """CI-COUNT or CI-SUM fed with cells.

    A negative cell counts as nothing: then the index has too much, which does no harm where `more than v` is compared
    once more, and windows that hold such a cell are not asked otherwise. Of panes up to `blind_upto` it knows nothing.
    It counts in units of 2^shift (`units.py`).
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
        some = slice(None) if self.shift == 0 else units > 0
        self._index.update(groups[some], panes[some], units[some])

    def _weights(self, cells: ClosedCells) -> Longs:
        if self._accumulator.kind is not Kind.SUM_LONG:
            return np.asarray(cells.state[0])
        high, low = cells.state
        high = high + (low >> 32)
        fits = np.abs(high) <= HEAVIEST >> 32
        return np.asarray(np.where(fits, (high << 32) + (low & 0xFFFFFFFF), np.sign(high) * 2 * HEAVIEST))

    def answers(self, asked: FilterRequest, start: int) -> bool:
        """Whether it can be asked over the panes from `start` on."""
        if start <= self.blind_upto:
            return False
        return start > self.negative_upto or (asked.test.is_outer and asked.exact)

    def serves(self, reach: int, shift: int) -> bool:
        return self.reach >= reach and self.shift <= shift

    def level(self, test: FilterTest) -> int:
        return level_of(test, self.levels, self.shift)

    def found(self, level: int, start: int) -> Ids:
        return np.sort(self._index.newer(level, start - 1))


class ExtremeFilter:
    """MAX, or with complemented codes MIN, fed with cells."""

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

    def answers(self, asked: FilterRequest, start: int) -> bool:
        return True

    def serves(self, reach: int, shift: int) -> bool:
        return self.reach >= reach

    def level(self, test: FilterTest) -> int:
        return test.value

    def found(self, level: int, start: int) -> Ids:
        return self._panes.at_least(level, start)


PaneFilter = CollectiveFilter | ExtremeFilter


class PaneFilters:
    """The filters of one synopsis, by accumulator; made when they are asked for."""

    def __init__(self) -> None:
        self._filters: dict[Accumulator, PaneFilter] = {}
        self._levels = Levels(1)
        self._of: tuple[ReferenceType[BasicIntervalSynopsis], int] | None = None
        self._shares: dict[Accumulator, float] = {}

    @property
    def size(self) -> int:
        """Values kept."""
        return sum(filter_.size for filter_ in self._filters.values())

    def __contains__(self, accumulator: Accumulator) -> bool:
        return accumulator in self._filters

    def keep(self, wanted: Collection[Accumulator]) -> None:
        """Let go of the filters that no query needs any more, and of what is known of who passes."""
        self._filters = {a: filter_ for a, filter_ in self._filters.items() if a in wanted}
        self._shares = {a: share for a, share in self._shares.items() if a in wanted}

    def learn(self, accumulator: Accumulator, share: float) -> None:
        """What part of the groups passed just now, by tests of an accumulator."""
        known = self._shares.get(accumulator, share)
        self._shares[accumulator] = _SHARE_MEMORY * known + (1 - _SHARE_MEMORY) * share

    def share(self, accumulator: Accumulator) -> float | None:
        """Which part of the groups passes, of late; None: nothing is known."""
        return self._shares.get(accumulator)

    def candidates(
        self, synopsis: BasicIntervalSynopsis, asked: Sequence[FilterRequest], levels: Levels
    ) -> list[Pairs | None]:
        """The groups that may pass, of every window; None where a filter cannot be asked over one of them."""
        self._refresh(synopsis, levels)
        for accumulator in dict.fromkeys(a for one in asked for a in one.test.reads):
            self._provide(accumulator, [one for one in asked if accumulator in one.test.reads])
        ends = np.concatenate([one.ends for one in asked])
        owner = np.repeat(np.arange(len(asked)), [one.ends.size for one in asked])
        index = np.concatenate([np.arange(one.ends.size) for one in asked])
        found: list[list[Ids] | None] = [[] for _ in asked]
        end, known = POINT_MIN, _Known(self._filters)
        for i in np.argsort(ends, kind="stable").tolist():
            one, into = asked[owner[i]], found[owner[i]]
            if ends[i] != end:
                end, known = int(ends[i]), _Known(self._filters)
            for accumulator in one.test.reads:
                self._feed(synopsis, accumulator, end)
            ids = known.passing(one, int(one.starts[index[i]]))
            if ids is None:
                found[owner[i]] = None
            elif into is not None:
                into.append(ids)
        return [None if ids is None else _pairs(ids) for ids in found]

    def _refresh(self, synopsis: BasicIntervalSynopsis, levels: Levels) -> None:
        """Begin anew where the cells are others, or other groups': after they had been in another home, too."""
        of = ref(synopsis), synopsis.revision
        if (of, levels) != (self._of, self._levels):
            self._filters = {}
            self._of, self._levels = of, levels

    def _provide(self, accumulator: Accumulator, asked: Sequence[FilterRequest]) -> None:
        """A filter as far-reaching and as fine as is asked for, and not ahead of the windows: a tick that failed is
        tried again."""
        held = self._filters.get(accumulator)
        first, reach = min(int(one.ends[0]) for one in asked), max(one.reach for one in asked)
        shift = min(coarseness(one.test, one.exact) for one in asked)
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

    def _feed(self, synopsis: BasicIntervalSynopsis, accumulator: Accumulator, end: int) -> None:
        filter_ = self._filters[accumulator]
        first = max(POINT_MIN, end - filter_.reach)
        if filter_.upto is not None:
            first = max(first, filter_.upto)
        if first < end:
            for cells in synopsis.closed_cells(accumulator, first, end):
                if cells.panes.size:
                    filter_.feed(cells)
        filter_.upto = end


class _Known:
    """What filters have found at one end: equal levels and starts are asked once."""

    def __init__(self, filters: dict[Accumulator, PaneFilter]):
        self._filters = filters
        self._found: dict[tuple[Accumulator, int, int], Ids] = {}

    def passing(self, asked: FilterRequest, start: int) -> Ids | None:
        test = asked.test
        filter_ = self._filters[test.of]
        if not filter_.answers(asked, start):
            return None
        beyond = self._ids(test.of, filter_.level(test), start)
        if test.is_outer:
            return beyond
        alive_in = self._filters[test.alive]
        if test.kind.is_collective and test.value < 1:
            return np.zeros(0, np.int64)
        if not alive_in.answers(asked, start):
            return None
        return np.setdiff1d(self._ids(test.alive, 0, start), beyond, assume_unique=True)

    def _ids(self, accumulator: Accumulator, level: int, start: int) -> Ids:
        key = (accumulator, level, start)
        if key not in self._found:
            self._found[key] = self._filters[accumulator].found(level, start)
        return self._found[key]


def _pairs(ids: Sequence[Ids]) -> Pairs:
    window = np.repeat(np.arange(len(ids)), [some.size for some in ids])
    return Pairs(window, np.concatenate(ids) if ids else np.zeros(0, np.int64))
