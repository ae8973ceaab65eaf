"""Reuse DISTINCT: a join reads the earlier rows of an input that is δ* from the state of δ*, instead of keeping them a
second time (Golab and Özsu, sections 5.4.2 and 6.5, Figure 8).

δ* keeps of each value the end of the row that shows it, and of each value one row is alive: so its state before a batch
has exactly the rows that the join would have kept. Their births are missing, but a new result takes its birth from a
part that is new, which is the latest. `push_distinct` puts δ* where this applies.

*Where*: the input is a DISTINCT over a window, perhaps with selections and projections above and between; it is δ*, so
nothing is withdrawn; and a join key is a stored column of every such window and a column of all other inputs. By that
key Spark places the rows of the window, of δ* and of the join, so that a task that joins has the state of δ*, too.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from windrow.optimizer.facts import Facts
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Filter,
    Join,
    Node,
    Project,
    StreamWindow,
    distinct_below,
    walk,
)
from windrow.plan.algebra.rewriting import is_of_window, rewritten


def reuse_distinct(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    reused: list[str] = []

    def change(node: Node) -> Node:
        if not isinstance(node, Join) or not all(_places(node, k) for k in range(len(node.keys))) or not node.keys:
            return node
        found = tuple(i for i, one in enumerate(node.inputs) if _is_delta(one))
        if not found or found == node.reused:
            return node
        reused.extend(_named(node.inputs[i]) for i in found)
        return replace(node, reused=found)

    root = rewritten(plan.root, change)
    if not reused:
        return plan, None
    return replace(plan, root=root), f"the join keeps no rows of DISTINCT over {' and of that over '.join(reused)}"


def _is_delta(node: Node) -> bool:
    """Whether it is δ* over a window."""
    found = distinct_below(node)
    return found is not None and _window_below(found.input) is not None


def _window_below(node: Node) -> StreamWindow | None:
    while isinstance(node, Filter | Project):
        node = node.input
    return node if isinstance(node, StreamWindow) else None


def _places(join: Join, k: int) -> bool:
    """Whether Spark can place the rows of all inputs by the k-th key."""
    return all(_is_placed(one, key) for one, key in zip(join.inputs, join.keys[k], strict=True))


def _is_placed(node: Node, key: exp.Expr) -> bool:
    column = next((one for one in node.schema if isinstance(key, exp.Column) and one.sql == key.name), None)
    if column is None or pa.types.is_nested(column.type.arrow):
        return False
    is_read = _window_below(node) is not None or _is_delta(node)
    return not is_read or is_of_window(node, column.sql)


def _named(node: Node) -> str:
    return " and ".join(one.called for one in walk(node) if isinstance(one, StreamWindow))
