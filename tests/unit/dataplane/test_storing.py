"""The kernel of a deposit: cells of Spark-home synopses go into blocks, other rows pass through."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from windrow.dataplane.blocks import panes_in, read_block
from windrow.dataplane.kernels import WROTE, BlockReport, CellColumns, StoreRequest, StoreTarget, store_cells
from windrow.plan.accumulators import Accumulator, Kind
from windrow.windows.lateness import bucket_of

COUNT = Accumulator(Kind.COUNT, None, None, None)
STORED = CellColumns(1, "__pane0", "__q0", ("__k0_0",), ((COUNT, ("p_0",)),))
ROWS = (
    # reason, set, pane, qualifies, key, least, greatest, n
    (None, 1, 10, True, "a", 11, 14, 3),
    (None, 1, 10, True, "b", 12, 12, 1),
    (None, 1, 20, True, "a", 20, 29, 5),
    (None, 1, 20, False, None, 22, 23, 2),
    (None, 2, None, None, None, 11, 29, 11),
    ("late", 1, None, None, None, 1, 1, 4),
    ("late", 2, None, None, None, 1, 1, 4),
)
NAMES = ("__reason", "__set", "__pane0", "__q0", "__k0_0", "__least__t0", "__greatest__t0", "__n")


def table() -> pa.Table:
    columns = dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))
    columns["p_0"] = columns["__n"]
    return pa.table({**columns, "__set": pa.array(columns["__set"], pa.int64())})


def stored(root: Path, top: int | None) -> pa.Table:
    target = StoreTarget(7, "synopses/7", STORED, (pa.string(),), 1, 4)
    out = store_cells(StoreRequest(str(root), (target,), (top,)), table().to_batches())
    return pa.Table.from_batches(list(out))


def test_cells_go_to_blocks(tmp_path: Path) -> None:
    found = stored(tmp_path, None)
    (text,) = found.column(WROTE).drop_null().to_pylist()
    report = BlockReport.of(text)
    assert (report.synopsis, report.lo, report.hi, report.ref.rows) == (7, 10, 20, 4)
    assert panes_in(tmp_path / report.ref.path).tolist() == [10, 20]
    rows = read_block(tmp_path / report.ref.path).to_pylist()
    cells = {(row["pane"], row["nobody"], row["k0"], row[f"{COUNT.id}_0"]) for row in rows}
    assert cells == {(10, False, "a", 3), (10, False, "b", 1), (20, False, "a", 5), (20, True, None, 2)}
    rest = [row for row in found.drop_columns([WROTE]).to_pylist() if row["__set"] == 2 or row["__reason"]]
    assert rest == table().slice(4).to_pylist()


def test_summary_rows(tmp_path: Path) -> None:
    for top in (None, 5, 21, 400):
        found = stored(tmp_path, top).to_pylist()
        left = [row for row in found if row["__set"] == 1 and row["__reason"] is None]
        assert sum(row["__n"] for row in left) == 11
        assert min(row["__least__t0"] for row in left) == 11
        assert max(row["__greatest__t0"] for row in left) == 29
        assert histogram(left, top) == histogram(table().slice(0, 4).to_pylist(), top)
        assert len(left) == len(histogram(left, top))


def histogram(rows: list[dict[str, int]], top: int | None) -> dict[int, int]:
    late = [0 if top is None else max(0, top - row["__least__t0"]) for row in rows]
    found: dict[int, int] = {}
    for bucket, row in zip(bucket_of(np.array(late)).tolist(), rows, strict=True):
        found[bucket] = found.get(bucket, 0) + row["__n"]
    return found


def test_empty_partition(tmp_path: Path) -> None:
    assert list(store_cells(StoreRequest(str(tmp_path), (), ()), [])) == []
