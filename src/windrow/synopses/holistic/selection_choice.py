"""Whether holistic aggregates are selected from sorted base intervals (`selecting.py`) or rolled up from counters
(`roll_up.py`), by estimated costs. The answers are the same.

Rolling up takes every value of every window's groups; selecting sorts the tuples of all panes once, and then takes each
window of a group alone, whatever its values. So selection pays where windows are many that have many values in common,
be they of one query or of several (`benchmarks/quantiles.py`: 5 to 33 times faster over 1,000 values a group, even at
100, up to 8 times slower at 10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.holistic import ROWS
from windrow.plan.nodes import WindowAggregate
from windrow.synopses.answering.pane_tables import can_be_tabled
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.holistic.selecting import MOST_SORTED_BYTES, SELECTED
from windrow.synopses.holistic.value_codes import outer_of
from windrow.synopses.kinds.basic_interval import BasicIntervalSynopsis
from windrow.synopses.kinds.buffer import BufferSynopsis
from windrow.windows import Points

LOOKED_NS, ROLLED_NS, MERGED_NS = 20.0, 100.0, 15.0
"""A window's slot of a value, looked up; a counter that is there, rolled up for one holistic aggregate; a state that is
there, for another one."""

READ_NS, SORTED_NS, LEVEL_NS = 70.0, 60.0, 10.0
"""A cell read; an element sorted, and merged on one more level."""

SELECT_NS, BELOW_NS = 35.0, 8.0
"""Of one sorted array, for each halving: an element selected; those below a bound counted."""

CALLS_NS = 3e6
"""Selecting at all: some hundred NumPy calls."""

NO_THOUGHT_NS = 1e7
"""What rolls up in less than this is not worth a thought."""


class HolisticWay(Enum):
    """How the holistic aggregates of a query are answered."""

    SELECTION = "selection from base intervals"
    ROLL_UP = "rolled up from counters"


@dataclass(frozen=True)
class Sorting:
    """What must be sorted first: so many tuples and cells, in all panes that are read; `lines` by what they count."""

    between: int
    widest: int
    groups: int
    cells: int
    tuples: int
    lines: frozenset[tuple[object, ...]]

    @property
    def levels(self) -> int:
        return max(1, self.widest.bit_length())

    @property
    def ns(self) -> float:
        sorting = len(self.lines) * self.tuples * (SORTED_NS + LEVEL_NS * self.levels)
        return CALLS_NS + READ_NS * self.cells + sorting

    @property
    def nbytes(self) -> int:
        """The sorted levels, what sorting them takes besides, and where every pane of a group begins."""
        return len(self.lines) * (self.tuples * (4 * self.levels + 32) + 16 * self.groups * self.between)


@dataclass(frozen=True)
class SelectionWork:
    """What one query asks: `windows` of `panes` panes on average, of groups that have so many `values` in all.

    `calls`: its holistic aggregates, of which `selections` elements are to be selected, and `distincts` count distinct
    values; `merged`: states of other aggregates.
    """

    sorting: Sorting
    windows: int
    panes: float
    values: int
    selections: float
    distincts: int
    calls: int
    merged: int

    @property
    def share(self) -> float:
        """Of what is read in all, what a window has."""
        return min(1.0, self.panes / max(self.sorting.between, 1))

    def _there(self, possible: int) -> float:
        """How many of some groups or values a window has, if its cells fell at random."""
        return possible * -math.expm1(-self.sorting.cells * self.share / max(possible, 1))

    @property
    def rolled_ns(self) -> float:
        each = ROLLED_NS * self.calls + MERGED_NS * self.merged
        return self.windows * (self.values * LOOKED_NS + self._there(self.values) * each)

    @property
    def looked_ns(self) -> float:
        """Selecting, once all is sorted."""
        rows = self.windows * self._there(self.sorting.groups)
        held = self.sorting.tuples * self.share / max(self._there(self.sorting.groups), 1.0)
        arrays = 2 * self.sorting.levels * max(1.0, math.log2(held + 1))
        looking = arrays * (SELECT_NS * self.selections + BELOW_NS * self.distincts)
        return rows * (looking + MERGED_NS * (1 + self.merged))


@dataclass(frozen=True)
class Together:
    """Queries that are asked together, and what is sorted once for all of them."""

    sorting: Sorting
    works: tuple[SelectionWork, ...]

    @property
    def selected_ns(self) -> float:
        return self.sorting.ns + sum(work.looked_ns for work in self.works)

    @property
    def rolled_ns(self) -> float:
        return sum(work.rolled_ns for work in self.works)

    @property
    def pays(self) -> bool:
        return self.sorting.nbytes <= MOST_SORTED_BYTES and self.selected_ns < self.rolled_ns


@dataclass(frozen=True)
class HolisticDecision:
    """What was decided when a query was last answered, and why; `work`: its own part of what was estimated."""

    way: HolisticWay
    why: str
    work: SelectionWork | None = None
    together: Together | None = None


def unfit_for_selection(aggregate: WindowAggregate, revises: bool) -> str | None:
    """What keeps a query's holistic aggregates from being selected; None where nothing does."""
    other = next(
        (call.function for call in aggregate.aggregates if call.values and call.function not in SELECTED), None
    )
    if other is not None:
        return f"{other} takes the counters of all values"
    plain = [part for call in aggregate.aggregates if not call.values for _, part in call.parts]
    if revises and not can_be_tabled(fold_of(a) for a in plain):
        return "sums of doubles that may be corrected are always summed in the same order"
    return None


