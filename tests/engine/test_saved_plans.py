"""A query goes on by the plan that its state was made by, whatever the version that opens the state would choose."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.matrix import is_full

import windrow
from windrow.engine.plans import manager
from windrow.errors import BindError, QuerySuspendedError
from windrow.optimizer.rules import place_negation as negation

STREAM = "CREATE STREAM {} (t BIGINT, k INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
RANGE = 20

Rows = dict[str, list[tuple[int, int, int]]]
Answer = Callable[[dict[str, list[tuple[int, int]]]], list[tuple[int, ...]]]

RULES = "windrow.optimizer.rules"
EVERY = (
    "place_negation, match_once, merge_joins, nest_joins, push_distinct, order_joins, push_projections, reuse_distinct"
)
ALWAYS = 1e9
"""A plan that is not so many times as expensive is taken."""

_cost = negation._cost


def dearest(*plan_and_facts: Any) -> float:
    return 1 / _cost(*plan_and_facts)


def reversed_order(inputs: Any, conditions: Any) -> tuple[int, ...]:
    return tuple(reversed(range(len(inputs))))


def not_in(of: dict[str, list[tuple[int, int]]]) -> list[tuple[int, ...]]:
    return [row for row in of["a"] if row[0] not in {k for k, _ in of["c"]}]


def pairs_not_in(of: dict[str, list[tuple[int, int]]]) -> list[tuple[int, ...]]:
    gone = {k for k, _ in of["c"]}
    return [(k, x, y) for k, x in of["a"] for other, y in of["b"] if k == other and k not in gone]


def met(of: dict[str, list[tuple[int, int]]]) -> list[tuple[int, ...]]:
    return sorted({(k,) for k, _ in of["a"]} & {(k,) for k, _ in of["b"]})


def counted(of: dict[str, list[tuple[int, int]]]) -> list[tuple[int, ...]]:
    found = []
    for k in {k for k, _ in of["a"]}:
        a, b, c = ([x for key, x in of[name] if key == k] for name in "abc")
        if b and c:
            found.append((k, len(a) * len(b) * len(c), max(b) + max(c)))
    return found


NOT_IN = (
    f"SELECT a.k, a.x FROM a [RANGE {RANGE}] WHERE NOT EXISTS (SELECT 1 FROM c [RANGE {RANGE}] WHERE c.k = a.k)",
    not_in,
)
PAIRS = (
    f"SELECT a.k, a.x, b.x AS y FROM a [RANGE {RANGE}] JOIN b [RANGE {RANGE}] ON a.k = b.k "
    f"WHERE NOT EXISTS (SELECT 1 FROM c [RANGE {RANGE}] WHERE c.k = a.k)",
    pairs_not_in,
)
MET = (f"SELECT DISTINCT a.k FROM a [RANGE {RANGE}] JOIN b [RANGE {RANGE}] ON a.k = b.k", met)
COUNTED = (
    f"SELECT a.k, COUNT(*) AS n, MAX(b.x + c.x) AS m FROM a [RANGE {RANGE}] JOIN b [RANGE {RANGE}] ON a.k = b.k "
    f"JOIN c [RANGE {RANGE}] ON b.k = c.k GROUP BY a.k",
    counted,
)
CASES = {
    "match_once": (*NOT_IN, f"{RULES}.match_once.LEAST_GAIN", ALWAYS),
    "place_negation": (*PAIRS, f"{RULES}.place_negation._cost", dearest),
    "push_distinct": (*MET, f"{RULES}.push_distinct.LEAST_GAIN", ALWAYS),
    "order_joins": (*COUNTED, f"{RULES}.order_joins.best_order", reversed_order),
}


def fed(wr: Any, every: Rows, lo: int, hi: int) -> None:
    """The values of c change slowly, so that rows are withdrawn and come again."""
    for name, keys, lasts in (("a", 7, 1), ("b", 5, 1), ("c", 7, 6)):
        rows = [(t, (t // lasts * 3 + i) % keys, t % 4) for t in range(lo, hi) for i in range(2)]
        rows.append((hi, 99, 0))
        every.setdefault(name, []).extend(rows)
        wr.feed(name, rows)
    wr.run_available()


def expected(answer: Answer, every: Rows, tick: int) -> list[tuple[int, ...]]:
    """The answer at a tick, by its definition."""
    alive = {name: [row[1:] for row in every[name] if row[0] < tick <= row[0] + RANGE] for name in "abc"}
    return sorted(answer(alive))


def shown(wr: Any, name: str = "q") -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for row in wr.queries[name].view().rows())


def plan_of(wr: Any, name: str = "q") -> Any:
    return wr._engine.plans.query(name).plan


def chosen_now(wr: Any) -> Any:
    """The plan that the query would get today, by what was chosen when it was created."""
    query = wr._engine.plans.query("q")
    return wr._engine.plans.planned_by(query.statement, query.text, query.choices)[0].plan


def begun(open_state: Any, select: str, first: str = "", **settings: Any) -> tuple[Any, Rows]:
    """A state with the query, which has ticked, after a first statement."""
    wr, every = open_state(**settings), Rows()
    wr.sql(first or "SHOW QUERIES")
    for name in "abc":
        wr.sql(STREAM.format(name))
    wr.query("q", select)
    fed(wr, every, 0, 40)
    return wr, every


def edited(wr: Any, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what the catalog has of the query, and close the state."""
    with wr._engine.catalog.transaction() as tx:
        saved = json.loads(tx.value("SELECT saved FROM plans WHERE name = 'q'"))
        change(saved)
        tx.execute("UPDATE plans SET saved = ? WHERE name = 'q'", (json.dumps(saved),))
    wr.close()


