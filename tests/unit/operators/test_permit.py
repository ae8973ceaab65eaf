"""A cancelled one-time query stops what evaluates it, and an intermediate result that grows too large is an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from windrow.errors import QueryCancelledError, ResultLimitError
from windrow.operators.tables import permit as permits
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.pairing import JoinSide, new_results
from windrow.operators.tables.permit import Permit, permit_of_thread
from windrow.operators.tables.rows import taken

SLOW = "SELECT count(*) AS n FROM a, b WHERE (a.x * b.x) % 7 = 1"
MANY = "SELECT a.x, b.x AS y FROM a, b"
ROWS = pa.table({"x": np.arange(100_000)})


def one_key(rows: int) -> list[JoinSide]:
    """Two inputs of which every row meets every row."""
    none = np.zeros(rows, np.int64)
    return [JoinSide(none, none, (none + 10,), old) for old in (0, rows)]


def pairs() -> object:
    return new_results(one_key(60_000))


def statement() -> object:
    return Kernel().query(SLOW, a=ROWS, b=ROWS)


def stops_in_s(work: Callable[[], object], permit: Permit, wait_s: float) -> float:
    """How long work that holds a permit goes on after it was withdrawn."""
    errors = list[BaseException]()

    def run() -> None:
        try:
            with permit.held():
                work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(wait_s)
    assert thread.is_alive()
    started = time.monotonic()
    permit.withdraw()
    thread.join(20)
    assert [type(error) for error in errors] == [QueryCancelledError]
    return time.monotonic() - started


@pytest.mark.parametrize("work", [pairs, statement])
def test_withdrawn_permit_ends_the_evaluation(work: Callable[[], object]) -> None:
    assert stops_in_s(work, Permit(1 << 40), 0.3) < 5


def test_interrupt_before_the_statement_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be lost, were it not sent again."""
    reached = threading.Event()
    check = Permit.check

    def late(permit: Permit) -> None:
        check(permit)
        reached.set()
        while permit._interrupts and not permit.is_withdrawn:
            time.sleep(0.001)

    monkeypatch.setattr(Permit, "check", late)
    assert stops_in_s(statement, Permit(1 << 40), 0.1) < 5
    assert reached.is_set()


def test_connection_serves_the_next_query() -> None:
    kernel, permit = Kernel(), Permit(1 << 40)
    timer = threading.Timer(0.1, permit.withdraw)
    timer.start()
    with permit.held(), pytest.raises(QueryCancelledError):
        kernel.query(SLOW, a=ROWS, b=ROWS)
    timer.join()
    with Permit(1 << 40).held():
        assert kernel.query("SELECT count(*) AS n FROM a", a=ROWS).to_pylist() == [{"n": 100_000}]


@pytest.mark.parametrize(
    "work", [pairs, lambda: Kernel().query(MANY, a=ROWS, b=ROWS), lambda: taken(ROWS, np.zeros(5_000_000, np.int64))]
)
def test_intermediate_result_is_bounded(work: Callable[[], object]) -> None:
    with Permit(32 << 20).held(), pytest.raises(ResultLimitError, match="takes more than 32 MB, which is max_partial"):
        work()


def test_too_little_memory() -> None:
    with pytest.raises(ResultLimitError, match="more memory than there is"), Permit().held():
        raise pa.ArrowMemoryError("malloc of size 1 failed")


def test_bounded_result_is_the_same() -> None:
    sql = "SELECT x, x % 3 AS y FROM a WHERE x < 5 ORDER BY x DESC"
    with Permit(1 << 30).held():
        found = Kernel().query(sql, a=ROWS)
        empty = Kernel().query("SELECT x FROM a WHERE x < 0", a=ROWS)
    assert found.equals(Kernel().query(sql, a=ROWS))
    assert (empty.num_rows, empty.schema) == (0, pa.schema({"x": pa.int64()}))


def test_permit_is_of_its_thread_and_block() -> None:
    permit, seen = Permit(), list[Permit]()
    with permit.held():
        thread = threading.Thread(target=lambda: seen.append(permit_of_thread()))
        thread.start()
        thread.join()
        assert permit_of_thread() is permit
    with suppress(QueryCancelledError), permit.held():
        raise QueryCancelledError("over")
    assert permit_of_thread() is permits._ANYTHING and seen == [permits._ANYTHING]
