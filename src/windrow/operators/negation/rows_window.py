"""Count-based windows: the last n tuples of a stream, or the last n results of a sub-query.

    W(S)(b) = the last n tuples with t < b by (t, arrival number), of every partition

Tuple k of a partition enters at the first tick above its point, and leaves at the tick at which tuple k + n enters; if
that is the same one, it is never shown. The state is a ring of n slots per partition, in which tuple k has the slot
k mod n, and how many tuples each partition has had.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.scan import ARRIVED, POINT
from windrow.operators.tables.edges import COUNT, TICK, Edge
from windrow.operators.tables.rows import longs, normal, numbered, taken
from windrow.operators.ticks import EXP, NEVER, TS, Points
from windrow.plan.algebra.nodes import OutputRows, RowsWindow
from windrow.synopses.cells.arrays import place_in_run

COUNTED = "/counted"
"""The path of how many tuples partitions have had, after the window's own."""

SLOT = "__slot"

Counting = RowsWindow | OutputRows


def ring_keys(node: Counting) -> tuple[str, ...]:
    """The key of a tuple that is kept."""
    return (*partition_keys(node), SLOT)


def ring_schema(node: Counting) -> pa.Schema:
    """The columns of the tuples that are kept."""
    return pa.schema([(SLOT, pa.int64()), *((column.sql, column.type.arrow) for column in node.schema)])


def partition_keys(node: Counting) -> tuple[str, ...]:
    return tuple(column.sql for column in node.partition)


def rows_window(node: Counting, stored: pa.Table, path: str, ring: Keyed, counted: Keyed, batch: TickBatch) -> Outcome:
    """What enters and leaves the window at all due ticks, given the stored tuples that are new."""
    due, size = batch.due, node.size
    keys = [normal(stored.column(name)) for name in partition_keys(node)]
    ids, firsts = numbered(keys, stored.num_rows)
    points = longs(stored.column(POINT))
    order = np.lexsort((longs(stored.column(ARRIVED)), points, ids))
    ids, points = ids[order], points[order]
    partitions = [key.take(pa.array(firsts)) for key in keys]
    held = counted.find(partitions, firsts.size)
    before = _counts(node, counted, held)
    place = place_in_run(ids)
    number = before[ids] + place
    rows = taken(stored, order)
    rows = pa.table({SLOT: number % size, **{column.sql: rows.column(column.sql) for column in node.schema}})
    slots = [*(key.take(pa.array(order)) for key in keys), pa.array(number % size)]
    ticks = due.first_above(points)
    leaves = np.full(ids.size, NEVER, np.int64)
    pushed = np.flatnonzero(ids[size:] == ids[:-size])
    leaves[pushed] = ticks[pushed + size]
    # Tuples of earlier batches, each pushed out by the new one that takes its slot.
    pushing = np.flatnonzero((place < size) & (number >= size))
    met = ring.find([one.take(pa.array(pushing)) for one in slots], pushing.size)
    pushing, met = pushing[met >= 0], met[met >= 0]  # a window that has become longer has free slots
    old = ring.take(met, rows.schema)
    came, went = np.flatnonzero(ticks < leaves), np.flatnonzero((ticks < leaves) & (leaves < NEVER))
    edge = _changes(
        node,
        (taken(rows, came), points[came], ticks[came]),
        (
            pa.concat_tables([taken(rows, went), old.select(rows.column_names)]),
            np.concatenate([leaves[went], ticks[pushing]]),
        ),
    )
    last = np.flatnonzero(leaves == NEVER)
    kept = taken(rows, last)
    replaced = ring.find([one.take(pa.array(last)) for one in slots], last.size)
    totals = pa.array(before + np.bincount(ids, minlength=firsts.size))
    total = pa.table([*partitions, totals], [*partition_keys(node), COUNT])
    return Outcome(
        edge,
        {path: ring.put(kept, replaced), path + COUNTED: counted.put(total, held)},
        (
            *ring.cut(path, gone_rows(kept, kept.slice(0, 0)), due.before, due.upto),
            *counted.cut(path + COUNTED, gone_rows(total, total.slice(0, 0)), due.before, due.upto),
        ),
    )


def resized(node: Counting, was: int, ring: Keyed, counted: Keyed) -> tuple[Keyed, bool]:
    """The ring of a window from that of one with `was` rows and the same columns; and whether it has all rows. If not,
    it is longer than the other was, and lacks what had left that one: it fills up with what comes."""
    rows = ring.rows(ring_schema(node))
    keys = [normal(rows.column(name)) for name in partition_keys(node)]
    totals, slots = _counts(node, counted, counted.find(keys, rows.num_rows)), longs(rows.column(SLOT))
    number = totals - 1 - (totals - 1 - slots) % was
    kept = np.flatnonzero(number >= totals - node.size)
    at = rows.column_names.index(SLOT)
    moved = taken(rows, kept).set_column(at, SLOT, pa.array(number[kept] % node.size))
    most = int(longs(counted.rows(_counted_schema(node)).column(COUNT)).max(initial=0))
    return Keyed(ring_keys(node)).put(moved, np.full(kept.size, -1)), node.size <= was or most <= was


def _counts(node: Counting, counted: Keyed, at: Points) -> Points:
    """How many tuples partitions have had; 0 where there is none."""
    out = np.zeros(at.size, np.int64)
    out[at >= 0] = longs(counted.take(at[at >= 0], _counted_schema(node)).column(COUNT))
    return out


def _counted_schema(node: Counting) -> pa.Schema:
    return pa.schema([*((c.sql, c.type.arrow) for c in node.partition), (COUNT, pa.int64())])


def _changes(node: Counting, came: tuple[pa.Table, Points, Points], went: tuple[pa.Table, Points]) -> Edge:
    """What came (with points and ticks) and what went (with ticks) as strict changes. No end is known."""
    ticks = np.concatenate([came[2], went[1]])
    counts = np.concatenate([np.ones(came[2].size, np.int64), -np.ones(went[1].size, np.int64)])
    births = np.concatenate([came[1], went[1] - 1])
    head = {TICK: ticks, COUNT: counts, TS: births, EXP: np.full(ticks.size, NEVER, np.int64)}
    values = pa.concat_tables([came[0], went[0]])
    rows = pa.table({**head, **{column.sql: values.column(column.sql) for column in node.schema}})
    return Edge(rows, node.schema, is_strict=True)
