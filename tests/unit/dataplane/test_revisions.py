"""Rows given and taken back: the net rows, in memory and in a directory of Parquet files."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow
from windrow.dataplane.answers.revisions import difference, net_rows
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.dataplane.sinks.parquet import ParquetSink
from windrow.errors import SinkError

Row = tuple[Any, ...]
NAN = float("nan")


def delivered(*rows: Row) -> pa.Table:
    """Delivered rows (op, revision, window_end, k, y)."""
    op, revision, end, k, y = zip(*rows, strict=True) if rows else ((),) * 5
    return pa.table(
        {
            "window_start": pa.array([e - 5 for e in end], pa.int64()),
            "window_end": pa.array(end, pa.int64()),
            "is_revision": pa.array([r > 0 for r in revision], pa.bool_()),
            "op": pa.array(op, pa.string()),
            "revision": pa.array(revision, pa.int32()),
            "k": pa.array(k, pa.string()),
            "y": pa.array(y, pa.float64()),
        }
    )


def rows_of(table: pa.Table) -> list[Row]:
    """(window_end, k, y, is_revision), with NaN as text so that it compares equal."""
    rows = [(r["window_end"], r["k"], r["y"], r["is_revision"]) for r in table.to_pylist()]
    return [tuple("NaN" if v != v else v for v in row) for row in rows]


def test_net_rows() -> None:
    found = net_rows(
        delivered(
            ("+", 0, 5, "a", 1.0),
            ("+", 0, 10, "a", NAN),
            ("+", 0, 10, None, None),
            ("-", 1, 5, "a", 1.0),
            ("+", 1, 5, "a", 3.0),
            ("+", 0, 7, "late", 1.0),
            ("-", 1, 10, "a", NAN),
            ("-", 2, 5, "a", 3.0),
            ("+", 2, 5, "a", 1.0),
        )
    )
    assert rows_of(found) == [(5, "a", 1.0, True), (7, "late", 1.0, False), (10, None, None, True)]
    assert found.column_names == ["window_start", "window_end", "is_revision", "k", "y"]


def test_equal_rows_taken_back_one_by_one() -> None:
    found = net_rows(delivered(*[("+", 0, 5, "a", 1.0)] * 3, ("-", 1, 5, "a", 1.0)))
    assert rows_of(found) == [(5, "a", 1.0, True)] * 2


def test_floats_that_differ_in_the_last_digits() -> None:
    found = net_rows(
        delivered(
            ("+", 0, 5, "a", 0.1 + 0.2),
            ("+", 0, 5, "a", 9.0),
            ("+", 0, 5, "b", 0.3),
            ("-", 1, 5, "a", 0.3),
            ("+", 1, 5, "a", 0.7),
        )
    )
    assert rows_of(found) == [(5, "a", 9.0, True), (5, "b", 0.3, True), (5, "a", 0.7, True)]


def test_row_taken_back_without_its_given_row() -> None:
    assert rows_of(net_rows(delivered(("-", 1, 5, "a", 1.0), ("+", 1, 5, "a", 3.0)))) == [(5, "a", 3.0, True)]
    assert rows_of(net_rows(delivered())) == []


@pytest.mark.parametrize("seed", range(20))
def test_difference(seed: int) -> None:
    rng = Random(seed)
    row = lambda: (rng.randrange(3), rng.choice(["a", None]), rng.choice([None, NAN, 0.5]))  # noqa: E731
    bags = [sorted((row() for _ in range(rng.randrange(12))), key=lambda r: r[0]) for _ in range(2)]
    before, after = (
        delivered(*[("+", 0, w, k, y) for w, k, y in bag]).drop_columns(["op", "revision"]) for bag in bags
    )
    of = [np.array([r[0] for r in bag], np.int64) for bag in bags]
    gone, come = difference(before, of[0], after, of[1])
    text = [[str(r) for r in bag] for bag in bags]
    for i in gone:
        text[0][int(i)] = ""
    assert sorted([t for t in text[0] if t] + [text[1][int(i)] for i in come]) == sorted(text[1])
    assert not {str(bags[0][int(i)]) for i in gone} & {str(bags[1][int(i)]) for i in come}


# -- a directory of files ------------------------------------------------------------------------------

BATCHES = (
    delivered(("+", 0, 5, "a", 1.0), ("+", 0, 10, "a", 2.0)),
    delivered(("-", 1, 5, "a", 1.0), ("+", 1, 5, "a", 3.0), ("+", 1, 5, "b", 4.0)),
    delivered(("+", 0, 15, "a", 5.0)),
)
NET = [(5, "a", 3.0, True), (5, "b", 4.0, True), (10, "a", 2.0, False), (15, "a", 5.0, False)]


def write(directory: Path, batches: tuple[pa.Table, ...] = BATCHES, first: int = 1, query: str = "q") -> None:
    sink = ParquetSink(query, query, str(directory))
    for seq, table in enumerate(batches, first):
        sink.publish(sink.stage(AnswerBatch(query, table, f"{query}@{seq}"), seq))


def test_read_answers(tmp_path: Path) -> None:
    write(tmp_path)
    assert rows_of(windrow.read_answers(tmp_path).arrow()) == NET


def test_compact_answers(tmp_path: Path) -> None:
    write(tmp_path)
    assert windrow.compact_answers(tmp_path) == 3
    assert [file.name for file in tmp_path.iterdir()] == ["q-000000000003-net.parquet"]
    assert rows_of(windrow.read_answers(tmp_path).arrow()) == NET
    assert windrow.compact_answers(tmp_path) == 0
    write(tmp_path, (delivered(("-", 2, 5, "b", 4.0), ("-", 1, 10, "a", 2.0), ("+", 1, 10, "a", 7.0)),), first=4)
    after = [(5, "a", 3.0, True), (10, "a", 7.0, True), (15, "a", 5.0, False)]
    assert rows_of(windrow.read_answers(tmp_path).arrow()) == after
    assert windrow.compact_answers(tmp_path) == 2
    assert rows_of(windrow.read_answers(tmp_path).arrow()) == after


@pytest.mark.parametrize("left", [1, 2, 3])
def test_crash_while_compacting(tmp_path: Path, left: int) -> None:
    write(tmp_path / "kept")
    shutil.copytree(tmp_path / "kept", tmp_path / "crashed")
    windrow.compact_answers(tmp_path / "crashed")
    for number in range(1, left + 1):
        shutil.copy(tmp_path / "kept" / f"q-{number:012d}.parquet", tmp_path / "crashed")
    assert rows_of(windrow.read_answers(tmp_path / "crashed").arrow()) == NET
    assert windrow.compact_answers(tmp_path / "crashed") == 0
    assert len(list((tmp_path / "crashed").iterdir())) == 1, "the next call removes the leftovers"
    assert rows_of(windrow.read_answers(tmp_path / "crashed").arrow()) == NET


def test_file_that_reuses_a_compacted_name(tmp_path: Path) -> None:
    """A stream that was dropped and created again counts its ticks from the beginning."""
    write(tmp_path)
    windrow.compact_answers(tmp_path)
    write(tmp_path, (delivered(("+", 0, 40, "new", 8.0)),), first=1)
    assert rows_of(windrow.read_answers(tmp_path).arrow()) == [*NET, (40, "new", 8.0, False)]


def test_answers_without_revisions(tmp_path: Path) -> None:
    plain = tuple(table.drop_columns(["op", "revision"]) for table in (BATCHES[0], BATCHES[2]))
    write(tmp_path, plain)
    expected = [(5, "a", 1.0, False), (10, "a", 2.0, False), (15, "a", 5.0, False)]
    assert rows_of(windrow.read_answers(tmp_path).arrow()) == expected
    assert windrow.compact_answers(tmp_path) == 2
    assert rows_of(windrow.read_answers(tmp_path).arrow()) == expected


def test_query_must_be_unique(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="no answers"):
        windrow.read_answers(tmp_path)
    write(tmp_path)
    write(tmp_path, query="other")
    with pytest.raises(SinkError, match="other, q"):
        windrow.read_answers(tmp_path)
    assert rows_of(windrow.read_answers(tmp_path, query="q").arrow()) == NET
    assert windrow.compact_answers(tmp_path, "other") == 3
    assert rows_of(windrow.read_answers(tmp_path, query="other").arrow()) == NET
