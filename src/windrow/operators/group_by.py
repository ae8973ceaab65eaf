"""Group-by with aggregates, replaced in place (Golab's dissertation, section 3.5.2).

    γ(R)(b) = one row per group of {r ∈ R : r.ts < b ≤ r.exp}, and one row without keys

A row enters at the first tick above its ts and is gone at the first tick above its exp, so a group changes only at such
ticks. State per group: sums of integers, to which what comes is added and from which what goes is taken; the values
shown; and a calendar of cells, the merged rows of a group that go at one tick. For aggregates that cannot be subtracted
cells also tell when (and with which value) rows came, and a touched group is merged from them anew. All due ticks and
all aggregates are done in one pass.

Over strict input, what is withdrawn is taken away, too, and its cell goes into the calendar with the opposite sign;
aggregates that cannot be subtracted are computed from the rows that are alive (`strict/group_by.py`).

A changed group gives its old row with COUNT −1 and its new row with COUNT 1 at the tick; values are compared as shown.
A new row counts the sums in it that are NULL because they do not fit.
Over INTERNAL windows rows are only ever added (section 3.3.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.operators.grouping.calls import ENTER, GROUP, LEAVE, PRESENCE, GroupCalls, calls_of
from windrow.operators.grouping.cells import cells_of, merged, negated, states_of, touched
from windrow.operators.grouping.slots import CellRanges, Slots, columns_at, recomputed_totals, running_totals
from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.tables.edges import COUNT, TICK, Edge, forever, made_at, repeated, strict_schema
from windrow.operators.tables.rows import longs, normal, numbered, run_lasts, same, taken
from windrow.operators.ticks import EXP, NEVER, TS, DueTicks, Points
from windrow.plan.algebra.nodes import GroupBy
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.cells import to_columns
from windrow.synopses.cells.chunks import States

CELLS = "/cells"
"""The path of the calendar, after the operator's own, which is that of the groups."""


def group_by(
    node: GroupBy, edge: Edge, path: str, groups: Keyed, calendar: Calendar, batch: TickBatch, is_internal: bool
) -> Outcome:
    """The groups that change at the due ticks. Over strict input the aggregates must be subtractable."""
    calls, due = calls_of(node), batch.due
    new = _new_cells(calls, edge, groups, batch)
    going = calendar.between(due.before, due.upto, calls.cell_schema)

    def every(numbers: Points) -> pa.Table:
        kept = touched(calendar.rows(due.before, calls.cell_schema), numbers)
        return pa.concat_tables([kept, new.cells.select(calls.cell_schema.names)])

    going = _not_withdrawn(calls, going) if edge.is_strict else going
    done = grouped(calls, path, groups, CellFlow(new, going, every), batch, is_internal)
    leave = longs(new.cells.column(LEAVE))
    # Totals need only cells that leave.
    stays = merged(calls, taken(new.cells, (leave > due.upto) & ((leave < NEVER) | (not calls.is_running))))
    tables = {**done.tables, path + CELLS: calendar.appended(stays).settled(due.upto)}
    return Outcome(done.edge, tables, (*done.parts, *calendar.cut(path + CELLS, stays)))


@dataclass(frozen=True)
class CellFlow:
    """The cells that come in a batch, those that were there and go, and all cells of groups, by their numbers.

    `in_order`: all cells come in an order that depends on their values alone.
    """

    new: NewCells
    going: pa.Table
    every: Callable[[Points], pa.Table]
    in_order: bool = False


def grouped(
    calls: GroupCalls, path: str, groups: Keyed, flow: CellFlow, batch: TickBatch, is_internal: bool
) -> Outcome:
    """The groups that change as cells come and go."""
    node, due = calls.node, batch.due
    held = _held_groups(calls, groups, flow.new, flow.going, due)
    slots = _slots(flow.new, flow.going, held, due)
    if not slots.group.size:
        return Outcome(_nothing(node, batch, is_internal))
    ranges = None
    totals = _totals(calls, slots, held, flow.new, flow.going)
    if not calls.is_running:
        every = flow.every(held.numbers)
        ranges = CellRanges.of(slots, every, held.index(longs(every.column(GROUP))), flow.in_order)
        totals |= recomputed_totals(calls.recomputed, ranges, slots.group.size)
    columns, unfit = columns_at(calls, totals, ranges, slots.group.size)
    shown = pa.table(columns, [a.column.sql for a in node.aggregates])
    present = totals[PRESENCE][0] > 0 if node.keys else np.ones(slots.group.size, bool)
    changes, into = _changes(slots, shown, present, held, node)
    rows, gone, replaced = _after(calls, slots, totals, shown, present, held)
    out = _only_added(node, changes, batch) if is_internal else Edge(changes, node.schema, is_strict=True)
    out = replace(out, overflows=int(unfit[into].sum()))
    parts = groups.cut(path, gone_rows(rows, gone), due.before, due.upto)
    return Outcome(out, {path: groups.put(rows, replaced)}, tuple(parts))


