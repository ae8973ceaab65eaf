"""Predicates in disjunctive normal form: canonical, and sound for every tuple, including NULLs."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.optimizer.sharing.predicates import (
    FALSE,
    MOST_TERMS,
    TRUE,
    ColumnComparison,
    OpaqueCondition,
    Predicate,
    exclusive,
    implied,
    reader_of,
)
from windrow.types import SqlType

COLUMNS = (
    ("a", SqlType("INT")),
    ("s", SqlType("STRING")),
    ("d", SqlType("DOUBLE")),
    ("m", SqlType("DECIMAL(10,2)")),
    ("f", SqlType("FLOAT")),
    ("b", SqlType("BOOLEAN")),
)


def p(text: str | None) -> Predicate:
    return reader_of(COLUMNS)(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("`a` = 1 OR `s` = 'x'", "'x' = `s` OR (1 = `a`)"),
        ("`a` = 1 OR `a` = 1", "`a` = 1"),
        ("`a` IN (1, 2)", "`a` = 2 OR `a` = 1"),
        ("`a` BETWEEN 1 AND 3", "`a` > 0 AND `a` < 4"),
        ("NOT (`a` = 1 AND `s` <> 'x')", "`a` <> 1 OR `s` = 'x'"),
        ("`a` = 1 AND (`s` = 'x' OR `s` = 'y')", "`s` = 'y' AND `a` = 1 OR `a` = 1 AND `s` = 'x'"),
        ("`a` > 3 OR `a` > 5", "`a` > 3"),
        ("NOT (`a` <= 3 AND `s` <> 'x') AND (`a` > 3 OR `s` = 'x')", "`a` > 3 OR `s` = 'x'"),
        ("`a` > 3 AND `a` > 5", "`a` >= 6"),
        ("`a` = 3 AND `a` IS NOT NULL", "`a` = 3"),
        ("`a` = 3 OR (`a` = 1 AND `a` = 2)", "`a` = 3"),
        ("`a` = 3 OR FALSE", "`a` = 3"),
        ("`a` = 3 AND TRUE", "`a` = 3"),
        ("`m` = 1.50", "`m` = 1.5"),
        ("NOT (`s` LIKE 'x%')", "NOT `s` LIKE 'x%'"),
    ],
)
def test_equal_up_to_order_and_writing(one: str, other: str) -> None:
    assert p(one) == p(other)


def test_true_and_false() -> None:
    assert p(None) == TRUE == p("TRUE")
    assert p("FALSE") == FALSE == p("NULL") == p("`a` = 1 AND `a` = 2") == p("NOT NULL")
    assert p("`a` = 1 OR `a` <> 1") != TRUE, "a NULL passes neither"
    assert str(p("`a` = 1 OR `s` = 'x'")) == "a = 1 OR s = 'x'"


@pytest.mark.parametrize(
    "text",
    [
        "`s` = 1",  # the text is cast
        "`a` = '1'",
        "`a` = 1.5",
        "`f` = 1",  # compared as FLOAT
        "`f` = 0.1",  # compared as DOUBLE
        "`a` = `b`",
        "abs(`a`) = 1",
        "`m` = 1e0",
        f"`m` = 0.{'1' * 36}",  # 38 digits do not hold both
        "`s` IN ('x', 1)",
        "`b`",
    ],
)
def test_opaque_conditions(text: str) -> None:
    (term,) = p(text).terms
    assert all(isinstance(atom, OpaqueCondition) for atom in term)


def test_constants_are_of_the_columns_type() -> None:
    assert p("`m` > -1.5") == Predicate.of([[ColumnComparison("m", ">", Decimal("-1.5"))]])
    assert p("`d` = 0.1") == Predicate.of([[ColumnComparison("d", "=", 0.1)]])
    assert p("`d` = 0.1") == p("`d` = 0.10000000000000000001"), "one double"
    assert p("`d` = 0.0") == p("`d` = -0.0")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("`s` = 'x'", "`s` = 'y'"),
        ("`a` < 3", "`a` > 3"),
        ("`a` < 4", "`a` > 3"),
        ("`a` <= 3", "`a` >= 4"),
        ("`d` < 3", "`d` >= 3"),
        ("`a` = 1", "`a` <> 1"),
        ("`a` = 1", "`a` IS NULL"),
        ("`a` IS NOT NULL", "`a` IS NULL"),
        ("`b`", "NOT `b`"),
        ("`s` LIKE 'x%'", "NOT (`s` LIKE 'x%')"),
        ("`a` = 1 AND `s` = 'x'", "`a` = 2 AND `s` = 'x' OR `s` = 'y'"),
    ],
)
def test_disjoint(one: str, other: str) -> None:
    assert p(one).excludes(p(other)) and p(other).excludes(p(one))
    assert all(exclusive(a, b) for a, b in combinations(Predicate.of([*p(one).terms, *p(other).terms]).terms, 2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("`s` = 'x'", "`a` = 1"),
        ("`a` <= 3", "`a` >= 3"),
        ("`d` < 4", "`d` > 3"),
        ("`a` <> 1", "`a` <> 2"),
        ("`s` = 1", "`s` = 2"),
        ("`s` = 'x'", "`s` = 'x' AND `a` = 1"),
    ],
)
def test_not_known_to_be_disjoint(one: str, other: str) -> None:
    assert not p(one).excludes(p(other))


def test_too_large_predicate_is_opaque() -> None:
    grown = " AND ".join(f"(`a` = {i} OR `s` = '{i}')" for i in range(12))
    assert p(grown) == Predicate.of([[OpaqueCondition(grown)]])
    many = " OR ".join(f"`a` = {i}" for i in range(MOST_TERMS + 1))
    assert p(many) == Predicate.of([[OpaqueCondition(many)]])


# -- against SQL itself ----------------------------------------------------------------------------

VALUES = {"a": [None, 0, 1, 2, 3], "s": [None, "", "x", "y"], "d": [None, 0.5, 1.0, 2.0]}
ROWS = [(a, s, d) for a in VALUES["a"] for s in VALUES["s"] for d in VALUES["d"]]
ATOMS = st.one_of(
    st.builds("`a` {} {}".format, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), st.integers(0, 3)),
    st.builds("`s` {} '{}'".format, st.sampled_from(["=", "<>", "<", ">="]), st.sampled_from(["", "x", "y"])),
    st.builds("`d` {} {}".format, st.sampled_from(["=", "<>", "<", ">="]), st.sampled_from(["0.5", "1", "2.0"])),
    st.sampled_from(
        [
            "`a` IS NULL",
            "`s` IS NOT NULL",
            "`a` IN (1, 2)",
            "`s` NOT IN ('x', 'z')",
            "`a` BETWEEN 1 AND 2",
            "`a` IN (1, NULL)",
            "`s` LIKE 'x%'",
            "`a` = length(`s`)",
            "TRUE",
            "FALSE",
            "NULL",
        ]
    ),
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=6,
)
_connection = duckdb.connect()
_connection.execute("CREATE TABLE t (a INT, s VARCHAR, d DOUBLE)")
_connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)


def passing(condition: str) -> set[Any]:
    return set(_connection.execute(f"SELECT a, s, d FROM t WHERE {condition}".replace("`", '"')).fetchall())


def as_sql(predicate: Predicate) -> str:
    def atom(one: Any) -> str:
        if isinstance(one, OpaqueCondition):
            return f"(NOT ({one.sql}))" if one.negated else f"({one.sql})"
        value = one.value
        shown = "" if value is None else f"'{value.decode()}'" if isinstance(value, bytes) else str(value)
        return f"(`{one.attribute}` {one.op} {shown})"

    terms = ["(" + (" AND ".join(map(atom, term)) or "TRUE") + ")" for term in predicate.terms]
    return " OR ".join(terms) or "FALSE"


@settings(max_examples=250, deadline=None)
@given(CONDITIONS, CONDITIONS)
def test_the_normal_form_passes_the_same_tuples(one: str, other: str) -> None:
    mine, theirs = p(one), p(other)
    assert passing(as_sql(mine)) == passing(one)
    if mine == theirs:
        assert passing(one) == passing(other)
    if mine.excludes(theirs):
        assert not passing(one) & passing(other)
    if all(exclusive(a, b) for a, b in combinations(mine.terms, 2)):
        parts = [passing(as_sql(Predicate(frozenset({term})))) for term in mine.terms]
        assert sum(map(len, parts)) == len(passing(one))
    for a in mine.terms:
        for b in theirs.terms:
            if implied(a, b):
                assert passing(as_sql(Predicate(frozenset({a})))) <= passing(as_sql(Predicate(frozenset({b}))))
