"""What holistic queries ask of a synopsis, measured: the sizes that the planner chooses by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.holistic import ROWS
from windrow.plan.nodes import WindowAggregate
from windrow.synopses.answering.planner import (
    FORCED,
    HolisticDecision,
    forced_selection,
    gaining,
    plan_selection,
    roll_up_at_once,
    rolled_up,
)
from windrow.synopses.answering.selection_costs import SelectionBatch, SelectionWork, SortWork
from windrow.synopses.holistic.value_codes import cell_groups_of
from windrow.synopses.kinds.basic_interval import BasicIntervalSynopsis
from windrow.synopses.kinds.buffer import BufferSynopsis
from windrow.windows import Points

QueryWindows = tuple[WindowAggregate, Points, Points]
"""What a query asks: its windows from these points to those, at least one."""


def decide(
    synopsis: BasicIntervalSynopsis, asked: Sequence[QueryWindows], setting: str = "auto"
) -> list[HolisticDecision]:
    """The cheaper way for each of some queries that are asked together and can be answered either way; or what a
    setting says. No more is measured than the decision needs."""
    count = len(asked)
    if isinstance(synopsis, BufferSynopsis):
        return [rolled_up("tuples are kept as they are")] * count
    if setting == "roll up":
        return [rolled_up(FORCED)] * count
    at_once = roll_up_at_once(sum(starts.size for _, starts, _ in asked), synopsis.groups.count)
    if setting != "selection" and at_once is not None:
        return [rolled_up(at_once)] * count
    panes = synopsis.closed_panes
    works = [selection_work(synopsis, panes, *one) for one in asked]
    if setting == "selection":
        return [forced_selection(selection_batch(synopsis, panes, list(zip(asked, works, strict=True))))] * count
    gain = gaining(works)
    return plan_selection(works, gain, selection_batch(synopsis, panes, [(asked[i], work) for i, work in gain.items()]))


def selection_batch(
    synopsis: BasicIntervalSynopsis, panes: Points, some: Sequence[tuple[QueryWindows, SelectionWork]]
) -> SelectionBatch | None:
    """What these queries come to, with as many tuples as cells; with all their tuples, where that pays."""
    if not some:
        return None
    first = min(int(starts.min()) for (_, starts, _), _ in some)
    last = max(int(ends.max()) for (_, _, ends), _ in some)
    between = panes[np.searchsorted(panes, first) : np.searchsorted(panes, last)]
    works = tuple(work for _, work in some)
    sorting = SortWork(
        int(between.size),
        max(work.sorting.widest for work in works),
        works[0].sorting.groups,
        cells := synopsis.count_cells(first, last),
        cells,
        frozenset(line for work in works for line in work.sorting.lines),
    )
    whole = SelectionBatch(sorting, works)
    if not whole.pays:
        return whole
    tuples = int(synopsis.totals(some[0][0][0].presence, between).sum())
    each = max(tuples, cells) / max(cells, 1)
    works = tuple(replace(work, sorting=replace(work.sorting, tuples=int(work.sorting.cells * each))) for work in works)
    return SelectionBatch(replace(sorting, tuples=max(tuples, cells)), works)


def selection_work(
    synopsis: BasicIntervalSynopsis, panes: Points, aggregate: WindowAggregate, starts: Points, ends: Points
) -> SelectionWork:
    """What one query asks, if every cell has one tuple: there are no fewer."""
    low, high = np.searchsorted(panes, starts), np.searchsorted(panes, ends)
    widths = np.maximum(high - low, 0)
    calls = list(dict.fromkeys(call for call in aggregate.aggregates if call.values))
    distincts = sum(call.function == COUNT_DISTINCT for call in calls)
    medians = sum(call.function == "MEDIAN" for call in calls)
    sorting = SortWork(
        max(0, int(high.max() - low.min())),
        int(widths.max()),
        cell_groups_of(synopsis.groups, len(aggregate.keys)).count,
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