def _not_withdrawn(calls: GroupCalls, going: pa.Table) -> pa.Table:
    """Cells without those whose rows were all withdrawn before; their group may be gone."""
    cells = merged(calls, going)
    return taken(cells, states_of([PRESENCE], cells)[PRESENCE][0] > 0)


def _only_added(node: GroupBy, changes: pa.Table, batch: TickBatch) -> Edge:
    added = taken(changes, longs(changes.column(COUNT)) > 0)
    return Edge(forever(added, longs(added.column(TICK)), node.schema, batch.has_until), node.schema)


def _nothing(node: GroupBy, batch: TickBatch, is_internal: bool) -> Edge:
    empty = strict_schema(node.schema).empty_table()
    return _only_added(node, empty, batch) if is_internal else Edge(empty, node.schema, is_strict=True)


@dataclass(frozen=True)
class NewCells:
    """The cells of the new rows, and the groups that they are of: number, keys, and row in the state (−1: fresh)."""

    cells: pa.Table
    numbers: Points
    keys: pa.Table
    at: Points


def _new_cells(calls: GroupCalls, edge: Edge, groups: Keyed, batch: TickBatch) -> NewCells:
    """The cells of rows that come. Strict changes are signed: what is withdrawn is taken away at its tick, and its
    tombstone, at the tick of its end, from what is taken away there."""
    due = batch.due
    if not edge.is_strict:
        enter, leave = (due.first_above(longs(edge.rows.column(name))) for name in (TS, EXP))
        seen = enter < leave
        rows, enter, leave = taken(edge.rows, seen), enter[seen], leave[seen]
        named = numbered_groups(calls, rows, groups)
        return named.of(cells_of(calls, rows, named.of_rows, enter, leave, batch.kernel))
    counts = longs(edge.rows.column(COUNT))
    rows = repeated(edge.rows, np.abs(counts))
    goes = longs(rows.column(COUNT)) < 0
    enter, leave = longs(rows.column(TICK)), due.first_above(longs(rows.column(EXP)))
    named = numbered_groups(calls, rows, groups)
    signed = []
    for mine in (~goes, goes):
        some = cells_of(calls, taken(rows, mine), named.of_rows[mine], enter[mine], leave[mine], batch.kernel)
        signed.append(some if mine is not goes else negated(calls, some))
    return named.of(pa.concat_tables(signed))


@dataclass(frozen=True)
class NumberedGroups:
    """The groups of rows: number, keys and row in the state of each, and the number of each row's."""

    numbers: Points
    keys: pa.Table
    at: Points
    of_rows: Points

    def of(self, cells: pa.Table) -> NewCells:
        return NewCells(cells, self.numbers, self.keys, self.at)


def numbered_groups(calls: GroupCalls, rows: pa.Table, groups: Keyed) -> NumberedGroups:
    """Those of the state keep their numbers, fresh ones get the next."""
    keys = [normal(rows.column(name)) for name in calls.key_names]
    ids, firsts = numbered(keys, rows.num_rows)
    if not keys:  # the one group of an ungrouped query, which is there without rows, too
        firsts = np.zeros(1, np.int64)
    unique = [key.take(pa.array(firsts)) for key in keys]
    at = groups.find(unique, firsts.size)
    numbers = np.empty(firsts.size, np.int64)
    held = at >= 0
    numbers[held] = longs(groups.take(at[held], calls.group_schema).column(GROUP))
    numbers[~held] = _next(groups) + np.arange(int((~held).sum()))
    return NumberedGroups(numbers, pa.table(unique, calls.key_names) if unique else _no_keys(1), at, numbers[ids])


def _no_keys(rows: int) -> pa.Table:
    return pa.table({"__none": np.zeros(rows, np.int8)})


def _next(groups: Keyed) -> int:
    """A number above those of all groups."""
    return max((int(longs(level.rows.column(GROUP)).max()) for level in groups.levels), default=-1) + 1


@dataclass(frozen=True)
class _Held:
    """The groups that the batch touches, by ascending number: their rows in the state, if any, and their keys."""

    numbers: Points
    at: Points
    rows: pa.Table  # of those with at ≥ 0, in their order
    keys: pa.Table

    def index(self, numbers: Points) -> Points:
        return np.searchsorted(self.numbers, numbers)

    def base(self, calls: GroupCalls) -> States:
        """The totals before the batch; zero for groups that were not there."""
        held = np.flatnonzero(self.at >= 0)
        out: States = {}
        for a, state in states_of(calls.running, self.rows).items():
            columns = []
            for column in state:
                wide = np.zeros(self.at.size, np.int64)
                wide[held] = column
                columns.append(wide)
            out[a] = tuple(columns)
        return out


