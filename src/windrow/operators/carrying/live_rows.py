"""The rows of a sub-plan's output that are alive after a tick, from its state: what an operator above would have kept
of it, had it been there. Only a stream (ISTREAM and the like) and a window over one tell nothing of what came before.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.operators.changes import BORN, END, HEAD
from windrow.operators.distinct import distinct_schema
from windrow.operators.grouping.calls import calls_of
from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.live import alive, live_schema
from windrow.operators.layouts.steps import StateTable
from windrow.operators.negation.rows_window import ring_schema
from windrow.operators.negation.set_operation import SIDES, counts_schema, shown_times
from windrow.operators.scan import table_of, window_of
from windrow.operators.state import PlanState, is_strict
from windrow.operators.tables.edges import COUNT, STRICT, TICK, Edge, strict_schema
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import EXP, NEVER, TS, Points
from windrow.operators.top_rows import SHOWN
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    GroupBy,
    Join,
    Node,
    NrrJoin,
    OuterJoin,
    OutputRows,
    RowsWindow,
    SemiJoin,
    SetOperation,
    TopRows,
)
from windrow.plan.algebra.rewriting import text_of

NO_KEYS = frozenset[str]()


def live_rows(
    plan: ContinuousPlan, state: PlanState, node: Node, path: str, ticked: int, keys: frozenset[str] = NO_KEYS
) -> Edge | None:
    """The output of a node of the plan that is alive after the tick; None if its state does not tell it, but that of
    its inputs may. Rows that end at the tick itself may be missing: no later tick sees them. `keys`: expressions over
    the node's columns; rows for which one of them is NULL are not needed."""
    above, _ = above_of(plan.root, path)
    table = state.tables.get(f"{path}/old")
    if above is not None and _remembers(above, node) and joined_on(plan.root, path) <= keys:
        return _remembered(node, table, ticked)
    found = state.tables.get(path)
    if isinstance(node, GroupBy):
        return _keyed(node, found, calls_of(node).group_schema, ticked)
    if isinstance(node, RowsWindow | OutputRows):
        return last_rows(node, found, ticked)
    if isinstance(node, Distinct):
        return _distinct(node, found, ticked)
    if isinstance(node, SetOperation):
        return _counted(node, found, ticked)
    if isinstance(node, TopRows):
        shown = state.tables.get(path + SHOWN)
        return _keyed(node, shown, pa.schema([(COUNT, pa.int64()), *_columns(node)]), ticked)
    return None


def last_rows(node: RowsWindow | OutputRows, ring: StateTable | None, ticked: int) -> Edge:
    """The rows of a count-based window, from its ring."""
    return _keyed(node, ring, ring_schema(node), ticked)


def from_answer(node: Node, answer: pa.Table, ticked: int) -> Edge:
    """The output of a plan's root from its answer, as stored changes."""
    values = answer.select(range(len(HEAD), answer.num_columns)).rename_columns([one.sql for one in node.schema])
    births, ends = longs(answer.column(BORN)), longs(pc.fill_null(answer.column(END), NEVER))
    return _edge(node, values, np.ones(answer.num_rows, np.int64), births, ends, ticked)


def above_of(root: Node, path: str) -> tuple[Node | None, int]:
    """The node whose input is at a path, and which of its inputs that is."""
    found, node, at = None, root, 0
    for step in path.split(".")[1:]:
        found, at = node, int(step)
        node = node.inputs[at]
    return found, at


def joined_on(root: Node, path: str) -> frozenset[str]:
    """The keys on which the node at a path is joined, if the join keeps only those of its rows that have them all: it
    is an inner join, and the node's output is strict."""
    above, at = above_of(root, path)
    if not isinstance(above, Join) or not is_strict(above.inputs[at]):
        return NO_KEYS
    return frozenset(text_of(key[at]) for key in above.keys)


