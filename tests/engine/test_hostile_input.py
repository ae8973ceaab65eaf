"""Hostile input: times that Python cannot hold, subscribers that exit, endless names."""

from __future__ import annotations

import sys
from datetime import date, datetime, timezone

import numpy as np
import pandas as pd
import pytest

import windrow
from windrow.errors import BindError, FunctionError, ParseError, SourceError, StateError
from windrow.synopses.cells.folds import MOMENTS


def test_window_edges_that_datetime_cannot_hold(spark, tmp_path, capsys):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql("CREATE STREAM s (ts TIMESTAMP, x INT) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
        q = wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 10 DAYS SLIDE 10 DAYS]")
        wr.sql("CREATE QUERY c AS SELECT COUNT(*) AS n FROM s [RANGE 10 DAYS SLIDE 10 DAYS] INTO console")
        got = []
        q.subscribe(got.append)
        wr.deposit("s", [("0001-01-01 00:00:00", 1), ("2026-03-01 00:00:00", 2)])
        wr.end_input("s")
        rows = q.answers().rows()
        assert [row["n"] for row in rows] == [1, 1]
        assert isinstance(rows[0]["window_start"], np.datetime64), "there is no datetime before year 1"
        assert [(a.window_start, a.window_end) for a in got] == [(r["window_start"], r["window_end"]) for r in rows]
        assert "n=1" in capsys.readouterr().out
        assert str(q.answers()).count("\n") == 3


