"""The window clause: every form of it, and its errors."""

from __future__ import annotations

import pytest
from sqlglot import exp

from windrow.cql import StreamTable, parse_one, to_text, window_of
from windrow.cql.statements import Select
from windrow.cql.window_clause import Measure, Unit, WindowClause, WindowKind
from windrow.errors import ParseError

MINUTE = 60_000_000
HOUR = 60 * MINUTE


def time(amount_us: int) -> Measure:
    return Measure(amount_us, Unit.TIME)


def rows(amount: int) -> Measure:
    return Measure(amount, Unit.ROWS)


def values(amount: int) -> Measure:
    return Measure(amount, Unit.VALUES)


FORMS = [
    ("[RANGE 10 MINUTES]", WindowClause(WindowKind.RANGE, range=time(10 * MINUTE))),
    ("[RANGE 10 MINUTES SLIDE 1 MINUTE]", WindowClause(WindowKind.RANGE, time(10 * MINUTE), time(MINUTE))),
    (
        "[RANGE 1000 SLIDE 10 WATTR odometer]",
        WindowClause(WindowKind.RANGE, values(1000), values(10), wattr="odometer"),
    ),
    ("[ROWS 100]", WindowClause(WindowKind.ROWS, rows(100))),
    ("[ROWS 100 SLIDE 10]", WindowClause(WindowKind.ROWS, rows(100), rows(10))),
    ("[ROWS 100 SLIDE 10 PARTITION BY src]", WindowClause(WindowKind.ROWS, rows(100), rows(10), pattr=("src",))),
    ("[ROWS 9 PATTR a, `b c`]", WindowClause(WindowKind.ROWS, rows(9), pattr=("a", "b c"))),
    ("[RANGE 5 MINUTES SLIDE 1 ROW]", WindowClause(WindowKind.RANGE, time(5 * MINUTE), rows(1))),
    (
        "[RANGE 5 MINUTES SLIDE 5 ROWS SATTR rank(ts)]",
        WindowClause(WindowKind.RANGE, time(5 * MINUTE), rows(5), sattr="ts", sattr_is_rank=True),
    ),
    (
        "[RANGE 5 MINUTES SLIDE 5 ROWS SATTR seq RATTR ts]",
        WindowClause(WindowKind.RANGE, time(5 * MINUTE), rows(5), sattr="seq", rattr="ts"),
    ),
    (
        "[RANGE 2 MINUTES OFFSET 1 MINUTE]",
        WindowClause(WindowKind.RANGE, time(2 * MINUTE), offset=time(MINUTE)),
    ),
    ("[SINCE '2026-01-01' SLIDE 1 HOUR]", WindowClause(WindowKind.SINCE, slide=time(HOUR), since="2026-01-01")),
    ("[SINCE -5 SLIDE 10]", WindowClause(WindowKind.SINCE, slide=values(10), since=-5)),
    ("[UNBOUNDED]", WindowClause(WindowKind.UNBOUNDED)),
    ("[RANGE UNBOUNDED]", WindowClause(WindowKind.UNBOUNDED)),
    ("[NOW]", WindowClause(WindowKind.NOW)),
    ("[RANGE 1 MINUTE INTERNAL]", WindowClause(WindowKind.RANGE, time(MINUTE), internal=True)),
    (
        "[RANGE 1 DAY SLIDE 1 HOUR ORIGIN '2026-01-01 00:30:00']",
        WindowClause(WindowKind.RANGE, time(24 * HOUR), time(HOUR), origin="2026-01-01 00:30:00"),
    ),
    ("[RANGE 100 SLIDE 10 ORIGIN -7]", WindowClause(WindowKind.RANGE, values(100), values(10), origin=-7)),
    ("[range 0.5 seconds slide 333 ms]", WindowClause(WindowKind.RANGE, time(500_000), time(333_000))),
    ("[RANGE 10s SLIDE 250ms]", WindowClause(WindowKind.RANGE, time(10_000_000), time(250_000))),
    ("[RANGE 1d SLIDE .5 h]", WindowClause(WindowKind.RANGE, time(24 * HOUR), time(HOUR // 2))),
    ("[RANGE /* ten */ 10 -- of\n MINUTES]", WindowClause(WindowKind.RANGE, time(10 * MINUTE))),
    ("[RANGE 10 WATTR slide SLIDE 2]", WindowClause(WindowKind.RANGE, values(10), values(2), wattr="slide")),
]


def stream_of(text: str) -> StreamTable:
    statement = parse_one(text)
    assert isinstance(statement, Select)
    table = statement.select.find(StreamTable)
    assert table is not None
    return table


@pytest.mark.parametrize(("form", "clause"), FORMS, ids=[form for form, _ in FORMS])
def test_parse_and_print(form: str, clause: WindowClause) -> None:
    text = f"SELECT a FROM s {form} AS p"
    assert window_of(stream_of(text)) == clause
    assert window_of(stream_of(to_text(parse_one(text)))) == clause


def test_copy_and_transform() -> None:
    table = stream_of("SELECT a FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE] AS p")
    copied = table.copy()
    changed = table.transform(
        lambda node: exp.to_identifier("q") if node.name == "p" and isinstance(node, exp.Identifier) else node
    )
    assert window_of(copied) == window_of(changed) == window_of(table)
    assert copied == table != changed
    assert isinstance(table, exp.Table) and table.name == "s" and table.alias == "p"


def test_equality() -> None:
    assert parse_one("SELECT a FROM s [RANGE 10 SECONDS]") == parse_one("SELECT a FROM s [RANGE 10000 MILLISECONDS]")
    assert parse_one("SELECT a FROM s [RANGE 10 SECONDS]") != parse_one("SELECT a FROM s [RANGE 11 SECONDS]")


def test_table_without_window() -> None:
    statement = parse_one("SELECT a FROM s")
    assert isinstance(statement, Select)
    table = statement.select.find(exp.Table)
    assert table is not None and window_of(table) is None


def test_place() -> None:
    window = window_of(stream_of("SELECT a\nFROM s [RANGE 10 MINUTES]"))
    assert window is not None and window.place is not None
    assert (window.place.line, window.place.column, window.place.length) == (2, 8, 18)


@pytest.mark.parametrize(
    ("clause", "column", "says"),
    [
        ("[RANGE 0 SECONDS]", 24, "greater than zero"),
        ("[RANGE -5 SECONDS]", 24, "not negative"),
        ("[RANGE 10 SECONDS SLIDE 0 SECONDS]", 41, "greater than zero"),
        ("[RANGE 10 SECONDS SLIDE -1 SECOND]", 41, "not negative"),
        ("[RANGE 1.5]", 24, "not a whole number"),
        ("[ROWS 1.5]", 23, "not a whole number"),
        ("[RANGE 1e3]", 24, "not a whole number"),
        ("[RANGE SLIDE 10]", 24, "expected a number after RANGE"),
        ("[RANGE '1 hour']", 24, "Write it without quotes"),
        ("[RANGE 10 MINUTES SLIDE]", 40, "expected a number after SLIDE"),
        ("[RANGE 1 MONTH]", 24, "no fixed length"),
        ("[RANGE 2 YEARS SLIDE 1 DAY]", 24, "no fixed length"),
        ("[RANGE 0.0000001 SECONDS]", 24, "whole number of microseconds"),
        ("[RANGE 10 MINUTES SLIED 1 MINUTE]", 35, "Did you mean SLIDE?"),
        ("[RANGE 10 MINTES]", 24, "Did you mean MINUTES?"),
        ("[RNAGE 10 MINUTES]", 18, "Did you mean RANGE?"),
        ("[RANGE 10 ROWS]", 24, "Write [ROWS n]"),
        ("[ROWS 10 SECONDS]", 23, "number of rows"),
        ("[RANGE 10 SLIDE 5 SLIDE 5]", 35, "given twice"),
        ("[ROWS 5 PATTR a PARTITION BY b]", 33, "given twice"),
        ("[NOW OFFSET 5]", 22, "OFFSET goes with RANGE or ROWS"),
        ("[]", 18, "expected RANGE"),
        ("[10 MINUTES]", 18, "expected RANGE"),
        ("[SLIDE 1 SECOND RANGE 1 MINUTE]", 18, "SLIDE comes after that"),
        ("[SLIDE 1 SECOND]", 18, "For example [RANGE 10 MINUTES SLIDE 1 MINUTE]"),
        ("[PARTITION BY a ROWS 5]", 18, "a window begins with RANGE, ROWS"),
        ("[RANGE 0 SECONDS]", 24, "For example RANGE 10 SECONDS."),
        ("[RANGE 5 SECONDS SLIDE -1 SECOND]", 40, "For example SLIDE 10 SECONDS."),
        ("[ROWS 0]", 23, "For example ROWS 10."),
        ("[SINCE SLIDE 5]", 24, "a quoted time or an integer"),
        ("[RANGE 99999999999999999999]", 24, "too large"),
        ("[RANGE 10 WATTR]", 32, "expected a column"),
    ],
)
def test_errors(clause: str, column: int, says: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_one(f"SELECT a FROM s {clause}")
    assert says in str(caught.value)
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (1, column)


def test_window_after_alias() -> None:
    with pytest.raises(ParseError, match="before AS"):
        parse_one("SELECT a FROM s AS p [RANGE 10 MINUTES]")
