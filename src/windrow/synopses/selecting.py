"""MEDIAN and QUANTILE of many windows at once, by selection from sorted base intervals (B-INT-QNT, `quantile.py`).

Rolling up counters costs windows × values. Where windows are many and values too, as with ROWS n SLIDE 1, the tuples of
the panes are put in a line, as codes in the order of the values, and every window selects from the base intervals that
it is made of: 004_65e36a58973a8297.txt, section 3.3. The answers are the same.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import Accumulator, AggregateCall, Key
from windrow.plan.holistic import ROWS
from windrow.plan.nodes import WindowAggregate
from windrow.synopses.basic_interval import BasicIntervalSynopsis
from windrow.synopses.chunks import Cells
from windrow.synopses.groups import Ids
from windrow.synopses.holistic import halfway
from windrow.synopses.lookups import Looked, Lookup
from windrow.synopses.quantile import Phi, QuantileSynopsis
from windrow.synopses.value_codes import codes_of

SELECTED = ("MEDIAN", "QUANTILE")
ROLL_NS, SORT_NS, SELECT_NS = 80, 10, 3000
"""Measured: a window's counter of a value; a tuple sorted on a level; a window's selection, for each level."""


MOST_SORTED_BYTES = 256 << 20
"""What sorted base intervals may take: a number of each tuple on every level."""


def selection_pays(synopsis: BasicIntervalSynopsis, aggregate: WindowAggregate, windows: int) -> bool:
    """Whether a query can be answered so, and at less cost than from its counters."""
    if aggregate.keys or any(call.function not in SELECTED for call in aggregate.aggregates) or windows < 2:
        return False
    rolled = ROLL_NS * windows * synopsis.groups.count
    if rolled < 10**7:  # not worth a thought
        return False
    tuples = int(synopsis.totals(aggregate.presence, synopsis.closed_panes).sum())
    levels = max(1, tuples.bit_length())
    if 8 * levels * (1 << levels) > MOST_SORTED_BYTES:
        return False
    return rolled > len(aggregate.aggregates) * levels * (SORT_NS * tuples + SELECT_NS * windows)


def selected(synopsis: BasicIntervalSynopsis, aggregate: WindowAggregate, lookup: Lookup) -> Looked:
    """The row of every window of an ungrouped query, its columns worked out."""
    low, high = int(lookup.starts.min()), int(lookup.ends.max())
    cells = synopsis.cells_between(low, high)
    lines: dict[tuple[Key, Accumulator], _Line] = {}
    columns = {}
    for call in aggregate.aggregates:
        what = call.values[0], call.part(ROWS)
        if what not in lines:
            lines[what] = _Line(synopsis, cells, aggregate.cell_keys.index(call.values[0]), call.part(ROWS), lookup)
        columns[call] = lines[what].column(call)
    every = np.arange(lookup.ends.size)
    return Looked(lookup.query, int(every.size), every, np.zeros(every.size, np.int64), {}, columns=columns)


class _Line:
    """The tuples of the panes one after another, each as the code of its value, and where each window lies."""

    def __init__(
        self, synopsis: BasicIntervalSynopsis, cells: Cells, key: int, rows: Accumulator, lookup: Lookup
    ) -> None:
        coded = codes_of(synopsis.groups, key)
        codes, counts = coded.codes[cells.groups], cells.states[rows][0] if len(cells) else np.zeros(0, np.int64)
        kept = np.flatnonzero((codes >= 0) & (counts > 0))
        kept = kept[np.argsort(cells.panes[kept], kind="stable")]
        upto = np.concatenate(([0], np.cumsum(counts[kept])))
        panes = cells.panes[kept]
        self._values = coded.values
        self._lows, self._highs = (upto[np.searchsorted(panes, edges)] for edges in (lookup.starts, lookup.ends))
        self._counts = self._highs - self._lows
        self._held = np.flatnonzero(self._counts > 0)
        self._sorted = QuantileSynopsis(max(1, int(upto[-1])))
        self._sorted.update((np.repeat(codes[kept], counts[kept]),))

    def column(self, call: AggregateCall) -> pa.Array:
        counts = self._counts[self._held]
        if call.function == "MEDIAN":
            low, high = (self._at((counts + more) // 2) for more in (1, 2))
            return halfway(self._values, low, high, self._held, self._counts.size)
        codes = np.full(self._counts.size, -1, np.int64)
        codes[self._held] = self._at(Phi(Fraction(call.parameters[0])).rank(counts))
        return self._values.take(pa.array(codes, mask=codes < 0))

    def _at(self, ranks: Ids) -> Ids:
        return self._sorted.at_ranks(self._lows[self._held], self._highs[self._held], ranks)
