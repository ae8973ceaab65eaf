"""Push selections: a condition is tested as early as it can be, at best by Spark when the tuple arrives.

At every tick a selection commutes with projection, merge-union, the inputs of an inner join, DISTINCT, windows over
sub-queries and relation-to-stream operators (which compare rows by value, and σ(R − S) = σ(R) − σ(S)). It passes a
group-by if it reads group keys only; without keys there is always one row, so nothing passes. It never passes LIMIT
or a count-based window, in which every tuple counts. Below the join with a table that is NON RETROACTIVE goes what
reads the other side alone.

Below a semi-join it goes to the left input, whose rows these are; so does what a semi-join's own condition says of left
rows alone, but not that of an anti-join: a row that fails it is kept. What the condition says of right rows alone goes
to the right input. Of an outer join that keeps one side, a selection on that side's columns goes into it, and what the
ON condition says of the other side alone goes into the other. Through a FULL OUTER JOIN nothing passes.

DISTINCT, group-by and set operations take −0.0 and 0.0 for one value and show either. A condition on a FLOAT or DOUBLE
passes them only if it is built of comparisons, which do not tell the two apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from windrow.optimizer.facts import Facts
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    OutputWindow,
    Project,
    SemiJoin,
    SetOperation,
    StreamWindow,
    ToStream,
    Window,
    columns_in,
    walk,
)
from windrow.plan.algebra.rewriting import (
    conjunction,
    conjuncts,
    expressions_of,
    names_of,
    parsed,
    reference,
    substituted,
    text_of,
    types_of,
    with_inputs,
)

Conditions = Sequence[exp.Expr]


def push_selections(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    root = pushed(plan.root, ())
    if root == plan.root:
        return plan, None
    return replace(plan, root=root), _reason(plan.root, root)


def _reason(before: Node, after: Node) -> str:
    def tested(root: Node) -> dict[int, Window]:
        return dict(enumerate(node for node in walk(root) if isinstance(node, Window)))

    old, new = tested(before), tested(after)
    gained = [window.stream for i, window in new.items() if window.predicate != old[i].predicate]
    if gained:
        return f"conditions are tested when tuples of {', '.join(dict.fromkeys(gained))} arrive"
    return "conditions are tested below other operators, so that these keep fewer rows"


def pushed(node: Node, conditions: Conditions) -> Node:
    """The rows of the node for which all conditions hold, which are tested as far below it as possible."""
    if isinstance(node, Filter):
        return pushed(node.input, (*conjuncts(node.predicate), *conditions))
    if isinstance(node, StreamWindow):
        return _in_window(node, conditions)
    if isinstance(node, Project):
        values = expressions_of(node)
        return with_inputs(node, [pushed(node.input, [substituted(one, values) for one in conditions])])
    if isinstance(node, Join):
        return _in_join(node, conditions)
    if isinstance(node, SemiJoin):
        return _in_semi_join(node, conditions)
    if isinstance(node, OuterJoin):
        return _in_outer_join(node, conditions)
    if isinstance(node, NrrJoin):
        return _in_nrr_join(node, conditions)
    if isinstance(node, MergeUnion):
        return with_inputs(node, [pushed(one, _renamed(node, one, conditions)) for one in node.inputs])
    if isinstance(node, OutputWindow | ToStream):
        return with_inputs(node, [pushed(node.input, conditions)])
    if isinstance(node, Distinct | GroupBy | SetOperation):
        return _below_groups(node, conditions)
    return _above(with_inputs(node, [pushed(one, ()) for one in node.inputs]), conditions)


def _above(node: Node, conditions: Iterable[exp.Expr]) -> Node:
    predicate = conjunction(conditions)
    return node if predicate is None else Filter(node, predicate)


def _in_window(node: StreamWindow, conditions: Conditions) -> StreamWindow:
    if not conditions:
        return node
    values = {one.column.sql: parsed(one.sql) for one in node.columns}
    own = () if node.predicate is None else (parsed(node.predicate),)
    predicate = conjunction((*own, *(substituted(one, values) for one in conditions)))
    return node if predicate is None else replace(node, predicate=text_of(predicate))


def _in_join(node: Join, conditions: Conditions) -> Join:
    sides: list[list[exp.Expr]] = [[] for _ in node.inputs]
    spanning: list[exp.Expr] = []
    names = [names_of(one) for one in node.inputs]
    for one in conjuncts(conjunction((*conjuncts(node.condition), *conditions))):
        side = next((i for i, own in enumerate(names) if columns_in(one) <= own), None)
        (spanning if side is None else sides[side]).append(one)
    inputs = tuple(pushed(one, own) for one, own in zip(node.inputs, sides, strict=True))
    return Join(inputs, node.keys, conjunction(spanning))


def _in_semi_join(node: SemiJoin, conditions: Conditions) -> SemiJoin:
    left, right, spanning = list(conditions), list[exp.Expr](), list[exp.Expr]()
    for one in conjuncts(node.condition):
        if columns_in(one) <= names_of(node.right):
            right.append(one)
        else:
            (left if not node.is_anti and columns_in(one) <= names_of(node.left) else spanning).append(one)
    return replace(node, left=pushed(node.left, left), right=pushed(node.right, right), condition=conjunction(spanning))


def _in_outer_join(node: OuterJoin, conditions: Conditions) -> Node:
    if node.keeps_left and node.keeps_right:
        return _above(with_inputs(node, [pushed(one, ()) for one in node.inputs]), conditions)
    kept, other = (node.left, node.right) if node.keeps_left else (node.right, node.left)
    into = [one for one in conditions if columns_in(one) <= names_of(kept)]
    tested = [one for one in conjuncts(node.condition) if columns_in(one) <= names_of(other)]
    spanning = conjunction(one for one in conjuncts(node.condition) if one not in tested)
    changed = pushed(kept, into), pushed(other, tested)
    left, right = changed if node.keeps_left else changed[::-1]
    return _above(
        replace(node, left=left, right=right, condition=spanning), [one for one in conditions if one not in into]
    )


def _in_nrr_join(node: NrrJoin, conditions: Conditions) -> Node:
    """What reads columns of the input alone goes there: a result has one row of the input."""
    into = [one for one in conditions if columns_in(one) <= names_of(node.input)]
    return _above(
        with_inputs(node, [pushed(node.input, into), pushed(node.table, ())]),
        [one for one in conditions if one not in into],
    )


def _renamed(node: MergeUnion | SetOperation, side: Node, conditions: Conditions) -> list[exp.Expr]:
    """The conditions over the columns of one input."""
    names = {mine.sql: reference(theirs) for mine, theirs in zip(node.columns, side.schema, strict=True)}
    return [substituted(one, names) for one in conditions]


def _below_groups(node: Distinct | GroupBy | SetOperation, conditions: Conditions) -> Node:
    names = frozenset(key.sql for key in node.keys) if isinstance(node, GroupBy) else names_of(node)
    types = types_of([node])
    below: list[exp.Expr] = []
    above: list[exp.Expr] = []
    for one in conditions:
        read = columns_in(one)
        is_of_groups = bool(read) and read <= names
        exact = not any(types[name].is_float for name in read) or _only_compares(one)
        (below if is_of_groups and exact else above).append(one)
    if isinstance(node, SetOperation):
        inputs = [pushed(one, _renamed(node, one, below)) for one in node.inputs]
    else:
        inputs = [pushed(node.input, below)]
    return _above(with_inputs(node, inputs), above)


def _only_compares(condition: exp.Expr) -> bool:
    """Whether columns stand only at the sides of comparisons and tests for NULL."""
    compared = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.NullSafeEQ, exp.Between, exp.In)
    return all(isinstance(column.parent, compared) for column in condition.find_all(exp.Column))
