"""Semi-join and anti-join: EXISTS, IN, NOT EXISTS and NOT IN (Golab's dissertation, section 2.2.2: negation).

With C(l) = ∪ [enter, leave) of the rows of R that match l, a union of intervals of ticks,

    L ⋉ R = {l at the ticks [enter, leave) of l ∩ C(l)}            with the exp of l
    L ▷ R = {l at the ticks [enter, leave) of l − C(l)}            with the exp of l

So a row comes when its first match comes (goes), and is withdrawn when its last one goes (the first one comes); one
that is shown until its own exp goes without a word.

In a batch, C(l) can change only where rows of R come or go. First the rows of R with the keys of all that comes and
goes on either side are made intervals, and those with equal keys (and columns of the condition) united: only the
united intervals that begin or end at a due tick concern rows of L that were there before. C(l) at the tick before the
batch follows from the same intervals, so what was shown need not be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.live import ENTER, LEAVE
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.negation.coverage import Intervals, gaps, united
from windrow.operators.negation.sides import Keys, Side, Wanted
from windrow.operators.tables.edges import COUNT, TICK, Edge
from windrow.operators.tables.kernel import naive, types_of
from windrow.operators.tables.pairing import JoinSide, key_numbers, new_results
from windrow.operators.tables.rows import longs, numbered, taken
from windrow.operators.ticks import EXP, TS, DueTicks, Points
from windrow.plan.algebra.nodes import OuterJoin, PlanColumn, SemiJoin, columns_in

KEY = "__k"


def semi_join(node: SemiJoin, left: Side, right: Side, batch: TickBatch) -> Outcome:
    """What comes and is withdrawn at all due ticks."""
    asked = Wanted.of(left.new_keys(batch), right.new_keys(batch), right.leaving_keys(batch))
    theirs = right.alive(asked, batch)
    matches = matching(node, right, theirs.rows, batch)
    mine = left.alive(Wanted.of(matches.changed_keys(batch.due), left.withdrawn_keys(batch)), batch)
    covered = coverage(node, left, mine.rows, matches, batch)
    shown = uncovered(mine.rows, covered) if node.is_anti else covered
    rows = shown_rows(mine.rows, shown, [column.sql for column in node.schema], batch.due)
    return Outcome(
        Edge(rows, node.schema, is_strict=True), {**mine.tables, **theirs.tables}, (*mine.parts, *theirs.parts)
    )


@dataclass(frozen=True)
class Matching:
    """What rows of one side look like to the other: keys, the columns of the condition after a first one that nothing
    reads, and united intervals."""

    keys: Keys
    columns: pa.Table
    start: Points
    end: Points

    def changed_keys(self, due: DueTicks) -> tuple[Keys, int]:
        """The keys of intervals that begin or end at a due tick."""
        changed = np.flatnonzero((self.start > due.before) | (self.end <= due.upto))
        return [key.take(pa.array(changed)) for key in self.keys], changed.size


def matching(node: SemiJoin | OuterJoin, side: Side, rows: pa.Table, batch: TickBatch) -> Matching:
    """The rows of a side, those that are alike to the other side as one. NULL keys that match nothing are left out."""
    keys = side.keys_of(rows, batch)
    usable = np.ones(rows.num_rows, bool)
    for key, safe in zip(keys, null_safe(node), strict=True):
        usable &= safe | np.asarray(key.is_valid())
    if not usable.all():
        rows, keys = taken(rows, usable), [key.filter(pa.array(usable)) for key in keys]
    asked = condition_columns(node, side.schema)
    columns = rows.select([ENTER, *(column.sql for column in asked)])
    enter, leave = longs(rows.column(ENTER)), longs(rows.column(LEAVE))
    if any(column.type.is_float or pa.types.is_nested(column.type.arrow) for column in asked):
        return Matching(keys, columns, enter, leave)  # −0.0 equals 0.0, and a condition may tell them apart
    ids, firsts = numbered([*keys, *columns.columns[1:]], rows.num_rows)
    found = united(Intervals(ids, enter, leave))
    at = firsts[found.owner]
    return Matching([key.take(pa.array(at)) for key in keys], taken(columns, at), found.start, found.end)


def null_safe(node: SemiJoin | OuterJoin) -> Sequence[bool]:
    """For each key, whether NULL equals NULL."""
    safe = node.null_safe if isinstance(node, SemiJoin) else ()
    return safe or [False] * len(node.keys)


def condition_columns(node: SemiJoin | OuterJoin, schema: Sequence[PlanColumn]) -> list[PlanColumn]:
    read = frozenset[str]() if node.condition is None else columns_in(node.condition)
    return [column for column in schema if column.sql in read]


def coverage(node: SemiJoin | OuterJoin, side: Side, rows: pa.Table, matches: Matching, batch: TickBatch) -> Intervals:
    """When each row of a side has a match, within the row's own interval."""
    if not (rows.num_rows and matches.start.size):
        none = np.zeros(0, np.int64)
        return Intervals(none, none, none)
    keys = side.keys_of(rows, batch)
    if node.condition is None and are_alike(keys, matches.keys):
        numbers = key_numbers([keys, matches.keys], null_safe(node))
        enter, leave = longs(rows.column(ENTER)), longs(rows.column(LEAVE))
        mine = JoinSide(numbers[0], enter, (leave,), 0)  # all rows are new, and no match is: each row meets all matches
        met = new_results([mine, JoinSide(numbers[1], matches.start, (matches.end,), matches.start.size)])
        return united(Intervals(met.rows[0], met.births, met.ends[0]))
    return _coverage_by_statement(node, rows, keys, matches, condition_columns(node, side.schema), batch)


