"""Take WHERE apart: conditions of rows, and EXISTS and IN with a sub-query, each of which is a semi-join.

A semi-join keeps or drops whole rows, so these stand alone or under AND; `alternatives.py` has taken OR apart before.
NOT goes inward by De Morgan's laws, which hold in SQL's logic of three values.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from windrow.cql.tokens import nearest_place
from windrow.errors import UnsupportedError
from windrow.plan.continuous.shape import is_conditional


@dataclass(frozen=True)
class RowCondition:
    """A condition of a row, without sub-queries."""

    tree: exp.Expr


@dataclass(frozen=True)
class Membership:
    """EXISTS (sub-query), or values IN (sub-query); `is_negated`: NOT EXISTS, NOT IN. Of EXISTS there are no values."""

    written: exp.Expr
    query: exp.Expr
    values: tuple[exp.Expr, ...]
    is_negated: bool

    @property
    def is_exists(self) -> bool:
        return isinstance(self.written, exp.Exists)


def conditions_of(where: exp.Expr, text: str, negated: bool = False) -> list[RowCondition | Membership]:
    """The conditions that AND connects; raises UnsupportedError for EXISTS and IN under OR, or in an expression."""
    tree = where.unnest()
    found = next((node for node in tree.walk() if is_conditional(node)), None)
    if found is None:
        return [RowCondition(exp.Not(this=exp.paren(tree)) if negated else tree)]
    if isinstance(tree, exp.Not):
        return conditions_of(tree.this, text, not negated)
    if isinstance(tree, exp.Or if negated else exp.And):
        return [one for side in (tree.this, tree.expression) for one in conditions_of(side, text, negated)]
    if is_conditional(tree):
        return [_membership(tree, negated)]
    what = "EXISTS" if isinstance(found, exp.Exists) else "IN (SELECT …)"
    if isinstance(tree, exp.Connector):
        under = "NOT (… AND …), which is an OR" if negated else "OR"
        raise UnsupportedError(
            f"{what} under {under} stands in a plain SELECT, and all but one of those under OR are EXISTS",
            place=nearest_place(found, text),
            remedy="Write two queries; or a UNION ALL of two: SELECT … WHERE a UNION ALL "
            f"SELECT … WHERE (a) IS NOT TRUE AND {what.replace('EXISTS', 'EXISTS (…)')}.",
        )
    raise UnsupportedError(
        f"{what} stands alone in WHERE, or under AND, OR and NOT, not in an expression",
        place=nearest_place(found, text),
        remedy="Write it as a condition of its own: WHERE … AND EXISTS (SELECT …).",
    )


def _membership(node: exp.Expr, negated: bool) -> Membership:
    if isinstance(node, exp.Exists):
        return Membership(node, node.this, (), negated)
    left = node.this.unnest()
    values = tuple(left.expressions) if isinstance(left, exp.Tuple) else (left,)
    return Membership(node, node.args["query"], values, negated)
