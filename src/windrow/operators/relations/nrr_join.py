"""Join with a table that is NON RETROACTIVE (Golab's dissertation, section 3.3.1: ⋈NRR).

    R ⋈ T = {r ∘ t with the lifetime of r : r ∈ R, t ∈ T(the first tick of r), keys equal, condition true}

Only new rows of R look for matches, and only in the version as of their own tick; so nothing of R is kept, and later
changes of T change no result. The input is never strict: a row that is withdrawn would have to withdraw its results,
and the version that it had met may be gone (Golab and Özsu, SIGMOD 2005, section 5.4.2).

A table that statements change is read as it is: all that took effect did so at the first due tick, so all new rows see
the rows of now. The rows of a table that a stream feeds change at any tick; they are kept, as intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.operators.join import column_below, through
from windrow.operators.layouts.live import ENTER, LEAVE, intervals
from windrow.operators.layouts.parts import StatePart
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.relations.table_scan import TableRows, renamed
from windrow.operators.scan import table_of
from windrow.operators.tables.edges import COUNT, Edge, repeated
from windrow.operators.tables.kernel import Kernel, naive, types_of
from windrow.operators.tables.prefilter import maybe_among
from windrow.operators.tables.rows import longs, normal, taken
from windrow.operators.ticks import TS
from windrow.plan.algebra.nodes import Filter, Node, NrrJoin, PlanColumn, Project, TableScan, columns_in

Keys = Sequence[pa.Array]


class TableSide(Protocol):
    """The rows of a table that new rows may meet."""

    def met(self, keys: Sequence[exp.Expr], wanted: Keys, batch: TickBatch) -> pa.Table:
        """The rows with these keys, and perhaps others. With ENTER and LEAVE if they are not there all the time."""

    @property
    def tables(self) -> dict[str, StateTable]: ...

    @property
    def parts(self) -> tuple[StatePart, ...]: ...


@dataclass(frozen=True)
class FromTable:
    """A table that statements change, through selections and projections."""

    node: Node
    table: TableRows | None
    tables: dict[str, StateTable] = field(default_factory=dict)
    parts: tuple[StatePart, ...] = ()

    def met(self, keys: Sequence[exp.Expr], wanted: Keys, batch: TickBatch) -> pa.Table:
        scan = table_of(self.node)
        assert scan is not None
        schema = pa.schema([(one.column.sql, one.column.type.arrow) for one in scan.columns])
        if self.table is None or not self.table.rows.count:
            rows = schema.empty_table()
        else:
            rows = self._found(scan, keys, wanted)
        edge = through(self.node, Edge(rows, scan.schema), batch.kernel)
        return _among(edge, keys, wanted, batch.kernel)

    def _found(self, scan: TableScan, keys: Sequence[exp.Expr], wanted: Keys) -> pa.Table:
        """The rows by key, if the join is on all of the primary key; otherwise all rows."""
        assert self.table is not None
        table, own = self.table.rows, [_own_name(self.node, key) for key in keys]
        by_name = {name: values for name, values in zip(own, wanted, strict=True) if name is not None}
        stored = table.levels[0].rows.schema
        if set(table.keys) <= by_name.keys():
            at = table.find([by_name[name] for name in table.keys], len(wanted[0]))
            return renamed(scan, table.take(np.unique(at[at >= 0]), stored))
        return renamed(scan, table.rows(stored))


@dataclass
class FromChanges:
    """A table that a stream feeds: its strict changes, and the join's own state of its rows."""

    edge: Edge
    path: str
    state: StateTable
    tables: dict[str, StateTable] = field(default_factory=dict)
    parts: tuple[StatePart, ...] = ()

    def met(self, keys: Sequence[exp.Expr], wanted: Keys, batch: TickBatch) -> pa.Table:
        kernel, changing = batch.kernel, self.edge
        own = _keys(changing.rows, changing.schema, keys, kernel)
        either = [pa.concat_arrays([one, other]) for one, other in zip(wanted, own, strict=True)]

        def among(rows: pa.Table) -> pa.Table:
            return _among(Edge(rows, changing.schema), keys, either, kernel)

        found = intervals(changing, self.path, self.state, batch.due, among)
        self.tables, self.parts = found.tables, found.parts
        rows = _among(Edge(found.rows, changing.schema), keys, wanted, kernel)
        return repeated(rows, longs(rows.column(COUNT)))


