"""The order of a multi-way join (Golab's dissertation, section 5.3).

Each new tuple of an input is joined with the other inputs in one global order. The cost of an order is the number of
tuples compared per unit of time, X_1 + … + X_n (section 5.3.1), where for new tuples of S_1 in the order S_1 … S_4

    X_1 = λ1 (λ2 T2 + λ2 T2 / max(v1, v2) · λ3 T3 + λ2 T2 / max(v1, v2) · λ3 T3 / max(min(v1, v2), v3) · λ4 T4)

with rates λ, window lengths T, and v distinct values of the join attribute, under containment of value sets.

What the formulae do not cover:

- *Several keys* are one key of several columns: v is the product of their distinct counts, at most the number of tuples
  in the window.
- *No key* (a product, or a join by a condition alone): v = 1, so every tuple matches every other.
- *A further condition* multiplies the matches by its selectivity as soon as all inputs that it reads are joined.
- *Inputs that are not windows* (a sub-query, a join on another key): rate, live rows and distinct counts are those
  estimated for its output, so λ T stands for its live rows.
- *Hash tables*: a tuple is compared with its bucket only, λ T / b of them (section 5.3.2).

Of all n! orders `best_order` finds a cheapest one, so the heuristic of section 5.3.2 is not needed; it is in
`reference/join_heuristic.py`. Joins on different keys are different nodes: each is ordered on its own, and
`rules/nest_joins.py` chooses their nesting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

JoinOrder = tuple[int, ...]
"""Positions of inputs, the outermost loop first."""


@dataclass(frozen=True)
class JoinInput:
    """λ, T and v of one input; `buckets` of its hash table (1: none)."""

    rate: float
    length: float
    distinct: float
    buckets: float = 1.0

    @property
    def live(self) -> float:
        """Tuples in the window, λ T."""
        return self.rate * self.length

    @property
    def compared(self) -> float:
        """Tuples that a lookup compares."""
        return self.live / self.buckets


@dataclass(frozen=True)
class JoinCondition:
    """A condition over some inputs, and the fraction of their combinations that it lets pass."""

    inputs: frozenset[int]
    selectivity: float


def cost(order: Sequence[int], inputs: Sequence[JoinInput], conditions: Sequence[JoinCondition] = ()) -> float:
    """Tuples compared per unit of time if new tuples are joined in this order."""
    return sum(inputs[new].rate * compared_by(new, order, inputs, conditions) for new in order)


def compared_by(
    new: int, order: Sequence[int], inputs: Sequence[JoinInput], conditions: Sequence[JoinCondition] = ()
) -> float:
    """X_i / λ_i: the tuples that one new tuple of input i is compared with."""
    compared, matches, distinct = 0.0, 1.0, inputs[new].distinct
    joined = {new}
    for i in order:
        if i == new:
            continue
        one = inputs[i]
        compared += matches * one.compared
        matches *= one.live / max(distinct, one.distinct)
        distinct = min(distinct, one.distinct)
        joined.add(i)
        for condition in conditions:
            if i in condition.inputs and condition.inputs <= joined:
                matches *= condition.selectivity
    return compared


def matches_of(inputs: Sequence[JoinInput], conditions: Sequence[JoinCondition] = ()) -> float:
    """Live results of the join, φ."""
    first, *others = inputs
    live, distinct = first.live, first.distinct
    for one in others:
        live *= one.live / max(distinct, one.distinct)
        distinct = min(distinct, one.distinct)
    for condition in conditions:
        live *= condition.selectivity
    return live


def best_order(inputs: Sequence[JoinInput], conditions: Sequence[JoinCondition] = ()) -> JoinOrder:
    """A cheapest of all n! orders; the given one if it is as cheap.

    What the inputs of a set match does not depend on their order, so the cost of the step from a set to one input more
    depends on the two alone. The cheapest order of every set is thus found from those of its subsets, in 2ⁿ n² steps.
    """
    given = tuple(range(len(inputs)))
    best: dict[frozenset[int], tuple[float, JoinOrder]] = {frozenset(): (0.0, ())}
    for _ in inputs:
        longer: dict[frozenset[int], tuple[float, JoinOrder]] = {}
        for joined, (so_far, order) in best.items():
            for i in (one for one in given if one not in joined):
                found = (so_far + _cost_of_step(joined, i, inputs, conditions), (*order, i))
                longer[joined | {i}] = min(found, longer.get(joined | {i}, found))
        best = longer
    order = best[frozenset(given)][1]
    return order if cost(order, inputs, conditions) < cost(given, inputs, conditions) * (1 - 1e-9) else given


def _cost_of_step(
    joined: frozenset[int], following: int, inputs: Sequence[JoinInput], conditions: Sequence[JoinCondition]
) -> float:
    """What it costs that one input follows a set of others in the order, over the new tuples of all inputs."""
    total = 0.0
    for new, one in enumerate(inputs):
        if new != following and one.live > 0:
            parts = sorted(joined | {new})
            held = [condition for condition in conditions if condition.inputs <= set(parts)]
            total += one.rate / one.live * matches_of([inputs[i] for i in parts], held)
    return total * inputs[following].compared
