"""Pre-aggregation by Spark: one group-by for all synopses of a stream, and its table read back as a deposit.

It never grows with the number of queries, only with the distinct accumulators and groupings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.cql.statements import Policy
from windrow.dataplane.ingest import arrival
from windrow.dataplane.ingest.admission import (
    Admission,
    advances_sql,
    bound_sql,
    on_time_sql,
    point_columns,
    tagged,
)
from windrow.dataplane.ingest.deposit import (
    OVERSIZED,
    DeadLetter,
    Deposit,
    mask_of,
    oversized_in,
    picked_rows,
    seen_by_key,
)
from windrow.dataplane.ingest.grouping import Grouping, partial_columns, progress_columns
from windrow.dataplane.ingest.keeping import in_order, keep_aside, needed_columns
from windrow.dataplane.ingest.packing import copies, packing_of
from windrow.dataplane.ingest.ranks import Ranking, nothing_known, rank_column, ranked
from windrow.dataplane.kernels import REPORT, CellColumns, KeepRequest
from windrow.plan.nodes import ROW_NUM
from windrow.synopses.cells.cells import partial_sql
from windrow.synopses.cells.groups import Groups
from windrow.windows import Seen

_DEAD = ("__reason", "__record", "__dead_t")
"""Every grouping set groups by these too: a row for each distinct dead letter."""

MOST_GROUPING_COLUMNS = 64
"""The most columns of GROUPING SETS in Spark: the bits of grouping_id()."""


def grouped(
    df: DataFrame,
    stream: StreamDef,
    groupings: Sequence[Grouping],
    admission: Admission,
    carry_records: bool,
    counts: Mapping[int, pa.Table],
    oversized: Sequence[str] = (),
    keeping: KeepRequest | None = None,
) -> DataFrame:
    """One row per (grouping, pane, group) and one per distinct dead letter.

    Policies that need more than the greatest point (PER key, SLACK in rows) have a grouping set of their own.
    `counts`: by synopsis, how many tuples each partition of a partitioned window has had (`Ranks.known`).
    `oversized`: how many values of a row are NULL by the bound on values, to be added up. `keeping`: what the tasks
    write of the rows for continuous plans, before they are grouped.
    """
    rows = tagged(df, stream, admission, carry_records)
    if keeping is not None:
        rows = in_order(df, rows, stream, keeping)
        rows = keep_aside(rows, stream, keeping, needed_columns(df.columns, stream, groupings, oversized))
    if oversized:
        rows = rows.selectExpr("*", *(f"{_alive(None, sql)} AS {OVERSIZED}{i}" for i, sql in enumerate(oversized)))
    rows = _ordered(df, rows, stream, groupings, admission.rows_before, counts)
    extras = [F.count(F.lit(1)).alias("__n"), *_seen_aggregates(stream, admission)]
    extras += [F.sum(f"{OVERSIZED}{i}").alias(f"{OVERSIZED}{i}") for i in range(len(oversized))]
    extras += [] if keeping is None else [F.max(REPORT).alias(REPORT)]
    progress = [(name, _alive(None, sql)) for name, sql in progress_columns(stream, admission)]
    if is_packed(groupings, len(progress)):
        return _grouped_packed(rows, stream, groupings, progress, extras)
    sets = [_set_columns(stream, grouping, g, _own_columns(groupings, g, None)) for g, grouping in enumerate(groupings)]
    sets += [{name: sql} for name, sql in progress]
    rows = rows.selectExpr("*", *(f"{sql} AS {name}" for columns in sets for name, sql in columns.items()))
    if len(sets) > 1 and any(grouping.is_sketched for grouping in groupings):
        return _grouped_each(rows, sets, groupings, extras)
    partials = [F.expr(sql).alias(name) for name, sql in partial_columns(groupings)]
    if len(sets) <= 1:
        return rows.groupBy(*_DEAD, *(sets[0] if sets else [])).agg(*extras, *partials)
    everything = [name for columns in sets for name in columns]
    wanted = [[F.col(c) for c in [*_DEAD, *columns]] for columns in sets]
    return rows.groupingSets(wanted, *[F.col(c) for c in [*_DEAD, *everything]]).agg(
        *extras, F.grouping_id().alias("__set"), *partials
    )


def _ordered(
    df: DataFrame,
    rows: DataFrame,
    stream: StreamDef,
    groupings: Sequence[Grouping],
    before: int,
    counts: Mapping[int, pa.Table],
) -> DataFrame:
    """The rows with the row numbers and ranks that the groupings need."""
    if not any(g.needs_order for g in groupings):
        return rows
    rows = arrival.placed(rows, arrival.order_columns(df.columns, stream.statement.sequence_by))
    if any(g.needs_rows for g in groupings):
        rows = arrival.numbered(rows, bound_sql(before))
    rankings = []
    for g, grouping in enumerate(groupings):
        if grouping.partition:
            keys = grouping.keys[: grouping.partition]
            known = counts[grouping.synopsis] if grouping.synopsis in counts else nothing_known(keys)
            rankings.append(Ranking(rank_column(g), keys, known))
    return ranked(rows, rankings) if rankings else rows


def _seen_aggregates(stream: StreamDef, admission: Admission) -> list[Any]:
    """The least and the greatest point of each column, the greatest of tuples that may move its frontier; and the
    greatest of those on time, since only these make a key join."""
    advances, on_time = advances_sql(stream, admission), on_time_sql(stream, admission)
    found = []
    for p in stream.punctuated:
        t = point_columns(stream)[p.column]
        moving = f"CASE WHEN {advances[p.column]} THEN {t} END" if advances else t
        found += [F.min(t).alias(f"__least{t}"), F.expr(f"max({moving})").alias(f"__greatest{t}")]
        if p.policy is Policy.PER_KEY:
            joining = f"CASE WHEN {on_time} THEN {t} END" if on_time else t
            found.append(F.expr(f"max({joining})").alias(f"__joining{t}"))
    return found


def _alive(condition: str | None, value: str) -> str:
    """A value for admitted (and qualifying) rows only, so that the others fall into one group."""
    test = "__reason IS NULL" if condition is None else f"__reason IS NULL AND coalesce({condition}, false)"
    return f"CASE WHEN {test} THEN {value} END"


def _set_columns(stream: StreamDef, grouping: Grouping, g: int, names: CellColumns) -> dict[str, str]:
    """What the g-th grouping groups by, as expressions by column name."""
    columns = {names.pane: _alive(None, grouping.schedule.sql(grouping.axis_column(stream, g)))}
    qualifies = None if grouping.qualifies is None else grouping.bounded(grouping.qualifies)
    if names.qualifies is not None:
        columns[names.qualifies] = _alive(None, f"coalesce({qualifies}, false)")
    keys = zip(names.keys, grouping.keys, strict=True)
    return columns | {name: _alive(qualifies, grouping.bounded(key.sql)) for name, key in keys}


def _grouped_packed(
    rows: DataFrame,
    stream: StreamDef,
    groupings: Sequence[Grouping],
    progress: Sequence[tuple[str, str]],
    extras: list[Any],
) -> DataFrame:
    """The same rows as GROUPING SETS, for any number of columns (`packing.py`)."""
    packing = packing_of(groupings)
    sets = [
        _set_columns(stream, grouping, g, packing.cells[g]) | packing.arguments[g]
        for g, grouping in enumerate(groupings)
    ]
    sets += [{name: sql} for name, sql in progress]
    seen = {f"__seen{i}": "BIGINT" if p.key is None else "STRING" for i, p in enumerate(stream.punctuated)}
    keys = packing.keys | {name: seen[name] for name, _ in progress}
    partials = [F.expr(sql).alias(name) for name, sql in packing.aggregates]
    copied = copies(rows, sets, keys | packing.values)
    return copied.groupBy(*_DEAD, "__set", *keys).agg(*extras, *partials)


def _grouped_each(
    rows: DataFrame,
    sets: Sequence[Mapping[str, str]],
    groupings: Sequence[Grouping],
    extras: list[Any],
) -> DataFrame:
    """What grouping sets give, but sketches only for the synopses that keep them: aggregates over grouping sets do not
    know which set they are in, and would make every sketch for all (measured on two busy cores, three sketches in one
    of three synopses, 400,000 rows: 7.4 s and 19 MB; this way 2.7 s and 2 MB)."""
    ids = set_ids(groupings, len(sets) - len(groupings))
    numbered = rows.selectExpr("*", f"explode(array({', '.join(f'{i}L' for i in ids)})) AS __set")
    keys = [
        F.expr(f"CASE WHEN __set = {i}L THEN {name} END").alias(name)
        for i, columns in zip(ids, sets, strict=True)
        for name in columns
    ]
    partials = [F.expr(sql).alias(name) for name, sql in partial_columns(groupings, ids)]
    return numbered.groupBy(*_DEAD, "__set", *keys).agg(*extras, *partials)


# -- columns and sets of the result ------------------------------------------------------------------


def cell_columns(groupings: Sequence[Grouping], progress: int) -> Sequence[CellColumns]:
    """The columns of each grouping in a table made by `grouped`, with `progress` sets for the stream's progress."""
    if is_packed(groupings, progress):
        return packing_of(groupings).cells
    ids = set_ids(groupings, progress)
    return [_own_columns(groupings, g, None if len(ids) <= 1 else ids[g]) for g in range(len(groupings))]


