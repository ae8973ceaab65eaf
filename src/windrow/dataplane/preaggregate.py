"""From a micro-batch's table to cells: of Spark's group-by, or of gathered rows grouped in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.ingest import Grouping, gathered_names, set_ids
from windrow.plan.accumulators import Accumulator
from windrow.synopses import distinct
from windrow.synopses.cells import fold_of, partial_sql, state_of_partials, state_of_rows
from windrow.synopses.chunks import Cells, States
from windrow.synopses.groups import Groups

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
    """What a micro-batch adds: cells per synopsis, dead letters, and what was seen."""

    cells: dict[int, Cells]
    dead: tuple[DeadLetter, ...]
    admitted: int
    least: int | None
    greatest: int | None

    @property
    def cell_count(self) -> int:
        return sum(len(cells) for cells in self.cells.values())


def of_groups(table: pa.Table, groupings: Sequence[Grouping], groups: Sequence[Groups]) -> Deposit:
    """The deposit of a table made by `ingest.grouped`."""
    is_dead = _mask(pc.is_valid(table.column("__reason")))
    ids = set_ids(groupings)
    which = None if len(groupings) <= 1 else table.column("__set").to_numpy()
    first = np.ones(table.num_rows, bool) if which is None else which == ids[0]
    dead = tuple(
        DeadLetter(row["__reason"], row["__record"], row["__dead_t"], row["__n"])
        for row in _rows(table, is_dead & first, ("__reason", "__record", "__dead_t", "__n"))
    )
    alive_first = table.filter(pa.array(~is_dead & first))
    cells = {}
    for g, grouping in enumerate(groupings):
        mine = alive_first if g == 0 else table.filter(pa.array(~is_dead & (which == ids[g])))
        cells[grouping.synopsis] = _group_cells(mine, g, grouping, groups[g])
    least = pc.min(alive_first.column("__least")).as_py()
    greatest = pc.max(alive_first.column("__greatest")).as_py()
    return Deposit(cells, dead, int(pc.sum(alive_first.column("__n")).as_py() or 0), least, greatest)


def _group_cells(table: pa.Table, g: int, grouping: Grouping, groups: Groups) -> Cells:
    keys = [_column(table, f"__k{g}_{i}") for i in range(len(grouping.keys))]
    nobody = np.zeros(table.num_rows, bool) if grouping.qualifies is None else ~_mask(table.column(f"__q{g}"))
    states: States = {}
    for a in grouping.accumulators:
        columns = [_column(table, f"p_{a.id}_{i}") for i in range(len(partial_sql(a)))]
        states[a] = state_of_partials(a, columns)
    panes = _column(table, f"__pane{g}").to_numpy(zero_copy_only=False).astype(np.int64)
    return Cells(panes, groups.ids(keys, nobody), states)


def of_rows(table: pa.Table, groupings: Sequence[Grouping], groups: Sequence[Groups]) -> Deposit:
    """The deposit of a table made by `ingest.gathered`: the group-by is done here, vectorised."""
    is_dead = _mask(pc.is_valid(table.column("__reason")))
    dead: tuple[DeadLetter, ...] = ()
    if is_dead.any():
        rows = _rows(table, is_dead, ("__reason", "__record", "__t"))
        dead = tuple(DeadLetter(r["__reason"], r["__record"], r["__t"], 1) for r in rows)
        table = table.filter(pa.array(~is_dead))
    if table.num_rows == 0:
        return Deposit({}, dead, 0, None, None)
    points = _column(table, "__t").to_numpy()
    names = gathered_names(groupings)
    cells = {
        grouping.synopsis: _RowGrouping(table, points, grouping, names).cells(groups[g])
        for g, grouping in enumerate(groupings)
    }
    return Deposit(cells, dead, table.num_rows, int(points.min()), int(points.max()))


class _RowGrouping:
    """Gathered rows, grouped by (pane, group) for one synopsis."""

    def __init__(self, table: pa.Table, points: npt.NDArray[np.int64], grouping: Grouping, names: dict[str, str]):
        self._table = table
        self._points = points
        self._grouping = grouping
        self._names = names

    def _named(self, sql: str) -> pa.Array:
        return _column(self._table, self._names[sql])

    def _condition(self, sql: str | None) -> Mask | None:
        return None if sql is None else _mask(self._named(f"coalesce({sql}, false)"))

    def cells(self, groups: Groups) -> Cells:
        grouping = self._grouping
        panes, pane_of = distinct.of_runs(grouping.schedule.pane_starts(self._points))
        qualifies = self._condition(grouping.qualifies)
        nobody = np.zeros(self._points.size, bool) if qualifies is None else ~qualifies
        ids = groups.ids([self._named(key.sql) for key in grouping.keys], nobody)
        width = groups.count
        slots, cell_of = distinct.below(pane_of * width + ids, panes.size * width)
        states = {a: self._state(a, cell_of, slots.size) for a in grouping.accumulators}
        return Cells(panes[slots // width], slots % width, states)

    def _state(self, a: Accumulator, cell_of: npt.NDArray[np.int64], size: int) -> tuple[npt.NDArray[np.generic], ...]:
        mask = self._condition(a.condition)
        values = None if a.arg is None else self._named(a.arg)
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
