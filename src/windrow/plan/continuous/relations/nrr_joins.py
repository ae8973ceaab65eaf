"""Joins with tables that are NON RETROACTIVE stand above all other joins of their FROM, and below what WHERE asks.

A result shows the table as of its own ts (Golab's dissertation, Definition 3.1), and that is the latest ts of its
parts: so all of them must have met before. A condition that reads columns of such a table moves up to the join that
brings them. EXISTS and IN of WHERE withdraw rows of FROM, so they stand above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from sqlglot import exp

from windrow.errors import UnsupportedError
from windrow.plan.algebra.nodes import Filter, Node, NrrJoin, columns_in
from windrow.plan.algebra.rewriting import names_of
from windrow.plan.continuous.properties import is_strict, why_strict
from windrow.plan.continuous.shape import JoinKind

Key = tuple[exp.Expr, exp.Expr]


class JoinStep(Protocol):
    """How an input joins those before it, and the conditions on the result. `of_where`: by EXISTS or IN in WHERE."""

    kind: JoinKind
    of_where: bool
    keys: list[Key]
    conditions: list[exp.Expr]
    above: list[exp.Expr]


class NrrJoins:
    """Places the joins of a FROM. `tables`: by their number, the inputs that are such tables, with their names.
    `joined` makes the other joins."""

    def __init__(
        self,
        steps: Sequence[JoinStep],
        nodes: Sequence[Node],
        tables: dict[int, str],
        joined: Callable[[JoinStep, Node, Node], Node],
    ):
        self._steps = steps
        self._nodes = nodes
        self._tables = tables
        self._joined = joined
        self._own = {i: names_of(nodes[i]) for i in tables}
        self._moved: list[exp.Expr] = []

    def node(self) -> Node:
        """All inputs joined."""
        others = [i for i, step in enumerate(self._steps) if i not in self._tables and not step.of_where]
        if not others:
            name = next(iter(self._tables.values()))
            raise UnsupportedError(
                f"'{name}' is a table that is NON RETROACTIVE, and here no stream is joined with it",
                remedy="Join it: FROM s [RANGE …] JOIN t ON …. EXISTS, IN and a sub-query of it alone need a table "
                "without NON RETROACTIVE.",
            )
        whole, above = self._nodes[others[0]], list[exp.Expr]()
        above += self._lifted(others[0])
        for i in others[1:]:
            above += self._lifted(i)
            whole = self._joined(self._steps[i], whole, self._nodes[i])
            if self._steps[i].above:
                whole = Filter(whole, exp.and_(*self._steps[i].above, copy=False))
        for i in self._tables:
            whole = self._with_table(whole, i)
        whole = _filtered(whole, (*self._moved, *above))
        for step, node in zip(self._steps, self._nodes, strict=True):
            whole = self._joined(step, whole, node) if step.of_where else whole
        return whole

    def _lifted(self, index: int) -> list[exp.Expr]:
        """Take the conditions that read such tables away from a step. Those of WHERE are returned."""
        step = self._steps[index]
        keys = [key for key in step.keys if self._reads_table(key)]
        conditions = [one for one in step.conditions if self._reads_table([one])]
        if (keys or conditions) and step.kind is not JoinKind.INNER:
            raise self._refused(f"its columns cannot stand in the ON of a {step.kind.name} JOIN")
        if index and all(i in self._tables for i in range(index)) and step.kind is not JoinKind.INNER:
            raise self._refused(f"it cannot stand on the left of a {step.kind.name} JOIN")
        self._moved += [exp.EQ(this=one.copy(), expression=other.copy()) for one, other in keys]
        self._moved += conditions
        step.keys[:] = [key for key in step.keys if key not in keys]
        step.conditions[:] = [one for one in step.conditions if one not in conditions]
        lifted = [one for one in step.above if self._reads_table([one])]
        step.above[:] = [one for one in step.above if one not in lifted]
        return lifted

    def _reads_table(self, trees: Iterable[exp.Expr]) -> bool:
        read = {name for tree in trees for name in columns_in(tree)}
        return any(read & own for own in self._own.values())

    def _with_table(self, whole: Node, index: int) -> Node:
        step, table, name = self._steps[index], self._nodes[index], self._tables[index]
        kind = step.kind if index else JoinKind.INNER
        if kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise self._refused(f"a {kind.name} JOIN with it would have to change when the table does")
        if is_strict(whole):
            raise UnsupportedError(
                f"'{name}' is NON RETROACTIVE, and rows of the other side of its join may be withdrawn: "
                f"{why_strict(whole)}",
                remedy="The version of the table that a withdrawn row had met may be gone (Golab and Özsu, section "
                "5.4.2). Join the stream with this table first, in a sub-query in FROM; or take a table without NON "
                "RETROACTIVE.",
            )
        known = names_of(whole) | names_of(table)
        keys, conditions = list(step.keys), list(step.conditions)
        met = [one for one in self._moved if columns_in(one) <= known and columns_in(one) & self._own[index]]
        self._moved = [one for one in self._moved if one not in met]
        above = list(step.above)
        for one in met:
            key = self._key(one, index) if kind is JoinKind.INNER else None
            if key is not None:
                keys.append(key)
            else:
                (conditions if kind is JoinKind.INNER else above).append(one)
        condition = exp.and_(*conditions, copy=False) if conditions else None
        return _filtered(NrrJoin(whole, table, tuple(keys), condition, kind is JoinKind.LEFT), above)

    def _key(self, tree: exp.Expr, index: int) -> Key | None:
        """The equality as a key of the other inputs and of the table, if it is one."""
        if not isinstance(tree, exp.EQ):
            return None
        sides = [tree.this, tree.expression]
        if columns_in(sides[0]) <= self._own[index] and columns_in(sides[0]):
            sides.reverse()
        is_key = columns_in(sides[1]) <= self._own[index] and not columns_in(sides[0]) & self._own[index]
        return (sides[0], sides[1]) if is_key and all(map(columns_in, sides)) else None

    def _refused(self, why: str) -> UnsupportedError:
        name = next(iter(self._tables.values()))
        return UnsupportedError(
            f"'{name}' is NON RETROACTIVE: {why}",
            remedy="Write the stream first, and JOIN or LEFT JOIN the table; or take a table without NON RETROACTIVE.",
        )


def _filtered(node: Node, conditions: Iterable[exp.Expr]) -> Node:
    found = list(conditions)
    return Filter(node, exp.and_(*found, copy=False)) if found else node