def goes_on(wr: Any, every: Rows, answer: Answer, name: str = "q") -> None:
    assert shown(wr, name) == expected(answer, every, 40) != []
    for lo, hi in ((41, 47), (48, 75)):
        fed(wr, every, lo, hi)
        assert shown(wr, name) == expected(answer, every, hi) != []


# -- the plan is kept ------------------------------------------------------------------------------


IN_SPARK = ("match_once", "place_negation") if is_full() else ("place_negation",)


@pytest.mark.matrix
@pytest.mark.parametrize("rule, home", [*((rule, "driver") for rule in CASES), *((rule, "spark") for rule in IN_SPARK)])
def test_other_costs(open_state: Any, monkeypatch: pytest.MonkeyPatch, rule: str, home: str) -> None:
    """As after an upgrade whose rules choose otherwise."""
    select, answer, changed, value = CASES[rule]
    with monkeypatch.context() as before:
        before.setattr(changed, value)
        wr, every = begun(open_state, select, plan_home=home)
        plan = plan_of(wr)
        assert chosen_now(wr) == plan
        wr.close()
    wr = open_state(plan_home=home)
    assert plan_of(wr) == plan != chosen_now(wr)
    told = wr.queries["q"].explain()
    assert "Rules: the plan is the one that was saved with the state" in told
    goes_on(wr, every, answer)
    wr.close()
    wr = open_state(plan_home=home)
    assert plan_of(wr) == plan and shown(wr) == expected(answer, every, 75)


def test_other_facts(open_state: Any) -> None:
    """The facts are not those by which the plan was chosen."""
    select, answer = COUNTED
    wr, every = begun(open_state, select)
    fed(wr, every, 41, 150)
    wr.query("q", select, replace=True)
    plan = plan_of(wr)
    assert set(wr._engine.plans.query("q").choices.facts) == set("abc")

    def measured(saved: dict[str, Any]) -> None:
        for name, facts in saved["facts"].items():
            facts["rate"] = {"a": 1e-6, "b": 1.0, "c": 1e6}[name]

    edited(wr, measured)
    wr = open_state()
    assert plan_of(wr) == plan != chosen_now(wr)
    for lo, hi in ((151, 170), (171, 195)):
        fed(wr, every, lo, hi)
        assert shown(wr) == expected(answer, every, hi) != []


