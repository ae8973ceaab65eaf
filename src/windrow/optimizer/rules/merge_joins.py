"""Merge joins: joins on the same key become one multi-way join (Golab's dissertation, sections 2.2.2 and 5.1).

A tree of joins is taken apart into its inputs and all its conditions. Terms that equalities connect form classes, so
a.x = b.x and b.x = c.x make one class over a, b and c. Repeatedly, the inputs that the largest class connects become
one join, on every class that all of them share; an equality between some of them becomes a condition. What no equality
connects is a product, made last. The order of the output's columns is kept by a projection.

A result of nested joins lives from the latest birth to the earliest end of all its parts, however they are nested, so
the rule keeps every lifetime.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from windrow.optimizer.facts import Facts
from windrow.optimizer.rules.push_selections import pushed
from windrow.plan.algebra.invariants import type_in
from windrow.plan.algebra.nodes import Computed, ContinuousPlan, Filter, Join, Node, Project, columns_in, walk
from windrow.plan.algebra.rewriting import (
    conjunction,
    conjuncts,
    expressions_of,
    is_passed,
    names_of,
    projected,
    reference,
    substituted,
    text_of,
    types_of,
    with_inputs,
)
from windrow.types import SqlType

MOST_INPUTS = 8


def merge_joins(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    root = _merged(plan.root)
    if root == plan.root:
        return plan, None
    before, after = (sum(isinstance(node, Join) for node in walk(one)) for one in (plan.root, root))
    reason = (
        f"{before} joins become {after}: inputs with equal keys are joined at once"
        if after < before
        else "equalities in conditions become join keys"
    )
    return replace(plan, root=root), reason


def _merged(node: Node) -> Node:
    if not _is_of_joins(node):
        return with_inputs(node, [_merged(one) for one in node.inputs])
    tree = _flattened(node)
    tree.leaves = [_merged(leaf) for leaf in tree.leaves]
    joined = _Builder(tree).build()
    columns = tuple(Computed(column, tree.values.get(column.sql, reference(column))) for column in node.schema)
    if all(map(is_passed, columns)):
        return projected(joined, node.schema)
    return Project(joined, columns)


def _is_of_joins(node: Node) -> bool:
    """Whether it is a join, perhaps below conditions and renamed columns."""
    if isinstance(node, Filter) or (isinstance(node, Project) and all(one.is_renamed for one in node.columns)):
        return _is_of_joins(node.input)
    return isinstance(node, Join)


@dataclass
class _Tree:
    """The inputs of a tree of joins, its equalities and other conditions over them, and what its columns stand for."""

    leaves: list[Node]
    equal: list[tuple[exp.Expr, exp.Expr]] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    values: dict[str, exp.Expr] = field(default_factory=dict)

    def leaf_of(self, term: exp.Expr) -> int | None:
        """The only input that a term reads; None if it reads several, or none."""
        read = columns_in(term)
        found = [i for i, leaf in enumerate(self.leaves) if read & names_of(leaf)]
        return found[0] if len(found) == 1 else None


def _flattened(node: Node) -> _Tree:
    if isinstance(node, Filter):
        tree = _flattened(node.input)
        tree.conditions += [substituted(one, tree.values) for one in conjuncts(node.predicate)]
        return tree
    if isinstance(node, Project):
        tree = _flattened(node.input)
        tree.values |= {name: substituted(one, tree.values) for name, one in expressions_of(node).items()}
        return tree
    assert isinstance(node, Join)
    whole = _Tree([])
    for i, one in enumerate(node.inputs):
        part = _part(one, [key[i] for key in node.keys], MOST_INPUTS - len(whole.leaves) - (len(node.inputs) - i - 1))
        whole.leaves += part.leaves
        whole.equal += part.equal
        whole.conditions += part.conditions
        whole.values |= part.values
    for key in node.keys:
        first, *others = (substituted(one, whole.values) for one in key)
        whole.equal += [(first, one) for one in others]
    whole.conditions += [substituted(one, whole.values) for one in conjuncts(node.condition)]
    return whole


def _part(node: Node, keys: Iterable[exp.Expr], most: int) -> _Tree:
    """An input, taken apart if it is of joins, there is room, and each of its keys is of one of its own inputs."""
    if _is_of_joins(node):
        tree = _flattened(node)
        own = all(tree.leaf_of(substituted(one, tree.values)) is not None for one in keys)
        if own and len(tree.leaves) <= most:
            return tree
    return _Tree([node])


@dataclass
class _Term:
    leaf: int
    expression: exp.Expr

    @property
    def name(self) -> tuple[int, str]:
        return self.leaf, text_of(self.expression)


@dataclass
class _Part:
    """A node, and which leaves it joins."""

    node: Node
    leaves: frozenset[int]


class _Builder:
    def __init__(self, tree: _Tree):
        self.tree = tree
        self.classes: list[list[_Term]] = []
        conditions = list(tree.conditions)
        for left, right in tree.equal:
            if not self._connect(left, right):
                conditions.append(exp.EQ(this=left.copy(), expression=right.copy()))
        types = types_of(tree.leaves)
        self.conditions: list[exp.Expr] = []
        for one in conjuncts(conjunction(conditions)):
            if not (isinstance(one, exp.EQ) and self._same_type(one, types) and self._connect(one.left, one.right)):
                self.conditions.append(one)

    def _same_type(self, equality: exp.Expr, types: dict[str, SqlType]) -> bool:
        kinds = [type_in(side.unnest(), types) for side in (equality.this, equality.expression)]
        return kinds[0] is not None and kinds[0] == kinds[1]

    def _connect(self, left: exp.Expr, right: exp.Expr) -> bool:
        """Put two terms into one class; False if one of them is not of a single input, or both are of the same."""
        terms = []
        for side in (left.unnest(), right.unnest()):
            leaf = self.tree.leaf_of(side)
            if leaf is None:
                return False
            terms.append(_Term(leaf, side))
        if terms[0].leaf == terms[1].leaf:
            return False
        found = [one for one in self.classes if any(t.name in {u.name for u in one} for t in terms)]
        merged = {term.name: term for one in found for term in one}
        for term in terms:
            merged.setdefault(term.name, term)
        if found:
            place = self.classes.index(found[0])
            self.classes[place] = list(merged.values())
            for one in found[1:]:
                self.classes.remove(one)
        else:
            self.classes.append(list(merged.values()))
        return True

    def build(self) -> Node:
        parts = [_Part(leaf, frozenset({i})) for i, leaf in enumerate(self._filtered())]
        while len(parts) > 1:
            parts = self._joined(parts, self._connected(parts) or parts)
        return parts[0].node

    def _filtered(self) -> list[Node]:
        """The inputs with conditions on one input alone, and with one term of each class."""
        own: list[list[exp.Expr]] = [[] for _ in self.tree.leaves]
        for i, terms in enumerate(self.classes):
            firsts: dict[int, _Term] = {}
            for term in terms:
                first = firsts.setdefault(term.leaf, term)
                if first is not term:
                    own[term.leaf].append(exp.EQ(this=first.expression.copy(), expression=term.expression.copy()))
            self.classes[i] = list(firsts.values())
        left: list[exp.Expr] = []
        for one in self.conditions:
            side = next((i for i, leaf in enumerate(self.tree.leaves) if columns_in(one) <= names_of(leaf)), None)
            (left if side is None else own[side]).append(one)
        self.conditions = left
        return [pushed(leaf, one) if one else leaf for leaf, one in zip(self.tree.leaves, own, strict=True)]

    def _connected(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts that the class over most parts connects; none if no class connects two."""
        best: list[_Part] = []
        for terms in self.classes:
            touched = [part for part in parts if any(term.leaf in part.leaves for term in terms)]
            if len(touched) > max(1, len(best)):
                best = touched
        return best

    def _joined(self, parts: Sequence[_Part], chosen: Sequence[_Part]) -> list[_Part]:
        leaves = frozenset(leaf for part in chosen for leaf in part.leaves)
        keys: list[tuple[exp.Expr, ...]] = []
        conditions: list[exp.Expr] = []
        for i, terms in enumerate(self.classes):
            here = [[term for term in terms if term.leaf in part.leaves] for part in chosen]
            touched = [own for own in here if own]
            if len(touched) < 2:
                continue
            if len(touched) == len(chosen):
                keys.append(tuple(own[0].expression.copy() for own in here))
            else:
                first = touched[0][0].expression
                conditions += [exp.EQ(this=first.copy(), expression=own[0].expression.copy()) for own in touched[1:]]
            # From here on one term stands for the class in this join.
            kept = touched[0][0]
            self.classes[i] = [term for term in terms if term.leaf not in leaves or term is kept]
        names = frozenset(name for part in chosen for name in names_of(part.node))
        conditions += [one for one in self.conditions if columns_in(one) <= names]
        self.conditions = [one for one in self.conditions if not columns_in(one) <= names]
        joined = Join(tuple(part.node for part in chosen), tuple(keys), conjunction(conditions))
        first_place = min(i for i, part in enumerate(parts) if part in chosen)
        rest = [part for part in parts if part not in chosen]
        return [*rest[:first_place], _Part(joined, leaves), *rest[first_place:]]
