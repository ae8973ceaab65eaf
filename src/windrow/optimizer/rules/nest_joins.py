"""Nest joins: joins on different keys are nested in the order that costs least.

A join of s, t and u on two keys is (s ⋈ t) ⋈ u or s ⋈ (t ⋈ u). The inner join makes its rows whether or not they find a
partner outside, so the one that makes few rows should be inside. `merge_joins` nests by how many inputs have a key in
common, and this rule by cost.

For every set of inputs that keys connect, the cheapest join is built of the cheapest joins of two parts of the set, as
in Selinger et al., SIGMOD 1979. Two joins on the same keys are one multi-way join, in the order of `order_joins`. What
no key connects is a product, made last. The given nesting stays unless another costs clearly less by `cost.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product

from windrow.optimizer.cost import LEAST_GAIN, Coster
from windrow.optimizer.estimates import conditions_of
from windrow.optimizer.facts import Facts
from windrow.optimizer.join_order import best_order
from windrow.optimizer.rules.join_tree import JoinBuilder, JoinedPart, JoinTree, flattened, is_of_joins, restored
from windrow.optimizer.shapes import shape_text
from windrow.plan.algebra.nodes import MOST_INPUTS, ContinuousPlan, Filter, Join, Node, Project
from windrow.plan.algebra.rewriting import text_of, with_inputs
from windrow.types import number_text

MOST_JOINS = 1_000
"""So many joins are costed. A tree with more, of eight inputs that nearly all have different keys in common, stays."""


def nest_joins(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    rule = _Rule(Coster(plan, facts), [])
    root = rule.nested(plan.root)
    return (replace(plan, root=root), "; ".join(rule.reasons)) if rule.reasons else (plan, None)


@dataclass(frozen=True)
class _Rule:
    coster: Coster
    reasons: list[str]

    def nested(self, node: Node) -> Node:
        if not is_of_joins(node):
            return with_inputs(node, [self.nested(one) for one in node.inputs])
        node = self._over_nested_inputs(node)
        return self._cheaper(node) or node

    def _over_nested_inputs(self, node: Node) -> Node:
        if not is_of_joins(node):
            return self.nested(node)
        return with_inputs(node, [self._over_nested_inputs(one) for one in node.inputs])

    def _cheaper(self, node: Node) -> Node | None:
        """A nesting of all joins of a tree that costs clearly less; None if there is none."""
        tree = _in_order(flattened(node))
        if not 3 <= len(tree.leaves) <= MOST_INPUTS:
            return None
        builder = JoinBuilder(tree)
        if len(builder.classes) < 2:
            return None
        builder.classes.sort(key=lambda terms: min(term.name for term in terms))
        found = _Search(builder, self.coster).best()
        if found is None:
            return None
        given = _join_below(node)
        before, after = self._total(given), self._total(found)
        if after >= LEAST_GAIN * before:
            return None
        times = number_text(before / max(after, 1e-300))
        self.reasons.append(f"{shape_text(found)} instead of {shape_text(given)} (estimated {times} times cheaper)")
        return restored(tree, found, node.schema)

    def _total(self, node: Node) -> float:
        """What a tree of joins costs, each with its inputs in the cheapest order."""
        return self.coster.total(self._ordered(node))

    def _ordered(self, node: Node) -> Node:
        if not is_of_joins(node):
            return node
        node = with_inputs(node, [self._ordered(one) for one in node.inputs])
        return ordered(node, self.coster) if isinstance(node, Join) else node


def ordered(join: Join, coster: Coster) -> Join:
    """The join with its inputs in the cheapest order. The order of its columns changes, too."""
    if len(join.inputs) < 3:
        return join
    order = best_order(coster.estimator.join_inputs(join), conditions_of(join))
    keys = tuple(tuple(key[i] for i in order) for key in join.keys)
    return Join(tuple(join.inputs[i] for i in order), keys, join.condition)


def _in_order(tree: JoinTree) -> JoinTree:
    """The same tree however its joins were nested: inputs by their first columns, equalities and conditions by text."""
    return JoinTree(
        sorted(tree.leaves, key=lambda leaf: min((column.id for column in leaf.schema), default=-1)),
        sorted(tree.equal, key=lambda pair: sorted(map(text_of, pair))),
        sorted(tree.conditions, key=text_of),
        tree.values,
    )


def _join_below(node: Node) -> Join:
    while isinstance(node, Filter | Project):
        node = node.input
    assert isinstance(node, Join)
    return node


# -- the search --------------------------------------------------------------------------------------

_Classes = frozenset[int]
"""Classes of equal terms, by their numbers."""

_ANY: _Classes = frozenset()


@dataclass(frozen=True)
class _Candidate:
    """A way to join a set of inputs, and what it costs. `on`: the classes that all inputs of its outermost join share,
    if it has no other keys; `parts` are these inputs."""

    part: JoinedPart
    cost: float
    on: _Classes
    parts: tuple[_Candidate, ...] = ()


class _Search:
    def __init__(self, builder: JoinBuilder, coster: Coster):
        self._builder = builder
        self._coster = coster
        self._costed = 0
        self._best: dict[frozenset[int], dict[_Classes, _Candidate]] = {
            leaf.leaves: {_ANY: _Candidate(leaf, 0.0, _ANY)} for leaf in builder.leaves
        }

    def best(self) -> Node | None:
        """The cheapest join of all inputs; what no key connects is a product, made last. None: there are too many."""
        every = range(len(self._builder.leaves))
        for size in range(2, len(every) + 1):
            for chosen in combinations(every, size):
                for one in self._ways(frozenset(chosen)):
                    self._costed += 1
                    if self._costed > MOST_JOINS:
                        return None
                    self._keep(one)
        rest, found = frozenset(every), list[_Candidate]()
        while rest:
            largest = max((one for one in self._best if one <= rest), key=lambda one: (len(one), -min(one)))
            found.append(self._best[largest][_ANY])
            rest -= largest
        return self._joined(tuple(found), _ANY).part.node if len(found) > 1 else found[0].part.node

    def _ways(self, leaves: frozenset[int]) -> Iterator[_Candidate]:
        """The joins of two parts of a set of inputs that have a class in common."""
        seen = set[frozenset[int]]()
        first, *others = sorted(leaves)
        for size in range(len(others)):
            for more in combinations(others, size):
                left = frozenset((first, *more))
                sides = self._best.get(left, {}), self._best.get(leaves - left, {})
                for one, other in product(*(side.values() for side in sides)):
                    on = self._shared(one.part, other.part)
                    parts = (*_inputs(one, on), *_inputs(other, on))
                    name = frozenset(map(id, parts))
                    if on and name not in seen:
                        seen.add(name)
                        yield self._joined(parts, on)

    def _shared(self, one: JoinedPart, other: JoinedPart) -> _Classes:
        touches = self._builder.touches
        return frozenset(
            i for i, terms in enumerate(self._builder.classes) if touches(terms, one) and touches(terms, other)
        )

    def _joined(self, parts: tuple[_Candidate, ...], on: _Classes) -> _Candidate:
        made = self._builder.joined([one.part for one in sorted(parts, key=lambda one: min(one.part.leaves))])
        assert isinstance(made.node, Join)
        node = ordered(made.node, self._coster)
        cost = self._coster.own(node) + sum(one.cost for one in parts)
        return _Candidate(replace(made, node=node), cost, on, parts)

    def _keep(self, one: _Candidate) -> None:
        """Keep the cheapest join; and for each set of classes that more inputs have the cheapest join on them."""
        kept = self._best.setdefault(one.part.leaves, {})
        for on in {_ANY, one.on} if self._may_grow(one) else {_ANY}:
            if on not in kept or one.cost < kept[on].cost:
                kept[on] = one

    def _may_grow(self, one: _Candidate) -> bool:
        classes = (self._builder.classes[i] for i in one.on)
        return all(any(term.leaf not in one.part.leaves for term in terms) for terms in classes)


def _inputs(one: _Candidate, on: _Classes) -> tuple[_Candidate, ...]:
    """The inputs of a join on these classes, which more inputs may join at once."""
    return one.parts if one.parts and one.on == on else (one,)
