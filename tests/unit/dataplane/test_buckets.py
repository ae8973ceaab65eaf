"""Buckets of the Spark home: a group's bucket never changes, and blocks cut by bucket lose nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from windrow.dataplane.answers.finishing import Finisher
from windrow.dataplane.blocks import BlockWriter, BucketedBlock, cut, panes_in, read_block, write_bucketed
from windrow.dataplane.kernels import (
    BucketAnswer,
    QueryTask,
    Question,
    StoredCells,
    WindowRequest,
    answer_buckets,
    fold_buckets,
)
from windrow.dataplane.kernels.loading import Buckets, write_cells
from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.nodes import Attribute, Finalise, Key, Output, Scan, Selection, WindowAggregate
from windrow.synopses import Cells, LookupAnswer, StoredSynopsis
from windrow.synopses.cells.buckets import buckets_of
from windrow.synopses.cells.groups import Groups
from windrow.types import SqlType
from windrow.windows import SlidingWindow

COUNT = Accumulator(Kind.COUNT, None, None, None)
MOST = Accumulator(Kind.GREATEST, "`x`", SqlType("INT"), None)

PINNED = (
    (pa.array([0, 1, -1, 2**40, None], pa.int64()), [0, 637, 484, 1009, 431]),
    (pa.array(["", "a", "ab", "ü", None]), [0, 553, 874, 739, 431]),
    (pa.array([0.0, 1.5, float("nan"), -2.0, None]), [0, 796, 675, 965, 431]),
    (
        pa.array([Decimal(1), Decimal(-1), Decimal(0), Decimal("99.99"), None], pa.decimal128(10, 2)),
        [688, 785, 0, 614, 431],
    ),
    (pa.array([True, False, None]), [637, 0, 431]),
    (pa.array([date(2020, 1, 1), None]), [990, 431]),
    (pa.array([datetime(2020, 1, 1, tzinfo=timezone.utc), None], pa.timestamp("us", "UTC")), [715, 431]),
    (pa.array([b"", b"a", b"ab", b"\xff", None]), [0, 553, 874, 202, 431]),
)


def of(*keys: pa.Array, buckets: int = 1024) -> list[int]:
    return buckets_of(keys, np.zeros(len(keys[0]), bool), buckets).tolist()


@pytest.mark.parametrize(("key", "expected"), PINNED, ids=[str(key.type) for key, _ in PINNED])
def test_buckets_are_stable(key: pa.Array, expected: list[int]) -> None:
    """Blocks on disk are cut by these numbers."""
    assert of(key) == expected
    assert of(key.slice(1)) == expected[1:]
    if pa.types.is_string(key.type):
        assert of(key.dictionary_encode()) == expected


def test_equal_groups_share_a_bucket() -> None:
    assert len(set(of(pa.array([0.0, -0.0])))) == 1
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    assert len(set(of(pa.array([float("nan"), other_nan])))) == 1
    assert of(pa.array([1, 2]), pa.array(["a", "b"])) != of(pa.array([2, 1]), pa.array(["a", "b"]))


def test_spread_of_groups() -> None:
    for key in (pa.array(range(64_000)), pa.array([f"user-{i}" for i in range(64_000)])):
        counts = np.bincount(buckets_of([key], np.zeros(64_000, bool), 64), minlength=64)
        assert counts.min() > 800 and counts.max() < 1_200
    assert buckets_of([pa.array([1, 2, 3])], np.ones(3, bool), 64).tolist() == [0, 0, 0]
    assert buckets_of([], np.zeros(3, bool), 64).tolist() == [0, 0, 0]


def test_read_by_bucket_and_whole(tmp_path: Path) -> None:
    table = pa.table({"pane": [5, 5, 7, 9], "k": ["a", None, "c", "a"], "n": [1, 2, 3, 4]})
    tables = cut(table, np.array([2, 0, 2, 2]), 4)
    ref = write_bucketed(BlockWriter(tmp_path), "synopses/1", tables, np.array([9, 5, 7, 5]))
    assert ref.rows == 4
    block = BucketedBlock(tmp_path / ref.path, ("pane", "n", "unknown"))
    assert block.columns == ("pane", "n")
    assert [block.bucket(i).num_rows for i in range(4)] == [1, 0, 3, 0]
    assert block.bucket(2).to_pydict() == {"pane": [5, 7, 9], "n": [1, 3, 4]}
    assert panes_in(tmp_path / ref.path).tolist() == [5, 7, 9]
    assert sorted(read_block(tmp_path / ref.path).column("n").to_pylist()) == [1, 2, 3, 4]


def cells_of(groups: Groups, panes: list[int], keys: list[int], *accumulators: Accumulator) -> Cells:
    ids = groups.ids([pa.array(keys, pa.int64())])
    return Cells(np.array(panes), ids, {a: (np.arange(1, len(panes) + 1),) for a in accumulators})


def test_folding_merges_cells_and_drops_expired_ones(tmp_path: Path) -> None:
    writer, groups = BlockWriter(tmp_path), Groups([pa.int64()])
    older = cells_of(groups, [1, 2, 2, 3], [7, 7, 8, 9], COUNT)
    newer = cells_of(groups, [2, 3, 4], [7, 9, 10], COUNT, MOST)
    refs = [write_cells(writer, "synopses/1", cells, groups, 1, 4)[0] for cells in (older, newer)]
    stored = StoredCells(str(tmp_path), "synopses/1", tuple(r.path for r in refs), (pa.int64(),), 1, 4, 2)
    made = [fold_buckets(stored, (COUNT, MOST), some) for some in ([0, 1], [2, 3])]
    assert all(one is not None and one[1] >= 2 for one in made)
    again = StoredCells(str(tmp_path), "synopses/1", tuple(one[0].path for one in made if one), (pa.int64(),), 1, 4, 2)
    found = {}
    for bucket in range(4):
        mine = Groups([pa.int64()])
        for cells in Buckets(again, (COUNT, MOST)).cells(bucket, mine):
            keys = mine.key_columns(cells.groups)[0].to_pylist()
            for i, (pane, key) in enumerate(zip(cells.panes.tolist(), keys, strict=True)):
                assert (pane, key) not in found
                found[pane, key] = cells.states[COUNT][0][i]
    assert found == {(2, 7): 3, (2, 8): 3, (3, 9): 6, (4, 10): 3}
    nothing = StoredCells(str(tmp_path), "synopses/1", tuple(r.path for r in refs), (pa.int64(),), 1, 4, 50)
    assert fold_buckets(nothing, (COUNT,), [0, 1, 2, 3]) is None


def test_failing_expression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = Scan("s", Attribute("t", SqlType("BIGINT")))
    aggregate = WindowAggregate(Selection(scan, None), SlidingWindow(4, 2), (Key("`k`", SqlType("BIGINT")),), ())
    plans = [Finalise(aggregate, (Output(name, exp.column("k0"), SqlType("BIGINT")),)) for name in ("good", "bad")]
    writer, groups = BlockWriter(tmp_path), Groups([pa.int64()])
    ref, _ = write_cells(writer, "synopses/1", cells_of(groups, [0, 2, 2], [7, 7, 8], COUNT), groups, 1, 2)
    stored = StoredCells(str(tmp_path), "synopses/1", (ref.path,), (pa.int64(),), 1, 2, None)
    part = Finisher.part

    def failing(self: Finisher, plan: Finalise, *rest: Any) -> pa.Table:
        if plan is plans[1]:
            raise ValueError("out of luck")
        return part(self, plan, *rest)

    monkeypatch.setattr(Finisher, "part", failing)
    question = Question(stored, tuple(WindowRequest(i, np.array([0, 2]), np.array([2, 4])) for i in (0, 1)))
    parts = [
        one
        for batch in answer_buckets([QueryTask(plan) for plan in plans], question, [0, 1], 1 << 20)
        for one in BucketAnswer.read(pa.Table.from_batches([batch]))
    ]
    rows = [row for one in parts if one.rows is not None for row in one.rows.to_pylist()]
    assert sorted((row["w"], row["o0"]) for row in rows) == [(0, 7), (1, 7), (1, 8)]
    assert {(one.query, one.error) for one in parts} == {(0, None), (1, "out of luck")}


class Occupied(StoredSynopsis):
    """The driver's side of a Spark-home synopsis, without jobs."""

    def ask(self, *asked: Any) -> Iterator[LookupAnswer]:
        return iter(())


def test_occupied_panes() -> None:
    home = Occupied([pa.int64()], 4)
    assert home.last_pane is None and home.closed_panes.tolist() == []
    home.occupy(np.array([4, 2]))
    home.occupy(np.array([2, 6]))
    home.close(5)
    assert home.closed_panes.tolist() == [2, 4] and home.last_pane == 6
    home.expire(3)
    assert home.closed_panes.tolist() == [4]
    home.occupy(np.array([0, 4]))
    home.occupy(np.array([0, 4]), late=True)
    assert home.closed_panes.tolist() == home.late_panes.tolist() == [4], "expired cells are not deposited again"
    with pytest.raises(ValueError, match="bucket"):
        Occupied([], 0)
