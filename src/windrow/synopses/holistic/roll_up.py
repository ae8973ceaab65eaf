"""Rolls up the rows of a group's values into the group's one row.

The synopsis of a holistic query has a cell for each value of each group, so a lookup gives a row per window, group and
value. The roll-up merges states of distributive accumulators by their folds, and computes holistic aggregates from the
counters in the order of the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import Accumulator, AggregateCall
from windrow.plan.holistic import LEAST, ROWS
from windrow.plan.nodes import WindowAggregate
from windrow.synopses.cells.arrays import run_starts
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import States
from windrow.synopses.cells.distinct import distinct_below
from windrow.synopses.cells.groups import AnyIds, Groups, Ids
from windrow.synopses.cells.value_codes import cell_groups_of, codes_of, codes_together
from windrow.synopses.holistic.from_counters import ValueCounters, holistic_result
from windrow.synopses.lookups import LookupAnswer
from windrow.synopses.results.values import overflows, result_of


@dataclass(frozen=True)
class AnswerRows:
    """Answer rows in window order: for each its window, a cell of its group, and its states.

    `each`: the rows of every window, where all have as many. `holistic`: columns of computed aggregates; `spoiled`
    counts their values that overflowed.
    """

    window: Ids
    cells: AnyIds
    states: States
    each: int | None = None
    holistic: dict[AggregateCall, pa.Array] = field(default_factory=dict)
    spoiled: int = 0

    def result(self, call: AggregateCall) -> pa.Array:
        return self.holistic[call] if call.values else result_of(call, self.states)

    def overflows(self, calls: Sequence[AggregateCall]) -> int:
        return self.spoiled + sum(overflows(call, self.states) for call in calls if not call.values)


def rows_of(aggregate: WindowAggregate, looked: LookupAnswer, groups: Groups) -> AnswerRows:
    """Looked-up rows as rows of the query's groups. Without GROUP BY every window has one row, also an empty window."""
    if looked.columns is not None:
        return AnswerRows(looked.window, looked.groups, looked.states, looked.each, dict(looked.columns))
    if not aggregate.is_holistic:
        return AnswerRows(looked.window, looked.groups, looked.states, looked.each)
    window, cells, at = _slots(aggregate, looked, groups)
    plain = dict.fromkeys(a for call in aggregate.aggregates if not call.values for _, a in call.parts)
    states = {a: _folded(a, looked.states, at, window.size) for a in plain}
    columns, spoiled = {}, 0
    for call in dict.fromkeys(call for call in aggregate.aggregates if call.values):
        counters, unfit = _counters(call, aggregate, looked, groups, at, window.size)
        columns[call] = holistic_result(call, counters)
        spoiled += unfit
    return AnswerRows(window, cells, states, None, columns, spoiled)


def _slots(aggregate: WindowAggregate, looked: LookupAnswer, groups: Groups) -> tuple[Ids, Ids, Ids]:
    """The window and a cell of each answer row, and the answer row of each looked-up row."""
    if not aggregate.keys:
        return np.arange(looked.windows), np.zeros(looked.windows, np.int64), looked.window
    outer = cell_groups_of(groups, len(aggregate.keys))
    width = outer.first.size
    found, at = distinct_below(looked.window * width + outer.of[looked.groups], looked.windows * width)
    window, group = np.divmod(found, width)
    return window, outer.first[group], at


def _folded(accumulator: Accumulator, states: States, at: Ids, size: int) -> tuple[np.ndarray, ...]:
    fold = fold_of(accumulator)
    into = fold.identity(size)
    fold.scatter_into(into, at, states[accumulator])
    return into


def _counters(
    call: AggregateCall, aggregate: WindowAggregate, looked: LookupAnswer, groups: Groups, at: Ids, slots: int
) -> tuple[ValueCounters, int]:
    """The counters of a call's values in each slot, and the number of overflows.

    Cells that differ only in other values are merged.
    """
    codes, bound = codes_together(groups, [aggregate.cell_keys.index(value) for value in call.values], looked.groups)
    values = codes_of(groups, aggregate.cell_keys.index(call.values[0])).values
    counts = looked.states[call.part(ROWS)][0]
    kept = np.flatnonzero((codes >= 0) & (counts > 0))
    packed = at[kept] * bound + codes[kept]
    kept, packed = _in_order(kept, packed)
    starts = run_starts(packed)
    slot, codes = np.divmod(packed[starts], max(bound, 1))
    summed = np.add.reduceat(counts[kept], starts) if starts.size else counts[kept]
    if len(call.parts) == 1:
        return ValueCounters(slots, slot, codes, summed, values), 0
    if call.function == "FREQUENT_ITEMS":
        least = looked.states[call.part(LEAST)][0][kept]
        least = np.add.reduceat(least, starts) if starts.size else least
        return ValueCounters(slots, slot, codes, summed, values, least=least), 0
    to = np.repeat(np.arange(starts.size), np.diff(np.append(starts, kept.size)))
    total = AggregateCall("SUM", call.result.element.fields[1][1], call.parts)
    summands = {a: tuple(column[kept] for column in looked.states[a]) for _, a in call.parts}
    states = {a: _folded(a, summands, to, starts.size) for a in summands}
    return ValueCounters(slots, slot, codes, summed, values, result_of(total, states)), overflows(total, states)


def _in_order(kept: Ids, packed: Ids) -> tuple[Ids, Ids]:
    if not (packed[1:] < packed[:-1]).any():
        return kept, packed
    order = np.argsort(packed, kind="stable")
    return kept[order], packed[order]