def test_subscriber_that_exits(spark, tmp_path):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql("CREATE STREAM s (t INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        q = wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
        q.subscribe(lambda answer: sys.exit(3))
        wr.deposit("s", [(1, 1), (11, 1)])
        assert q.metrics()["callback_errors"] == 1
        assert q.answers().rows()[0]["n"] == 1


def test_file_sink_of_a_long_name(spark, tmp_path):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql("CREATE STREAM s (t INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        select = "SELECT COUNT(*) AS n FROM s [RANGE 5 SLIDE 5]"
        wr.sql(f"CREATE QUERY {'a' * 300} AS {select} INTO jsonl OPTIONS (path '{tmp_path}/x.jsonl')")
        wr.sql(f"CREATE QUERY {'a' * 300}b AS {select} INTO parquet OPTIONS (path '{tmp_path}/x')")
        wr.deposit("s", [(1, 1), (7, 1)])
        assert (tmp_path / "x.jsonl").read_text().count("\n") == 1
        assert len(list((tmp_path / "x").glob("*.parquet"))) == 1


def test_refusals_over_aggregates_have_a_place(spark, tmp_path):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql("CREATE STREAM s (t INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        with pytest.raises(FunctionError) as refused:
            wr.query("q", "SELECT CAST(AVG(x) AS STRING) AS s FROM s [RANGE 5 SLIDE 5]")
        assert refused.value.place is not None
        with pytest.raises(windrow.WindrowError, match="COUNT needs an argument"):
            wr.query("q", "SELECT COUNT() AS n FROM s [RANGE 5 SLIDE 5]")


def test_moments_of_one_enormous_value_are_finite():
    n, mean, m2 = MOMENTS.reduce([np.array([[1.0], [0.0]]), np.array([[1e308], [0.0]]), np.zeros((2, 1))])
    assert (n[0], mean[0], m2[0]) == (1.0, 1e308, 0.0)
    both = MOMENTS.reduce([np.array([[1.0], [1.0]]), np.array([[1e308], [1e308]]), np.zeros((2, 1))])
    assert (both[1][0], both[2][0]) == (1e308, 0.0)
    into = MOMENTS.identity(2)
    MOMENTS.scatter_into(into, np.array([0, 0]), (np.ones(2), np.full(2, 1e308), np.zeros(2)))
    assert (into[1][0], into[2][0]) == (1e308, 0.0)


def test_wrong_name_in_a_one_time_query(spark, tmp_path, capfd):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql("CREATE STREAM p (t INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        with pytest.raises(BindError, match="there is no column 'reson'") as refused:
            wr.sql("SELECT reson FROM dead_letters('p')")
        assert "reason" in (refused.value.remedy or "")
        assert len(wr.sql("SELECT reason FROM dead_letters('p')")) == 0
    assert "reson" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("kind", "upto"),
    [("TIMESTAMP", bad) for bad in ("soon", 5, None, 1.5, date(2026, 3, 1), pd.NaT, True)]
    + [("INT", bad) for bad in ("5", 1.5, None, datetime(2026, 3, 1), 1 << 63, True)],
)
def test_invalid_punctuation_is_refused(spark, tmp_path, kind, upto):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql(f"CREATE STREAM s (t {kind}) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        with pytest.raises(BindError, match=f"is no point of 't', which is {kind}") as refused:
            wr.punctuate("s", upto)
        assert refused.value.remedy and "Give a" in refused.value.remedy
        assert wr.metrics()["s"]["frontier"] is None


def test_promises_in_every_form(spark, tmp_path):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql("CREATE STREAM s (t TIMESTAMP) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        wr.sql("CREATE STREAM i (t INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        given = (
            "2026-03-01 12:00:01",
            "2026-03-01T12:00:02Z",
            datetime(2026, 3, 1, 12, 0, 3),
            datetime(2026, 3, 1, 12, 0, 4, tzinfo=timezone.utc),
            pd.Timestamp("2026-03-01 12:00:05"),
        )
        for second, upto in enumerate(given, 1):
            wr.punctuate("s", upto)
            assert wr.metrics()["s"]["frontier"] == f"2026-03-01 12:00:0{second}"
        for upto in (7, np.int64(8)):
            wr.punctuate("i", upto)
            assert wr.metrics()["i"]["frontier"] == str(upto)


def test_calls_after_close(spark, tmp_path):
    wr = windrow.open(tmp_path / "state", spark=spark)
    wr.sql("CREATE STREAM s (t INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.close()
    for attempt in (
        wr.run_available,
        wr.start,
        lambda: wr.feed("s", [(1,)]),
        lambda: wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 5 SLIDE 5]"),
        lambda: wr.punctuate("s", 5),
        lambda: wr.deposit("s", [(1,)]),
        lambda: wr.end_input("s"),
        lambda: wr.stream("d", None, timestamp="t"),
        lambda: wr.sql("SHOW STREAMS"),
        lambda: wr.sql("SELECT * FROM dead_letters('s')"),
    ):
        with pytest.raises(StateError, match="is closed"):
            attempt()
    wr.stop()
    wr.close()


def test_statements_that_are_not_text(spark, tmp_path):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        for attempt in (lambda: wr.sql(None), lambda: wr.query("q", None), lambda: wr.query(5, "SELECT 1")):
            with pytest.raises(ParseError, match="text"):
                attempt()


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ("files", "maxFilesPerTrigger 'many'"),
        ("files", "maxFilesPerTrigger '0'"),
        ("files", "MAXBYTESPERTRIGGER '1 MB'"),
        ("files", "maxFilesPerTrigger '1', maxBytesPerTrigger '1'"),
        ("rate", "rowsPerSecond 'fast'"),
        ("rate", "rowsPerSecond '-1'"),
        ("rate", "numPartitions '\u00b2'"),
        ("packets", "rate '\u00b2'"),
        ("packets", "rate '0'"),
        ("packets", "hosts '99999999999'"),
        ("packets", "speed '1'"),
    ],
)
def test_non_numeric_options_are_refused(spark, tmp_path, source, option):
    column = "timestamp" if source == "rate" else "ts"
    own = f"path '{tmp_path}', format 'json', " if source == "files" else ""
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        with pytest.raises(SourceError) as refused:
            wr.sql(f"CREATE STREAM s ({column} TIMESTAMP) FROM {source} OPTIONS ({own}{option})")
        assert option.split()[0].lower() in str(refused.value).lower() and refused.value.remedy
        assert len(wr.sql("SHOW STREAMS")) == 0


def test_existing_stream_is_left(spark, tmp_path):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        create = "CREATE STREAM IF NOT EXISTS s (t INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
        assert wr.sql(create).rows() == [{"result": "stream s"}]
        again = wr.sql(create.replace("t INT", "t INT, x INT")).rows()
        assert again == [{"result": "stream s exists already and was not changed"}]
        assert len(wr.sql("DESCRIBE s")) == 1


def test_shown_settings_can_be_set(spark, tmp_path):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql("SET max_future = '36 hours'")
        for row in wr.sql("SHOW SETTINGS").rows():
            wr.sql(f"SET {row['name']} = '{row['value']}'")
            wr.sql(f"SET {row['name']} = '{row['default']}'")
        shown = {row["name"]: row["value"] for row in wr.sql("SHOW SETTINGS").rows()}
        assert (shown["max_future"], shown["gather_bytes"], shown["cut_factor"]) == ("1 day", "64 MB", "4")
