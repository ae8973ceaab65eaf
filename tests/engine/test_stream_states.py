"""`is_running`, `last_error` and the state of SHOW STREAMS, whatever has happened to the streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.helpers import answers, wait_until
from windrow.dataplane.ingest import job as ingest
from windrow.engine.ticks.delivery import Delivery
from windrow.errors import StateError, WindrowError

QUERY = "CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]"


def state(wr: Any, name: str = "s") -> str:
    return {row["name"]: row["state"] for row in wr.sql("SHOW STREAMS").rows()}[name]


def last_error(wr: Any, name: str = "s") -> str | None:
    return wr.metrics()[name]["last_error"]


def fail(*_: Any) -> Any:
    raise RuntimeError("the source is away")


def test_before_start_and_after_stop(wr: Any) -> None:
    assert (wr.is_running, state(wr), last_error(wr)) == (False, "idle: no query reads it", None)
    wr.sql(QUERY)
    assert (wr.is_running, state(wr), last_error(wr)) == (False, "stopped", None)
    wr.start()
    assert (wr.is_running, state(wr), last_error(wr)) == (True, "running", None)
    assert wr.metrics()["s"]["state"] == "running"
    wr.stop()
    assert (wr.is_running, state(wr), last_error(wr)) == (False, "stopped", None)
    wr.close()
    assert not wr.is_running


def test_failed_stream(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1), (11, "a", 2)])
    with monkeypatch.context() as broken:
        broken.setattr(ingest, "run", fail)
        wr.start()
        wait_until(lambda: last_error(wr) is not None)
        assert wr.is_running, "it will be restarted"
        assert state(wr).startswith("failed, restarts in ") and "the source is away" in state(wr)
        wr.stop()
        assert (wr.is_running, state(wr)) == (False, "stopped")
        assert "the source is away" in (last_error(wr) or "")
    wr.start()
    wait_until(lambda: len(answers(wr, "q")) == 1)
    assert (wr.is_running, state(wr)) == (True, "running")
    wr.stop()


def test_failed_run_available(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1), (11, "a", 2)])
    with monkeypatch.context() as broken:
        broken.setattr(ingest, "run", fail)
        with pytest.raises(WindrowError, match="the source is away"):
            wr.run_available()
    assert (wr.is_running, state(wr)) == (False, "stopped")
    assert "the source is away" in (last_error(wr) or "")


def test_failed_tick(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    commit, calls = Delivery.commit, []

    def flaky(self: Any, *args: Any) -> None:
        calls.append(args)
        if len(calls) == 1:
            raise StateError("there is no space left", remedy="Free some.")
        commit(self, *args)

    monkeypatch.setattr(Delivery, "commit", flaky)
    wr.feed("s", [(1, "a", 1), (11, "a", 2)])
    wr.start()
    wait_until(lambda: len(answers(wr, "q")) == 1)
    wr.stop()
    assert "there is no space left" in (last_error(wr) or ""), "a success after it does not hide it"


def test_stream_that_cannot_be_restarted(open_state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last error is that of the restart, not the one before."""
    source = tmp_path / "in"
    source.mkdir()
    pq.write_table(pa.table({"t": [1, 11]}), source / "1.parquet")
    wr = open_state()
    wr.sql(f"CREATE STREAM s FROM files OPTIONS (path '{source}') TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.sql(QUERY)
    monkeypatch.setattr(ingest, "run", fail)
    wr.start()
    wait_until(lambda: last_error(wr) is not None)
    (source / "1.parquet").unlink()
    source.rmdir()
    wait_until(lambda: "does not exist" in (last_error(wr) or ""))
    wait_until(lambda: state(wr).startswith("failed, restarts in "))
    wr.stop()
