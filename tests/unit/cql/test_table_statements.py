"""Statements about tables: what they mean, and their errors with places."""

from __future__ import annotations

import pytest

from windrow.cql import parse_one
from windrow.cql.printer import to_script, to_text
from windrow.cql.statements import ColumnDef, CreateTable, DeleteRows, InsertRows, LoadRows, UpdateRows
from windrow.errors import ParseError, WindrowError


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("create table t (a int primary key, b string)", "CREATE TABLE t (a INT PRIMARY KEY, b STRING)"),
        (
            "CREATE TABLE IF NOT EXISTS t (a INT, `order` TEXT, PRIMARY KEY (`order`, a)) NON RETROACTIVE",
            "CREATE TABLE IF NOT EXISTS t (a INT, `order` STRING, PRIMARY KEY (`order`, a)) NON RETROACTIVE",
        ),
        (
            "CREATE TABLE t (k INT PRIMARY KEY) FROM STREAM s DELETE WHEN op = 'D' AND k > 1",
            "CREATE TABLE t (k INT PRIMARY KEY) FROM STREAM s DELETE WHEN op = 'D' AND k > 1",
        ),
        ("INSERT INTO t VALUES (1, 'a'), (-2, NULL)", "INSERT INTO t VALUES (1, 'a'), (-2, NULL)"),
        ("insert into t (b) values ('x;')", "INSERT INTO t (b) VALUES ('x;')"),
        ("INSERT INTO t SELECT a, n FROM answers('q')", "INSERT INTO t SELECT a, n FROM ANSWERS('q')"),
        ("UPDATE t SET a = a + 1, b = concat(b, 'where') WHERE a > 3", None),
        ("UPDATE t SET b = NULL", None),
        ("DELETE FROM t", None),
        ("DELETE FROM t WHERE a IN (1, 2)", None),
        ("LOAD INTO t FROM 'x.csv' FORMAT CSV OPTIONS (header false)", "LOAD INTO t FROM 'x.csv' FORMAT csv OPTIONS"),
        ("SHOW CREATE TABLE t", None),
        ("DROP TABLE IF EXISTS t", None),
    ],
)
def test_printed(text: str, printed: str | None) -> None:
    statement = parse_one(text)
    shown = to_text(statement)
    assert parse_one(shown) == statement
    if printed is not None:
        assert shown.startswith(printed)
    if isinstance(statement, CreateTable):
        assert parse_one(to_script(statement).rstrip(";")) == statement


def test_nodes() -> None:
    assert parse_one("CREATE TABLE t (A INT, b STRING, PRIMARY KEY (a))") == CreateTable(
        "t", (ColumnDef("A", "INT"), ColumnDef("b", "STRING")), ("A",)
    )
    insert = parse_one("INSERT INTO t VALUES (1), (2)")
    assert isinstance(insert, InsertRows) and [len(row) for row in insert.rows] == [1, 1]
    update = parse_one("UPDATE t SET a = 1, b = 2 WHERE c")
    assert isinstance(update, UpdateRows) and [name for name, _ in update.changed] == ["a", "b"] and update.where
    assert parse_one("DELETE FROM t") == DeleteRows("t")
    assert parse_one("LOAD INTO t FROM 'd'") == LoadRows("t", "d")


@pytest.mark.parametrize(
    ("text", "says", "at"),
    [
        ("CREATE TABLE t (a INT)", "has no PRIMARY KEY", "("),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", "PRIMARY KEY is given twice", "b"),
        ("CREATE TABLE t (a INT, A STRING)", "'A' is given twice", "A"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (z))", "not a column", ")"),
        ("CREATE TABLE t (a INT PRIMARY KEY) NON", "a clause of CREATE TABLE", "NON"),
        ("CREATE TABLE t (a INT PRIMARY KEY) DELETE WHEN a", "DELETE WHEN is of a table that a stream", "DELETE"),
        ("INSERT INTO t VALUES 1, 2", "in parentheses", "1"),
        ("INSERT INTO t VALUES", "rows such as", ""),
        ("INSERT INTO t VALUES (1) AS x", "rows such as", "("),
        ("INSERT INTO t (a, a) VALUES (1, 2)", "'a' is given twice", "a"),
        ("INSERT INTO t FROM s", "expected VALUES", "FROM"),
        ("UPDATE t SET", "a column to set", ""),
        ("UPDATE t SET a = 1, A = 2", "set twice", "A"),
        ("UPDATE t SET a", "expected '='", ""),
        ("UPDATE t SET a = WHERE b", "an expression after =", "WHERE"),
        ("DELETE FROM t WHERE a = 1 b", "a condition after WHERE", "a"),
        ("DELETE t", "expected FROM", "t"),
        ("LOAD INTO t FROM x", "a quoted path", "x"),
        ("LOAD INTO t FROM 'x' FORMAT orc", "not a format", "orc"),
    ],
)
def test_mistakes(text: str, says: str, at: str) -> None:
    with pytest.raises(WindrowError, match=says) as caught:
        parse_one(text)
    place = caught.value.place
    assert isinstance(caught.value, ParseError) and place is not None
    assert text[place.column - 1 :].startswith(at)
