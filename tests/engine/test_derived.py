"""Accumulators derived from kept ones (SS4): a new query sees the past at once, also after others are dropped."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, put, state_of

pytestmark = pytest.mark.slow

WINDOW = "[RANGE 20 SLIDE 10]"
SUMS = "SELECT k, SUM(x) AS s, COUNT(*) AS n FROM s " + WINDOW + " WHERE {} GROUP BY k"
BEFORE = [(1, "a", 1), (2, "b", 2), (4, "a", None), (5, "a", 3), (8, None, 1), (9, "b", None)]
AFTER = [(11, "a", 2), (12, "b", 1), (13, None, None), (16, "c", 4), (21, "a", 1), (24, "b", 4)]
LAST = [(31, "a", 2), (35, "b", 3), (52, "c", 1)]


def ask(wr: Any, name: str, select: str) -> None:
    wr.sql(f"CREATE QUERY {name} AS {select}")


def begins(wr: Any, name: str) -> int | None:
    found: int | None = wr._engine.manager.query(name)[1].since
    return found


def plan_of(wr: Any) -> Any:
    (state,) = state_of(wr).synopses.values()
    return state.plan


def expected(passes: Any, rows: list[Any]) -> list[Any]:
    """(start, end, k, sum, count) of all windows that end after 10, groups in any order."""
    out = []
    for end in range(10, 80, 10):
        held = [(k, x) for t, k, x in rows if end - 20 <= t < end and passes(x)]
        for key in sorted({k for k, _ in held}, key=str):
            xs = [x for k, x in held if k == key]
            known = [x for x in xs if x is not None]
            out.append((end - 20, end, key, sum(known) if known else None, len(xs)))
    return out


def grouped(wr: Any, name: str) -> list[Any]:
    return sorted(answers(wr, name), key=lambda row: (row[1], str(row[2])))


def test_sum_derived_by_addition(open_state: Any) -> None:
    """Q3 of section 8.3.3 from Q1 and Q2; it stays right after Q1 is dropped and the state is reopened."""
    wr = open_state()
    wr.sql(STREAM)
    ask(wr, "q1", SUMS.format("x = 1"))
    ask(wr, "q2", SUMS.format("x = 2"))
    put(wr, *BEFORE)
    kept = plan_of(wr).accumulators
    ask(wr, "q3", SUMS.format("x = 2 OR x = 1"))
    assert begins(wr, "q3") == -20 and plan_of(wr).accumulators == kept
    assert {len(d.added) for d in plan_of(wr).derived["q3"]} == {2}
    put(wr, *AFTER)
    latest = [(row[2], row[4]) for row in grouped(wr, "q3") if row[1] == 20]
    asked = wr.sql("SELECT k, COUNT(*) AS n FROM s [RANGE 20] WHERE x = 1 OR x = 2 GROUP BY k").rows()
    looked = wr.queries["q3"].lookup(20, 20).rows()
    assert latest == [(r["k"], r["n"]) for r in sorted(asked, key=lambda r: str(r["k"]))]
    assert latest == [(r["k"], r["n"]) for r in sorted(looked, key=lambda r: str(r["k"]))]
    wr.sql("DROP QUERY q1")
    assert set(plan_of(wr).accumulators) == set(kept), "Q3 needs what Q1 had"
    wr.close()
    again = open_state()
    put(again, *LAST)
    again.end_input("s")
    assert grouped(again, "q3") == expected(lambda x: x in (1, 2), BEFORE + AFTER + LAST)
    again.sql("DROP QUERY q3")
    assert {a.condition for a in plan_of(again).accumulators} == {"`x` = 2"}
    assert again._engine.catalog.value("SELECT count(*) FROM derivations") == 0


def test_sum_derived_by_subtraction(open_state: Any) -> None:
    """Q1 is Q3 minus Q2. Both are dropped; a later query still finds what Q3 kept, of all tuples."""
    wr = open_state(preaggregate="spark")
    wr.sql(STREAM)
    ask(wr, "q3", SUMS.format("x = 1 OR x = 2"))
    ask(wr, "q2", SUMS.format("x = 2"))
    put(wr, *BEFORE)
    ask(wr, "q1", SUMS.format("x = 1"))
    assert begins(wr, "q1") == -20
    assert {(len(d.added), len(d.subtracted)) for d in plan_of(wr).derived["q1"]} == {(1, 1)}
    wr.sql("DROP QUERY q3")
    wr.sql("DROP QUERY q2")
    put(wr, *AFTER)
    wr.close()
    again = open_state(preaggregate="spark")
    ask(again, "q3_again", SUMS.format("x = 1 OR x = 2"))
    put(again, *LAST)
    again.end_input("s")
    rows = BEFORE + AFTER + LAST
    assert grouped(again, "q1") == expected(lambda x: x == 1, rows)
    whole = [row for row in expected(lambda x: x in (1, 2), rows) if row[1] > 20]
    assert grouped(again, "q3_again") == whole


def test_maximum_derived_from_overlapping_covers(wr: Any) -> None:
    """Q6 of section 8.3.3 from Q4 and Q5: groups and NULLs are right although the counts overlap."""
    most = "SELECT k, MAX(x) AS m FROM s " + WINDOW + " WHERE {} GROUP BY k"
    ask(wr, "q4", most.format("x > 1 OR x IS NULL"))
    ask(wr, "q5", most.format("k = 'a'"))
    put(wr, *BEFORE)
    ask(wr, "q6", most.format("k = 'a' OR x > 1 OR x IS NULL"))
    ask(wr, "counted", most.format("k = 'a' OR x > 1 OR x IS NULL").replace("MAX", "COUNT(*) AS n, MAX"))
    assert begins(wr, "q6") == -20 and begins(wr, "counted") == 10, "counts would overlap"
    put(wr, *AFTER, *LAST)
    wr.end_input("s")
    want = {}
    for end in range(10, 80, 10):
        for t, k, x in BEFORE + AFTER + LAST:
            if end - 20 <= t < end and (k == "a" or x is None or x > 1):
                old = want.get((end - 20, end, k))
                want[(end - 20, end, k)] = x if old is None else old if x is None else max(old, x)
    assert {row[:3]: row[3] for row in answers(wr, "q6")} == want


def test_ss4_off_and_doubles(open_state: Any) -> None:
    wr = open_state(disabled_rules="SS4")
    wr.sql(STREAM)
    ask(wr, "q1", SUMS.format("x = 1"))
    ask(wr, "q2", SUMS.format("x = 2"))
    put(wr, *BEFORE)
    ask(wr, "q3", SUMS.format("x = 1 OR x = 2"))
    assert begins(wr, "q3") == 10 and not plan_of(wr).derived
    wr.sql("SET disabled_rules = ''")
    halves = "SELECT SUM(x / 2) AS h FROM s [RANGE 20 SLIDE 10] WHERE {}"
    ask(wr, "d3", halves.format("x = 1 OR x = 2"))
    ask(wr, "d2", halves.format("x = 2"))
    ask(wr, "d1", halves.format("x = 1"))
    (plan,) = (s.plan for s in state_of(wr).synopses.values() if not s.plan.keys)
    sums = [a for a in plan.queries[2][1].input.accumulators if a.kind.name == "SUM_DOUBLE"]
    assert sums and not {d.accumulator for d in plan.derived["d1"]} & set(sums)
    put(wr, *AFTER, *LAST)
    wr.end_input("s")
    ones = {end: sum(0.5 for t, _, x in AFTER + LAST if end - 20 <= t < end and x == 1) for end in range(20, 80, 10)}
    assert {row[1]: row[2] for row in answers(wr, "d1") if row[2] is not None} == {e: v for e, v in ones.items() if v}


def test_suspended_query_derives_nothing(wr: Any) -> None:
    ask(wr, "q1", SUMS.format("x = 1"))
    ask(wr, "q2", SUMS.format("x = 2"))
    ask(wr, "q3", SUMS.format("x = 1 OR x = 2"))
    stream, query = wr._engine.manager.query("q3")
    wr.sql("DROP QUERY q1")
    wr._engine.opened.journal.suspend(stream, query, "for the test")
    assert not plan_of(wr).derived and {a.condition for a in plan_of(wr).accumulators} == {"`x` = 2"}


def test_longer_window_extends_the_synopsis(wr: Any) -> None:
    """Cells are kept as long as the new query needs them; its first complete window is stated (section 8.2)."""
    ask(wr, "short", "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    put(wr, *((t, "a", 1) for t in range(52)))
    ask(wr, "long", "SELECT COUNT(*) AS n FROM s [RANGE 40 SLIDE 10]")
    (state,) = state_of(wr).synopses.values()
    since = begins(wr, "long")
    assert since == state.kept_from == 40
    (row,) = (r for r in wr.sql("SHOW QUERIES").rows() if r["name"] == "long")
    assert row["completeness"] == "windows that end before 80 are partial"
    put(wr, *((t, "a", 1) for t in range(52, 102)))
    assert [(end, n) for _, end, n in answers(wr, "long")] == [(60, 20), (70, 30), (80, 40), (90, 40), (100, 40)]
    assert state.kept_from is not None and int(state.synopsis.closed_panes[0]) <= 70
    wr.sql("DROP QUERY long")
    put(wr, *((t, "a", 1) for t in range(102, 122)))
    (state,) = state_of(wr).synopses.values()
    assert state.kept_from == 110
