"""Bounds on answers, blocks, groups and panes, and on the cost of a stream that runs for a week."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.conftest import STREAM
from engine.helpers import answers, blocks_of, put, state_of
from windrow.dataplane.frames import frame_of
from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup
from windrow.synopses.kinds.basic_interval import MOST_PENDING
from windrow.types import SqlType

pytestmark = pytest.mark.slow


def files(wr: Any) -> int:
    return len(list(wr.state_dir.rglob("blk-*")))


def test_retained_answers_have_no_gap(open_state: Any) -> None:
    """A tick batch with more rows than are kept retires all older answers, so that there is no gap."""
    wr = open_state(retained_answers=3)
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] GROUP BY k")
    rows = [(i, "ab"[i % 2], 0) for i in range(60)]
    put(wr, *rows[:11])
    put(wr, *rows[11:41])
    assert {row[:2] for row in answers(wr, "q")} == {(30, 40)}


def test_retained_answers_are_bounded(open_state: Any) -> None:
    wr = open_state(retained_answers=10)
    wr.sql(STREAM)
    wr.sql("CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SLIDE 10] GROUP BY k")
    wr.sql("CREATE QUERY one AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10]")
    for i in range(18):
        put(wr, *[(10 * i, k, i) for k in "abc"])
    for query, per_window, most in (("q", 3, 15), ("one", 1, 20)):
        kept = answers(wr, query)
        assert 10 <= len(kept) <= most
        assert len(kept) % per_window == 0
        assert kept[-1][1] == 170
        assert wr.queries[query].metrics()["windows_answered"] == 17
    assert blocks_of(wr, "answers") <= 11
    put(wr, *[(t, "a", t) for t in range(180, 2000, 10)])
    assert 10 <= len(answers(wr, "one")) <= 20
    assert blocks_of(wr, "answers") <= 2
    assert wr.queries["one"].answer().rows()[0]["window_end"] == 1990
    wr.sql("SET retained_answers = 0")
    put(wr, (2000, "a", 1), (2010, "b", 2))
    assert [row[1] for row in answers(wr, "one")] == [2010]
    assert files(wr) == wr._engine.catalog.value("SELECT count(*) FROM blocks")


def test_answer_bound_after_restart(open_state: Any) -> None:
    for i in range(3):
        wr = open_state(retained_answers=5)
        if i == 0:
            wr.sql(STREAM)
            wr.sql("CREATE QUERY q AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10]")
        for j in range(6):
            put(wr, (10 * (6 * i + j), "a", 1))
        wr.close()
    wr = open_state(retained_answers=5)
    assert [row[1] for row in answers(wr, "q")] == list(range(130, 180, 10))


def test_answer_blocks_are_merged(open_state: Any) -> None:
    """Each tick batch writes a block, so a query with one row per window would keep tens of thousands."""
    wr = open_state(synopsis_blocks=4, retained_answers=100)
    wr.sql(STREAM.replace("ORDERED", "WITH SLACK 100000"))
    wr.sql("CREATE QUERY q AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10]")
    wr.sql("CREATE QUERY other AS SELECT k, SUM(x) AS total FROM s [RANGE 20 SLIDE 20] GROUP BY k")
    put(wr, *[(t, "ab"[t // 10 % 2], t) for t in range(0, 1500, 10)])
    for t in range(10, 1500, 10):
        wr.punctuate("s", t)
        assert blocks_of(wr, "answers") <= 4 * 4 + 100 // 12
        if t == 900:
            wr.close()
            wr = open_state(synopsis_blocks=4, retained_answers=100)
    kept = answers(wr, "q")
    assert kept == [(t - 10, t, t - 10) for t in range(1490 - 10 * len(kept) + 10, 1500, 10)]
    assert 100 <= len(kept) <= 100 + 100 // 8
    expected = [(t, t + 20, k, t + at) for t in range(0, 1480, 20) for k, at in (("a", 0), ("b", 10))]
    assert answers(wr, "other") == expected[-len(answers(wr, "other")) :]
    assert wr.queries["q"].metrics()["windows_answered"] == 149
    assert files(wr) == wr._engine.catalog.value("SELECT count(*) FROM blocks")
    wr.sql("DROP QUERY q")
    wr.sql("DROP QUERY other")
    assert files(wr) == 0


def test_compaction_changes_no_answer(open_state: Any) -> None:
    rng = random.Random(5)
    batches = [
        [(20 * i + rng.randrange(20), rng.choice("abcd"), rng.randrange(9)) for _ in range(6)] for i in range(25)
    ]
    select = "SELECT k, SUM(x) AS total, MIN(k) AS least, VARIANCE(x) AS v FROM s [RANGE 300 SLIDE 50] GROUP BY k"
    found = {}
    for name, limit in (("many", 1000), ("few", 4)):
        wr = open_state(name, synopsis_blocks=limit)
        wr.sql(STREAM.replace("ORDERED", "WITH SLACK 20"))
        wr.sql(f"CREATE QUERY q AS {select}")
        for i, rows in enumerate(batches):
            put(wr, *rows)
            if name == "few":
                assert blocks_of(wr, "synopses") <= 4
                if i % 9 == 8:
                    wr.close()
                    wr = open_state(name, synopsis_blocks=limit)
        wr.end_input("s")
        assert (wr.metrics()["s"]["compactions"] > 0) == (name == "few")
        found[name] = answers(wr, "q")
        assert files(wr) == wr._engine.catalog.value("SELECT count(*) FROM blocks")
    few = [(*row[:-1], None if row[-1] is None else pytest.approx(row[-1], rel=1e-9)) for row in found["few"]]
    assert found["many"] == few


def test_memory_follows_the_groups_alive(wr: Any) -> None:
    wr.sql("CREATE QUERY q AS SELECT k, x, COUNT(*) AS n FROM s [RANGE 20 SLIDE 10] GROUP BY k, x")
    most = 0
    for i in range(15):
        rows = pa.table(
            {
                "t": np.full(800, 10 * i),
                "k": [f"group {i}-{j}" for j in range(800)],
                "x": pa.array(np.arange(800), pa.int32()),
            }
        )
        wr.deposit("s", rows)
        (state,) = state_of(wr).synopses.values()
        most = max(most, state.synopsis.groups.count)
    assert most < 8 * 800
    assert wr.metrics()["s"]["groups"] < 8 * 800
    assert state.synopsis.nbytes < 10 * 800 * 8 * 4
    wr.end_input("s")
    assert wr.queries["q"].metrics()["answer_rows"] == 15 * 800 * 2


def test_open_pane_does_not_grow(wr: Any) -> None:
    wr.sql("CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 1000 SLIDE 1000] GROUP BY k")
    for i in range(3 * MOST_PENDING):
        put(wr, *[(i, k, 1) for k in "abcde"])
        (state,) = state_of(wr).synopses.values()
        assert sum(len(cells) for cells in state.synopsis._pending) <= 5 * (MOST_PENDING + 8)
    wr.end_input("s")
    assert answers(wr, "q") == [(0, 1000, k, 3 * MOST_PENDING) for k in "abcde"]


def test_chunks_stay_few() -> None:
    """The cost of a tick grows with the chunks; the answers equal those of panes closed all at once."""
    rng = np.random.default_rng(3)
    count = Accumulator(Kind.COUNT, None, None, None)
    least = Accumulator(Kind.LEAST, "k", SqlType("STRING"), None)
    parts = []
    for pane in range(600):
        keys = rng.choice(40 if pane % 3 else 3, size=3, replace=False) + pane // 50
        states = {count: (np.ones(3, np.int64),), least: (np.array([b"%d" % (pane % 7)] * 3, object),)}
        parts.append((pane, pa.array(keys), states))
    found = []
    for at_once in (False, True):
        synopsis = BasicIntervalSynopsis([pa.int64()])
        for pane, keys, states in parts:
            synopsis.deposit(Cells(np.full(3, pane), synopsis.groups.ids([keys]), states))
            if not at_once:
                synopsis.close(pane + 1)
        synopsis.close(600)
        sizes = [chunk.panes.size for chunk in synopsis._chunks]
        assert len(sizes) <= 70 and max(sizes) <= (600 if at_once else 75) and sum(sizes) == 600
        assert synopsis.closed_panes.tolist() == list(range(600))
        ends = np.arange(10, 600, 7)
        lookup = Lookup("q", np.maximum(0, ends - 90), ends, count, (count, least), False)
        (looked,) = synopsis.answer([lookup])
        (keys,) = synopsis.groups.key_columns(looked.groups)
        columns = [looked.window.tolist(), keys.to_pylist(), *(s[0].tolist() for s in looked.states.values())]
        found.append(sorted(zip(*columns, strict=True)))
    assert found[0] == found[1]
    assert len(found[0]) > 1000


PANE_US = 60_000


def test_a_week_of_sparse_data(open_state: Any) -> None:
    """10 million panes of event time: the state grows with the tuples in the windows, not with time."""
    rng = np.random.default_rng(7)
    wr = open_state(retained_answers=1000)
    wr.sql("CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    wr.sql("CREATE QUERY fine AS SELECT COUNT(*) AS n FROM s [RANGE 60 MILLISECONDS SLIDE 60 MILLISECONDS]")
    wr.sql("CREATE QUERY q AS SELECT k, SUM(x) AS s FROM s [RANGE 600 MILLISECONDS SLIDE 60 MILLISECONDS] GROUP BY k")
    week_us, batches = 10_000_000 * PANE_US, 30
    sizes, fed = [], []
    for i in range(batches):
        lo, hi = i * week_us // batches, (i + 1) * week_us // batches
        points = np.sort(rng.integers(lo, hi, 100))
        fed.append(points)
        keys = [f"key {n}" for n in rng.integers(0, 10_000, 100)]
        wr.deposit("s", pa.table({"ts": pa.array(points).view(pa.timestamp("us", "UTC")), "k": keys, "x": points % 7}))
        metrics = wr.metrics()["s"]
        blocks = wr._engine.catalog.value("SELECT count(*) FROM blocks")
        on_disk = sum(p.stat().st_size for p in wr.state_dir.rglob("blk-*"))
        catalog = (wr.state_dir / "catalog.sqlite").stat().st_size
        sizes.append((metrics["closed_panes"], metrics["synopsis_bytes"], metrics["groups"], blocks, on_disk, catalog))
    occupied = {int(p) // PANE_US for p in np.concatenate(fed)}
    assert wr.queries["fine"].metrics()["windows_answered"] == len(occupied) - 1
    early, late = np.array(sizes[3:10]).max(axis=0), np.array(sizes[-7:]).max(axis=0)
    assert (late <= 2 * early + 64).all(), f"grew from {early.tolist()} to {late.tolist()}"
    assert late[0] <= 64 and late[3] <= 20


def test_large_deposit_stays_off_the_heap(open_state: Any) -> None:
    """Gathering a table of 500,000 rows once filled the JVM's heap of 1 GB. Spark does not know the size of Arrow data, but
    the engine does."""
    wr = open_state(preaggregate="auto")
    wr.sql(STREAM)
    wr.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] GROUP BY k")
    t = np.arange(40_000) // 2_000
    table = pa.table({"t": t, "k": np.char.mod("k%d", t % 3), "x": (t % 7).astype(np.int32)})
    for part, as_rows in ((table, False), (table.slice(0, 100), True)):
        plan = frame_of(wr.spark, part, None)._jdf.queryExecution().optimizedPlan().toString()
        assert plan.startswith("LocalRelation") is as_rows
    wr.deposit("s", table)
    assert state_of(wr).chooser.row_bytes is not None, "it was not gathered, so its size was not known"
    assert sum(row[-1] for row in answers(wr, "q")) == 20_000
