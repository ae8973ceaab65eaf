"""Bytes that are not UTF-8 make a dead letter with its place; answers, sinks and rows never hold them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.helpers import answers

pytestmark = pytest.mark.slow

MODES = pytest.mark.parametrize("mode", ["driver", "spark", "auto"])
COUNT = "SELECT k, COUNT(*) AS n, MIN(k) AS least FROM s [RANGE 10 SLIDE 10] GROUP BY k"


def letters(wr: Any) -> list[tuple[Any, ...]]:
    found = wr.sql("SELECT reason, record, file, line, rows FROM dead_letters('s') ORDER BY file, line").rows()
    return [(row["reason"], row["record"], Path(row["file"]).name, row["line"], row["rows"]) for row in found]


def create(wr: Any, folder: Path, kind: str, options: str = "") -> None:
    wr.sql(
        f"CREATE STREAM s (t BIGINT, k STRING, x INT) FROM files OPTIONS (path '{folder}', format '{kind}'{options})"
        " TIMESTAMP BY t PUNCTUATE ORDERED"
    )
    wr.sql(f"CREATE QUERY q AS {COUNT} INTO jsonl OPTIONS (path '{folder.parent}/out.jsonl')")


def line(t: int, k: bytes) -> bytes:
    return b'{"t":%d,"k":"%s","x":1}\n' % (t, k)


def counted(wr: Any) -> dict[str, int]:
    """The answers by group; also through `rows()`, and the JSON lines sink if there is one."""
    wr.queries["q"].answers().rows()
    return {row[2]: row[3] for row in answers(wr, "q")}


def texts(values: list[bytes | None]) -> pa.Array:
    """A column of texts that Arrow does not check."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


