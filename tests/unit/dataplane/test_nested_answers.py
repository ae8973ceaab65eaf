"""Arrays and structs in answers: printed, delivered, taken back and compared."""

from __future__ import annotations

import datetime as dt
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windrow.dataplane.answers.revisions import difference, net_rows
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.dataplane.sinks.console import ConsoleSink
from windrow.dataplane.sinks.jsonl import json_lines
from windrow.dataplane.sinks.parquet import ParquetSink
from windrow.result import Result
from windrow.types import SqlType, array_type, rows_of, struct_type

UTC = dt.timezone.utc
TIME = dt.datetime(2026, 1, 1, 12, tzinfo=UTC)
ENTRY = struct_type(item=SqlType("TIMESTAMP"), total=SqlType("DOUBLE"))
TOP = array_type(ENTRY)


def answers(values: list[Any], ends: list[int] | None = None, ops: str | None = None) -> pa.Table:
    ends = [5] * len(values) if ends is None else ends
    columns = {
        "window_start": pa.array([end - 5 for end in ends], pa.int64()),
        "window_end": pa.array(ends, pa.int64()),
        "is_revision": pa.array([False] * len(values)),
    }
    if ops is not None:
        columns |= {"op": pa.array(list(ops)), "revision": pa.array([0] * len(values), pa.int32())}
    return pa.table({**columns, "top": pa.array(values, TOP.arrow)})


def entries(*totals: float | None) -> list[dict[str, Any]]:
    return [{"item": TIME, "total": total} for total in totals]


def test_json() -> None:
    (line,) = json_lines(AnswerBatch("q", answers([entries(1.5, math.nan, None)]), "x"))
    item = "2026-01-01T12:00:00.000000Z"
    assert json.loads(line)["top"] == [{"item": item, "total": total} for total in (1.5, None, None)]
    empty = [json.loads(line)["top"] for line in json_lines(AnswerBatch("q", answers([[], None]), "x"))]
    assert empty == [[], None]


def test_parquet(tmp_path: Path) -> None:
    sink = ParquetSink("q", "q", str(tmp_path))
    sink.publish(sink.stage(AnswerBatch("q", answers([entries(1.5), []]), "x"), 1))
    (file,) = tmp_path.glob("*.parquet")
    assert pq.read_table(file).column("top").to_pylist() == [entries(1.5), []]


def test_printed(capsys: pytest.CaptureFixture[str]) -> None:
    ConsoleSink().write(AnswerBatch("q", answers([entries(1.5), []]), "x"))
    shown = capsys.readouterr().out
    assert "top=[{item: 2026-01-01 12:00:00, total: 1.5}]" in shown and "top=[]" in shown
    assert "[{item: 2026-01-01 12:00:00, total: NULL}]" in str(Result(answers([entries(None)])))


def test_time_beyond_python() -> None:
    far = pa.array(
        [[{"item": 1 << 62, "total": 1.0}]], pa.list_(pa.struct([("item", pa.int64()), ("total", pa.float64())]))
    )
    table = pa.table({"top": far.cast(TOP.arrow)})
    assert rows_of(table) == [{"top": [{"item": 1 << 62, "total": 1.0}]}]


def test_differing_parts() -> None:
    old = answers([entries(1.0), entries(1.0, 2.0), [], None, entries(math.nan)])
    new = answers([entries(1.0, 2.0), None, entries(1.0, 3.0), [], entries(math.nan)])
    gone, come = difference(old, np.zeros(5, np.int64), new, np.zeros(5, np.int64))
    assert gone.tolist() == [0] and come.tolist() == [2]


def test_row_taken_back_with_other_last_digits() -> None:
    given = [entries(0.1 + 0.2), entries(7.0, 8.0), entries(0.3), entries(9.0)]
    found = net_rows(answers(given, [5, 5, 5, 10], "++-+"))
    assert found.column("top").to_pylist() == [entries(7.0, 8.0), entries(9.0)]
