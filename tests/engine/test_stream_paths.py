"""Streams from files: what `path` may name, and columns and formats that CREATE STREAM leaves out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.helpers import answers
from windrow.cql.names import quote_text
from windrow.errors import BindError, SourceError

READ = "SELECT COUNT(*) AS n, SUM(t) AS total FROM f [UNBOUNDED SLIDE 1000]"


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def create(wr: Any, path: str, columns: str = "(t BIGINT)", more: str = "", name: str = "f") -> list[str]:
    """Create a stream over a path (the SQL of the option's value); return the lines of the result."""
    made = wr.sql(
        f"CREATE STREAM {name} {columns} FROM files OPTIONS (path {path}{more}) TIMESTAMP BY t PUNCTUATE ORDERED"
    )
    return [row["result"] for row in made.rows()]


def total(wr: Any) -> tuple[int, int]:
    """The number of tuples that the stream `f` has, and their sum."""
    wr.query("q", READ)
    wr.run_available(close=True)
    _, _, count, sum_ = answers(wr, "q")[-1]
    return count, sum_


def described(wr: Any, name: str = "f") -> dict[str, str]:
    return {row["column"]: row["type"] for row in wr.sql(f"DESCRIBE {name}").rows()}


def statement(wr: Any, what: str) -> str:
    return "\n".join(row["statement"] for row in wr.sql(f"SHOW CREATE {what}").rows())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Files a (1), 'b,c' (20), 'd e%20' (300), z (4000) in sub, 'x[1]' (50000) in 'odd{1}', and 'plain,name' (600000) in bare."""
    root = tmp_path / "data"
    names = ["a.json", "b,c.json", "d e%20.json", "sub/z.json", "odd{1}/x[1].json", "bare/plain,name"]
    for number, name in zip((1, 20, 300, 4000, 50_000, 600_000), names, strict=True):
        write(root / name, {"t": number})
    return root


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("'{0}'", (3, 321)),
        ("'{0}/a.json'", (1, 1)),
        ("'{0}/b,c.json'", (1, 20)),
        ("'{0}/bare/plain,name'", (1, 600000)),
        ("'{0}/d e%20.json'", (1, 300)),
        ("'{0}/odd{{1}}'", (1, 50000)),
        ("'{0}/odd{{1}}/x[1].json'", (1, 50000)),
        ("'{0}/*.json'", (3, 321)),
        ("'{0}/{{a,b*}}.json'", (2, 21)),
        ("'{0}/{{a.json,sub/z.json}}'", (2, 4001)),
        ("'{0}/s*/*.json'", (1, 4000)),
        ("'{0}/{{sub,odd*}}/*.json'", (2, 54000)),
        ("('{0}/odd{{1}}/x[1].json', '{0}/a.json')", (2, 50001)),
        ("('{0}/a.json')", (1, 1)),
        ("('{0}/a.json', '{0}/a.json', '{0}/d e%20.json', '{0}/b,c.json')", (3, 321)),
        ("('{0}/sub', '{0}/a.json')", (2, 4001)),
    ],
)
def test_what_a_path_may_name(open_state: Any, data: Path, path: str, expected: tuple[int, int]) -> None:
    wr = open_state()
    assert create(wr, path.format(data), more=", format 'json'") == ["stream f"]
    assert total(wr) == expected


def test_relative_path_after_a_change_of_directory(
    open_state: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    wr = open_state()
    create(wr, "'data/a.json'", more=", format 'json'")
    wr.close()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = open_state()
    assert f"path '{data}/a.json'" in statement(again, "STREAM f")
    assert total(again) == (1, 1)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("'{0}/none'", "{0}/none, which does not exist"),
        ("'{0}/none.json'", "none.json, which does not exist"),
        ("'{0}/sub/zz.json'", "Did you mean {0}/sub/z.json"),
        ("'{0}/none/*.json'", "{0}/none, which does not exist"),
        ("('{0}/a.json', '{0}/none')", "{0}/none, which does not exist"),
        ("('{0}', '{0}/a.json')", "{0}/a.json is in {0}"),
        ("('{0}/*.json', '{0}/sub')", "is a pattern, and a list"),
        ("('{0}/a.json', 's3a://bucket/x')", "different file systems"),
        ("'{0}/{{sub/z,*/z}}.json'", "sub/z.json twice"),
        ("'{0}/**/*.json'", "'**' in the path"),
        ("'{0}/[a.json'", "cannot read"),
        ("'nosuch://host/x'", 'No FileSystem for scheme "nosuch"'),
        ("''", "needs a path"),
    ],
)
def test_path_that_cannot_be_read(open_state: Any, data: Path, path: str, message: str) -> None:
    wr = open_state()
    with pytest.raises(SourceError) as error:
        create(wr, path.format(data), more=", format 'json'")
    assert message.format(data) in str(error.value)
    assert error.value.remedy
    assert len(wr.sql("SHOW STREAMS")) == 0


def test_path_that_is_empty_as_yet(open_state: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    wr = open_state()
    assert "is empty as yet" in create(wr, f"'{tmp_path}/in'", more=", format 'json'")[1]
    assert "matches no file as yet" in create(wr, f"'{tmp_path}/in/*.json'", name="g")[1]
    assert "format 'json'" in statement(wr, "STREAM g"), "the pattern shows the format"
    write(tmp_path / "in" / "a.json", {"t": 5})
    assert total(wr) == (1, 5)


def test_directory_that_has_gone(open_state: Any, data: Path) -> None:
    wr = open_state()
    create(wr, f"'{data}/sub'", more=", format 'json'")
    wr.query("q", READ)
    (data / "sub/z.json").unlink()
    (data / "sub").rmdir()
    for run in (wr.run_available, wr.start):
        with pytest.raises(SourceError, match="does not exist"):
            run()
    assert not wr.is_running
    assert "does not exist" in wr.metrics()["f"]["last_error"]


# -- what the statement leaves out -------------------------------------------------------------------


def test_json_columns(open_state: Any, tmp_path: Path) -> None:
    first = {"t": 1, "at": "2026-03-01 08:00:00", "zoned": "2026-03-01T08:00:00.5Z", "day": "2026-03-01", "x": 1}
    write(
        tmp_path / "in/1.json",
        first | {"zip": "12345", "code": "2026", "ok": True, "some": None, "a b": "x", "y": None},
    )
    write(tmp_path / "in/2.json.gz", {"t": 2, "x": 1.5, "tags": ["a"], "it": {"k": 1}, "__own": 1, "y": 5})
    wr = open_state()
    said = create(wr, f"'{tmp_path}/in'", columns="")
    assert described(wr) == {
        name: kind
        for kind, names in {
            "BIGINT": ["t", "y"],
            "TIMESTAMP": ["at", "zoned"],
            "DATE": ["day"],
            "DOUBLE": ["x"],
            "BOOLEAN": ["ok"],
            "STRING": ["zip", "code", "some", "a b", "tags", "it"],
        }.items()
        for name in names
    }
    assert said[1].startswith("note: columns found in 2 of 2 files: ") and "`a b` STRING" in said[1]
    assert "nested values are kept as their JSON text: tags, it" in said[2] or "it, tags" in said[2]
    assert "__own" in said[3]
    wr.query("q", "SELECT MAX(tags) AS tags, MAX(it) AS it, MAX(zoned) AS zoned FROM f [UNBOUNDED SLIDE 1000]")
    wr.run_available(close=True)
    tags, nested, zoned = answers(wr, "q")[-1][2:]
    assert (tags, nested, zoned.isoformat()) == ('["a"]', '{"k": 1}', "2026-03-01T08:00:00.500000+00:00")


def test_csv_columns(open_state: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("t,zip,at,month,x\n1,00501,2026-03-01 08:00:00,2026-03,5\n2,10001,,2026-04,7\n")
    (tmp_path / "in/2.csv").write_text("x,t,zip,at,month\n0.5,3,1,2026-03-01,2026-05\n")
    wr = open_state()
    create(wr, f"'{tmp_path}/in'", columns="")
    assert described(wr) == {"t": "BIGINT", "zip": "STRING", "at": "TIMESTAMP", "month": "STRING", "x": "DOUBLE"}
    assert "format 'csv', header 'true'" in statement(wr, "STREAM f")


def test_tab_separated_columns(open_state: Any, tmp_path: Path) -> None:
    (tmp_path / "1.tsv").write_text("t\tk\n1\ta,b\n2\tc\n")
    wr = open_state()
    create(wr, f"'{tmp_path}/1.tsv'", columns="")
    assert described(wr) == {"t": "BIGINT", "k": "STRING"}
    assert "format 'csv', sep '\\t'" in statement(wr, "STREAM f")
    assert total(wr) == (2, 3)


def test_parquet_columns_with_partitions(open_state: Any, tmp_path: Path) -> None:
    for day in ("2026-03-01", "2026-03-02"):
        folder = tmp_path / "in" / f"day={day}" / "site=7"
        folder.mkdir(parents=True)
        table = pa.table(
            {"t": pa.array([1, 2], pa.int32()), "v": [{"a": 1}] * 2, "d": pa.array([1, 2]).cast(pa.decimal128(21, 2))}
        )
        pq.write_table(table, folder / "x.parquet")
    wr = open_state()
    said = create(wr, f"'{tmp_path}/in'", columns="")
    assert described(wr) == {"t": "INT", "d": "DECIMAL(21,2)", "day": "DATE", "site": "BIGINT"}
    assert "left out, as a stream cannot have them: v (STRUCT<" in said[2]
    wr.query("q", "SELECT day, site, COUNT(*) AS n FROM f [UNBOUNDED SLIDE 1000] GROUP BY day, site ORDER BY day")
    wr.run_available(close=True)
    assert [(str(day), site, n) for _, _, day, site, n in answers(wr, "q")] == [
        ("2026-03-01", 7, 2),
        ("2026-03-02", 7, 2),
    ]


def test_date_as_window_attribute(open_state: Any, tmp_path: Path) -> None:
    write(tmp_path / "1.json", {"t": "2026-03-01"})
    wr = open_state()
    create(wr, f"'{tmp_path}/1.json'", columns="")
    assert described(wr) == {"t": "TIMESTAMP"}


def test_columns_stay_as_found(open_state: Any, tmp_path: Path) -> None:
    write(tmp_path / "in/1.json", {"t": 1})
    wr = open_state()
    create(wr, f"'{tmp_path}/in'", columns="")
    wr.close()
    write(tmp_path / "in/0.json", {"t": "x", "more": 1})
    assert described(open_state()) == {"t": "BIGINT"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no file in"),
        ({"1.json": '{"T": 1, "t": 2}\n'}, "differ only in upper and lower case"),
        ({"1.json": "nonsense\n"}, "no columns were found in"),
        ({"1.parquet": "nonsense\n"}, "1.parquet cannot be found"),
        ({"1.json": '{"t": 1}\n', "2.csv": "t\n1\n"}, "several formats"),
        ({"1.log": '{"t": 1}\n'}, "does not show its format"),
    ],
)
def test_columns_that_cannot_be_found(open_state: Any, tmp_path: Path, files: dict[str, str], message: str) -> None:
    (tmp_path / "in").mkdir()
    for name, text in files.items():
        (tmp_path / "in" / name).write_text(text)
    wr = open_state()
    with pytest.raises(SourceError) as error:
        create(wr, f"'{tmp_path}/in'", columns="", more="" if files else ", format 'json'")
    assert message in error.value.message
    assert error.value.remedy
    assert len(wr.sql("SHOW STREAMS")) == 0


def test_parquet_files_of_different_types(open_state: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"t": ["1"]}), tmp_path / "2.parquet")
    with pytest.raises(SourceError, match=r"'t' is BIGINT in .*1.parquet, and STRING in .*2.parquet"):
        create(open_state(), f"'{tmp_path}/*.parquet'", columns="")


def test_missing_window_attribute_among_found_columns(open_state: Any, tmp_path: Path) -> None:
    write(tmp_path / "1.json", {"tt": 1})
    with pytest.raises(BindError, match="TIMESTAMP BY names 't'"):
        create(open_state(), f"'{tmp_path}/1.json'", columns="")


def test_memory_stream_without_columns(open_state: Any) -> None:
    with pytest.raises(BindError, match="has no columns"):
        open_state().sql("CREATE STREAM m FROM memory")


# -- SHOW CREATE, and notes --------------------------------------------------------------------------


def test_show_create_gives_the_same_stream(open_state: Any, tmp_path: Path) -> None:
    write(tmp_path / "it's.json", {"t": 1, "order": "x", "a`b": 2, "ü": 1.5})
    wr = open_state()
    create(wr, quote_text(f"{tmp_path}/it's.json"), columns="")
    wr.query("q", "SELECT `order`, COUNT(*) AS n FROM f [RANGE 10 SLIDE 5] GROUP BY `order` HAVING COUNT(*) > 0")
    texts = [statement(wr, "STREAM f"), statement(wr, "QUERY Q")]
    assert texts[0].startswith("CREATE STREAM f (t BIGINT, `order` STRING, `a``b` BIGINT, ü DOUBLE)\n  FROM files") or (
        "`ü` DOUBLE" in texts[0]
    )
    again = open_state("other")
    for text in texts:
        assert again.sql(text).rows()[0]["result"].startswith(("stream f", "query q"))
    assert [statement(again, "STREAM f"), statement(again, "QUERY q")] == texts
    assert described(again) == described(wr)


def test_show_create_of_a_data_frame(open_state: Any, spark: Any) -> None:
    wr = open_state()
    frame = spark.readStream.format("rate").load()
    wr.stream("r", frame, timestamp="timestamp", slack="2 seconds")
    lines = statement(wr, "STREAM r").splitlines()
    assert lines[0].endswith("wr.stream('r', df, timestamp='timestamp', slack='2 seconds')")
    assert lines[1].startswith("CREATE STREAM r (")


def test_note_on_punctuate(open_state: Any) -> None:
    wr = open_state()
    first, note = (row["result"] for row in wr.sql("CREATE STREAM a (t TIMESTAMP) FROM memory TIMESTAMP BY t").rows())
    assert first == "stream a"
    assert "note: no PUNCTUATE" in note and "PUNCTUATE WITH SLACK 5 SECONDS" in note and "refused" in note
    note = wr.sql("CREATE STREAM b (t INT) FROM memory TIMESTAMP BY t").rows()[1]["result"]
    assert "PUNCTUATE WITH SLACK 100" in note
    assert "no TIMESTAMP BY" in wr.sql("CREATE STREAM c (t INT) FROM memory").rows()[1]["result"]
    assert len(wr.sql("CREATE STREAM d (t INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")) == 1
