"""Helpers of the engine's tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

Row = tuple[Any, ...]


def answers(wr: Any, query: str) -> list[Row]:
    """The retained answers as (window_start, window_end, select list…), in their order."""
    table = wr.queries[query].answers().arrow().drop_columns(["is_revision"])
    return [tuple(row.values()) for row in table.to_pylist()]


def put(wr: Any, *rows: Row, stream: str = "s") -> None:
    """Deposit one micro-batch of (t, k, x) rows."""
    wr.deposit(stream, list(rows))


def state_of(wr: Any, stream: str = "s") -> Any:
    """The state of a stream in memory."""
    return wr._engine.manager.stream(stream)


def blocks_of(wr: Any, owner: str) -> int:
    """The number of committed blocks in an owner's folder."""
    found = wr._engine.catalog.value("SELECT count(*) FROM blocks WHERE owner LIKE ? || '%'", (owner,))
    return int(found)


def wait_until(what: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not what():
        if time.monotonic() > deadline_s:
            raise AssertionError("the condition did not come true in time")
        time.sleep(0.05)


def jobs(spark: Any) -> int:
    """The number of jobs that Spark has run."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def values(rows: Iterable[Row], at: int) -> list[Any]:
    return [row[at] for row in rows]
