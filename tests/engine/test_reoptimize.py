"""A plan is chosen again at a tick when measurements drift: the answers go on as if nothing had happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.killed import copy_as_killed

from windrow.engine.plans import commits
from windrow.engine.plans.changing import swapping, takeover
from windrow.engine.plans.spark_plans import SparkPlans
from windrow.errors import SessionError, SettingError
from windrow.optimizer.shapes import shape_text

STREAM = "CREATE STREAM {} (t BIGINT, k INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
SELECT = (
    "SELECT a.k, COUNT(*) AS n, MAX(b.x + c.x) AS m FROM a [RANGE 60] JOIN b [RANGE 60] ON a.k = b.k "
    "JOIN c [RANGE 60] ON b.k = c.k GROUP BY a.k"
)

SELECT_WITHOUT = (
    "SELECT a.k, COUNT(*) AS n FROM a [RANGE 60] JOIN b [RANGE 60] ON a.k = b.k "
    "WHERE NOT EXISTS (SELECT 1 FROM c [RANGE 60] WHERE c.k = a.k) GROUP BY a.k"
)

Rows = list[tuple[int, int, int]]


def fed(wr: Any, every: dict[str, Rows], lo: int, hi: int) -> None:
    """More tuples of a and b than of c, so c should not come last."""
    for name, often in (("a", 4), ("b", 4), ("c", 1)):
        rows = [(t, (t + i) % 7, i) for t in range(lo, hi) for i in range(often)] + [(hi, 99, 0)]
        every.setdefault(name, []).extend(rows)
        wr.feed(name, rows)
    wr.run_available()


def expected(every: dict[str, Rows], tick: int) -> list[dict[str, int]]:
    """The answer at a tick, by its definition."""
    alive = [[row for row in every[name] if row[0] < tick <= row[0] + 60] for name in "abc"]
    found = []
    for k in sorted({row[1] for row in alive[0]}):
        a, b, c = ([x for _, key, x in rows if key == k] for rows in alive)
        if b and c:
            found.append({"k": k, "n": len(a) * len(b) * len(c), "m": max(b) + max(c)})
    return found


def feed_many(wr: Any, every: dict[str, Rows], lo: int, hi: int) -> None:
    """Fifty tuples of a and b at each point, of thirty keys; c has two keys at a time, and most of them in a minute."""
    for name, often, keys in (("a", 50, 30), ("b", 50, 30), ("c", 2, 28)):
        rows = [(t, (t * often + i) % keys, i) for t in range(lo, hi + 1) for i in range(often)]
        every.setdefault(name, []).extend(rows)
        wr.feed(name, rows)
    wr.run_available()


def expected_without(every: dict[str, Rows], tick: int) -> list[dict[str, int]]:
    a, b, c = (Counter(k for t, k, _ in every[name] if t < tick <= t + 60) for name in "abc")
    return [{"k": k, "n": a[k] * b[k]} for k in sorted(a) if k in b and k not in c]


def placed(wr: Any) -> str:
    """The plan of the query in one line."""
    return shape_text(wr._engine.plans.query("q").plan.root)


def answer(wr: Any) -> list[dict[str, int]]:
    return sorted(wr.queries["q"].view().rows(), key=lambda row: row["k"])


def begun(open_state: Any, **settings: str) -> Any:
    """A state with a query whose plan may be chosen again."""
    wr = open_state(**settings)
    for name in "abc":
        wr.sql(STREAM.format(name))
    wr.sql("SET reoptimize_drift = '2'")
    wr.query("q", SELECT)
    return wr


def fed_until_chosen(wr: Any, every: dict[str, Rows], plan: Any, first: int = 0, last: int = 150) -> int:
    """Feed until the query has another plan; return the last tick. Ticks that meet a held lock leave the choice to
    later ones."""
    fed(wr, every, first, last)
    while wr._engine.plans.query("q").plan == plan and last < 900:
        fed(wr, every, last + 1, last + 50)
        last += 50
    assert wr._engine.plans.query("q").plan != plan
    return last


@pytest.mark.parametrize("home", ["driver", "spark"])
def test_plan_is_chosen_again(open_state: Any, home: str) -> None:
    wr, every = begun(open_state, plan_home=home), dict[str, Rows]()
    before = wr._engine.plans.query("q").plan
    last = fed_until_chosen(wr, every, before)
    query = wr._engine.plans.query("q")
    assert "Chosen again: " in wr.queries["q"].explain()
    assert answer(wr) == expected(every, last) != []
    fed(wr, every, last + 1, last + 60)
    assert answer(wr) == expected(every, last + 60) != []
    assert wr._engine.plans.query("q").home == home
    wr.close()
    again = open_state(plan_home=home)
    assert again._engine.plans.query("q").plan == query.plan
    fed(again, every, last + 61, last + 100)
    assert answer(again) == expected(every, last + 100) != []


@pytest.mark.parametrize("home", ["driver", "spark"])
def test_negation_is_placed_anew(open_state: Any, home: str) -> None:
    """A row meets a hundred others, and negation drops nearly all: once that is measured, it goes below the join."""
    wr, every = open_state(plan_home=home), dict[str, Rows]()
    for name in "abc":
        wr.sql(STREAM.format(name) + " TICK 10")
    wr.sql("SET reoptimize_drift = '2'")
    wr.query("q", SELECT_WITHOUT)
    assert "(a ⋈ b) ▷ c" in placed(wr)
    last = 0
    while last < 300 and "(a ▷ c) ⋈ b" not in placed(wr):
        feed_many(wr, every, last + 1, last + 50)
        last += 50
    assert "(a ▷ c) ⋈ b" in placed(wr)
    assert answer(wr) == expected_without(every, last) != []
    wr.close()
    again = open_state(plan_home=home)
    assert "(a ▷ c) ⋈ b" in placed(again)
    feed_many(again, every, last + 1, last + 70)
    assert answer(again) == expected_without(every, last + 70) != []


def test_spark_builds_what_is_too_large_for_the_driver(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def restored(*_: Any) -> None:
        raise AssertionError("the state came to the driver")

    monkeypatch.setattr(takeover, "restored", restored)
    large = {"plan_home": "spark", "driver_plan_bytes": "1 B"}
    wr, every = begun(open_state, **large), dict[str, Rows]()
    before = wr._engine.plans.query("q").plan
    last = fed_until_chosen(wr, every, before)
    assert wr._engine.plans.query("q").home == "spark" and answer(wr) == expected(every, last) != []
    fed(wr, every, last + 1, last + 60)
    assert answer(wr) == expected(every, last + 60) != []
    wr.close()
    again = open_state(**large)
    fed(again, every, last + 61, last + 100)
    assert answer(again) == expected(every, last + 100) != []


def first_builds_fail(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> list[str]:
    """The first job of those that build a state does something else; return what has been built, by name."""
    built, original, jobs = list[str](), SparkPlans.built, SparkPlans._run

    def counted(self: Any, query: Any, due: Any) -> Any:
        is_first = not built
        built.append(query.name)
        if is_first:
            tried = iter([run])
            self._run = lambda *of: next(tried, lambda: jobs(self, *of))()
        try:
            return original(self, query, due)
        finally:
            self.__dict__.pop("_run", None)

    monkeypatch.setattr(SparkPlans, "built", counted)
    return built


def test_a_file_that_is_merged_meanwhile(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is built of the files that are there now."""
    built = first_builds_fail(monkeypatch, lambda: [(None, [{"missing": "a file is not there"}])])
    monkeypatch.setattr(takeover, "restored", None)
    wr, every = begun(open_state, plan_home="spark", driver_plan_bytes="1 B"), dict[str, Rows]()
    last = fed_until_chosen(wr, every, wr._engine.plans.query("q").plan)
    assert built == ["q"] and answer(wr) == expected(every, last) != []


