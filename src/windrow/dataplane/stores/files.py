"""The files of a window store: uncompressed Arrow, rows sorted by bucket, the offsets of buckets in the metadata.

A reader maps a file and slices a range of buckets without a copy. The hash of a key's value is that of the Spark home
(`synopses/cells/buckets.py`), so all stores and stages agree on a row's bucket. On Linux a mapping outlives the
deletion of its file, so the tables that a reader holds stay valid when the catalog drops the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.blocks import BlockRef, BlockWriter
from windrow.dataplane.blocks.store import readable
from windrow.dataplane.stores.specs import KeptColumn, PackedFlags, ReadColumn, WindowStoreSpec
from windrow.synopses.cells.buckets import BUCKETS, buckets_of

POINT = "__t"
"""The column of a row's point on the axis of its store."""

_OFFSETS, _KEPT_IF = b"windrow.offsets", b"windrow.keep_if"

MOST_ASKED = 64
"""The most questions for columns whose answers a mapped file remembers."""

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeptFile:
    """A written file of a store that is not committed yet, with the least and the greatest point of its rows."""

    store: int
    ref: BlockRef
    lo: int
    hi: int

    def saved(self) -> dict[str, Any]:
        return {"store": self.store, "ref": asdict(self.ref), "lo": self.lo, "hi": self.hi}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> KeptFile:
        return cls(saved["store"], BlockRef(**saved["ref"]), saved["lo"], saved["hi"])


def kept_of(spec: WindowStoreSpec, rows: pa.Table) -> pa.Table:
    """Those of admitted rows that the store keeps. Columns are named POINT and by `KeptColumn.id`."""
    if not spec.keep_if:
        return rows
    mask = pc.fill_null(rows.column(spec.keep_if[0].id), False)
    for one in spec.keep_if[1:]:
        mask = pc.or_(mask, pc.fill_null(rows.column(one.id), False))
    return rows.filter(mask)


def write_rows(writer: BlockWriter, spec: WindowStoreSpec, rows: pa.Table) -> KeptFile | None:
    """Write kept rows, which have all columns of `spec.evaluated`, as one file; None if there are none."""
    if not rows.num_rows:
        return None
    bucket = np.zeros(rows.num_rows, np.uint8)
    if spec.keys:
        keys = [_typed(rows.column(key.id), key).combine_chunks() for key in spec.keys]
        bucket = buckets_of(keys, np.zeros(rows.num_rows, bool), BUCKETS).astype(np.uint8)
    columns = [rows.column(POINT), *(_typed(rows.column(one.id), one) for one in spec.columns)]
    return _write(writer, spec, pa.table(columns, schema=_schema(spec)), bucket, [one.id for one in spec.keep_if])


