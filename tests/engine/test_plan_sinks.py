"""Sinks of continuous queries: their modes, what they refuse, and that they hold every change once."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

import windrow
from engine.conftest import Open
from engine.helpers import wait_until
from engine.plan_streams import JOIN, A, B, lines, parquet, play, rows
from windrow.errors import BindError, SinkError


@pytest.fixture
def ab(open_state: Open) -> windrow.Windrow:
    """An open state directory with the streams a and b."""
    opened = open_state()
    opened.sql(f"{A}; {B}")
    return opened


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_changes(ab: windrow.Windrow, tmp_path: Path, kind: str) -> None:
    ab.sql(f"CREATE QUERY q AS {JOIN} INTO {kind} OPTIONS (path '{tmp_path}/out')")
    play(ab)
    written = (lines if kind == "jsonl" else parquet)(tmp_path / "out")
    assert written == rows(ab.queries["q"].changes()) and len(written) >= 4
    assert written[0] == ("+", 2, 7, "u", 1, 10)


def test_output_that_grows_is_appended(ab: windrow.Windrow, tmp_path: Path) -> None:
    ab.sql(f"CREATE QUERY q AS SELECT k, x FROM a [UNBOUNDED] WHERE x > 1 INTO jsonl OPTIONS (path '{tmp_path}/q')")
    ab.sql(f"CREATE QUERY i AS SELECT ISTREAM(a.k, y) FROM a [RANGE 10] JOIN b [RANGE 5] ON a.k = b.k"
           f" INTO parquet OPTIONS (path '{tmp_path}/i', mode 'append')")  # fmt: skip
    play(ab)
    assert lines(tmp_path / "q") == [(3, "v", 2), (5, "u", 3), (8, "w", 4)]
    assert parquet(tmp_path / "i")[0] == (2, "u", 10)


def test_append_refuses_what_leaves_and_names_the_remedies(ab: windrow.Windrow, tmp_path: Path) -> None:
    into = f"INTO jsonl OPTIONS (path '{tmp_path}/q', mode 'append')"
    for select in (JOIN, "SELECT k, COUNT(*) AS n FROM a [RANGE 10] GROUP BY k"):
        with pytest.raises(BindError, match="cannot be appended") as caught:
            ab.sql(f"CREATE QUERY q AS {select} {into}")
        assert all(word in str(caught.value) for word in ("mode 'changes'", "ISTREAM", "INTERNAL"))
        assert caught.value.place is not None and caught.value.place.length == len("'append'")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_view_is_replaced_also_when_rows_only_expire(ab: windrow.Windrow, tmp_path: Path, kind: str) -> None:
    read = lines if kind == "jsonl" else parquet
    ab.sql(f"CREATE QUERY q AS {JOIN} ORDER BY x DESC INTO {kind} OPTIONS (path '{tmp_path}/out', mode 'view')")
    for upto in (1, 2):
        play(ab, upto) if upto == 1 else ab.deposit("a", [(5, "u", 3), (5, "u", 9)])
        assert read(tmp_path / "out") == rows(ab.queries["q"].view())
    ab.deposit("b", [(6, "u", 30)])
    assert read(tmp_path / "out") == rows(ab.queries["q"].view()) != []
    before = rows(ab.queries["q"].changes())
    ab.deposit("a", [(30, "z", 0)])
    ab.deposit("b", [(30, "y", 0)])
    assert rows(ab.queries["q"].changes()) != [] and before == rows(ab.queries["q"].changes())[: len(before)]
    assert read(tmp_path / "out") == rows(ab.queries["q"].view()) == []


def test_view_in_many_ticks_counts_no_row_twice(ab: windrow.Windrow, tmp_path: Path) -> None:
    """Views are merged every twentieth of a window, and after twenty commits."""
    q = ab.query("q", f"SELECT k, x FROM a [RANGE 200] INTO jsonl OPTIONS (path '{tmp_path}/q', mode 'view')")
    for t in range(1, 60):
        ab.deposit("a", [(t, "u", t)])
        assert sorted(rows(q.view())) == [("u", x) for x in range(1, t)] == sorted(lines(tmp_path / "q"))


def test_mode_of_a_periodic_query(ab: windrow.Windrow, tmp_path: Path) -> None:
    into = f"INTO jsonl OPTIONS (path '{tmp_path}/q', mode 'changes')"
    for select in (
        "SELECT COUNT(*) AS n FROM a [RANGE 10 SLIDE 5]",
        "SELECT a.k, y FROM a [RANGE 10 SLIDE 5] JOIN b [RANGE 10 SLIDE 5] ON a.k = b.k",
    ):
        with pytest.raises(BindError, match="'mode' is for continuous queries"):
            ab.sql(f"CREATE QUERY q AS {select} {into}")
    with pytest.raises(BindError, match="there is no mode 'upsert'"):
        ab.sql(f"CREATE QUERY q AS {JOIN} INTO console OPTIONS (mode 'upsert')")


def test_periodic_plan_delivers_ordered_answers(ab: windrow.Windrow, tmp_path: Path) -> None:
    select = "SELECT a.k, x, y FROM a [RANGE 10 SLIDE 5] JOIN b [RANGE 10 SLIDE 5] ON a.k = b.k ORDER BY y DESC"
    ab.sql(f"CREATE QUERY q AS {select} INTO jsonl OPTIONS (path '{tmp_path}/q')")
    play(ab)
    found = rows(ab.queries["q"].answers())
    assert lines(tmp_path / "q") == found and len(found) > 3
    assert found == sorted(found, key=lambda row: (row[1], -row[5]))


def test_paths_are_checked_as_those_of_periodic_queries(ab: windrow.Windrow, tmp_path: Path) -> None:
    ab.sql(f"CREATE QUERY p AS SELECT COUNT(*) AS n FROM a [RANGE 5 SLIDE 5] INTO jsonl OPTIONS (path '{tmp_path}/p')")
    with pytest.raises(BindError, match="same files as query 'p'"):
        ab.sql(f"CREATE QUERY q AS {JOIN} INTO jsonl OPTIONS (path '{tmp_path}/p')")
    ab.sql(f"CREATE QUERY q AS {JOIN} INTO parquet OPTIONS (path '{tmp_path}/q')")
    with pytest.raises(BindError, match="lie in each other"):
        ab.sql(f"CREATE QUERY r AS SELECT COUNT(*) AS n FROM a [RANGE 5 SLIDE 5]"
               f" INTO parquet OPTIONS (path '{tmp_path}/q/r')")  # fmt: skip
    (tmp_path / "foreign").write_text('{"x": 1}\n')
    for overwrite in ("false", "true"):
        options = f"path '{tmp_path}/foreign', overwrite '{overwrite}'"
        with pytest.raises(SinkError):
            ab.sql(f"CREATE QUERY f AS {JOIN} INTO jsonl OPTIONS ({options})")
    assert (tmp_path / "foreign").read_text() == '{"x": 1}\n'


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("mode", ["changes", "view"])
def test_overwrite_deletes_the_output_of_an_earlier_query(
    ab: windrow.Windrow, tmp_path: Path, kind: str, mode: str
) -> None:
    into = f"INTO {kind} OPTIONS (path '{tmp_path}/out', mode '{mode}'"
    ab.sql(f"CREATE QUERY q AS {JOIN} {into})")
    play(ab, 1)
    ab.sql("DROP QUERY q")
    with pytest.raises(SinkError, match="did not write"):
        ab.sql(f"CREATE QUERY r AS SELECT k FROM a [RANGE 5] {into})")
    ab.sql(f"CREATE QUERY r AS SELECT k FROM a [RANGE 5] {into}, overwrite 'true')")
    ab.deposit("a", [(30, "z", 0), (31, "z", 0)])
    read = lines if kind == "jsonl" else parquet
    assert read(tmp_path / "out")[-1][-1] == "z" and all(len(row) < 5 for row in read(tmp_path / "out"))


def test_loops_by_way_of_files(ab: windrow.Windrow, tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    files = f"FROM files OPTIONS (path '{tmp_path}/f', format 'parquet') TIMESTAMP BY t PUNCTUATE ORDERED"
    ab.sql(f"CREATE STREAM f (t BIGINT, k STRING) {files}")
    with pytest.raises(BindError, match="would feed itself"):
        ab.sql(f"CREATE QUERY q AS SELECT f.k FROM f [RANGE 5] JOIN b [RANGE 5] ON f.k = b.k"
               f" INTO parquet OPTIONS (path '{tmp_path}/f')")  # fmt: skip
    ab.sql("CREATE STREAM d AS SELECT k FROM f [UNBOUNDED]")
    with pytest.raises(BindError, match="whose answers feed stream 'd'"):
        ab.sql(f"CREATE QUERY q AS SELECT k FROM d [RANGE 5] INTO parquet OPTIONS (path '{tmp_path}/f')")
    with pytest.raises(BindError, match="replaced at every tick"):
        ab.sql(f"CREATE QUERY q AS {JOIN} INTO parquet OPTIONS (path '{tmp_path}/f', mode 'view')")


class Collecting:
    """A Python sink that fails on demand."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.fails = False

    def write(self, batch: Any) -> None:
        if self.fails:
            raise OSError("no")
        self.batches.append(batch)


