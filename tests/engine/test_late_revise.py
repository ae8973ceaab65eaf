"""LATE REVISE: corrections reach every receiver, survive failures and restarts, and need bounded state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windrow
from engine.conftest import Open
from engine.helpers import answers, blocks_of, put, state_of
from windrow.errors import BindError

Row = tuple[Any, ...]


def create(wr: Any, late: str = "LATE REVISE", punctuate: str = "PUNCTUATE ORDERED") -> None:
    wr.sql(f"CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t {punctuate} {late}")


def revisions(wr: Any, query: str = "q") -> list[Row]:
    """(op, revision, window_end, select list…), as delivered."""
    table = wr.queries[query].revisions().arrow().drop_columns(["window_start"])
    return [tuple(row.values()) for row in table.to_pylist()]


class Flaky:
    """A sink that fails on demand."""

    def __init__(self) -> None:
        self.fails, self.batches = False, []

    def write(self, batch: Any) -> None:
        if self.fails:
            raise OSError("the disk is full")
        self.batches.append(batch)


def test_every_receiver_gets_op_and_revision(open_state: Open, tmp_path: Path) -> None:
    wr = open_state()
    create(wr)
    wr.sql(
        f"CREATE QUERY q AS SELECT SUM(x) AS x FROM s [RANGE 5 SLIDE 5] INTO parquet OPTIONS (path '{tmp_path}/out')"
    )
    told: list[Any] = []
    batches: list[Any] = []
    wr.queries["q"].subscribe(told.append)
    wr.queries["q"].subscribe(batches.append, batched=True)
    put(wr, (1, "a", 1), (7, "a", 2))
    put(wr, (2, "a", 4))
    put(wr, (3, "a", 8), (12, "a", 1))
    assert [answer.key for answer in told] == ["q@5", "q@5/1", "q@5/2", "q@10"]
    assert [batch.key for batch in batches] == ["q@5..5", "q@5..5/1", "q@5..5/2", "q@10..10"]
    columns = ["window_start", "window_end", "is_revision", "op", "revision", "x"]
    assert all(one.table.column_names == columns for one in told + batches)
    assert told[1].table.drop_columns(["window_start", "window_end"]).to_pylist() == [
        {"is_revision": True, "op": "-", "revision": 1, "x": 1},
        {"is_revision": True, "op": "+", "revision": 1, "x": 5},
    ]
    assert answers(wr, "q") == [(0, 5, 13), (5, 10, 2)]
    assert wr.queries["q"].answers().arrow().column("is_revision").to_pylist() == [True, False]
    assert wr.queries["q"].answer().rows()[0]["x"] == 2
    metrics = wr.queries["q"].metrics()
    assert (metrics["windows_answered"], metrics["answer_rows"]) == (2, 6)
    assert windrow.read_answers(tmp_path / "out").rows() == wr.queries["q"].answers().rows()


def test_failed_correction_after_restart(open_state: Open) -> None:
    """The deposit is committed and its tick is not; until then the late cells are apart on disk."""
    wr, sink = open_state(), Flaky()
    create(wr)
    select = "SELECT k, SUM(x) AS x FROM s [RANGE 10 SLIDE 5] GROUP BY k"
    wr.query("q", select, sink=sink)
    put(wr, (1, "a", 1), (12, "b", 2))
    sink.fails = True
    with pytest.raises(OSError):
        put(wr, (4, "a", 4), (7, "b", 8), (13, "b", 16))
    assert blocks_of(wr, "synopses/1/late") == 1
    wr.close()
    again = open_state()
    again.query("q", select, sink=(mended := Flaky()))
    again.end_input("s")
    assert blocks_of(again, "synopses/1/late") == 0
    expected = [(5, "a", 1), (10, "a", 1)]
    assert revisions(again)[:2] == [("+", 0, *row) for row in expected]
    assert sorted(revisions(again)[2:]) == sorted(
        [
            ("-", 1, 5, "a", 1),
            ("+", 1, 5, "a", 5),
            ("-", 1, 10, "a", 1),
            ("+", 1, 10, "a", 5),
            ("+", 1, 10, "b", 8),
            ("+", 0, 15, "b", 26),
            ("+", 0, 20, "b", 18),
        ]
    )
    assert len(mended.batches) == 2, "the correction, and the due windows"
    third = open_state("third")  # as if nothing had failed
    create(third)
    third.query("q", select)
    put(third, (1, "a", 1), (12, "b", 2))
    put(third, (4, "a", 4), (7, "b", 8), (13, "b", 16))
    third.end_input("s")
    assert revisions(third) == revisions(again) and answers(third, "q") == answers(again, "q")


def test_a_bounded_reach_bounds_the_state(open_state: Open) -> None:
    wr = open_state()
    create(wr, "LATE REVISE FOR 30")
    wr.sql("CREATE QUERY q AS SELECT SUM(x) AS x FROM s [RANGE 10 SLIDE 10]")
    wr.sql("CREATE QUERY all_of_it AS SELECT COUNT(*) AS n FROM s [UNBOUNDED SLIDE 10]")
    for t in range(0, 500, 10):
        put(wr, (t, "a", 1))
        put(wr, (max(0, t - 25), "a", 1))
    panes = [state.synopsis.closed_panes.size for state in state_of(wr).synopses.values()]
    assert max(panes) <= 12  # of 50; only whole chunks expire
    assert wr._engine.catalog.value("SELECT count(*) FROM revisions") <= 20
    assert answers(wr, "q")[20] == (200, 210, 2)
    assert answers(wr, "all_of_it")[-1] == (None, 490, 99)


def test_no_correction_without_an_answer(open_state: Open) -> None:
    """The query shares cells that reach further back than it does."""
    wr = open_state()
    create(wr)
    wr.sql("CREATE QUERY first AS SELECT SUM(x) AS x FROM s [RANGE 10 SLIDE 5]")
    put(wr, (1, "a", 1), (12, "a", 2))
    wr.sql("CREATE QUERY second AS SELECT SUM(x) AS x FROM s [RANGE 10 SLIDE 5]")
    put(wr, (4, "a", 4), (16, "a", 8))
    assert revisions(wr, "second") == [("+", 0, 15, 2)]
    assert revisions(wr, "first")[2:] == [
        ("-", 1, 5, 1),
        ("+", 1, 5, 5),
        ("-", 1, 10, 1),
        ("+", 1, 10, 5),
        ("+", 0, 15, 2),
    ]
    put(wr, (13, "a", 16))
    assert revisions(wr, "second") == [("+", 0, 15, 2), ("-", 1, 15, 2), ("+", 1, 15, 18)]


def test_drop_query_with_late_cells(open_state: Open) -> None:
    wr = open_state()
    create(wr)
    wr.query("q", "SELECT SUM(x) AS x FROM s [RANGE 5 SLIDE 5]", sink=(sink := Flaky()))
    put(wr, (1, "a", 1), (7, "a", 2))
    put(wr, (2, "a", 2))
    sink.fails = True
    with pytest.raises(OSError):
        put(wr, (2, "a", 4))
    wr.sql("DROP QUERY q")
    assert blocks_of(wr, "synopses/") == 0
    assert wr._engine.catalog.value("SELECT count(*) FROM revisions") == 0


@pytest.mark.parametrize(
    ("late", "punctuate", "said"),
    [
        ("LATE REVISE FOR 5 SECONDS", "PUNCTUATE ORDERED", "plain number"),
        ("LATE REVISE", "", "needs a PUNCTUATE"),
    ],
)
def test_queries_that_cannot_be_revised_are_refused(open_state: Open, late: str, punctuate: str, said: str) -> None:
    with pytest.raises(BindError, match=said):
        create(open_state(), late, punctuate)


def test_reserved_columns_of_corrections(open_state: Open) -> None:
    wr = open_state()
    create(wr)
    with pytest.raises(BindError, match="'op'"):
        wr.sql("CREATE QUERY q AS SELECT k AS op FROM s [RANGE 5 SLIDE 5] GROUP BY k")


def test_revisions_without_late_revise(wr: windrow.Windrow) -> None:
    wr.sql("CREATE QUERY q AS SELECT SUM(x) AS x FROM s [RANGE 5 SLIDE 5]")
    put(wr, (1, "a", 1), (7, "a", 2))
    put(wr, (2, "a", 2))
    assert revisions(wr) == [("+", 0, 5, 1)]


def test_correction_of_an_answered_empty_window(open_state: Open) -> None:
    wr = open_state(empty_windows="emit")
    create(wr, "LATE REVISE FOR 50")
    wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    for t in (2, 101, 201, 301, 275):
        put(wr, (t, "a", 1))
    assert [row for row in answers(wr, "q") if row[1] == 280] == [(270, 280, 1)]
    assert revisions(wr)[-2:] == [("-", 1, 280, 0), ("+", 1, 280, 1)]


def test_correction_of_empty_windows_of_a_joined_query(open_state: Open) -> None:
    wr = open_state(empty_windows="emit")
    create(wr)
    wr.query("a", "SELECT MAX(x) AS n FROM s [RANGE 10 SLIDE 10]")
    put(wr, (2, "a", 1))
    wr.query("q", "SELECT MIN(x) AS n FROM s [RANGE 20 SLIDE 5]")
    put(wr, (52, "a", 1))
    put(wr, (25, "a", 1))
    ends = [row[1] for row in answers(wr, "q")]
    assert len(ends) == len(set(ends)) and {30, 35, 40, 45} <= set(ends)


def test_first_tuple_is_late(open_state: Open) -> None:
    wr = open_state(empty_windows="emit")
    create(wr)
    wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    for t in (40, 61, 12):
        put(wr, (t, "a", 1))
    assert ("+", 0, 20, 1) in revisions(wr) and not [row for row in revisions(wr) if row[0] == "-"]
    assert (10, 20, 1) in answers(wr, "q")