def are_alike(keys: Keys, others: Keys) -> bool:
    """Whether there are keys, and those of both sides can be numbered together."""
    return bool(keys) and all(one.type == other.type for one, other in zip(keys, others, strict=True))


def _coverage_by_statement(
    node: SemiJoin | OuterJoin,
    rows: pa.Table,
    keys: Keys,
    matches: Matching,
    asked: Sequence[PlanColumn],
    batch: TickBatch,
) -> Intervals:
    """The same with a condition that SQL must evaluate."""
    mine = side_table(rows, keys, [column.sql for column in asked])
    theirs = pa.table(
        {f"{KEY}{k}": naive(key) for k, key in enumerate(matches.keys)}
        | {name: naive(matches.columns.column(name)) for name in matches.columns.column_names[1:]}
        | {ENTER: matches.start, LEAVE: matches.end}
    )
    shown = f"a.r AS r, greatest(a.{ENTER}, b.{ENTER}) AS s, least(a.{LEAVE}, b.{LEAVE}) AS e"
    found = batch.kernel.query(
        f"SELECT {shown} FROM a, b WHERE {' AND '.join(pair_tests(node, batch))}", a=mine, b=theirs
    )
    return united(Intervals(*(longs(found.column(name)) for name in ("r", "s", "e"))))


def side_table(rows: pa.Table, keys: Keys, asked: Sequence[str]) -> pa.Table:
    """What DuckDB reads of intervals: keys, the columns of the condition, the interval, and row numbers."""
    return pa.table(
        {f"{KEY}{k}": naive(key) for k, key in enumerate(keys)}
        | {name: naive(rows.column(name)) for name in (ENTER, LEAVE, *asked)}
        | {"r": np.arange(rows.num_rows)}
    )


def pair_tests(node: SemiJoin | OuterJoin, batch: TickBatch) -> list[str]:
    """What makes a row of table a and one of table b match, and be there at one tick."""
    tests = [
        f"a.{KEY}{k} {'IS NOT DISTINCT FROM' if safe else '='} b.{KEY}{k}" for k, safe in enumerate(null_safe(node))
    ]
    tests += [f"a.{ENTER} < b.{LEAVE}", f"b.{ENTER} < a.{LEAVE}"]
    if node.condition is not None:
        types = types_of(node.left.schema, node.right.schema)
        tests.append(f"({batch.kernel.final(node.condition, types).sql})")
    return tests


def uncovered(rows: pa.Table, covered: Intervals) -> Intervals:
    """When each row has no match, within its own interval."""
    return gaps(covered, longs(rows.column(ENTER)), longs(rows.column(LEAVE)))


def shown_rows(rows: pa.Table, shown: Intervals, names: Sequence[str], due: DueTicks) -> pa.Table:
    """Strict changes of rows that are shown at intervals, with their own exp. One that is shown from its first tick on
    keeps its birth."""
    enter, exp_, counts, births = (longs(rows.column(name))[shown.owner] for name in (ENTER, EXP, COUNT, TS))
    births = np.where(shown.start == enter, births, shown.start - 1)
    return changes_of(rows, names, shown, exp_, counts, births, due)


def changes_of(
    rows: pa.Table,
    names: Sequence[str],
    shown: Intervals,
    ends: Points,
    counts: Points,
    births: Points,
    due: DueTicks,
) -> pa.Table:
    """Strict changes: '+' where an interval begins at a due tick, '-' where one ends at a due tick before its exp. The
    owners are `rows`, of which it takes the columns `names`; the other arrays are by interval."""
    came = np.flatnonzero((shown.start > due.before) & (shown.start <= due.upto))
    went = np.flatnonzero((shown.end <= due.upto) & (shown.end < due.first_above(ends)))
    at = np.concatenate([came, went])
    ticks = np.concatenate([shown.start[came], shown.end[went]])
    head = {
        TICK: ticks,
        COUNT: np.concatenate([counts[came], -counts[went]]),
        TS: np.concatenate([births[came], shown.end[went] - 1]),
        EXP: ends[at],
    }
    found = taken(rows, shown.owner[at])
    return pa.table({**head, **{name: found.column(name) for name in names}})
