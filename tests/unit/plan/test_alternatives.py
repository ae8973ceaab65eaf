"""EXISTS and IN under OR as a UNION ALL: every row passes at most one of its SELECTs."""

from __future__ import annotations

import pytest
from sqlglot import exp
from support.bound_plans import bind

from windrow.cql import parse_one
from windrow.cql.statements import CreateQuery
from windrow.plan.algebra.nodes import MergeUnion, SemiJoin, walk
from windrow.plan.continuous.subqueries.alternatives import with_alternatives

E, F = "EXISTS(SELECT 1 FROM t AS t WHERE t.k = s.k)", "EXISTS(SELECT 2 FROM t AS t WHERE t.k = s.k)"
IN = "k IN (SELECT k FROM t AS t)"


def conditions(where: str, select: str = "SELECT k FROM s AS s") -> list[str]:
    """The conditions of the SELECTs."""
    statement = parse_one(f"CREATE QUERY q AS {select} WHERE {where}")
    assert isinstance(statement, CreateQuery) and isinstance(statement.select, exp.Select)
    found = with_alternatives(statement.select)
    branches = list[exp.Expr]()
    while isinstance(found, exp.Union):
        assert found.args["distinct"] is False
        branches.insert(0, found.expression)
        found = found.this
    return [one.args["where"].this.sql("spark") for one in (found, *branches)]


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        (f"x = 1 AND {E}", [f"x = 1 AND {E}"]),
        (f"x = 1 OR {E}", ["x = 1", f"NOT (x = 1) IS TRUE AND {E}"]),
        (f"y = 2 AND (x = 1 OR {E})", ["y = 2 AND x = 1", f"y = 2 AND NOT (x = 1) IS TRUE AND {E}"]),
        (f"{E} OR NOT {F}", [E, f"NOT ({E}) AND NOT {F}"]),
        (
            f"{IN} OR x = 1 OR {E}",
            ["x = 1", f"NOT (x = 1) IS TRUE AND {E}", f"NOT (x = 1) IS TRUE AND NOT ({E}) AND {IN}"],
        ),
        (f"NOT ({E} AND {F})", [f"NOT {E}", f"NOT (NOT {E}) AND NOT {F}"]),
        (f"NOT ({E} AND x > 3)", ["NOT (x > 3)", f"NOT (NOT (x > 3)) IS TRUE AND NOT {E}"]),
        (f"NOT ({E} OR {F})", [f"NOT ({E} OR {F})"]),
        (f"{IN} OR NOT {IN}", [f"{IN} OR NOT {IN}"]),
    ],
)
def test_parts(where: str, parts: list[str]) -> None:
    assert conditions(where) == parts


@pytest.mark.parametrize("select", ["SELECT DISTINCT k FROM s AS s", "SELECT COUNT(*) FROM s AS s"])
def test_others_are_left_alone(select: str) -> None:
    assert conditions(f"x = 1 OR {E}", select) == [f"x = 1 OR {E}"]


def test_bound() -> None:
    plan = bind("SELECT a FROM s [NOW] WHERE a > 1 OR k NOT IN (SELECT k FROM t [NOW])")
    assert isinstance(plan.root, MergeUnion) and len(plan.windows) == 5
    negated = "NOT (a > 1 AND EXISTS (SELECT 1 FROM t [NOW] WHERE t.k = s.k))"
    assert isinstance(bind(f"SELECT a FROM s [NOW] WHERE {negated}").root, MergeUnion)
    assert sum(isinstance(node, SemiJoin) for node in walk(plan.root)) == 3
