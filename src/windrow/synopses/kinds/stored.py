"""The driver's view of a basic interval synopsis in the Spark home: its occupied panes and its number of buckets.

Only the blocks have its cells and groups; tasks load them to answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.merging import collapsed_panes
from windrow.synopses.synopsis import WORKING_ROWS, Ability, Home, Synopsis, Weight
from windrow.types import POINT_MIN
from windrow.windows import Points

_IN_TASKS = "its state is in Spark, where every group is looked up"


class StoredSynopsis(Synopsis):
    """Its occupied panes. `left_with`: the bytes per cell and group in the driver before it moved, None if not
    measured."""

    kind = "basic interval"
    home = Home.SPARK
    _cannot: ClassVar = dict.fromkeys((Ability.EARLY, Ability.READ, Ability.NARROW, Ability.INDEX), _IN_TASKS)

    def __init__(self, key_types: Sequence[pa.DataType], buckets: int, weight: Weight | None = None, groups: int = 0):
        if buckets < 1:
            raise ValueError("a synopsis in the Spark home has at least one bucket")
        self.key_types = tuple(key_types)
        self.groups = Groups(self.key_types)
        self._buckets = buckets
        self.left_with = weight
        self._groups_seen = groups
        self.kept_from: int | None = None
        self._panes = np.empty(0, np.int64)
        self._late = np.empty(0, np.int64)
        self._closed = POINT_MIN

    @property
    def nbytes(self) -> int:
        return int(self._panes.nbytes + self._late.nbytes)

    @property
    def buckets(self) -> int:
        return self._buckets

    @property
    def groups_seen(self) -> int:
        return self._groups_seen

    @property
    def group_count(self) -> int:
        """At most the number of cells."""
        return self._groups_seen if self.cells is None else min(self._groups_seen, self.cells)

    def slots(self, reduced: bool = False, keys: int | None = None) -> int:
        """A task answers one bucket at a time, or a few."""
        return 1 + self._groups_seen // (max(1, self._buckets // 4) if reduced else 1)

    def driver_bytes(self, row: int) -> float | None:
        """Uses the weight that it had there, so that it does not move back at once."""
        if self.left_with is None or self.cells is None:
            return None
        cell, group = max(self.left_with.cell, row), max(self.left_with.group, WORKING_ROWS * row)
        return cell * self.cells + group * min(self._groups_seen, self.cells)

    @property
    def closed_panes(self) -> Points:
        return self._panes[: int(np.searchsorted(self._panes, self._closed))]

    @property
    def last_pane(self) -> int | None:
        return max((int(panes[-1]) for panes in (self._panes, self._late) if panes.size), default=None)

    @property
    def has_late(self) -> bool:
        return bool(self._late.size)

    @property
    def late_panes(self) -> Points:
        return self._late[: int(np.searchsorted(self._late, self._closed))]

    def saw(self, groups: int) -> None:
        """Note that a job over all its due windows has found so many groups; later windows may have as many."""
        self._groups_seen = max(self._groups_seen, groups)

    def batch_groups(self) -> Groups:
        """New groups each time: the driver keeps none."""
        return Groups(self.key_types)

    def deposit(self, cells: Cells) -> None:
        self.occupy(np.unique(cells.panes))

    def merge(self, cells: Cells) -> None:
        self.occupy(np.unique(cells.panes))

    def hold_late(self, cells: Cells) -> None:
        self.occupy(np.unique(cells.panes), late=True)

    def occupy(self, panes: Points, late: bool = False) -> None:
        """Late blocks may also have cells of open panes, which no answer has read yet."""
        kept = panes if self.kept_from is None else panes[panes >= self.kept_from]
        if late:
            self._late = np.union1d(self._late, kept)
        else:
            self._panes = np.union1d(self._panes, kept)

    def merge_late(self) -> None:
        self._panes = np.union1d(self._panes, self._late)
        self._late = np.empty(0, np.int64)

    def close(self, upto: int) -> None:
        self._closed = max(self._closed, upto)

    def collapse(self, below: int, into: Points) -> None:
        """The blocks follow when they are folded."""
        self._panes = np.unique(collapsed_panes(self._panes, below, into))

    def expire(self, below: int) -> None:
        self.kept_from = below
        self._panes = self._panes[int(np.searchsorted(self._panes, below)) :]
