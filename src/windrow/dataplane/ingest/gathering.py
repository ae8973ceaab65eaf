"""Pre-aggregation in the driver: the columns that the synopses need, gathered as Arrow and grouped in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.dataplane.ingest import arrival
from windrow.dataplane.ingest.admission import (
    Admission,
    advances,
    on_time,
    point_columns,
    tagged,
    unjudged_sql,
)
from windrow.dataplane.ingest.bad_text import text_columns
from windrow.dataplane.ingest.deposit import (
    OVERSIZED,
    DeadLetter,
    Deposit,
    Mask,
    mask_of,
    oversized_in,
    picked_rows,
    seen_by_key,
)
from windrow.dataplane.ingest.grouping import Grouping, progress_columns
from windrow.dataplane.kernels import KeepRequest
from windrow.dataplane.stores import ARRIVAL
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import RANK_COLUMN, ROW_NUM
from windrow.synopses.cells.cells import fold_of, state_of_rows
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.distinct import distinct_below, distinct_in_runs
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.ranks import Ranks
from windrow.windows import Points, Seen

# -- what Spark computes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class GatheredColumns:
    """Names of gathered columns, by Spark expression: `values`, and `conditions`, in which NULL is false."""

    values: Mapping[str, str]
    conditions: Mapping[str, str]

    def select(self, bounded: Callable[[str], str] = str) -> list[str]:
        """The columns, as Spark computes them; `bounded` adds guards to an expression."""
        values = [f"{bounded(sql)} AS {name}" for sql, name in self.values.items()]
        return values + [f"coalesce({bounded(sql)}, false) AS {name}" for sql, name in self.conditions.items()]


def gathered_columns(groupings: Sequence[Grouping], keeping: KeepRequest | None = None) -> GatheredColumns:
    """Everything that the groupings and the window stores need of a row.

    Expressions of row numbers and ranks are left out: these are known only once rows have been admitted.
    """
    values: dict[str, str] = {}
    conditions: dict[str, str] = {}
    for grouping in groupings:
        plain = [a for a in grouping.accumulators if a.arg != RANK_COLUMN and a.every_n is None]
        for sql in (*(key.sql for key in grouping.keys), *(a.arg for a in plain)):
            if sql is not None:
                values.setdefault(sql, f"__v{len(values)}")
        for sql in (grouping.qualifies, *(a.condition for a in plain)):
            if sql is not None:
                conditions.setdefault(sql, f"__if{len(conditions)}")
    for column in () if keeping is None else (one for one in keeping.columns if one != ARRIVAL):
        values.setdefault(column.sql, f"__v{len(values)}")
    return GatheredColumns(values, conditions)


def gather_columns(
    df: DataFrame,
    stream: StreamDef,
    groupings: Sequence[Grouping],
    admission: Admission,
    carry_records: bool,
    oversized: Sequence[str] = (),
    keeping: KeepRequest | None = None,
) -> DataFrame:
    """Just the columns that synopses and window stores need, a row per tuple; with `oversized` as in `grouped`.

    Where records are not carried, `judged` adds the reason in the driver: two columns and four tests fewer per
    row in Spark (measured: 0.145 s instead of 0.19 s for 500,000 rows).
    """
    points = list(point_columns(stream).values())
    bounds = [*(g.bounded for g in groupings[:1]), *(() if keeping is None else (keeping.bounded,))]
    columns = gathered_columns(groupings, keeping).select(*bounds[:1])
    columns += [f"{sql} AS {OVERSIZED}{i}" for i, sql in enumerate(oversized)]
    columns += [f"{sql} AS {name}" for name, sql in progress_columns(stream) if sql not in points]
    if any(g.needs_order for g in groupings) or (keeping is not None and keeping.needs_order):
        order = arrival.order_columns(df.columns, stream.statement.sequence_by)
        columns += [f"{sql} AS {arrival.ORDER}{i}" for i, sql in enumerate(order)]
    if not carry_records:
        return df.selectExpr(*unjudged_sql(df, stream, admission), *columns)
    return tagged(df, stream, admission, carry_records).selectExpr("__reason", "__record", *points, *columns)


def plain_texts(
    stream: StreamDef, groupings: Sequence[Grouping], oversized: Sequence[str], keeping: KeepRequest | None
) -> list[str] | None:
    """The gathered columns with the stream's texts, if all of these are gathered as they came. None if one is not, or
    if another expression may read one: an expression must not meet a text that is not UTF-8."""
    columns, texts = gathered_columns(groupings, keeping), [_bare(text) for text in text_columns(stream)]
    as_they_came = {_bare(sql): name for sql, name in columns.values.items()}
    read = [*(sql for sql in as_they_came if sql not in texts), *columns.conditions, *oversized]
    read += [*(sql for _, sql in progress_columns(stream)), stream.statement.sequence_by or ""]
    if any(text not in as_they_came for text in texts):
        return None
    if any(text in sql.lower() for text in texts for sql in read):
        return None
    return [as_they_came[text] for text in texts]


def _bare(sql: str) -> str:
    """A column without its quotes, in lower case. No other expression becomes a name by that."""
    return sql.strip("`").lower()


# -- what the driver does with it --------------------------------------------------------------------


def deposit_of_rows(
    table: pa.Table,
    stream: StreamDef,
    groupings: Sequence[Grouping],
    groups: Sequence[Groups],
    admission: Admission | None = None,
    ranks: Mapping[int, Ranks] | None = None,
) -> Deposit:
    """The deposit of a judged table made by `gather_columns`. `ranks` are those of the partitioned synopses, by id."""
    admission = admission or Admission(())
    is_dead = mask_of(pc.is_valid(table.column("__reason")))
    dead: tuple[DeadLetter, ...] = ()
    if is_dead.any():
        known = "__t0" if stream.punctuated else None
        rows = picked_rows(table, is_dead, ("__reason", "__record", *([known] if known else [])))
        dead = tuple(DeadLetter(r["__reason"], r["__record"], r.get(known or ""), 1) for r in rows)
        table = table.filter(pa.array(~is_dead))
    if table.num_rows == 0:
        return Deposit({}, dead, 0, {}, {})
    points = {p.column: _column(table, f"__t{i}").to_numpy() for i, p in enumerate(stream.punctuated)}
    seen = _seen(table, stream, points, admission)
    if any(g.needs_order for g in groupings):
        points[ROW_NUM] = arrival.numbers(table) + admission.rows_before
    names = gathered_columns(groupings)
    cells = {
        grouping.synopsis: _RowGrouping(table, points, grouping, names).cells(
            groups[g], (ranks or {}).get(grouping.synopsis)
        )
        for g, grouping in enumerate(groupings)
    }
    least = {c: int(points[c].min()) for c in seen if c in points}
    return Deposit(cells, dead, table.num_rows, least, seen, oversized_in(table))


def _seen(table: pa.Table, stream: StreamDef, points: Mapping[str, Points], admission: Admission) -> dict[str, Seen]:
    """What was seen on each axis."""
    on_time_mask, moves = on_time(points, admission), advances(points, admission)
    seen = {}
    for i, p in enumerate(stream.punctuated):
        moving = points[p.column][moves[p.column]] if moves else points[p.column]
        seen[p.column] = _seen_on(p, points[p.column], moving, on_time_mask, table, i)
    seen[ROW_NUM] = Seen(rows=table.num_rows)
    return seen


def _seen_on(p: Punctuated, points: Points, moving: Points, on_time_mask: Mask | None, table: pa.Table, i: int) -> Seen:
    """What was seen on one punctuated column; `moving` are the points that may move its frontier."""
    greatest = int(moving.max()) if moving.size else None
    if p.key is not None:
        by_key = pa.table({"key": table.column(f"__seen{i}"), "t": points})
        if on_time_mask is not None:
            by_key = by_key.filter(pa.array(on_time_mask))
        by_key = by_key.group_by("key").aggregate([("t", "max")])
        return seen_by_key(greatest, zip(by_key["key"].to_pylist(), by_key["t_max"].to_pylist(), strict=True))
    if p.slack_rows is not None:
        return Seen(greatest, top=tuple(np.sort(moving)[::-1][: p.slack_rows + 1].tolist()))
    return Seen(greatest)


class _RowGrouping:
    """Gathered rows, grouped by (pane, group) for one synopsis."""

    def __init__(self, table: pa.Table, points: Mapping[str, Points], grouping: Grouping, names: GatheredColumns):
        self._table = table
        self._points = points[grouping.axis]
        self._rows = points.get(ROW_NUM)
        self._grouping = grouping
        self._names = names

    def _value(self, sql: str) -> pa.Array:
        return _column(self._table, self._names.values[sql])

    def _condition(self, sql: str | None) -> Mask | None:
        return None if sql is None else mask_of(_column(self._table, self._names.conditions[sql]))

    def _counting(self, a: Accumulator) -> Mask | None:
        """The rows that count by the accumulator's condition; None: all do."""
        if a.every_n is None:
            return self._condition(a.condition)
        assert self._rows is not None
        return np.asarray(self._rows % a.every_n == 0)

    def cells(self, groups: Groups, ranks: Ranks | None) -> Cells:
        grouping = self._grouping
        keys = [self._value(key.sql) for key in grouping.keys]
        if ranks is not None:
            self._points = ranks.number(keys[: grouping.partition], self._points)
        panes, pane_of = distinct_in_runs(grouping.schedule.pane_starts(self._points))
        qualifies = self._condition(grouping.qualifies)
        nobody = np.zeros(self._points.size, bool) if qualifies is None else ~qualifies
        ids = groups.ids(keys, nobody)
        width = groups.count
        slots, cell_of = distinct_below(pane_of * width + ids, panes.size * width)
        states = {a: self._state(a, cell_of, slots.size) for a in grouping.accumulators}
        return Cells(panes[slots // width], slots % width, states)

    def _state(self, a: Accumulator, cell_of: npt.NDArray[np.int64], size: int) -> tuple[npt.NDArray[np.generic], ...]:
        mask = self._counting(a)
        values = None if a.arg is None else pa.array(self._points) if a.arg == RANK_COLUMN else self._value(a.arg)
        if values is not None and values.null_count:
            valid = mask_of(pc.is_valid(values))
            mask = valid if mask is None else mask & valid
        if mask is not None and not mask.all():
            cell_of = cell_of[mask]
            values = None if values is None else values.filter(pa.array(mask))
        fold = fold_of(a)
        out = fold.identity(size)
        fold.scatter_into(out, cell_of, state_of_rows(a, values, cell_of.size))
        return out


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
