"""Plans are saved as JSON, and come back as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp
from support.bound_plans import bind
from support.plan_builder import Maker, join_plans, negation_plans, over, plan, plans

from windrow.errors import StateError
from windrow.optimizer.common_subplan import numbered_in_order
from windrow.optimizer.execution import DIRECT, NEGATIVE, UPA, executed
from windrow.optimizer.pipeline import optimize
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Filter,
    NrrJoin,
    StreamWindow,
    TableColumn,
    TableScan,
    walk,
)
from windrow.plan.algebra.recording import recorded, restored_plan

SELECTS = (
    "SELECT name, a FROM s [RANGE 1 MINUTE] ORDER BY a DESC, 1, LENGTH(name) NULLS LAST LIMIT 3",
    "SELECT x.k, CAST(y.a AS DECIMAL(12,3)) + 0.5 AS z FROM s [NOW] AS x JOIN s [RANGE 1 HOUR] AS y ON x.k = y.k",
    "SELECT s.k, b FROM s [NOW] JOIN t [NOW] ON s.k = t.k JOIN s [RANGE 1 DAY] AS r ON r.k = s.k WHERE s.a > b OR r.a IN (1, 2)",
    "SELECT SUM(price) AS p, COUNT(DISTINCT a, b) AS d, TOP_K(Label, 2, b) AS t, AVG(a) AS v FROM s [NOW], t [NOW]",
    "SELECT s.k, QUANTILE(b, 0.25) AS q, MAX(a) FILTER (WHERE ok) AS m FROM s [NOW] JOIN t [NOW] ON s.k = t.k "
    "GROUP BY s.k HAVING COUNT(*) > 1",
    "SELECT DISTINCT k FROM s [RANGE 1 MINUTE] EXCEPT SELECT k FROM u [RANGE 2 MINUTES]",
    "SELECT a, NULL AS x FROM s [NOW] UNION ALL SELECT k, name FROM s [NOW]",
    "SELECT k FROM s [ROWS 3 PARTITION BY k] AS l WHERE NOT EXISTS (SELECT 1 FROM u [RANGE 5 SECONDS] AS z WHERE z.k = l.k "
    "AND z.c < l.a)",
    "SELECT s.a, u.c FROM s [RANGE 1 MINUTE] FULL JOIN u [RANGE 1 MINUTE] ON s.k = u.k",
    "SELECT ISTREAM(k, CASE WHEN a > 1 THEN 'it''s' ELSE name END AS n) FROM s [RANGE 1 MINUTE]",
    "SELECT x.k, y.n FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] AS x JOIN (SELECT k, COUNT(*) AS n FROM u "
    "[RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k) AS y ON x.k = y.k",
)
ANY: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def saved(one: ContinuousPlan) -> Any:
    return json.loads(json.dumps(recorded(one)))


def same(one: ContinuousPlan) -> None:
    again = restored_plan(saved(one))
    assert again == one and repr(again) == repr(one) and hash(again) == hash(one)
    assert [node.called for node in again.windows] == [node.called for node in one.windows]
    assert recorded(again) == saved(one)


@pytest.mark.parametrize("select", SELECTS)
def test_bound_plans(select: str) -> None:
    bound = bind(select)
    same(bound)
    same(numbered_in_order(optimize(bound).plan))


@settings(max_examples=100, **ANY)
@given(one=st.one_of(plans(), join_plans(), negation_plans()))
def test_random_plans(one: ContinuousPlan) -> None:
    same(one)
    same(numbered_in_order(optimize(one).plan))


@pytest.mark.parametrize("execution", [UPA, NEGATIVE, DIRECT])
def test_strategies(execution: str) -> None:
    same(executed(bind("SELECT DISTINCT x.k FROM s [NOW] AS x JOIN s [RANGE 1 HOUR] AS y ON x.k = y.k"), execution))


def test_tables() -> None:
    m = Maker()
    window, own = m.window("s"), m.column("k")
    scan = TableScan("names", (TableColumn(own, "k"), TableColumn(m.column("name"), "name")))
    keys = ((exp.column(window.schema[0].sql), exp.column(own.sql)),)
    same(plan(NrrJoin(window, scan, keys, is_left=True)))


def test_long_conditions_need_no_recursion() -> None:
    window = Maker().window("s")
    one = plan(Filter(window, over(window, " OR ".join(f"x = {i}" for i in range(300)))))
    assert restored_plan(saved(one)) == one


def test_names_for_users_are_part_of_it() -> None:
    one, other = (bind(f"SELECT {name}.k FROM s [NOW] AS {name}") for name in ("x", "y"))
    assert one == other and recorded(one) != recorded(other)


def test_default_values_are_left_out() -> None:
    """So a record does not change when nodes get more fields."""
    found = recorded(plan(Maker().window("s")))
    assert "predicate" not in found["nodes"][0] and "since" not in found["nodes"][0]["lifetime"]


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["nodes"][0].update(node="Subprocess"),
        lambda record: record["nodes"][0].update(shadow=1),
        lambda record: record["nodes"][0].update(alias=None),
        lambda record: record["nodes"].pop(0),
        lambda record: record.pop("step"),
        lambda record: record.clear(),
    ],
    ids=["unknown node", "unknown field", "a default", "missing input", "no step", "nothing"],
)
def test_what_cannot_be_read(change: Any) -> None:
    record = saved(bind("SELECT k FROM s [NOW] WHERE UPPER(name) = 'A' ORDER BY k LIMIT 2"))
    change(record)
    with pytest.raises(StateError, match="the saved plan cannot be read"):
        restored_plan(record)


def test_only_expressions_are_made() -> None:
    window = Maker().window("s")
    record = saved(plan(Filter(window, over(window, "x = 1"))))
    record["nodes"][1]["predicate"]["tree"][0][4] = "maybe_parse"
    with pytest.raises(StateError, match="maybe_parse is no expression"):
        restored_plan(record)


def test_plans_that_break_an_invariant_are_refused() -> None:
    found = bind("SELECT k FROM s [NOW] WHERE UPPER(name) = 'A' LIMIT 2")
    (window,) = (node for node in walk(found.root) if isinstance(node, StreamWindow))
    record = saved(replace(found, root=Filter(window, exp.column("c99"))))
    with pytest.raises(StateError, match="which its input does not have"):
        restored_plan(record)
