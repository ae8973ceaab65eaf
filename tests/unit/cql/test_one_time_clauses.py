"""ISOLATION, PRIORITY and TIMEOUT after a SELECT."""

from __future__ import annotations

import pytest

from windrow.cql import parse_one
from windrow.cql.printer import to_text
from windrow.cql.statements import Explain, Select
from windrow.cql.window_clause import Measure, Unit
from windrow.errors import ParseError

COUNT = "SELECT COUNT(*) AS n FROM s [RANGE 5 MINUTES]"


def select_of(text: str) -> Select:
    found = parse_one(text)
    assert isinstance(found, Select)
    return found


def test_clauses_in_any_order() -> None:
    found = select_of(f"{COUNT} TIMEOUT 500 MILLISECONDS ISOLATION serial PRIORITY -3")
    assert (found.isolation, found.priority, found.timeout) == ("serial", -3, Measure(500_000, Unit.TIME))
    assert to_text(found) == f"{COUNT} ISOLATION 'serial' PRIORITY -3 TIMEOUT 500 MILLISECONDS"
    assert parse_one(to_text(found)) == found


@pytest.mark.parametrize("level", ["latest", "window", "serial"])
def test_levels(level: str) -> None:
    assert select_of(f"{COUNT} ISOLATION '{level}'").isolation == level
    assert select_of(f"{COUNT} isolation {level}").isolation == level


def test_explain_takes_them() -> None:
    found = parse_one(f"EXPLAIN {COUNT} ISOLATION 'window'")
    assert isinstance(found, Explain) and isinstance(found.statement, Select)
    assert found.statement.isolation == "window"


def test_the_words_may_still_be_names() -> None:
    found = select_of("SELECT isolation, s.timeout FROM s [RANGE 5 MINUTES] WHERE timeout > 5 AND isolation = 'x'")
    assert (found.isolation, found.timeout) == (None, None)


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("ISOLATION 'snapshot'", "expected 'latest', 'window' or 'serial' after ISOLATION"),
        ("ISOLATION 'latest' ISOLATION 'window'", "ISOLATION is given twice"),
        ("TIMEOUT 5", "TIMEOUT is a length of time"),
        ("PRIORITY 2 INTO console", "INTO is a clause of standing queries"),
    ],
)
def test_mistakes(clauses: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_one(f"{COUNT} {clauses}")
