"""Files that cannot be read stop the stream, or are skipped as dead letters. Nothing is skipped in silence."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.helpers import answers, wait_until
from windrow.errors import SourceError

pytestmark = pytest.mark.slow

COUNT = "SELECT COUNT(*) AS n FROM s [RANGE 100000 SLIDE 100000]"


def lines(first: int, n: int) -> bytes:
    return b"".join(b'{"t":%d,"k":"%d"}\n' % (t, t * 7919) for t in range(first, first + n))


def truncated(data: bytes) -> bytes:
    packed = gzip.compress(data)
    return packed[: len(packed) * 2 // 3]


def create(wr: Any, folder: Path, kind: str = "json", options: str = "", late: str = "LATE REVISE") -> None:
    wr.sql(
        f"CREATE STREAM s (t BIGINT, k STRING) FROM files OPTIONS (path '{folder}', format '{kind}'{options})"
        f" TIMESTAMP BY t PUNCTUATE ORDERED {late}"
    )
    wr.sql(f"CREATE QUERY q AS {COUNT}")


def total(wr: Any) -> int:
    return sum(row[2] for row in answers(wr, "q"))


def letters(wr: Any) -> list[tuple[Any, ...]]:
    found = wr.sql("SELECT reason, record, file, line FROM dead_letters('s') ORDER BY file").rows()
    return [(row["reason"], row["record"], Path(row["file"]).name, row["line"]) for row in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    return made


def write(path: Path, data: bytes, at: int) -> None:
    path.write_bytes(data)
    os.utime(path, (at, at))


@pytest.mark.parametrize("mode", ["driver", "spark"])
@pytest.mark.parametrize("remedy", ["fixed", "removed"])
def test_stop_then_fix_or_remove(open_state: Any, folder: Path, mode: str, remedy: str) -> None:
    bad = folder / "b c.json.gz"
    write(folder / "a.json", lines(0, 10), 1)
    write(bad, truncated(lines(10, 20_000)), 2)
    write(folder / "d.json", lines(50_000, 5), 3)
    wr = open_state(preaggregate=mode)
    create(wr, folder)
    for _ in range(2):
        with pytest.raises(SourceError) as stopped:
            wr.run_available()
        assert stopped.value.code == "WR500"
        assert f"cannot read {bad}: Unexpected end of input stream (EOFException)" in stopped.value.message
    assert wr.metrics()["s"]["admitted"] == 0
    wr.close()
    if remedy == "fixed":
        write(bad, gzip.compress(lines(10, 20_000)), 9)
    else:
        bad.unlink()
    wr = open_state(preaggregate=mode)
    wr.run_available()
    write(folder / "e.json", lines(60_000, 2), 10)
    wr.run_available(close=True)
    expected = 20_017 if remedy == "fixed" else 17
    assert wr.metrics()["s"]["admitted"] == total(wr) == expected
    if remedy == "fixed":
        assert letters(wr) == []
    else:
        ((reason, record, file, line),) = letters(wr)
        assert (reason, file, line) == ("unreadable file", "b c.json.gz", None)
        assert record == "it was removed, after: Unexpected end of input stream (EOFException)"
    assert wr.metrics()["s"]["dead_letters"] == len(letters(wr))


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_skip_admits_nothing_of_a_truncated_file(open_state: Any, folder: Path, mode: str) -> None:
    write(folder / "a.json", lines(0, 10), 1)
    write(folder / "b.json.gz", truncated(lines(10, 20_000)), 2)
    write(folder / "c.json.gz", b"no gzip", 3)
    write(folder / "d.json", lines(30_000, 3), 4)
    wr = open_state(preaggregate=mode)
    create(wr, folder, options=", on_bad_file 'SKIP'")
    wr.run_available()
    wr.close()
    wr = open_state(preaggregate=mode)
    write(folder / "e.json", lines(40_000, 2), 5)
    wr.run_available(close=True)
    assert wr.metrics()["s"]["admitted"] == total(wr) == 15
    assert letters(wr) == [
        ("unreadable file", "Unexpected end of input stream (EOFException)", "b.json.gz", None),
        ("unreadable file", "Unexpected end of input stream (EOFException)", "c.json.gz", None),
    ]
    assert wr.metrics()["s"]["dead_letter_reasons"] == {"unreadable file": 2}


@pytest.mark.parametrize("home", ["driver", "spark"])
def test_junk_parquet(open_state: Any, folder: Path, home: str) -> None:
    pq.write_table(pa.table({"t": [1, 2], "k": ["a", "b"]}), folder / "a.parquet")
    whole = (folder / "a.parquet").read_bytes()
    (folder / "b.parquet").write_bytes(b"junk" * 100)
    (folder / "c.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "d.parquet").write_bytes(b"")
    wr = open_state(preaggregate="auto", synopsis_home=home)
    create(wr, folder, "parquet", ", on_bad_file 'skip'", late="")
    wr.run_available(close=True)
    assert total(wr) == 2
    assert [(reason, file) for reason, _, file, _ in letters(wr)] == [
        ("unreadable file", "b.parquet"),
        ("unreadable file", "c.parquet"),
    ]
    assert "is not a Parquet file" in letters(wr)[0][1]


def test_names_like_patterns(open_state: Any, folder: Path) -> None:
    """Spark would read a.json twice."""
    write(folder / "a.json", lines(0, 10), 1)
    write(folder / "b*.json", lines(10, 3), 2)
    write(folder / "c[1]\\{x}.json.gz", truncated(lines(20, 20_000)), 3)
    wr = open_state()
    create(wr, folder, options=", on_bad_file 'skip'")
    wr.run_available(close=True)
    assert wr.metrics()["s"]["admitted"] == total(wr) == 13
    assert [one[2] for one in letters(wr)] == ["c[1]\\{x}.json.gz"]


def test_all_files_are_bad(open_state: Any, folder: Path) -> None:
    write(folder / "a.json.gz", b"no gzip", 1)
    wr = open_state()
    create(wr, folder, options=", on_bad_file 'skip'")
    wr.run_available()
    write(folder / "b.json", lines(0, 3), 2)
    wr.run_available(close=True)
    assert (total(wr), len(letters(wr))) == (3, 1)


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_files_that_vanish(open_state: Any, folder: Path, policy: str) -> None:
    """The micro-batch is planned, and fails for a bad file; before it is planned again, a good file has vanished."""
    write(folder / "a.json", lines(0, 10), 1)
    write(folder / "b.json", lines(10, 10), 2)
    write(folder / "c.json.gz", b"no gzip", 3)
    wr = open_state()
    create(wr, folder)
    with pytest.raises(SourceError, match=r"c\.json\.gz"):
        wr.run_available()
    if policy == "skip":  # the option cannot be changed; this is how a stream that skips would find the micro-batch
        _change(wr, folder)
        wr.close()
        wr = open_state()
    (folder / "a.json").unlink()
    if policy == "stop":
        with pytest.raises(SourceError, match=r"cannot read .*a\.json: it vanished before it was read") as stopped:
            wr.run_available()
        assert "empty file" in str(stopped.value)
        (folder / "a.json").touch()
        (folder / "c.json.gz").unlink()
    wr.run_available(close=True)
    assert total(wr) == 10
    vanished = [] if policy == "stop" else [("unreadable file", "it vanished before it was read", "a.json", None)]
    assert [one for one in letters(wr) if one[2] == "a.json"] == vanished
    assert len(letters(wr)) == 1 + len(vanished)


def _change(wr: Any, folder: Path) -> None:
    with wr._engine.catalog.transaction() as tx:
        tx.execute("UPDATE streams SET statement = replace(statement, '''json''', '''json'', on_bad_file ''skip''')")
    assert folder.exists()


def test_a_bad_file_suspends_no_query(open_state: Any, folder: Path) -> None:
    (folder / "a.parquet").write_bytes(b"junk" * 100)
    wr = open_state()
    create(wr, folder, "parquet", late="")
    with pytest.raises(SourceError, match=r"a\.parquet"):
        wr.run_available()
    assert wr.sql("SHOW QUERIES").rows()[0]["state"] != "suspended"


def test_in_the_background(open_state: Any, folder: Path) -> None:
    write(folder / "a.json.gz", truncated(lines(0, 10_000)), 1)
    wr = open_state()
    create(wr, folder)
    wr.start()
    wait_until(lambda: "a.json.gz" in str(wr.metrics()["s"]["last_error"]))
    write(folder / "a.json.gz", gzip.compress(lines(0, 10_000)), 2)
    wait_until(lambda: wr.metrics()["s"]["admitted"] == 10_000)
    wr.stop()


def test_dataframe_names_the_file(open_state: Any, spark: Any, folder: Path) -> None:
    (folder / "a.parquet").write_bytes(b"junk" * 100)
    wr = open_state()
    wr.stream("s", spark.readStream.schema("t BIGINT, k STRING").parquet(str(folder)), timestamp="t")
    wr.query("q", COUNT)
    with pytest.raises(SourceError, match=r"a\.parquet.*is not a Parquet file"):
        wr.run_available()


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("on_bad_file 'ignore'", "the option on_bad_file is 'ignore'"),
        ("ignoreCorruptFiles 'true'", "would skip files in silence"),
        ("ignoremissingfiles 'true'", "would skip files in silence"),
    ],
)
def test_options_are_checked(open_state: Any, folder: Path, option: str, says: str) -> None:
    wr = open_state()
    with pytest.raises(SourceError, match=says) as refused:
        create(wr, folder, options=f", {option}")
    assert "skip" in (refused.value.remedy or "")


@pytest.mark.parametrize(("kind", "data"), [("json", lines(1, 1)), ("csv", b"k,t\na,1\n")])
def test_pipes_are_not_opened(open_state: Any, folder: Path, kind: str, data: bytes) -> None:
    write(folder / f"a.{kind}", data, 1)
    os.mkfifo(folder / f"b.{kind}")
    wr = open_state()
    create(wr, folder, kind, ", header 'true'" if kind == "csv" else "")
    wr.run_available(close=True)
    assert total(wr) == 1


def test_a_file_of_1970_beside_new_ones(open_state: Any, folder: Path) -> None:
    (folder / "a.json").write_bytes(lines(1, 1))
    wr = open_state()
    create(wr, folder)
    wr.run_available()
    write(folder / "b.json", lines(2, 1), 0)
    wr.run_available(close=True)
    assert total(wr) == 2


@pytest.mark.parametrize("verb", ["CREATE STREAM", "CREATE STREAM IF NOT EXISTS"])
def test_a_stream_that_stopped_is_told_to_skip(open_state: Any, folder: Path, verb: str) -> None:
    write(folder / "a.json", lines(0, 2), 1)
    write(folder / "b.json.gz", truncated(lines(10, 1000)), 2)
    wr = open_state()
    create(wr, folder)
    with pytest.raises(SourceError, match="cannot read") as stopped:
        wr.run_available()
    assert "repeat CREATE STREAM with OPTIONS (…, on_bad_file 'skip')" in str(stopped.value.remedy)
    text = "\n".join(row["statement"] for row in wr.sql("SHOW CREATE STREAM s").rows())
    wr.sql(text.replace("CREATE STREAM", verb).replace("'json'", "'json', on_bad_file 'skip'"))
    wr.run_available(close=True)
    assert total(wr) == 2
    assert wr.metrics()["s"]["dead_letter_reasons"] == {"unreadable file": 1}
