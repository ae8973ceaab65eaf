"""Replays the changes of a continuous query: which rows stand at each tick, and whether the oracle's do too.

A '+' row stands at tick b if ts < b ≤ exp (or exp is none) and nothing withdrew it. A '-' row withdraws one row with
equal values and exp from the tick on that reports it, the first above its ts. Rows are Python values (an engine's) or cells (a file's).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from windrow.oracle import Oracle, equal_rows
from windrow.oracle.revisions import without
from windrow.oracle.values import sort_key
from windrow.types import POINT_MAX, SqlType, point_of

Row = tuple[Any, ...]
Same = Callable[[Sequence[Row], Sequence[Row]], bool]
"""Whether two lists of rows are equal as multisets."""


class ReplayMismatch(AssertionError):
    """The changes do not give the oracle's relation at some tick, or withdraw what does not stand."""


@dataclass(frozen=True)
class Change:
    """A row of `changes()`; `ts` and `exp` are points."""

    op: str
    ts: int
    exp: int | None
    row: Row

    @property
    def end(self) -> int:
        return POINT_MAX if self.exp is None else self.exp


@dataclass
class _Standing:
    change: Change
    until: int
    """The last point at which it may be seen: its exp, or what its withdrawal left of it."""


def changes_of(rows: Iterable[Row], attribute: SqlType) -> list[Change]:
    """The rows of `changes()`: op, ts, exp, then the select list."""
    return [
        Change(op, point_of(ts, attribute), None if exp is None else point_of(exp, attribute), tuple(row))
        for op, ts, exp, *row in rows
    ]


def replay(
    changes: Sequence[Change],
    ticks: Iterable[int],
    first_above: Callable[[int], int],
    same_row: Callable[[Row, Row], bool] = equal_rows,
) -> dict[int, list[Row]]:
    """The rows that stand at each tick."""
    standing = [_Standing(one, one.end) for one in changes if one.op == "+"]
    for minus in sorted((one for one in changes if one.op != "+"), key=lambda one: one.ts):
        tick = first_above(minus.ts)
        live = [
            one
            for one in standing
            if one.change.exp == minus.exp
            and first_above(one.change.ts) < tick <= one.until
            and same_row(one.change.row, minus.row)
        ]
        if minus.op != "-" or not live:
            raise ReplayMismatch(f"{minus} withdraws no row that stands at its tick {tick}")
        live[0].until = tick - 1
    return {b: [one.change.row for one in standing if one.change.ts < b <= one.until] for b in sorted(set(ticks))}


def same_bag(some: Sequence[Row], others: Sequence[Row]) -> bool:
    if len(some) != len(others):
        return False
    # Sorted rows are equal one by one, unless doubles differ in their last digits.
    return equal_rows(sorted(some, key=sort_key), sorted(others, key=sort_key)) or not without(list(some), list(others))


def check_replay(
    changes: Sequence[Change],
    oracle: Oracle,
    query: str,
    same: Same = same_bag,
    same_row: Callable[[Row, Row], bool] = equal_rows,
    every: int = 1,
) -> None:
    """Compare the replayed changes with the oracle's relation at every tick at which one of them may change, or at every
    n-th of these and the last."""
    due, plan = oracle.due(query), oracle.plan(query)
    if due is None:
        if changes:
            raise ReplayMismatch(f"{query} has changes before any tick is due: {changes[0]}")
        return
    mine = {plan.first_above(point) for one in changes for point in (one.ts, one.exp) if point is not None}
    ticks = due.among([*oracle.ticks(query), *mine])[::-every]
    expected = oracle.relations(query, ticks)
    for tick, found in replay(changes, ticks, plan.first_above, same_row).items():
        if not same(found, expected[tick]):
            raise ReplayMismatch(
                "\n".join(
                    [
                        f"{query} at tick {tick} (ticks {due.first} to {due.last} are due)",
                        "  replayed:",
                        *(f"    {row}" for row in found),
                        "  oracle:",
                        *(f"    {row}" for row in expected[tick]),
                    ]
                )
            )
