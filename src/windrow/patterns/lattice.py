"""The four update patterns (Golab's dissertation, section 3.2.1), from the simplest to the most complex."""

from __future__ import annotations

from enum import IntEnum


class UpdatePattern(IntEnum):
    """What is known about when the results of an operator expire. Patterns are ordered: MONOTONIC < WKS < WK < STR."""

    MONOTONIC = 0
    """Results never expire."""
    WKS = 1
    """Weakest non-monotonic: every lifetime has the same length, so that results expire first in, first out."""
    WK = 2
    """Weak non-monotonic: the end of a lifetime is known at its beginning, but lengths differ."""
    STR = 3
    """Strict non-monotonic: when a result expires may depend on tuples that come later."""

    def __str__(self) -> str:
        return self.name
