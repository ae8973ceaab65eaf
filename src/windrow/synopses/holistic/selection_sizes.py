"""Measures the sizes by which the planner chooses between selection and roll-up of holistic queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.holistic import ROWS
from windrow.plan.nodes import WindowAggregate
from windrow.synopses.answering.closed_panes import ClosedPanes
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
from windrow.synopses.cells.value_codes import cell_groups_of
from windrow.synopses.synopsis import Ability, Synopsis
from windrow.windows import Points

QueryWindows = tuple[WindowAggregate, Points, Points]
"""A query's aggregate, and the starts and ends of its windows, at least one."""


def decide(synopsis: Synopsis, queries: Sequence[QueryWindows], setting: str = "auto") -> list[HolisticDecision]:
    """The cheaper way for each query of those that are answered together, or the way in the setting.

    All of them may be answered either way. Nothing is measured that the decision does not need.
    """
    count = len(queries)
    hindered, panes = synopsis.cannot(Ability.INDEX), synopsis.readable
    if hindered is not None or panes is None:
        return [rolled_up(str(hindered))] * count
    if setting == "roll up":
        return [rolled_up(FORCED)] * count
    at_once = roll_up_at_once(sum(starts.size for _, starts, _ in queries), synopsis.groups.count)
    if setting != "selection" and at_once is not None:
        return [rolled_up(at_once)] * count
    works = [selection_work(panes, *one) for one in queries]
    if setting == "selection":
        return [forced_selection(selection_batch(panes, list(zip(queries, works, strict=True))))] * count
    gain = gaining(works)
    return plan_selection(works, gain, selection_batch(panes, [(queries[i], work) for i, work in gain.items()]))


def selection_batch(panes: ClosedPanes, queries: Sequence[tuple[QueryWindows, SelectionWork]]) -> SelectionBatch | None:
    """The joint work of queries; None without queries.

    The tuples are counted only if selection pays with one tuple per cell, since counting them takes time.
    """
    if not queries:
        return None
    first = min(int(starts.min()) for (_, starts, _), _ in queries)
    last = max(int(ends.max()) for (_, _, ends), _ in queries)
    closed = panes.closed_panes
    between = closed[np.searchsorted(closed, first) : np.searchsorted(closed, last)]
    works = tuple(work for _, work in queries)
    sorting = SortWork(
        int(between.size),
        max(work.sorting.widest for work in works),
        works[0].sorting.groups,
        cells := panes.count_cells(first, last),
        cells,
        frozenset(line for work in works for line in work.sorting.lines),
    )
    whole = SelectionBatch(sorting, works)
    if not whole.pays:
        return whole
    tuples = int(panes.totals(queries[0][0][0].presence, between).sum())
    each = max(tuples, cells) / max(cells, 1)
    works = tuple(replace(work, sorting=replace(work.sorting, tuples=int(work.sorting.cells * each))) for work in works)
    return SelectionBatch(replace(sorting, tuples=max(tuples, cells)), works)


def selection_work(panes: ClosedPanes, aggregate: WindowAggregate, starts: Points, ends: Points) -> SelectionWork:
    """The work of one query if every cell has one tuple, which is the least it can have."""
    low, high = np.searchsorted(panes.closed_panes, starts), np.searchsorted(panes.closed_panes, ends)
    widths = np.maximum(high - low, 0)
    calls = list(dict.fromkeys(call for call in aggregate.aggregates if call.values))
    distincts = sum(call.function == COUNT_DISTINCT for call in calls)
    medians = sum(call.function == "MEDIAN" for call in calls)
    sorting = SortWork(
        max(0, int(high.max() - low.min())),
        int(widths.max()),
        cell_groups_of(panes.groups, len(aggregate.keys)).count,
        cells := panes.count_cells(int(starts.min()), int(ends.max())),
        cells,
        frozenset((call.values, call.part(ROWS), call.function == COUNT_DISTINCT) for call in calls),
    )
    return SelectionWork(
        sorting,
        windows=int(starts.size),
        panes=float(widths.mean()),
        values=max(panes.groups.count - 1, 1),
        selections=len(calls) - distincts + 0.5 * medians,
        distincts=distincts,
        calls=len(calls),
        merged=len({part for call in aggregate.aggregates if not call.values for _, part in call.parts}),
    )
