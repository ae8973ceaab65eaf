"""HEARTBEAT AFTER: the frontier of a silent stream advances with the clock."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import windrow
from engine.conftest import Open
from engine.helpers import answers, state_of, wait_until

pytestmark = pytest.mark.slow

NOON = datetime(2029, 12, 31, 12, tzinfo=timezone.utc)
QUERY = "SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS]"


def opened(open_state: Open, punctuate: str, *, create: bool = True) -> Any:
    wr = open_state()
    if create:
        columns = "ts TIMESTAMP, k STRING, punctuation STRING"
        wr.sql(f"CREATE STREAM s ({columns}) FROM memory TIMESTAMP BY ts PUNCTUATE {punctuate}")
        wr.query("q", QUERY)
    return wr


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def feed(wr: Any, *seconds: float) -> None:
    """Feed rows with k = a, b, … in turn, and wait until they have been read."""
    before = wr.metrics()["s"]["admitted"] + wr.metrics()["s"]["late"]
    wr.feed("s", [(at(s), "ab"[i % 2], None) for i, s in enumerate(seconds)])
    wait_until(lambda: wr.metrics()["s"]["admitted"] + wr.metrics()["s"]["late"] == before + len(seconds))


def settle(wr: Any) -> None:
    """Do the supervisor's work at once, until the stream is known to be silent."""
    stream = state_of(wr)
    runner = wr._engine.running._runners[stream.id]

    def is_silent() -> bool:
        wr._engine.running._beat(stream)
        return runner._has_looked and runner.is_silent()

    wait_until(is_silent)


def advance(wr: Any, seconds: float) -> None:
    settle(wr)
    wr._engine.opened.clock.advance(seconds)
    wr._engine.running._beat(state_of(wr))


def frontier(wr: Any) -> float | None:
    value = state_of(wr).frontiers["ts"].value
    return None if value is None else value / 1e6 - NOON.timestamp()


def ends(wr: Any) -> list[float]:
    return [(row[1] - NOON).total_seconds() for row in answers(wr, "q")]


def test_silent_stream_advances_with_the_clock(open_state: Open) -> None:
    wr = opened(open_state, "WITH SLACK 5 SECONDS HEARTBEAT AFTER 30 SECONDS")
    wr.start()
    advance(wr, 100)
    assert frontier(wr) is None, "no tuple ever came, so there is no frontier to advance"
    feed(wr, 1, 12)
    assert frontier(wr) == 7
    advance(wr, 29)
    assert frontier(wr) == 7 and ends(wr) == []
    advance(wr, 1)
    assert frontier(wr) == 12 + 30 - 5 and ends(wr) == [10, 20]
    advance(wr, 29)
    assert frontier(wr) == 37, "the next heartbeat comes after as long again"
    advance(wr, 40)
    assert frontier(wr) == 12 + 90 - 5 and wr.metrics()["s"]["heartbeats"] == 2
    feed(wr, 96, 97)
    assert wr.metrics()["s"]["late"] == 1, "as after any punctuation"
    advance(wr, 30)
    assert frontier(wr) == 97 + 30 - 5, "the silence begins anew"
    wr.stop()
    note = {row["column"]: row["note"] for row in wr.sql("DESCRIBE s").rows()}["ts"]
    assert note == "window attribute, slack 5 SECONDS, heartbeat after 30 SECONDS"
    assert "heartbeat after 30 SECONDS" in "\n".join(row["plan"] for row in wr.sql("EXPLAIN QUERY q").rows())


def test_heartbeats_after_restart(open_state: Open) -> None:
    wr = opened(open_state, "ORDERED HEARTBEAT AFTER 10 SECONDS")
    wr.start()
    feed(wr, 1, 5)
    advance(wr, 25)
    assert frontier(wr) == 25 and ends(wr) == [10]
    clock = wr._engine.opened.clock
    wr.close()
    clock.advance(3600)
    wr = opened(open_state, "", create=False)
    assert frontier(wr) == 25 and ends(wr) == [10]
    wr.start()
    advance(wr, 9)
    assert frontier(wr) == 25, "time in which the stream did not run does not count"
    advance(wr, 1)
    assert frontier(wr) == 35
    feed(wr, 34, 36)
    assert wr.metrics()["s"]["late"] == 1
    wr.stop()
    assert frontier(wr) == 36 and ends(wr) == [10]


