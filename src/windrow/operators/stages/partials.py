"""Parts of a plan that are evaluated once, run of panes by run of panes: partial results, and how they are merged.

A selection gives its rows, below LIMIT the first of them, below DISTINCT one of each; a group-by gives cells, one per
group and counted value, which are merged by their keys.
What stands above is evaluated over the merged result. Everything else needs all tuples at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.group_by import CellFlow, NewCells, grouped
from windrow.operators.grouping.calls import ENTER, GROUP, LEAVE, calls_of, state_fields
from windrow.operators.grouping.cells import partial_cells, states_of
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.steps import TickBatch
from windrow.operators.projection import project
from windrow.operators.scan import scan
from windrow.operators.selection import select
from windrow.operators.state import ROOT
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.rows import numbered, taken
from windrow.operators.ticks import EXP, NEVER, TS, DueTicks
from windrow.operators.top_rows import first_of
from windrow.plan.algebra.nodes import Distinct, Filter, GroupBy, Node, Project, StreamWindow, TopRows
from windrow.synopses.cells.cells import fold_of, to_columns

LIFETIME = [TS, EXP]


@dataclass(frozen=True)
class PartialPlan:
    """The part of a plan that is evaluated over runs of panes: the node whose output is merged, and its path.
    `above` stands above a selection and needs few of its rows: partial results have those alone."""

    node: Node
    path: str
    above: TopRows | Distinct | None = None

    @property
    def reduces(self) -> bool:
        """Whether a partial result is smaller than the rows that it is of."""
        return isinstance(self.node, GroupBy) or self.above is not None

    @property
    def is_answer(self) -> bool:
        """Whether each row of the partial results is one of the answer."""
        return self.path == ROOT and not self.reduces

    @property
    def window(self) -> StreamWindow:
        """The window that it reads."""
        found = self.node
        while not isinstance(found, StreamWindow):
            (found,) = found.inputs
        return found

    def partial(self, rows: pa.Table, kernel: Kernel) -> pa.Table:
        """The partial result of stored tuples, whose columns are those of `stored_schema`."""
        if isinstance(self.node, GroupBy):
            below = _chain(self.node.input, rows, kernel).rows
            return partial_cells(calls_of(self.node), below, kernel)
        return self._needed(_chain(self.node, rows, kernel).rows.drop_columns(LIFETIME), kernel)

    def merged(self, partials: Sequence[pa.Table], kernel: Kernel) -> pa.Table:
        """Partial results as one, of the same form."""
        if len(partials) == 1:
            return partials[0]
        every = pa.concat_tables(partials)
        return _merged(self.node, every) if isinstance(self.node, GroupBy) else self._needed(every, kernel)

    def _needed(self, rows: pa.Table, kernel: Kernel) -> pa.Table:
        """The rows of a selection of which what is above makes the same as of all."""
        if isinstance(self.above, TopRows):
            return first_of(self.above, rows, kernel)
        if isinstance(self.above, Distinct):
            _, firsts = numbered([rows.column(column.sql) for column in self.above.schema], rows.num_rows)
            return taken(rows, firsts)
        return rows

    def output(self, merged: pa.Table, due: DueTicks, kernel: Kernel) -> Edge:
        """The output of the node at the one due tick, from the merged result."""
        if isinstance(self.node, GroupBy):
            return _grouped(self.node, merged, self.path, due, kernel)
        lifetime = {TS: np.full(merged.num_rows, due.upto - 1), EXP: np.full(merged.num_rows, NEVER)}
        columns = {name: pa.array(points) for name, points in lifetime.items()}
        columns |= {name: merged.column(name) for name in merged.column_names}
        return Edge(pa.table(columns), self.node.schema)


def partial_plan(root: Node, top: TopRows | None = None) -> PartialPlan | None:
    """The part of a plan that is evaluated over runs of panes; None if all tuples are needed at once. The plan reads
    one window of a stream by time. `top`: of its rows, only the first are asked for."""
    node, path = root, ROOT
    above: Node | None = top
    while True:
        if _is_chain(node):
            return PartialPlan(node, path, above if isinstance(above, TopRows | Distinct) else None)
        if isinstance(node, GroupBy) and _is_chain(node.input):
            return PartialPlan(node, path)
        if not isinstance(node, Filter | Project | Distinct | TopRows | GroupBy):
            return None
        node, path, above = node.input, f"{path}.0", node


def _is_chain(node: Node) -> bool:
    """Whether it selects and projects tuples of a window."""
    while isinstance(node, Filter | Project):
        node = node.input
    return isinstance(node, StreamWindow)


def _chain(node: Node, rows: pa.Table, kernel: Kernel) -> Edge:
    if isinstance(node, StreamWindow):
        return scan(node, rows, has_until=False)
    assert isinstance(node, Filter | Project)
    edge = _chain(node.input, rows, kernel)
    return select(node, edge, kernel) if isinstance(node, Filter) else project(node, edge, kernel)


def _merged(node: GroupBy, cells: pa.Table) -> pa.Table:
    """Cells of the same group and values as one."""
    calls = calls_of(node)
    names = [*calls.key_names, *calls.value_names]
    ids, firsts = numbered([cells.column(name) for name in names], cells.num_rows)
    if not names:
        firsts = np.zeros(min(1, cells.num_rows), np.int64)
    columns = {name: cells.column(name).take(pa.array(firsts)) for name in names}
    for a, state in states_of(calls.accumulators, cells).items():
        into = fold_of(a).identity(firsts.size)
        fold_of(a).scatter_into(into, ids, state)
        columns |= to_columns(a, into)
    return pa.table(columns)


def _grouped(node: GroupBy, cells: pa.Table, path: str, due: DueTicks, kernel: Kernel) -> Edge:
    calls = calls_of(node)
    keys = [cells.column(name) for name in calls.key_names]
    ids, firsts = numbered(keys, cells.num_rows)
    if not keys:  # the one group of an ungrouped query, which is there without rows, too
        firsts = np.zeros(1, np.int64)
    of_keys = {name: column.take(pa.array(firsts)) for name, column in zip(calls.key_names, keys, strict=True)}
    points = {LEAVE: np.full(cells.num_rows, NEVER), GROUP: ids, ENTER: np.full(cells.num_rows, due.upto)}
    columns = {name: pa.array(numbers) for name, numbers in points.items()}
    columns |= {name: cells.column(name) for name in calls.value_names}
    columns |= {field.name: cells.column(field.name) for field in state_fields(calls.accumulators)}
    found = pa.table(columns)
    known = pa.table(of_keys) if of_keys else pa.table({"__none": np.zeros(1, np.int8)})
    new = NewCells(found, np.arange(firsts.size), known, np.full(firsts.size, -1, np.int64))
    every = found.select(calls.cell_schema.names)
    flow = CellFlow(new, calls.cell_schema.empty_table(), lambda numbers: every)
    batch = TickBatch(due, kernel, False)
    return grouped(calls, path, Keyed(tuple(calls.key_names)), flow, batch, False).edge