NEGATIVE, NO_RULES = "SET execution = 'negative'", f"SET disabled_rules = '{EVERY}'"


@pytest.mark.parametrize(
    "before, after",
    [("", NO_RULES), ("", NEGATIVE), (NO_RULES, "SET disabled_rules = ''"), (NEGATIVE, "SET execution = 'upa'")],
)
def test_other_settings(open_state: Any, before: str, after: str) -> None:
    """SET holds for queries that come later."""
    select, answer = PAIRS
    wr, every = begun(open_state, select, before)
    plan = plan_of(wr)
    wr.sql(after)
    wr.query("other", select)
    assert plan_of(wr, "other") != plan
    wr.close()
    wr = open_state()
    assert plan_of(wr) == plan
    goes_on(wr, every, answer)
    assert shown(wr, "other") == shown(wr)


def test_chosen_again_after_other_costs(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With reoptimize_drift, the plan of today takes over from the saved one, with its state."""
    select, answer, changed, value = CASES["order_joins"]
    with monkeypatch.context() as before:
        before.setattr(changed, value)
        wr, every = begun(open_state, select)
        plan = plan_of(wr)
        wr.close()
    wr = open_state(reoptimize_drift="1.1")
    goes_on(wr, every, answer)
    last = 75
    # Ticks that meet a held lock leave the choice to later ones.
    while plan_of(wr) == plan and last < 195:
        fed(wr, every, last + 1, last + 6)
        last += 6
        assert shown(wr) == expected(answer, every, last) != []
    assert plan_of(wr) != plan and "Chosen again: " in wr.queries["q"].explain()
    plan = plan_of(wr)
    wr.close()
    wr = open_state()
    assert plan_of(wr) == plan and shown(wr) == expected(answer, every, last)


def test_derived_stream(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    select = f"SELECT ISTREAM(a.k, a.x, b.x AS y) FROM a [RANGE {RANGE}] JOIN b [RANGE {RANGE}] ON a.k = b.k JOIN c "
    select += f"[RANGE {RANGE}] ON b.k = c.k"
    counts = []
    for is_other in (False, True):
        name = f"state{is_other}"
        wr, every = open_state(name), Rows()
        for one in "abc":
            wr.sql(STREAM.format(one))
        with monkeypatch.context() as before:
            if is_other:
                before.setattr(f"{RULES}.order_joins.best_order", reversed_order)
            wr.sql(f"CREATE STREAM d AS {select}")
            wr.query("q", "SELECT COUNT(*) AS n, SUM(x * y) AS s FROM d [UNBOUNDED]")
            fed(wr, every, 0, 40)
            wr.close()
        wr = open_state(name)
        fed(wr, every, 41, 75)
        counts.append(shown(wr))
    assert counts[0] == counts[1] and counts[0][0][0] > 0


# -- state directories of earlier versions ---------------------------------------------------------


def test_state_without_a_saved_plan(open_state: Any) -> None:
    select, answer = PAIRS
    wr, every = begun(open_state, select)
    plan = plan_of(wr)
    edited(wr, lambda saved: saved.pop("plan"))
    wr = open_state()
    assert plan_of(wr) == plan
    saved = json.loads(wr._engine.catalog.value("SELECT saved FROM plans WHERE name = 'q'"))
    assert saved["plan"]["nodes"], "from now on it is saved"
    goes_on(wr, every, answer)


@pytest.mark.parametrize("rule", ["match_once", "place_negation", "order_joins"])
def test_state_of_another_plan(open_state: Any, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """It is not known which: the query is suspended, and all else goes on."""
    select, answer, changed, value = CASES[rule]
    with monkeypatch.context() as before:
        before.setattr(changed, value)
        wr, every = begun(open_state, select)
        wr.query("other", MET[0])
        edited(wr, lambda saved: saved.pop("plan"))
    suspended(open_state, every, select, answer)


# -- plans that cannot be read ---------------------------------------------------------------------


def test_plan_of_a_newer_version(open_state: Any) -> None:
    select, answer = NOT_IN
    wr, every = begun(open_state, select)
    wr.query("other", MET[0])
    edited(wr, lambda saved: saved["plan"]["nodes"][-1].update(node="QuantumJoin"))
    suspended(open_state, every, select, answer)


def test_version_that_can_read_it_goes_on(open_state: Any) -> None:
    """The catalog does not say that the query is suspended, and its streams keep what it needs."""
    select, answer = NOT_IN
    wr, every = begun(open_state, select)
    plan, kept = plan_of(wr), []

    def renamed(saved: dict[str, Any]) -> None:
        kept.append(saved["plan"]["nodes"][-1]["node"])
        saved["plan"]["nodes"][-1]["node"] = "QuantumJoin"

    edited(wr, renamed)
    wr = open_state()
    fed(wr, every, 41, 60)
    assert state_of(wr, "q").startswith("suspended: ")
    edited(wr, lambda saved: saved["plan"]["nodes"][-1].update(node=kept[0]))
    wr = open_state()
    assert plan_of(wr) == plan and state_of(wr, "q") == "active"
    fed(wr, every, 61, 75)
    assert shown(wr) == expected(answer, every, 75)


def test_text_that_is_refused_now(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    select, answer = NOT_IN
    wr, every = begun(open_state, select)
    wr.query("other", MET[0])
    wr.close()
    with monkeypatch.context() as now:

        def refused(select: Any, text: str, *rest: Any) -> Any:
            if "EXISTS" in text:
                raise BindError("EXISTS is out of fashion")
            return planned(select, text, *rest)

        planned = manager.planned
        now.setattr(manager, "planned", refused)
        wr = open_state()
        assert state_of(wr, "q") == "suspended: this version of Windrow refuses it: EXISTS is out of fashion"
        fed(wr, every, 41, 60)
        assert shown(wr, "other") == expected(met, every, 60)
        wr.close()
    wr = open_state()
    fed(wr, every, 61, 75)
    assert shown(wr) == expected(answer, every, 75)


def suspended(open_state: Any, every: Rows, select: str, answer: Answer) -> None:
    """The query does not tick, says why, also from outside, and can be replaced."""
    wr = open_state()
    assert state_of(wr, "q").startswith("suspended: its state is not of the plan")
    assert state_of(wr, "other") == "active"
    assert "State: suspended" in wr.queries["q"].explain()
    fed(wr, every, 41, 60)
    assert shown(wr, "other") == expected(met, every, 60) != []
    with pytest.raises(QuerySuspendedError, match="its state is not of the plan"):
        shown(wr)
    wr.query("q", select, replace=True)
    for lo, hi in ((61, 80), (81, 110)):
        fed(wr, every, lo, hi)
    assert state_of(wr, "q") == "active" and shown(wr) == expected(answer, every, 110) != []
    wr.close()
    wr = open_state()
    assert state_of(wr, "q") == "active" and shown(wr) == expected(answer, every, 110)


def state_of(wr: Any, name: str) -> str:
    return str({row["name"]: row["state"] for row in wr.sql("SHOW QUERIES").rows()}[name])


def test_read_only_follows_another_plan(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text stays as it is when a plan is replaced."""
    select = COUNTED[0]
    wr, _ = begun(open_state, select)
    with windrow.open(wr.state_dir, read_only=True) as reader:
        assert plan_of(reader) == plan_of(wr)
        monkeypatch.setattr(f"{RULES}.order_joins.best_order", reversed_order)
        wr.query("q", select, replace=True)
        assert plan_of(reader) == plan_of(wr)
