"""Duplicate elimination δ* (Golab's dissertation, section 3.5.2), one tuple and one value at a time.

At every tick: an output row that has expired is replaced by the youngest tuple with its value (the auxiliary state), if
that one is alive; a tuple whose value is not in the output is put there; any other becomes the youngest of its value.
`operators/distinct.py` does the same for all ticks and values of a batch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

Lifetime = tuple[int, int, Hashable]
"""ts, exp and the value."""


def delta_star(tuples: Iterable[Lifetime], step: int, upto: int) -> list[Lifetime]:
    """The output rows up to a tick, in the order in which they are appended. Ticks are the multiples of `step`."""
    arrivals = sorted(tuples, key=lambda row: (row[0], -row[1]))
    output: dict[Hashable, int] = {}  # the exp of a value's output row
    youngest: dict[Hashable, int] = {}  # the latest exp of its tuples
    appended: list[Lifetime] = []
    for tick in range(step, upto + 1, step):
        new = [row for row in arrivals if tick - step <= row[0] < tick <= row[1]]
        for _, exp, value in new:
            youngest[value] = max(exp, youngest.get(value, exp))
        for value, exp in list(output.items()):
            if exp < tick:
                del output[value]
                if youngest[value] >= tick:
                    output[value] = youngest[value]
                    appended.append((exp, youngest[value], value))
                else:
                    del youngest[value]
        for ts, exp, value in new:
            if value not in output:
                output[value] = exp
                appended.append((ts, exp, value))
    return appended
