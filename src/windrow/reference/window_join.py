"""Multi-way window join (Golab's dissertation, section 5.2: Algorithm 3, eager evaluation with lazy expiration).

One tuple at a time, nested loops over the other windows. `operators/join.py` does the same in whole batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


class Tuple(NamedTuple):
    """A row with its lifetime [ts, exp), and when it leaves the output."""

    ts: int
    exp: int
    until: int
    values: dict[str, Any]


Matches = Callable[[dict[str, Any]], bool]
"""Whether the joined values satisfy the join's condition."""


def eager_join(inputs: Sequence[Iterable[Tuple]], matches: Matches) -> list[Tuple]:
    """All results, in the order in which their last parts arrive. Ties go by the order of the inputs."""
    arrivals = sorted(
        ((row.ts, i, row) for i, rows in enumerate(inputs) for row in rows), key=lambda arrival: arrival[:2]
    )
    windows: list[list[Tuple]] = [[] for _ in inputs]
    results: list[Tuple] = []
    for _, i, row in arrivals:
        windows[i].append(row)
        results += _compute_join(row, i, windows, matches)
    return results


def _compute_join(row: Tuple, of: int, windows: Sequence[Sequence[Tuple]], matches: Matches) -> list[Tuple]:
    """ComputeJoinLazyExp. The text's `k.ts ≤ u.exp` is `k.ts < u.exp` here: lifetimes are half-open."""
    partial: list[tuple[Tuple, ...]] = [()]
    for i, window in enumerate(windows):
        partners = [row] if i == of else [other for other in window if row.ts < other.exp]
        partial = [(*parts, partner) for parts in partial for partner in partners]
    out = []
    for parts in partial:
        values = {name: value for part in parts for name, value in part.values.items()}
        ts, exp = max(part.ts for part in parts), min(part.exp for part in parts)
        if ts < exp and matches(values):
            out.append(Tuple(ts, exp, min(part.until for part in parts), values))
    return out
