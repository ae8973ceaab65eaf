"""Fixtures of the engine's tests: state directories that are closed at the end, and a small stream of integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import windrow
from windrow.testing import ManualClock

Open = Callable[..., windrow.Windrow]

STREAM = "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"


@pytest.fixture
def open_state(spark: Any, tmp_path: Path) -> Iterator[Open]:
    """`open_state(name, **settings)` opens a state directory of the test, with a clock in 2030."""
    opened: list[windrow.Windrow] = []
    clock = ManualClock("2030-01-01 00:00:00")

    def open_(name: str = "state", **settings: Any) -> windrow.Windrow:
        chosen = {"preaggregate": "driver", **settings}
        wr = windrow.open(tmp_path / name, spark=spark, settings=chosen, clock=clock)
        opened.append(wr)
        return wr

    yield open_
    for wr in opened:
        wr.close()


@pytest.fixture
def wr(open_state: Open) -> windrow.Windrow:
    """An open state directory with the stream `s (t, k, x)`, ordered by t."""
    opened = open_state()
    opened.sql(STREAM)
    return opened
