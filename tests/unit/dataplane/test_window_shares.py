"""The shares in which Spark tasks read a window."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.kernels import window_rows
from windrow.dataplane.kernels.window_rows import WindowRows, shares_of
from windrow.dataplane.stores import POINT, KeptColumn, Selected, StoredRows, WindowStoreSpec, write_rows
from windrow.types import SqlType

X = KeptColumn("`x`", SqlType("BIGINT"))


def stored(tmp_path: Path, points: range) -> StoredRows:
    spec = WindowStoreSpec(1, "s", "ts", (), (X,))
    rows = pa.table({POINT: pa.array(points, pa.int64()), X.id: pa.array([10 * p for p in points], pa.int64())})
    made = write_rows(BlockWriter(tmp_path), spec, rows)
    assert made is not None
    return StoredRows(str(tmp_path / made.ref.path), made.lo, made.hi, len(points))


def test_shares_have_every_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [stored(tmp_path, range(7)), stored(tmp_path, range(7, 8)), stored(tmp_path, range(8, 30))]
    monkeypatch.setattr(window_rows, "LEAST_ROWS", 5)
    shares = shares_of(files, 4)
    assert [sum(one.count for one in share) for share in shares] == [8, 8, 8, 6]
    work = WindowRows((X,), Selected(3, 25), tuple(shares))
    found = [x for i in range(len(shares)) for batch in work.batches(i, ["x"]) for x in batch.column(0).to_pylist()]
    assert sorted(found) == [10 * p for p in range(3, 25)]


def test_few_rows_are_one_share(tmp_path: Path) -> None:
    assert len(shares_of([stored(tmp_path, range(10))], 8)) == 1
    assert shares_of([], 8) == [()]
