"""Tab completion in the shell, by position. `|` is the cursor."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.console.shell.commands import COMMANDS
from windrow.console.shell.completion import SHOWN, STARTS, Completions, Names, complete
from windrow.cql import parser
from windrow.settings import SPECS

NAMES = Names(
    {"packets": ("ts", "src", "dst", "length"), "room 1": ("ts", "celsius")},
    {"busiest": ("window_start", "window_end", "is_revision", "src", "bytes")},
    {name: command.takes for name, command in COMMANDS.items()},
    {"hosts": ("ip", "site")},
)


def at(marked: str) -> tuple[str, ...]:
    cursor = marked.index("|")
    return complete(marked.replace("|", ""), cursor, NAMES).texts


@pytest.mark.parametrize(
    ("marked", "only"),
    [
        ("SEL|", ["SELECT"]),
        ("sel|", ["select"]),
        ("CREATE |", ["STREAM", "QUERY", "TABLE", "OR REPLACE QUERY"]),
        ("CREATE OR |", ["REPLACE QUERY"]),
        ("CREATE OR REPLACE QUERY |", ["busiest"]),
        ("CREATE OR REPLACE QUERY busiest |", ["AS"]),
        ("ALTER |", ["QUERY"]),
        ("ALTER QUERY |", ["busiest"]),
        ("ALTER QUERY busiest |", ["PAUSE", "RESUME"]),
        ("CREATE Q|", ["QUERY"]),
        ("SHOW STREAMS; cre|", ["create"]),
        ("SHOW S|", ["STREAMS", "SHARING", "SETTINGS", "SNAPSHOTS"]),
        ("SHOW LATENESS |", ["packets", "`room 1`"]),
        ("DROP QUERY |", ["busiest", "IF EXISTS"]),
        ("DROP STREAM IF EXISTS p|", ["packets"]),
        ("DESCRIBE b|", ["busiest"]),
        ("EXPLAIN QUERY |", ["busiest"]),
        ("EXPLAIN ANALYZE |", ["QUERY"]),
        ("EXPLAIN ANALYZE QUERY |", ["busiest"]),
        ("EXPLAIN |", ["SELECT", "CREATE QUERY", "QUERY", "ANALYZE QUERY", "VERBOSE"]),
        ("EXPLAIN VERBOSE |", ["SELECT", "CREATE QUERY", "QUERY"]),
        ("EXPLAIN VERBOSE QUERY |", ["busiest"]),
        ("SET empty|", ["empty_windows"]),
        ("SET empty_windows |", ["="]),
        ("SET empty_windows = |", ["'skip'", "'emit'"]),
        ("SET empty_windows = 'e|", ["emit'"]),
        ("INSERT |", ["INTO"]),
        ("INSERT INTO |", ["hosts"]),
        ("INSERT INTO hosts (|", ["ip", "site"]),
        ("INSERT INTO hosts SELECT byt| FROM busiest", ["bytes"]),
        ("UPDATE hosts |", ["SET"]),
        ("UPDATE hosts SET |", ["ip", "site", "…"]),
        ("UPDATE hosts SET site |", ["="]),
        ("UPDATE hosts SET site = 'B' |", ["WHERE", "AND", "…"]),
        ("DELETE FROM hosts WHERE s|", ["site", "sec(", "…"]),
        ("LOAD INTO hosts FROM 'x.csv' FORMAT |", ["csv", "json", "parquet"]),
        ("CREATE TABLE t (a |", ["BOOLEAN", "…"]),
        ("CREATE TABLE t (a INT |", ["PRIMARY KEY"]),
        ("CREATE TABLE t (a INT PRIMARY KEY) |", ["NON RETROACTIVE", "FROM STREAM", "DELETE WHEN"]),
        ("DROP TABLE |", ["hosts", "IF EXISTS"]),
        ("SELECT * FROM ho|", ["hosts"]),
        ("SELECT si| FROM hosts", ["site", "sign(", "…"]),
        ("SELECT * FROM p|", ["packets"]),
        ("SELECT * FROM dead|", ["dead_letters('"]),
        ("SELECT * FROM dead_letters('p|", ["packets')"]),
        ("SELECT sr| FROM packets [RANGE 1 MINUTE]", ["src"]),
        ("SELECT p.l| FROM packets [RANGE 1 MINUTE] AS p", ["length"]),
        ("SELECT x.l| FROM packets [RANGE 1 MINUTE] AS p", []),
        ("SELECT byt| FROM busiest", ["bytes"]),
        ("SELECT 1 FROM packets [|", ["RANGE", "ROWS", "SINCE", "UNBOUNDED", "NOW"]),
        ("SELECT 1 FROM packets [RANGE 10 M|", ["MICROSECONDS", "MILLISECONDS", "MINUTES"]),
        ("SELECT 1 FROM packets [RANGE 10 MINUTES S|", ["SLIDE", "SATTR"]),
        ("SELECT 1 FROM packets [ROWS 5 SLIDE 1 PARTITION |", ["BY"]),
        ("SELECT 1 FROM packets [ROWS 5 SLIDE 1 PARTITION BY s|", ["src"]),
        ("SELECT 1 FROM packets [ROWS 5] GROUP |", ["BY"]),
        ("SELECT 1 FROM packets [ROWS 5] GROUP BY d|", ["dst", "date(", "dateadd(", "…"]),
        ("SELECT SUM(length) AS total FROM packets [ROWS 5] ORDER BY to|", ["total", "top_k(", "to_char(", "…"]),
        ("SELECT 1 FROM packets [ROWS 5] WH|", ["WHERE"]),
        ("CREATE QUERY q |", ["AS"]),
        ("CREATE QUERY q AS |", ["SELECT"]),
        ("CREATE QUERY q AS SELECT WS|", ["WSTREAM("]),
        ("CREATE QUERY q AS SELECT ISTREAM |", ["RESTORE("]),
        ("CREATE QUERY q AS SELECT 1 FROM packets [ROWS 5 SLIDE 1] INTO |", ["console", "jsonl", "parquet"]),
        ("CREATE QUERY q AS SELECT 1 FROM packets [ROWS 5 SLIDE 1] EM|", ["EMIT EVERY WINDOW"]),
        ("CREATE STREAM s (a |", ["BOOLEAN", "TINYINT", "SMALLINT", "…"]),
        ("CREATE STREAM s (|", []),
        ("CREATE STREAM s (a INT, b STR|", ["STRING"]),
        ("CREATE STREAM s (a INT |", ["NULLABLE MISSING"]),
        ("CREATE STREAM s (a INT NULLABLE |", ["MISSING"]),
        ("CREATE STREAM s (ts TIMESTAMP) FROM |", ["files", "memory", "rate", "packets", "nexmark"]),
        ("CREATE STREAM s (ts TIMESTAMP, x INT) FROM memory TIMESTAMP BY |", ["ts", "x"]),
        ("CREATE STREAM s (ts TIMESTAMP) FROM memory TIMESTAMP |", ["BY"]),
        ("CREATE STREAM s (ts TIMESTAMP) FROM memory PUNCTUATE W|", ["WITH SLACK"]),
        ("CREATE STREAM s (ts TIMESTAMP) FROM memory PUNCTUATE WITH SLACK 5 S|", ["SECONDS"]),
        ("CREATE STREAM s (ts TIMESTAMP) FROM files OPTIONS (format '|", ["json'", "csv'", "parquet'"]),
        ("CREATE STREAM s (ts TIMESTAMP) FROM files OPTIONS (pa|", ["path"]),
        ("SELECT 'SEL|", []),
        ("-- SEL|", []),
        ("SELECT 12|", []),
        ("DESCRIBE `ro|", ["room 1`"]),
        ("\\wa|", ["watch"]),
        ("\\watch b|", ["busiest"]),
        ("\\watch SELECT 1 FROM pa|", ["packets"]),
        ("\\d p|", ["packets", "preaggregate", "plan_home"]),
        ("\\h CR|", ["CREATE STREAM", "CREATE QUERY", "CREATE STREAM AS", "CREATE TABLE"]),
        ("\\format |", ["table", "vertical", "markdown", "csv", "jsonl"]),
        ("\\timing |", ["on", "off"]),
        ("SHOW STREAMS; \\d bu|", ["busiest"]),
    ],
)
def test_completion(marked: str, only: list[str]) -> None:
    found = at(marked)
    if only[-1:] == ["…"]:
        assert found[: len(only) - 1] == tuple(only[:-1])
    else:
        assert found == tuple(only)


def test_columns_of_all_streams_before_from() -> None:
    assert {"ts", "src", "celsius"} <= set(at("SELECT |"))
    assert "celsius" not in at("SELECT | FROM packets [ROWS 5]")
    assert {"SUM(", "TOP_K(", "UPPER("} <= set(at("SELECT |"))


def test_what_is_completed_is_replaced() -> None:
    text = "SELECT sr FROM packets [ROWS 5]"
    assert complete(text, 9, NAMES) == Completions(7, ("src",))
    assert complete("\\watch bu", 9, NAMES) == Completions(7, ("busiest",))


def test_paths(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.json").touch()
    (tmp_path / ".hidden").touch()
    assert at(f"CREATE STREAM s (a INT) FROM files OPTIONS (path '{tmp_path}/|") == (f"{tmp_path}/data/",)
    assert at(f"CREATE STREAM s (a INT) FROM files OPTIONS (path '{tmp_path}/data/a|") == (f"{tmp_path}/data/a.json",)
    assert at(f"\\i {tmp_path}/d|") == (f"{tmp_path}/data/",)
    assert at(f"\\i {tmp_path}/none/|") == ()


def test_the_words_are_those_of_the_parser() -> None:
    assert {*SHOWN} == {*parser._SHOWN, "LATENESS"}
    assert {*(start.split()[0] for start in STARTS), "DESC"} == {*parser._STATEMENTS}
    assert {*at("SET |")} == {*SPECS}


@pytest.mark.parametrize(
    "text", ["'", "\\", "SELECT (((", "[", "FROM FROM .", "SET = '", "CREATE STREAM (", ";;", "`", "\\watch 2 \\d"]
)
def test_any_text_completes_without_an_error(text: str) -> None:
    for cursor in range(len(text) + 1):
        complete(text, cursor, NAMES)