def _own_columns(groupings: Sequence[Grouping], g: int, set_id: int | None) -> CellColumns:
    grouping = groupings[g]
    partials = zip(grouping.accumulators, grouping.partials(g), strict=True)
    return CellColumns(
        set_id,
        f"__pane{g}",
        None if grouping.qualifies is None else f"__q{g}",
        tuple(f"__k{g}_{i}" for i in range(len(grouping.keys))),
        tuple((a, tuple(f"{name}_{i}" for i in range(len(partial_sql(a))))) for a, (name, _) in partials),
    )


def is_packed(groupings: Sequence[Grouping], progress: int = 0) -> bool:
    """Whether there are more columns to group by than GROUPING SETS take."""
    return len(_DEAD) + sum(_widths(groupings, progress)) > MOST_GROUPING_COLUMNS


def _widths(groupings: Sequence[Grouping], progress: int) -> list[int]:
    return [1 + (g.qualifies is not None) + len(g.keys) for g in groupings] + [1] * progress


def set_ids(groupings: Sequence[Grouping], progress: int = 0) -> list[int]:
    """The `__set` of each grouping set, those of `progress` columns last. grouping_id() has a bit per key column, 1
    where the column is not in its set; with sketches (`_grouped_each`) or too many columns the sets are counted."""
    if is_packed(groupings, progress) or any(grouping.is_sketched for grouping in groupings):
        return list(range(len(groupings) + progress))
    widths = _widths(groupings, progress)
    total, out, before = sum(widths), [], 0
    for width in widths:
        own = ((1 << width) - 1) << (total - before - width)
        out.append(((1 << total) - 1) ^ own)
        before += width
    return out


