"""Negation, outer joins, set operations and count-based windows, by definition (Golab's dissertation, section 2.2.2).

Plain Python over the rows of one tick. `operators/negation/` does the same from tick to tick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

Values = dict[str, Any]
Matches = Callable[[Values, Values], bool]


def semi_join(left: Sequence[Values], right: Sequence[Values], matches: Matches, is_anti: bool) -> list[Values]:
    """The rows of `left` that have a match; those that have none if `is_anti`."""
    return [one for one in left if any(matches(one, other) for other in right) != is_anti]


def outer_join(
    left: Sequence[Values],
    right: Sequence[Values],
    matches: Matches,
    padding: tuple[Values | None, Values | None],
) -> list[Values]:
    """Pairs that match, and rows of a side without a match, with the padding for the other side. `padding`: what stands
    for a missing left, and a missing right row; None: the rows that miss it are not kept."""
    out = [{**one, **other} for one in left for other in right if matches(one, other)]
    no_left, no_right = padding
    if no_right is not None:
        out += [{**one, **no_right} for one in left if not any(matches(one, other) for other in right)]
    if no_left is not None:
        out += [{**no_left, **other} for other in right if not any(matches(one, other) for one in left)]
    return out


def set_operation(
    left: Mapping[Hashable, int], right: Mapping[Hashable, int], kind: str, is_all: bool
) -> Counter[Hashable]:
    """How often each value is there, given how often it is in either input."""
    out = Counter[Hashable]()
    for value, count in left.items():
        others = right.get(value, 0)
        if kind == "except":
            out[value] = max(0, count - others) if is_all else int(others == 0)
        else:
            out[value] = min(count, others) if is_all else int(others > 0)
    return +out


def last_rows(
    tuples: Sequence[tuple[int, Values]], size: int, partition_of: Callable[[Values], Hashable], tick: int
) -> list[Values]:
    """The last `size` tuples of every partition with a point below the tick; the tuples are in the order of arrival."""
    partitions: dict[Hashable, list[Values]] = {}
    for point, values in sorted(tuples, key=lambda one: one[0]):
        if point < tick:
            partitions.setdefault(partition_of(values), []).append(values)
    return [values for rows in partitions.values() for values in rows[-size:]]
