"""A staging sink holds every answer exactly once, wherever the process dies between stage and publish."""

from __future__ import annotations

import base64
import datetime as dt
import errno
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.cql.statements import SinkClause
from windrow.dataplane.sinks import AnswerBatch, Sink, StagingSink, check_given, check_sink, jsonl, open_sink, target_of
from windrow.dataplane.sinks.console import ROWS_SHOWN
from windrow.dataplane.sinks.files import reporting
from windrow.dataplane.sinks.jsonl import JsonLinesSink, json_lines
from windrow.dataplane.sinks.ownership import Claim, OutputOwner
from windrow.dataplane.sinks.parquet import ParquetSink
from windrow.errors import BindError, SinkError

UTC = dt.timezone.utc


def batch(values: Sequence[int], query: str = "q") -> AnswerBatch:
    """Answers that can be recognised by their values."""
    n = len(values)
    moments = pa.array([dt.datetime(2026, 1, 1, tzinfo=UTC)] * n, pa.timestamp("us", tz="UTC"))
    columns = {
        "window_start": moments,
        "window_end": moments,
        "is_revision": pa.array([False] * n),
        "key": pa.array(["a"] * n).dictionary_encode(),
        "v": pa.array(values, pa.int64()),
    }
    return AnswerBatch(query, pa.table(columns), f"{query}@{values}")


def lines(directory: Path) -> list[int]:
    path = directory / "out.jsonl"
    return [json.loads(line)["v"] for line in path.read_text().splitlines()] if path.exists() else []


def files(directory: Path) -> list[int]:
    return [v for path in sorted(directory.glob("*.parquet")) for v in pq.read_table(path).column("v").to_pylist()]


KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], list[int]]]] = {
    "jsonl": (lambda directory: JsonLinesSink("q", "q", str(directory / "out.jsonl")), lines),
    "parquet": (lambda directory: ParquetSink("q", "q", str(directory)), files),
}
both = pytest.mark.parametrize(("make", "read"), KINDS.values(), ids=KINDS.keys())


# -- crashes ------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process dies here."""


@contextmanager
def dying_at(operation: int | None) -> Iterator[None]:
    """Die before the n-th operation that makes something durable or visible (None: never)."""
    left = [math.inf if operation is None else operation]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if left[0] <= 0:
                raise Crash
            left[0] -= 1
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", counted(os.fsync))
        patch.setattr(os, "replace", counted(os.replace))
        patch.setattr(Path, "unlink", counted(Path.unlink))
        yield


class Engine:
    """Stage, commit, publish as delivery and recovery do, with their crashes."""

    def __init__(self, directory: Path, make: Callable[[Path], Any]):
        self.directory = directory
        self.make = make
        self.sink = make(directory)
        self.outbox: list[str] = []
        self.committed: list[int] = []

    def deliver(self, values: Sequence[int], seq: int, stage_dies: int | None, publish_dies: int | None) -> None:
        with dying_at(stage_dies):
            entry = self.sink.stage(batch(values), seq)
        if stage_dies is not None:
            raise Crash
        self.outbox.append(entry)
        self.committed += values
        with dying_at(publish_dies):
            self.sink.publish(entry)
        if publish_dies is not None:
            raise Crash
        self.outbox.clear()

    def tear(self, share: float) -> None:
        """An append that the crash cut short: the target ends anywhere after its former end."""
        path = self.directory / "out.jsonl"
        if self.outbox and path.exists():
            start = json.loads(self.outbox[-1])["start"]
            size = path.stat().st_size
            if size > start and any(self.directory.glob(".windrow-*.staged")):
                os.truncate(path, start + int((size - start) * share))

    def restart(self, dies: int | None) -> None:
        self.sink = self.make(self.directory)
        try:
            with dying_at(dies):
                for entry in self.outbox:
                    self.sink.publish(entry)
        except Crash:
            self.restart(None)
            return
        self.outbox.clear()
        self.sink.sweep()
        assert not list(self.directory.glob(".windrow-*"))


steps = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1000), min_size=1, max_size=3),
        st.none() | st.integers(0, 3),
        st.none() | st.integers(0, 4),
        st.none() | st.integers(0, 4),
        st.floats(0, 1),
    ),
    max_size=5,
)


