"""EXCEPT and INTERSECT, by counts (Golab's dissertation, Equation 1, for multisets).

With l and r rows of a value v at tick b (NULL equals NULL), v is there f(l, r) times:

    EXCEPT ALL: max(0, l − r)            EXCEPT: 1 if l > 0 and r = 0, else 0
    INTERSECT ALL: min(l, r)             INTERSECT: 1 if l > 0 and r > 0, else 0

What comes adds to a count at its tick, and takes the same away at the tick at which it will be gone; what is withdrawn
does the reverse. So the state is the counts of every value that is there, and a calendar of what will leave. The output
is the differences of f from tick to tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.live import LEAVE, counts_at
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.negation.coverage import sums_by_tick
from windrow.operators.tables.edges import COUNT, TICK, Edge
from windrow.operators.tables.rows import longs, normal, numbered, run_lasts, taken
from windrow.operators.ticks import EXP, NEVER, TS, DueTicks, Points
from windrow.plan.algebra.nodes import SetKind, SetOperation
from windrow.synopses.cells.arrays import run_starts

LEAVING = "/leaving"
"""The path of what will leave, after the operator's own."""

SIDES = ("__left", "__right")
"""The counts of a value in the two inputs."""


def counts_schema(node: SetOperation) -> pa.Schema:
    """The columns of the state: a row per value."""
    return pa.schema([*((c.sql, c.type.arrow) for c in node.columns), *((side, pa.int64()) for side in SIDES)])


def empty_leaving(node: SetOperation, width: int) -> Calendar:
    """The calendar of what will leave."""
    return Calendar(LEAVE, width, partial(_folded, [LEAVE, *(column.sql for column in node.columns)]))


def set_operation(
    node: SetOperation, edges: Sequence[Edge], path: str, counts: Keyed, leaving: Calendar, batch: TickBatch
) -> Outcome:
    """How often values are there: the differences of all due ticks."""
    due, names = batch.due, [column.sql for column in node.columns]
    every = pa.concat_tables([_amounts(node, edge, side, due) for side, edge in enumerate(edges)])
    at = longs(every.column(LEAVE))
    later = _folded([LEAVE, *names], taken(every, (at > due.upto) & (at < NEVER)))
    now = pa.concat_tables([taken(every, at <= due.upto), leaving.between(due.before, due.upto, every.schema)])
    columns = [normal(now.column(name)) for name in names]
    ids, firsts = numbered(columns, now.num_rows)
    values = pa.table([column.take(pa.array(firsts)) for column in columns], names)
    known = counts.find(values.columns, firsts.size)
    ids, ticks, amounts = sums_by_tick(ids, longs(now.column(LEAVE)), *(longs(now.column(side)) for side in SIDES))
    base = _counts_at(node, counts, known)
    after = [counts_at(amount, ids, own) for amount, own in zip(amounts, base, strict=True)]
    shown = shown_times(node, *after)
    before = np.roll(shown, 1)
    starts = run_starts(ids)
    before[starts] = shown_times(node, *base)[ids[starts]]
    edge = _changes(node, values, ids, ticks, shown - before)
    last = run_lasts(starts, ids.size)
    state = values
    for side, own in zip(SIDES, after, strict=True):
        state = state.append_column(side, pa.array(own[last]))
    stays = (after[0][last] > 0) | (after[1][last] > 0)
    goes = ~stays & (known >= 0)
    kept, gone = taken(state, stays), taken(state, goes)
    return Outcome(
        edge,
        {
            path: counts.updated(kept, known[stays], known[goes]),
            path + LEAVING: leaving.appended(later).settled(due.upto),
        },
        (
            *counts.cut(path, gone_rows(kept, gone), due.before, due.upto),
            *leaving.cut(path + LEAVING, later),
        ),
    )


def shown_times(node: SetOperation, left: Points, right: Points) -> Points:
    """f(l, r): how often values are there."""
    if node.kind is SetKind.EXCEPT:
        found = np.maximum(left - right, 0) if node.is_all else (left > 0) & (right == 0)
    else:
        found = np.minimum(left, right) if node.is_all else (left > 0) & (right > 0)
    return np.asarray(found, np.int64)


def _amounts(node: SetOperation, edge: Edge, side: int, due: DueTicks) -> pa.Table:
    """What the new rows of an input add to the counts of values and take away, and at which ticks: LEAVE, SIDES,
    values."""
    rows = edge.rows
    if edge.is_strict:
        ticks, amounts = longs(rows.column(TICK)), longs(rows.column(COUNT))
    else:
        ticks = due.first_above(longs(rows.column(TS)))
        amounts = np.ones(ticks.size, np.int64)
    ends = due.first_above(longs(rows.column(EXP)))
    seen = ticks < ends
    values = taken(rows.select(edge.names).rename_columns([column.sql for column in node.columns]), seen)
    ticks, ends, amounts = ticks[seen], ends[seen], amounts[seen]
    both = pa.concat_tables([values, values])
    own, none = np.concatenate([amounts, -amounts]), np.zeros(2 * ticks.size, np.int64)
    columns = {LEAVE: np.concatenate([ticks, ends]), SIDES[side]: own, SIDES[1 - side]: none}
    head = pa.table({name: columns[name] for name in (LEAVE, *SIDES)})
    return pa.Table.from_arrays([*head.columns, *both.columns], names=[*head.column_names, *both.column_names])


def _folded(names: Sequence[str], rows: pa.Table) -> pa.Table:
    """Rows with equal names as one, with the sums of their amounts; none where these cancel."""
    ids, firsts = numbered([rows.column(name) for name in names], rows.num_rows)
    if firsts.size == rows.num_rows:
        return rows
    out = taken(rows, firsts)
    held = np.zeros(firsts.size, bool)
    for side in SIDES:
        sums = np.zeros(firsts.size, np.int64)
        np.add.at(sums, ids, longs(rows.column(side)))
        held |= sums != 0
        out = out.set_column(out.column_names.index(side), side, pa.array(sums))
    return taken(out, held)


def _counts_at(node: SetOperation, counts: Keyed, known: Points) -> list[Points]:
    held = known >= 0
    found = counts.take(known[held], counts_schema(node))
    out = []
    for side in SIDES:
        own = np.zeros(known.size, np.int64)
        own[held] = longs(found.column(side))
        out.append(own)
    return out


def _changes(node: SetOperation, values: pa.Table, ids: Points, ticks: Points, differences: Points) -> Edge:
    held = np.flatnonzero(differences)
    ticks = ticks[held]
    head = {TICK: ticks, COUNT: differences[held], TS: ticks - 1, EXP: np.full(ticks.size, NEVER, np.int64)}
    rows = taken(values, ids[held])
    return Edge(
        pa.table({**head, **{name: rows.column(name) for name in rows.column_names}}), node.schema, is_strict=True
    )
