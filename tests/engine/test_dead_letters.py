"""Rows that are not admitted are kept with a reason up to a cap, and counted; the stream continues."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, put
from windrow.dataplane.ingest.admission import POINT_BOUND, Admission, AxisBound
from windrow.dataplane.ingest.job import MicroBatch

pytestmark = pytest.mark.slow

QUERY = "CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(x) AS total FROM s [RANGE 10 SLIDE 10]"


def letters(wr: Any, stream: str = "s") -> list[dict[str, Any]]:
    return wr.sql(f"SELECT * FROM dead_letters('{stream}') ORDER BY batch, reason, record").rows()


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_dead_letters_are_capped_per_batch(open_state: Any, mode: str) -> None:
    wr = open_state(preaggregate=mode, dead_letters_per_batch=5)
    wr.sql(STREAM)
    wr.sql(QUERY)
    put(wr, (100, "a", 1))
    put(wr, *[(t, "late", 1) for t in range(30)], *[(None, "null", 1)] * 3, (101, "a", 2))
    put(wr, *[(t, "late", 1) for t in range(2)], (111, "a", 4))
    kept = letters(wr)
    assert Counter(row["batch"] for row in kept) == {1: 5, 2: 2}
    assert all(row["record"] is not None and row["rows"] >= 1 for row in kept)
    metrics = wr.metrics()["s"]
    assert metrics["dead_letter_reasons"] == {"late": 32, "null window attribute": 3}
    assert (metrics["late"], metrics["dead_letters"], metrics["admitted"]) == (32, 35, 3)
    assert answers(wr, "q") == [(100, 110, 2, 3)]


def test_late_by_and_the_record_are_kept(wr: Any) -> None:
    wr.sql(QUERY)
    put(wr, (100, "a", 1))
    put(wr, (93, "b", None))
    (row,) = letters(wr)
    assert (row["reason"], row["late_by"], row["window_attribute"]) == ("late", 7, 93)
    assert row["record"] == '{"t":93,"k":"b","x":null}'


def test_retained_dead_letters_per_stream(open_state: Any) -> None:
    wr = open_state(retained_dead_letters=4)
    for name in ("s", "r"):
        wr.sql(STREAM.replace("STREAM s", f"STREAM {name}"))
        wr.sql(f"CREATE QUERY q_{name} AS SELECT COUNT(*) AS n FROM {name} [RANGE 10 SLIDE 10]")
        put(wr, (100, "a", 1), stream=name)
    for t in range(6):
        for name in ("s", "r"):
            put(wr, (t, "late", t), stream=name)
    for name in ("s", "r"):
        assert [row["window_attribute"] for row in letters(wr, name)] == [2, 3, 4, 5]
        assert wr.metrics()[name]["dead_letters"] == 6


def test_malformed_rows_in_a_batch(wr: Any) -> None:
    wr.sql(QUERY)
    rows = [{"t": 1, "k": "a", "x": 1}, {"t": "soon", "k": "a", "x": 1}, {"t": 2, "y": 1}, (3, "a")]
    wr.deposit("s", [*rows, {"t": 11, "k": "a", "x": 2}])
    assert answers(wr, "q") == [(0, 10, 1, 1)]
    assert wr.metrics()["s"]["dead_letter_reasons"] == {"malformed record": 3}


def write(directory: Path, name: str, *lines: str) -> None:
    """Write a file one second younger than the last; Spark reads files in the order of their age."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text("".join(line + "\n" for line in lines))
    os.utime(directory / name, (int(name), int(name)))


FILES = (
    "CREATE STREAM f (t BIGINT, k STRING, x INT) FROM files "
    "OPTIONS (path '{path}', format '{format}', maxFilesPerTrigger '1') TIMESTAMP BY t PUNCTUATE ORDERED"
)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_malformed_records_in_files(open_state: Any, tmp_path: Path, kind: str) -> None:
    source = tmp_path / "in"
    if kind == "json":
        write(source, "1", '{"t": 1, "k": "a", "x": 1}', "this is not json", '{"t": "soon", "k": "b", "x": 1}')
        write(source, "2", '{"t": 2, "k": "a", "x": 2, "more": [1]}', '{"k": "a"}', '{"t": 11, "k": null, "x": 4}')
    else:
        write(source, "1", "1,a,1", "one,a,1", "1,a,one")
        write(source, "2", "2,a,2", ",a,", "11,,4")
    wr = open_state()
    wr.sql(FILES.format(path=source, format=kind))
    wr.sql("CREATE QUERY q AS SELECT k, COUNT(*) AS n, SUM(x) AS total FROM f [RANGE 10 SLIDE 10] GROUP BY k")
    wr.run_available(close=True)
    assert answers(wr, "q") == [(0, 10, "a", 2, 3), (10, 20, None, 1, 4)]
    counts = wr.metrics()["f"]["dead_letter_reasons"]
    assert counts == {"malformed record": 2, "null window attribute": 1}
    malformed = [row["record"] for row in letters(wr, "f") if row["reason"] == "malformed record"]
    assert all(any(word in text for word in ("this is not json", "soon", "one")) for text in malformed)


@pytest.mark.parametrize("latest", [None, 50])
@pytest.mark.parametrize("frontier", [None, -3])
def test_driver_and_spark_judge_rows_alike(wr: Any, spark: Any, frontier: int | None, latest: int | None) -> None:
    wr.sql("CREATE STREAM judged (ts TIMESTAMP, x INT) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    stream = wr._engine.manager.stream("judged").definition
    bound = POINT_BOUND
    points = [None, -bound - 1, -bound, -4, -3, 0, 50, 51, bound, bound + 1]
    rows = [(t, bad) for t in points for bad in (None, "broken")]
    df = spark.createDataFrame(rows, "t BIGINT, __bad STRING").selectExpr(
        "timestamp_micros(t) AS ts", "1 AS x", "__bad"
    )
    admission = Admission((AxisBound(stream.punctuated[0], frontier, latest),))
    batches = [MicroBatch(df, stream, admission, carry_records) for carry_records in (True, False)]
    told, judged = (batch.gather(batch.gathered([])) for batch in batches)
    assert judged.column("__t0").to_pylist() == told.column("__t0").to_pylist()
    assert judged.column("__reason").to_pylist() == told.column("__reason").to_pylist()
    assert len(set(told.column("__reason").to_pylist())) == 4 + (frontier is not None) + (latest is not None)