@both
@settings(max_examples=40, deadline=None)
@given(steps)
def test_exactly_once_at_every_crash(make: Any, read: Any, steps: Sequence[Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        engine = Engine(Path(name), make)
        for seq, (values, stage_dies, publish_dies, restart_dies, share) in enumerate(steps):
            before = list(engine.committed)
            try:
                engine.deliver(values, seq, stage_dies, publish_dies)
            except Crash:
                engine.tear(share)
                engine.restart(restart_dies)
                if engine.committed == before:
                    engine.deliver(values, seq, None, None)
            assert read(engine.directory) == engine.committed


@both
def test_stage_is_invisible(tmp_path: Path, make: Any, read: Any) -> None:
    sink = make(tmp_path)
    first = sink.stage(batch([1, 2]), 0)
    assert read(tmp_path) == [] and not [p for p in tmp_path.iterdir() if not p.name.startswith(".")]
    sink.publish(first)
    assert read(tmp_path) == [1, 2]


@both
def test_publish_twice(tmp_path: Path, make: Any, read: Any) -> None:
    sink = make(tmp_path)
    first = sink.stage(batch([1]), 0)
    sink.publish(first)
    sink.publish(first)
    second = sink.stage(batch([2]), 1)
    sink.publish(second)
    sink.publish(first)
    assert read(tmp_path) == [1, 2]


@both
def test_sweep_removes_only_stages(tmp_path: Path, make: Any, read: Any) -> None:
    sink = make(tmp_path)
    sink.publish(sink.stage(batch([1]), 0))
    sink.stage(batch([2]), 1)
    others = [
        tmp_path / name for name in (".windrow-q-b-000000000001.staged", ".windrow-qq-000000000001.staged", "note")
    ]
    for other in others:
        other.write_text("another query's, or the user's")
    sink.sweep()
    assert read(tmp_path) == [1]
    assert all(other.exists() for other in others)
    assert not (tmp_path / ".windrow-q-000000000001.staged").exists()


@both
def test_sweep_before_any_write(tmp_path: Path, make: Any, read: Any) -> None:
    make(tmp_path / "not" / "there").sweep()


@both
def test_unwritable_path_at_stage(tmp_path: Path, make: Any, read: Any) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SinkError, match="query 'q' cannot write to") as raised:
        make(tmp_path / "file").stage(batch([1]), 0)
    assert raised.value.remedy and "move the file away" in raised.value.remedy
    assert raised.value.remedy.endswith("The answers are kept and written then.")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EISDIR, "move the directory away"),
        (errno.EEXIST, "move the file away"),
        (errno.ENOTDIR, "move the file away"),
        (errno.ENOSPC, "Free space"),
        (errno.EDQUOT, "Free space"),
        (errno.EACCES, "write access"),
        (errno.EROFS, "write access"),
        (errno.EIO, "Repair the path"),
    ],
)
def test_remedies(number: int, remedy: str) -> None:
    with pytest.raises(SinkError, match=f"/out: {os.strerror(number)}") as raised, reporting("q", Path("/out")):
        raise OSError(number, os.strerror(number))
    assert remedy in str(raised.value.remedy)


def test_jsonl_into_a_directory(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="Is a directory"):
        JsonLinesSink("q", "q", str(tmp_path)).stage(batch([1]), 0)
    assert not list(tmp_path.parent.glob(".windrow-*"))


def test_jsonl_stages_of_similar_names(tmp_path: Path) -> None:
    """`a b` and `a-b` of two streams may stage the same sequence number in one directory."""
    names = (("a b", "1"), ("a_b", "2"), ("a_b", "3"))
    clauses = [(query, SinkClause("jsonl", (("path", str(tmp_path / f"{n}.jsonl")),))) for query, n in names]
    sinks = [open_sink(query, clause) for query, clause in clauses]
    entries = [sink.stage(batch([n]), 7) for n, sink in enumerate(sinks)]
    sinks[2].sweep()
    for sink, entry in zip(sinks, entries, strict=True):
        sink.publish(entry)
    found = [p.read_text().count('"v"') if p.exists() else 0 for p in (tmp_path / f"{n}.jsonl" for _, n in names)]
    assert found == [1, 1, 0], "only the swept stage is gone"


