"""The join ordering heuristic of Golab's dissertation, section 5.3.2.

It looks at few of the n! orders: by selectivity, and with fast streams moved up. The optimizer finds a cheapest order
without it (`optimizer/join_order.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow.optimizer.join_order import JoinInput, JoinOrder, cost, matches_of

FAST = 2.0
"""A stream is fast if its rate is this many times the lower median."""


def by_selectivity(inputs: Sequence[JoinInput]) -> JoinOrder:
    """The initial heuristic of section 5.3.2: the join with the fewest results first, and so on. Of the first two, the
    one with fewer live tuples comes first, then the one with more distinct values."""
    ids = range(len(inputs))
    if len(inputs) < 2:
        return tuple(ids)
    pairs = [(i, j) for i in ids for j in ids if i != j]

    def rank(pair: tuple[int, int]) -> tuple[float, float, float, tuple[int, int]]:
        first = inputs[pair[0]]
        return matches_of([inputs[i] for i in pair]), first.live, -first.distinct, pair

    order = list(sorted(pairs, key=rank)[0])
    while len(order) < len(inputs):
        left = [i for i in ids if i not in order]
        order.append(min(left, key=lambda i: (matches_of([inputs[j] for j in (*order, i)]), i)))
    return tuple(order)


def candidates(inputs: Sequence[JoinInput]) -> tuple[JoinOrder, ...]:
    """The orders of the augmented heuristic (section 5.3.2): by selectivity, and with fast streams moved up."""
    first = by_selectivity(inputs)
    rates = sorted(one.rate for one in inputs)
    fast = [i for i in first if inputs[i].rate >= FAST * max(rates[(len(rates) - 1) // 2], 1e-300)]
    orders: dict[JoinOrder, None] = {first: None}
    for i in fast:
        for order in list(orders):
            rest = tuple(j for j in order if j != i)
            for place in range(order.index(i)):
                orders[rest[:place] + (i,) + rest[place:]] = None
    return tuple(orders)


def heuristic_order(inputs: Sequence[JoinInput]) -> JoinOrder:
    """The cheapest of the orders that the augmented heuristic considers."""
    return min(candidates(inputs), key=lambda order: cost(order, inputs))
