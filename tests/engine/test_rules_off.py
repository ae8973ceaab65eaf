"""Disabling a sharing rule changes what is shared, but no answer."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, jobs, put, state_of
from windrow.errors import SettingError
from windrow.settings import SHARING_RULES

pytestmark = pytest.mark.slow

SELECT = "SELECT k, {} FROM s [RANGE {} SLIDE {}] WHERE {} GROUP BY k"
QUERIES = {
    "sums": SELECT.format("SUM(x) AS a", 20, 10, "x = 1"),
    "counts": SELECT.format("COUNT(x) AS a", 20, 10, "x = 2"),
    "more_sums": SELECT.format("SUM(x) AS a", 20, 10, "x = 2"),
    "either": SELECT.format("SUM(x) AS a", 30, 10, "x = 1 OR x = 2"),
    "mean": SELECT.format("AVG(x) AS a", 20, 10, "x = 1"),
    "mean_long": SELECT.format("AVG(x) AS a", 40, 10, "x = 1"),
    "most": SELECT.format("MAX(x) AS a", 40, 20, "x > 0"),
    "slow": SELECT.format("SUM(x) AS a", 20, 30, "x = 1"),
    "busy": SELECT.format("COUNT(*) AS a", 20, 10, "x = 1") + " HAVING COUNT(*) > 1 ORDER BY a DESC LIMIT 2",
    "total": "SELECT COUNT(*) AS n, AVG(x) AS a FROM s [RANGE 20 SLIDE 10]",
}
ROWS = [(t, "abc"[t % 5 % 3], t % 4) for t in range(120)]
EVERY = ", ".join(SHARING_RULES)


def asked(wr: Any) -> Any:
    wr.sql(STREAM)
    for name, select in QUERIES.items():
        wr.sql(f"CREATE QUERY {name} AS {select}")
    return wr


def found(wr: Any) -> dict[str, list[Any]]:
    """The answers; the rows of a window are sorted if the query has no ORDER BY."""
    wr.end_input("s")
    rows = {name: answers(wr, name) for name in QUERIES}
    return {name: some if "ORDER BY" in QUERIES[name] else sorted(some) for name, some in rows.items()}


def story(wr: Any, off: list[str]) -> dict[str, list[Any]]:
    """Deposit one micro-batch for each value of `disabled_rules`."""
    size = -(-len(ROWS) // len(off))
    for i, rules in enumerate(off):
        wr.sql(f"SET disabled_rules = '{rules}'")
        put(wr, *ROWS[i * size : (i + 1) * size])
    return found(wr)


def test_each_rule_off_changes_no_answer(open_state: Any) -> None:
    plain = story(asked(open_state()), [""] * 2)
    assert all(plain.values())
    placed = {}
    for rules in (*SHARING_RULES, EVERY):
        wr = asked(open_state(rules.replace(", ", "-"), disabled_rules=rules))
        assert story(wr, [rules] * 2) == plain, rules
        synopses = state_of(wr).synopses.values()
        placed[rules] = len(synopses), any(state.plan.derived for state in synopses)
        wr.close()
    assert placed.pop("SS1") == (len(QUERIES), False) == placed.pop(EVERY)
    assert placed.pop("SS2") == (4, True), "each mean by itself"
    assert placed.pop("SS4") == (2, False)
    assert set(placed.values()) == {(2, True)}


@pytest.mark.parametrize("home", ["driver", "spark"])
def test_rules_switched_while_a_stream_runs(open_state: Any, home: str) -> None:
    plain = story(asked(open_state("plain", synopsis_home=home)), [""] * 6)
    assert story(asked(open_state("off", synopsis_home=home)), ["CS2", "CS3", "CS7", "CS8", "", EVERY]) == plain


def test_show_sharing_and_explain_name_enabled_rules(open_state: Any) -> None:
    wr = asked(open_state())
    wr.sql("SET disabled_rules = 'CS7, CS3, SS1'")
    rules = {row["name"]: row["rules"] for row in wr.sql("SHOW SHARING").rows()}
    assert rules["either"] == "SS1, CS2, SS4" and rules["mean"] == "SS1, CS2, SS2"
    told = str(wr.sql("EXPLAIN QUERY either"))
    assert "SS4: sum(x): added from (x = 1), (x = 2)" in told and "(SS1, CS2)" in told
    assert "apart from synopsis 1: the rule SS1 is disabled; 2: another GROUP BY" in str(
        wr.sql(f"EXPLAIN {QUERIES['sums']}")
    )
    wr.sql("SET disabled_rules = 'SS2'")
    assert "apart from synopsis 1: the rule SS2 is disabled" in str(wr.sql(f"EXPLAIN {QUERIES['mean']}"))


def test_unknown_rule_is_refused(wr: Any) -> None:
    with pytest.raises(SettingError) as told:
        wr.sql("SET disabled_rules = 'CS8, CS9'")
    assert told.value.remedy is not None and all(name in told.value.remedy for name in SHARING_RULES)


def test_former_rule_names(open_state: Any) -> None:
    wr = asked(open_state())
    put(wr, *ROWS[:60])
    with wr._engine.catalog.transaction() as tx:
        tx.execute("INSERT OR REPLACE INTO settings VALUES ('disabled_rules', 'share_answers,derive_accumulators')")
    before = {row["name"]: row["synopsis"] for row in wr.sql("SHOW SHARING").rows()}
    wr.close()
    again = open_state()
    assert again._engine.settings.rules_off == {"SS4", "CS8"}
    rows = again.sql("SHOW SHARING").rows()
    assert {row["name"]: row["synopsis"] for row in rows} == before
    assert {row["name"]: row["rules"] for row in rows}["either"] == "SS1, CS2, SS4, CS7", "as it was placed"


def test_without_cs2_each_query_takes_a_job(open_state: Any, spark: Any) -> None:
    counts = {}
    for rules in ("CS8", "CS8, CS2"):
        wr = open_state(rules, synopsis_home="spark", disabled_rules=rules)
        wr.sql(STREAM)
        for name in ("sums", "more_sums", "counts"):
            wr.sql(f"CREATE QUERY {name} AS {QUERIES[name]}")
        put(wr, *ROWS[:15])
        before = jobs(spark)
        put(wr, *ROWS[15:25])
        counts[rules] = jobs(spark) - before
    assert counts["CS8, CS2"] == counts["CS8"] + 2