def test_unread_rows_prevent_heartbeats(open_state: Open) -> None:
    wr = opened(open_state, "ORDERED HEARTBEAT AFTER 10 SECONDS")
    wr.feed("s", [(at(1), "a", None)])
    wr.run_available()
    wr._engine.opened.clock.advance(3600)
    wr.feed("s", [(at(30), "a", None)])
    wr._engine.opened.clock.advance(3600)
    wr.start()
    wait_until(lambda: wr.metrics()["s"]["admitted"] == 2)
    settle(wr)
    wr.stop()
    assert wr.metrics()["s"]["late"] == 0 and frontier(wr) == 30


@pytest.mark.parametrize(
    ("punctuate", "before", "after"),
    [("PER k", 11, 30), ("PER k IDLE AFTER 5 SECONDS", 11, 40), ("BY SOURCE", None, 24), ("WITH SLACK 1 ROWS", 11, 30)],
)
def test_heartbeats_with_each_policy(open_state: Open, punctuate: str, before: float | None, after: float) -> None:
    wr = opened(open_state, f"{punctuate} HEARTBEAT AFTER 10 SECONDS")
    wr.start()
    feed(wr, 11, 14)
    assert frontier(wr) == before
    advance(wr, 10)
    assert frontier(wr) == 24 and ends(wr) == [20]
    feed(wr, 20, 30, 40)
    wr.stop()
    assert wr.metrics()["s"]["late"] == 1
    assert frontier(wr) == after


def test_continuous_queries_tick_when_keys_are_idle_and_the_stream_is_silent(open_state: Open) -> None:
    wr = opened(open_state, "PER k IDLE AFTER 5 SECONDS HEARTBEAT AFTER 10 SECONDS")
    joined = "FROM s [RANGE 20 SECONDS] AS a JOIN s [RANGE 1 MINUTE] AS b ON a.ts = b.ts AND a.k = b.k"
    c = wr.query("c", f"SELECT a.ts {joined}")
    g = wr.query("g", f"SELECT COUNT(*) AS n {joined}")

    def seen(tick: int) -> list[float]:
        """The seconds of the rows that both queries show at a tick, which they reach."""
        plans = [wr._engine.plans.query(name) for name in ("c", "g")]
        wait_until(lambda: all(one.progress.ticked == (NOON.timestamp() + tick) * 1e6 for one in plans))
        shown = sorted((row["ts"] - NOON).total_seconds() for row in c.view())
        assert g.view()["n"] == [len(shown)]
        return shown

    wr.start()
    feed(wr, 11, 14)
    feed(wr, 20)
    assert seen(20) == [11, 14], "the key of 14 is idle"
    advance(wr, 10)
    assert seen(30) == [11, 14, 20], "after ten seconds of silence"
    advance(wr, 10)
    assert seen(40) == [20]
    advance(wr, 10)
    assert seen(50) == []
    wr.stop()


def test_heartbeats_with_the_system_clock(spark: Any, tmp_path: Path) -> None:
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql(
            "CREATE STREAM s (ts TIMESTAMP, k STRING) FROM memory TIMESTAMP BY ts"
            " PUNCTUATE ORDERED HEARTBEAT AFTER 300 MILLISECONDS"
        )
        wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
        wr.start()
        wr.feed("s", [("2026-01-01 12:00:00.100", "a"), ("2026-01-01 12:00:00.900", "a")])
        wait_until(lambda: answers(wr, "q") != [])
        wr.stop()
        assert [row[2] for row in answers(wr, "q")] == [2]
        assert wr.metrics()["s"]["heartbeats"] >= 1


def test_silence_counts_up_to_the_last_trigger(open_state: Open) -> None:
    """With a trigger a minute, rows may have been waiting for that long: they are not made late."""
    wr = opened(open_state, "ORDERED HEARTBEAT AFTER 10 SECONDS")
    wr.start()
    feed(wr, 1, 12)
    settle(wr)
    wr.sql("SET trigger_interval = '1 minute'")
    advance(wr, 59)
    assert frontier(wr) == 12
    advance(wr, 15)
    assert frontier(wr) == 12 + 10


def test_no_heartbeat_in_run_available(open_state: Open) -> None:
    wr = opened(open_state, "ORDERED HEARTBEAT AFTER 1 SECOND")
    wr.feed("s", [(at(1), "a", None)])
    wr.run_available()
    wr._engine.opened.clock.advance(100)
    wr.run_available()
    assert frontier(wr) == 1
