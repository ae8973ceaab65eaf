"""Which files of a window store to rewrite: a pure function of their sizes and points.

Files are merged within panes of a fortieth of what readers need. A file that is no wider than a pane is counted to the
pane of its greatest point, so a merged file is at most a twentieth wide, and is dropped whole before any of it has
outlived its need by more. Wider files, of late tuples or of large micro-batches, are cut: when there are very many, or
when a twentieth of what readers need has expired in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windrow.dataplane.blocks.store import BlockRow
from windrow.types import POINT_MAX, POINT_MIN

PANES = 40
"""Panes per span of the readers."""

FAN = 8
"""Files of like size that are merged into one: each row is rewritten once per power of this."""

CLOSED_FILES = 4
"""As many files of a pane that is over are merged."""

LEAST_BYTES = 64 << 10
"""Files below this size are alike."""

LARGE_BYTES = 32 << 20
"""Files from this size on are not merged: more of them cost a reader nothing."""

WIDE_FILES = 64
"""As many files that are wider than a pane are merged, and cut into panes. In order there are at most PANES of them."""

MOST_PIECES = 2 * PANES


@dataclass(frozen=True)
class Rewrite:
    """Files to replace by others with the same rows: one between each two neighbours of `bounds`. What lies below the
    first bound has expired."""

    files: tuple[BlockRow, ...]
    bounds: tuple[int, ...] = (POINT_MIN, POINT_MAX)


def rewrites(files: Sequence[BlockRow], span: int | None, kept_from: int | None, greatest: int | None) -> list[Rewrite]:
    """What to rewrite now. `span`: the most points that readers need (None: unknown); `greatest`: the greatest point
    deposited. Files that are wholly expired are not among them."""
    if span is None or greatest is None:
        return _by_size([file for file in files if file.bytes < LARGE_BYTES])
    pane = max(1, span // PANES)
    narrow: dict[int, list[BlockRow]] = {}
    wide, out = [], []
    for file in files:
        lo, hi = _points(file)
        if kept_from is not None and kept_from - lo >= max(1, span // 20):
            out.append(Rewrite((file,), _cuts(max(lo, kept_from), hi, 2 * pane)))
        elif hi - lo > pane:
            wide.append(file)
        elif file.bytes < LARGE_BYTES:
            narrow.setdefault(hi // pane, []).append(file)
    for number, mine in narrow.items():
        is_over = number < greatest // pane
        out += [Rewrite(tuple(mine))] if is_over and len(mine) >= CLOSED_FILES else _by_size(mine)
    small = [file for file in wide if file.bytes < LARGE_BYTES]
    if len(small) >= WIDE_FILES:
        lo, hi = min(_points(file)[0] for file in small), max(_points(file)[1] for file in small)
        out.append(Rewrite(tuple(small), _cuts(lo if kept_from is None else max(lo, kept_from), hi, pane)))
    return out


def _by_size(files: Sequence[BlockRow]) -> list[Rewrite]:
    alike: dict[int, list[BlockRow]] = {}
    for file in files:
        alike.setdefault((file.bytes // LEAST_BYTES).bit_length() // (FAN.bit_length() - 1), []).append(file)
    return [Rewrite(tuple(some)) for some in alike.values() if len(some) >= FAN]


def _cuts(lo: int, hi: int, pane: int) -> tuple[int, ...]:
    """Bounds from `lo` to above `hi` at multiples of the pane, or of several panes if there would be too many."""
    step = pane * max(1, -(-(hi - lo) // (pane * MOST_PIECES)))
    return (lo, *range(lo // step * step + step, hi + 1, step), hi + 1)


def _points(file: BlockRow) -> tuple[int, int]:
    assert file.lo is not None and file.hi is not None
    return file.lo, file.hi
