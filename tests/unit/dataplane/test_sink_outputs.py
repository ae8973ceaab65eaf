"""Whose output stands at a path, which paths a sink takes, and which paths a stream reads; without an engine."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from unit.dataplane.test_sinks import batch, claim, clause, files, lines

from windrow.catalog.lock import StateLock, holder_of
from windrow.cql.statements import SinkClause
from windrow.dataplane.sinks import check_sink, open_sink
from windrow.dataplane.sinks.outputs import remove_output
from windrow.dataplane.sinks.places import local_path
from windrow.engine.queries.sink_paths import _covers
from windrow.errors import SinkError

both = pytest.mark.parametrize(("kind", "read"), [("jsonl", lines), ("parquet", files)], ids=["jsonl", "parquet"])


def into(tmp_path: Path, kind: str, **options: str) -> SinkClause:
    return clause(kind, path=str(tmp_path / "out" / "out.jsonl" if kind == "jsonl" else tmp_path / "out"), **options)


def write(sink: Any, *values: int, seq: int = 0) -> None:
    sink.publish(sink.stage(batch(values), seq))


def state(tmp_path: Path, number: int) -> None:
    """A state directory with a number, as its catalog has it."""
    directory = tmp_path / f"state{number}"
    directory.mkdir()
    with sqlite3.connect(directory / "catalog.sqlite") as catalog:
        catalog.execute("CREATE TABLE counters (name TEXT, value INTEGER)")
        catalog.execute("INSERT INTO counters VALUES ('state', ?)", (number,))
    catalog.close()


@both
def test_only_the_owner_goes_on(tmp_path: Path, kind: str, read: Any) -> None:
    sink = into(tmp_path, kind)
    write(open_sink("q", sink, claim(tmp_path)), 1)
    check_sink("q", sink, claim(tmp_path))
    write(open_sink("q", sink, claim(tmp_path, begun=True)), 2, seq=1)
    for other in (claim(tmp_path, state=2), claim(tmp_path, query="r")):
        with pytest.raises(SinkError, match="did not write"):
            check_sink(other.owner.query, sink, other)
    with pytest.raises(SinkError, match="did not write"):
        write(open_sink("q", sink, claim(tmp_path, state=2)), 3)
    assert read(tmp_path / "out") == [1, 2]


@both
def test_overwrite(tmp_path: Path, kind: str, read: Any) -> None:
    sink = into(tmp_path, kind, overwrite="true")
    write(open_sink("q", sink, claim(tmp_path)), 1)
    open_sink("q", sink, claim(tmp_path)).stage(batch([2]), 1)
    old = check_sink("q", sink, claim(tmp_path, state=2))
    assert read(tmp_path / "out") == [1], "the check deletes nothing"
    remove_output(old)
    assert not list((tmp_path / "out").iterdir()), "no output, no stage, no mark"
    write(open_sink("q", sink, claim(tmp_path, state=2)), 3)
    with pytest.raises(SinkError, match="did not write"):
        open_sink("q", sink, claim(tmp_path, begun=True)).stage(batch([4]), 2)
    assert read(tmp_path / "out") == [3]


@both
def test_stages_of_another_are_not_swept(tmp_path: Path, kind: str, read: Any) -> None:
    sink = open_sink("q", into(tmp_path, kind), claim(tmp_path))
    entry = sink.stage(batch([1]), 0)
    open_sink("q", into(tmp_path, kind), claim(tmp_path, state=2)).sweep()
    sink.publish(entry)
    assert read(tmp_path / "out") == [1]


@both
def test_committed_stage_counts_as_output(tmp_path: Path, kind: str, read: Any) -> None:
    open_sink("q", into(tmp_path, kind), claim(tmp_path)).stage(batch([1]), 0)
    with pytest.raises(SinkError, match=r"\.staged"):
        check_sink("q", into(tmp_path, kind), claim(tmp_path, state=2))


@both
def test_mark_without_output_is_taken_over(tmp_path: Path, kind: str, read: Any) -> None:
    """A run that ended before its first answer holds nothing up."""
    first = open_sink("q", into(tmp_path, kind), claim(tmp_path))
    first.stage(batch([1]), 0)
    first.sweep()
    check_sink("q", into(tmp_path, kind), claim(tmp_path, state=2))
    write(open_sink("q", into(tmp_path, kind), claim(tmp_path, state=2)), 2)
    assert read(tmp_path / "out") == [2]


@both
def test_open_state_keeps_its_path(tmp_path: Path, kind: str, read: Any) -> None:
    open_sink("q", into(tmp_path, kind), claim(tmp_path)).stage(batch([1]), 0)
    with StateLock(tmp_path / "state1"):
        assert holder_of(tmp_path / "state1") == os.getpid()
        with pytest.raises(SinkError, match=f"in process {os.getpid()}"):
            check_sink("q", into(tmp_path, kind, overwrite="true"), claim(tmp_path, state=2))
    assert holder_of(tmp_path / "state1") is None
    check_sink("q", into(tmp_path, kind, overwrite="true"), claim(tmp_path, state=2))


@both
def test_moved_and_copied_state(tmp_path: Path, kind: str, read: Any) -> None:
    state(tmp_path, 1)
    write(open_sink("q", into(tmp_path, kind), claim(tmp_path)), 1)
    shutil.copytree(tmp_path / "state1", tmp_path / "state7")
    there = claim(tmp_path, begun=True)
    there = type(there)(type(there.owner)(**{**vars(there.owner), "directory": str(tmp_path / "state7")}), True)
    with pytest.raises(SinkError, match="is a copy of it"):
        write(open_sink("q", into(tmp_path, kind), there), 2, seq=1)
    shutil.rmtree(tmp_path / "state1")
    write(open_sink("q", into(tmp_path, kind), there), 2, seq=1)
    assert read(tmp_path / "out") == [1, 2]


@both
def test_output_that_is_gone(tmp_path: Path, kind: str, read: Any) -> None:
    sink = into(tmp_path, kind)
    with pytest.raises(SinkError, match="nothing is there now"):
        open_sink("q", sink, claim(tmp_path, begun=True)).stage(batch([1]), 3)
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "out.jsonl").touch() if kind == "jsonl" else None
    write(open_sink("q", sink, claim(tmp_path, begun=True)), 1, seq=3)
    assert read(tmp_path / "out") == [1]


@pytest.mark.parametrize("name", ["notes.txt", "part-0.parquet", "sub/deep.parquet", "q-000000000001.parquet"])
def test_files_of_others_in_the_directory(tmp_path: Path, name: str) -> None:
    stranger = tmp_path / "out" / name
    stranger.parent.mkdir(parents=True)
    stranger.write_text("mine")
    with pytest.raises(SinkError, match=r"did not write \(" + name.replace(".", r"\.")):
        check_sink("q", into(tmp_path, "parquet"), claim(tmp_path))
    with pytest.raises(SinkError, match="not recognisable"):
        check_sink("q", into(tmp_path, "parquet", overwrite="true"), claim(tmp_path))
    assert stranger.read_text() == "mine"


def test_hidden_files_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".DS_Store").write_text("")
    check_sink("q", into(tmp_path, "parquet"), claim(tmp_path))
    assert check_sink("q", into(tmp_path, "parquet", overwrite="true"), claim(tmp_path)) == []


def test_fifos_are_never_waited_for(tmp_path: Path) -> None:
    """Neither at the path nor in the place of the mark."""
    sink = open_sink("q", into(tmp_path, "jsonl"), claim(tmp_path))
    write(sink, 1)
    entry = sink.stage(batch([2]), 1)
    (tmp_path / "out" / "out.jsonl").unlink()
    os.mkfifo(tmp_path / "out" / "out.jsonl")
    with pytest.raises(SinkError, match="cannot write"):
        sink.publish(entry)
    (tmp_path / "out" / "out.jsonl").unlink()
    mark = tmp_path / "out" / ".out.jsonl.windrow"
    mark.unlink()
    os.mkfifo(mark)
    check_sink("q", into(tmp_path, "jsonl"), claim(tmp_path, state=2))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("FILE://localhost/a", "/a"),
        ("/a:/b", "/a:/b"),
        ("./s3:/b", str(Path.cwd() / "s3:/b")),
    ],
)
def test_local_paths(given: str, path: str) -> None:
    assert str(local_path(given)) == path


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("/in", True),
        ("/in/out/q-000000000000.parquet", True),
        ("/in/out/*.parquet", True),
        ("/in/*", True),
        ("/*/out/q-[0-9]*", True),
        ("/in/{x,out}", True),
        ("/in/{x,y}/*", False),
        ("/in/ou?/q*", True),
        ("/in/o[!u]t", False),
        ("/in/out/*.json", False),
        ("/inn", False),
        ("/in/[z-a]", True),
    ],
)
def test_inputs_that_read_a_sink(pattern: str, covered: bool) -> None:
    """A glob that is no glob is taken for all below its directory."""
    assert _covers(pattern, "/in/out/q-000000000000.parquet") is covered
