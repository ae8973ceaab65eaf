"""Join with a table that is NON RETROACTIVE (Golab's dissertation, section 3.3.1: ⋈NRR).

    R ⋈ T = {r ∘ t with the lifetime of r : r ∈ R, t ∈ T(r.ts), keys equal, condition true}

Only new rows of R look for matches, and only in the version as of their own ts; so nothing of R is kept, and later
changes of T change no result. The input is never strict: a row that is withdrawn would have to withdraw its results,
and the version that it had met may be gone (Golab and Özsu, SIGMOD 2005, section 5.4.2).

A table that statements change is read as it is: all that took effect did so at the first due tick, so all new rows see
the rows of now. Of a table that a stream feeds, every version has the points at which it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.operators.join import column_below, through
from windrow.operators.layouts.live import ENTER, LEAVE
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.relations.changelog import FROM, versions
from windrow.operators.relations.table_scan import TableRows, renamed
from windrow.operators.scan import table_of
from windrow.operators.tables.edges import COUNT, Edge
from windrow.operators.tables.kernel import Kernel, naive, types_of
from windrow.operators.tables.permit import permit_of_thread
from windrow.operators.tables.prefilter import maybe_among
from windrow.operators.tables.rows import hashed, normal, taken
from windrow.operators.ticks import TS
from windrow.plan.algebra.nodes import Filter, Node, NrrJoin, PlanColumn, Project, TableScan, columns_in

Keys = Sequence[pa.Array]


@dataclass(frozen=True)
class _Rows:
    """Rows of a table that new rows may meet; with ENTER and LEAVE if they do not stand at all points."""

    rows: pa.Table
    keys: Keys

    @property
    def is_timed(self) -> bool:
        return ENTER in self.rows.column_names


def nrr_join(node: NrrJoin, edge: Edge, table: TableRows | None, batch: TickBatch) -> Outcome:
    """The results of the new rows of all due ticks."""
    assert not edge.is_strict
    kernel, names = batch.kernel, [column.sql for column in node.table.schema]
    mine = _keys(edge.rows, edge.schema, [key[0] for key in node.keys], kernel)
    found = _met(node, table, mine, kernel)
    asked = columns_in(node.condition) if node.condition is not None else frozenset()
    left = _probed(edge.rows, [name for name in edge.names if name in asked], mine)
    right = _probed(found.rows, [name for name in names if name in asked], found.keys)
    if found.is_timed:
        left = left.append_column(TS, edge.rows.column(TS))
        right = right.append_column(ENTER, found.rows.column(ENTER)).append_column(LEAVE, found.rows.column(LEAVE))
    pairs = kernel.query(_sql(node, found.is_timed, kernel), left=left, right=right)
    for one in (edge.rows, found.rows):
        permit_of_thread().allow_rows(pairs.num_rows, one)
    new = edge.rows.take(pairs.column("l"))
    met = found.rows.select(names).take(pairs.column("t"))
    columns = {name: new.column(name) for name in new.column_names} | {name: met.column(name) for name in names}
    return Outcome(Edge(pa.table(columns), node.schema))


def _met(node: NrrJoin, table: TableRows | None, wanted: Keys, kernel: Kernel) -> _Rows:
    """The rows of the table with these keys, and perhaps others, through the selections and projections above it."""
    scan, keys = table_of(node.table), [key[1] for key in node.keys]
    assert scan is not None
    schema = pa.schema([(one.column.sql, one.column.type.arrow) for one in scan.columns])
    rows = schema.empty_table() if table is None else _found(node.table, scan, table, keys, wanted)
    edge = through(node.table, Edge(rows, scan.schema), kernel)
    chosen = _among(edge, keys, wanted, kernel).combine_chunks()
    return _Rows(chosen, _keys(chosen, node.table.schema, keys, kernel))


def _found(node: Node, scan: TableScan, table: TableRows, keys: Sequence[exp.Expr], wanted: Keys) -> pa.Table:
    """The rows by key, if the join is on all of the primary key; otherwise all rows. Of a table that a stream feeds:
    their versions."""
    by_name = {own_name(node, key): values for key, values in zip(keys, wanted, strict=True)}
    rows, log = table.rows, table.changes
    schema = pa.schema([(one.name, one.column.type.arrow) for one in scan.columns])
    if table.is_fed:
        schema = log.drop_columns([COUNT, FROM]).schema
    if set(rows.keys) <= by_name.keys():
        asked = [by_name[name] for name in rows.keys]
        at = rows.find(asked, len(wanted[0]))
        found = rows.take(np.unique(at[at >= 0]), schema)
        if table.is_fed and log.num_rows:
            mine = hashed([log.column(name) for name in rows.keys], log.num_rows)
            log = taken(log, np.isin(mine, hashed(asked, len(wanted[0]))))
    else:
        found = rows.rows(schema)
    if not table.is_fed:
        return renamed(scan, found)
    stood = versions(found, log, rows.keys)
    return renamed(scan, stood).append_column(ENTER, stood.column(ENTER)).append_column(LEAVE, stood.column(LEAVE))


def _probed(rows: pa.Table, names: Sequence[str], keys: Keys) -> pa.Table:
    columns = {name: naive(rows.column(name)) for name in names}
    columns |= {f"k{k}": naive(key) for k, key in enumerate(keys)}
    return pa.table(columns | {"r": np.arange(rows.num_rows)})


def _sql(node: NrrJoin, is_timed: bool, kernel: Kernel) -> str:
    tests = [f'"left".k{k} = "right".k{k}' for k in range(len(node.keys))]
    tests += [f'"right".{ENTER} <= "left".{TS}', f'"left".{TS} < "right".{LEAVE}'] if is_timed else []
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


def own_name(node: Node, key: exp.Expr) -> str | None:
    """The table's column that a key is; None if it is computed."""
    below, name = node, column_below(node, key)
    while isinstance(below, Filter | Project):
        below = below.input
    if name is None or not isinstance(below, TableScan):
        return None
    return next((one.name for one in below.columns if one.column.sql == name), None)