@both
def test_parent_directories_are_created(tmp_path: Path, make: Any, read: Any) -> None:
    sink = make(tmp_path / "a" / "b")
    sink.publish(sink.stage(batch([7]), 0))
    assert read(tmp_path / "a" / "b") == [7]


def test_jsonl_appends_to_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text('{"v": 0}\n')
    sink = JsonLinesSink("q", "q", str(path))
    sink.publish(sink.stage(batch([1]), 0))
    assert lines(tmp_path) == [0, 1]


def test_jsonl_target_removed_before_publish(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink = JsonLinesSink("q", "q", str(path))
    sink.publish(sink.stage(batch([1, 2, 3]), 0))
    staged = sink.stage(batch([4]), 1)
    path.rename(tmp_path / "rotated")
    sink.publish(staged)
    assert lines(tmp_path) == [4]


# -- JSON ---------------------------------------------------------------------------------------------------


def as_json(**columns: Any) -> dict[str, Any]:
    (line,) = json_lines(AnswerBatch("q", pa.table(columns), "k"))
    return dict(json.loads(line, parse_float=Decimal))


def test_json_types() -> None:
    zoned = pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 5, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    found = as_json(
        window_end=zoned,
        naive=pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("us")),
        day=pa.array([dt.date(2026, 1, 1)]),
        big=pa.array([(1 << 63) - 1]),
        wide=pa.array([Decimal("-12345678901234567890123456789.123")], pa.decimal128(38, 3)),
        raw=pa.array([b"\xff\x00"]),
        ok=pa.array([True]),
        text=pa.array(['"é"\n']),
        key=pa.array(["a"]).dictionary_encode(),
        nothing=pa.nulls(1),
        absent=pa.array([None], pa.int32()),
        half=pa.array([0.5]),
    )
    assert found == {
        "window_end": "1969-12-31T23:59:59.000005Z",
        "naive": "2026-01-01T00:00:00.000000",
        "day": "2026-01-01",
        "big": (1 << 63) - 1,
        "wide": Decimal("-12345678901234567890123456789.123"),
        "raw": base64.b64encode(b"\xff\x00").decode(),
        "ok": True,
        "text": '"é"\n',
        "key": "a",
        "nothing": None,
        "absent": None,
        "half": Decimal("0.5"),
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_json_of_nan_and_infinity(value: float | None) -> None:
    assert as_json(d=pa.array([value], pa.float64()), f=pa.array([value], pa.float32())) == {"d": None, "f": None}


def test_json_times_are_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    abroad = duckdb.connect(":memory:")
    abroad.execute("SET GLOBAL TimeZone = 'America/New_York'")
    monkeypatch.setattr(jsonl, "_database", lambda: abroad)
    noon = pa.array([dt.datetime(2026, 1, 1, 12, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    assert as_json(t=noon) == {"t": "2026-01-01T12:00:00.000000Z"}


def test_odd_column_names() -> None:
    assert as_json(**{"count(*)": pa.array([1]), 'a"b': pa.array([2]), "select": pa.array([3])}) == {
        "count(*)": 1,
        'a"b': 2,
        "select": 3,
    }


# -- the registry ----------------------------------------------------------------------------------------------


def clause(kind: str, **options: str) -> SinkClause:
    return SinkClause(kind, tuple(options.items()))


def claim(tmp_path: Path, state: int = 1, query: str = "q", begun: bool = False) -> Claim:
    return Claim(OutputOwner(state, str(tmp_path / f"state{state}"), 1, query, ("v INT",)), begun)


def test_open_sink(tmp_path: Path) -> None:
    opened: list[Sink | StagingSink] = [
        open_sink("q", clause("console")),
        open_sink("q", clause("JSONL", path=str(tmp_path / "x"))),
        open_sink("q", clause("parquet", path=str(tmp_path))),
    ]
    assert [isinstance(sink, Sink) for sink in opened] == [True, False, False]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (clause("parket", path="x"), "Did you mean 'parquet'"),
        (clause("kafka", path="x"), "Sinks: console, jsonl, parquet"),
        (clause("parquet"), "needs a path"),
        (clause("jsonl", path=""), "needs a path"),
        (clause("jsonl", path="x", mode="append"), "'mode' is for continuous queries"),
        (clause("jsonl", path="x", colour="red"), "no option 'colour'"),
        (clause("jsonl", path="x", overwrite="yes"), "'true' or 'false'"),
        (clause("jsonl", path="a\0b"), "null byte"),
        (clause("parquet", path="s3://bucket/out"), "local files"),
        (clause("parquet", path="hdfs:/out"), "local files"),
        (clause("parquet", path="file://elsewhere/out"), "local files"),
        (clause("jsonl", path="\ud800"), "no file name has"),
        (clause("console", path="x"), "no option 'path'"),
    ],
)
def test_errors_of_into(bad: SinkClause, message: str) -> None:
    with pytest.raises(BindError) as raised:
        open_sink("q", bad)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("jsonl", "", "move the directory away"),
        ("jsonl", "file/out", "move the file away"),
        ("jsonl", "file/a/b/out", "move the file away"),
        ("jsonl", "x" * 300, "too long"),
        ("parquet", "file", "move the file away"),
        ("parquet", "file/out", "move the file away"),
    ],
)
def test_unwritable_path(tmp_path: Path, kind: str, path: str, message: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SinkError) as raised:
        check_sink("q", clause(kind, path=str(tmp_path / path)), claim(tmp_path))
    assert str(tmp_path / path) in raised.value.message and message in str(raised.value)
    assert "answers are kept" not in str(raised.value), "there are none yet"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_path_without_write_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)  # root may write anywhere
    with pytest.raises(SinkError, match="Permission denied") as raised:
        check_sink("q", clause(kind, path=str(tmp_path / "new" / "out")), claim(tmp_path))
    assert raised.value.remedy and "write access" in raised.value.remedy


