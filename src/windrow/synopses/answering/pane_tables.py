"""Tables over panes answer many windows at once, for aggregates that are subtractable or idempotent.

Sums and counts of whole numbers use running totals (R-INT of Arasu and Widom, VLDB 2004), exact because integers wrap:

    P[i] = merge of the panes before i            window [low, high) = P[high] − P[low]

Extremes, which may merge a pane twice, use a table for every power of two that is needed:

    M_k[i] = merge of the panes i … i + 2ᵏ − 1    window [low, high) = merge(M_k[low], M_k[high − 2ᵏ])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from windrow.synopses.cells.chunks import Chunk, Strand
from windrow.synopses.cells.folds import Array, Fold, UfuncFold
from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.running import differences, rows_at, sums_before

_INT64 = np.dtype(np.int64)


def can_be_tabled(folds: Iterable[Fold]) -> bool:
    """Whether every fold is a sum or an extreme of 64-bit integers."""
    return all(isinstance(f, UfuncFold) and all(dtype == _INT64 for dtype in f.dtypes) for f in folds)


class PaneTables:
    """Tables over the pane indexes [first, last) of some chunks, without group 0 (nobody)."""

    def __init__(self, chunks: Sequence[Chunk], strands: Sequence[Strand], size: int, first: int, last: int):
        self._strands = strands
        self._first = first
        offsets = np.cumsum([0, *(chunk.panes.size for chunk in chunks)]).tolist()
        held = [
            (chunk, slice(base - first, base - first + chunk.panes.size))
            for chunk, base in zip(chunks, offsets, strict=False)
            if base < last and base + chunk.panes.size > first
        ]
        self._tables = [_table(strand, held, size, last - first) for strand in strands]

    def take(self, strand: int, member: int, lows: Ids, highs: Ids, into: Sequence[Array]) -> None:
        """Write the merged states of the windows [low, high), each a row over all groups."""
        for table, out in zip(self._tables[strand], into, strict=True):
            table.take(member, lows - self._first, highs - self._first, out)


class _Totals:
    """Running totals: (members × panes + 1 × groups)."""

    def __init__(self, column: Array):
        self._totals = sums_before(column, axis=1)

    def take(self, member: int, lows: Ids, highs: Ids, out: Array) -> None:
        differences(self._totals[member], lows, highs, out)


class _Extremes:
    """Merged runs of 1, 2, 4, … panes, each length built on first use."""

    def __init__(self, column: Array, fold: UfuncFold):
        self._levels = [column]
        self._fold = fold

    def take(self, member: int, lows: Ids, highs: Ids, out: Array) -> None:
        lengths = highs - lows
        exact = np.frexp(lengths.astype(np.float64))[1] - 1
        for k in np.unique(exact).tolist():
            here = exact == k
            if k < 0:
                out[here] = self._fold.neutral
                continue
            level, which = self._level(k)[member], slice(None) if here.all() else here
            found = self._fold.ufunc(rows_at(level, lows[which]), rows_at(level, highs[which] - (1 << k)))
            out[which] = found

    def _level(self, k: int) -> Array:
        while len(self._levels) <= k:
            below, half = self._levels[-1], 1 << (len(self._levels) - 1)
            self._levels.append(self._fold.ufunc(below[:, :-half], below[:, half:]))
        return self._levels[k]


def _table(strand: Strand, held: Sequence[tuple[Chunk, slice]], size: int, panes: int) -> list[_Totals | _Extremes]:
    fold = strand.fold
    assert isinstance(fold, UfuncFold)
    columns = fold.identity((len(strand.members), panes, size - 1))
    for chunk, at in held:
        skipped = max(0, -at.start)
        kept = slice(max(at.start, 0), min(at.stop, panes))
        chunk.spread_into(strand, [c[:, kept] for c in columns], skipped)
    return [_Totals(c) if fold.ufunc is np.add else _Extremes(c, fold) for c in columns]
