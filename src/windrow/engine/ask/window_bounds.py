"""Which window ends a SELECT can use of a table of answers: the constants that its conditions compare them with.

A condition counts if rows that fail it cannot contribute: in WHERE, in ON of an inner join, and in ON of a LEFT JOIN
for the table on its right. Conditions that are not understood bound nothing; Spark evaluates all of them anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from windrow.cql.select_text import expression_text
from windrow.engine.ask.kept_answers import ALL, WINDOW_END, Ends

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
}
_NOT_CONSTANT = (exp.Column, exp.Query, exp.Subquery, exp.AggFunc, exp.Window)


@dataclass(frozen=True)
class EndBound:
    """`window_end <operator> constant`; the constant is Spark SQL."""

    operator: type[exp.Expr]
    constant: str

    def ends(self, point: int | None) -> Ends:
        """The window ends that pass, if the constant stands for this point; all if that is not known."""
        if point is None:
            return ALL
        if self.operator is exp.EQ:
            return Ends(point, point)
        if self.operator in (exp.GT, exp.GTE):
            return Ends(low=point + (self.operator is exp.GT))
        return Ends(high=point - (self.operator is exp.LT))


def alias_of(table: exp.Expr) -> str:
    """The name by which columns of the table are qualified, in lower case."""
    return str(table.alias or table.this.name).lower()


def end_bounds(table: exp.Table, known: Mapping[str, exp.Expr]) -> list[EndBound]:
    """The bounds of a table's window ends. `known` has the one window end of other tables of the same SELECT, by
    alias."""
    select = table.parent.parent if table.parent is not None else None
    if not isinstance(select, exp.Select) or renames(table):
        return []
    alias = alias_of(table)
    is_only = not select.args.get("joins")

    def is_end(node: exp.Expr) -> bool:
        is_mine = node.text("table").lower() == alias or (is_only and not node.text("table"))
        return isinstance(node, exp.Column) and node.name.lower() == WINDOW_END and is_mine

    def constant(node: exp.Expr) -> str | None:
        return _constant(node, {name: end for name, end in known.items() if name != alias})

    return [bound for one in _conditions(table, select) for bound in _bounds(one, is_end, constant)]


def renames(table: exp.Table) -> bool:
    """Whether the table's alias renames its columns, as in AS a(x, y)."""
    alias = table.args.get("alias")
    return alias is not None and bool(alias.args.get("columns"))


def _conditions(table: exp.Table, select: exp.Select) -> Iterator[exp.Expr]:
    """The conditions that every row of the table meets if it contributes to the SELECT."""
    where = select.args.get("where")
    if where is not None:
        yield from _conjuncts(where.this)
    for join in select.args.get("joins") or ():
        is_inner = not join.side and join.kind in ("", "INNER", "CROSS")
        if join.args.get("on") is not None and (is_inner or (join.side == "LEFT" and join.this is table)):
            yield from _conjuncts(join.args["on"])


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    inner = condition.unnest()
    if isinstance(inner, exp.And):
        yield from _conjuncts(inner.this)
        yield from _conjuncts(inner.expression)
    else:
        yield inner


def _bounds(
    condition: exp.Expr, is_end: Callable[[exp.Expr], bool], constant: Callable[[exp.Expr], str | None]
) -> Iterator[EndBound]:
    sides: list[tuple[type[exp.Expr], exp.Expr]]
    if isinstance(condition, exp.Between) and is_end(condition.this.unnest()):
        sides = [(exp.GTE, condition.args["low"]), (exp.LTE, condition.args["high"])]
    elif type(condition) in _FLIPPED and is_end(condition.this.unnest()):
        sides = [(type(condition), condition.expression)]
    elif type(condition) in _FLIPPED and is_end(condition.expression.unnest()):
        sides = [(_FLIPPED[type(condition)], condition.this)]
    else:
        return
    for operator, node in sides:
        text = constant(node)
        if text is not None:
            yield EndBound(operator, text)


def _constant(node: exp.Expr, known: Mapping[str, exp.Expr]) -> str | None:
    """The expression as text, with known window ends put in; None if it is not constant."""

    def put_in(part: exp.Expr) -> exp.Expr:
        is_end = isinstance(part, exp.Column) and part.name.lower() == WINDOW_END
        return known[part.text("table").lower()].copy() if is_end and part.text("table").lower() in known else part

    tree = node.copy().transform(put_in)
    return None if tree.find(*_NOT_CONSTANT) else expression_text(tree)
