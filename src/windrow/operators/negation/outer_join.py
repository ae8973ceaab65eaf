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
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import EXP, TS
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
    tables = []
    for side, rows in ((left, mine), (right, theirs)):
        asked = [column.sql for column in condition_columns(node, side.schema)]
        table = side_table(rows, side.keys_of(rows, batch), asked)
        tables.append(table.append_column("touched", pa.array(is_touched(rows, batch.due))))
    shown = f"a.r AS a, b.r AS b, greatest(a.{ENTER}, b.{ENTER}) AS s, least(a.{LEAVE}, b.{LEAVE}) AS e"
    tests = " AND ".join(pair_tests(node, batch))
    # Two joins with a small side each: one with OR would make all pairs first.
    halves = ("a.touched", "b.touched AND NOT a.touched")
    sql = " UNION ALL ".join(f"SELECT {shown} FROM a, b WHERE {half} AND {tests}" for half in halves)
    found = batch.kernel.query(sql, a=tables[0], b=tables[1])
    a, b = longs(found.column("a")), longs(found.column("b"))

    def both(name: str) -> tuple[np.ndarray, np.ndarray]:
        return longs(mine.column(name))[a], longs(theirs.column(name))[b]

    columns = {"r": pa.array(a)}
    for side, rows in ((left, taken(mine, a)), (right, taken(theirs, b))):
        columns |= {column.sql: rows.column(column.sql) for column in side.schema}
    shown_at = Intervals(np.arange(a.size), longs(found.column("s")), longs(found.column("e")))
    ends, births, counts = np.minimum(*both(EXP)), np.maximum(*both(TS)), np.multiply(*both(COUNT))
    names = [column.sql for column in node.schema]
    return changes_of(pa.table(columns), names, shown_at, ends, counts, births, batch.due).select(schema.names)


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