def _held_groups(calls: GroupCalls, groups: Keyed, new: NewCells, going: pa.Table, due: DueTicks) -> _Held:
    numbers = np.unique(np.concatenate([new.numbers, longs(going.column(GROUP))]))
    at = np.full(numbers.size, -1, np.int64)
    mine = np.searchsorted(numbers, new.numbers)
    others = np.ones(numbers.size, bool)
    others[mine] = False
    at[mine] = new.at
    at[others] = groups.find_numbers(GROUP, numbers[others])
    rows = groups.take(at[at >= 0], calls.group_schema)
    if not calls.key_names:
        return _Held(numbers, at, rows, _no_keys(numbers.size))
    # The keys of fresh groups come from the batch, those of others from the state.
    both = pa.concat_tables([rows.select(calls.key_names), new.keys.select(calls.key_names)])
    place = np.empty(numbers.size, np.int64)
    place[at >= 0] = np.arange(rows.num_rows)
    fresh = np.flatnonzero(new.at < 0)
    place[mine[fresh]] = rows.num_rows + fresh
    return _Held(numbers, at, rows, taken(both, place))


def _slots(new: NewCells, going: pa.Table, held: _Held, due: DueTicks) -> Slots:
    """The groups and ticks at which rows come or go; and the first tick of an ungrouped aggregate."""
    pairs = [
        (new.cells.column(GROUP), new.cells.column(ENTER)),
        (going.column(GROUP), going.column(LEAVE)),
        (new.cells.column(GROUP), new.cells.column(LEAVE)),
    ]
    of, ticks = [held.index(longs(group)) for group, _ in pairs], [longs(tick) for _, tick in pairs]
    soon = ticks[2] <= due.upto
    of[2], ticks[2] = of[2][soon], ticks[2][soon]
    if "__none" in held.keys.column_names and (held.at < 0).any():
        of.append(np.zeros(1, np.int64))
        ticks.append(np.array([due.before + due.step]))
    return Slots.of(of, ticks, held.numbers.size, due)


def _totals(calls: GroupCalls, slots: Slots, held: _Held, new: NewCells, going: pa.Table) -> States:
    leave = longs(new.cells.column(LEAVE))
    soon = taken(new.cells, leave <= slots.due.upto)
    names = going.column_names
    went = pa.concat_tables([going, soon.select(names)])
    return running_totals(
        slots,
        held.base(calls),
        states_of(calls.running, new.cells),
        slots.at(held.index(longs(new.cells.column(GROUP))), longs(new.cells.column(ENTER))),
        states_of(calls.running, went),
        slots.at(held.index(longs(went.column(GROUP))), longs(went.column(LEAVE))),
    )


def _changes(slots: Slots, shown: pa.Table, present: Mask, held: _Held, node: GroupBy) -> tuple[pa.Table, Points]:
    """What each slot withdraws and adds, compared with the row of its group before it; and the slots that add."""
    names = shown.column_names
    old = np.flatnonzero(held.at >= 0)
    both = pa.concat_tables([held.rows.select(names), shown]).combine_chunks() if names else None
    row_of = np.full(held.at.size, -1, np.int64)
    row_of[old] = np.arange(old.size)
    count = slots.group.size
    previous = np.arange(count) + old.size - 1
    starts = slots.starts
    previous[starts] = row_of[slots.group[starts]]
    there = np.concatenate([np.ones(old.size, bool), present])
    was = (previous >= 0) & there[np.maximum(previous, 0)]
    is_same = was & present
    pair = np.flatnonzero(is_same)
    if both is not None and pair.size:
        now, before = pa.array(pair + old.size), pa.array(previous[pair])
        is_same[pair] = same([c.take(now) for c in both.columns], [c.take(before) for c in both.columns], pair.size)
    out, into = np.flatnonzero(was & ~is_same), np.flatnonzero(present & ~is_same)
    at = np.concatenate([out, into])
    keys = taken(held.keys, slots.group[at])
    columns = {key.sql: keys.column(key.sql) for key in node.keys}
    if both is not None:
        values = taken(both, np.concatenate([previous[out], into + old.size]))
        columns |= {name: values.column(name) for name in names}
    return made_at(pa.table(columns), slots.tick[at], np.repeat((-1, 1), (out.size, into.size))), into


def _after(
    calls: GroupCalls, slots: Slots, totals: States, shown: pa.Table, present: Mask, held: _Held
) -> tuple[pa.Table, pa.Table, Points]:
    """The rows of the groups with a slot after the batch, of those that are gone, and their places in the state."""
    ends = run_lasts(slots.starts, slots.group.size)
    group = slots.group[ends]
    columns: dict[str, pa.Array] = {name: held.keys.column(name).take(pa.array(group)) for name in calls.key_names}
    columns[GROUP] = pa.array(held.numbers[group])
    for a in calls.running:
        columns |= to_columns(a, tuple(column[ends] for column in totals[a]))
    columns |= {name: shown.column(name).take(pa.array(ends)) for name in shown.column_names}
    after = pa.table(columns).select(calls.group_schema.names).cast(calls.group_schema)
    stays, replaced = present[ends], held.at[group]
    return taken(after, stays), taken(after, ~stays & (replaced >= 0)), replaced
