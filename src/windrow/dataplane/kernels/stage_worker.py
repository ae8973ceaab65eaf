"""What a worker process keeps between the tasks of continuous plans, which it runs one after another: mapped files,
DuckDB connections, and the state of ranges with the token of the batch after which it was so."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.kernels.plan_tables import TaskTables
from windrow.dataplane.kernels.stage_messages import StageBatch, StagedTask
from windrow.dataplane.stores import MappedFiles
from windrow.operators.stages.ranges import Range
from windrow.operators.state import PlanState
from windrow.operators.tables.kernel import Kernel

MOST_STATE_BYTES = 1 << 30
"""The most state that a worker process keeps between batches."""

RECENT = 200
"""Files stay mapped for plans that one of so many last tasks was for."""

StateKey = tuple[str, int, int, Range]
"""A root, the number of a plan, a level and a range."""


class StageWorker:
    """What a worker process keeps."""

    def __init__(self) -> None:
        self.states: dict[StateKey, tuple[str, PlanState]] = {}
        self._sizes: dict[StateKey, int] = {}
        self._kernels: dict[int, Kernel] = {}
        self._writers: dict[str, BlockWriter] = {}
        self._mapped: dict[str, MappedFiles] = {}
        self._read: dict[tuple[str, int], tuple[int, frozenset[str]]] = {}
        self._tasks = 0
        self.tables = TaskTables()

    def kernel(self, max_value_bytes: int) -> Kernel:
        return self._kernels.setdefault(max_value_bytes, Kernel(max_value_bytes))

    def writer(self, root: str) -> BlockWriter:
        return self._writers.setdefault(root, BlockWriter(Path(root)))

    def mapped(self, root: str) -> MappedFiles:
        return self._mapped.setdefault(root, MappedFiles())

    def keep(self, key: StateKey, token: str, state: PlanState) -> None:
        """Keep a state as the newest; the oldest ones go if there is too much."""
        self.states.pop(key, None)
        self.states[key] = (token, state)
        self._sizes[key] = state.nbytes
        total = sum(self._sizes.values())
        for one in list(self.states)[:-1]:
            if total <= MOST_STATE_BYTES:
                break
            total -= self._sizes.pop(one)
            del self.states[one]

    def release(self, done: Iterable[tuple[StagedTask, StageBatch]]) -> None:
        """After a task: release files that no recent plan has a use for any more."""
        self._tasks += 1
        for task, batch in done:
            paths = frozenset(file.path for window in batch.windows for file in window.files)
            self._read[task.root, task.number] = (self._tasks, paths)
        self._read = {key: used for key, used in self._read.items() if used[0] > self._tasks - RECENT}
        for root, mapped in self._mapped.items():
            used = [paths for (at, _), (_, paths) in self._read.items() if at == root]
            mapped.forget(mapped.paths - frozenset().union(*used))
