"""Bounds of HAVING as tests in the numbers of a SubStream Filter over cells.

COUNT and SUM are compared with integers: `> v` becomes `> ⌊v⌋` and `< v` becomes `< ⌈v⌉`. MAX and MIN are compared as
codes (`cells/ordering.py`). A test may pass a group too many but never one too few; HAVING itself decides afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import ceil, floor, inf

import numpy as np

from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.having import Bound, Comparison
from windrow.synopses.cells.ordering import encode_doubles

GREATEST_VALUE = 1 << 50
"""Larger thresholds get no filter, because doubles cannot tell them apart."""


class FilterKind(Enum):
    COUNT = "CI-COUNT"
    SUM = "CI-SUM"
    MAX = "MAX by pane"
    MIN = "MIN by pane"

    @property
    def is_collective(self) -> bool:
        return self in (FilterKind.COUNT, FilterKind.SUM)


@dataclass(frozen=True)
class FilterTest:
    """Decides which groups may pass in a window.

    If `is_outer`, a group may pass if its cells sum to more than `value` (COUNT, SUM) or if one of its cells is at
    least `value` (MAX; MIN with complemented codes). Else a group may pass if it has a count of `alive` in the window
    and its cells sum to less than `value`, or none of its cells is at least `value`.
    """

    kind: FilterKind
    of: Accumulator
    alive: Accumulator
    is_outer: bool
    value: int

    @property
    def reads(self) -> tuple[Accumulator, ...]:
        """The accumulators whose cells the test needs."""
        return (self.of,) if self.is_outer or self.of == self.alive else (self.of, self.alive)


def filter_test(bound: Bound, presence: Accumulator) -> FilterTest | None:
    """The test of a bound; None where no filter serves it. `presence` counts the tuples that make a row."""
    function = bound.call.function
    if abs(bound.value) > GREATEST_VALUE:
        return None
    if function == "COUNT":
        return _collective(FilterKind.COUNT, bound, bound.call.part("n"), presence)
    counted = bound.call.part("n")
    if function == "SUM":
        summed = bound.call.part("s")
        exact = summed.kind in (Kind.SUM_INT, Kind.SUM_LONG)
        return _collective(FilterKind.SUM, bound, summed, counted) if exact else None
    code, of = _code(bound), bound.call.part("v")
    if code is None:
        return None
    kind = FilterKind.MAX if function == "MAX" else FilterKind.MIN
    outer = bound.comparison.is_lower == (kind is FilterKind.MAX)
    return FilterTest(kind, of, counted, outer, code if kind is FilterKind.MAX else ~code)


def open_end(bound: Bound) -> int:
    """The v for which the bound is x > v or x < v, for whole x."""
    value = bound.value
    return {
        Comparison.MORE: floor(value),
        Comparison.AT_LEAST: ceil(value) - 1,
        Comparison.LESS: ceil(value),
        Comparison.AT_MOST: floor(value) + 1,
    }[bound.comparison]


def _collective(kind: FilterKind, bound: Bound, of: Accumulator, alive: Accumulator) -> FilterTest | None:
    value, is_outer = open_end(bound), bound.comparison.is_lower
    return FilterTest(kind, of, alive, is_outer, value) if value >= 0 or not is_outer else None


def _code(bound: Bound) -> int | None:
    """The code that a passing MAX reaches (lower bound) or stays below (upper bound); mirrored for MIN."""
    part = bound.call.part("v")
    assert part.type is not None
    is_max, lower = bound.call.function == "MAX", bound.comparison.is_lower
    if part.type.is_integer:
        value = open_end(bound)
        return value + (1 if lower else 0) if is_max else value - (0 if lower else 1)
    if part.type.name != "DOUBLE":
        return None
    # One step wider than the bound, so that it does not matter whether the bound itself passes.
    step = -inf if lower else inf
    near = np.nextafter(float(bound.value), step)
    return int(encode_doubles(np.array([near]))[0])
