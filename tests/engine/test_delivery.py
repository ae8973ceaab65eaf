"""Delivery: failing sinks, subscribers and disks never lose or repeat an answer."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import windrow
from engine.conftest import STREAM
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


def test_callback_cannot_change_the_stream(wr: Any) -> None:
    """The call raises, and the answers do not change."""
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
def test_failed_publish_is_retried_once(wr: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Publishing follows the commit, so the answers must be neither lost nor computed again."""
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
def test_unpublished_stages_after_restart(
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


def test_python_sink_is_retried_with_the_same_key(wr: Any) -> None:
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
    wr._engine.ticks.catch_up(state_of(wr))
    assert sink.calls == ["q@10..10", "q@10..10"]
    assert answers(wr, "q") == [(-10, 10, "a", 1)]


def test_python_sink_after_restart(wr: Any, open_state: Any) -> None:
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


def test_unwritable_path_is_refused_at_creation(wr: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for kind, path in (("jsonl", tmp_path), ("parquet", tmp_path / "file")):
        with pytest.raises(SinkError, match=f"query 'q' cannot write to {path}"):
            wr.sql(f"CREATE QUERY q AS {QUERY} INTO {kind} OPTIONS (path '{path}')")
    assert not wr.queries


def test_invalid_sink_object_is_refused(wr: Any) -> None:
    with pytest.raises(BindError, match="of type int"):
        wr.query("q", QUERY, sink=5)
    wr.query("q", QUERY)
    with pytest.raises(BindError, match="of type object"):
        wr.query("q", QUERY, sink=object())


def block(target: Path) -> None:
    """Put a directory in the place of the sink's file."""
    target.rename(target.with_name("away"))
    target.mkdir()


def unblock(target: Path) -> None:
    target.rmdir()
    target.with_name("away").rename(target)


def spoil(wr: Any, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries `bad` and `good` into files; the target of `bad` fails after the commit of their second window."""
    for name, path in (("bad", target), ("good", target.with_name("good"))):
        wr.sql(f"CREATE QUERY {name} AS {QUERY} INTO jsonl OPTIONS (path '{path}')")
    put(wr, (1, "a", 1), (11, "a", 2))
    publish = JsonLinesSink.publish

    def blocked(self: Any, entry: str) -> None:
        if target.is_file() and self._path == target:
            block(target)
        publish(self, entry)

    with monkeypatch.context() as patched:
        patched.setattr(JsonLinesSink, "publish", blocked)
        with pytest.raises(SinkError, match="query 'bad' cannot write .*: Is a directory"):
            put(wr, (21, "a", 4))


def staged(directory: Path) -> list[Path]:
    return list(directory.glob(".windrow-*"))


def test_failing_sink_does_not_prevent_opening(
    wr: Any, open_state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "out"
    spoil(wr, target, monkeypatch)
    assert lines(tmp_path / "good") == EXPECTED[:2], "committed stages of the others are published"
    wr.close()
    caplog.clear()
    again = open_state()
    assert "query 'bad' cannot write" in caplog.text
    assert len(again.sql("SHOW QUERIES")) == 2
    with pytest.raises(SinkError, match="'bad'"):
        put(again, (31, "a", 8))
    unblock(target)
    again.end_input("s")
    assert answers(again, "bad")[:4] == EXPECTED
    assert lines(target) == lines(tmp_path / "good") == answers(again, "bad")
    assert not staged(tmp_path)


def test_drop_query_with_failing_sink(
    wr: Any, open_state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(wr, tmp_path / "out", monkeypatch)
    assert staged(tmp_path)
    wr.close()
    again = open_state()
    again.sql("DROP QUERY bad")
    assert not staged(tmp_path)
    feed_all(again, first=3)
    assert lines(tmp_path / "good") == answers(again, "good")
    assert answers(again, "good")[:4] == EXPECTED


class Staging:
    """A user's staging sink; `rows` are the published rows."""

    def __init__(self) -> None:
        self.stages: dict[str, Any] = {}
        self.rows: list[Any] = []
        self.is_away = False

    def stage(self, batch: Any, seq: int) -> str:
        self.stages[str(seq)] = batch.table.select(["window_start", "window_end", "k", "total"]).to_pylist()
        return str(seq)

    def publish(self, entry: str) -> None:
        if self.is_away:
            raise OSError("away")
        self.rows += [tuple(row.values()) for row in self.stages.pop(entry, [])]

    def sweep(self) -> None:
        self.stages.clear()


def test_python_staging_sink_gets_refused_stages_later(wr: Any, open_state: Any) -> None:
    sink = Staging()
    wr.query("q", QUERY, sink=sink)
    sink.is_away = True
    with pytest.raises(OSError, match="away"):
        put(wr, (1, "a", 1), (11, "a", 2))
    wr.close()
    sink.is_away = False
    again = open_state()
    again.query("q", QUERY, sink=sink)
    feed_all(again, first=2)
    assert sink.rows == answers(again, "q")
    assert answers(again, "q")[:4] == EXPECTED


def test_close_of_temporary_state_leaves_no_stages(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wr = windrow.open(spark=spark, settings={"preaggregate": "driver"})
    wr.sql(STREAM)
    spoil(wr, tmp_path / "out", monkeypatch)
    assert staged(tmp_path)
    wr.close()
    assert not staged(tmp_path)


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
            fill = BlockWriter._fill_all

            def refuse(self: Any, owner: str, contents: Any) -> Any:
                if owner.startswith("answers" if where == "answers block" else "synopses"):
                    contents = [(rows, no_space) for rows, _ in contents]
                return fill(self, owner, contents)

            full.setattr(BlockWriter, "_fill_all", refuse)
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
