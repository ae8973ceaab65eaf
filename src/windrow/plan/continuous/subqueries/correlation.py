"""Conditions in WHERE of a sub-query that compare with the query around it.

What such a condition reads of the sub-query becomes a column of it, so that the condition can stand in the semi-join
above: of `t.x + 1 > s.x`, inside EXISTS over t, the column is t.x + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from windrow.cql.tokens import nearest_place
from windrow.errors import UnsupportedError
from windrow.plan.continuous.expressions import is_value
from windrow.plan.continuous.grouping import SelectItem
from windrow.plan.continuous.scope import Scope, resolved
from windrow.plan.continuous.shape import shown
from windrow.plan.trees import replace_children


def outer_columns(tree: exp.Expr, scope: Scope) -> list[exp.Column]:
    """The columns in the tree that are of the query around."""
    return [column for column in tree.find_all(exp.Column) if scope.is_outer(column)]


def refuse_correlated(select: exp.Select, conditions: Sequence[exp.Expr], is_grouped: bool, scope: Scope) -> None:
    """Refuse to compare with the query around where the rows of the sub-query depend on each other."""
    why, remedy = None, ""
    if is_grouped:
        why = "below GROUP BY or an aggregate"
        remedy = "Compare the group's key instead: s.k IN (SELECT k FROM … GROUP BY k HAVING …)."
    elif select.args.get("limit") is not None:
        why, remedy = "below LIMIT", "Leave LIMIT out: EXISTS asks for one row anyway."
    if why is not None:
        found = outer_columns(conditions[0], scope)[0]
        raise UnsupportedError(
            f"'{shown(found)}' is a column of the query around this sub-query, and cannot be used {why}",
            place=nearest_place(found, scope.text),
            remedy=remedy,
        )


class Lifting:
    """Takes what conditions read of a sub-query as columns of it, which becomes input `index` of the query around."""

    def __init__(self, scope: Scope, index: int):
        self._scope = scope
        self._index = index
        self._items: dict[str, SelectItem] = {}

    @property
    def items(self) -> list[SelectItem]:
        return list(self._items.values())

    def lifted(self, tree: exp.Expr) -> exp.Expr:
        """The condition over columns of the query around and over columns of input `index`."""
        columns = list(tree.find_all(exp.Column))
        if isinstance(tree, exp.Column):
            return tree.copy() if self._scope.is_outer(tree) else self._column(tree)
        if columns and is_value(tree) and not outer_columns(tree, self._scope):
            return self._column(tree)
        return replace_children(tree.copy(), self.lifted)

    def _column(self, tree: exp.Expr) -> exp.Expr:
        key = shown(self._scope.resolve(tree).unnest())
        item = self._items.setdefault(key, SelectItem(f"__c{len(self._items)}", tree, tree))
        return resolved(self._index, item.name, tree)