def test_a_state_that_cannot_be_built_fails_no_tick(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise SessionError("the Spark job of a tick failed: out of memory")

    built = first_builds_fail(monkeypatch, fail)
    wr, every = begun(open_state, plan_home="spark", driver_plan_bytes="1 B"), dict[str, Rows]()
    plan = wr._engine.plans.query("q").plan
    fed(wr, every, 0, 150)
    assert answer(wr) == expected(every, 150) != []
    fed(wr, every, 151, 200)
    assert built == ["q"] and wr._engine.plans.query("q").plan == plan and answer(wr) == expected(every, 200) != []


def test_what_nobody_can_build_in_spark_keeps_its_plan(open_state: Any) -> None:
    """A stream of results has reported what it has; the driver would have to make its state anew."""
    wr, every = open_state(plan_home="spark", driver_plan_bytes="1 B"), dict[str, Rows]()
    for name in "abc":
        wr.sql(STREAM.format(name))
    wr.sql("SET reoptimize_drift = '2'")
    wr.query("q", "SELECT ISTREAM(k, n, m) FROM (" + SELECT + ")")
    before = wr._engine.plans.query("q").plan
    fed(wr, every, 0, 150)
    fed(wr, every, 151, 160)
    assert wr._engine.plans.query("q").plan == before


@pytest.mark.parametrize(
    ("home", "point"), [("driver", "plan-swapping"), ("driver", "plan-committed"), ("spark", "plan-committed")]
)
def test_killed_while_the_plan_is_chosen_again(
    open_state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, point: str
) -> None:
    """The directory as a kill would leave it, in the transaction of the swap or right after it, goes on as the old plan
    or the new one, and the answers are the same."""
    passed, state, killed = list[str](), tmp_path / "state", tmp_path / "killed"

    def copy_state(name: str) -> None:
        is_swapped = "plan-swapping" in passed
        passed.append(name)
        if name == point and (name == "plan-swapping" or is_swapped) and not killed.exists():
            copy_as_killed(state, killed)

    for module in (swapping, commits):
        monkeypatch.setattr(module, "crash_point", copy_state)
    wr, every = begun(open_state, plan_home=home), dict[str, Rows]()
    before = wr._engine.plans.query("q").plan
    fed_until_chosen(wr, every, before)
    after = wr._engine.plans.query("q").plan
    assert killed.exists()
    wr.close()
    state.rename(tmp_path / "ended")
    killed.rename(state)
    again = open_state(plan_home=home)
    assert again._engine.plans.query("q").plan == (before if point == "plan-swapping" else after)
    end = max(t for t, _, _ in every["a"])
    end = fed_until_chosen(again, every, before, end + 1, end + 50)
    assert answer(again) == expected(every, end) != []


def test_not_over_a_table_that_is_non_retroactive(open_state: Any) -> None:
    """Results that are there have met versions of it that may be gone."""
    wr, every = open_state(), dict[str, Rows]()
    for name in "abc":
        wr.sql(STREAM.format(name))
    wr.sql("SET reoptimize_drift = '2'; CREATE TABLE names (k INT PRIMARY KEY, name STRING) NON RETROACTIVE")
    wr.sql("INSERT INTO names VALUES (1, 'one'), (2, 'two')")
    wr.query("q", f"{SELECT.replace('GROUP BY', 'JOIN names AS d ON a.k = d.k GROUP BY')}")
    before = wr._engine.plans.query("q").plan
    fed(wr, every, 0, 150)
    wr.sql("DELETE FROM names WHERE k = 1")
    fed(wr, every, 151, 160)
    assert wr._engine.plans.query("q").plan == before
    assert [row["k"] for row in answer(wr)] == [1, 2]


def test_off_by_default(open_state: Any) -> None:
    wr, every = open_state(), dict[str, Rows]()
    for name in "abc":
        wr.sql(STREAM.format(name))
    wr.query("q", SELECT)
    before = wr._engine.plans.query("q").plan
    fed(wr, every, 0, 150)
    assert wr._engine.plans.query("q").plan == before and answer(wr) == expected(every, 150)


def test_the_setting(wr: Any) -> None:
    for wrong in ("1", "0.5", "often"):
        with pytest.raises(SettingError, match="a factor above 1"):
            wr.sql(f"SET reoptimize_drift = '{wrong}'")
