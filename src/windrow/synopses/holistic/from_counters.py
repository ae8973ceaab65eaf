"""Computes holistic aggregates from frequency counters, for many slots at once.

A slot is a window of a group. The counters come from a roll-up (`roll_up.py`), in the order of slot and value. Tests
compare the results with `reference/frequency_counts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import AggregateCall
from windrow.plan.calls import COUNT_DISTINCT
from windrow.synopses.cells.arrays import Longs, place_in_run, run_starts
from windrow.synopses.cells.groups import Ids
from windrow.synopses.cells.value_codes import coded
from windrow.synopses.holistic.phi import Phi


@dataclass(frozen=True)
class ValueCounters:
    """The count of each value in each slot, by ascending slot and value, no pair twice; `codes` index `values`.

    `totals`: sums of a weight, which replace the counts. `least`: for FREQUENT_ITEMS, the sum of δᵢ over the panes
    whose list has the value. Without it the slot is the only pane.
    """

    slots: int
    slot: Ids
    codes: Ids
    counts: Longs
    values: pa.Array
    totals: pa.Array | None = None
    least: Longs | None = None


def holistic_result(call: AggregateCall, counters: ValueCounters) -> pa.Array:
    """The column of an aggregate, a row per slot."""
    if call.function == COUNT_DISTINCT:
        return pa.array(np.bincount(counters.slot, minlength=counters.slots))
    if call.function == "MEDIAN":
        return _median(counters)
    if call.function == "QUANTILE":
        return _quantile(counters, Phi(Fraction(call.parameters[0])))
    if call.function == "FREQUENT_ITEMS":
        return _frequent(counters, int(call.parameters[0]))
    return _top_k(counters, int(call.parameters[0]), call)


class _Positions:
    """The sorted values of each slot that is not empty, with repeats, without expanding them."""

    def __init__(self, counters: ValueCounters):
        starts = run_starts(counters.slot)
        self._codes = counters.codes
        self._upto = np.cumsum(counters.counts)
        self.slots = counters.slot[starts]
        self.sizes = np.add.reduceat(counters.counts, starts) if starts.size else counters.counts
        self._before = self._upto[starts] - counters.counts[starts]

    def at(self, ranks: Longs) -> Ids:
        """The code at a rank (from 1) in each of these slots."""
        return np.asarray(self._codes[np.searchsorted(self._upto, self._before + ranks)])


def _quantile(counters: ValueCounters, phi: Phi) -> pa.Array:
    """The value at position max(1, ⌊φ·N⌋); NULL in an empty slot."""
    positions = _Positions(counters)
    codes = np.full(counters.slots, -1, np.int64)
    codes[positions.slots] = positions.at(phi.rank(positions.sizes))
    return counters.values.take(pa.array(codes, mask=codes < 0))


def _median(counters: ValueCounters) -> pa.Array:
    """The middle value, or the mean of the two middle values. Spark's is NaN if one of them is -Infinity."""
    positions = _Positions(counters)
    low, high = (positions.at((positions.sizes + more) // 2) for more in (1, 2))
    return halfway(counters.values, low, high, positions.slots, counters.slots)


def halfway(values: pa.Array, low: Ids, high: Ids, at: Ids, slots: int) -> pa.Array:
    """The mean of the values with codes `low` and `high`, at the slots `at`; NULL in the other slots."""
    # `safe=False` rounds integers above 2^53, as Spark does; a safe cast would raise an error.
    numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        between = np.where(low == high, numbers[low], 0.5 * numbers[low] + 0.5 * numbers[high])
    out, filled = np.zeros(slots), np.zeros(slots, bool)
    out[at], filled[at] = between, True
    return pa.array(out, mask=~filled)


def _top_k(counters: ValueCounters, k: int, call: AggregateCall) -> pa.Array:
    """Arrays of (item, count) or (item, total), in descending order with NULL last; ties by ascending item."""
    names = [name for name, _ in call.result.element.fields]
    measure = pa.array(counters.counts) if counters.totals is None else counters.totals
    falling = -counters.counts if counters.totals is None else -coded(measure).codes
    order = np.lexsort((counters.codes, falling, counters.slot))
    order = order[place_in_run(counters.slot) < k]
    items = counters.values.take(pa.array(counters.codes[order]))
    entries = pa.StructArray.from_arrays([items, measure.take(pa.array(order))], names=names)
    return list_array(entries, counters.slot[order], counters.slots)


def _frequent(counters: ValueCounters, k: int) -> pa.Array:
    """δ, and the values counted more than δ times, by descending count and ascending value; no false positives.

    A value may also have occurred up to δᵢ times in each pane whose list lacks it (Golab's dissertation, chapter 6).
    """
    least = _of_one_pane(counters, k) if counters.least is None else counters.least
    threshold = np.zeros(counters.slots, np.int64)
    np.add.at(threshold, counters.slot, least)
    threshold //= k
    kept = np.flatnonzero(counters.counts > threshold[counters.slot])
    kept = kept[np.lexsort((counters.codes[kept], -counters.counts[kept], counters.slot[kept]))]
    slot, counts = counters.slot[kept], counters.counts[kept]
    items = counters.values.take(pa.array(counters.codes[kept]))
    most = counts + threshold[slot] - least[kept]
    entries = pa.StructArray.from_arrays([items, pa.array(counts), pa.array(most)], ["item", "count", "at_most"])
    lists = list_array(entries, slot, counters.slots)
    return pa.StructArray.from_arrays([pa.array(threshold), lists], ["threshold", "items"])


def _of_one_pane(counters: ValueCounters, k: int) -> Longs:
    """δᵢ of the values on the list of their slot, 0 of the others: the list is of the whole slot."""
    order = np.lexsort((counters.codes, -counters.counts, counters.slot))
    place = place_in_run(counters.slot)
    last = np.zeros(counters.slots, np.int64)
    is_last = place == k - 1
    last[counters.slot[is_last]] = counters.counts[order[is_last]]
    least = np.zeros(counters.counts.size, np.int64)
    least[order] = np.where(place < k, last[counters.slot], 0)
    return least


def list_array(entries: pa.Array, slot: Ids, slots: int) -> pa.Array:
    """A list per slot; `entries` come by ascending slot."""
    offsets = np.searchsorted(slot, np.arange(slots + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), entries)
