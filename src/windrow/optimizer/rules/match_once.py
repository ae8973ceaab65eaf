"""Match once: a semi-join or an anti-join looks at one row per value of its right input.

The rule replaces L ⋉ R by L ⋉ δ(π R), where π keeps the columns of R that keys and condition read; the same with ▷.

*Why every answer is the same.* A row of L is shown at tick b if R(b) has a match for it (has none). Whether a row of R
matches depends on its values in these columns alone, and δ(π R)(b) has the same values as R(b), each once.

*Why it may be cheaper.* A semi-join looks at all right rows with the keys of what comes and goes. If a value has many
rows, these are many, although all but the one that lives longest say nothing; δ* keeps two ends per value (the
frequency counts of Golab and Özsu, section 5.4.1, without the counts). It costs a lookup per right row, so the rule is
used where the cost model says that the plan becomes cheaper.

*Not done* where the right input is STR (δ* needs predictable ends, and rows that may be withdrawn are counted by value
anyway) or has an INTERNAL window; where its rows differ already; and where a column is FLOAT or DOUBLE (δ shows −0.0 or
0.0 for both, and a condition may tell them apart). With `execution = 'negative'` it is off: all rows may be withdrawn.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from windrow.optimizer.cost import LEAST_GAIN, plan_cost
from windrow.optimizer.facts import Facts
from windrow.patterns import UpdatePattern, annotate
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Node,
    OutputWindow,
    PlanColumn,
    SemiJoin,
    StreamWindow,
    columns_in,
    walk,
)
from windrow.plan.algebra.rewriting import projected, rewritten
from windrow.types import number_text


def match_once(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    reasons: list[str] = []
    cost = None
    # From above: what is below a changed node stays as it is.
    for node in reversed([one for one in walk(plan.root) if isinstance(one, SemiJoin)]):
        changed = _matched_once(node)
        if changed is None:
            continue
        cost = plan_cost(plan, facts).total if cost is None else cost
        other = replace(plan, root=rewritten(plan.root, partial(_exchanged, node, changed)))
        cheaper = plan_cost(other, facts).total
        if cheaper < LEAST_GAIN * cost:
            names = ", ".join(column.name for column in _asked(node))
            reasons.append(f"one row per {names} is enough (estimated {number_text(cost / cheaper)} times cheaper)")
            plan, cost = other, cheaper
    return plan, "; ".join(reasons) or None


def _matched_once(node: SemiJoin) -> SemiJoin | None:
    """The semi-join over one row per value; None if that is not the same, or nothing new."""
    columns, right = _asked(node), node.right
    if not columns or isinstance(right, Distinct) or any(column.type.is_float for column in columns):
        return None
    if any(isinstance(one, StreamWindow | OutputWindow) and one.lifetime.internal for one in walk(right)):
        return None
    if annotate(right).state is UpdatePattern.STR:
        return None
    return replace(node, right=Distinct(projected(right, columns)))


def _asked(node: SemiJoin) -> tuple[PlanColumn, ...]:
    """The columns of the right input that keys and condition read."""
    read = frozenset[str]() if node.condition is None else columns_in(node.condition)
    read = read.union(*(columns_in(key[1]) for key in node.keys))
    return tuple(column for column in node.right.schema if column.sql in read)


def _exchanged(old: Node, new: Node, node: Node) -> Node:
    return new if node is old else node
