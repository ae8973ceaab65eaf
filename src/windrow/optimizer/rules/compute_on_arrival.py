"""Compute on arrival: an expression over one window's columns is computed once, by Spark, when the tuple is stored.

The window then holds the value instead of what it is computed from (`push_projections` drops that), and DuckDB need not
know the function. An expression over several inputs is taken apart: its largest parts over one window are computed on
arrival.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from windrow.optimizer.facts import Facts
from windrow.plan.algebra.invariants import type_in
from windrow.plan.algebra.nodes import (
    Computed,
    ContinuousPlan,
    Filter,
    GroupBy,
    Join,
    Node,
    OuterJoin,
    OutputWindow,
    PlanColumn,
    Project,
    SemiJoin,
    StreamColumn,
    Window,
    columns_in,
)
from windrow.plan.algebra.rewriting import (
    expressions_of,
    names_of,
    next_id,
    parsed,
    passed,
    projected,
    reference,
    rewritten,
    substituted,
    text_of,
    types_of,
    with_inputs,
    with_texts,
)
from windrow.plan.continuous.expressions import is_value
from windrow.types import SqlType


def compute_on_arrival(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    writer = _Writer(next_id(plan.root))
    root = rewritten(plan.root, writer.change)
    if not writer.computed:
        return plan, None
    return replace(plan, root=root), f"Spark computes {', '.join(dict.fromkeys(writer.computed))} when tuples arrive"


@dataclass
class _Inputs:
    """The inputs of a node, which get columns."""

    nodes: list[Node]


class _Writer:
    def __init__(self, next_id: int):
        self.next_id = next_id
        self.computed: list[str] = []

    def change(self, node: Node) -> Node:
        if isinstance(node, Project):
            return self._project(node)
        if isinstance(node, Join | SemiJoin | OuterJoin):
            return self._join(node)
        return self._group_by(node) if isinstance(node, GroupBy) else node

    def _project(self, node: Project) -> Node:
        inputs = _Inputs([node.input])
        columns = tuple(
            replace(one, expression=self._moved(one.expression, inputs, one.column.type)) for one in node.columns
        )
        return node if columns == node.columns else Project(inputs.nodes[0], columns)

    def _join(self, node: Join | SemiJoin | OuterJoin) -> Node:
        inputs = _Inputs(list(node.inputs))
        keys = tuple(tuple(self._moved(one, inputs) for one in key) for key in node.keys)
        condition = None if node.condition is None else self._moved(node.condition, inputs)
        if (keys, condition) == (node.keys, node.condition):
            return node
        changed: Any = with_inputs(node, inputs.nodes)
        return projected(replace(changed, keys=keys, condition=condition), node.schema)

    def _group_by(self, node: GroupBy) -> Node:
        inputs = _Inputs([node.input])

        def change(text: str, kind: SqlType) -> str:
            tree = parsed(text)
            moved = self._moved(tree, inputs, kind)
            return text if moved is tree else text_of(moved)

        aggregates = tuple(replace(one, call=with_texts(one.call, change)) for one in node.aggregates)
        return node if aggregates == node.aggregates else GroupBy(inputs.nodes[0], node.keys, aggregates)

    def _moved(self, expression: exp.Expr, inputs: _Inputs, kind: SqlType | None = None) -> exp.Expr:
        """The expression with its largest parts over one window replaced by columns of that window."""
        read = columns_in(expression)
        if not read or isinstance(expression, exp.Column):
            return expression
        for i, node in enumerate(inputs.nodes if is_value(expression) else ()):
            known = kind if read <= names_of(node) else None
            if read <= names_of(node) and known is None:
                known = type_in(expression, types_of([node]))
            found = None if known is None or known.name == "VOID" else self._sunk(node, expression, known)
            if found is not None:
                inputs.nodes[i], column = found
                return reference(column)
        return self._parts_moved(expression, inputs)

    def _parts_moved(self, expression: exp.Expr, inputs: _Inputs) -> exp.Expr:
        tree = expression.copy()
        changed = False
        for child in list(tree.iter_expressions()):
            moved = self._moved(child, inputs)
            if moved is not child:
                child.replace(moved)
                changed = True
        return tree if changed else expression

    def _sunk(self, node: Node, expression: exp.Expr, kind: SqlType) -> tuple[Node, PlanColumn] | None:
        """The node with one more column, the value of an expression over its columns; None if no window gives it."""
        if isinstance(node, Window):
            return self._in_window(node, expression, kind)
        if isinstance(node, Filter | OutputWindow):
            found = self._sunk(node.input, expression, kind)
            return None if found is None else (with_inputs(node, [found[0]]), found[1])
        if isinstance(node, Project):
            return self._through(node, expression, kind)
        if isinstance(node, Join | SemiJoin | OuterJoin):
            for i, one in enumerate(node.inputs):
                if columns_in(expression) <= names_of(one) and not _is_padded(node, i):
                    found = self._sunk(one, expression, kind)
                    if found is not None:
                        return with_inputs(node, [*node.inputs[:i], found[0], *node.inputs[i + 1 :]]), found[1]
        return None

    def _in_window(self, node: Window, expression: exp.Expr, kind: SqlType) -> tuple[Node, PlanColumn]:
        sql = text_of(substituted(expression, {one.column.sql: parsed(one.sql) for one in node.columns}))
        self.computed.append(sql)
        for one in node.columns:
            if one.sql == sql and one.column.type == kind:
                return node, one.column
        column = PlanColumn(self.next_id, sql, kind)
        self.next_id += 1
        return replace(node, columns=(*node.columns, StreamColumn(column, sql))), column

    def _through(self, node: Project, expression: exp.Expr, kind: SqlType) -> tuple[Node, PlanColumn] | None:
        below = substituted(expression, expressions_of(node))
        if isinstance(below, exp.Column):
            inner, column = node.input, next(one for one in node.input.schema if one.sql == below.name)
        else:
            found = self._sunk(node.input, below, kind)
            if found is None:
                return None
            inner, column = found
        has = any(one.column == column for one in node.columns)
        columns: tuple[Computed, ...] = node.columns if has else (*node.columns, passed(column))
        return Project(inner, columns), column


def _is_padded(node: Join | SemiJoin | OuterJoin, side: int) -> bool:
    """Whether an outer join puts NULL in place of the side's columns; an expression over these need not be NULL."""
    return isinstance(node, OuterJoin) and (node.keeps_right if side == 0 else node.keeps_left)
