"""Duplicate elimination by the direct approach (Golab's dissertation, sections 2.2.2 and 3.5.2): it keeps its input and
its output, and scans both.

A new row looks for its value among the rows shown. When a row shown expires, the input is scanned for rows with its
value, of which the one that lives longest renews it. What is shown is what δ* shows (`distinct.py`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.distinct import NOT_SHOWN, chains, visible_rows
from windrow.operators.layouts.live import LEAVE
from windrow.operators.layouts.row_list import RowList
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.rows import appended, hashed, longs, normal, numbered, taken
from windrow.operators.ticks import EXP, TS, UNTIL, Points
from windrow.plan.algebra.nodes import Distinct

CAME = "/came"
"""The path of the input, after the operator's own, which is that of the rows shown."""


def direct_distinct(node: Distinct, edge: Edge, path: str, shown: RowList, came: RowList, batch: TickBatch) -> Outcome:
    """The rows that begin to show a value, and the renewals, of all due ticks."""
    due, names = batch.due, edge.names
    schema = pa.schema([(EXP, pa.int64()), (LEAVE, pa.int64()), *((c.sql, c.type.arrow) for c in node.schema)])
    rows = _normal(visible_rows(edge, due), names)
    rows = appended(rows, **{LEAVE: due.first_above(longs(rows.column(EXP)))})
    old = shown.rows(due.before, schema)
    ids, firsts = _numbered([old, rows], names)
    values = taken(pa.concat_tables([one.select(names) for one in (old, rows)]), firsts)
    ends = np.full(firsts.size, NOT_SHOWN, np.int64)
    ends[ids[: old.num_rows]] = longs(old.column(EXP))
    gone = ids[: old.num_rows][longs(old.column(LEAVE)) <= due.upto]
    youngest = _youngest(came, values, gone, due.before, schema)
    births, exps = longs(rows.column(TS)), longs(rows.column(EXP))
    made = chains(ids[old.num_rows :], births, exps, ends, youngest, due)
    lifetime = {TS: made.ts, EXP: made.exp} | ({UNTIL: made.exp} if batch.has_until else {})
    out = pa.table(lifetime | {name: values.column(name).take(pa.array(made.value)) for name in names})
    leave = due.first_above(made.shown)
    fresh = np.flatnonzero((made.shown != ends) & (made.shown != NOT_SHOWN) & (leave > due.upto))
    more = appended(taken(values, fresh), **{EXP: made.shown[fresh], LEAVE: leave[fresh]}).select(schema.names)
    kept = taken(rows, longs(rows.column(LEAVE)) > due.upto).select(schema.names)
    return Outcome(
        Edge(out, node.schema),
        {
            path: shown.appended(more).settled(due.upto),
            path + CAME: came.appended(kept).settled(due.upto),
        },
        (*shown.cut(path, more), *came.cut(path + CAME, kept)),
    )


def _normal(rows: pa.Table, names: list[str]) -> pa.Table:
    """Rows whose values are written in one way (−0.0 as 0.0)."""
    for name in names:
        rows = rows.set_column(rows.column_names.index(name), name, normal(rows.column(name)))
    return rows


def _numbered(tables: list[pa.Table], names: list[str]) -> tuple[Points, Points]:
    """The number of each row's value, and the first row of each value."""
    both = pa.concat_tables([table.select(names) for table in tables])
    return numbered([both.column(name) for name in names], both.num_rows)


def _youngest(came: RowList, values: pa.Table, wanted: Points, before: int, schema: pa.Schema) -> Points:
    """By value, the latest exp of the input's rows with one of the wanted values."""
    out, names = np.full(values.num_rows, NOT_SHOWN, np.int64), values.column_names
    if not wanted.size:
        return out
    asked, rows = taken(values, wanted), came.rows(before, schema)
    mine, theirs = (hashed([t.column(name) for name in names], t.num_rows) for t in (rows, asked))
    rows = taken(rows, np.isin(mine, theirs))
    ids, firsts = _numbered([asked, rows], names)
    latest = np.full(firsts.size, NOT_SHOWN, np.int64)
    np.maximum.at(latest, ids[asked.num_rows :], longs(rows.column(EXP)))
    out[wanted] = latest[ids[: asked.num_rows]]
    return out
