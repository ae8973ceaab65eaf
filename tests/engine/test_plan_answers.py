"""Answers of joins with SLIDE: how many are kept."""

from __future__ import annotations

import pytest

from engine.conftest import Open
from engine.plan_streams import A, B, rows

PERIODIC = "SELECT x, y FROM a [RANGE 10 SLIDE 5] JOIN b [RANGE 10 SLIDE 5] ON a.k = b.k"
HOMES = ["driver", pytest.param("spark", marks=pytest.mark.slow)]


@pytest.mark.parametrize("home", HOMES)
def test_retained_answers_bounds_them_and_retained_changes_does_not(open_state: Open, home: str) -> None:
    wr = open_state(plan_home=home, retained_answers=2, retained_changes=0)
    wr.sql(f"{A}; {B}; CREATE QUERY p AS {PERIODIC}")
    p = wr.queries["p"]

    def upto(tick: int) -> list[int]:
        """The windows that are kept when windows are closed up to this one."""
        for stream in "ab":
            wr.deposit(stream, [(tick, "u", tick)])
        return sorted({row[1] for row in rows(p.answers())})

    assert [upto(tick) for tick in (3, 10, 15)] == [[], [5, 10], [5, 10, 15]], "without the first commit it is one row"
    assert upto(20) == [20], "four rows"
    wr.sql("SET retained_answers = 0")
    assert upto(25) == [25] and p.answer().window == p.view().window == 25
    latest = [(x, y) for x in (15, 20) for y in (15, 20)]
    assert sorted(rows(p.view())) == latest == sorted(rows(wr.sql("SELECT x, y FROM p")))
    wr.close()
    wr = open_state(plan_home=home)
    assert sorted(rows(wr.queries["p"].view())) == latest
