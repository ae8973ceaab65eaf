"""Relation-to-stream operators.

    ISTREAM: R(b) − R(previous b)        DSTREAM: R(previous b) − R(b)        RSTREAM: R(b), at every tick b

as multisets of values, so a renewal is in neither of the first two. A row reported at b has ts = b − 1 and never
expires. The state is the rows that are alive.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.live import ENTER, LEAVE, Lives, intervals, turnover
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.tables.edges import COUNT, TICK, Edge, forever, repeated
from windrow.operators.tables.rows import appended, longs, taken
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import Streaming, ToStream


def to_stream(node: ToStream, edge: Edge, path: str, state: StateTable | None, batch: TickBatch) -> Outcome:
    """The rows reported at all due ticks. `state` None: no row of a strict input has a predicted end, and ISTREAM and
    DSTREAM need not know which are alive."""
    if node.kind is Streaming.RSTREAM:
        assert state is not None
        found = intervals(edge, path, state, batch.due)
        return Outcome(_reported(node, _at_every_tick(found, edge, batch.due), batch), found.tables, found.parts)
    flow = turnover(edge, path, state, batch.due, keep_forever=False)
    return Outcome(_reported(node, flow.changes, batch), flow.tables, flow.parts)


def _reported(node: ToStream, changes: pa.Table, batch: TickBatch) -> Edge:
    counts = longs(changes.column(COUNT))
    counts = np.maximum(-counts if node.kind is Streaming.DSTREAM else counts, 0)
    rows = repeated(changes, counts)
    return Edge(forever(rows, longs(rows.column(TICK)), node.schema, batch.has_until), node.schema)


def _at_every_tick(found: Lives, edge: Edge, due: DueTicks) -> pa.Table:
    """Every row once for each due tick that sees it."""
    enter, leave = longs(found.rows.column(ENTER)), longs(found.rows.column(LEAVE))
    first = np.maximum((enter - due.before) // due.step, 1)
    last = np.minimum((np.minimum(leave, due.upto + due.step) - due.before) // due.step, due.count + 1)
    sizes = np.maximum(last - first, 0)
    row = np.repeat(np.arange(sizes.size), sizes)
    place = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ticks = due.before + (first[row] + place) * due.step
    rows = taken(found.rows.select([COUNT, *edge.names]), row)
    return appended(rows, **{TICK: ticks})
