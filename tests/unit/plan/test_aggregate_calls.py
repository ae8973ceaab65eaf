"""Aggregates with parameters: reading calls, and errors with place and remedy."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlglot import exp

from windrow.cql import parse_expression, parse_one
from windrow.cql.printer import to_text
from windrow.cql.statements import Select
from windrow.cql.tokens import place_of
from windrow.errors import BindError
from windrow.plan.accumulators import Parameter
from windrow.plan.calls import COUNT_DISTINCT, MAX_K, check_call, parameters_of, written_call

READ = [
    ("MEDIAN(a)", "MEDIAN", ["a"], ()),
    ("quantile(a + 1, 0.9)", "QUANTILE", ["a + 1"], (Decimal("0.9"),)),
    ("QUANTILE(a, 0)", "QUANTILE", ["a"], (0,)),
    ("QUANTILE(a, 1.000)", "QUANTILE", ["a"], (1,)),
    ("TOP_K(a, 3)", "TOP_K", ["a"], (3,)),
    ("TOP_K(a, 3, b * 2)", "TOP_K", ["a", "b * 2"], (3,)),
    (f"FREQUENT_ITEMS(a, {MAX_K})", "FREQUENT_ITEMS", ["a"], (MAX_K,)),
    ("APPROX_COUNT_DISTINCT(a)", "APPROX_COUNT_DISTINCT", ["a"], ()),
    ("APPROX_QUANTILE(a, .5)", "APPROX_QUANTILE", ["a"], (Decimal("0.5"),)),
    ("APPROX_TOP_K(a, 1)", "APPROX_TOP_K", ["a"], (1,)),
    ("COUNT(DISTINCT a)", COUNT_DISTINCT, ["a"], ()),
    ("COUNT(DISTINCT a, b)", COUNT_DISTINCT, ["a", "b"], ()),
    ("COUNT(*)", "COUNT", [], ()),
    ("SUM(a)", "SUM", ["a"], ()),
]


@pytest.mark.parametrize(("text", "function", "arguments", "parameters"), READ, ids=[row[0] for row in READ])
def test_written_call(text: str, function: str, arguments: list[str], parameters: tuple[Parameter, ...]) -> None:
    for written, condition in ((text, None), (f"{text} FILTER (WHERE c > 1)", "c > 1")):
        node = parse_expression(written)
        call = written_call(node)
        assert call is not None and call.function == function
        assert [argument.sql() for argument in call.arguments] == arguments
        assert parameters_of(call, lambda _: None) == parameters
        assert (None if call.condition is None else call.condition.sql()) == condition


@pytest.mark.parametrize("text", [row[0] for row in READ])
def test_call_as_text(text: str) -> None:
    statement = parse_one(f"SELECT {text} FILTER (WHERE c > 1) AS x FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]")
    assert isinstance(statement, Select) and parse_one(to_text(statement)) == statement


def test_other_nodes() -> None:
    assert written_call(parse_expression("a + 1")) is None


REFUSED = [
    ("MEDIAN()", "does not take 0 arguments", "MEDIAN"),
    ("MEDIAN(a, 2)", "does not take 2 arguments", "MEDIAN"),
    ("QUANTILE(a)", "does not take 1 argument", "QUANTILE"),
    ("TOP_K(a, 1, b, c)", "does not take 4 arguments", "TOP_K"),
    ("COUNT()", "or \\*", "COUNT"),
    ("APPROX_TOP_K(a) FILTER (WHERE a > 1)", "does not take 1 argument", "APPROX_TOP_K"),
    ("COUNT() FILTER (WHERE a > 1)", "or \\*", "COUNT"),
]


@pytest.mark.parametrize(("text", "says", "at"), REFUSED, ids=[row[0] for row in REFUSED])
def test_wrong_number_of_arguments(text: str, says: str, at: str) -> None:
    with pytest.raises(BindError, match=says) as caught:
        check_call(parse_expression(text), lambda node: None if node is None else place_of(node, f"SELECT {text}"))
    place = caught.value.place
    assert place is not None and (place.column, place.length) == (len("SELECT ") + 1, len(at)) and caught.value.remedy


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("QUANTILE(a, 1.1)", "from 0 to 1, not 1.1"),
        ("QUANTILE(a, -0.1)", "from 0 to 1, not -0.1"),
        ("QUANTILE(a, 0.1234567891)", "at most 9 digits"),
        ("QUANTILE(a, b)", "from 0 to 1, not b"),
        ("QUANTILE(a, '0.5')", "from 0 to 1, not '0.5'"),
        ("QUANTILE(a, 0.25 + 0.25)", "from 0 to 1"),
        ("TOP_K(a, 0)", "from 1 to 10,000, not 0"),
        ("TOP_K(a, -3)", "from 1 to 10,000, not -3"),
        ("TOP_K(a, 2.0)", "from 1 to 10,000, not 2.0"),
        ("FREQUENT_ITEMS(a, 10001)", "from 1 to 10,000, not 10001"),
        ("APPROX_TOP_K(a, b)", "from 1 to 10,000, not b"),
    ],
)
def test_bad_constants(text: str, says: str) -> None:
    call = written_call(parse_expression(text))
    asked: list[exp.Expr | None] = []
    assert call is not None
    with pytest.raises(BindError, match=says) as caught:
        parameters_of(call, lambda node: asked.append(node))  # type: ignore[func-returns-value]
    assert asked == list(call.constants) and caught.value.remedy
