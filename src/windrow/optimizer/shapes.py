"""Synopses and queries as the sharing rules see them (001_3bbbc8a20ffc7252.txt, 8.3): parameters, no data.

A synopsis has b intervals of length s, updated at instants that are `phase` modulo s. Over joins its intervals are of
expiration times, and a *generalized* one also keeps what its g oldest intervals hold without the oldest tuples of
the first window, and without those of the second (8.3.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from windrow.optimizer.predicates import TRUE, Predicate


class SynopsisKind(Enum):
    RUNNING = "running"
    INTERVAL = "interval"
    BASIC_INTERVAL = "basic interval"
    LANDMARK = "landmark interval"
    RJ = "running join"
    IJ = "interval join"
    BIJ = "basic interval join"


OVER_JOINS = frozenset({SynopsisKind.RJ, SynopsisKind.IJ, SynopsisKind.BIJ})
OVER_WINDOWS = frozenset(SynopsisKind) - OVER_JOINS


@dataclass(frozen=True)
class Shape:
    """A synopsis: its kind and parameters, what it stores per interval (`sum(length)`), and of which tuples."""

    kind: SynopsisKind
    s: int
    b: int
    data: frozenset[str]
    g: int = 0
    predicate: Predicate = TRUE
    phase: int = 0

    def __post_init__(self) -> None:
        if self.s <= 0 or self.b <= 0:
            raise ValueError("s and b are positive")
        if not 0 <= self.g <= self.b - 1:
            raise ValueError("g is from 0 to b - 1")
        if self.g and self.kind not in OVER_JOINS:
            raise ValueError("only join synopses are generalized")

    def intervals(self, length: int) -> int | None:
        """How many of its intervals a window of this length is; None where it is not whole ones within it."""
        n, rest = divmod(length, self.s)
        return n if rest == 0 and 1 <= n <= self.b else None

    def reaches(self, windows: tuple[int, ...]) -> bool:
        """Whether a window, or a join of two, can be read from it (SS1; SS3: the ends of windows of different length
        must both lie in its g oldest intervals)."""
        counts = [self.intervals(length) for length in windows]
        if None in counts or len(counts) != (2 if self.kind in OVER_JOINS else 1):
            return False
        known = [n for n in counts if n is not None]
        return len(set(known)) == 1 or min(known) >= self.b - self.g

    def aligned(self, other: Shape) -> bool:
        """Both are updated at the same times (SS2)."""
        return self.s == other.s and (self.phase - other.phase) % self.s == 0


@dataclass(frozen=True)
class Asked:
    """A query: the lengths of its window, or of the two that it joins; what data it needs; and its period.

    `text` is all that makes up its answers besides its period (CS8).
    """

    data: frozenset[str]
    windows: tuple[int, ...]
    predicate: Predicate = TRUE
    slide: int = 1
    phase: int = 0
    is_sensitive: bool = True
    is_subtractable: bool = False
    text: str = ""

    def __post_init__(self) -> None:
        if len(self.windows) not in (1, 2) or min(self.windows) <= 0 or self.slide <= 0:
            raise ValueError("a query has one window or joins two, and a period")
