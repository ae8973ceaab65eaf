"""Punctuation frontiers: pure functions from what has been seen to what is complete (DESIGN 5).

A frontier f promises no more tuples with t < f; pane [a, b) closes when f ≥ b.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Frontier:
    """One stream's progress on a window attribute. None: nothing seen yet.

    `greatest` is the greatest admitted point; `promised` the frontier given by a punctuation (the end of
    input is one), which slack cannot lower.
    """

    slack: int
    greatest: int | None = None
    promised: int | None = None

    def __post_init__(self) -> None:
        if self.slack < 0:
            raise ValueError("slack is not negative")

    @property
    def value(self) -> int | None:
        """f: tuples below it are late. PUNCTUATE ORDERED is slack 0."""
        seen = None if self.greatest is None else self.greatest - self.slack
        if self.promised is None:
            return seen
        return self.promised if seen is None else max(seen, self.promised)

    def after(self, greatest: int | None) -> Frontier:
        """The frontier after a micro-batch whose greatest admitted point is this."""
        return Frontier(self.slack, _greater(self.greatest, greatest), self.promised)

    def promise(self, upto: int) -> Frontier:
        """The frontier after a punctuation: no more tuples below `upto`."""
        return Frontier(self.slack, self.greatest, _greater(self.promised, upto))


def _greater(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)
