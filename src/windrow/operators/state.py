"""The state of a plan: the tables of its operators, and their durable parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from windrow.operators.group_by import CELLS
from windrow.operators.grouping.calls import LEAVE as CELL_LEAVE
from windrow.operators.grouping.calls import calls_of
from windrow.operators.grouping.cells import merged
from windrow.operators.layouts import choosing
from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.live import LEAVE, live_calendar, live_table
from windrow.operators.layouts.parts import Layout, LayoutUse, StatePart
from windrow.operators.layouts.queue import RowQueue
from windrow.operators.layouts.row_list import RowList
from windrow.operators.layouts.steps import StateTable
from windrow.operators.negation.rows_window import COUNTED, partition_keys, ring_keys
from windrow.operators.negation.set_operation import LEAVING, empty_leaving
from windrow.operators.scan import window_of
from windrow.operators.strategies.direct_distinct import CAME
from windrow.operators.strict.distinct import LIVE
from windrow.operators.strict.group_by import ROWS, read_columns
from windrow.operators.tables.memo import by_identity
from windrow.operators.ticks import EXP
from windrow.operators.top_rows import SHOWN
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Expiring,
    GroupBy,
    Join,
    Node,
    NrrJoin,
    OuterJoin,
    OutputRows,
    OutputWindow,
    PlanColumn,
    RowsWindow,
    SemiJoin,
    SetOperation,
    Streaming,
    StreamWindow,
    TableScan,
    TopRows,
    ToStream,
    WindowExpiry,
    walk,
)

ROOT, OUTPUT = "0", "out"
"""The paths of the root and of explicit expiry. The inputs of the node at path p are at p.0, p.1, …"""

SHARE = 20
"""A calendar's interval is this part of the shortest window below, so nothing outlives its expiry by more."""


