"""A query whose expression fails at run time is suspended with its error; the stream and other queries continue."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, put
from windrow.dataplane.answers.finishing import Finisher
from windrow.errors import QuerySuspendedError

pytestmark = pytest.mark.slow

GOOD = "CREATE QUERY good AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10]"
BAD = "CREATE QUERY bad AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10] WHERE k RLIKE '('"


def state(wr: Any, query: str) -> str:
    return {row["name"]: row["state"] for row in wr.sql("SHOW QUERIES").rows()}[query]


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_bad_regular_expression_suspends_one_query(open_state: Any, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(STREAM)
    wr.sql(GOOD)
    wr.sql(BAD)
    put(wr, (1, "a", 1), (2, "b", 2))
    put(wr, (11, "a", 4), (21, "a", 8))
    assert state(wr, "good") == "active"
    assert state(wr, "bad").startswith("suspended: ") and "(" in state(wr, "bad")
    assert answers(wr, "good") == [(0, 10, 3), (10, 20, 4)]
    assert answers(wr, "bad") == []
    wr.close()
    again = open_state(preaggregate=mode)
    put(again, (31, "a", 16))
    assert state(again, "bad").startswith("suspended: ")
    assert answers(again, "good") == [(0, 10, 3), (10, 20, 4), (20, 30, 8)]


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_stream_continues_without_active_queries(open_state: Any, mode: str) -> None:
    """A later query does not claim tuples that were not kept."""
    wr = open_state(preaggregate=mode)
    wr.sql(STREAM)
    wr.sql(BAD)
    put(wr, (1, "a", 1))
    put(wr, (12, "a", 2))
    assert state(wr, "bad").startswith("suspended: ")
    assert wr.metrics()["s"]["admitted"] == 2
    wr.sql(GOOD)
    put(wr, (13, "a", 4), (21, "a", 8))
    put(wr, (31, "a", 16))
    assert answers(wr, "good") == [(20, 30, 8)]
    told = {row["name"]: row["completeness"] for row in wr.sql("SHOW QUERIES").rows()}
    assert told["good"] == "windows that end before 30 are partial"


def test_reads_of_a_suspended_query(wr: Any) -> None:
    """`answer` and `subscribe` raise, since no more answers follow; the retained answers can be read."""
    wr.sql(BAD)
    bad = wr.queries["bad"]
    assert bad.answer().rows() == []
    put(wr, (1, "a", 1))
    for ask in (bad.answer, lambda: bad.subscribe(print)):
        with pytest.raises(QuerySuspendedError, match="query 'bad' is suspended") as raised:
            ask()
        assert raised.value.code == "WR710" and "answers()" in str(raised.value.remedy)
    assert bad.answers().rows() == []


def test_drop_beside_a_suspended_query(wr: Any) -> None:
    wr.sql("CREATE QUERY other AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SLIDE 10] GROUP BY k")
    wr.sql(BAD)
    put(wr, (1, "a", 1))
    assert state(wr, "bad").startswith("suspended: ")
    wr.sql("DROP QUERY other")
    wr.sql("DROP QUERY bad")
    wr.sql("DROP STREAM s")


def test_new_query_after_a_suspended_one(wr: Any, open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sums` fails when it is finished, so SUM(x) is no longer kept, and a later query must say so."""
    wr.sql("CREATE QUERY counts AS SELECT COUNT(*) AS n FROM s [RANGE 30 SLIDE 10]")
    wr.sql("CREATE QUERY sums AS SELECT SUM(x) AS total FROM s [RANGE 30 SLIDE 10]")
    finish = Finisher.finish

    def failing(self: Any, plan: Any, *rest: Any) -> Any:
        if plan.outputs[0].name == "total":
            raise ValueError("this expression has no value")
        return finish(self, plan, *rest)

    monkeypatch.setattr(Finisher, "finish", failing)
    put(wr, (1, "a", 1), (11, "a", 2))
    monkeypatch.undo()
    assert state(wr, "sums") == "suspended: this expression has no value"
    put(wr, (12, "a", 4))
    wr.close()
    wr = open_state()
    wr.sql("CREATE QUERY late AS SELECT SUM(x) AS total FROM s [RANGE 30 SLIDE 10]")
    put(wr, (25, "a", 8), (31, "a", 16))
    wr.end_input("s")
    told = {row["name"]: row["completeness"] for row in wr.sql("SHOW QUERIES").rows()}
    assert told["late"] == "windows that end before 50 are partial"
    assert answers(wr, "late") == [(0, 30, 8), (10, 40, 24), (20, 50, 24), (30, 60, 16)]
    assert [row[2] for row in answers(wr, "counts")] == [1, 3, 4, 4, 2, 1]


def test_overflow_in_a_group_that_having_removes(open_state: Any) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM big (t BIGINT, k STRING, x BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    for name, having in (("plain", "SUM(x) > 5"), ("computed", "SUM(x) + 0 > 5")):
        wr.query(name, f"SELECT k, SUM(x) AS s FROM big [RANGE 10 SLIDE 10] GROUP BY k HAVING {having}")
    wr.deposit("big", [(1, "a", 2**62), (2, "a", 2**62), (3, "a", 2**62), (11, "a", 1)])
    assert [wr.queries[name].metrics()["overflows"] for name in ("plain", "computed")] == [1, 1]
