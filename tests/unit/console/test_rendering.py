"""Tables as text in each format, and the pager."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from windrow.console.interrupts import Interrupted
from windrow.console.shell.rendering import SLICE, page, rendered

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
TABLE = pa.table(
    {
        "ts": pa.array([NOON, None], pa.timestamp("us", "UTC")),
        "name": ['a,"b"', "日本\x1b[31m\n"],
        "n": pa.array([1, 1000], pa.int64()),
        "top": [[{"item": "x", "count": 2}], []],
    }
)


def lines(form: str, width: int = 120, expanded: bool | None = None, table: pa.Table = TABLE) -> list[str]:
    return list(rendered(table, form, width, expanded, lambda: False))


def test_table() -> None:
    assert lines("table") == [
        "╭─────────────────────┬────────────────┬──────┬───────────────────────╮",
        "│ ts                  │ name           │    n │ top                   │",
        "├─────────────────────┼────────────────┼──────┼───────────────────────┤",
        '│ 2026-03-01 12:00:00 │ a,"b"          │    1 │ [{item: x, count: 2}] │',
        "│ NULL                │ 日本\\x1b[31m\\n │ 1000 │ []                    │",
        "╰─────────────────────┴────────────────┴──────┴───────────────────────╯",
    ]


def test_vertical() -> None:
    found = lines("vertical")
    assert found[0].startswith("─ row 1 ─") and found[1:3] == ["ts   │ 2026-03-01 12:00:00", 'name │ a,"b"']
    assert lines("table", width=60) == found == lines("table", expanded=True)
    assert lines("table", width=60, expanded=False) == lines("table")
    assert lines("vertical", table=TABLE.slice(0, 0)) == ["no rows"]


def test_csv() -> None:
    rows = list(csv.reader(lines("csv")[:2]))
    assert rows == [["ts", "name", "n", "top"], ["2026-03-01 12:00:00", 'a,"b"', "1", "[{item: x, count: 2}]"]]
    assert lines("csv")[2].startswith(",")


def test_jsonl() -> None:
    first, second = map(json.loads, lines("jsonl"))
    assert first == {"ts": "2026-03-01T12:00:00.000000Z", "name": 'a,"b"', "n": 1, "top": [{"item": "x", "count": 2}]}
    assert second["ts"] is None and second["name"] == "日本\x1b[31m\n"


def test_markdown() -> None:
    assert lines("markdown")[0].startswith("| ts ") and len(lines("markdown")) == 4


@pytest.mark.parametrize("form", ["table", "vertical", "markdown", "csv", "jsonl"])
def test_same_name_twice(form: str) -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    text = "\n".join(lines(form, table=table))
    assert "a_2" in text and "1" in text and "2" in text


@pytest.mark.parametrize("form", ["table", "vertical", "markdown", "csv", "jsonl"])
def test_ctrl_c_ends_the_drawing(form: str) -> None:
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 2

    table = pa.table({"n": range(10 * SLICE)})
    with pytest.raises(Interrupted):
        list(rendered(table, form, 80, None, cancelled))
    assert len(asked) == 3


def test_pager(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PAGER", f"sh -c 'cat > {tmp_path}/shown'")
    assert page(["one", "zwei ü"])
    assert (tmp_path / "shown").read_text() == "one\nzwei ü\n"
    monkeypatch.setenv("PAGER", "true")  # leaves without reading
    assert page(["x" * 1000] * 1000)
    monkeypatch.setenv("PAGER", "no-such-pager-here")
    assert not page(["one"])
