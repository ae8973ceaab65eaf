"""The first line of an error."""

from __future__ import annotations

import pytest

from windrow.errors import BindError, first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (AssertionError(), "AssertionError"),
        (ValueError(" \n "), "ValueError"),
        (ValueError("\nfirst\nsecond"), "first"),
        (
            Exception("An error occurred while calling o1.getResult.\n: a.B: thrown\n\tat c.D\nCaused by: e.F: why"),
            "why",
        ),
        (BindError("no column x", remedy="Name a column."), "[WR200] no column x"),
    ],
)
def test_first_line(error: Exception, line: str) -> None:
    assert first_line(error) == line
