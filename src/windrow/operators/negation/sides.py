"""The two inputs of a semi-join or an outer join: their rows as intervals, of the keys that matter in a batch.

Earlier rows of an input that reads a window through selections and projections alone come from the window's store;
those of other inputs are the operator's own state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.operators.join import Stored
from windrow.operators.layouts.live import LEAVE, Lives, intervals, leaving, live_schema, with_new
from windrow.operators.layouts.steps import StateTable, TickBatch
from windrow.operators.scan import POINT, reach, window_of
from windrow.operators.tables.edges import COUNT, Edge
from windrow.operators.tables.kernel import types_of
from windrow.operators.tables.prefilter import is_word, maybe_among, picked, rows_between
from windrow.operators.tables.rows import longs, normal, taken
from windrow.operators.ticks import EXP
from windrow.plan.algebra.nodes import Node, PlanColumn
from windrow.synopses.cells.arrays import Mask

Keys = list[pa.Array]
"""A column per key."""


@dataclass(frozen=True)
class Wanted:
    """The keys whose rows are asked for, as values per key; a few others may come along, whole. Without keys: all rows,
    or none if `is_empty`."""

    values: Keys
    is_empty: bool

    @staticmethod
    def of(*found: tuple[Keys, int]) -> Wanted:
        """All of these keys, each given with its number of rows."""
        some = [keys for keys, rows in found if rows]
        return Wanted([pc.unique(pa.chunked_array(one)) for one in zip(*some, strict=True)], not some)


@dataclass(frozen=True)
class Side:
    """An input with its new rows and its keys. `state`: its earlier rows in the operator's own table at `path`; None:
    they are the `stored` tuples of a window."""

    node: Node
    edge: Edge
    keys: tuple[exp.Expr, ...]
    path: str
    state: StateTable | None
    stored: pa.Table | None

    @property
    def schema(self) -> tuple[PlanColumn, ...]:
        return self.edge.schema

    def new_keys(self, batch: TickBatch) -> tuple[Keys, int]:
        """The keys of what comes and is withdrawn."""
        return self.keys_of(self.edge.rows, batch), self.edge.rows.num_rows

    def withdrawn_keys(self, batch: TickBatch) -> tuple[Keys, int]:
        if not self.edge.is_strict:
            return [], 0
        rows = taken(self.edge.rows, longs(self.edge.rows.column(COUNT)) < 0)
        return self.keys_of(rows, batch), rows.num_rows

    def leaving_keys(self, batch: TickBatch) -> tuple[Keys, int]:
        """The keys of earlier rows that reach their exp at a due tick."""
        rows = self._leaving(batch)
        return self.keys_of(rows, batch), rows.num_rows

    def keys_of(self, rows: pa.Table, batch: TickBatch) -> Keys:
        return [normal(column) for column in batch.kernel.evaluate(self.keys, types_of(self.schema), rows)]

    def _leaving(self, batch: TickBatch) -> pa.Table:
        if self.state is not None:
            return leaving(self.state, batch.due, self.schema)
        window = window_of(self.node)
        assert window is not None and self.stored is not None
        length = reach(window)
        if length is None:
            return Stored(self.node, self.stored.slice(0, 0)).met((), (), batch).rows
        # A row is gone at the first tick above its end: compared as points, since the store may be large.
        gone = rows_between(self.stored.column(POINT), batch.due.before - length, batch.due.upto - length)
        return Stored(self.node, picked(self.stored, gone)).met((), (), batch).rows

    def alive(self, wanted: Wanted, batch: TickBatch) -> Lives:
        """The rows that are new or have a wanted key, as intervals, and the state after the batch."""
        if self.state is not None:
            only = partial(self._having, wanted=wanted, batch=batch)
            return intervals(self.edge, self.path, self.state, batch.due, only)
        assert self.stored is not None
        if wanted.is_empty:
            old = Stored(self.node, self.stored.slice(0, 0)).met((), (), batch).rows
        else:
            old = Stored(self.node, self.stored).met(self.keys, wanted.values, batch).rows
        old, schema = taken(old, longs(old.column(EXP)) >= batch.due.before), live_schema(self.schema)
        columns = {
            LEAVE: batch.due.first_above(longs(old.column(EXP))),
            EXP: old.column(EXP),
            COUNT: np.ones(old.num_rows, np.int64),
        }
        before = pa.table(columns | {column.sql: old.column(column.sql) for column in self.schema}, schema=schema)
        return Lives(with_new(before, self.edge, batch.due), {}, ())

    def _having(self, rows: pa.Table, wanted: Wanted, batch: TickBatch) -> pa.Table:
        """The rows with a wanted key. The rows may be many, in many chunks, which are not copied."""
        if wanted.is_empty:
            return rows.slice(0, 0)
        for key, values in zip(self.keys, wanted.values, strict=True):
            (column,) = batch.kernel.evaluate([key], types_of(self.schema), rows)
            column = column if is_word(column.type) else pa.chunked_array([normal(column)])
            rows = picked(rows, maybe_among(column, values))
        return rows

    def has_keys(self, rows: pa.Table, wanted: Wanted, batch: TickBatch) -> Mask:
        """Which rows have a wanted key."""
        out = np.full(rows.num_rows, not wanted.is_empty)
        for column, values in zip(self.keys_of(rows, batch), wanted.values, strict=True) if out.any() else ():
            hit = np.zeros(rows.num_rows, bool)
            hit[maybe_among(pa.chunked_array([column]), values)] = True
            out &= hit
        return out
