"""What a hostile tester broke once: times that Python cannot hold, subscribers that exit, endless names."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import windrow
from windrow.errors import FunctionError
from windrow.synopses.folds import MOMENTS


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
        assert isinstance(rows[0]["window_start"], int), "microseconds, for there is no datetime before year 1"
        assert [(a.window_start, a.window_end) for a in got] == [(r["window_start"], r["window_end"]) for r in rows]
        assert "n=1" in capsys.readouterr().out
        assert str(q.answers()).count("\n") == 3


def test_a_subscriber_that_exits_does_not_stop_the_stream(spark, tmp_path):
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql("CREATE STREAM s (t INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        q = wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
        q.subscribe(lambda answer: sys.exit(3))
        wr.deposit("s", [(1, 1), (11, 1)])
        assert q.metrics()["callback_errors"] == 1
        assert q.answers().rows()[0]["n"] == 1


def test_a_long_name_is_no_obstacle_to_a_file_sink(spark, tmp_path):
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
