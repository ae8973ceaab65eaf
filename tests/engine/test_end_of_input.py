"""The end of the input: a query does not answer more windows because another has longer ones."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import STREAM, Open
from .helpers import answers, put

SHORT, LONG = "SELECT COUNT(*) AS n FROM s [RANGE 5 SLIDE 5]", "SELECT COUNT(*) AS n FROM s [RANGE 40 SLIDE 20]"


def opened(open_state: Open, more: str = "") -> Any:
    wr = open_state(empty_windows="emit")
    wr.sql(STREAM + more)
    wr.sql(f"CREATE QUERY short AS {SHORT}")
    wr.sql(f"CREATE QUERY long AS {LONG}")
    return wr


@pytest.mark.parametrize("restart", [False, True])
def test_skipped_windows_follow_new_tuples(open_state: Open, restart: bool) -> None:
    wr = opened(open_state)
    put(wr, (1, "a", 1), (12, "a", 1))
    for _ in range(2):  # the second end changes nothing
        wr._engine.time.end_input("s")
        assert answers(wr, "short") == [(0, 5, 1), (5, 10, 0), (10, 15, 1)]
    assert answers(wr, "long") == [(-20, 20, 2), (0, 40, 2)]
    if restart:
        wr.close()
        wr = open_state(empty_windows="emit")
    wr.sql(f"CREATE QUERY new AS {SHORT}")
    put(wr, (61, "a", 1))
    assert answers(wr, "short")[3:] == [(e - 5, e, 0) for e in range(20, 65, 5)]
    assert answers(wr, "new") == [(e - 5, e, 0) for e in range(45, 65, 5)]
    wr._engine.time.end_input("s")
    assert answers(wr, "short")[-1] == (60, 65, 1)


def test_late_tuple_in_a_skipped_window(open_state: Open) -> None:
    wr = opened(open_state, " LATE REVISE")
    put(wr, (1, "a", 1), (12, "a", 1))
    wr._engine.time.end_input("s")
    put(wr, (22, "a", 1), (3, "a", 1))
    rows = [tuple(row.values()) for row in wr.queries["short"].revisions().rows()]
    assert rows[3:] == [("-", 1, 0, 5, 1), ("+", 1, 0, 5, 2), ("+", 0, 20, 25, 1)]
    put(wr, (61, "a", 1))
    assert sorted(answers(wr, "short")) == sorted(
        [(0, 5, 2), (5, 10, 0), (10, 15, 1), (20, 25, 1), *((e - 5, e, 0) for e in (20, *range(30, 65, 5)))]
    )


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("empty_windows", ["skip", "emit"])
def test_landmark_windows_end_above_the_greatest_point(open_state: Open, beside: bool, empty_windows: str) -> None:
    wr = open_state(empty_windows=empty_windows)
    wr.sql(STREAM)
    wr.query("since", "SELECT COUNT(*) AS n FROM s [SINCE 0 SLIDE 5]")
    wr.query("fewer", "SELECT COUNT(*) AS n FROM s [SINCE 0 SLIDE 10]")
    wr.query("later", "SELECT COUNT(*) AS n FROM s [SINCE 40 SLIDE 5]")
    wr.query("unbounded", "SELECT k, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 10] GROUP BY k")
    if beside:
        wr.query("long", "SELECT COUNT(*) AS n FROM s [RANGE 1000 SLIDE 1000]")
    put(wr, (1, "a", 1), (12, "a", 1))
    wr.end_input("s")
    assert answers(wr, "since") == [(0, 5, 1), (0, 10, 1), (0, 15, 2)]
    assert answers(wr, "fewer") == [(0, 10, 1), (0, 20, 2)]
    assert answers(wr, "unbounded") == [(None, 10, "a", 1), (None, 20, "a", 2)]
    assert answers(wr, "later") == []


@pytest.mark.parametrize("restart", [False, True])
def test_landmark_windows_after_the_end(open_state: Open, restart: bool) -> None:
    wr = open_state()
    wr.sql(STREAM)
    wr.query("since", "SELECT COUNT(*) AS n FROM s [SINCE 0 SLIDE 5]")
    wr.query("long", "SELECT COUNT(*) AS n FROM s [RANGE 40 SLIDE 40]")
    put(wr, (1, "a", 1), (12, "a", 1))
    wr.end_input("s")
    if restart:
        wr.close()
        wr = open_state()
    wr.query("new", "SELECT COUNT(*) AS n FROM s [SINCE 0 SLIDE 5]")
    put(wr, (52, "a", 1))
    assert answers(wr, "since") == [(0, 5, 1), (0, 10, 1), *((0, end, 2) for end in range(15, 55, 5))]
    assert [row[1] for row in answers(wr, "new")] == [45, 50]
    wr.end_input("s")
    assert answers(wr, "since")[-1] == (0, 55, 3)


def test_late_tuple_above_the_last_landmark_window(open_state: Open) -> None:
    wr = open_state()
    wr.sql(STREAM + " LATE REVISE")
    wr.query("since", "SELECT COUNT(*) AS n FROM s [SINCE 0 SLIDE 5]")
    wr.query("long", "SELECT COUNT(*) AS n FROM s [RANGE 40 SLIDE 40]")
    put(wr, (1, "a", 1), (12, "a", 1))
    wr.end_input("s")
    put(wr, (22, "a", 1), (13, "a", 1))
    rows = [tuple(row.values()) for row in wr.queries["since"].revisions().rows()]
    assert rows[3:] == [("-", 1, 0, 15, 2), ("+", 1, 0, 15, 3), ("+", 0, 0, 20, 3), ("+", 0, 0, 25, 4)]
    put(wr, (52, "a", 1))
    assert answers(wr, "since") == [
        (0, 5, 1), (0, 10, 1), (0, 15, 3), (0, 20, 3), *((0, end, 4) for end in range(25, 55, 5))
    ]  # fmt: skip
