"""Outer joins.

    L ⟕ R = (L ⋈ R) ∪ {l ∘ NULL at the ticks at which l has no match}

and the same for the right side where it is kept. A pair lives at the ticks at which both its rows do, and expires at
the earlier exp; a row without a match has its own exp. What comes and goes with a row of the kept side itself needs no
word; what its matches bring and take away is withdrawn.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.live import ENTER, LEAVE, is_touched
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.negation.coverage import Intervals
from windrow.operators.negation.semi_join import (
    are_alike,
    changes_of,
    condition_columns,
    coverage,
    matching,
    pair_tests,
    shown_rows,
    side_table,
    uncovered,
)
from windrow.operators.negation.sides import Side, Wanted
from windrow.operators.tables.edges import COUNT, Edge, strict_schema
from windrow.operators.tables.pairing import JoinSide, key_numbers, touched_results
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import EXP, TS, Points
from windrow.plan.algebra.nodes import OuterJoin


def outer_join(node: OuterJoin, left: Side, right: Side, batch: TickBatch) -> Outcome:
    """What comes and is withdrawn at all due ticks."""
    asked = [left.new_keys(batch), right.new_keys(batch)]
    asked += [right.leaving_keys(batch)] if node.keeps_left else []
    asked += [left.leaving_keys(batch)] if node.keeps_right else []
    wanted = Wanted.of(*asked)
    mine, theirs = left.alive(wanted, batch), right.alive(wanted, batch)
    found = [_pairs(node, left, right, mine.rows, theirs.rows, batch)]
    if node.keeps_left:
        found.append(_alone(node, left, right, mine.rows, theirs.rows, batch))
    if node.keeps_right:
        found.append(_alone(node, right, left, theirs.rows, mine.rows, batch))
    edge = Edge(pa.concat_tables(found), node.schema, is_strict=True)
    return Outcome(edge, {**mine.tables, **theirs.tables}, (*mine.parts, *theirs.parts))


def _pairs(node: OuterJoin, left: Side, right: Side, mine: pa.Table, theirs: pa.Table, batch: TickBatch) -> pa.Table:
    """The changes of the inner join: of pairs of which a row comes or is withdrawn."""
    schema = strict_schema(node.schema)
    if not (mine.num_rows and theirs.num_rows):
        return schema.empty_table()
    a, b, start, end = _met(node, left, right, mine, theirs, batch)

    def both(name: str) -> tuple[np.ndarray, np.ndarray]:
        return longs(mine.column(name))[a], longs(theirs.column(name))[b]

    columns = {"r": pa.array(a)}
    for side, rows in ((left, taken(mine, a)), (right, taken(theirs, b))):
        columns |= {column.sql: rows.column(column.sql) for column in side.schema}
    shown_at = Intervals(np.arange(a.size), start, end)
    ends, births, counts = np.minimum(*both(EXP)), np.maximum(*both(TS)), np.multiply(*both(COUNT))
    names = [column.sql for column in node.schema]
    return changes_of(pa.table(columns), names, shown_at, ends, counts, births, batch.due).select(schema.names)


def _met(
    node: OuterJoin, left: Side, right: Side, mine: pa.Table, theirs: pa.Table, batch: TickBatch
) -> tuple[Points, Points, Points, Points]:
    """The rows of both sides that match, of which one is touched, and the ticks that they have in common."""
    sides = ((left, mine), (right, theirs))
    keys, touched = [side.keys_of(rows, batch) for side, rows in sides], [is_touched(r, batch.due) for _, r in sides]
    if node.condition is None and are_alike(*keys):
        lives = [[longs(rows.column(name)) for name in (ENTER, LEAVE)] for _, rows in sides]
        numbers = key_numbers(keys)
        of_sides = zip(numbers, lives, strict=True)
        met = touched_results([JoinSide(own, enter, (leave,), 0) for own, (enter, leave) in of_sides], touched)
        return met.rows[0], met.rows[1], met.births, met.ends[0]
    tables = []
    for (side, rows), own, is_changed in zip(sides, keys, touched, strict=True):
        table = side_table(rows, own, [column.sql for column in condition_columns(node, side.schema)])
        tables.append(table.append_column("touched", pa.array(is_changed)))
    shown = f"a.r AS a, b.r AS b, greatest(a.{ENTER}, b.{ENTER}) AS s, least(a.{LEAVE}, b.{LEAVE}) AS e"
    tests = " AND ".join(pair_tests(node, batch))
    # Two joins with a small side each: one with OR would make all pairs first.
    halves = ("a.touched", "b.touched AND NOT a.touched")
    sql = " UNION ALL ".join(f"SELECT {shown} FROM a, b WHERE {half} AND {tests}" for half in halves)
    found = batch.kernel.query(sql, a=tables[0], b=tables[1])
    a, b, start, end = (longs(found.column(name)) for name in ("a", "b", "s", "e"))
    return a, b, start, end


def _alone(node: OuterJoin, kept: Side, other: Side, rows: pa.Table, others: pa.Table, batch: TickBatch) -> pa.Table:
    """The changes of rows of a kept side without a match, with NULL for the other side."""
    matches = matching(node, other, others, batch)
    changed = Wanted.of(matches.changed_keys(batch.due))
    rows = taken(rows, is_touched(rows, batch.due) | kept.has_keys(rows, changed, batch))
    covered = coverage(node, kept, rows, matches, batch)
    found = shown_rows(rows, uncovered(rows, covered), [column.sql for column in kept.schema], batch.due)
    for column in other.schema:
        found = found.append_column(column.sql, pa.nulls(found.num_rows, column.type.arrow))
    return found.select(strict_schema(node.schema).names)
