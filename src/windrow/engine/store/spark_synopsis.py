"""A synopsis in the Spark home: the driver's part of it, and the jobs that answer from its blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from windrow.dataplane.blocks import BlockStore, counts_in
from windrow.dataplane.blocks.store import BlockRow
from windrow.dataplane.kernels import (
    BucketAnswer,
    BucketCorrection,
    QueryTask,
    RevisedWindows,
    Revision,
    StoredCells,
    WindowRequest,
)
from windrow.dataplane.spark_home import SparkHome
from windrow.optimizer.sharing.synopsis_plans import FREQUENT, SynopsisPlan
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import WindowAggregate
from windrow.synopses import Lookup, LookupAnswer, OneTimeQuery, StoredSynopsis, Weight
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.lookups import TaskRows
from windrow.windows import Points

_numbers = count()
"""Numbers of one-time lookups."""


@dataclass(frozen=True)
class SparkStore:
    """The blocks of a synopsis, and what runs its jobs. `late_owner` owns the late blocks that are not merged yet.
    `pinned`: the blocks that were there once, if it is read as of then."""

    blocks: BlockStore
    spark: SparkHome
    owner: str
    late_owner: str
    pinned: tuple[BlockRow, ...] | None = None

    def between(self, owner: str, low: int, high: int) -> list[BlockRow]:
        """The blocks of an owner whose panes overlap [low, high)."""
        found = self.blocks.named(owner) if self.pinned is None else self.pinned
        return [b for b in found if b.lo is not None and b.hi is not None and b.lo < high and b.hi >= low]

    def forget(self) -> None:
        """Release the broadcasts."""
        self.spark.forget(self.owner)


class SparkSynopsis(StoredSynopsis):
    """Answers all lookups by one Spark job."""

    def __init__(self, store: SparkStore, plan: SynopsisPlan, buckets: int, weight: Weight | None, groups: int):
        super().__init__([key.type.arrow for key in plan.keys], buckets, weight, groups)
        self.store = store

    def ask(
        self, lookups: Sequence[Lookup], plan: SynopsisPlan, once: OneTimeQuery | None = None
    ) -> Iterator[LookupAnswer]:
        if not lookups:
            return
        store = self.store
        if once is None:
            found, groups = self._answer(plan, store.owner, _tasks(plan), _requests(plan, lookups))
            self.saw(groups)
        else:
            name = f"{store.owner}/lookup {next(_numbers)}"  # others may ask beside it
            requests = [WindowRequest(0, one.starts, one.ends) for one in lookups]
            try:
                found, _ = self._answer(plan, name, (QueryTask(once.plan, once.derived),), requests)
            finally:
                store.spark.forget(name)
        for lookup, parts in zip(lookups, found, strict=True):
            yield LookupAnswer.of_tasks(lookup, _rows(parts))

    def _answer(
        self, plan: SynopsisPlan, name: str, tasks: tuple[QueryTask, ...], requests: Sequence[WindowRequest]
    ) -> tuple[list[list[BucketAnswer]], int]:
        blocks = self.store.between(self.store.owner, *_bounds(requests))
        rows = sum(block.rows for block in blocks)
        return self.store.spark.answer(self.stored(plan, blocks), name, tasks, requests, rows)

    def pinned(self) -> tuple[SparkSynopsis, Callable[[], None]]:
        blocks, release = self.store.blocks.pin(self.store.owner)
        found = copy(self)  # its arrays are replaced, never changed
        found.store = replace(self.store, pinned=blocks)
        return found, release

    def revise(
        self, lookups: Sequence[Lookup], there: Sequence[tuple[Mask, Mask]], plan: SynopsisPlan
    ) -> Iterator[tuple[LookupAnswer, LookupAnswer]]:
        if not lookups:
            return
        store = self.store
        revised = [RevisedWindows(one, *masks) for one, masks in zip(_requests(plan, lookups), there, strict=True)]
        bounds = _bounds([one.asked for one in revised])
        held, late = (store.between(owner, *bounds) for owner in (store.owner, store.late_owner))
        revision = Revision(self.stored(plan, held), self.stored(plan, late), tuple(revised))
        found = store.spark.revise(revision, store.owner, _tasks(plan), sum(block.rows for block in held))
        for lookup, parts in zip(lookups, found, strict=True):
            was, now = _revised_rows(parts)
            yield LookupAnswer.of_tasks(lookup, was), LookupAnswer.of_tasks(lookup, now)

    def totals(self, count: Accumulator, panes: Points, late: bool = False) -> Points:
        """The tuples per pane; reads two columns of the blocks, one bucket at a time."""
        store, out = self.store, np.zeros(panes.size, np.int64)
        owner = store.late_owner if late else store.owner
        for block in store.between(owner, int(panes[0]), int(panes[-1]) + 1) if panes.size else ():
            for pane, counted in counts_in(store.blocks.root / block.path, f"{count.id}_0"):
                at = np.minimum(np.searchsorted(panes, pane), panes.size - 1)
                known = panes[at] == pane
                np.add.at(out, at[known], counted[known])
        return out

    def stored(self, plan: SynopsisPlan, blocks: Sequence[BlockRow]) -> StoredCells:
        return stored_of(self.store.spark.root, self.store.owner, plan, self.buckets, self.kept_from, blocks)


def stored_of(
    root: str, owner: str, plan: SynopsisPlan, buckets: int, kept_from: int | None, blocks: Sequence[BlockRow]
) -> StoredCells:
    """The cells of a synopsis in these blocks."""
    paths, types = tuple(block.path for block in blocks), tuple(key.type.arrow for key in plan.keys)
    return StoredCells(root, owner, paths, types, len(plan.group_keys), buckets, kept_from, frequent_of(plan))


def frequent_of(plan: SynopsisPlan) -> WindowAggregate | None:
    """The aggregate with FREQUENT_ITEMS, if the synopsis has one; such a query shares with no other."""
    return plan.queries[0][1].input if plan.style[0] == FREQUENT and plan.queries else None


def _tasks(plan: SynopsisPlan) -> tuple[QueryTask, ...]:
    return tuple(QueryTask(query, plan.derived.get(name, ())) for name, query in plan.queries)


def _requests(plan: SynopsisPlan, lookups: Sequence[Lookup]) -> list[WindowRequest]:
    """The lookups with the index of each query in the broadcast list."""
    numbers = {name: i for i, (name, _) in enumerate(plan.queries)}
    return [WindowRequest(numbers[one.query], one.starts, one.ends) for one in lookups]


def _bounds(requests: Sequence[WindowRequest]) -> tuple[int, int]:
    return min(int(one.starts.min()) for one in requests), max(int(one.ends.max()) for one in requests)


def _rows(parts: Sequence[BucketAnswer]) -> TaskRows:
    error = next((part.error for part in parts if part.error is not None), None)
    tables = tuple(part.rows for part in parts if part.rows is not None)
    return TaskRows(tables, sum(part.overflows for part in parts), error)


def _revised_rows(parts: Sequence[BucketCorrection]) -> tuple[TaskRows, TaskRows]:
    """The rows before and after the correction."""
    error = next((part.error for part in parts if part.error is not None), None)
    was = tuple(part.was for part in parts if part.was is not None)
    now = tuple(part.now for part in parts if part.now is not None)
    return TaskRows(was, error=error), TaskRows(now, error=error)
