"""Window stores on disk: their columns, their files, and the kernel that writes them."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from windrow.catalog.definitions import define_stream
from windrow.cql import parse_one
from windrow.cql.statements import CreateStream
from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.ingest.grouping import Grouping
from windrow.dataplane.ingest.keeping import needed_columns
from windrow.dataplane.kernels import (
    KEPT,
    REPORT,
    KeepRequest,
    SummaryColumns,
    keep_and_pass,
    keep_and_sum,
    kept_name,
    reported,
)
from windrow.dataplane.kernels import keeping as kernel
from windrow.dataplane.stores import (
    POINT,
    KeptColumn,
    KeptFile,
    MappedFiles,
    MappedStoreFile,
    PackedFlags,
    Selected,
    StoredRows,
    WindowStoreSpec,
    merged,
    read_rows,
    write_rows,
)
from windrow.dataplane.stores.files import _packed, kept_of
from windrow.errors import StateError
from windrow.plan.accumulators import Accumulator, Key, Kind
from windrow.synopses.cells.buckets import BUCKETS, buckets_of
from windrow.types import POINT_MAX, POINT_MIN, SqlType
from windrow.windows import CutSchedule, SlidingWindow

K = KeptColumn("k", SqlType("STRING"))
X = KeptColumn("x + 1", SqlType("INT"))
BOOLEAN = SqlType("BOOLEAN")
EVEN = KeptColumn("x % 2 = 0", BOOLEAN)
BIG = KeptColumn("x > 6", BOOLEAN)
ALL = WindowStoreSpec(3, "s", "t", (K,), (K, X, EVEN))


def table(points: list[int], spec: WindowStoreSpec = ALL) -> pa.Table:
    values = {
        K: pa.array([None if t % 7 == 0 else f"k{t % 5}" for t in points], pa.string()),
        X: pa.array([t + 1 for t in points], pa.int32()),
        EVEN: pa.array([None if t % 9 == 0 else t % 2 == 0 for t in points], pa.bool_()),
        BIG: pa.array([t > 6 for t in points], pa.bool_()),
    }
    return pa.table({POINT: pa.array(points, pa.int64()), **{one.id: values[one] for one in spec.evaluated}})


def written(root: Path, points: list[int], spec: WindowStoreSpec = ALL) -> KeptFile:
    file = write_rows(BlockWriter(root), spec, kept_of(spec, table(points, spec)))
    assert file is not None
    return file


def mapped(root: Path, file: KeptFile) -> MappedStoreFile:
    return MappedStoreFile(root / file.ref.path)


def stored(root: Path, *files: KeptFile) -> list[StoredRows]:
    return [StoredRows(str(root / file.ref.path), file.lo, file.hi, file.ref.rows) for file in files]


def in_order(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: row[POINT])


def test_equal_text_gives_equal_ids() -> None:
    assert K.id == KeptColumn("k", SqlType("STRING")).id == "7adcdaa20f7a"
    assert len({one.id for one in (K, X, EVEN, KeptColumn("k", SqlType("INT")))}) == 4
    assert KeptColumn.restored(json.loads(json.dumps(X.saved()))) == X


def test_only_conditions_select() -> None:
    with pytest.raises(ValueError):
        WindowStoreSpec(1, "s", "t", (), (), (X,))


def test_evaluated_once() -> None:
    assert WindowStoreSpec(1, "s", "t", (K,), (K, X), (EVEN,)).evaluated == (K, X, EVEN)


def test_file_holds_the_rows(tmp_path: Path) -> None:
    points = [5, 3, 21, 14, 3]
    file = written(tmp_path, points)
    assert (file.store, file.lo, file.hi, file.ref.rows, file.ref.owner) == (3, 3, 21, 5, "stores/3")
    assert in_order(mapped(tmp_path, file).columns(ALL.columns)) == in_order(table(points))
    assert KeptFile.restored(json.loads(json.dumps(file.saved()))) == file


def test_columns_are_given_though_another_thread_clears_what_is_remembered(tmp_path: Path) -> None:
    class Cleared(dict[object, pa.Table]):
        def __setitem__(self, key: object, value: pa.Table) -> None:
            super().__setitem__(key, value)
            self.clear()

    file = mapped(tmp_path, written(tmp_path, [5, 3]))
    file._asked = Cleared()  # type: ignore[assignment]
    assert file.columns(ALL.columns).num_rows == 2


def test_no_rows_no_file(tmp_path: Path) -> None:
    assert write_rows(BlockWriter(tmp_path), ALL, table([])) is None
    assert not list(tmp_path.rglob("*.arrow"))


def test_rows_are_sorted_by_bucket(tmp_path: Path) -> None:
    file = mapped(tmp_path, written(tmp_path, list(range(200))))
    rows = file.columns([K])
    bucket = buckets_of([rows.column(K.id).combine_chunks()], np.zeros(200, bool), BUCKETS)
    assert (np.diff(bucket) >= 0).all() and len(set(bucket.tolist())) > 3
    assert (file.bucket_of_rows() == bucket).all()
    for run in (range(BUCKETS), range(100), range(100, 180), range(180, 300), range(7, 7)):
        taken = file.columns([K], run)
        assert taken.column(POINT).to_pylist() == rows.column(POINT).to_numpy()[np.isin(bucket, list(run))].tolist()
    with pytest.raises(ValueError):
        file.columns([K], range(0, 10, 2))


def test_conditions_as_bits(tmp_path: Path) -> None:
    points, flags = list(range(300)), PackedFlags((BIG, EVEN, *(KeptColumn(f"x = {i}", BOOLEAN) for i in range(61))))
    spec = WindowStoreSpec(3, "s", "t", (K,), (K, EVEN, flags.flags[-1]))
    values = table(points, WindowStoreSpec(3, "s", "t", (K,), (K, EVEN)))
    last = pa.array([t == 17 for t in points])
    file = write_rows(BlockWriter(tmp_path), spec, values.append_column(flags.flags[-1].id, last))
    assert file is not None and flags.type.name == "BIGINT"
    for run in (None, range(90, 200)):
        found = mapped(tmp_path, file).columns([K, flags], run)
        for row in found.to_pylist():  # the file has no column BIG, and EVEN is NULL for some
            point = row[POINT]
            assert row[flags.id] == (2 if point % 2 == 0 and point % 9 else 0) + ((1 << 62) if point == 17 else 0)
    with pytest.raises(ValueError, match="63"):
        PackedFlags((EVEN,) * 64)


def test_without_keys_all_rows_are_in_bucket_0(tmp_path: Path) -> None:
    spec = WindowStoreSpec(4, "s", "t", (), (X,))
    file = mapped(tmp_path, written(tmp_path, [9, 2, 5], spec))
    assert file.columns([X], range(1)).column(POINT).to_pylist() == [9, 2, 5]
    assert file.columns([X], range(1, BUCKETS)).num_rows == 0


def test_slices_are_no_copies(tmp_path: Path) -> None:
    file = mapped(tmp_path, written(tmp_path, list(range(1000))))
    before = pa.total_allocated_bytes()
    parts = [file.columns([X, K], range(at, at + 16)) for at in range(0, BUCKETS, 16)]
    assert sum(part.num_rows for part in parts) == 1000 and pa.total_allocated_bytes() <= before


def test_mapping_outlives_the_file(tmp_path: Path) -> None:
    points = list(range(500))
    file = written(tmp_path, points)
    open_files = len(os.listdir("/proc/self/fd"))
    found = mapped(tmp_path, file).columns(ALL.columns)
    assert len(os.listdir("/proc/self/fd")) == open_files
    (tmp_path / file.ref.path).unlink()
    assert in_order(found) == in_order(table(points))


def test_kept_rows(tmp_path: Path) -> None:
    points = list(range(20))
    one = WindowStoreSpec(5, "s", "t", (), (X, EVEN), (EVEN,))
    two = WindowStoreSpec(5, "s", "t", (), (X, EVEN, BIG), (EVEN, BIG))
    even = [t for t in points if t % 2 == 0 and t % 9]
    assert mapped(tmp_path, written(tmp_path, points, one)).columns([X]).column(POINT).to_pylist() == even
    found = mapped(tmp_path, written(tmp_path, points, two))
    assert found.columns([]).column(POINT).to_pylist() == sorted({*even, *range(7, 20)})
    assert found.kept_if == (EVEN.id, BIG.id)


@pytest.mark.parametrize(
    "lo, hi", [(0, 30), (3, 30), (0, 17), (3, 17), (12, 13), (30, 40), (-5, 0), (POINT_MIN, POINT_MAX)]
)
def test_points_in_range(tmp_path: Path, lo: int, hi: int) -> None:
    files = stored(tmp_path, written(tmp_path, list(range(10))), written(tmp_path, list(range(8, 30))))
    found = read_rows(MappedFiles(), files, [X, K], Selected(lo, hi))
    expected = [t for t in [*range(10), *range(8, 30)] if lo <= t < hi]
    assert found.column_names == [POINT, X.id, K.id]
    assert sorted(found.column(POINT).to_pylist()) == sorted(expected)
    assert sorted(found.column(X.id).to_pylist()) == sorted(t + 1 for t in expected)


def test_files_out_of_range_are_not_opened(tmp_path: Path) -> None:
    file, files = written(tmp_path, [1, 2, 3]), MappedFiles()
    missing = StoredRows(str(tmp_path / "none"), 4, 9, 3)
    assert read_rows(files, [*stored(tmp_path, file), missing], [X], Selected(1, 4)).num_rows == 3
    assert files.paths == {str(tmp_path / file.ref.path)}
    with pytest.raises(StateError):
        read_rows(files, [missing], [X], Selected(1, 5))


def test_file_wholly_in_range_is_not_filtered(tmp_path: Path) -> None:
    files, cache = stored(tmp_path, written(tmp_path, list(range(1000)))), MappedFiles()
    read_rows(cache, files, [X], Selected())
    before = pa.total_allocated_bytes()
    held = read_rows(cache, files, [X], Selected(0, 1000))
    assert held.num_rows == 1000 and pa.total_allocated_bytes() <= before


def test_small_files_are_read_in_few_chunks(tmp_path: Path) -> None:
    """A window slides over many files: some come, some go, and some are replaced by a merged one."""
    cache, files = MappedFiles(), [stored(tmp_path, written(tmp_path, [2 * i, 2 * i + 1]))[0] for i in range(70)]
    gc.collect()
    before = pa.total_allocated_bytes()
    for now in range(50, 70, 2):
        if now == 60:
            old = files[20:30]
            news = merged(
                BlockWriter(tmp_path), ALL, [MappedStoreFile(one.path) for one in old], (POINT_MIN, POINT_MAX)
            )
            files[20:30] = stored(tmp_path, *news)
            cache.forget([one.path for one in old])
        lo, hi = 2 * (now - 49) + 1, 2 * now
        for selected in (Selected(lo, hi), Selected(lo, hi, None, range(100))):
            held, plain = (read_rows(mapped, files, [X, K], selected) for mapped in (cache, MappedFiles()))
            assert in_order(held) == in_order(plain)
        held = read_rows(cache, files, [K], Selected(lo, hi))
        assert sorted(held.column(POINT).to_pylist()) == list(range(lo, hi))
        assert held.column(0).num_chunks <= 16
    del held, plain
    cache.forget(cache.paths)
    gc.collect()
    assert pa.total_allocated_bytes() <= before  # less when another test's rows went meanwhile


def test_predicate(tmp_path: Path) -> None:
    points = list(range(20))
    alone = WindowStoreSpec(5, "s", "t", (), (X,), (EVEN,))
    even = [t for t in points if t % 2 == 0 and t % 9]
    for spec in (ALL, alone):  # a file that one condition has selected needs no column of it
        files = stored(tmp_path, written(tmp_path, points, spec))
        found = read_rows(MappedFiles(), files, [X], Selected(2, 16, EVEN))
        assert sorted(found.column(POINT).to_pylist()) == [t for t in even if 2 <= t < 16]
        assert found.column_names == [POINT, X.id]


def test_missing_column_is_null(tmp_path: Path) -> None:
    files = stored(tmp_path, written(tmp_path, [1, 2]))
    found = read_rows(MappedFiles(), files, [X, BIG, X], Selected())
    assert found.column(1).to_pylist() == found.column(3).to_pylist() == [2, 3]
    assert found.column(2).to_pylist() == [None, None] and found.column(2).type == pa.bool_()
    assert read_rows(MappedFiles(), [], [X, BIG], Selected()).schema.types == [pa.int64(), pa.int32(), pa.bool_()]


def test_merged_files(tmp_path: Path) -> None:
    first, second = list(range(40)), list(range(30, 80))
    files = [mapped(tmp_path, written(tmp_path, points)) for points in (first, second)]
    (whole,) = merged(BlockWriter(tmp_path), ALL, files, (POINT_MIN, POINT_MAX))
    assert (whole.lo, whole.hi, whole.ref.rows) == (0, 79, 90)
    again = mapped(tmp_path, whole)
    assert in_order(again.columns(ALL.columns)) == in_order(table(first + second))
    rows = again.columns([K])
    bucket = buckets_of([rows.column(K.id).combine_chunks()], np.zeros(90, bool), BUCKETS)
    assert (again.bucket_of_rows() == bucket).all()


def test_merged_and_cut(tmp_path: Path) -> None:
    files = [mapped(tmp_path, written(tmp_path, list(range(40))))]
    parts = merged(BlockWriter(tmp_path), ALL, files, (10, 20, 35, 36, 90))
    assert [(part.lo, part.hi, part.ref.rows) for part in parts] == [
        (10, 19, 10),
        (20, 34, 15),
        (35, 35, 1),
        (36, 39, 4),
    ]
    found = read_rows(MappedFiles(), stored(tmp_path, *parts), ALL.columns, Selected())
    assert in_order(found) == in_order(table(list(range(10, 40))))


def test_merged_columns_are_those_kept_now(tmp_path: Path) -> None:
    old, new = WindowStoreSpec(3, "s", "t", (K,), (K, X)), WindowStoreSpec(3, "s", "t", (K,), (X, BIG), (BIG,))
    files = [mapped(tmp_path, written(tmp_path, [1, 2], old)), mapped(tmp_path, written(tmp_path, [8, 9], new))]
    (whole,) = merged(BlockWriter(tmp_path), new, files, (POINT_MIN, POINT_MAX))
    again = mapped(tmp_path, whole)
    assert again.kept_if is None
    found = in_order(again.columns([X, BIG, K]))
    assert [tuple(row.values()) for row in found] == [
        (1, 2, None, None), (2, 3, None, None), (8, 9, True, None), (9, 10, True, None)
    ]  # fmt: skip
    (same,) = merged(BlockWriter(tmp_path), new, files[1:], (POINT_MIN, POINT_MAX))
    assert mapped(tmp_path, same).kept_if == (BIG.id,)


# -- the kernel ---------------------------------------------------------------------------------------


def batch(rows: list[tuple[str | None, int | None]], names: tuple[KeptColumn, ...]) -> pa.RecordBatch:
    """Tagged rows (reason, point) with the columns `v`, and those that are kept."""
    points = [0 if t is None else t for _, t in rows]
    kept = table(points, WindowStoreSpec(1, "s", "t", (), names))
    return pa.RecordBatch.from_pydict(
        {
            "v": pa.array([f"v{t}" for t in points], pa.string()),
            "__t0": pa.array([t for _, t in rows], pa.int64()),
            "__moving__t0": pa.array([t for _, t in rows], pa.int64()),
            "__seen0": pa.array([None if why else f"k{t}" for why, t in rows], pa.string()),
            "__joining__t0": pa.array([t for _, t in rows], pa.int64()),
            "__reason": pa.array([why for why, _ in rows], pa.string()),
            "__record": pa.array([None if why is None else f"r{t}" for why, t in rows], pa.string()),
            "__dead_t": pa.array([t if why else None for why, t in rows], pa.int64()),
            **{kept_name(one): kept.column(one.id).combine_chunks() for one in names},
        }
    )


ROWS = [(None, 4), (None, 8), ("late", 2), (None, 6), ("null window attribute", None)]
PASSED = ["v", "__t0", "__reason", "__record", "__dead_t"]


def request(root: Path, *specs: WindowStoreSpec) -> KeepRequest:
    return KeepRequest(str(root), specs, {"t": "__t0"}, {"t": 5}, 1000)


def test_rows_pass_and_are_kept(tmp_path: Path) -> None:
    first, second = WindowStoreSpec(1, "s", "t", (K,), (X,)), WindowStoreSpec(2, "s", "t", (), (K,), (BIG,))
    asked = request(tmp_path, first, second)
    batches = [batch(ROWS, asked.columns), batch([(None, 9)], asked.columns)]
    out = pa.Table.from_batches(list(keep_and_pass(asked, 7, PASSED, batches)))
    rest, files = reported(out)
    assert rest.equals(pa.Table.from_batches(batches).select(PASSED))
    assert [(file.store, file.lo, file.hi, file.ref.rows) for file in files] == [(1, 4, 9, 4), (2, 8, 9, 2)]
    assert sorted(mapped(tmp_path, files[0]).columns([X]).column(X.id).to_pylist()) == [5, 7, 9, 10]
    told = out.filter(pa.compute.equal(out.column("__reason"), KEPT)).to_pylist()
    assert len(told) == 1 and told[0]["__record"] == "7" and told[0]["v"] is told[0]["__t0"] is None


@pytest.mark.parametrize("summed", [False, True])
def test_all_columns_of_the_output_may_be_null(tmp_path: Path, summed: bool) -> None:
    """Spark writes all batches of a task into one Arrow stream, which has one schema."""
    asked = request(tmp_path, WindowStoreSpec(1, "s", "t", (), (X,)))
    rows = batch([(None, 4), (None, 8)], asked.columns)
    strict = pa.RecordBatch.from_arrays(rows.columns, schema=pa.schema([f.with_nullable(False) for f in rows.schema]))
    summary = SummaryColumns((("__t0", 5),), (), ((None, "__seen0"),))
    out = keep_and_sum(asked, 0, summary, [strict]) if summed else keep_and_pass(asked, 0, PASSED, [strict])
    batches = list(out)
    assert all(field.nullable for field in batches[0].schema)
    with pa.ipc.new_stream(pa.BufferOutputStream(), batches[0].schema) as stream:
        for one in batches:
            stream.write_batch(one)
    assert len(batches) >= 2


def test_repeated_reports_count_once(tmp_path: Path) -> None:
    asked = request(tmp_path, WindowStoreSpec(1, "s", "t", (), (X,)))
    out = pa.Table.from_batches(list(keep_and_pass(asked, 0, PASSED, [batch(ROWS, asked.columns)])))
    _, files = reported(pa.concat_tables([out, out]))
    assert len(files) == 1


def test_nothing_kept_nothing_reported(tmp_path: Path) -> None:
    asked = request(tmp_path, WindowStoreSpec(1, "s", "t", (), (X,)))
    dead = batch([("late", 1)], asked.columns)
    out = pa.Table.from_batches(list(keep_and_pass(asked, 0, PASSED, [dead])))
    assert reported(out)[1] == [] and reported(out)[0].num_rows == 1
    assert list(keep_and_pass(asked, 0, PASSED, [])) == []
    assert not list(tmp_path.rglob("*.arrow"))


def test_much_is_kept_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "MOST_FILE_BYTES", 100)
    asked = request(tmp_path, WindowStoreSpec(1, "s", "t", (), (X,)))
    batches = [batch([(None, t) for t in range(at, at + 10)], asked.columns) for at in (0, 10, 20)]
    _, files = reported(pa.Table.from_batches(list(keep_and_pass(asked, 0, PASSED, batches))))
    assert [(file.lo, file.hi) for file in files] == [(0, 9), (10, 19), (20, 29)]


def test_summed_up(tmp_path: Path) -> None:
    asked = request(tmp_path, WindowStoreSpec(1, "s", "t", (), (X,)))
    summary = SummaryColumns((("__t0", 5),), (), ((None, None),))
    out = pa.Table.from_batches(list(keep_and_sum(asked, 3, summary, [batch(ROWS, asked.columns)])))
    rest, files = reported(out)
    assert [(file.lo, file.hi, file.ref.rows) for file in files] == [(4, 8, 3)]
    assert rest.column_names == summary.names
    assert sorted(map(tuple, (row.values() for row in rest.to_pylist())), key=str) == sorted(
        [
            (None, None, None, 1, 4, 4),
            (None, None, None, 2, 6, 8),
            ("late", "r2", 2, 1, 2, 2),
            ("null window attribute", "rNone", None, 1, None, None),
        ],
        key=str,
    )
    assert out.column(REPORT).null_count == out.num_rows - 1


def test_summed_up_in_sets(tmp_path: Path) -> None:
    asked = request(tmp_path, WindowStoreSpec(1, "s", "t", (), (X,)))
    rows = batch([(None, 4), (None, 4), (None, 8)], asked.columns)
    rows = rows.append_column("__seen1", rows.column("v"))
    summary = SummaryColumns((("__t0", None),), ("__t0",), ((1, "__seen0"), (2, "__seen1")))
    rest, _ = reported(pa.Table.from_batches(list(keep_and_sum(asked, 0, summary, [rows]))))
    found = [(r["__set"], r["__seen0"], r["__seen1"], r["__n"], r["__joining__t0"]) for r in rest.to_pylist()]
    assert sorted(found, key=str) == [
        (1, "k4", None, 2, 4), (1, "k8", None, 1, 8), (2, None, "v4", 2, 4), (2, None, "v8", 1, 8)
    ]  # fmt: skip


def test_columns_that_a_group_by_needs() -> None:
    stream = define_stream(
        cast(
            CreateStream,
            parse_one(
                "CREATE STREAM s (ts TIMESTAMP, k STRING, `odd name` INT, x INT, unused STRING, host STRING, n INT)"
                " FROM memory TIMESTAMP BY ts PUNCTUATE PER host SEQUENCE BY n"
            ),
        )
    )
    counted = Accumulator(Kind.SUM_INT, "`Odd Name` + 1", SqlType("INT"), "x > 3")
    grouping = Grouping(
        1, (Key("upper(K)", SqlType("STRING")),), CutSchedule.of(SlidingWindow(4, 2).cuts()), None, (counted,), "ts"
    )
    columns = ["ts", "k", "odd name", "x", "unused", "host", "n", "__pos0", "__bad"]
    assert needed_columns(columns, stream, [grouping], []) == ["k", "odd name", "x", "host", "n", "__pos0"]
    assert needed_columns(columns, stream, [], ["length(unused)"]) == ["unused", "host", "n", "__pos0"]


def test_conditions_are_packed_into_the_bits_of_a_number() -> None:
    """One that is NULL is not set, nor one that the file does not have; the last bit is the sign."""
    draw = np.random.default_rng(3)
    values = [[[True, False, None][n] for n in draw.integers(0, 3, 40)] for _ in range(64)]
    names = [f"f{i}" for i in range(64)]
    columns = {name: pa.array(some, pa.bool_()) for name, some in zip(names, values, strict=True)}
    made = pa.table(columns).drop_columns(["f7"])
    expected = [sum(1 << i for i in range(64) if i != 7 and values[i][row]) for row in range(40)]
    assert [word % (1 << 64) for word in _packed(made, names).to_pylist()] == expected