@dataclass(frozen=True)
class PlanState:
    """What the operators of a plan keep after a tick, by path. It is never changed; a batch makes another.

    `ticked` None: no tick has been processed.
    """

    tables: Mapping[str, StateTable] = field(default_factory=dict)
    ticked: int | None = None

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables.values())

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Rows and bytes by path."""
        return {path: (table.count, table.nbytes) for path, table in self.tables.items()}

    @property
    def layouts(self) -> dict[str, LayoutUse]:
        """By path, how rows are kept whose layout depends on what leaves."""
        found = dict[str, LayoutUse]()
        for path, table in self.tables.items():
            if table.departures is not None:
                is_table = table.layout is Layout.KEYED
                found[path] = LayoutUse(int(not is_table), int(is_table), table.departures)
        return found

    def skipped_to(self, ticked: int) -> PlanState:
        """The state after ticks at which nothing is there."""
        return replace(self, ticked=ticked)


def restore(
    plan: ContinuousPlan, parts: Iterable[StatePart], ticked: int, before: PlanState | None = None
) -> PlanState:
    """The state after the tick, from all parts in the order in which they were made, or from those of `compacted` and
    what followed. Parts that have expired may be missing. With `before`, from those that followed this state."""
    empty = empty_tables(plan)
    tables: dict[str, StateTable] = {} if before is None else dict(before.tables)
    for part in parts:
        if not part.is_expired(ticked):
            table = tables.get(part.path) or choosing.begun(empty[part.path], part)
            if choosing.is_chosen(table):  # parts of several ranges may differ in layout
                part = choosing.in_layout(part, table.layout)
            tables[part.path] = table.appended(part.rows)
    return PlanState({path: table.settled(ticked) for path, table in tables.items()}, ticked)


def compacted(state: PlanState) -> list[StatePart]:
    """Parts that replace all earlier ones."""
    if state.ticked is None:
        return []
    return [part for path, table in state.tables.items() for part in table.parts(path, state.ticked)]


def relaid(plan: ContinuousPlan, path: str, table: StateTable, ticked: int) -> StateTable:
    """A table of the state after a tick in the layout that suits what has left it, and without rows that are gone.
    Durable parts do not tell of a change, so all of them are written anew."""
    empty = empty_tables(plan)[path]
    table = choosing.relaid(table, empty, ticked) if isinstance(empty, Calendar) else table
    return table.packed() if isinstance(table, Keyed) else table


@by_identity
def empty_tables(plan: ContinuousPlan) -> dict[str, StateTable]:
    """The empty tables of every operator that keeps something, by path."""
    found: dict[str, StateTable] = {OUTPUT: live(plan.root)}
    _collect(plan.root, ROOT, found)
    return found if not is_direct(plan.root) else {path: _listed(path, table) for path, table in found.items()}


def _listed(path: str, table: StateTable) -> StateTable:
    """The same state as a list. A join tests lifetimes itself, so its lists are scanned only now and then."""
    lazy = path.endswith("/old")
    return RowList(table.by, table.width if lazy else 0) if isinstance(table, Calendar) else table


def _collect(node: Node, path: str, found: dict[str, StateTable]) -> None:
    for i, one in enumerate(node.inputs):
        _collect(one, f"{path}.{i}", found)
        if isinstance(node, Join) and window_of(one) is None and i not in node.reused:
            found[f"{path}.{i}/old"] = live(one) if is_strict(one) else Calendar(EXP, interval(one))
        elif isinstance(node, SemiJoin | OuterJoin) and window_of(one) is None:
            found[f"{path}.{i}/old"] = live(one)
    if isinstance(node, Distinct):
        if is_direct(node):
            found[path] = found[path + CAME] = RowList(LEAVE)
        else:
            found[path] = Keyed(tuple(column.sql for column in node.schema))
        if is_strict(node) and has_ends(node.input):
            found[path + LIVE] = live(node.input)
    elif isinstance(node, GroupBy):
        calls = calls_of(node)
        found[path] = Keyed(tuple(calls.key_names))
        if reads_live_rows(node):
            found[path + ROWS] = live(node.input, read_columns(node))
        else:
            found[path + CELLS] = Calendar(CELL_LEAVE, interval(node), partial(merged, calls))
    elif isinstance(node, SetOperation):
        found[path] = Keyed(tuple(column.sql for column in node.schema))
        found[path + LEAVING] = empty_leaving(node, interval(node))
    elif isinstance(node, RowsWindow | OutputRows):
        found[path] = Keyed(ring_keys(node))
        found[path + COUNTED] = Keyed(partition_keys(node))
    elif isinstance(node, OutputWindow):
        found[path] = RowQueue()
    elif isinstance(node, WindowExpiry) and node.how is Expiring.NEGATIVE:
        found[path] = Calendar(LEAVE, interval(node))
    elif isinstance(node, TopRows):
        found[path] = live(node.input)
        found[path + SHOWN] = Keyed(tuple(column.sql for column in node.schema))
    elif isinstance(node, ToStream) and keeps_live_rows(node):
        found[path] = live(node.input)


def live(node: Node, columns: tuple[PlanColumn, ...] | None = None) -> StateTable:
    """The empty state of a node's live rows (`layouts/live.py`), or of some columns: a table by value if each row that
    goes is withdrawn, else a calendar; if rows may do either, what leaves decides whether it stays one."""
    columns = node.schema if columns is None else columns
    if is_strict(node) and not has_ends(node):
        return live_table(columns)
    return live_calendar(columns, interval(node), may_change=is_strict(node))


def keeps_live_rows(node: ToStream) -> bool:
    """Whether a stream must know which rows are alive: all of them, or which leave without being withdrawn."""
    return node.kind is Streaming.RSTREAM or not is_strict(node.input) or has_ends(node.input)


def reads_live_rows(node: GroupBy) -> bool:
    """Whether a group-by keeps the rows that are alive, rather than cells: what is withdrawn cannot be subtracted."""
    return is_strict(node.input) and not calls_of(node).is_running


def interval(node: Node) -> int:
    """The width of the intervals of calendars over a node."""
    windows = [one.lifetime for one in walk(node) if isinstance(one, StreamWindow | OutputWindow)]
    return max(1, min((one.range for one in windows if one.range is not None), default=1 << 40) // SHARE)


def is_internal(node: Node) -> bool:
    """Whether a window whose contents the node sees is INTERNAL. A window on a sub-query hides those inside it."""
    if isinstance(node, StreamWindow | OutputWindow):
        return node.lifetime.internal
    if isinstance(node, NrrJoin):
        return is_internal(node.input)
    return not isinstance(node, ToStream | OutputRows) and any(is_internal(one) for one in node.inputs)


@by_identity
def has_internal(plan: ContinuousPlan) -> bool:
    """Whether any window of the plan is INTERNAL, so that rows leave the output later than the state."""
    windows = (one for one in walk(plan.root) if isinstance(one, StreamWindow | OutputWindow))
    return any(one.lifetime.internal for one in windows)


@by_identity
def is_direct(node: Node) -> bool:
    """Whether a node is in a plan that is run by the direct approach."""
    return any(isinstance(one, WindowExpiry) and one.how is Expiring.DIRECT for one in walk(node))


def is_strict(node: Node) -> bool:
    """Whether a node's output is strict: what it adds and withdraws at ticks, rather than lifetimes."""
    if isinstance(node, WindowExpiry):
        return node.how is Expiring.NEGATIVE
    if isinstance(node, GroupBy):
        return not is_internal(node)
    if isinstance(node, TopRows | RowsWindow | OutputRows | SemiJoin | OuterJoin | SetOperation | TableScan):
        return True
    if isinstance(node, NrrJoin):
        return False
    if isinstance(node, StreamWindow | ToStream):
        return False
    return any(is_strict(one) for one in node.inputs)


def has_ends(node: Node) -> bool:
    """Whether a row of a node's output may have a predicted end; those of some operators are withdrawn, or stay."""
    if isinstance(node, StreamWindow | OutputWindow):
        return node.lifetime.range is not None
    if isinstance(node, GroupBy | TopRows | ToStream | RowsWindow | OutputRows | SetOperation | TableScan):
        return False
    if isinstance(node, WindowExpiry) and node.how is Expiring.NEGATIVE:
        return False
    if isinstance(node, SemiJoin):
        return has_ends(node.left)
    if isinstance(node, NrrJoin):
        return has_ends(node.input)
    if isinstance(node, Distinct) and is_strict(node.input):
        return False
    return any(has_ends(one) for one in node.inputs)
