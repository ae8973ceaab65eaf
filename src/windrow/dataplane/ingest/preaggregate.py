"""From a micro-batch's table to cells: of Spark's group-by, or of gathered rows grouped in NumPy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.dataplane.ingest.arrival import numbers
from windrow.dataplane.ingest.job import (
    Admission,
    GatheredColumns,
    Grouping,
    cell_columns,
    gathered_columns,
    late_masks,
    progress_columns,
    set_ids,
)
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import RANK_COLUMN, ROW_NUM
from windrow.synopses.cells import distinct
from windrow.synopses.cells.cells import fold_of, state_of_rows
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.ranks import Ranks
from windrow.windows import Points, Seen
from windrow.windows.frontier import Key

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DeadLetter:
    """A row that was not admitted: why, its text, its point, and how many such rows there were."""

    reason: str
    record: str | None
    point: int | None
    count: int


@dataclass(frozen=True)
class Deposit:
    """What a micro-batch adds: cells per synopsis, dead letters, and what was seen on each axis."""

    cells: dict[int, Cells]
    dead: tuple[DeadLetter, ...]
    admitted: int
    least: dict[str, int]
    seen: dict[str, Seen]

    @property
    def cell_count(self) -> int:
        return sum(len(cells) for cells in self.cells.values())


def of_groups(
    table: pa.Table,
    stream: StreamDef,
    groupings: Sequence[Grouping],
    groups: Sequence[Groups],
    written: Collection[int] = (),
) -> Deposit:
    """The deposit of a table made by `ingest.grouped`; without the cells of the synopses that tasks have `written`."""
    is_dead = _mask(pc.is_valid(table.column("__reason")))
    progress = progress_columns(stream)
    ids = set_ids(groupings, len(progress))
    which = None if len(ids) <= 1 else table.column("__set").to_numpy()
    first = np.ones(table.num_rows, bool) if which is None else which == ids[0]
    dead = tuple(
        DeadLetter(row["__reason"], row["__record"], row["__dead_t"], row["__n"])
        for row in _rows(table, is_dead & first, ("__reason", "__record", "__dead_t", "__n"))
    )
    alive_first = table.filter(pa.array(~is_dead & first))
    cells, columns = {}, cell_columns(groupings, len(progress))
    for g, grouping in enumerate(groupings):
        if grouping.synopsis not in written:
            mine = alive_first if g == 0 else table.filter(pa.array(~is_dead & (which == ids[g])))
            cells[grouping.synopsis] = columns[g].cells(mine, groups[g])
    told = {
        name: alive_first if which is None else table.filter(pa.array(~is_dead & (which == ids[len(groupings) + i])))
        for i, (name, _) in enumerate(progress)
    }
    admitted = int(pc.sum(alive_first.column("__n")).as_py() or 0)
    least, seen = {}, {ROW_NUM: Seen(rows=admitted)}
    for i, p in enumerate(stream.punctuated):
        if admitted:
            least[p.column] = pc.min(alive_first.column(f"__least__t{i}")).as_py()
        greatest = pc.max(alive_first.column(f"__greatest__t{i}")).as_py()
        seen[p.column] = _seen_of_groups(p, greatest, told.get(f"__seen{i}"), i)
    return Deposit(cells, dead, admitted, least, seen)


def _seen_of_groups(p: Punctuated, greatest: int | None, told: pa.Table | None, i: int) -> Seen:
    if told is None or told.num_rows == 0:
        return Seen(greatest)
    values = told.column(f"__seen{i}")
    if p.key is not None:
        points = told.column(f"__joining__t{i}").to_pylist()
        return _by_key(greatest, zip(values.to_pylist(), points, strict=True))
    assert p.slack_rows is not None
    told = told.filter(pc.is_valid(values))
    values = told.column(f"__seen{i}")
    order = np.argsort(values.to_numpy())[::-1]
    counts = np.minimum(told.column("__n").to_numpy()[order], p.slack_rows + 1)
    enough = int(np.searchsorted(np.cumsum(counts), p.slack_rows + 1)) + 1
    top = np.repeat(values.to_numpy()[order][:enough], counts[:enough])[: p.slack_rows + 1]
    return Seen(greatest, top=tuple(top.tolist()))


def _by_key(greatest: int | None, pairs: Iterable[tuple[Key, int | None]]) -> Seen:
    """What the keys have seen; those with late tuples alone do not join."""
    found = {key: point for key, point in pairs if point is not None}
    return Seen(greatest, by_key=found) if found else Seen()


def of_rows(
    table: pa.Table,
    stream: StreamDef,
    groupings: Sequence[Grouping],
    groups: Sequence[Groups],
    admission: Admission | None = None,
    ranks: Mapping[int, Ranks] | None = None,
) -> Deposit:
    """The deposit of a table made by `ingest.gathered`: the group-by is done here, vectorised.

    `ranks` are those of the partitioned synopses, by id.
    """
    admission = admission or Admission(())
    is_dead = _mask(pc.is_valid(table.column("__reason")))
    dead: tuple[DeadLetter, ...] = ()
    if is_dead.any():
        known = "__t0" if stream.punctuated else None
        rows = _rows(table, is_dead, ("__reason", "__record", *([known] if known else [])))
        dead = tuple(DeadLetter(r["__reason"], r["__record"], r.get(known or ""), 1) for r in rows)
        table = table.filter(pa.array(~is_dead))
    if table.num_rows == 0:
        return Deposit({}, dead, 0, {}, {})
    points = {p.column: _column(table, f"__t{i}").to_numpy() for i, p in enumerate(stream.punctuated)}
    if any(g.needs_order for g in groupings):
        points[ROW_NUM] = numbers(table) + admission.rows_before
    names = gathered_columns(groupings)
    cells = {
        grouping.synopsis: _RowGrouping(table, points, grouping, names).cells(
            groups[g], (ranks or {}).get(grouping.synopsis)
        )
        for g, grouping in enumerate(groupings)
    }
    late = late_masks(points, admission) if admission.excused else {}
    seen = {p.column: _seen_of_rows(p, points[p.column], table, i, late) for i, p in enumerate(stream.punctuated)}
    seen[ROW_NUM] = Seen(rows=table.num_rows)
    return Deposit(cells, dead, table.num_rows, {c: int(points[c].min()) for c in seen if c in points}, seen)


def _seen_of_rows(p: Punctuated, points: Points, table: pa.Table, i: int, late: Mapping[str, Mask]) -> Seen:
    """`late`: the tuples that are late, by column; such a one moves no frontier (`ingest.advances_sql`)."""
    moving, on_time = points, np.ones(points.size, bool)
    if late:
        on_time = ~np.logical_or.reduce(list(late.values()))
        moving = points[on_time | late.get(p.column, False)]
    greatest = int(moving.max()) if moving.size else None
    if p.key is not None:
        keys = table.column(f"__seen{i}").filter(pa.array(on_time))
        by = pa.table({"key": keys, "t": points[on_time]}).group_by("key").aggregate([("t", "max")])
        return _by_key(greatest, zip(by["key"].to_pylist(), by["t_max"].to_pylist(), strict=True))
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
        return None if sql is None else _mask(_column(self._table, self._names.conditions[sql]))

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
        panes, pane_of = distinct.of_runs(grouping.schedule.pane_starts(self._points))
        qualifies = self._condition(grouping.qualifies)
        nobody = np.zeros(self._points.size, bool) if qualifies is None else ~qualifies
        ids = groups.ids(keys, nobody)
        width = groups.count
        slots, cell_of = distinct.below(pane_of * width + ids, panes.size * width)
        states = {a: self._state(a, cell_of, slots.size) for a in grouping.accumulators}
        return Cells(panes[slots // width], slots % width, states)

    def _state(self, a: Accumulator, cell_of: npt.NDArray[np.int64], size: int) -> tuple[npt.NDArray[np.generic], ...]:
        mask = self._counting(a)
        values = None if a.arg is None else pa.array(self._points) if a.arg == RANK_COLUMN else self._value(a.arg)
        if values is not None and values.null_count:
            valid = _mask(pc.is_valid(values))
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


def _mask(column: pa.Array | pa.ChunkedArray) -> Mask:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)


def _rows(table: pa.Table, mask: Mask, names: Sequence[str]) -> list[dict[str, Any]]:
    if not mask.any():
        return []
    rows: list[dict[str, Any]] = table.select(names).filter(pa.array(mask)).to_pylist()
    return rows