def test_python_sink_gets_changes_and_is_tried_again(ab: windrow.Windrow) -> None:
    sink = Collecting()
    q = ab.query("q", JOIN, sink=sink)
    play(ab, 1)
    sink.fails = True
    ab.deposit("a", [(5, "u", 3)])
    with pytest.raises(OSError):
        ab.deposit("b", [(6, "u", 30)])
    seen = rows(q.changes())
    sink.fails = False
    ab.deposit("b", [(7, "w", 0)])
    assert [row for batch in sink.batches for row in rows(batch.table)] == rows(q.changes()) != seen
    assert len({batch.key for batch in sink.batches}) == len(sink.batches)


def test_restart_goes_on_in_the_same_output(open_state: Open, tmp_path: Path) -> None:
    wr = open_state()
    wr.sql(f"{A}; {B}")
    wr.sql(f"CREATE QUERY q AS {JOIN} INTO jsonl OPTIONS (path '{tmp_path}/q')")
    wr.sql(f"CREATE QUERY v AS {JOIN} INTO parquet OPTIONS (path '{tmp_path}/v', mode 'view')")
    play(wr, 2)
    wr.close()
    wr = open_state()
    wr.deposit("a", [(20, "u", 5)])
    wr.deposit("b", [(21, "u", 50), (24, "x", 0)])
    wr.deposit("a", [(24, "z", 0)])
    assert lines(tmp_path / "q") == rows(wr.queries["q"].changes())
    assert parquet(tmp_path / "v") == rows(wr.queries["v"].view()) == [("u", 5, 50)]


