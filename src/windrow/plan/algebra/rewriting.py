"""How rules change plans: replace inputs, split and join conditions, substitute columns, take new ids.

Every function returns new nodes and new expressions; nothing that it is given changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp, parse_one

from windrow.cql.dialect import CQL
from windrow.plan.accumulators import Accumulator, AggregateCall
from windrow.plan.algebra.nodes import (
    Computed,
    Distinct,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    PlanColumn,
    Project,
    RowsWindow,
    SemiJoin,
    SetOperation,
    TableScan,
    TopRows,
    Window,
    columns_in,
    walk,
)
from windrow.types import SqlType


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The node over other inputs; the node itself if they are the same objects."""
    if len(inputs) == len(node.inputs) and all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    if isinstance(node, Window | TableScan):
        raise ValueError("a window over a stream and a table have no inputs")
    if isinstance(node, NrrJoin):
        one, table = inputs
        return replace(node, input=one, table=table)
    if isinstance(node, Join | MergeUnion | SetOperation):
        return replace(node, inputs=tuple(inputs))
    if isinstance(node, SemiJoin | OuterJoin):
        left, right = inputs
        return replace(node, left=left, right=right)
    (only,) = inputs
    return replace(node, input=only)


def rewritten(node: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with `change` applied to every node, inputs first."""
    return change(with_inputs(node, [rewritten(one, change) for one in node.inputs]))


# -- columns ---------------------------------------------------------------------------------------


def reference(column: PlanColumn) -> exp.Expr:
    """The expression that reads a column."""
    return exp.column(column.sql)


def passed(column: PlanColumn) -> Computed:
    """A column that a projection hands on under its own id."""
    return Computed(column, reference(column))


def is_passed(one: Computed) -> bool:
    """Whether a projection hands the column on under its own id."""
    return one.is_renamed and one.expression.name == one.column.sql


def projected(node: Node, schema: Iterable[PlanColumn]) -> Node:
    """The node with exactly these of its columns, in this order; without a projection where it has them already."""
    wanted = tuple(schema)
    return node if node.schema == wanted else Project(node, tuple(map(passed, wanted)))


def is_of_window(node: Node, name: str) -> bool:
    """Whether a column above selections, projections and DISTINCT is one of the window below."""
    while isinstance(node, Filter | Project | Distinct):
        if isinstance(node, Project):
            found = next(one for one in node.columns if one.column.sql == name)
            if not found.is_renamed:
                return False
            name = found.expression.name
        node = node.input
    return True


def next_id(*nodes: Node) -> int:
    """An id above all ids in the plans."""
    produced = (column.id for root in nodes for node in walk(root) for column in node.schema)
    return max(produced, default=-1) + 1


def names_of(node: Node) -> frozenset[str]:
    """The columns of a node, as expressions name them."""
    return frozenset(column.sql for column in node.schema)


def types_of(nodes: Iterable[Node]) -> dict[str, SqlType]:
    """The types of all columns of the nodes, by the names that expressions use."""
    return {column.sql: column.type for node in nodes for column in node.schema}


# -- expressions -----------------------------------------------------------------------------------


def parsed(sql: str) -> exp.Expr:
    """The tree of an expression in Spark SQL."""
    return parse_one(sql, dialect=CQL)


def text_of(expression: exp.Expr) -> str:
    """The Spark SQL of an expression."""
    return expression.sql(dialect=CQL)


def conjuncts(expression: exp.Expr | None) -> tuple[exp.Expr, ...]:
    """The conditions that AND connects, without duplicates; none of None."""
    if expression is None:
        return ()
    expression = expression.unnest()
    if isinstance(expression, exp.And):
        return tuple(dict.fromkeys((*conjuncts(expression.left), *conjuncts(expression.right))))
    return (expression,)


def conjunction(parts: Iterable[exp.Expr]) -> exp.Expr | None:
    """All the conditions, by AND; None if there is none. The parts may be conjunctions."""
    flat = tuple(dict.fromkeys(one for part in parts for one in conjuncts(part)))
    return exp.and_(*flat) if flat else None


def substituted(expression: exp.Expr, values: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression with values in place of columns, by the name of the column; other columns stay."""
    if isinstance(expression, exp.Column):
        return values.get(expression.name, expression).copy()
    tree = expression.copy()
    for column in list(tree.find_all(exp.Column)):
        value = values.get(column.name)
        if value is not None:
            column.replace(_operand(value))
    return tree


def _operand(value: exp.Expr) -> exp.Expr:
    """A copy that can stand inside any operator."""
    is_closed = isinstance(value, exp.Column | exp.Literal | exp.Boolean | exp.Null | exp.Paren | exp.Func)
    is_closed = is_closed and not isinstance(value, exp.Connector)
    return value.copy() if is_closed else exp.Paren(this=value.copy())


def expressions_of(project: Project) -> dict[str, exp.Expr]:
    """What the columns of a projection stand for, over the columns of its input."""
    return {one.column.sql: one.expression for one in project.columns}


# -- aggregates ------------------------------------------------------------------------------------


def columns_read(call: AggregateCall) -> frozenset[str]:
    """The columns that the arguments, conditions and counted values of an aggregate read."""
    texts = [text for _, part in call.parts for text in (part.arg, part.condition) if text is not None]
    texts += [value.sql for value in call.values]
    return frozenset(name for text in dict.fromkeys(texts) for name in columns_in(parsed(text)))


def with_texts(call: AggregateCall, change: Callable[[str, SqlType], str]) -> AggregateCall:
    """The aggregate with other texts of its arguments, conditions and counted values, given each with its type."""

    def part(one: Accumulator) -> Accumulator:
        arg = None if one.arg is None or one.type is None else change(one.arg, one.type)
        condition = None if one.condition is None else change(one.condition, SqlType("BOOLEAN"))
        return one if (arg, condition) == (one.arg, one.condition) else replace(one, arg=arg, condition=condition)

    values = tuple(replace(value, sql=change(value.sql, value.type)) for value in call.values)
    return replace(call, parts=tuple((role, part(one)) for role, one in call.parts), values=values)


def reads(node: Node) -> frozenset[str]:
    """The columns of its inputs that a node itself reads, beside those that it hands on. A count-based window reads its
    own columns: those that it is partitioned by."""
    if isinstance(node, Filter):
        return columns_in(node.predicate)
    if isinstance(node, Project):
        return frozenset(name for one in node.columns for name in columns_in(one.expression))
    if isinstance(node, RowsWindow):
        return frozenset(column.sql for column in node.partition)
    if isinstance(node, Join | SemiJoin | OuterJoin | NrrJoin):
        found = [name for key in node.keys for one in key for name in columns_in(one)]
        return frozenset([*found, *(columns_in(node.condition) if node.condition is not None else ())])
    if isinstance(node, GroupBy):
        keys = frozenset(key.sql for key in node.keys)
        return keys.union(*(columns_read(one.call) for one in node.aggregates))
    if isinstance(node, TopRows):
        return frozenset(name for one in node.order for name in columns_in(one.expression))
    return frozenset()
