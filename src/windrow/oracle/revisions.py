"""The deliveries of revised answers: the difference between successive looks at a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windrow.oracle.extents import Extent
from windrow.oracle.looks import Look
from windrow.oracle.values import equal_rows

Answer = tuple[Any, ...]
Revised = tuple[Any, ...]
"""(op, revision, window_start, window_end, the select list …)."""


@dataclass(frozen=True)
class LookResult:
    """The rows of a query at a look, and the window's displayed bounds."""

    look: Look
    bounds: tuple[Any, Any]
    rows: list[Answer]


def revisions_of(seen: list[LookResult]) -> list[Revised]:
    """The deliveries in order of time, then of the windows' ends; '-' before '+'."""
    delivered: list[Revised] = []
    standing: dict[tuple[Extent, int], tuple[int, list[Answer]]] = {}
    for one in sorted(seen, key=lambda each: (each.look.at, each.look.extent.end, each.look.part)):
        window = (one.look.extent, one.look.part)
        if window not in standing:
            standing[window] = (0, one.rows)
            delivered += [("+", 0, *one.bounds, *row) for row in one.rows]
            continue
        revision, before = standing[window]
        withdrawn, added = without(before, one.rows), without(one.rows, before)
        if withdrawn or added:
            revision += 1
            delivered += [("-", revision, *one.bounds, *row) for row in withdrawn]
            delivered += [("+", revision, *one.bounds, *row) for row in added]
        standing[window] = (revision, one.rows)
    return delivered


def without(rows: list[Answer], taken: list[Answer]) -> list[Answer]:
    """The bag difference `rows` − `taken`."""
    left = list(taken)
    kept = []
    for row in rows:
        at = next((i for i, other in enumerate(left) if equal_rows(row, other)), None)
        if at is None:
            kept.append(row)
        else:
            del left[at]
    return kept