def test_writable_paths(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text("")
    (tmp_path / "old").mkdir()
    for kind, path in (("jsonl", "old.jsonl"), ("jsonl", "a/b/new"), ("parquet", "old"), ("parquet", "a/b/new")):
        check_sink("q", clause(kind, path=str(tmp_path / path)), claim(tmp_path))
    check_sink("q", clause("console"), claim(tmp_path))
    assert not (tmp_path / "a").exists()


class Writes:
    def write(self, batch: AnswerBatch) -> None: ...


class Stages:
    def stage(self, batch: AnswerBatch, seq: int) -> str: ...
    def publish(self, entry: str) -> None: ...
    def sweep(self) -> None: ...


class Half:
    write = "no method"

    def stage(self, batch: AnswerBatch, seq: int) -> str: ...


def test_sink_objects() -> None:
    check_given(Writes())
    check_given(Stages())
    for wrong in (5, "out.jsonl", print, Half(), Writes):
        with pytest.raises(BindError, match=r"write\(batch\)") as raised:
            check_given(wrong)
        assert raised.value.remedy


def test_target_of(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    assert target_of("a", clause("jsonl", path=path)) == target_of("b", clause("jsonl", path=f"{tmp_path}/./out"))
    assert target_of("a", clause("parquet", path=path)) != target_of("b", clause("parquet", path=path))
    assert target_of("a b", clause("parquet", path=path)) == target_of("a_b", clause("parquet", path=path))
    assert target_of("a", clause("console")) is None


def test_file_names(tmp_path: Path) -> None:
    sink = open_sink("größte/../x", clause("parquet", path=str(tmp_path)))
    assert not isinstance(sink, Sink)
    sink.publish(sink.stage(batch([1]), 3))
    assert [p.name for p in tmp_path.iterdir()] == ["gr__te____x-000000000003.parquet"]


# -- the console -------------------------------------------------------------------------------------------------


def test_console(capsys: pytest.CaptureFixture[str]) -> None:
    sink = open_sink("q", clause("console"))
    assert isinstance(sink, Sink)
    sink.write(batch([1, 2]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "-- q" and len(lines) == 3
    assert lines[1].endswith("key=a  v=1") and lines[1].startswith("[2026-01-01 00:00:00")


def test_console_shows_the_last_rows(capsys: pytest.CaptureFixture[str]) -> None:
    sink = open_sink("q", clause("console"))
    assert isinstance(sink, Sink)
    sink.write(batch(range(ROWS_SHOWN + 5)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"-- q (last {ROWS_SHOWN} of {ROWS_SHOWN + 5} rows)"
    assert len(lines) == ROWS_SHOWN + 1 and lines[-1].endswith(f"v={ROWS_SHOWN + 4}")
