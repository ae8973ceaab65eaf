"""Files whose columns differ from the declared ones: missing, of another type, in another order, undeclared."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.helpers import answers, jobs
from windrow.console.scripts import execute
from windrow.cql import parse_one
from windrow.errors import CatalogError, SourceError

pytestmark = pytest.mark.slow

QUERY = "CREATE QUERY q AS SELECT COUNT(*) AS n, COUNT(x) AS there, SUM(x) AS total FROM s [RANGE 10 SLIDE 10]"

Rows = Iterable[dict[str, Any]]


def _json(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _csv(path: Path, rows: Rows) -> None:
    listed = list(rows)
    lines = [",".join(listed[0]), *(",".join("" if v is None else str(v) for v in row.values()) for row in listed)]
    path.write_text("\n".join(lines) + "\n")


def _parquet(path: Path, rows: Rows) -> None:
    table = pa.Table.from_pylist(list(rows))
    for name in {"x", "X"} & set(table.column_names):
        at = table.column_names.index(name)
        table = table.set_column(at, name, table.column(name).cast(pa.int32()))
    pq.write_table(table, path)


WRITE: dict[str, Callable[[Path, Rows], None]] = {"json": _json, "csv": _csv, "parquet": _parquet}
FORMATS = list(WRITE)


class Files:
    """A directory of files of one format, and a stream `s (t, k, x)` over it. Each file is a micro-batch."""

    def __init__(self, directory: Path, kind: str):
        self.directory, self.kind, self._count = directory, kind, 0
        directory.mkdir()

    def add(self, *rows: dict[str, Any], name: str | None = None) -> Path:
        self._count += 1
        path = self.directory / (name or f"f{self._count}.{self.kind}")
        WRITE[self.kind](path, rows)
        os.utime(path, (self._count, self._count))
        return path

    def stream(self, columns: str = "t BIGINT, k STRING, x INT", options: str = "") -> str:
        header = ", header 'true'" if self.kind == "csv" else ""
        return (
            f"CREATE STREAM s ({columns}) FROM files OPTIONS (path '{self.directory}', format '{self.kind}',"
            f" maxFilesPerTrigger '1'{header}{options}) TIMESTAMP BY t PUNCTUATE ORDERED"
        )


@pytest.fixture(params=FORMATS)
def files(request: Any, tmp_path: Path) -> Files:
    return Files(tmp_path / "in", request.param)


@pytest.fixture
def csv_files(tmp_path: Path) -> Files:
    return Files(tmp_path / "in", "csv")


@pytest.fixture
def parquet_files(tmp_path: Path) -> Files:
    return Files(tmp_path / "in", "parquet")


def _described(wr: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in wr.sql("DESCRIBE s").rows()]


# -- missing columns -----------------------------------------------------------------------------------


def test_a_missing_column_is_an_error_with_the_nearest_name(open_state: Any, files: Files) -> None:
    """And after the definition is loosened, no row is lost and none comes twice."""
    files.add({"t": 1, "k": "a", "x": 1})
    file = files.add({"t": 2, "k": "a", "xx": 1}) if files.kind != "json" else None
    wr = open_state()
    columns = "t BIGINT, k STRING, x INT" if files.kind != "json" else "t BIGINT, k STRING, x INT, kk STRING"
    wr.sql(files.stream(columns))
    wr.sql(QUERY)
    with pytest.raises(SourceError) as raised:
        wr.run_available()
    missing, near = ("x", "xx") if file else ("kk", None)
    assert f"has the declared column '{missing}'" in raised.value.message
    assert str(file or files.directory / "f1.json") in raised.value.message
    assert near is None or f"Did you mean '{near}' for '{missing}'?" in str(raised.value.remedy)
    assert f"{missing} {'INT' if file else 'STRING'} NULLABLE MISSING" in str(raised.value.remedy)
    with pytest.raises(SourceError):
        wr.run_available()
    wr.close()

    again = open_state()
    changed = again.sql(files.stream(columns, ", missing_columns 'null'"))
    assert "was changed" in str(changed)
    files.add({"t": 11, "k": "a", "x": 4})
    again.run_available(close=True)
    assert answers(again, "q")[0] == ((0, 10, 2, 1, 1) if file else (0, 10, 1, 1, 1))
    assert answers(again, "q")[1] == (10, 20, 1, 1, 4)
    again.close()
    last = open_state()
    assert "missing_columns 'null'" in last._engine.opened.journal.entries.streams()[0][1]
    assert last._engine.manager.stream("s").definition.required == ()


def test_a_column_declared_nullable_missing(open_state: Any, files: Files) -> None:
    files.add({"t": 1, "k": "a", "x": 1})
    wr = open_state()
    wr.sql(files.stream("t BIGINT, k STRING, x INT, y INT NULLABLE MISSING, z INT"))
    wr.sql("CREATE QUERY q AS SELECT COUNT(*) AS n, COUNT(y) AS there FROM s [RANGE 10 SLIDE 10]")
    with pytest.raises(SourceError, match="column 'z'"):
        wr.run_available()
    wr.sql(files.stream("t BIGINT, k STRING, x INT, y INT NULLABLE MISSING, z INT NULLABLE MISSING"))
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, 1, 0)]


def test_if_not_exists_also_changes_what_may_be_missing(open_state: Any, csv_files: Files) -> None:
    """Or the remedy of the error would do nothing in a script that creates its streams that way."""
    csv_files.add({"t": 1, "k": "a"})
    wr = open_state()
    wr.sql(csv_files.stream())
    wr.sql(csv_files.stream(options=", missing_columns 'null'").replace("STREAM s", "STREAM IF NOT EXISTS s"))
    assert wr._engine.manager.stream("s").definition.required == ()
    with pytest.raises(CatalogError, match="exists already"):
        wr.sql(csv_files.stream("t BIGINT, k STRING, x BIGINT"))


def test_a_script_changes_what_may_be_missing(open_state: Any, csv_files: Files) -> None:
    wr = open_state()
    for text in (csv_files.stream(), csv_files.stream("t BIGINT, k STRING, x INT NULLABLE MISSING")):
        assert execute(wr, parse_one(text), text) is not None
    assert wr._engine.manager.stream("s").definition.required == ("t", "k")
    assert execute(wr, parse_one(text), text) is None
    text = csv_files.stream("t BIGINT, k STRING, y INT")
    with pytest.raises(CatalogError, match="exists with another text"):
        execute(wr, parse_one(text), text)


def test_names_match_without_case_except_in_json(open_state: Any, files: Files) -> None:
    files.add({"T": 1, "K": "a", "X": 1})
    wr = open_state()
    wr.sql(files.stream())
    wr.sql(QUERY)
    if files.kind == "json":
        with pytest.raises(SourceError, match="Did you mean 'X' for 'x'.*upper and lower case"):
            wr.run_available()
    else:
        wr.run_available(close=True)
        assert answers(wr, "q") == [(0, 10, 1, 1, 1)]


def test_files_without_records_say_nothing(open_state: Any, files: Files) -> None:
    empty = files.directory / f"empty.{files.kind}"
    if files.kind == "parquet":
        pq.write_table(pa.table({"other": pa.nulls(0)}), empty)
    else:
        empty.write_text("other\n" if files.kind == "csv" else "")
    os.utime(empty, (0, 0))
    files.add({"t": 1, "k": "a", "x": 1})
    wr = open_state()
    wr.sql(files.stream())
    wr.sql(QUERY)
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, 1, 1, 1)]


def test_a_column_of_the_directories_is_there(open_state: Any, files: Files) -> None:
    (files.directory / "x=7").mkdir()
    files.add({"k": "a", "t": 1}, name=f"x=7/f.{files.kind}")
    wr = open_state()
    wr.sql(files.stream())
    wr.sql(QUERY)
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, 1, 1, 7)]


@pytest.mark.parametrize("preaggregate", ["driver", "spark"])
def test_json_keys_that_only_some_records_have(open_state: Any, tmp_path: Path, spark: Any, preaggregate: str) -> None:
    """A rare key is found by one more job, once; later micro-batches may lack it."""
    files = Files(tmp_path / "in", "json")
    files.add(*({"t": 1, "k": "a" * 60} for _ in range(400)), {"t": 2, "k": "b", "x": None})
    wr = open_state(preaggregate=preaggregate)
    wr.sql(files.stream())
    wr.sql(QUERY)
    wr.run_available()
    files.add({"t": 3, "k": "b"})
    before = jobs(spark)
    wr.run_available()
    assert jobs(spark) == before + 1
    wr.close()
    again = open_state(preaggregate=preaggregate)
    files.add({"t": 4, "k": "b"})
    again.run_available(close=True)
    assert answers(again, "q") == [(0, 10, 403, 0, None)]


def test_json_in_one_document(open_state: Any, tmp_path: Path) -> None:
    files = Files(tmp_path / "in", "json")
    (files.directory / "a.json").write_text(json.dumps([{"t": 1, "k": "a", "x": 1}, {"t": 2, "extra": 1}], indent=2))
    wr = open_state()
    wr.sql(files.stream(options=", multiLine 'true'"))
    wr.sql(QUERY)
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, 2, 1, 1)]
    assert _described(wr)[-1][0] == "extra"


@pytest.mark.parametrize(
    ("create", "why"),
    [
        ("s (t BIGINT, x INT NULLABLE MISSING) FROM memory", "for files"),
        ("s (timestamp TIMESTAMP) FROM rate OPTIONS (missing_columns 'null')", "for files"),
        ("s (t BIGINT) FROM files OPTIONS (path '/tmp', format 'json', missing_columns 'maybe')", "'maybe'"),
        ("s (t BIGINT) FROM files OPTIONS (path '/tmp', format 'csv', missing_columns 'null')", "by position"),
    ],
)
def test_where_columns_cannot_be_missing(open_state: Any, create: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        open_state().sql(f"CREATE STREAM {create}")


# -- undeclared columns --------------------------------------------------------------------------------


def test_undeclared_columns_are_listed_also_after_a_restart(open_state: Any, files: Files) -> None:
    first = files.add({"t": 1, "k": "a", "x": 1, "speed": 1.5})
    files.add({"t": 2, "speed": 1.5, "k": "a", "x": 1, "Lane": 3})
    wr = open_state()
    wr.sql(files.stream())
    wr.sql(QUERY)
    wr.run_available()
    speed, lane = ("DOUBLE", "BIGINT") if files.kind == "parquet" else (None, None)
    expected = [
        ("speed", speed, f"not declared; in 2 files, first in {first}"),
        ("Lane", lane, f"not declared; in 1 file, first in {files.directory / f'f2.{files.kind}'}"),
    ]
    assert _described(wr)[3:] == expected
    assert wr.metrics()["s"]["undeclared_columns"] == 2
    wr.close()
    again = open_state()
    assert _described(again)[3:] == expected
    again.run_available(close=True)
    assert answers(again, "q") == [(0, 10, 2, 2, 2)]


def test_many_undeclared_columns_are_cut_off(open_state: Any, tmp_path: Path) -> None:
    files = Files(tmp_path / "in", "json")
    files.add({"t": 1, "k": "a", "x": 1, **{f"c{i:04}": i for i in range(150)}})
    wr = open_state()
    wr.sql(files.stream())
    wr.sql(QUERY)
    wr.run_available()
    assert len(_described(wr)) == 3 + 100 + 1
    assert _described(wr)[-1] == ("…", None, "more columns are not declared")


# -- types of Parquet columns --------------------------------------------------------------------------


def _typed(file: Path, kind: pa.DataType, values: list[Any]) -> None:
    table = pa.table({"t": pa.array([1], pa.int64()), "k": ["a"], "x": pa.array(values, kind)})
    pq.write_table(table, file)


def test_a_type_that_does_not_fit(open_state: Any, parquet_files: Files) -> None:
    _typed(parquet_files.directory / "a.parquet", pa.string(), ["1"])
    wr = open_state()
    wr.sql(parquet_files.stream())
    wr.sql("CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    with pytest.raises(SourceError) as raised:
        wr.run_available()
    assert raised.value.message == (
        f"column 'x' is declared INT, but is BYTE_ARRAY String (STRING) in {parquet_files.directory}/a.parquet"
    )
    assert "Change the stream: drop it, and declare x STRING" in str(raised.value.remedy)
    wr.sql("DROP QUERY q")
    wr.sql("DROP STREAM s")
    wr.sql(parquet_files.stream("t BIGINT, k STRING, x STRING"))
    wr.sql("CREATE QUERY q AS SELECT COUNT(*) AS n, MAX(x) AS x FROM s [RANGE 10 SLIDE 10]")
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, 1, "1")]


def test_a_file_whose_type_differs_from_the_others(open_state: Any, parquet_files: Files) -> None:
    for i, kind in enumerate((pa.int32(), pa.int32(), pa.int64())):
        _typed(parquet_files.directory / f"{i}.parquet", kind, [1])
    wr = open_state()
    wr.sql(parquet_files.stream().replace(" maxFilesPerTrigger '1'", " maxFilesPerTrigger '9'"))
    wr.sql(QUERY)
    with pytest.raises(SourceError, match=r"INT64 \(BIGINT\) in .*2\.parquet") as raised:
        wr.run_available()
    assert "Change the file: in 2 other files" in str(raised.value.remedy)
    _typed(parquet_files.directory / "2.parquet", pa.int32(), [1])
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, 3, 3, 3)]


def test_nanoseconds(open_state: Any, parquet_files: Files) -> None:
    _typed(parquet_files.directory / "a.parquet", pa.timestamp("ns"), [1])
    wr = open_state()
    wr.sql(parquet_files.stream("t BIGINT, k STRING, x TIMESTAMP"))
    wr.sql("CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    with pytest.raises(SourceError, match="coerce_timestamps"):
        wr.run_available()


def test_two_columns_that_match(open_state: Any, parquet_files: Files) -> None:
    file = parquet_files.directory / "a.parquet"
    pq.write_table(
        pa.table({"t": [1], "k": ["a"], "x": pa.array([1], pa.int32()), "X": pa.array([2], pa.int32())}), file
    )
    wr = open_state()
    wr.sql(parquet_files.stream())
    wr.sql(QUERY)
    with pytest.raises(SourceError, match="two columns of .*a.parquet match 'x': 'x' and 'X'"):
        wr.run_available()


# -- CSV by name ---------------------------------------------------------------------------------------


def test_csv_columns_in_any_order(open_state: Any, csv_files: Files, spark: Any) -> None:
    """Files of one micro-batch have different headers; some are compressed. It is still one job."""
    d = csv_files.directory
    (d / "a.csv").write_text("t,k,x\n1,a,1\n")
    (d / "b.csv").write_text('\ufeff"x","note, with comma",k , T\n10,"n, n",b,2\n20,,b,3\nbad,line,b,4\n5,few\n')
    (d / "c.csv.gz").write_bytes(gzip.compress(b"k,x,t\r\nc,100,4\r\n"))
    (d / "d.csv.bz2").write_bytes(bz2.compress(b"\nx,t,k\n1000,5,d\n"))
    wr = open_state()
    wr.sql(csv_files.stream().replace(" maxFilesPerTrigger '1'", " maxFilesPerTrigger '9'"))
    wr.sql(
        "CREATE QUERY q AS SELECT k, COUNT(*) AS n, SUM(x) AS total FROM s [RANGE 10 SLIDE 10] GROUP BY k ORDER BY k"
    )
    before = jobs(spark)
    wr.run_available()
    assert jobs(spark) == before + 1
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, "a", 1, 1), (0, 10, "b", 2, 30), (0, 10, "c", 1, 100), (0, 10, "d", 1, 1000)]
    dead = wr.sql("SELECT reason, record FROM dead_letters('s') ORDER BY record").rows()
    assert [row["record"] for row in dead] == ["5,few", "bad,line,b,4"]
    assert _described(wr)[3][0] == "note, with comma"


def test_csv_rows_are_numbered_in_the_order_of_files(open_state: Any, csv_files: Files) -> None:
    for i, text in enumerate(("x,t,k\n1,1,a\n2,2,a\n", "t,k,x\n3,a,3\n4,a,4\n", "x,t,k\n5,5,a\n6,6,a\n")):
        path = csv_files.directory / f"{9 - i}.csv"
        path.write_text(text)
        os.utime(path, (i, i))
    wr = open_state()
    wr.sql(csv_files.stream().replace(" maxFilesPerTrigger '1'", " maxFilesPerTrigger '9'"))
    wr.sql("CREATE QUERY q AS SELECT SUM(x) AS total FROM s [ROWS 2 SLIDE 2]")
    wr.run_available()
    assert [row[-1] for row in answers(wr, "q")] == [3, 7, 11]


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_a_csv_header_without_any_declared_column(open_state: Any, csv_files: Files, mode: str) -> None:
    (csv_files.directory / "a.csv").write_text("t,k,x\n1,a,1\n")
    (csv_files.directory / "b.csv").write_text("some,thing\n5,else\n6,more\n")
    wr = open_state(preaggregate=mode)
    wr.sql(csv_files.stream().replace(" maxFilesPerTrigger '1'", " maxFilesPerTrigger '9'"))
    wr.sql(QUERY)
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, 1, 1, 1)]
    assert wr.metrics()["s"]["dead_letter_reasons"] == {"null window attribute": 2}


def test_a_csv_header_that_names_a_column_twice(open_state: Any, csv_files: Files) -> None:
    (csv_files.directory / "a.csv").write_text("t,k,x,X\n1,a,1,2\n")
    wr = open_state()
    wr.sql(csv_files.stream())
    wr.sql(QUERY)
    with pytest.raises(SourceError, match="a.csv names 'x' twice"):
        wr.run_available()
