"""Window extents by their definition, one tuple and one window at a time (DESIGN 5, Windows)."""

from __future__ import annotations

from collections.abc import Iterable

Extent = tuple[int, int]


def extents_of(points: Iterable[int], range_: int, slide: int, origin: int = 0) -> list[Extent]:
    """The extents `[origin + (w+1)·slide − range, origin + (w+1)·slide)` that hold a point, in order."""
    found: set[Extent] = set()
    for t in set(points):
        w = (t - origin) // slide
        while origin + (w + 1) * slide - range_ <= t:
            if t < origin + (w + 1) * slide:
                found.add((origin + (w + 1) * slide - range_, origin + (w + 1) * slide))
            w += 1
    return sorted(found, key=lambda extent: extent[1])


def with_empty(extents: list[Extent], slide: int, frontier: int | None, ended: bool) -> list[Extent]:
    """Also the empty extents, from the first tuple's first window on (`empty_windows = 'emit'`).

    With the input open they go on to the frontier; with it ended, to the last extent that holds a tuple.
    """
    if not extents:
        return []
    lo, hi = extents[0]
    last = extents[-1][1] if ended or frontier is None else max(extents[-1][1], frontier)
    every = []
    while hi <= last:
        every.append((lo, hi))
        lo, hi = lo + slide, hi + slide
    return every


def closed(extents: list[Extent], frontier: int | None, ended: bool) -> list[Extent]:
    """Those that no further tuple can enter."""
    if ended:
        return extents
    return [] if frontier is None else [extent for extent in extents if extent[1] <= frontier]


def first_edge_above(point: int, range_: int, slide: int, origin: int = 0) -> int:
    """The least window edge, a start or an end, above a point: where a query added later begins."""
    end = origin + ((point - origin) // slide + 1) * slide
    start = origin - range_ + ((point - origin + range_) // slide + 1) * slide
    return min(end, start)