Windows = tuple[WindowAggregate, Points, Points]
"""What a query asks: its windows from these points to those, at least one."""


def decide(synopsis: BasicIntervalSynopsis, asked: Sequence[Windows], setting: str = "auto") -> list[HolisticDecision]:
    """The cheaper way for each of some queries that are asked together and can be answered either way; or what a
    setting says. Sorting is paid for once, by all whose windows then take less than rolling them up."""
    if isinstance(synopsis, BufferSynopsis):
        return [HolisticDecision(HolisticWay.ROLL_UP, "tuples are kept as they are")] * len(asked)
    if setting == "roll up":
        return [HolisticDecision(HolisticWay.ROLL_UP, "forced")] * len(asked)
    if setting == "selection":
        return _forced(synopsis, asked)
    windows = sum(starts.size for _, starts, _ in asked)
    if windows * synopsis.groups.count * (LOOKED_NS + ROLLED_NS) < NO_THOUGHT_NS:
        return [HolisticDecision(HolisticWay.ROLL_UP, "few windows of few values")] * len(asked)
    panes = synopsis.closed_panes
    works = [_work(synopsis, panes, *one) for one in asked]
    gaining = [i for i, work in enumerate(works) if work.looked_ns < work.rolled_ns]
    whole = _together(synopsis, panes, [(asked[i], works[i]) for i in gaining])
    selects = set(gaining) if whole is not None and whole.pays else set()
    return [
        HolisticDecision(
            HolisticWay.SELECTION if i in selects else HolisticWay.ROLL_UP,
            "by cost",
            work,
            whole if i in gaining else Together(work.sorting, (work,)),
        )
        for i, work in enumerate(works)
    ]


def _forced(synopsis: BasicIntervalSynopsis, asked: Sequence[Windows]) -> list[HolisticDecision]:
    """Selection, as far as what is sorted has room."""
    panes = synopsis.closed_panes
    whole = _together(synopsis, panes, [(one, _work(synopsis, panes, *one)) for one in asked])
    if whole is None or whole.sorting.nbytes <= MOST_SORTED_BYTES:
        return [HolisticDecision(HolisticWay.SELECTION, "forced")] * len(asked)
    why = f"sorting would take more than {MOST_SORTED_BYTES >> 20} MB"
    return [HolisticDecision(HolisticWay.ROLL_UP, why)] * len(asked)


def _together(
    synopsis: BasicIntervalSynopsis, panes: Points, some: Sequence[tuple[Windows, SelectionWork]]
) -> Together | None:
    """What these queries come to, with as many tuples as cells; with all their tuples, where that pays."""
    if not some:
        return None
    first = min(int(starts.min()) for (_, starts, _), _ in some)
    last = max(int(ends.max()) for (_, _, ends), _ in some)
    between = panes[np.searchsorted(panes, first) : np.searchsorted(panes, last)]
    works = tuple(work for _, work in some)
    sorting = Sorting(
        int(between.size),
        max(work.sorting.widest for work in works),
        works[0].sorting.groups,
        cells := synopsis.count_cells(first, last),
        cells,
        frozenset(line for work in works for line in work.sorting.lines),
    )
    whole = Together(sorting, works)
    if not whole.pays:
        return whole
    tuples = int(synopsis.totals(some[0][0][0].presence, between).sum())
    each = max(tuples, cells) / max(cells, 1)
    works = tuple(replace(work, sorting=replace(work.sorting, tuples=int(work.sorting.cells * each))) for work in works)
    return Together(replace(sorting, tuples=max(tuples, cells)), works)


def _work(
    synopsis: BasicIntervalSynopsis, panes: Points, aggregate: WindowAggregate, starts: Points, ends: Points
) -> SelectionWork:
    """What one query asks, if every cell has one tuple: there are no fewer."""
    low, high = np.searchsorted(panes, starts), np.searchsorted(panes, ends)
    widths = np.maximum(high - low, 0)
    calls = list(dict.fromkeys(call for call in aggregate.aggregates if call.values))
    distincts = sum(call.function == COUNT_DISTINCT for call in calls)
    medians = sum(call.function == "MEDIAN" for call in calls)
    sorting = Sorting(
        max(0, int(high.max() - low.min())),
        int(widths.max()),
        outer_of(synopsis.groups, len(aggregate.keys)).count,
        cells := synopsis.count_cells(int(starts.min()), int(ends.max())),
        cells,
        frozenset((call.values, call.part(ROWS), call.function == COUNT_DISTINCT) for call in calls),
    )
    return SelectionWork(
        sorting,
        windows=int(starts.size),
        panes=float(widths.mean()),
        values=max(synopsis.groups.count - 1, 1),
        selections=len(calls) - distincts + 0.5 * medians,
        distincts=distincts,
        calls=len(calls),
        merged=len({part for call in aggregate.aggregates if not call.values for _, part in call.parts}),
    )
