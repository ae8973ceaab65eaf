"""What every continuous plan must satisfy, before and after every rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from windrow.cql.final.sql import finalize
from windrow.errors import ExecutionError, FunctionError
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    PlanColumn,
    Project,
    SemiJoin,
    SetOperation,
    TableScan,
    Window,
    columns_in,
    walk,
)
from windrow.plan.algebra.rewriting import is_passed, names_of, reads, types_of
from windrow.types import SqlType

BOOLEAN = SqlType("BOOLEAN")


class BrokenPlanError(ExecutionError):
    """A plan breaks an invariant: a defect of the binder or of the rule that it names, not of the query."""

    def __init__(self, what: str, node: Node, rule: str | None):
        maker = f"the rule {rule}" if rule else "the binder"
        super().__init__(
            f"{maker} made a plan that is not valid: {what}, in {type(node).__name__}",
            remedy=f"This is a defect of Windrow. SET disabled_rules = '{rule}' avoids it."
            if rule
            else "This is a defect of Windrow. Please report the query.",
        )
        self.node = node
        self.rule = rule


def check(plan: ContinuousPlan | Node, rule: str | None = None) -> None:
    """Raise BrokenPlanError, naming the rule that made the plan, unless all of this holds:

    an expression reads columns of its node's inputs only; an id is produced once; a column that is handed on keeps its
    type; predicates are Boolean and the keys of a join are of one type, as far as their types are known here.
    """
    root = plan.root if isinstance(plan, ContinuousPlan) else plan
    producers: dict[int, Node] = {}
    for node in walk(root):
        for what in (*_wrong(node), *_produced_twice(node, producers)):
            raise BrokenPlanError(what, node, rule)
    if isinstance(plan, ContinuousPlan):
        read = {name for one in plan.order for name in columns_in(one.expression)}
        for name in sorted(read - names_of(root)):
            raise BrokenPlanError(f"ORDER BY reads {name}, which the plan does not have", root, rule)


def check_kept(before: ContinuousPlan, after: ContinuousPlan, rule: str) -> None:
    """Raise BrokenPlanError if a rule changed what the plan shows or when it ticks."""
    if before.schema != after.schema:
        raise BrokenPlanError("the output has other columns", after.root, rule)
    if (before.point, before.step, before.origin, before.order) != (after.point, after.step, after.origin, after.order):
        raise BrokenPlanError("the ticks or the order of the view changed", after.root, rule)
    if set(before.streams) != set(after.streams):
        raise BrokenPlanError("it reads other streams", after.root, rule)


def _wrong(node: Node) -> Iterator[str]:
    here = [column.id for column in node.schema]
    if len(set(here)) < len(here):
        yield f"a column occurs twice in {_listed(node.schema)}"
    if node.inputs:
        unknown = reads(node) - frozenset(name for one in node.inputs for name in names_of(one))
        if unknown:
            yield f"it reads {', '.join(sorted(unknown))}, which its input does not have"
        else:
            yield from _ill_typed(node)


def _ill_typed(node: Node) -> Iterator[str]:
    types = types_of(node.inputs)
    if isinstance(node, Filter):
        yield from _not_boolean(node.predicate, types)
    elif isinstance(node, Join | SemiJoin | OuterJoin | NrrJoin):
        if node.condition is not None:
            yield from _not_boolean(node.condition, types)
        for key in node.keys:
            for one, side in zip(key, node.inputs, strict=True):
                if not columns_in(one) <= names_of(side):
                    yield f"the key {one.sql()} reads another input than its own"
            known = {kind for kind in (type_in(one, types) for one in key) if kind is not None}
            if len(known) > 1:
                yield f"a key {' = '.join(one.sql() for one in key)} has the types {', '.join(sorted(map(str, known)))}"
    elif isinstance(node, Project):
        for made in node.columns:
            if made.is_renamed and types[made.expression.name] != made.column.type:
                yield f"{made.column.sql} has another type than {made.expression.name}, which it is"


def _not_boolean(predicate: exp.Expr, types: dict[str, SqlType]) -> Iterator[str]:
    kind = type_in(predicate, types)
    if kind is not None and kind not in (BOOLEAN, SqlType("VOID")):
        yield f"the predicate {predicate.sql()} is {kind}"


def type_in(expression: exp.Expr, types: dict[str, SqlType]) -> SqlType | None:
    """The Spark type of an expression over typed columns; None if DuckDB cannot compute it, where only Spark knows."""
    if isinstance(expression, exp.Column):
        return types.get(expression.name)
    try:
        return finalize(expression, types).type
    except (FunctionError, ValueError):
        return None


def _produced_twice(node: Node, producers: dict[int, Node]) -> Iterator[str]:
    for column in _produced(node):
        if producers.setdefault(column.id, node) is not node:
            yield f"{column.sql} ({column.name}) is produced twice"


def _produced(node: Node) -> Iterable[PlanColumn]:
    """The columns that do not come from below."""
    if isinstance(node, Window | MergeUnion | SetOperation | TableScan):
        return node.schema
    if isinstance(node, Project):
        return [one.column for one in node.columns if not is_passed(one)]
    if isinstance(node, GroupBy):
        return [one.column for one in node.aggregates]
    return ()


def _listed(columns: Iterable[PlanColumn]) -> str:
    return ", ".join(f"{column.sql} ({column.name})" for column in columns)
