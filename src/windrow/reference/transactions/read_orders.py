"""Every order in which a query can read its panes, and the fewest conflicts (Golab's dissertation, Theorem 7.4).

A schedule is a text of turns. `r`: the read in progress ends, and the query begins the next one, of any pane that it
has not read; if there is none, it commits. `u`: a window update adds the next pane, and the oldest may leave. A pane
that has been read, or is being read, and then leaves is a conflict. The schedulers have one order each
(`schedulers/transactions/`); here each choice is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

Interval = tuple[int, int]


class OnConflict(Enum):
    """What a conflict does: it ends the query, makes it begin again, or makes it drop the panes that left."""

    ABORT = "abort"
    RESTART = "restart"
    RESCAN = "rescan"


@dataclass(frozen=True)
class ReadGame:
    """A window of a length over panes between cuts; at first the panes up to cuts[shown] are there."""

    cuts: tuple[int, ...]
    shown: int
    length: int

    def window(self, updates: int) -> tuple[int, int]:
        """[low, high) of the window after so many updates."""
        high = self.cuts[self.shown + updates]
        return high - self.length, high

    def panes(self, updates: int) -> list[Interval]:
        """The panes of the window, oldest first; the first may be cut."""
        low, high = self.window(updates)
        ends = self.cuts[: self.shown + updates + 1]
        return [(max(a, low), b) for a, b in zip(ends, ends[1:], strict=False) if b > low and a < high]


def fewest_conflicts(game: ReadGame, schedule: str, on_conflict: OnConflict) -> int:
    """The least number of conflicts (aborts; or panes to re-scan) over all orders of the reads."""
    return _least(game, schedule, on_conflict, None)


def conflicts_of(game: ReadGame, schedule: str, on_conflict: OnConflict, youngest_first: bool) -> int:
    """The conflicts of one order: youngest first (Algorithm 8) or oldest first."""
    return _least(game, schedule, on_conflict, youngest_first)


def _least(game: ReadGame, schedule: str, on_conflict: OnConflict, youngest_first: bool | None) -> int:
    @cache
    def cost(turn: int, updates: int, read: frozenset[Interval]) -> int:
        if turn == len(schedule):
            return 0
        if schedule[turn] == "u":
            return update(turn, updates + 1, read)
        unread = [pane for pane in game.panes(updates) if pane not in read]
        if not unread:
            return 0
        choices: Sequence[Interval] = (
            unread if youngest_first is None else unread[-1:] if youngest_first else unread[:1]
        )
        return min(cost(turn + 1, updates, read | {pane}) for pane in choices)

    def update(turn: int, updates: int, read: frozenset[Interval]) -> int:
        low, _ = game.window(updates)
        stale = {pane for pane in read if pane[0] < low}
        if not stale:
            return cost(turn + 1, updates, read)
        if on_conflict is OnConflict.ABORT:
            return 1
        if on_conflict is OnConflict.RESTART:
            return 1 + cost(turn + 1, updates, frozenset())
        return len(stale) + cost(turn + 1, updates, read - stale)

    return cost(0, 0, frozenset())
