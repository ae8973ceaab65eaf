"""Partial results that tasks make: they are merged by the run of panes that they are of, and limits are seen while they
come in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from windrow.engine.ask.onetime import tasked_read
from windrow.engine.ask.onetime.tasked_read import TaskedRead
from windrow.errors import QueryCancelledError, ResultLimitError
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.permit import Permit


class Jobs:
    """Task n gives n rows of 8 bytes; notes the tasks of each job."""

    cores = 1

    def __init__(self) -> None:
        self.done: list[list[int]] = []

    def run(self, work: object, numbers: range) -> Iterator[pa.Table]:
        self.done.append(list(numbers))
        return (pa.table({"n": pa.array([n] * n, pa.int64())}) for n in numbers)


def read(jobs: Jobs, reduces: bool = False, max_rows: int = 1000) -> TaskedRead:
    made = TaskedRead.__new__(TaskedRead)
    plan: Any = SimpleNamespace(
        reduces=reduces, is_answer=not reduces, merged=lambda tables, kernel: pa.concat_tables(tables)
    )
    made.partial, made.kernel, made._max_rows, made._jobs = plan, Kernel(), max_rows, cast(Any, jobs)
    return made


def collected(jobs: Jobs, places: Sequence[int], **how: Any) -> list[list[int]]:
    return [table.column("n").to_pylist() for table in read(jobs, **how)._collected(cast(Any, None), places)]


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_partials_are_merged_by_run(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(TaskedRead, "_tasks_at_once", at_once)
    assert collected(Jobs(), [0, 0, 1, 2, 2]) == [[1], [2, 2], [3, 3, 3, 4, 4, 4, 4]]


def test_rows_that_are_not_reduced_come_in_short_jobs() -> None:
    jobs, other = Jobs(), Jobs()
    collected(jobs, [0] * 5)
    assert jobs.done == [[0, 1], [2, 3], [4]]
    collected(other, [0] * 20, reduces=True)
    assert [len(tasks) for tasks in other.done] == [tasked_read.TASKS, 20 - tasked_read.TASKS]


def test_too_many_rows_end_the_jobs() -> None:
    jobs = Jobs()
    with pytest.raises(ResultLimitError, match="more than 5 rows, which is max_result_rows"):
        collected(jobs, list(range(20)), max_rows=5)
    assert jobs.done == [[0, 1], [2, 3]]
    collected(jobs, list(range(10)), max_rows=5, reduces=True)  # they are not yet rows of the answer


def test_too_many_bytes_end_the_jobs() -> None:
    jobs = Jobs()
    with Permit(8 * 5).held(), pytest.raises(ResultLimitError, match="max_partial_bytes"):
        collected(jobs, [0] * 20)
    assert jobs.done == [[0, 1], [2, 3]]


def test_cancel_ends_the_jobs() -> None:
    jobs, permit = Jobs(), Permit(1 << 30)
    with permit.held():
        found = read(jobs)._collected(cast(Any, None), list(range(6)))
        next(found)
        permit.withdraw()
        with pytest.raises(QueryCancelledError):
            list(found)
    assert jobs.done == [[0, 1]]
