"""What binders of periodic and of continuous queries do alike with expressions: sqlglot's trees."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from windrow.errors import BindError, Place


def replace_children(node: exp.Expr, rewrite: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The node itself, with each of its children replaced by what `rewrite` makes of it."""
    for name, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(name, rewrite(value))
        elif isinstance(value, list):
            node.set(name, [rewrite(one) if isinstance(one, exp.Expr) else one for one in value])
    return node


def not_grouped(column: exp.Column, clause: str, place: Place | None) -> BindError:
    """The error for a column in a clause of a grouped query that is neither a key nor inside an aggregate."""
    return BindError(
        f"'{column.name}' in {clause} is neither grouped nor aggregated",
        place=place,
        remedy=f"Add it to GROUP BY, or wrap it in an aggregate such as MAX({column.name}).",
    )
