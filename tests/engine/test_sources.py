"""Sources: `feed`, files, and streaming DataFrames, through Structured Streaming."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.conftest import STREAM
from engine.helpers import answers, put
from windrow.dataplane.sources.spool import Spool
from windrow.errors import CatalogError, SourceError, StateError

pytestmark = pytest.mark.slow

QUERY = "CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(x) AS total FROM s [RANGE 10 SLIDE 10]"


def test_fed_rows_survive_a_restart(wr: Any, open_state: Any) -> None:
    wr.sql(QUERY)
    assert wr.feed("s", [(1, "a", 1), (2, "a", 2)]) == 2
    wr.close()
    again = open_state()
    again.feed("s", [(11, "a", 4)])
    again.run_available()
    assert answers(again, "q") == [(0, 10, 2, 3)]


def test_feed_after_restart_with_a_still_clock(wr: Any, open_state: Any) -> None:
    """Spark remembers the name of every file it has read, and read files are deleted, so a name must not be used again."""
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1)])
    wr.run_available()
    wr.feed("s", [(2, "a", 2)])
    wr.run_available()
    wr.close()
    spooled = wr.state_dir / "streams" / "1" / "spool"
    for file in spooled.glob("feed-*.parquet"):
        file.unlink()  # as Spark's own clean-up does, a micro-batch later
    again = open_state()
    again.feed("s", [(3, "a", 4), (11, "a", 8)])
    again.run_available()
    assert answers(again, "q") == [(0, 10, 3, 7)]


def test_feed_from_many_threads(wr: Any) -> None:
    wr.sql(QUERY)
    errors: list[BaseException] = []

    def feed(worker: int) -> None:
        try:
            for _ in range(12):
                wr.feed("s", [(1, "a", 1)])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=feed, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, 96, 96)]


def test_failed_feed_takes_nothing(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1)])
    with monkeypatch.context() as full:
        full.setattr(pq, "write_table", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(StateError, match="nothing was stored"):
            wr.feed("s", [(2, "a", 1)])
    wr.feed("s", [(11, "a", 1)])
    wr.run_available()
    assert answers(wr, "q") == [(0, 10, 1, 1)]


def test_leftovers_of_a_killed_feed_are_removed(wr: Any) -> None:
    wr.sql(QUERY)
    spool = wr.state_dir / "streams" / "1" / "spool"
    spool.mkdir(parents=True)
    (spool / ".feed-000000000000001-00000000.tmp").write_bytes(b"half a file")
    wr.feed("s", [(1, "a", 1)])
    assert [p.name for p in spool.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("mode", ["driver", "spark"])
@pytest.mark.parametrize("form", ["parquet", "json"])
def test_rows_of_files_are_numbered_by_age_of_the_file(open_state: Any, tmp_path: Path, mode: str, form: str) -> None:
    (tmp_path / "in").mkdir()
    for age, (name, rows) in enumerate({"c": [1, 2, 3], "a": [4], "b": [5, 6, 7, 8]}.items()):
        file = tmp_path / "in" / f"{name}.{form}"
        table = pa.table({"t": rows, "k": ["a"] * len(rows)})
        if form == "parquet":
            pq.write_table(table, file)
        else:
            file.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        os.utime(file, (1_700_000_000 + age, 1_700_000_000 + age))
    wr = open_state(preaggregate=mode)
    wr.sql(
        f"CREATE STREAM f (t BIGINT, k STRING) FROM files OPTIONS (path '{tmp_path}/in', format '{form}')"
        " TIMESTAMP BY t PUNCTUATE WITH SLACK 100"
    )
    wr.query("rows", "SELECT MIN(t) AS low, MAX(t) AS high FROM f [ROWS 2 SLIDE 2]")
    wr.run_available(close=True)
    assert [row[2:] for row in answers(wr, "rows")] == [(1, 2), (3, 4), (5, 6), (7, 8)]


def test_the_order_of_feed_is_the_order_of_files(tmp_path: Path, wr: Any) -> None:
    definition = wr._engine.manager.stream("s").definition
    spool = Spool(definition, tmp_path / "spool")
    for i in range(5):
        spool.write([(i, "a", 1)], now_ms=1000)
    files = sorted((tmp_path / "spool").iterdir(), key=lambda p: p.stat().st_mtime_ns)
    assert [pq.read_table(p).column("t").to_pylist() for p in files] == [[i] for i in range(5)]
    assert len({p.stat().st_mtime_ns // 1_000_000 for p in files}) == 5


def test_deposit_and_run_do_not_mix(wr: Any) -> None:
    """Spark numbers its micro-batches from 0, so those up to the last deposited one would be skipped."""
    wr.sql(QUERY)
    put(wr, (1, "a", 1))
    wr.feed("s", [(2, "a", 1)])
    with pytest.raises(StateError, match="checkpoint"):
        wr.run_available()
    wr.sql(STREAM.replace("STREAM s", "STREAM r"))
    wr.sql(QUERY.replace("QUERY q", "QUERY r").replace("FROM s", "FROM r"))
    wr.sql("DROP QUERY q")
    wr.feed("r", [(1, "a", 1)])
    wr.run_available()
    with pytest.raises(StateError, match="Structured Streaming"):
        put(wr, (2, "a", 1), stream="r")


@pytest.mark.parametrize("restart", [False, True])
def test_run_skips_deposited_streams(open_state: Any, wr: Any, restart: bool) -> None:
    wr.sql(QUERY)
    wr.sql(STREAM.replace("STREAM s", "STREAM r"))
    wr.sql(QUERY.replace("QUERY q", "QUERY r").replace("FROM s", "FROM r"))
    put(wr, (1, "a", 1))
    if restart:
        wr.close()
        wr = open_state()
    wr.feed("r", [(1, "a", 1), (12, "a", 1)])
    wr.run_available()
    assert (len(answers(wr, "q")), len(answers(wr, "r"))) == (0, 1)
    wr.start()
    wr.stop()
    put(wr, (2, "a", 1))
    wr.run_available(close=True)
    assert (len(answers(wr, "q")), len(answers(wr, "r"))) == (1, 2), "the input of both has ended"


def test_run_refuses_a_deposited_stream_with_files(wr: Any, tmp_path: Path) -> None:
    """Skipping it would never read its files."""
    (tmp_path / "in").mkdir()
    files = f"FROM files OPTIONS (path '{tmp_path / 'in'}', format 'json')"
    wr.sql(STREAM.replace("STREAM s", "STREAM f").replace("FROM memory", files))
    wr.sql(QUERY.replace("FROM s", "FROM f"))
    put(wr, (1, "a", 1), stream="f")
    with pytest.raises(StateError, match="checkpoint"):
        wr.run_available()


def test_end_of_input_behind_unread_rows(wr: Any) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1)])
    with pytest.raises(StateError, match="not read yet"):
        wr.end_input("s")
    wr.run_available(close=True)
    assert len(answers(wr, "q")) == 1


def test_lost_checkpoint_is_refused(wr: Any) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1)])
    wr.run_available()
    shutil.rmtree(wr.state_dir / "streams" / "1" / "checkpoint")
    with pytest.raises(StateError, match="checkpoint"):
        wr.run_available()


def test_a_streaming_data_frame_is_a_stream(open_state: Any, spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    columns = {"ts": pa.array([0, 4_000_000, 7_000_000], pa.timestamp("us", "UTC")), "x": [1.5, 2.5, 4.0]}
    pq.write_table(pa.table(columns), source / "1.parquet")
    frame = spark.readStream.schema("ts TIMESTAMP, x DOUBLE").parquet(str(source))
    wr = open_state()
    wr.stream("clicks", frame.where("x > 2"), timestamp="ts", slack="2 seconds")
    q = wr.query("q", "SELECT SUM(x) AS total FROM clicks [RANGE 5 SECONDS SLIDE 5 SECONDS]")
    wr.run_available()
    assert q.answers().arrow().column("total").to_pylist() == [2.5]
    wr.close()
    again = open_state()
    shown = again.sql("SHOW STREAMS").rows()[0]
    assert shown["state"] == "detached: call wr.stream('clicks', …) with its DataFrame again"
    for run in (again.run_available, again.start):
        with pytest.raises(SourceError, match="'clicks' is not attached, so its queries \\(q\\) would get no") as error:
            run()
        assert "wr.stream('clicks', df, timestamp='ts', slack='2 seconds')" in str(error.value)
    assert not again.is_running
    assert "is not attached" in again.metrics()["clicks"]["last_error"]
    with pytest.raises(CatalogError, match="other columns or clauses"):
        again.stream("clicks", frame, timestamp="ts", slack="3 seconds")
    again.stream("clicks", frame.where("x > 2"), timestamp="ts", slack="2 seconds")
    columns = {"ts": pa.array([8_000_000, 14_000_000], pa.timestamp("us", "UTC")), "x": [8.0, 9.0]}
    pq.write_table(pa.table(columns), source / "2.parquet")
    again.run_available()
    assert again.queries["q"].answers().arrow().column("total").to_pylist() == [2.5, 12.0]


def test_batch_data_frame_is_refused(wr: Any, spark: Any) -> None:
    with pytest.raises(SourceError, match="streaming DataFrame"):
        wr.stream("batch", spark.range(3), timestamp="id")
