"""A plan is chosen again at a tick when measurements drift: the answers go on as if nothing had happened."""

from __future__ import annotations

from typing import Any

import pytest

from windrow.errors import SettingError

STREAM = "CREATE STREAM {} (t BIGINT, k INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
SELECT = (
    "SELECT a.k, COUNT(*) AS n, MAX(b.x + c.x) AS m FROM a [RANGE 60] JOIN b [RANGE 60] ON a.k = b.k "
    "JOIN c [RANGE 60] ON b.k = c.k GROUP BY a.k"
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


def answer(wr: Any) -> list[dict[str, int]]:
    return sorted(wr.queries["q"].view().rows(), key=lambda row: row["k"])


def test_plan_is_chosen_again(open_state: Any) -> None:
    wr, every = open_state(), dict[str, Rows]()
    for name in "abc":
        wr.sql(STREAM.format(name))
    wr.sql("SET reoptimize_drift = '2'")
    wr.query("q", SELECT)
    before = wr._engine.plans.query("q").plan
    fed(wr, every, 0, 150)
    fed(wr, every, 151, 200)
    query = wr._engine.plans.query("q")
    assert query.plan != before and "Chosen again: " in wr.queries["q"].explain()
    assert answer(wr) == expected(every, 200) != []
    fed(wr, every, 201, 260)
    assert answer(wr) == expected(every, 260) != []
    wr.close()
    again = open_state()
    assert again._engine.plans.query("q").plan == query.plan
    fed(again, every, 261, 300)
    assert answer(again) == expected(every, 300) != []


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
