"""Duplicate elimination δ* (Golab's dissertation, section 3.5.2).

A value is shown by one row at a time:

    first row:  [ts, exp) of the first tuple with the value, where no row of the value is alive
    renewal:    [e, m) at the expiry e of its row, where m is the latest exp of tuples with ts below the first tick
                above e; only if the value is still there at that tick

The state of a value is e and the latest exp so far: at most twice the output. Since a renewal looks only at tuples
below its own tick, the output does not depend on how ticks are batched. The input must not be strict: nothing may
expire before its exp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.keyed import Keyed, gone_rows, words_of
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.rows import longs, normal, numbered, taken
from windrow.operators.ticks import EXP, TS, UNTIL, DueTicks, Points, TickNumbers
from windrow.plan.algebra.nodes import Distinct
from windrow.synopses.cells.arrays import run_starts

YOUNGEST = "__young"
"""The latest exp of the tuples with a value; EXP is that of the row that shows it."""


def distinct_schema(node: Distinct) -> pa.Schema:
    """The columns of the state: a row per value."""
    return pa.schema([*((c.sql, c.type.arrow) for c in node.schema), (EXP, pa.int64()), (YOUNGEST, pa.int64())])


def distinct(node: Distinct, edge: Edge, path: str, state: Keyed, batch: TickBatch) -> Outcome:
    """The rows that begin to show a value, and the renewals, of all due ticks."""
    due, names = batch.due, edge.names
    rows = visible_rows(edge, due)
    columns = [normal(column) for column in rows.columns[2:]]
    words = words_of(columns, rows.num_rows)
    ids, firsts = numbered(columns, rows.num_rows, words)
    fresh = pa.table([column.take(pa.array(firsts)) for column in columns], names)
    known = state.find(fresh.columns, firsts.size, words[firsts])
    there = known[known >= 0]
    ends = state.numbers(EXP, there)
    # Values of the state that have no new tuple, and whose row expires now.
    ending = np.setdiff1d(state.where(EXP, due.upto), there[ends < due.upto])
    old = state.take(ending, distinct_schema(node))
    values = pa.concat_tables([fresh, old.select(names)]).combine_chunks() if ending.size else fresh
    at = np.concatenate([known, ending])
    held = at >= 0
    shown = np.full(at.size, NOT_SHOWN, np.int64)
    youngest = np.full(at.size, NOT_SHOWN, np.int64)
    shown[held] = np.concatenate([ends, longs(old.column(EXP))])
    youngest[held] = np.concatenate([state.numbers(YOUNGEST, there), longs(old.column(YOUNGEST))])
    made = chains(ids, longs(rows.column(TS)), longs(rows.column(EXP)), shown, youngest, due)
    lifetime = {TS: pa.array(made.ts), EXP: pa.array(made.exp)} | (
        {UNTIL: pa.array(made.exp)} if batch.has_until else {}
    )
    out = pa.table(lifetime | {name: values.column(name).take(pa.array(made.value)) for name in names})
    # Those that the last tick still shows; so whether a row is a renewal does not depend on the batches.
    stays = made.youngest >= due.upto
    after = values.append_column(EXP, pa.array(made.shown)).append_column(YOUNGEST, pa.array(made.youngest))
    kept, gone = taken(after, stays), taken(after, ~stays & held)
    return Outcome(
        Edge(out, node.schema),
        {path: state.updated(kept, at[stays], at[~stays & held])},
        tuple(state.cut(path, gone_rows(kept, gone), due.before, due.upto)),
    )


NOT_SHOWN = np.iinfo(np.int64).min
"""The exp of a value that is not shown."""


def visible_rows(edge: Edge, due: DueTicks) -> pa.Table:
    """TS, EXP and the values of rows that some tick sees."""
    rows = edge.rows.select([TS, EXP, *edge.names])
    return taken(rows, Edge(rows, edge.schema).seen(due)[1])


@dataclass(frozen=True)
class Chains:
    """The rows made (of which value, and their lifetimes), and per value what is shown at the end."""

    value: Points
    ts: Points
    exp: Points
    shown: Points
    youngest: Points


def chains(ids: Points, ts: Points, exp: Points, shown: Points, youngest: Points, due: DueTicks) -> Chains:
    """The rows that show values at the due ticks. Tuples are given by the number of their value and their lifetimes,
    and come at due ticks; `shown` and `youngest` are the ends per value before."""
    if due.count == 1 and shown[shown != NOT_SHOWN].min(initial=due.before) >= due.before:
        return _at_one_tick(ids, ts, exp, shown, youngest, due.upto)
    return _in_rounds(ids, ts, exp, shown, youngest, due)


def _at_one_tick(ids: Points, ts: Points, exp: Points, shown: Points, youngest: Points, tick: int) -> Chains:
    """All tuples come at the tick, so a value has at most one new row: a value that is not shown begins, and one whose
    row ends is renewed."""
    latest = youngest.copy()
    np.maximum.at(latest, ids, exp)
    is_new, ends_now = shown == NOT_SHOWN, shown < tick
    first = np.flatnonzero(is_new[ids])
    first = first[np.lexsort((-exp[first], ts[first], ids[first]))]
    first = first[run_starts(ids[first])]  # of each new value the first born, of these the one that lives longest
    births, ends = shown.copy(), latest.copy()
    births[ids[first]], ends[ids[first]] = ts[first], exp[first]
    comes = ends_now & (latest >= tick)
    value = np.flatnonzero(comes)
    after = np.where(comes, ends, np.where(ends_now, NOT_SHOWN, shown))
    return Chains(value, births[value], ends[value], after, latest)


def _in_rounds(ids: Points, ts: Points, exp: Points, shown: Points, youngest: Points, due: DueTicks) -> Chains:
    """A round at a time: round i makes the i-th row of every value that has one.

    Tuples are put in the order of their births, the longest-lived first. `best` is the latest exp of a value's tuples
    so far, so the renewal at a tick takes that of the last tuple below it.
    """
    order = np.lexsort((-exp, ts, ids))
    ids, ts, exp = ids[order], ts[order], exp[order]
    counts = np.bincount(ids, minlength=shown.size)
    first = np.cumsum(counts) - counts
    best = _running_max(exp, ids, youngest)
    packed = _Packed(ids, ts, due, shown.size)
    found: list[tuple[Points, Points, Points]] = []
    shown, alive = shown.copy(), np.arange(shown.size)
    while alive.size:
        now = shown[alive]
        has = now != NOT_SHOWN
        tick = np.where(has, due.first_above(np.where(has, now, due.before)), due.before)
        alive, now, has, tick = (part[tick <= due.upto] for part in (alive, now, has, tick))
        below = packed.below(alive, tick)  # tuples of the value below the tick
        latest = np.where(
            below > 0, best[np.maximum(first[alive] + below - 1, 0)] if best.size else NOT_SHOWN, youngest[alive]
        )
        renews = has & (latest >= tick)
        begins = ~renews & (below < counts[alive])
        next_at = np.where(begins, first[alive] + below, 0)
        starts = np.where(renews, now, ts[next_at] if ts.size else 0)
        ends = np.where(renews, latest, exp[next_at] if exp.size else 0)
        going = renews | begins
        shown[alive] = np.where(going, ends, NOT_SHOWN)
        alive, starts, ends = alive[going], starts[going], ends[going]
        found.append((alive, starts, ends))
    last = np.where(counts > 0, best[np.maximum(first + counts - 1, 0)] if best.size else NOT_SHOWN, youngest)
    value, starts, ends = (np.concatenate([part[i] for part in found] or [np.zeros(0, np.int64)]) for i in range(3))
    return Chains(value, starts, ends, shown, last)


def _running_max(exp: Points, ids: Points, youngest: Points) -> Points:
    """The latest exp of a value's tuples up to each, and of those before the batch."""
    if not exp.size:
        return exp
    # Ranks keep the maximum within a value: a higher value has higher ranks.
    levels, rank = np.unique(np.maximum(exp, youngest[ids]), return_inverse=True)
    running = np.maximum.accumulate(ids * levels.size + rank)
    return np.asarray(levels[running - ids * levels.size])


class _Packed:
    """Tuples by (value, tick number), to count those of a value below a tick."""

    def __init__(self, ids: Points, ts: Points, due: DueTicks, values: int):
        enter = due.first_above(ts)
        self._numbers = TickNumbers.of(due, enter, values)
        self._ids = ids * self._numbers.width + self._numbers.at(enter)
        self._starts = np.searchsorted(ids, np.arange(int(ids.max()) + 2 if ids.size else 1))

    def below(self, values: Points, ticks: Points) -> Points:
        """How many tuples of each value have a birth below the tick."""
        upto = np.searchsorted(self._ids, values * self._numbers.width + self._numbers.upto(ticks), "right")
        start = self._starts[np.minimum(values, self._starts.size - 1)]
        return np.asarray(np.maximum(upto - start, 0), np.int64)