def test_console(ab: windrow.Windrow, capsys: pytest.CaptureFixture[str]) -> None:
    ab.sql(f"CREATE QUERY q AS {JOIN} INTO console")
    ab.sql(f"CREATE QUERY v AS {JOIN} INTO console OPTIONS (mode 'view')")
    ab.sql("CREATE QUERY i AS SELECT ISTREAM(k, x) FROM a [RANGE 10] INTO console OPTIONS (mode 'append')")
    play(ab, 1)
    ab.deposit("a", [(4, "z", 0)])
    out = capsys.readouterr().out
    assert "-- i\n1  k=u  x=1\n" in out and "-- i\n3  k=v  x=2\n" in out
    assert "-- q\n+ [2 .. 7)  k=u  x=1  y=10\n" in out and "-- v, 1 rows now\nk=u  x=1  y=10\n" in out


def test_call_that_takes_too_long_runs_once_at_a_time(open_state: Open) -> None:
    wr = open_state(sink_timeout="200 milliseconds")
    wr.sql(f"{A}; {B}")
    release, calls = threading.Event(), list[str]()

    class Blocking:
        def write(self, batch: Any) -> None:
            calls.append(batch.key)
            release.wait(30)

    q = wr.query("q", "SELECT k FROM a [RANGE 5]", sink=Blocking())
    for t in (1, 2, 3):
        with contextlib.suppress(SinkError):
            wr.deposit("a", [(t, "u", t)])
    assert len(calls) == 1 and len(q.changes()) == 0 and q.metrics()["sink_timeouts"] == 1
    release.set()
    wait_until(lambda: wr._engine.plans.query("q").late_call.has_ended)
    wr.deposit("a", [(4, "u", 4)])
    assert len(q.changes()) == 3 and len(calls) >= 2
