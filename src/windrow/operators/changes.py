"""The output of a plan: what changes at each tick.

    '+' with [ts, exp): the row appears at the first tick above ts and is gone, without a word, at the first above exp
    '-' with exp: a row with these values and this exp is withdrawn at the tick

Rows whose lifetime falls between two ticks are not reported. What a strict root adds and withdraws at one tick cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.operators.layouts.live import LEAVE, intervals, is_withdrawn
from windrow.operators.layouts.parts import StatePart
from windrow.operators.layouts.steps import StateTable
from windrow.operators.tables.edges import COUNT, TICK, Edge, netted, repeated, shown_end
from windrow.operators.tables.rows import appended, flat, longs, order_of, taken
from windrow.operators.ticks import EXP, NEVER, TS, DueTicks, Points
from windrow.plan.algebra.nodes import PlanColumn

HEAD = ("op", "tick", "ts", "exp")
"""The first columns of changes; the output columns follow under their names, which may be the same."""

OP, AT, BORN, END = range(len(HEAD))
"""The places of these columns."""


@dataclass(frozen=True)
class Reported:
    """Changes, and the state of explicit expiry."""

    changes: pa.Table
    tables: Mapping[str, StateTable] = field(default_factory=dict)
    parts: tuple[StatePart, ...] = ()


def changes_schema(schema: Sequence[PlanColumn]) -> pa.Schema:
    """The columns of a plan's changes."""
    head = [("op", pa.string()), ("tick", pa.int64()), ("ts", pa.int64()), ("exp", pa.int64())]
    return pa.schema([*head, *((column.name, column.type.arrow) for column in schema)])


def report(edge: Edge, due: DueTicks) -> Reported:
    """The changes of all due ticks, in any order: a tick does not wait for what only a reader needs (`in_order`)."""
    if not edge.is_strict:
        enter, seen = edge.seen(due)
        rows = taken(edge.rows, seen)
        ends, ops = longs(rows.column(shown_end(rows))), pa.repeat("+", rows.num_rows)
        return Reported(_changes(edge, rows, ops, enter[seen], ends))
    rows = netted(edge.rows, edge.names)
    counts = longs(rows.column(COUNT))
    rows = repeated(rows.append_column("__comes", pa.array(counts > 0)), np.abs(counts))
    comes, ticks = np.asarray(flat(rows.column("__comes"))), longs(rows.column(TICK))
    return Reported(_changes(edge, rows, _ops(comes), ticks, longs(rows.column(EXP))))


def report_expiry(edge: Edge, path: str, state: StateTable, due: DueTicks) -> Reported:
    """The changes with a '-' at the tick at which a row expires."""
    plain = report(edge, due)
    found = intervals(edge, path, state, due, keep_forever=False)
    leave = longs(found.rows.column(LEAVE))
    gone = taken(found.rows, (leave <= due.upto) & ~is_withdrawn(found.rows, due))
    gone = repeated(gone, longs(gone.column(COUNT)))
    ticks = longs(gone.column(LEAVE))
    gone = appended(gone.drop_columns([TS]), **{TS: ticks - 1})
    expired = _changes(edge, gone, _ops(np.zeros(ticks.size, bool)), ticks, longs(gone.column(EXP)))
    return Reported(pa.concat_tables([expired, plain.changes]), found.tables, found.parts)


def stored(changes: pa.Table) -> pa.Table:
    """The changes of a tick batch as they are kept: op, tick, ts, exp, then the select list under names that differ
    from these and from each other, as the names of the user need not."""
    return changes.rename_columns(stored_names(changes.num_columns - len(HEAD)))


def stored_names(outputs: int) -> list[str]:
    """The names of the columns of kept changes, of a select list of so many."""
    return [*HEAD, *(f"v{i}" for i in range(outputs))]


def in_order(parts: Sequence[pa.Table]) -> pa.Table:
    """Changes that may have been made in several places, in an order that their values alone determine: by tick, what
    goes before what comes, then by lifetime and values."""
    rows = pa.concat_tables(parts).combine_chunks()
    if rows.num_rows < 2:
        return rows
    comes = np.asarray(flat(pc.equal(rows.column(OP), "+")))
    ticks, ts, ends = (
        longs(column) for column in (rows.column(AT), rows.column(BORN), pc.fill_null(rows.column(END), NEVER))
    )
    return taken(rows, _order(rows.columns[len(HEAD) :], comes, ticks, ts, ends))


def _ops(comes: np.ndarray) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(comes.astype(np.int8)), pa.array(["-", "+"])).dictionary_decode()


def _changes(edge: Edge, rows: pa.Table, ops: pa.Array, ticks: Points, ends: Points) -> pa.Table:
    """Rows with TS, and with these ends, as changes."""
    never = ends == NEVER
    exp = pa.array(ends, mask=never) if never.any() else pa.array(ends)
    columns = [ops, pa.array(ticks), rows.column(TS), exp, *(rows.column(name) for name in edge.names)]
    return pa.Table.from_arrays(columns, schema=changes_schema(edge.schema))


def _order(values: Sequence[pa.ChunkedArray], comes: np.ndarray, ticks: Points, ts: Points, ends: Points) -> Points:
    """By tick, what goes before what comes; those that equal a neighbour in everything else by their values."""
    order = _packed_order(ticks, comes.astype(np.int64), ts, ends)
    comes, ticks, ts, ends = comes[order], ticks[order], ts[order], ends[order]
    ties = _ties(comes, ticks, ts, ends)
    if ties.size:
        at = pa.array(order[ties])
        run = np.cumsum(_is_start(comes, ticks, ts, ends))[ties]
        inner = order_of([pa.array(run), *(column.take(at) for column in values)])
        order[ties] = order[ties][inner]
    return order


def _packed_order(*columns: Points) -> Points:
    """The rows by these columns, in any order where all are equal. Sorting one number is much faster than several, and
    sorting numbers than indices."""
    rows = columns[0].size
    packed, width = np.zeros(rows, np.int64), 1
    for column in columns if rows else ():
        low, high = int(column.min()), int(column.max())
        width *= high - low + 1
        if width >= 1 << 62:
            return np.lexsort(columns[::-1])
        packed = packed * (high - low + 1) + (column - low)
    bits = rows.bit_length()
    if width >= 1 << (62 - bits):
        return np.argsort(packed)
    return np.asarray(np.sort(packed << bits | np.arange(rows)) & ((1 << bits) - 1))


def _is_start(comes: np.ndarray, ticks: Points, ts: Points, ends: Points) -> np.ndarray:
    """Whether a row differs from the one before it in anything but its values."""
    out = np.ones(ticks.size, bool)
    if ticks.size > 1:
        out[1:] = (ticks[1:] != ticks[:-1]) | (comes[1:] != comes[:-1]) | (ts[1:] != ts[:-1]) | (ends[1:] != ends[:-1])
    return out


def _ties(comes: np.ndarray, ticks: Points, ts: Points, ends: Points) -> Points:
    """The rows that equal a neighbour in everything but their values."""
    start = _is_start(comes, ticks, ts, ends)
    alone = start & np.append(start[1:], True)
    return np.flatnonzero(~alone)
