"""ORDER BY and LIMIT, over the output columns of a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from windrow.cql.final.sql import to_duckdb
from windrow.cql.tokens import nearest_place
from windrow.errors import BindError, FunctionError, Place
from windrow.plan.algebra.nodes import PlanColumn, columns_in
from windrow.plan.binder import MAX_LIMIT
from windrow.plan.continuous.inputs import named_column
from windrow.plan.continuous.scope import placed
from windrow.plan.continuous.shape import shown, signed_place
from windrow.plan.nodes import Order
from windrow.plan.trees import replace_children

Canonical = Callable[[exp.Expr], str | None]
"""An expression's text with its names resolved; None if it has names that cannot be resolved."""


class Ordering:
    """Binds ORDER BY to the output columns. `texts` are the resolved texts of their expressions."""

    def __init__(self, outputs: Sequence[PlanColumn], texts: Sequence[str | None], canonical: Canonical, text: str):
        self._outputs = outputs
        self._by_name = {column.name.lower(): column for column in outputs}
        self._by_text = {one: column for one, column in zip(texts, outputs, strict=True) if one is not None}
        self._canonical = canonical
        self._text = text

    def bind(self, order: exp.Expr | None) -> tuple[Order, ...]:
        return tuple(self._term(node) for node in (order.expressions if order is not None else ()))

    def _term(self, node: exp.Expr) -> Order:
        tree = node.this
        if isinstance(tree, exp.Literal) and not tree.is_string:
            lowered: exp.Expr = named_column(self._numbered(tree))
        else:
            lowered = self._rewrite(tree.copy())
        self._check(lowered, tree)
        descending, nulls_first = bool(node.args.get("desc")), node.args.get("nulls_first")
        return Order(lowered, descending, (not descending) if nulls_first is None else bool(nulls_first))

    def _numbered(self, node: exp.Literal) -> PlanColumn:
        number = node.this
        if not number.isdigit() or not 1 <= int(number) <= len(self._outputs):
            columns = "1 column" if len(self._outputs) == 1 else f"{len(self._outputs)} columns"
            raise BindError(
                f"ORDER BY {number}: the select list has {columns}",
                place=self._place(node),
                remedy="Give a number within it, counted from 1, or the name of a column.",
            )
        return self._outputs[int(number) - 1]

    def _rewrite(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Identifier):
            return node
        found = None
        if isinstance(node, exp.Column) and not node.table:
            found = self._by_name.get(node.name.lower())
        found = found or self._by_text.get(self._canonical(node) or "")
        if found is not None:
            return placed(named_column(found), node)
        if isinstance(node, (exp.Column, exp.AggFunc)):
            names = ", ".join(column.name for column in self._outputs)
            raise BindError(
                f"ORDER BY goes by columns of the answer, and {shown(node)} is none of them",
                place=self._place(node),
                remedy=f"Add it to the select list. The answer has: {names}.",
            )
        return replace_children(node, self._rewrite)

    def _check(self, lowered: exp.Expr, origin: exp.Expr) -> None:
        kinds = {column.sql: column.type for column in self._outputs if column.sql in columns_in(lowered)}
        inner = lowered.unnest()
        kind = kinds[inner.name] if isinstance(inner, exp.Column) else None
        if kind is not None and (kind.is_nested or kind.name == "BINARY"):
            raise BindError(
                f"ORDER BY needs a value that has an order, and this is {kind}",
                place=self._place(origin),
                remedy="Order by another column.",
            )
        try:
            to_duckdb(lowered, kinds, self._text)
        except FunctionError as error:
            message = error.message.replace("over aggregates and group keys", "in ORDER BY")
            raise FunctionError(
                message,
                place=error.place or self._place(origin),
                remedy="Compute it in the select list, and order by its alias.",
            ) from None

    def _place(self, node: exp.Expr) -> Place | None:
        return nearest_place(node, self._text)


def limit_of(query: exp.Expr, text: str) -> int | None:
    """The number after LIMIT; None without LIMIT."""
    limit = query.args.get("limit")
    if limit is None:
        return None
    value = limit.expression
    is_whole = isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit()
    if not is_whole or int(value.this) > MAX_LIMIT:
        raise BindError(
            f"LIMIT is a whole number from 0 to {MAX_LIMIT:,}, not {shown(value)}",
            place=signed_place(value, text),
            remedy="For example LIMIT 10, the first ten rows of each tick.",
        )
    return int(value.this)
