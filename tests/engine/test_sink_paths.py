"""The paths of sinks: only a query's own output, and never a place where it would do harm."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.conftest import STREAM
from engine.helpers import answers, put
from engine.test_delivery import EXPECTED, QUERY, feed_all, files, lines
from windrow.errors import BindError, SinkError, SourceError, WindrowError

pytestmark = pytest.mark.slow

KINDS = ("parquet", "jsonl")
READ: dict[str, Any] = {"parquet": files, "jsonl": lines}


def create(
    wr: Any, path: Path | str, kind: str = "parquet", name: str = "q", more: str = "", query: str = QUERY
) -> None:
    wr.sql(f"CREATE QUERY {name} AS {query} INTO {kind} OPTIONS (path '{path}'{more})")


def begin(open_state: Any, name: str) -> Any:
    wr = open_state(name)
    wr.sql(STREAM)
    return wr


def write_once(open_state: Any, path: Path, kind: str, name: str = "first") -> Any:
    """A closed state directory whose query `q` has written all its answers to the path."""
    wr = begin(open_state, name)
    create(wr, path, kind)
    feed_all(wr)
    wr.close()
    assert READ[kind](path)[:4] == EXPECTED
    return wr


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


# -- output that is not ours -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_second_run_does_not_mix_with_the_first(open_state: Any, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    first = write_once(open_state, out, kind)
    before = READ[kind](out)
    wr = begin(open_state, "second")
    with pytest.raises(SinkError, match="output that this query did not write") as caught:
        create(wr, out, kind)
    assert str(first.state_dir) in caught.value.message and str(first.state_dir) in str(caught.value.remedy)
    assert "another path" in str(caught.value.remedy) and "overwrite 'true'" in str(caught.value.remedy)
    assert not wr.queries and READ[kind](out) == before
    create(wr, tmp_path / "other", kind)
    shutil.rmtree(first.state_dir)
    with pytest.raises(SinkError, match="which is gone"):
        create(wr, out, kind, "r")


@pytest.mark.parametrize("kind", KINDS)
def test_overwrite_replaces_the_output_once(open_state: Any, tmp_path: Path, kind: str) -> None:
    """The statement is in the catalog; opening it again deletes nothing."""
    out = tmp_path / "out"
    write_once(open_state, out, kind)
    wr = begin(open_state, "second")
    create(wr, out, kind, more=", overwrite 'true'")
    put(wr, (1, "a", 1), (11, "a", 2))
    assert READ[kind](out) == EXPECTED[:1]
    wr.close()
    again = open_state("second")
    again.sql(f"CREATE QUERY IF NOT EXISTS q AS {QUERY} INTO {kind} OPTIONS (path '{out}', overwrite 'true')")
    feed_all(again, first=2)
    assert READ[kind](out) == answers(again, "q")
    assert READ[kind](out)[:4] == EXPECTED


def test_own_output_after_reopening_and_moving(open_state: Any, tmp_path: Path) -> None:
    kind = "parquet"
    out = tmp_path / "out"
    wr = begin(open_state, "first")
    create(wr, out, kind)
    put(wr, (1, "a", 1), (11, "a", 2))
    wr.close()
    wr.state_dir.rename(tmp_path / "moved")
    again = open_state("moved")
    put(again, (21, "a", 4))
    again.close()
    last = open_state("moved")
    feed_all(last, first=3)
    assert READ[kind](out)[:4] == EXPECTED


def test_copied_state_does_not_write_to_the_same_output(open_state: Any, tmp_path: Path) -> None:
    kind = "jsonl"
    out = tmp_path / "out"
    wr = begin(open_state, "first")
    create(wr, out, kind)
    put(wr, (1, "a", 1), (11, "a", 2))
    wr.close()
    shutil.copytree(wr.state_dir, tmp_path / "copy")
    copy = open_state("copy")
    with pytest.raises(SinkError, match="is a copy of it"):
        put(copy, (21, "a", 4))
    copy.close()
    again = open_state("first")
    feed_all(again, first=2)
    assert READ[kind](out)[:4] == EXPECTED


def test_state_that_lost_its_output_neither_writes_nor_sweeps(open_state: Any, tmp_path: Path) -> None:
    kind = "jsonl"
    out = tmp_path / "out"
    wr = begin(open_state, "first")
    create(wr, out, kind)
    put(wr, (1, "a", 1), (11, "a", 2))
    wr.close()
    second = begin(open_state, "second")
    create(second, out, kind, more=", overwrite 'true'")
    put(second, (1, "a", 1), (11, "a", 2), (21, "a", 4))
    second.close()
    before = READ[kind](out)
    again = open_state("first")
    with pytest.raises(SinkError, match="output that this query did not write"):
        put(again, (21, "a", 4))
    assert READ[kind](out) == before == EXPECTED[:2]


def test_two_running_states(open_state: Any, tmp_path: Path) -> None:
    """Both are created before either writes; the first to write has the path."""
    kind = "parquet"
    out = tmp_path / "out"
    one, two = begin(open_state, "one"), begin(open_state, "two")
    create(one, out, kind)
    create(two, out, kind)
    put(one, (1, "a", 1), (11, "a", 2))
    with pytest.raises(SinkError, match="did not write"):
        put(two, (1, "a", 1), (11, "a", 2))
    three = begin(open_state, "three")
    with pytest.raises(SinkError, match=f"in process {os.getpid()}"):
        create(three, out, kind, more=", overwrite 'true'")
    feed_all(one, first=2)
    assert READ[kind](out)[:4] == EXPECTED


def test_query_created_anew_goes_on_with_its_output(open_state: Any, tmp_path: Path) -> None:
    """Not with other columns, and not after its stream was created anew, which numbers its answers anew."""
    kind = "parquet"
    out = tmp_path / "out"
    wr = begin(open_state, "first")
    create(wr, out, kind)
    put(wr, (1, "a", 1), (11, "a", 2))
    wr.sql("DROP QUERY q")
    with pytest.raises(SinkError, match="an earlier query 'q' of this state directory"):
        create(wr, out, kind, query="SELECT COUNT(*) AS n FROM s [RANGE 20 SLIDE 10]")
    create(wr, out, kind)
    feed_all(wr, first=2)
    ends = [row[1] for row in READ[kind](out)]
    assert ends == sorted(set(ends)) and {10, 30, 40} <= set(ends), "before and after"
    wr.sql("DROP QUERY q")
    wr.sql("DROP STREAM s")
    wr.sql(STREAM)
    with pytest.raises(SinkError, match="an earlier query 'q' of this state directory"):
        create(wr, out, kind)


def test_relative_path_and_another_working_directory(
    open_state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    wr = begin(open_state, "first")
    create(wr, "out.jsonl", "jsonl")
    monkeypatch.chdir(there)
    put(wr, (1, "a", 1), (11, "a", 2))
    assert lines(here / "out.jsonl") == EXPECTED[:1], "a chdir does not move the sink"
    wr.close()
    lost = open_state("first")
    with pytest.raises(SinkError, match="nothing is there now") as caught:
        put(lost, (21, "a", 4))
    assert "working directory" in str(caught.value.remedy) and not list(there.iterdir())
    lost.close()
    monkeypatch.chdir(here)
    again = open_state("first")
    feed_all(again, first=3)
    assert lines(here / "out.jsonl")[:4] == EXPECTED


def test_output_restored_without_its_mark(open_state: Any, tmp_path: Path) -> None:
    wr = begin(open_state, "first")
    create(wr, tmp_path / "out")
    put(wr, (1, "a", 1), (11, "a", 2))
    wr.close()
    for mark in (tmp_path / "out").glob(".*"):
        mark.unlink()
    again = open_state("first")
    feed_all(again, first=2)
    assert files(tmp_path / "out")[:4] == EXPECTED


def test_two_queries_share_a_directory(open_state: Any, tmp_path: Path) -> None:
    wr = begin(open_state, "first")
    create(wr, tmp_path / "out", name="a")
    put(wr, (1, "a", 1), (11, "a", 2))
    create(wr, tmp_path / "out", name="b")
    put(wr, (21, "a", 4))
    assert {p.name[0] for p in (tmp_path / "out").glob("*.parquet")} == {"a", "b"}
    wr.sql("DROP QUERY a")
    with pytest.raises(SinkError, match="did not write"):
        create(wr, tmp_path / "out", name="c")
    create(wr, tmp_path / "out", name="c", more=", overwrite 'true'")
    assert {p.name[0] for p in (tmp_path / "out").glob("*.parquet")} == {"b"}, "a living query keeps its files"


def test_paths_in_each_other(open_state: Any, tmp_path: Path) -> None:
    wr = begin(open_state, "first")
    create(wr, tmp_path / "x" / "out")
    for other, kind in (("out/sub", "parquet"), ("out/file.jsonl", "jsonl"), (".", "parquet")):
        with pytest.raises(BindError, match="lie in each other"):
            create(wr, tmp_path / "x" / other, kind, "r")


# -- overwrite -------------------------------------------------------------------------------------------


def test_overwrite_deletes_nothing_that_is_no_output(open_state: Any, tmp_path: Path) -> None:
    wr = begin(open_state, "state")
    mine = tmp_path / "mine"
    mine.mkdir()
    pq.write_table(pa.table({"x": [1]}), mine / "q-000000000001.parquet")
    (mine / "notes.txt").write_text("precious")
    (tmp_path / "data.jsonl").write_text('{"x": 1}\n')
    (tmp_path / "target").write_text('{"window_start": 1, "window_end": 2, "is_revision": false}\n')
    (tmp_path / "link").symlink_to(tmp_path / "target")
    before = snapshot(tmp_path / "mine")
    for path, kind in ((mine, "parquet"), (tmp_path / "data.jsonl", "jsonl"), (tmp_path / "link", "jsonl")):
        with pytest.raises(SinkError, match="overwrite deletes only the output"):
            create(wr, path, kind, more=", overwrite 'true'")
    (mine / "notes.txt").unlink()
    with pytest.raises(SinkError, match=r"q-000000000001\.parquet is not recognisable"):
        create(wr, mine, more=", overwrite 'true'")
    assert (mine / "q-000000000001.parquet").read_bytes() == before["q-000000000001.parquet"]
    assert (tmp_path / "target").exists() and (tmp_path / "data.jsonl").exists()


def test_overwrite_stays_within_the_path(open_state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write_once(open_state, out, "parquet")
    wr = begin(open_state, "second")
    kept = snapshot(out)
    (out / "sub").mkdir()
    shutil.copy(next(out.glob("*.parquet")), out / "sub")
    with pytest.raises(SinkError, match="sub is not recognisable"):
        create(wr, out, more=", overwrite 'true'")
    shutil.rmtree(out / "sub")
    elsewhere = tmp_path / "elsewhere.parquet"
    elsewhere.write_bytes(next(out.glob("*.parquet")).read_bytes())
    (out / "q-000000000999.parquet").symlink_to(elsewhere)
    with pytest.raises(SinkError, match="q-000000000999"):
        create(wr, out, more=", overwrite 'true'")
    (out / "q-000000000999.parquet").unlink()
    monkeypatch.setenv("HOME", str(out))
    with pytest.raises(SinkError, match="overwrite deletes only"):
        create(wr, out, more=", overwrite 'true'")
    with pytest.raises(SinkError):
        create(wr, "/", more=", overwrite 'true'")
    assert snapshot(out) == kept and elsewhere.exists()


def test_bad_query_deletes_nothing(open_state: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_once(open_state, out, "jsonl")
    wr = begin(open_state, "second")
    with pytest.raises(WindrowError):
        create(wr, out, "jsonl", more=", overwrite 'true'", query="SELECT SUM(nope) AS n FROM s [RANGE 20 SLIDE 10]")
    wr.sql(f"EXPLAIN CREATE QUERY q AS {QUERY} INTO jsonl OPTIONS (path '{out}', overwrite 'true')")
    assert lines(out)[:4] == EXPECTED


# -- places where a sink does harm -------------------------------------------------------------------------


def test_state_directories(open_state: Any, tmp_path: Path) -> None:
    wr = begin(open_state, "home/state")
    other = open_state("other")
    (tmp_path / "link").symlink_to(wr.state_dir / "streams")
    (wr.state_dir / "out").symlink_to(tmp_path / "outside")
    for path in (wr.state_dir, wr.state_dir / "a" / "b", tmp_path / "link" / "x", other.state_dir / "x"):
        for kind in KINDS:
            with pytest.raises(SinkError, match="in the state directory"):
                create(wr, path, kind)
    with pytest.raises(SinkError, match="in the state directory"):
        create(wr, wr.state_dir / "out", "jsonl")
    with pytest.raises(SinkError, match="holds the state directory"):
        create(wr, tmp_path / "home")
    assert not wr.queries


def test_special_files(open_state: Any, tmp_path: Path) -> None:
    wr = begin(open_state, "state")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing" / "x")
    listener = socket.socket(socket.AF_UNIX)
    cwd = os.getcwd()
    os.chdir(tmp_path)  # the names of sockets are short
    listener.bind("socket")
    os.chdir(cwd)
    cases = (
        (tmp_path / "fifo", "a FIFO"),
        ("/dev/null", "a device"),
        (tmp_path / "socket", "a socket"),
        (tmp_path / "one", "Too many levels of symbolic links"),
        (tmp_path / "one" / "deep", "Too many levels of symbolic links"),
        (tmp_path / "nowhere", "does not exist"),
    )
    for path, reason in cases:
        for kind in KINDS:
            with pytest.raises(SinkError, match=reason):
                create(wr, path, kind)
    for path, reason in (("s3://bucket/out", "local files"), ("a\0b", "null byte"), ("gs:/x", "local files")):
        for kind in KINDS:
            with pytest.raises(BindError, match=reason):
                create(wr, path, kind)
    listener.close()
    create(wr, f"file://{tmp_path}/out")
    feed_all(wr)
    assert files(tmp_path / "out")[:4] == EXPECTED


def test_fifo_in_the_place_of_the_file(open_state: Any, tmp_path: Path) -> None:
    """It is refused without waiting for a reader, and the answers come when it is gone."""
    wr = begin(open_state, "state")
    create(wr, tmp_path / "out", "jsonl")
    put(wr, (1, "a", 1), (11, "a", 2))
    (tmp_path / "out").rename(tmp_path / "away")
    os.mkfifo(tmp_path / "out")
    with pytest.raises(SinkError, match="FIFO"):
        put(wr, (21, "a", 4))
    (tmp_path / "away").replace(tmp_path / "out")
    feed_all(wr, first=3)
    assert lines(tmp_path / "out")[:4] == EXPECTED


# -- streams that read sinks -------------------------------------------------------------------------------

COLUMNS = "(t BIGINT, k STRING, x INT)"


def stream(wr: Any, name: str, path: Path | str, kind: str = "parquet") -> None:
    wr.sql(
        f"CREATE STREAM {name} {COLUMNS} FROM files OPTIONS (path '{path}', format '{kind}')"
        " TIMESTAMP BY t PUNCTUATE ORDERED"
    )


def test_query_that_would_feed_itself(open_state: Any, tmp_path: Path) -> None:
    wr = open_state()
    inputs = tmp_path / "in"
    inputs.mkdir()
    (tmp_path / "linked").symlink_to(inputs)
    given = ("in", "in/", "in/*.parquet", "in/{q,r}-[0-9]*", "i*", "linked")
    for i, path in enumerate((*(tmp_path / one for one in given), f"file:{inputs}")):
        stream(wr, f"s{i}", path)
        query = QUERY.replace("FROM s ", f"FROM s{i} ")
        with pytest.raises(BindError, match="would feed itself"):
            create(wr, inputs, query=query)
        create(wr, tmp_path / "out", name=f"q{i}", query=query)


def test_a_stream_may_read_the_output_of_another_query(open_state: Any, tmp_path: Path) -> None:
    wr = open_state()
    (tmp_path / "in").mkdir()
    (tmp_path / "middle").mkdir()
    (tmp_path / "free").mkdir()
    stream(wr, "s", tmp_path / "in")
    create(wr, tmp_path / "middle", query="SELECT k, SUM(x) AS x, MAX(t) AS t FROM s [RANGE 10 SLIDE 10] GROUP BY k")
    stream(wr, "second", tmp_path / "middle")
    again = QUERY.replace("FROM s", "FROM second")
    with pytest.raises(BindError, match=r"would feed itself: stream 's' .*, whose answers feed stream 'second'"):
        create(wr, tmp_path / "in", name="loop", query=again)
    create(wr, tmp_path / "out", "jsonl", "last", query=again)
    with pytest.raises(SourceError, match="grows"):
        stream(wr, "third", tmp_path / "out", "json")
    with pytest.raises(SourceError, match="in another format"):
        stream(wr, "third", tmp_path / "middle", "json")
    stream(wr, "third", tmp_path / "free", "json")
    with pytest.raises(BindError, match="grows"):
        create(wr, tmp_path / "free" / "x.jsonl", "jsonl", "lines", query=again)
    with pytest.raises(BindError, match="in another format"):
        create(wr, tmp_path / "free", name="rows", query=again)
