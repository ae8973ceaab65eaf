"""Values that functions make are bounded: NULL and counted at run time, an error for constants; and a query that ends
the JVM when it is first tried is suspended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, put
from windrow.errors import BindError, SparkEndedError

LARGE = "REPEAT(k, x * 1000000)"


def overflows(wr: Any, query: str) -> int:
    return int(wr.queries[query].metrics()["overflows"])


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_large_value_is_null_and_counted(open_state: Any, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(STREAM)
    wr.sql(f"CREATE QUERY kept AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] WHERE LENGTH({LARGE}) > 0")
    wr.sql(f"CREATE QUERY keys AS SELECT LENGTH({LARGE}) AS size, COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] GROUP BY 1")
    wr.sql(f"CREATE QUERY longest AS SELECT MAX(LENGTH({LARGE})) AS n FROM s [RANGE 10 SLIDE 10] WHERE x <> 7")
    put(wr, (1, "a", 1), (2, "ab", 1), (3, "a", 2000), (4, "abc", 7), (5, None, 3))
    put(wr, (11, "a", 1))
    assert answers(wr, "kept") == [(0, 10, 1)]
    assert set(answers(wr, "keys")) == {(0, 10, None, 4), (0, 10, 1_000_000, 1)}
    assert answers(wr, "longest") == [(0, 10, 1_000_000)]
    assert overflows(wr, "kept") == 3 and overflows(wr, "keys") == 3
    assert overflows(wr, "longest") == 2, "a value in a row that WHERE drops does not count"
    wr.sql("SET max_value_bytes = '3 MB'")
    put(wr, (12, "ab", 1), (21, "a", 1))
    assert answers(wr, "kept")[-1] == (10, 20, 2)


def test_large_value_over_aggregates(wr: Any) -> None:
    wr.sql("SET max_value_bytes = '10 B'")
    for name, home in (("here", "driver"), ("there", "spark")):
        wr.sql(f"SET synopsis_home = '{home}'")
        wr.sql(f"CREATE QUERY {name} AS SELECT k, CONCAT(k, MAX(k)) AS twice FROM s [RANGE 10 SLIDE 10] GROUP BY k")
    put(wr, (1, "abcde", 1), (2, "abcdef", 1), (11, "a", 1))
    for name in ("here", "there"):
        assert answers(wr, name) == [(0, 10, "abcde", "abcdeabcde"), (0, 10, "abcdef", None)]
        assert overflows(wr, name) == 1
    found = wr.sql("SELECT k, REPLACE(k, 'a', k) AS r, CONCAT(k, MAX(k)) AS t FROM s [RANGE 10] GROUP BY k").rows()
    assert [row["r"] for row in found] == ["abcdebcde", None]


@pytest.mark.parametrize("call", ["REPEAT('a', 1000000000)", "SPACE(2000000000)", "LPAD(reason, 2000000000)"])
def test_constant_is_refused(wr: Any, call: str) -> None:
    for statement in (
        f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] WHERE LENGTH({call}) > 0",
        f"SELECT MAX({call}) AS n FROM s [RANGE 10]",
        f"EXPLAIN SELECT MAX({call}) AS n FROM s [RANGE 10 SLIDE 10]",
        f"SELECT {call} FROM dead_letters('s')",
    ):
        with pytest.raises(BindError, match="at most 1,048,576 are allowed"):
            wr.sql(statement.replace("reason", "k") if "dead" not in statement else statement)


def test_dead_letters_with_a_large_value(wr: Any) -> None:
    put(wr, (None, "a", 1))
    rows = wr.sql(
        "SELECT LENGTH(REPEAT(reason, 10)) AS short, REPEAT(reason, batch * 0 + rows * 2000000000) AS long, "
        "HEX(HEX(CONCAT(reason, 'x'))) FROM dead_letters('s')"
    ).rows()
    assert rows[0]["short"] == 210 and rows[0]["long"] is None
    assert len(rows[0]) == 3 and list(rows[0])[2].startswith("HEX(HEX(")


def ends_the_jvm(monkeypatch: pytest.MonkeyPatch, wr: Any, culprit: str) -> None:
    """From now on, jobs that evaluate `culprit` end the JVM, as far as the engine can tell."""
    from windrow.dataplane.ingest import job

    jvm, run = wr._engine.jvm, job.run

    def dying(frame: Any) -> Any:
        if culprit in str(frame._jdf.queryExecution().logical().toString()):
            raise jvm.error()
        return run(frame)

    monkeypatch.setattr(job, "run", dying)
    monkeypatch.setattr(type(jvm), "is_lost", lambda self: True)


def state(wr: Any, query: str) -> str:
    return str({row["name"]: row["state"] for row in wr.sql("SHOW QUERIES").rows()}[query])


def test_new_query_that_ends_the_jvm_is_suspended(open_state: Any) -> None:
    wr = open_state()
    wr.sql(STREAM)
    wr.sql("CREATE QUERY good AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10]")
    put(wr, (1, "a", 1))
    wr.sql("CREATE QUERY bad AS SELECT SUM(x * 4711) AS total FROM s [RANGE 10 SLIDE 10]")
    with pytest.MonkeyPatch.context() as patched:
        ends_the_jvm(patched, wr, "4711")
        with pytest.raises(SparkEndedError):
            put(wr, (2, "a", 2))
    wr.close()
    again = open_state()
    assert state(again, "bad").startswith("suspended: the Spark JVM ended when this query was first tried")
    assert state(again, "good") == "active"
    put(again, (3, "a", 4), (11, "a", 8))
    assert answers(again, "good") == [(0, 10, 5)], "the micro-batch of the end was not committed"
    assert not list(again.state_dir.glob("streams/*/being_tried.json"))


def test_one_of_several_new_queries_ends_the_jvm(open_state: Any) -> None:
    """It is not known which one, so each is tried alone; the second end of the JVM tells."""
    wr = open_state()
    wr.sql(STREAM)
    wr.sql("CREATE QUERY good AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10]")
    wr.sql("CREATE QUERY bad AS SELECT SUM(x * 4711) AS total FROM s [RANGE 10 SLIDE 10]")
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patched:
            ends_the_jvm(patched, wr, "4711")
            with pytest.raises(SparkEndedError):
                put(wr, (1, "a", 1))
        wr.close()
        wr = open_state()
    assert state(wr, "bad").startswith("suspended") and state(wr, "good") == "active"
    put(wr, (1, "a", 1), (11, "a", 8))
    assert answers(wr, "good") == [(0, 10, 1)]


def test_process_that_is_killed_suspends_nothing(open_state: Any) -> None:
    wr = open_state()
    wr.sql(STREAM)
    wr.sql("CREATE QUERY q AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10]")
    put(wr, (1, "a", 1))
    number = next(query.id for query in wr._engine.manager.streams["s"].active)
    directory = wr._engine.manager.streams["s"].directory
    wr.close()
    (directory / "being_tried.json").write_text(
        json.dumps({"new": [number], "known": [], "alone": None, "ended": False})
    )
    again = open_state()
    put(again, (2, "a", 2), (11, "a", 4))
    assert state(again, "q") == "active" and answers(again, "q") == [(0, 10, 3)]
    assert not (directory / "being_tried.json").exists()


def test_gap_with_too_many_empty_windows(open_state: Any) -> None:
    wr = open_state(empty_windows="emit")
    wr.sql("CREATE STREAM s (ts TIMESTAMP, k STRING) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    wr.sql("CREATE QUERY fine AS SELECT COUNT(*) AS n FROM s [RANGE 10 MILLISECONDS SLIDE 10 MILLISECONDS]")
    wr.sql("CREATE QUERY since AS SELECT COUNT(*) AS n FROM s [UNBOUNDED SLIDE 10 MILLISECONDS]")
    wr.sql("CREATE QUERY days AS SELECT COUNT(*) AS n FROM s [RANGE 1 DAY SLIDE 1 DAY]")
    wr.sql("CREATE QUERY keyed AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k")
    wr.deposit("s", [("1970-01-01 00:00:00", "a"), ("2026-01-01 00:00:00", "b")])
    for name in ("fine", "since"):
        assert "176,722,559," in state(wr, name) or "176,722,560," in state(wr, name), state(wr, name)
        assert "windows without tuples lie between 1970-01-01 00:00:00" in state(wr, name)
    assert len(wr.queries["days"].answers()) == 20_454
    wr.deposit("s", [("2026-01-01 00:00:01", "b")])
    assert [row["k"] for row in wr.queries["keyed"].answers().rows()] == ["a", "b"]


def test_gap_is_answered_in_steps(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from windrow.engine.ticks import gaps

    monkeypatch.setattr(gaps, "WINDOWS_PER_STEP", 7)
    wr = open_state(empty_windows="emit")
    wr.sql(STREAM)
    wr.sql("CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 4 SLIDE 2]")
    put(wr, (1, "a", 1))
    put(wr, (101, "a", 1))
    assert answers(wr, "q") == [(end - 4, end, 1 if end < 6 else 0) for end in range(2, 102, 2)]
