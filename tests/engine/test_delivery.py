"""Answers out: what a sink, a subscriber or a full disk may do, and what may never happen to an answer."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.helpers import answers, put, state_of
from windrow.catalog.store import Catalog
from windrow.dataplane.blocks.store import BlockWriter
from windrow.dataplane.sinks.jsonl import JsonLinesSink
from windrow.dataplane.sinks.parquet import ParquetSink
from windrow.errors import BindError, CatalogError, SinkError, StateError, WindrowError
from windrow.testing import CollectingSink

pytestmark = pytest.mark.slow

QUERY = "SELECT k, SUM(x) AS total FROM s [RANGE 20 SLIDE 10] GROUP BY k"
EXPECTED = [(-10, 10, "a", 1), (0, 20, "a", 3), (10, 30, "a", 6), (20, 40, "a", 12)]


def feed_all(wr: Any, first: int = 0) -> None:
    for i in range(first, 4):
        put(wr, (10 * i + 1, "a", 2**i))
    wr.end_input("s")


def lines(path: Path) -> list[Any]:
    kept = ("window_start", "window_end", "k", "total")
    return [tuple(json.loads(line)[n] for n in kept) for line in path.read_text().splitlines()]


def files(directory: Path) -> list[Any]:
    rows = pq.read_table(directory).sort_by("window_end").to_pylist()
    return [(r["window_start"], r["window_end"], r["k"], r["total"]) for r in rows]


# -- subscribers ---------------------------------------------------------------------------------------


def test_a_bad_callback_does_not_stop_the_stream(wr: Any) -> None:
    q = wr.query("q", QUERY)
    good: list[Any] = []

    def bad(answer: Any) -> None:
        raise RuntimeError(f"no {answer.window_end}")

    q.subscribe(bad)
    q.subscribe(good.append)
    q.subscribe(lambda batch: 1 / 0, batched=True)
    feed_all(wr)
    assert answers(wr, "q")[:4] == EXPECTED
    assert [(a.window_start, a.window_end) for a in good] == [(r[0], r[1]) for r in answers(wr, "q")]
    assert [a.key for a in good] == [f"q@{a.window_end}" for a in good]
    metrics = q.metrics()
    assert metrics["callback_errors"] > len(good)
    assert "Error" in metrics["last_callback_error"]


def test_a_callback_may_not_change_what_is_being_ticked(wr: Any) -> None:
    """It is told so, and the answers are as if it had not tried."""
    q = wr.query("q", QUERY)
    told: list[str] = []

    def meddle(answer: Any) -> None:
        for attempt in (
            lambda: wr.sql("DROP QUERY q"),
            lambda: wr.sql(f"CREATE QUERY q{answer.window_end} AS {QUERY}"),
            lambda: wr.deposit("s", [(99, "a", 1)]),
            lambda: wr.punctuate("s", 99),
        ):
            with pytest.raises(StateError) as caught:
                attempt()
            told.append(str(caught.value))

    q.subscribe(meddle)
    feed_all(wr)
    assert answers(wr, "q")[:4] == EXPECTED
    assert len(told) == 4 * len(answers(wr, "q"))
    assert q.metrics()["callback_errors"] == 0
    assert all("subscriber" in text for text in told)


def test_a_callback_may_read(wr: Any) -> None:
    q = wr.query("q", QUERY)
    seen: list[int] = []
    q.subscribe(lambda answer: seen.append(len(q.answers())))
    feed_all(wr)
    assert q.metrics()["callback_errors"] == 0
    assert seen == sorted(seen)


# -- sinks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_sink_that_cannot_publish_gets_every_answer_once_later(
    wr: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Publishing comes after the commit: the answers must be neither lost nor made anew."""
    target = tmp_path / "out"
    wr.sql(f"CREATE QUERY q AS {QUERY} INTO {kind} OPTIONS (path '{target}')")
    put(wr, (1, "a", 1))
    sink: Any = ParquetSink if kind == "parquet" else JsonLinesSink
    publish = sink.publish

    def full(self: Any, entry: str) -> None:
        if kind == "jsonl":
            with open(target, "ab") as out:
                out.write(b'{"half a li')
        raise SinkError("no space", remedy="Free some.")

    monkeypatch.setattr(sink, "publish", full)
    for t, x in ((11, 2), (11, 0)):
        with pytest.raises(SinkError):
            put(wr, (t, "a", x))
    monkeypatch.setattr(sink, "publish", publish)
    feed_all(wr, first=2)
    assert answers(wr, "q")[:4] == EXPECTED
    assert (files(target) if kind == "parquet" else lines(target)) == answers(wr, "q")


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_what_was_not_published_is_published_by_the_next_opening(
    wr: Any, open_state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    target = tmp_path / "out"
    wr.sql(f"CREATE QUERY q AS {QUERY} INTO {kind} OPTIONS (path '{target}')")
    sink: Any = ParquetSink if kind == "parquet" else JsonLinesSink
    with monkeypatch.context() as patched:
        patched.setattr(sink, "publish", lambda self, entry: (_ for _ in ()).throw(SinkError("no", remedy="-")))
        with pytest.raises(SinkError):
            put(wr, (1, "a", 1), (11, "a", 2))
    wr.close()
    again = open_state()
    assert (files(target) if kind == "parquet" else lines(target)) == EXPECTED[:1]
    feed_all(again, first=2)
    assert (files(target) if kind == "parquet" else lines(target)) == answers(again, "q")


def test_a_failing_python_sink_is_asked_again_with_the_same_key(wr: Any) -> None:
    class Flaky:
        def __init__(self) -> None:
            self.calls: list[str] = []

        def write(self, batch: Any) -> None:
            self.calls.append(batch.key)
            if len(self.calls) == 1:
                raise OSError("the other side is away")

    sink = Flaky()
    wr.query("q", QUERY, sink=sink)
    with pytest.raises(OSError):
        put(wr, (1, "a", 1), (11, "a", 2))
    assert answers(wr, "q") == []
    wr._engine._ticks.catch_up(state_of(wr))
    assert sink.calls == ["q@10..10", "q@10..10"]
    assert answers(wr, "q") == [(-10, 10, "a", 1)]


def test_a_python_sink_is_given_again_after_a_restart(wr: Any, open_state: Any) -> None:
    before, after = CollectingSink(), CollectingSink()
    wr.query("q", QUERY, sink=before)
    put(wr, (1, "a", 1), (11, "a", 2))
    wr.close()
    again = open_state()
    with pytest.raises(CatalogError, match="exists already"):
        again.query("q", QUERY.replace("20", "40"), sink=after)
    again.query("q", QUERY, sink=after)
    feed_all(again, first=2)
    taken = [(r["window_start"], r["window_end"], r["k"], r["total"]) for s in (before, after) for r in s.rows("q")]
    assert taken == answers(again, "q")
    assert before.repetitions == after.repetitions == 0


def test_two_queries_cannot_write_one_file(wr: Any, tmp_path: Path) -> None:
    wr.sql(f"CREATE QUERY a AS {QUERY} INTO jsonl OPTIONS (path '{tmp_path}/out')")
    with pytest.raises(BindError, match="'a'"):
        wr.sql(f"CREATE QUERY b AS {QUERY} INTO jsonl OPTIONS (path '{tmp_path}/./out')")
    wr.sql(f"CREATE QUERY `c d` AS {QUERY} INTO parquet OPTIONS (path '{tmp_path}/files')")
    with pytest.raises(BindError, match="'c d'"):
        wr.sql(f"CREATE QUERY c_d AS {QUERY} INTO parquet OPTIONS (path '{tmp_path}/files')")
    wr.sql("DROP QUERY a")
    wr.sql(f"CREATE QUERY b AS {QUERY} INTO jsonl OPTIONS (path '{tmp_path}/out')")


# -- a full disk ---------------------------------------------------------------------------------------


def no_space(*args: Any, **kwargs: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("where", ["deposit block", "answers block", "commit"])
def test_a_full_disk_loses_nothing(wr: Any, open_state: Any, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    wr.query("q", QUERY)
    put(wr, (1, "a", 1))
    with monkeypatch.context() as full:
        if where == "commit":
            full.setattr(Catalog, "_commit", no_space)
        else:
            write = BlockWriter._write

            def refuse(self: Any, owner: str, rows: int, fill: Any) -> Any:
                if owner.startswith("answers" if where == "answers block" else "synopses"):
                    return write(self, owner, rows, no_space)
                return write(self, owner, rows, fill)

            full.setattr(BlockWriter, "_write", refuse)
        with pytest.raises((WindrowError, OSError), match="space"):
            put(wr, (11, "a", 2))
    taken = wr.metrics()["s"]["admitted"] == 2
    assert taken == (where == "answers block")
    feed_all(wr, first=2 if taken else 1)
    assert answers(wr, "q")[:4] == EXPECTED
    if where == "commit":
        wr.close()
        wr = open_state()
        assert answers(wr, "q")[:4] == EXPECTED
    named = {row["path"] for row in wr._engine.catalog.rows("SELECT path FROM blocks")}
    assert {str(p.relative_to(wr.state_dir)) for p in wr.state_dir.rglob("blk-*")} == named
