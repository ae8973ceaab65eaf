"""The end of the input with `empty_windows = 'emit'`: no query answers more because of another's longer windows."""

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
def test_what_was_left_out_comes_when_the_stream_goes_on(open_state: Open, restart: bool) -> None:
    wr = opened(open_state)
    put(wr, (1, "a", 1), (12, "a", 1))
    for _ in range(2):  # the second end says nothing new
        wr._engine.inputs.end_input("s")
        assert answers(wr, "short") == [(0, 5, 1), (5, 10, 0), (10, 15, 1)]
    assert answers(wr, "long") == [(-20, 20, 2), (0, 40, 2)]
    if restart:
        wr.close()
        wr = open_state(empty_windows="emit")
    wr.sql(f"CREATE QUERY new AS {SHORT}")
    put(wr, (61, "a", 1))
    assert answers(wr, "short")[3:] == [(e - 5, e, 0) for e in range(20, 65, 5)]
    assert answers(wr, "new") == [(e - 5, e, 0) for e in range(45, 65, 5)]
    wr._engine.inputs.end_input("s")
    assert answers(wr, "short")[-1] == (60, 65, 1)


def test_a_late_tuple_in_what_was_left_out_is_a_first_answer(open_state: Open) -> None:
    wr = opened(open_state, " LATE REVISE")
    put(wr, (1, "a", 1), (12, "a", 1))
    wr._engine.inputs.end_input("s")
    put(wr, (22, "a", 1), (3, "a", 1))
    rows = [tuple(row.values()) for row in wr.queries["short"].revisions().rows()]
    assert rows[3:] == [("-", 1, 0, 5, 1), ("+", 1, 0, 5, 2), ("+", 0, 20, 25, 1)]
    put(wr, (61, "a", 1))
    assert sorted(answers(wr, "short")) == sorted(
        [(0, 5, 2), (5, 10, 0), (10, 15, 1), (20, 25, 1), *((e - 5, e, 0) for e in (20, *range(30, 65, 5)))]
    )
