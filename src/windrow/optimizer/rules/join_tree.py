"""Joins of several inputs as what they mean: inputs, classes of equal terms, other conditions; and joins made of it.

A tree of joins is taken apart into its inputs and all its conditions. Terms that equalities connect form classes, so
a.x = b.x and b.x = c.x make one class over a, b and c. Inputs may then be joined in any order and nesting: a join has a
key for every class that all its inputs share, and a condition for one that some of them share. A result lives from the
latest birth to the earliest end of all its parts, however they are nested, so every nesting gives the same lifetimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from windrow.optimizer.rules.push_selections import pushed
from windrow.plan.algebra.invariants import type_in
from windrow.plan.algebra.nodes import MOST_INPUTS, Computed, Filter, Join, Node, PlanColumn, Project, columns_in
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
)
from windrow.types import SqlType


def is_of_joins(node: Node) -> bool:
    """Whether it is a join, perhaps below conditions and renamed columns."""
    if isinstance(node, Filter) or (isinstance(node, Project) and all(one.is_renamed for one in node.columns)):
        return is_of_joins(node.input)
    return isinstance(node, Join)


@dataclass
class JoinTree:
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


def flattened(node: Node) -> JoinTree:
    if isinstance(node, Filter):
        tree = flattened(node.input)
        tree.conditions += [substituted(one, tree.values) for one in conjuncts(node.predicate)]
        return tree
    if isinstance(node, Project):
        tree = flattened(node.input)
        tree.values |= {name: substituted(one, tree.values) for name, one in expressions_of(node).items()}
        return tree
    assert isinstance(node, Join)
    whole = JoinTree([])
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


def _part(node: Node, keys: Iterable[exp.Expr], most: int) -> JoinTree:
    """An input, taken apart if it is of joins, there is room, and each of its keys is of one of its own inputs."""
    if is_of_joins(node):
        tree = flattened(node)
        own = all(tree.leaf_of(substituted(one, tree.values)) is not None for one in keys)
        if own and len(tree.leaves) <= most:
            return tree
    return JoinTree([node])


@dataclass
class JoinTerm:
    """An expression over one input, by its number."""

    leaf: int
    expression: exp.Expr

    @property
    def name(self) -> tuple[int, str]:
        return self.leaf, text_of(self.expression)


@dataclass
class JoinedPart:
    """A node, and which leaves it joins."""

    node: Node
    leaves: frozenset[int]


class JoinBuilder:
    """Makes joins of the inputs of a tree: `leaves` are these, with the conditions on one of them alone."""

    def __init__(self, tree: JoinTree):
        self.tree = tree
        self.classes: list[list[JoinTerm]] = []
        conditions = list(tree.conditions)
        for left, right in tree.equal:
            if not self._connect(left, right):
                conditions.append(exp.EQ(this=left.copy(), expression=right.copy()))
        types = types_of(tree.leaves)
        self.conditions: list[exp.Expr] = []
        for one in conjuncts(conjunction(conditions)):
            if not (isinstance(one, exp.EQ) and self._same_type(one, types) and self._connect(one.left, one.right)):
                self.conditions.append(one)
        self.leaves = [JoinedPart(leaf, frozenset({i})) for i, leaf in enumerate(self._filtered())]

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
            terms.append(JoinTerm(leaf, side))
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

    def _filtered(self) -> list[Node]:
        """The inputs with conditions on one input alone, and with one term of each class."""
        own: list[list[exp.Expr]] = [[] for _ in self.tree.leaves]
        for i, terms in enumerate(self.classes):
            firsts: dict[int, JoinTerm] = {}
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

    def joined(self, parts: Sequence[JoinedPart]) -> JoinedPart:
        """The join of some parts on all that they share."""
        keys: list[tuple[exp.Expr, ...]] = []
        conditions: list[exp.Expr] = []
        for terms in self.classes:
            # All terms of one part are equal in it, so the first stands for the class.
            firsts = [next((one.expression for one in terms if one.leaf in part.leaves), None) for part in parts]
            touched = [one for one in firsts if one is not None]
            if len(touched) == len(parts):
                keys.append(tuple(one.copy() for one in touched))
            else:
                conditions += [exp.EQ(this=touched[0].copy(), expression=one.copy()) for one in touched[1:]]
        inner = [names_of(part.node) for part in parts]
        names = frozenset[str]().union(*inner)
        for one in self.conditions:
            read = columns_in(one)
            if read <= names and not any(read <= own for own in inner):
                conditions.append(one)
        node = Join(tuple(part.node for part in parts), tuple(keys), conjunction(conditions))
        return JoinedPart(node, frozenset(leaf for part in parts for leaf in part.leaves))

    def touches(self, terms: Sequence[JoinTerm], part: JoinedPart) -> bool:
        return any(term.leaf in part.leaves for term in terms)


def restored(tree: JoinTree, joined: Node, schema: Sequence[PlanColumn]) -> Node:
    """A join of all inputs of a tree with the columns that the tree was taken from."""
    columns = tuple(Computed(column, tree.values.get(column.sql, reference(column))) for column in schema)
    return projected(joined, schema) if all(map(is_passed, columns)) else Project(joined, columns)