def _remembers(above: Node, node: Node) -> bool:
    """Whether an operator keeps the live rows of this input. A join that reads the state of DISTINCT does not."""
    if isinstance(above, NrrJoin):
        return node is above.table and table_of(node) is None
    if isinstance(above, Join) and any(above.inputs[i] is node for i in above.reused):
        return False
    return isinstance(above, Join | SemiJoin | OuterJoin) and window_of(node) is None


def _remembered(node: Node, table: StateTable | None, ticked: int) -> Edge:
    if isinstance(table, Calendar) and table.by == EXP:
        rows = table.rows(ticked - 1, _lifetimes(node))
        births, ends = longs(rows.column(TS)), longs(rows.column(EXP))
        return _edge(node, rows, np.ones(rows.num_rows, np.int64), births, ends, ticked)
    schema = live_schema(node.schema)
    rows = schema.empty_table() if table is None else alive(table, ticked, schema)
    births = np.full(rows.num_rows, ticked - 1, np.int64)
    return _edge(node, rows, longs(rows.column(COUNT)), births, longs(rows.column(EXP)), ticked)


def _keyed(node: Node, table: StateTable | None, schema: pa.Schema, ticked: int) -> Edge:
    """Rows that are there until they are withdrawn, as often as COUNT says."""
    assert table is None or isinstance(table, Keyed)
    rows = schema.empty_table() if table is None else table.rows(schema)
    counts = longs(rows.column(COUNT)) if COUNT in schema.names else np.ones(rows.num_rows, np.int64)
    return _withdrawable(node, rows, counts, ticked)


def _distinct(node: Distinct, table: StateTable | None, ticked: int) -> Edge:
    assert table is None or isinstance(table, Keyed)
    if is_strict(node):
        schema = pa.schema([(COUNT, pa.int64()), *_columns(node)])
        rows = schema.empty_table() if table is None else table.rows(schema)
        return _withdrawable(node, rows, np.ones(rows.num_rows, np.int64), ticked)
    rows = distinct_schema(node).empty_table() if table is None else table.rows(distinct_schema(node))
    births = np.full(rows.num_rows, ticked - 1, np.int64)
    return _edge(node, rows, np.ones(rows.num_rows, np.int64), births, longs(rows.column(EXP)), ticked)


def _counted(node: SetOperation, table: StateTable | None, ticked: int) -> Edge:
    assert table is None or isinstance(table, Keyed)
    rows = counts_schema(node).empty_table() if table is None else table.rows(counts_schema(node))
    return _withdrawable(node, rows, shown_times(node, *(longs(rows.column(side)) for side in SIDES)), ticked)


def _withdrawable(node: Node, rows: pa.Table, counts: Points, ticked: int) -> Edge:
    births, ends = np.full(rows.num_rows, ticked - 1, np.int64), np.full(rows.num_rows, NEVER, np.int64)
    return _edge(node, rows, counts, births, ends, ticked)


def _edge(node: Node, rows: pa.Table, counts: Points, births: Points, ends: Points, ticked: int) -> Edge:
    """Live rows in the form that the node's output has. What is strict comes at the tick."""
    kept = np.flatnonzero((counts > 0) & (ends >= ticked))
    values = {column.sql: taken(rows, kept).column(column.sql) for column in node.schema}
    head = {TS: births[kept], EXP: ends[kept]}
    if not is_strict(node):
        return Edge(pa.table({**head, **values}, schema=_lifetimes(node)), node.schema)
    strict = {TICK: np.full(kept.size, ticked, np.int64), COUNT: counts[kept], **head}
    ordered = {name: strict[name] for name in STRICT}
    return Edge(pa.table({**ordered, **values}, schema=strict_schema(node.schema)), node.schema, is_strict=True)


def _lifetimes(node: Node) -> pa.Schema:
    return pa.schema([(TS, pa.int64()), (EXP, pa.int64()), *_columns(node)])


def _columns(node: Node) -> list[tuple[str, pa.DataType]]:
    return [(column.sql, column.type.arrow) for column in node.schema]
