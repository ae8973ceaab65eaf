"""A basic interval synopsis in its Spark home, as the driver knows it (DESIGN 1.5): which panes hold a tuple, and into
how many buckets its blocks are cut. Its cells and groups are in the blocks alone; tasks load them to answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.merging import collapsed_panes
from windrow.types import POINT_MIN
from windrow.windows import Points


@dataclass(frozen=True)
class Weight:
    """What a cell and a group took in the driver, in bytes, when the synopsis left there: long keys, sketches and other
    objects show in no number of columns."""

    cell: float
    group: float

    def __post_init__(self) -> None:
        if self.cell < 0 or self.group < 0:
            raise ValueError("no cell and no group takes less than nothing")


class StoredSynopsis:
    """Occupied panes; `groups_seen` is the most groups that it has been found to have at a time, which windows to come
    may have again; `weight` None where it was not measured."""

    kind = "basic interval"

    def __init__(self, key_types: Sequence[pa.DataType], buckets: int, weight: Weight | None = None, groups: int = 0):
        if buckets < 1:
            raise ValueError("a synopsis in the Spark home has at least one bucket")
        self.key_types = tuple(key_types)
        self.buckets = buckets
        self.weight = weight
        self.groups_seen = groups
        self._panes = np.empty(0, np.int64)
        self._late = np.empty(0, np.int64)
        self._closed = POINT_MIN
        self.cells: int | None = None
        """In all blocks between micro-batches, as far as that is known."""

    @property
    def nbytes(self) -> int:
        """What the driver holds of it."""
        return int(self._panes.nbytes + self._late.nbytes)

    @property
    def slots(self) -> int:
        """About how many answer rows a window takes in a task, which has a bucket at a time, or a few."""
        return 1 + self.groups_seen // max(1, self.buckets // 4)

    @property
    def closed_panes(self) -> Points:
        """The starts of the occupied closed panes, ascending."""
        return self._panes[: int(np.searchsorted(self._panes, self._closed))]

    @property
    def last_pane(self) -> int | None:
        """The start of the youngest occupied pane, be it open."""
        return max((int(panes[-1]) for panes in (self._panes, self._late) if panes.size), default=None)

    @property
    def has_late(self) -> bool:
        return bool(self._late.size)

    @property
    def late_panes(self) -> Points:
        """The starts of the closed panes for which cells are held apart, ascending."""
        return self._late[: int(np.searchsorted(self._late, self._closed))]

    def saw(self, groups: int) -> None:
        """A job over all its due windows has found so many groups: windows to come may have as many."""
        self.groups_seen = max(self.groups_seen, groups)

    @property
    def most_groups(self) -> int:
        """How many groups there can be now: no more than cells."""
        return self.groups_seen if self.cells is None else min(self.groups_seen, self.cells)

    def new_groups(self) -> Groups:
        """Groups for the cells of one micro-batch: none is remembered."""
        return Groups(self.key_types)

    def occupy(self, panes: Points) -> None:
        """A block with cells of these panes has been committed."""
        self._panes = np.union1d(self._panes, panes)

    def hold_late(self, panes: Points) -> None:
        """The same of a block that is held apart until `merge_late`: it has cells of closed panes, and the answers that
        they correct have been given. It may have some of open panes besides, which nobody has looked at yet."""
        self._late = np.union1d(self._late, panes)

    def merge_late(self) -> None:
        """What was held apart is taken in."""
        self.occupy(self._late)
        self._late = np.empty(0, np.int64)

    def close(self, upto: int) -> None:
        """Panes that start below `upto` (a cut) are closed."""
        self._closed = max(self._closed, upto)

    def collapse(self, below: int, into: Points) -> None:
        """The panes up to a point count as one from each of the points `into` on (ascending), as landmark windows look
        at them; so they do in the blocks once those are folded."""
        self._panes = np.unique(collapsed_panes(self._panes, below, into))

    def expire(self, below: int) -> None:
        """Panes that start below the point are gone."""
        self._panes = self._panes[int(np.searchsorted(self._panes, below)) :]