@MODES
def test_json(open_state: Any, tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    bad = line(2, b"\xff\x00")
    (folder / "a b.json").write_bytes(b"\n" + line(1, b"a") + bad + line(3, "é".encode()) + b"junk\n" + bad)
    (folder / "b.json.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + line(4, b"a") + line(4, b"b\xc3")))
    wr = open_state(preaggregate=mode)
    create(wr, folder, "json")
    wr.run_available(close=True)
    assert counted(wr) == {"a": 2, "é": 1}
    shown = r'{"t":2,"k":"\xff\x00","x":1}'
    twice = [(3, 2)] if mode == "spark" else [(3, 1), (6, 1)]
    found = letters(wr)
    assert [row for row in found if row[3] != 5 and row[2] == "a b.json"] == [
        ("malformed record", shown, "a b.json", n, rows) for n, rows in twice
    ]
    assert ("malformed record", "junk", "a b.json", 5, 1) in found
    assert ("malformed record", r'{"t":4,"k":"b\xc3","x":1}', "b.json.gz", 2, 1) in found
    assert wr.metrics()["s"]["dead_letters"] == 4
    (folder / "c.json").write_bytes(line(30, b"z"))
    lines = [json.loads(text) for text in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(row["k"] for row in lines) == ["a", "é"]


def test_the_stream_goes_on_after_bad_bytes(open_state: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_bytes(line(1, b"a") + line(2, b"\xfe"))
    wr = open_state()
    create(wr, folder, "json")
    wr.run_available()
    wr.close()
    (folder / "b.json").write_bytes(line(3, b"a") + line(11, b"c"))
    wr = open_state()
    wr.run_available()
    assert counted(wr) == {"a": 2}
    assert wr.metrics()["s"]["dead_letters"] == 1


@MODES
def test_csv(open_state: Any, tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_bytes(b"1,a,1\n2,\xff,1\n\n3,b,\xff\n4,\xc3\xa9,1\n5,x\xf0\x9f,1\n")
    wr = open_state(preaggregate=mode)
    create(wr, folder, "csv")
    wr.run_available(close=True)
    assert counted(wr) == {"a": 1, "é": 1}
    assert letters(wr) == [
        ("malformed record", r"2,\xff,1", "a.csv", 2, 1),
        ("malformed record", r"3,b,\xff", "a.csv", 4, 1),
        ("malformed record", r"5,x\xf0\x9f,1", "a.csv", 6, 1),
    ]


@MODES
def test_parquet(open_state: Any, tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    keys = texts([b"a", b"\xff", None, b"a\xed\xa0\x80"])
    rows = {"t": pa.array([1, 2, 3, 4]), "k": keys, "x": pa.array([1, 2, 3, 4], pa.int32())}
    pq.write_table(pa.table(rows), folder / "a.parquet")
    wr = open_state(preaggregate=mode)
    create(wr, folder, "parquet")
    wr.query("total", "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    wr.run_available(close=True)
    assert counted(wr) == {"a": 1, None: 1}
    assert answers(wr, "total") == [(0, 10, 2)]
    found = letters(wr)
    assert [(row[0], row[2], row[3]) for row in found] == [
        ("malformed record", "a.parquet", 2),
        ("malformed record", "a.parquet", 4),
    ]
    assert json.loads(found[0][1]) == {"t": 2, "k": "\ufffd", "x": 2}


def test_utf_16(open_state: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_bytes("1,a,1\n2,b,2\n".encode("utf-16"))
    wr = open_state()
    create(wr, folder, "csv")
    wr.run_available(close=True)
    assert counted(wr) == {}
    assert [row[3] for row in letters(wr)] == [1, 2]
    assert "\0" not in "".join(row[1] for row in letters(wr))


def test_nul_and_surrogates_in_json_strings(open_state: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_bytes(line(1, b"a\\u0000b") + line(2, b"\\ud83d\\ude00") + line(3, b"\\ud800"))
    wr = open_state()
    create(wr, folder, "json")
    wr.run_available(close=True)
    assert counted(wr) == {"a\0b": 1, "😀": 1, "?": 1}
    lines = [json.loads(text) for text in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {row["k"] for row in lines} == {"a\0b", "😀", "?"}


@MODES
def test_dataframe(open_state: Any, spark: Any, tmp_path: Path, mode: str) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": [1, 2, 3], "b": [b"a", b"\xff", b"c"]}), tmp_path / "in" / "a.parquet")
    frame = spark.readStream.schema("t BIGINT, b BINARY").parquet(str(tmp_path / "in"))
    wr = open_state(preaggregate=mode)
    wr.stream("s", frame.selectExpr("t", "CAST(b AS STRING) AS k"), timestamp="t")
    wr.query("q", COUNT)
    wr.run_available(close=True)
    assert counted(wr) == {"a": 1, "c": 1}
    (letter,) = wr.sql("SELECT reason, record, file FROM dead_letters('s')").rows()
    assert letter == {"reason": "malformed record", "record": '{"t":2,"k":"\ufffd"}', "file": None}


@MODES
def test_texts_made_of_bytes(open_state: Any, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql("CREATE STREAM s (t BIGINT, b BINARY, h STRING) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    select = "SELECT CAST(b AS STRING) AS k, COUNT(*) AS n, MAX(STRING(UNHEX(h))) AS most FROM s [RANGE 10 SLIDE 10]"
    wr.query("q", f"{select} GROUP BY CAST(b AS STRING)")
    wr.feed("s", [(1, b"a", "61"), (2, b"\xff", "FE"), (3, b"\xff", "62")])
    wr.run_available(close=True)
    assert counted(wr) == {"a": 1, "\ufffd": 2}
    assert {row[4] for row in answers(wr, "q")} == {"a", "\ufffd"}


@pytest.mark.parametrize(
    "rows",
    [
        [(1, "a", 1), (2, "\ud800", 1)],
        [{"t": 1, "k": "a", "x": 1}, {"t": 2, "k": b"\xff", "x": 1}],
        pa.table({"t": [1, 2], "k": texts([b"a", b"\xff"]), "x": pa.array([1, 1], pa.int32())}),
        pa.table({"t": [1, 2], "k": texts([b"a", b"\xff"]).dictionary_encode(), "x": pa.array([1, 1], pa.int32())}),
        pa.table({"t": [1, 2], "k": pa.array([b"a", b"\xff"]), "x": pa.array([1, 1], pa.int32())}),
    ],
    ids=["surrogate", "bytes", "arrow", "dictionary", "binary"],
)
def test_fed_rows(open_state: Any, rows: Any) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.query("q", COUNT)
    assert wr.feed("s", rows) == 2
    wr.run_available(close=True)
    assert counted(wr) == {"a": 1}
    (letter,) = wr.sql("SELECT reason, record FROM dead_letters('s')").rows()
    assert letter["reason"] == "malformed record"
    assert letter["record"].isprintable()


def test_a_late_punctuation_column_with_bad_bytes(open_state: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rows = {"t": pa.array([1, 2], pa.int64()), "p": texts([None, b"t < \xff"])}
    pq.write_table(pa.table(rows), folder / "a.parquet")
    wr = open_state()
    wr.sql(
        f"CREATE STREAM s (t BIGINT, p STRING) FROM files OPTIONS (path '{folder}', format 'parquet', punctuation 'p')"
        " TIMESTAMP BY t PUNCTUATE BY SOURCE"
    )
    wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, 1)]
    assert wr.metrics()["s"]["dead_letter_reasons"] == {"malformed record": 1}


def test_valid_texts_are_not_repaired(open_state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow checks the texts that are gathered, so Spark need not."""

    def repaired(*_: Any) -> None:
        raise AssertionError("Spark was asked to repair texts")

    monkeypatch.setattr("windrow.dataplane.ingest.job.with_valid_text", repaired)
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"t": [1, 2, 3], "k": ["a", "é", "a"], "x": pa.array([1, 1, 1], pa.int32())}), folder / "a")
    wr = open_state(preaggregate="driver")
    create(wr, folder, "parquet")
    wr.run_available(close=True)
    assert counted(wr) == {"a": 2, "é": 1}
