"""Relation-to-stream operators.

    ISTREAM: R(b) − R(previous b)        DSTREAM: R(previous b) − R(b)        RSTREAM: R(b), at every tick b

as multisets of values, so a renewal is in neither of the first two. A row reported at b has ts = b − 1 and never
expires. The state is the rows that are alive.

With RESTORE (section 3.3.4 of Golab's dissertation) the input is known at every instant p, not only at ticks:

    ISTREAM RESTORE: R(p) − R(p − 1), at every instant p, with ts = p − 1; reported at the first tick from p on
    RSTREAM RESTORE: at every tick b, what was there at all instants from the previous tick to b, and what
                     ISTREAM RESTORE reports at b

So RSTREAM RESTORE has all of R(b), and every row that came since the previous tick and is gone again. Of equal rows the
one that came last goes first.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.errors import ExecutionError
from windrow.operators.layouts.live import ENTER, LEAVE, Lives, intervals, turnover
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.tables.edges import COUNT, TICK, Edge, forever, made_at, netted, repeated, running_sums
from windrow.operators.tables.rows import appended, longs, numbered, taken
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import Streaming, ToStream

MOST_REPEATS = 10_000_000
"""A row that is alive at more ticks of a batch is an error: one far tuple would fill memory and disk."""


def to_stream(node: ToStream, edge: Edge, path: str, state: StateTable | None, batch: TickBatch) -> Outcome:
    """The rows reported at all due ticks. `state` None: no row of a strict input has a predicted end, and ISTREAM and
    DSTREAM need not know which are alive."""
    due = batch.due.instants if node.restores else batch.due
    if node.kind is Streaming.RSTREAM:
        assert state is not None
        found = intervals(edge, path, state, due)
        shown = _at_every_tick(_at_ticks(found.rows, batch.due) if node.restores else found.rows, edge, batch.due)
        if node.restores:
            shown = pa.concat_tables([shown, _short_lived(found, edge, batch.due)])
        return Outcome(_reported(node, shown, batch), found.tables, found.parts)
    flow = turnover(edge, path, state, due, keep_forever=False)
    return Outcome(_reported(node, flow.changes, batch), flow.tables, flow.parts)


def _reported(node: ToStream, changes: pa.Table, batch: TickBatch) -> Edge:
    counts = longs(changes.column(COUNT))
    counts = np.maximum(-counts if node.kind is Streaming.DSTREAM else counts, 0)
    rows = repeated(changes, counts)
    return Edge(forever(rows, longs(rows.column(TICK)), node.schema, batch.has_until), node.schema)


def _at_every_tick(found: pa.Table, edge: Edge, due: DueTicks) -> pa.Table:
    """Every row once for each due tick that sees it."""
    enter, leave = longs(found.column(ENTER)), longs(found.column(LEAVE))
    first = np.maximum((enter - due.before) // due.step, 1)
    last = np.minimum((np.minimum(leave, due.upto + due.step) - due.before) // due.step, due.count + 1)
    sizes = np.maximum(last - first, 0)
    if sizes.size and sizes.max() > MOST_REPEATS:
        raise ExecutionError(
            f"a row would be reported at {sizes.max():,} ticks at once: time has leapt by {due.count:,} ticks, and the "
            "answer of each tick is reported"
        )
    row = np.repeat(np.arange(sizes.size), sizes)
    place = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ticks = due.before + (first[row] + place) * due.step
    rows = taken(found.select([COUNT, *edge.names]), row)
    return appended(rows, **{TICK: ticks})


# -- RESTORE ---------------------------------------------------------------------------------------


def _at_ticks(rows: pa.Table, due: DueTicks) -> pa.Table:
    """Intervals of instants as intervals of ticks: the first tick from an instant on."""
    both = {name: due.first_above(longs(rows.column(name)) - 1) for name in (ENTER, LEAVE)}
    return appended(rows.drop_columns([ENTER, LEAVE]), **both)


def _short_lived(found: Lives, edge: Edge, due: DueTicks) -> pa.Table:
    """What came since the previous tick and is gone again, at every due tick: with n rows of a value that came, m that
    were there all the time, and c that are there at the tick, n + m − c rows."""
    nothing = found.rows.select([COUNT, *edge.names]).slice(0, 0)
    moves = _moves(found.rows, edge, due)
    if not moves.num_rows:
        return appended(nothing, **{TICK: np.zeros(0, np.int64)})
    ids, firsts = numbered([moves.column(name) for name in edge.names], moves.num_rows)
    instants = longs(moves.column(TICK))
    order = np.lexsort((instants, ids))
    ids, instants, delta = ids[order], instants[order], longs(moves.column(COUNT))[order]
    after = running_sums(delta, ids)
    ticks = due.first_above(instants - 1)
    starts = np.flatnonzero(np.append(True, (ids[1:] != ids[:-1]) | (ticks[1:] != ticks[:-1])))
    came = np.add.reduceat(np.maximum(delta, 0), starts)
    least = np.minimum.reduceat(np.minimum(after, after - delta), starts)
    last = np.append(starts[1:], ids.size) - 1
    short = came + least - after[last]
    seen = np.flatnonzero((short > 0) & (ticks[starts] > due.before))
    rows = taken(moves.select([COUNT, *edge.names]), firsts[ids[starts[seen]]]).drop_columns([COUNT])
    return appended(rows, **{COUNT: short[seen], TICK: ticks[starts[seen]]}).select([COUNT, *edge.names, TICK])


def _moves(rows: pa.Table, edge: Edge, due: DueTicks) -> pa.Table:
    """What comes and goes by value at instants; what was there before comes at `before`."""
    enter, leave, counts = (longs(rows.column(name)) for name in (ENTER, LEAVE, COUNT))
    gone = np.flatnonzero(leave <= due.upto)
    values = rows.select(edge.names)
    return netted(
        made_at(
            pa.concat_tables([values, taken(values, gone)]),
            np.concatenate([enter, leave[gone]]),
            np.concatenate([counts, -counts[gone]]),
        ),
        edge.names,
    )
