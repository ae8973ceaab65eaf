"""Whether holistic aggregates are selected from sorted base intervals (`selecting.py`) or rolled up from counters
(`roll_up.py`), by estimated costs. The answers are the same.

Rolling up takes every value of every window's groups; selecting sorts the tuples of all panes once, and then takes each
window of a group alone, whatever its values. So selection pays where windows are many that have many values in common:
measured 2 to 17 times faster from some 100 values a group on, 4 times slower at 10 (`benchmarks/quantiles.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from windrow.plan.accumulators import AggregateCall
from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.holistic import ROWS
from windrow.plan.nodes import WindowAggregate
from windrow.synopses.basic_interval import BasicIntervalSynopsis
from windrow.synopses.buffer import BufferSynopsis
from windrow.synopses.cells import fold_of
from windrow.synopses.pane_tables import can_be_tabled
from windrow.synopses.selecting import MOST_SORTED_BYTES, SELECTED
from windrow.synopses.value_codes import outer_of
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
class SelectionWork:
    """What is asked: `windows` of `panes` panes, the widest of `widest`, over so many tuples and cells in all.

    `values` are the values of all `groups` there are. `selections`, `distincts`, `lines`: elements to be selected,
    distinct values to be counted, and what must be sorted for them; `merged`: states of other aggregates.
    """

    windows: int
    panes: float
    widest: int
    between: int
    groups: int
    values: int
    cells: int
    tuples: int
    selections: float
    distincts: int
    lines: int
    calls: int
    merged: int

    @property
    def levels(self) -> int:
        return max(1, self.widest.bit_length())

    @property
    def share(self) -> float:
        """Of what is read in all, what a window has."""
        return min(1.0, self.panes / max(self.between, 1))

    def _there(self, possible: int) -> float:
        """How many of some groups or values a window has, if its cells fell at random."""
        return possible * -math.expm1(-self.cells * self.share / max(possible, 1))

    @property
    def rolled_ns(self) -> float:
        each = ROLLED_NS * self.calls + MERGED_NS * self.merged
        return self.windows * (self.values * LOOKED_NS + self._there(self.values) * each)

    @property
    def selected_ns(self) -> float:
        rows = self.windows * self._there(self.groups)
        held = self.tuples * self.share / max(self._there(self.groups), 1.0)
        arrays = 2 * self.levels * max(1.0, math.log2(held + 1))
        sorting = self.lines * self.tuples * (SORTED_NS + LEVEL_NS * self.levels)
        looking = rows * arrays * (SELECT_NS * self.selections + BELOW_NS * self.distincts)
        return CALLS_NS + READ_NS * self.cells + sorting + looking + rows * MERGED_NS * (1 + self.merged)

    @property
    def nbytes(self) -> int:
        """The sorted levels, what sorting them takes besides, and where every pane of a group begins."""
        return self.lines * (self.tuples * (4 * self.levels + 32) + 16 * self.groups * self.between)

    @property
    def pays(self) -> bool:
        return self.nbytes <= MOST_SORTED_BYTES and self.selected_ns < self.rolled_ns


@dataclass(frozen=True)
class HolisticDecision:
    """What was decided when a query was last answered, and from what; `why` where there was nothing to estimate."""

    way: HolisticWay
    why: str
    work: SelectionWork | None = None


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


def decide(
    synopsis: BasicIntervalSynopsis, aggregate: WindowAggregate, starts: Points, ends: Points, asked: str = "auto"
) -> HolisticDecision:
    """The cheaper way for these windows of a query that can be answered either way; or as `asked`, a way's name."""
    if isinstance(synopsis, BufferSynopsis):
        return HolisticDecision(HolisticWay.ROLL_UP, "tuples are kept as they are")
    if asked != "auto":
        return HolisticDecision(HolisticWay.SELECTION if asked == "selection" else HolisticWay.ROLL_UP, "forced")
    if starts.size * synopsis.groups.count * (LOOKED_NS + ROLLED_NS) < NO_THOUGHT_NS:
        return HolisticDecision(HolisticWay.ROLL_UP, "few windows of few values")
    work = work_of(synopsis, aggregate, starts, ends)
    if work.pays:  # with as many tuples as cells: there are no fewer
        work = replace(work, tuples=_tuples(synopsis, aggregate, starts, ends))
    return HolisticDecision(HolisticWay.SELECTION if work.pays else HolisticWay.ROLL_UP, "by cost", work)


def work_of(synopsis: BasicIntervalSynopsis, aggregate: WindowAggregate, starts: Points, ends: Points) -> SelectionWork:
    """What these windows come to, each way, if every cell has one tuple."""
    panes = synopsis.closed_panes
    low, high = np.searchsorted(panes, starts), np.searchsorted(panes, ends)
    widths = np.maximum(high - low, 0)
    cells = synopsis.count_cells(int(starts.min()), int(ends.max()))
    calls = list(dict.fromkeys(call for call in aggregate.aggregates if call.values))
    distincts = sum(call.function == COUNT_DISTINCT for call in calls)
    medians = sum(call.function == "MEDIAN" for call in calls)
    return SelectionWork(
        windows=int(starts.size),
        panes=float(widths.mean()),
        widest=int(widths.max()),
        between=max(0, int(high.max() - low.min())),
        groups=outer_of(synopsis.groups, len(aggregate.keys)).count,
        values=max(synopsis.groups.count - 1, 1),
        cells=cells,
        tuples=cells,
        selections=len(calls) - distincts + 0.5 * medians,
        distincts=distincts,
        lines=len({_line(call) for call in calls}),
        calls=len(calls),
        merged=len({part for call in aggregate.aggregates if not call.values for _, part in call.parts}),
    )


def _tuples(synopsis: BasicIntervalSynopsis, aggregate: WindowAggregate, starts: Points, ends: Points) -> int:
    panes = synopsis.closed_panes
    between = panes[np.searchsorted(panes, starts.min()) : np.searchsorted(panes, ends.max())]
    return int(synopsis.totals(aggregate.presence, between).sum())


def _line(call: AggregateCall) -> tuple[object, ...]:
    return call.values, call.part(ROWS), call.function == COUNT_DISTINCT