# -- the result, read back ---------------------------------------------------------------------------


def deposit_of_groups(
    table: pa.Table,
    stream: StreamDef,
    groupings: Sequence[Grouping],
    groups: Sequence[Groups],
    written: Collection[int] = (),
) -> Deposit:
    """The deposit of a table made by `grouped`, without the cells of the synopses that tasks have `written`."""
    is_dead = mask_of(pc.is_valid(table.column("__reason")))
    progress = progress_columns(stream)
    ids = set_ids(groupings, len(progress))
    which = None if len(ids) <= 1 else table.column("__set").to_numpy()
    first = np.ones(table.num_rows, bool) if which is None else which == ids[0]
    dead = tuple(
        DeadLetter(row["__reason"], row["__record"], row["__dead_t"], row["__n"])
        for row in picked_rows(table, is_dead & first, ("__reason", "__record", "__dead_t", "__n"))
    )
    alive_first = table.filter(pa.array(~is_dead & first))
    cells, columns = {}, cell_columns(groupings, len(progress))
    for g, grouping in enumerate(groupings):
        if grouping.synopsis not in written:
            own = alive_first if g == 0 else table.filter(pa.array(~is_dead & (which == ids[g])))
            cells[grouping.synopsis] = columns[g].cells(own, groups[g])
    progress_rows = {
        name: alive_first if which is None else table.filter(pa.array(~is_dead & (which == ids[len(groupings) + i])))
        for i, (name, _) in enumerate(progress)
    }
    admitted = int(pc.sum(alive_first.column("__n")).as_py() or 0)
    least, seen = {}, {ROW_NUM: Seen(rows=admitted)}
    for i, p in enumerate(stream.punctuated):
        if admitted:
            least[p.column] = pc.min(alive_first.column(f"__least__t{i}")).as_py()
        greatest = pc.max(alive_first.column(f"__greatest__t{i}")).as_py()
        seen[p.column] = _seen(p, greatest, progress_rows.get(f"__seen{i}"), i)
    return Deposit(cells, dead, admitted, least, seen, oversized_in(alive_first))


def _seen(p: Punctuated, greatest: int | None, rows: pa.Table | None, i: int) -> Seen:
    """What was seen on a punctuated column; `rows` are those of its own grouping set, if it has one."""
    if rows is None or rows.num_rows == 0:
        return Seen(greatest)
    values = rows.column(f"__seen{i}")
    if p.key is not None:
        points = rows.column(f"__joining__t{i}").to_pylist()
        return seen_by_key(greatest, zip(values.to_pylist(), points, strict=True))
    assert p.slack_rows is not None
    rows = rows.filter(pc.is_valid(values))
    values = rows.column(f"__seen{i}")
    order = np.argsort(values.to_numpy())[::-1]
    counts = np.minimum(rows.column("__n").to_numpy()[order], p.slack_rows + 1)
    enough = int(np.searchsorted(np.cumsum(counts), p.slack_rows + 1)) + 1
    top = np.repeat(values.to_numpy()[order][:enough], counts[:enough])[: p.slack_rows + 1]
    return Seen(greatest, top=tuple(top.tolist()))