def merged(
    writer: BlockWriter,
    spec: WindowStoreSpec,
    files: Sequence[MappedStoreFile],
    bounds: Sequence[int],
    change: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> list[KeptFile]:
    """Write the rows of these files as new ones, with the columns that the store keeps now: one file for the points
    between each two neighbours of `bounds`. Rows outside of the bounds are left out. `change` gives columns other
    values."""
    tables = [file.columns(spec.columns) for file in files]
    whole = change(pa.concat_tables(tables)).select([POINT, *(one.id for one in spec.columns)])
    bucket = np.concatenate([file.bucket_of_rows() for file in files])
    tests = {file.kept_if for file in files}
    kept_if = list(tests.pop() or ()) if len(tests) == 1 and None not in tests else None
    points = whole.column(POINT).to_numpy()
    out = []
    for lo, hi in zip(bounds, bounds[1:], strict=False):
        inside = (points >= lo) & (points < hi)
        if inside.any():
            all_in = bool(inside.all())
            part = whole if all_in else whole.filter(pa.array(inside))
            out.append(_write(writer, spec, part, bucket if all_in else bucket[inside], kept_if))
    return out


def _schema(spec: WindowStoreSpec) -> pa.Schema:
    return pa.schema([(POINT, pa.int64()), *((one.id, one.type.arrow) for one in spec.columns)])


def _write(
    writer: BlockWriter,
    spec: WindowStoreSpec,
    table: pa.Table,
    bucket: npt.NDArray[np.uint8],
    kept_if: list[str] | None,
) -> KeptFile:
    if bucket.any():
        order = np.argsort(bucket, kind="stable")
        table, bucket = table.take(pa.array(order)), bucket[order]
    offsets = np.searchsorted(bucket, np.arange(BUCKETS + 1)).astype("<i8")
    points = table.column(POINT).to_numpy()
    lo, hi = int(points.min()), int(points.max())
    told = {_OFFSETS: offsets.tobytes(), _KEPT_IF: json.dumps(kept_if).encode()}
    whole = table.combine_chunks().replace_schema_metadata(told)
    return KeptFile(spec.id, writer.write(spec.owner, whole), lo, hi)


def _typed(column: pa.ChunkedArray, kept: KeptColumn) -> pa.ChunkedArray:
    return column if column.type == kept.type.arrow else column.cast(kept.type.arrow)


class MappedStoreFile:
    """A file of a store, mapped. The file descriptor is closed at once; the mapping lasts as long as a table of it."""

    def __init__(self, file: Path | str):
        with readable(Path(file)), pa.memory_map(os.fspath(file)) as source:
            table = pa.ipc.open_file(source).read_all()
        metadata = table.schema.metadata
        self._offsets: Offsets = np.frombuffer(metadata[_OFFSETS], "<i8").astype(np.int64)
        tests = json.loads(metadata[_KEPT_IF])
        self.kept_if: tuple[str, ...] | None = None if tests is None else tuple(tests)
        """The ids of the conditions of which one is true for each row (none: no condition); None: unknown."""
        self._table = table.replace_schema_metadata(None)
        self._asked: dict[tuple[tuple[str, ...], range | None], pa.Table] = {}

    @property
    def nbytes(self) -> int:
        return int(self._table.nbytes)

    def columns(self, wanted: Sequence[ReadColumn], buckets: range | None = None) -> pa.Table:
        """The points and the wanted columns of the rows in these buckets (None: in all), without a copy except of
        packed flags. A column that the file does not have is NULL. Every tick asks for the same ones, so the answer is
        remembered."""
        asked = (tuple(one.id for one in wanted), buckets)
        found = self._asked.get(asked)  # threads share it, and another may clear it at any time
        if found is None:
            found = self._columns(wanted, buckets)
            if len(self._asked) >= MOST_ASKED:
                self._asked.clear()
            self._asked[asked] = found
        return found

    def _columns(self, wanted: Sequence[ReadColumn], buckets: range | None) -> pa.Table:
        table, have = self._table, set(self._table.column_names)
        if buckets is not None:
            if buckets.step != 1:
                raise ValueError("buckets are read in one run")
            begin, end = (int(self._offsets[max(0, min(at, BUCKETS))]) for at in (buckets.start, buckets.stop))
            table = table.slice(begin, max(0, end - begin))
        columns = [table.column(POINT)]
        for one in wanted:
            if isinstance(one, PackedFlags):
                columns.append(_packed(table, [flag.id for flag in one.flags]))
            else:
                there = one.id in have
                columns.append(table.column(one.id) if there else _nulls(table.num_rows, one.type.arrow))
        return pa.Table.from_arrays(columns, names=[POINT, *(one.id for one in wanted)])

    def bucket_of_rows(self) -> npt.NDArray[np.uint8]:
        return np.repeat(np.arange(BUCKETS, dtype=np.uint8), np.diff(self._offsets))


def _packed(table: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """Conditions as the bits of one number; one that is NULL, or that the file does not have, is not set."""
    have, words = set(table.column_names), np.zeros(table.num_rows, np.uint64)
    for i, name in enumerate(names):
        if name in have:
            column = table.column(name)
            column = pc.fill_null(column, False) if column.null_count else column
            words[np.flatnonzero(column.to_numpy())] |= np.uint64(1 << i)  # mostly few are set
    return pa.chunked_array([words.view(np.int64)], pa.int64())


def _nulls(rows: int, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(rows, kind)], kind)