def nrr_join(node: NrrJoin, edge: Edge, table: TableSide, batch: TickBatch) -> Outcome:
    """The results of the new rows of all due ticks."""
    assert not edge.is_strict
    kernel, names = batch.kernel, [column.sql for column in node.table.schema]
    mine = _keys(edge.rows, edge.schema, [key[0] for key in node.keys], kernel)
    rows = table.met([key[1] for key in node.keys], mine, batch).combine_chunks()
    theirs = _keys(rows, node.table.schema, [key[1] for key in node.keys], kernel)
    is_timed = ENTER in rows.column_names
    asked = columns_in(node.condition) if node.condition is not None else frozenset()
    left = _probed(edge.rows, [name for name in edge.names if name in asked], mine)
    right = _probed(rows, [name for name in names if name in asked], theirs)
    if is_timed:
        left = left.append_column("tick", pa.array(batch.due.first_above(longs(edge.rows.column(TS)))))
        right = right.append_column(ENTER, rows.column(ENTER)).append_column(LEAVE, rows.column(LEAVE))
    found = kernel.query(_sql(node, is_timed, kernel), left=left, right=right)
    new = edge.rows.take(found.column("l"))
    met = rows.select(names).take(found.column("t"))
    columns = {name: new.column(name) for name in new.column_names} | {name: met.column(name) for name in names}
    return Outcome(Edge(pa.table(columns), node.schema), table.tables, table.parts)


def _probed(rows: pa.Table, names: Sequence[str], keys: Keys) -> pa.Table:
    columns = {name: naive(rows.column(name)) for name in names}
    columns |= {f"k{k}": naive(key) for k, key in enumerate(keys)}
    return pa.table(columns | {"r": np.arange(rows.num_rows)})


def _sql(node: NrrJoin, is_timed: bool, kernel: Kernel) -> str:
    tests = [f'"left".k{k} = "right".k{k}' for k in range(len(node.keys))]
    tests += [f'"right".{ENTER} <= "left".tick', f'"left".tick < "right".{LEAVE}'] if is_timed else []
    if node.condition is not None:
        tests.append(f"({kernel.final(node.condition, types_of(node.schema)).sql})")
    kind = "LEFT JOIN" if node.is_left else "JOIN"
    on = " AND ".join(tests) or "true"
    return f'SELECT "left".r AS l, "right".r AS t FROM "left" {kind} "right" ON {on}'


def _keys(rows: pa.Table, schema: Sequence[PlanColumn], keys: Sequence[exp.Expr], kernel: Kernel) -> list[pa.Array]:
    return [normal(column) for column in kernel.evaluate(keys, types_of(schema), rows)]


def _among(edge: Edge, keys: Sequence[exp.Expr], wanted: Keys, kernel: Kernel) -> pa.Table:
    """The rows whose keys may be wanted."""
    rows = edge.rows
    for key, values in zip(keys, wanted, strict=True):
        if rows.num_rows <= len(values):
            continue
        (column,) = kernel.evaluate([key], types_of(edge.schema), rows)
        rows = taken(rows, maybe_among(column, pc.unique(values)))
    return rows


def _own_name(node: Node, key: exp.Expr) -> str | None:
    """The table's column that a key is; None if it is computed."""
    below, name = node, column_below(node, key)
    while isinstance(below, Filter | Project):
        below = below.input
    if name is None or not isinstance(below, TableScan):
        return None
    return next((one.name for one in below.columns if one.column.sql == name), None)
