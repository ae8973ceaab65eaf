"""A query that differs from another only in a longer period takes its answers (CS8), also if the other fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, put
from windrow.dataplane.answers.finishing import Finisher

pytestmark = pytest.mark.slow

SELECT = (
    "SELECT k, SUM(x) AS s, COUNT(*) AS n FROM s {} WHERE x > 0 GROUP BY k HAVING COUNT(*) > 1 ORDER BY s DESC LIMIT 3"
)
ROWS = [(t, "abcd"[t % 7 % 4], t % 5) for t in range(0, 200, 2)]


@pytest.fixture
def finished(monkeypatch: Any) -> Counter[int]:
    """The number of finished windows, by the slide of their query."""
    counts: Counter[int] = Counter()
    finish = Finisher.finish

    def counted(self: Any, plan: Any, looked: Any, *rest: Any) -> Any:
        counts[plan.window.slide] += looked.windows
        return finish(self, plan, looked, *rest)

    monkeypatch.setattr(Finisher, "finish", counted)
    return counts


def ask(wr: Any, name: str, slide: int, size: int = 20, select: str = SELECT) -> None:
    wr.sql(f"CREATE QUERY {name} AS {select.format(f'[RANGE {size} SLIDE {slide}]')}")


def feed(wr: Any, first: int, last: int) -> None:
    for at in range(first, last, 15):
        put(wr, *ROWS[at : min(at + 15, last)])


def story(wr: Any) -> dict[str, list[Any]]:
    """The coarse query is created second, and the fine one is dropped and created again; two others differ in the window and
    in HAVING."""
    wr.sql(STREAM)
    ask(wr, "fine", 5)
    ask(wr, "coarse", 15)
    ask(wr, "again", 5)
    ask(wr, "longer", 10, size=30)
    ask(wr, "other", 10, select=SELECT.replace("> 1", "> 0"))
    feed(wr, 0, 40)
    ask(wr, "late", 10)
    found = {"fine": answers(wr, "fine")}
    wr.sql("DROP QUERY fine")
    wr.sql("DROP QUERY again")
    feed(wr, 40, 70)
    ask(wr, "finer", 5)
    feed(wr, 70, 100)
    wr.end_input("s")
    return found | {name: answers(wr, name) for name in ("coarse", "longer", "other", "late", "finer")}


def test_shared_answers_are_finished_once(open_state: Any, finished: Counter[int]) -> None:
    shared, mine = story(open_state("shared")), Counter(finished)
    finished.clear()
    alone = story(open_state("alone", disabled_rules="CS8"))
    assert shared == alone and all(shared.values())
    assert 0 < mine[15] < finished[15] / 2, "only while the fine one was dropped"
    assert mine[5] < finished[5] and mine[10] < finished[10]


def test_suspended_leader(open_state: Any, finished: Counter[int], monkeypatch: Any) -> None:
    """If the leader fails on a window that only it has, its follower answers alone."""
    wr = open_state()
    wr.sql(STREAM)
    ask(wr, "fine", 5)
    ask(wr, "coarse", 10)
    finish = Finisher.finish

    def failing(self: Any, plan: Any, *rest: Any) -> Any:
        if plan.window.slide == 5:
            raise ValueError("an expression that fails")
        return finish(self, plan, *rest)

    monkeypatch.setattr(Finisher, "finish", failing)
    feed(wr, 0, 30)
    monkeypatch.undo()
    feed(wr, 30, 100)
    wr.end_input("s")
    assert "suspended" in next(row["state"] for row in wr.sql("SHOW QUERIES").rows() if row["name"] == "fine")
    other = open_state("other")
    other.sql(STREAM)
    ask(other, "coarse", 10)
    feed(other, 0, 100)
    other.end_input("s")
    assert answers(wr, "coarse") == answers(other, "coarse") != []


def test_overflows_of_leader_and_follower(open_state: Any) -> None:
    total = "SELECT SUM(t * 4611686018427387904L) AS s FROM s {}"
    found = []
    for rules in ("", "CS8"):
        wr = open_state(f"state-{rules}", disabled_rules=rules)
        wr.sql(STREAM)
        ask(wr, "fine", 5, select=total)
        ask(wr, "coarse", 10, select=total)
        feed(wr, 0, 30)
        wr.end_input("s")
        found.append({row["name"]: row["overflows"] for row in wr.sql("SHOW QUERIES").rows()})
    assert found[0] == found[1] and 0 < found[0]["coarse"] < found[0]["fine"]


def test_late_revise_corrects_leader_and_follower(open_state: Any) -> None:
    found = []
    for rules in ("", "CS8"):
        wr = open_state(f"state-{rules}", disabled_rules=rules)
        wr.sql(STREAM.replace("ORDERED", "WITH SLACK 5 LATE REVISE"))
        ask(wr, "fine", 5)
        ask(wr, "coarse", 10)
        feed(wr, 0, 50)
        put(wr, (3, "a", 4), (44, "b", 4), (90, "c", 1))
        feed(wr, 50, 70)
        found.append([wr.queries[name].revisions().rows() for name in ("fine", "coarse")])
    assert found[0] == found[1]
