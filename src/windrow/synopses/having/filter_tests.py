"""What a SubStream Filter over cells is asked: a bound of HAVING, in the filter's own numbers.

COUNT and SUM are compared with integers: whatever number stands in the text, `> v` is `> ⌊v⌋` and `< v` is `< ⌈v⌉`. MAX
and MIN are compared as codes (`ordering.py`). A test may let a group too many pass, never one too few: HAVING itself
has the last word.
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
"""Thresholds beyond are left to the pass: doubles no longer tell them apart."""


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
    """Which groups may pass over a window.

    `is_outer`: those whose cells come to more than `value` (COUNT, SUM), or one of whose cells is at least `value`
    (MAX, of complemented codes for MIN). Else those with anything of `alive` in the window whose cells surely do not
    come to `value`, or none of whose cells is at least `value`.
    """

    kind: FilterKind
    of: Accumulator
    alive: Accumulator
    is_outer: bool
    value: int

    @property
    def reads(self) -> tuple[Accumulator, ...]:
        """The accumulators whose cells answer it."""
        return (self.of,) if self.is_outer or self.of == self.alive else (self.of, self.alive)


def filter_test(bound: Bound, presence: Accumulator) -> FilterTest | None:
    """The test of a bound; None where there is no filter for it. `presence` counts the tuples that make a row."""
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
    """The v of x > v or x < v, for whole x."""
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
    """The code that a MAX that passes has at least, or that one which passes is below; of a MIN the mirror image."""
    part = bound.call.part("v")
    assert part.type is not None
    is_max, lower = bound.call.function == "MAX", bound.comparison.is_lower
    if part.type.is_integer:
        value = open_end(bound)
        return value + (1 if lower else 0) if is_max else value - (0 if lower else 1)
    if part.type.name != "DOUBLE":
        return None
    # One step wider than the text: then it does not matter whether the bound itself passes.
    step = -inf if lower else inf
    near = np.nextafter(float(bound.value), step)
    return int(encode_doubles(np.array([near]))[0])
