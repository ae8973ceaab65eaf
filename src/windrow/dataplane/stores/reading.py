"""Reads rows of window stores from their files, in the driver and in Spark tasks."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.stores.files import POINT, MappedStoreFile
from windrow.dataplane.stores.runs import MOST_QUESTIONS, SMALL_ROWS, FileRuns
from windrow.dataplane.stores.specs import KeptColumn, ReadColumn
from windrow.types import POINT_MAX, POINT_MIN


@dataclass(frozen=True)
class StoredRows:
    """A committed file of a store: where it is, the least and the greatest point of its rows, and their number."""

    path: str
    lo: int
    hi: int
    rows: int


@dataclass(frozen=True)
class Selected:
    """Which rows: those with lo ≤ point < hi for which the predicate (None: none) is true, in a run of buckets (None:
    in all)."""

    lo: int = POINT_MIN
    hi: int = POINT_MAX
    predicate: KeptColumn | None = None
    buckets: range | None = None


class MappedFiles:
    """Mapped files by path, each mapped once. A Spark task keeps one for the life of its worker process. `most_runs`:
    for so many questions copies of small files are held."""

    def __init__(self, most_runs: int = MOST_QUESTIONS) -> None:
        self._files: dict[str, MappedStoreFile] = {}
        self._lock = threading.Lock()
        self.runs = FileRuns(most_runs)

    def file(self, path: str) -> MappedStoreFile:
        with self._lock:
            known = self._files.get(path)
        if known is None:
            known = MappedStoreFile(path)
            with self._lock:
                known = self._files.setdefault(path, known)
        return known

    def forget(self, paths: Collection[str]) -> None:
        """Release these mappings; tables made of them stay valid."""
        with self._lock:
            for path in paths:
                self._files.pop(path, None)
        self.runs.forget(paths)

    @property
    def paths(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._files)


def read_rows(
    mapped: MappedFiles, files: Sequence[StoredRows], columns: Sequence[ReadColumn], selected: Selected
) -> pa.Table:
    """The selected rows of these files: POINT, then the columns in this order, named by their ids. Files without a
    point in range are not opened; one whose points all are in range is not filtered by them."""
    parts, whole = list[pa.Table](), list[str]()
    asked = (tuple(one.id for one in columns), selected.buckets)

    def read(path: str) -> pa.Table:
        return mapped.file(path).columns(columns, selected.buckets)

    for one in files:
        if one.hi < selected.lo or one.lo >= selected.hi:
            continue
        if one.rows <= SMALL_ROWS and _is_whole(mapped, one, selected):
            whole.append(one.path)
            continue
        parts += mapped.runs.tables(asked, whole, read)
        whole = []
        parts.append(_selected(mapped.file(one.path), one, columns, selected))
    parts += mapped.runs.tables(asked, whole, read)
    parts = [part for part in parts if part.num_rows]
    if not parts:
        return _empty(columns)
    return pa.concat_tables(parts) if len(parts) > 1 else parts[0]


def _is_whole(mapped: MappedFiles, one: StoredRows, selected: Selected) -> bool:
    """Whether all rows of a file, of the buckets, are selected."""
    if one.lo < selected.lo or one.hi >= selected.hi:
        return False
    return selected.predicate is None or mapped.file(one.path).kept_if == (selected.predicate.id,)


def _selected(file: MappedStoreFile, one: StoredRows, columns: Sequence[ReadColumn], selected: Selected) -> pa.Table:
    predicate = selected.predicate
    if predicate is not None and file.kept_if == (predicate.id,):
        predicate = None
    tests = [] if predicate is None else [predicate]
    table = file.columns([*columns, *tests], selected.buckets)
    mask = None
    if one.lo < selected.lo:
        mask = pc.greater_equal(table.column(POINT), selected.lo)
    if one.hi >= selected.hi:
        below = pc.less(table.column(POINT), selected.hi)
        mask = below if mask is None else pc.and_(mask, below)
    if predicate is not None:
        true = pc.fill_null(table.column(table.num_columns - 1), False)
        mask = true if mask is None else pc.and_(mask, true)
        table = table.remove_column(table.num_columns - 1)
    return table if mask is None else table.filter(mask)


def _empty(columns: Sequence[ReadColumn]) -> pa.Table:
    arrays = [pa.array([], pa.int64()), *(pa.array([], one.type.arrow) for one in columns)]
    return pa.Table.from_arrays(arrays, names=[POINT, *(one.id for one in columns)])
