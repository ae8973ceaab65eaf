"""The interface of every synopsis, whatever its kind and home.

The engine calls this interface and never tests for a class. `cannot` says why a synopsis lacks an ability; EXPLAIN
shows the reason. The kinds are in `kinds/`; `engine/store/spark_synopsis.py` completes the one of the Spark home.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from windrow.optimizer.sharing.derivations import Derivation
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import Finalise
from windrow.synopses.answering.closed_panes import ClosedPanes
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.ranks import Ranks
from windrow.synopses.lookups import Lookup, LookupAnswer
from windrow.windows import Extents, Points, Window

WORKING_ROWS = 8
"""Rows per group that a micro-batch and a tick take in addition to the cells (measured: 1.1 GB for 2,000,000 groups of
seven columns)."""


class Home(Enum):
    """Where a synopsis keeps its cells; EXPLAIN prints the value."""

    DRIVER = "driver"
    SPARK = "Spark"


class Ability(Enum):
    """Something that only some synopses can do."""

    PANES = "keep its cells in panes of the stream's axis, which close and expire as the frontier moves"
    MOVE = "be kept in the Spark home"
    LOOK_UP = "answer windows of any length on its cuts"
    EARLY = "answer groups before their windows are due, and release them"
    READ = "show the cells of its closed panes in the driver"
    NARROW = "look up chosen groups only"
    INDEX = "hold an index over its closed panes"


@dataclass(frozen=True)
class Weight:
    """Bytes that a cell and a group take in the driver, as measured: the number of columns does not show long keys,
    sketches and other objects."""

    cell: float
    group: float

    def __post_init__(self) -> None:
        if self.cell < 0 or self.group < 0:
            raise ValueError("a weight is not negative")


@dataclass(frozen=True)
class OneTimeQuery:
    """A query that asks a synopsis once and is not part of its plan.

    `derived` are its accumulators that the synopsis derives from others.
    """

    plan: Finalise
    derived: tuple[Derivation, ...] = ()


@dataclass(frozen=True)
class DueRequest:
    """Asks for the windows that become due when the frontier moves from `ticked` (None: the start) to `frontier`.

    Only tuples from `since` on count (None: all). `ended`: the input has ended.
    """

    window: Window
    since: int | None
    ticked: int | None
    frontier: int
    ended: bool


class Synopsis(ABC):
    """Cells shared by the queries of a `SynopsisPlan`. Callers hold the lock of the stream.

    A micro-batch is written to blocks and committed; then `deposit`, `merge` or `hold_late` takes its cells. Ticks
    close panes, ask, and expire cells. A method that needs an ability is called only if `cannot` returns None for it.
    """

    kind: ClassVar[str]
    """The name in EXPLAIN."""
    home: ClassVar[Home] = Home.DRIVER
    _cannot: ClassVar[Mapping[Ability, str]] = {}

    cells: int | None = None
    """The number of cells in its blocks, once counted; only the Spark home counts, between micro-batches."""
    groups: Groups
    """Maps the group ids in its answers to key values. In the Spark home only tasks know the groups."""

    def cannot(self, ability: Ability) -> str | None:
        """Why it lacks the ability, for EXPLAIN; None if it has it."""
        return self._cannot.get(ability)

    # -- size ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of cells in the driver."""

    @property
    def group_count(self) -> int:
        """The number of groups, nobody excluded; an upper bound in the Spark home."""
        return self.groups.count - 1

    @property
    def groups_seen(self) -> int | None:
        """The most groups that a job has found, which a commit saves; None if the driver knows the groups."""
        return None

    @property
    def buckets(self) -> int | None:
        """The number of buckets in its blocks; None if its blocks have no buckets."""
        return None

    @property
    def content(self) -> str:
        """A summary for EXPLAIN."""
        panes = self.closed_panes.size
        return "1 closed pane" if panes == 1 else f"{panes:,} closed panes"

    @property
    def index_bytes(self) -> int:
        """Bytes of its index."""
        return 0

    @property
    def ranks(self) -> Ranks | None:
        """The number of tuples so far of each partition; None if its windows do not count rows by partition."""
        return None

    def slots(self, reduced: bool = False, keys: int | None = None) -> int:
        """About how many answer rows a window needs while it is answered.

        `reduced`: only few of them leave a task. `keys`: only the first `keys` keys form a group.
        """
        return self.groups.count

    def driver_bytes(self, row: int) -> float | None:
        """Bytes in the driver for cells, keys (three copies, one of them for lookups) and answering, with `row` bytes a
        row. In the Spark home an estimate of what it would take in the driver, None if that is not known."""
        return self.nbytes + self._group_bytes(row)

    def weight(self, row: int, cells: int) -> Weight:
        """The average bytes in the driver of each of `cells` cells and of each group."""
        return Weight(self.nbytes / max(1, cells), self._group_bytes(row) / max(1, self.groups.count - 1))

    def _group_bytes(self, row: int) -> int:
        return 3 * self.groups.nbytes + WORKING_ROWS * row * (self.groups.count - 1)

    # -- deposits ------------------------------------------------------------------------------

    def batch_groups(self) -> Groups:
        """The groups that give ids to the keys of a micro-batch."""
        return self.groups

    def is_late(self, cells: Cells, closed: int) -> Mask:
        """Which cells belong to closed panes, which start below `closed`."""
        return np.asarray(cells.panes < closed)

    def span(self, cells: Cells, rows: tuple[int, int]) -> tuple[int, int]:
        """The first and last point of a block of these cells: its panes, or the numbers of its `rows`."""
        return int(cells.panes.min()), int(cells.panes.max())

    @abstractmethod
    def deposit(self, cells: Cells) -> None:
        """Take committed cells of open panes."""

    @abstractmethod
    def merge(self, cells: Cells) -> None:
        """Take committed cells of closed panes; later answers count them."""

    @abstractmethod
    def hold_late(self, cells: Cells) -> None:
        """Hold cells of closed panes apart until `merge_late`, because they correct answers that were given."""

    def occupy(self, panes: Points, late: bool = False) -> None:
        """Note the panes of committed cells that tasks have written; `late`: they are held apart."""
        raise NotImplementedError("tasks do not write cells of this synopsis")

    def restore(self, cells: Cells, answered: bool) -> None:
        """Take the cells of a block after a restart; `answered`: ticks have passed all rows of the block."""
        self.deposit(cells)

    # -- cells ---------------------------------------------------------------------------------

    def parts(self) -> Iterator[Cells]:
        """All cells in the driver except those held apart. A cell of an open pane may occur in several parts."""
        yield from ()

    @property
    def late_parts(self) -> Sequence[Cells]:
        """The cells in the driver that are held apart."""
        return ()

    @property
    def readable(self) -> ClosedPanes | None:
        """Its closed panes, if the driver can read their cells (`Ability.READ`)."""
        return None

    def open_alone(self, wanted: Mask) -> Synopsis:
        """A synopsis of the wanted groups in the open panes, as if those were closed (`Ability.EARLY`)."""
        raise NotImplementedError(self.cannot(Ability.EARLY))

    def release(self, needed: Points) -> None:
        """Drop the cells of each group below its point in `needed`, by group id (`Ability.EARLY`)."""
        raise NotImplementedError(self.cannot(Ability.EARLY))

    # -- panes ---------------------------------------------------------------------------------

    @property
    def closed_panes(self) -> Points:
        """The starts of the occupied closed panes, ascending."""
        return np.empty(0, np.int64)

    @property
    def late_panes(self) -> Points:
        """The starts of the closed panes with cells that are held apart, ascending."""
        return np.empty(0, np.int64)

    @property
    def last_pane(self) -> int | None:
        """The start of the youngest occupied pane, open or closed."""
        return None

    @property
    def has_late(self) -> bool:
        """Whether cells are held apart."""
        return False

    def close(self, upto: int) -> Points | None:
        """Close the panes that start below `upto`, a cut; returns the starts of those that hold a tuple, if known."""
        return None

    def merge_late(self) -> None:
        """Merge the cells that are held apart."""
        return None

    def collapse(self, below: int, into: Points) -> None:
        """Merge the panes that start below a point: one pane remains from each point of `into` (ascending) on.

        Landmark windows no longer need the single panes.
        """
        return None

    def expire(self, below: int) -> None:
        """Drop panes that start below the point (`Ability.PANES`)."""
        return None

    def answered(self) -> None:
        """Note that all due windows are answered and committed."""
        return None

    def kept(self, cells: Cells) -> Cells:
        """The cells that remain when blocks are folded."""
        return cells

    def may_fold(self, last: int | None, ticked: int | None) -> bool:
        """Whether a block whose span ends at `last` may be folded with others."""
        return True

    # -- lookups -------------------------------------------------------------------------------

    def due(self, asked: DueRequest) -> Extents:
        """The due windows that hold a tuple."""
        panes = self.closed_panes
        seen = panes if asked.since is None else panes[np.searchsorted(panes, asked.since) :]
        return asked.window.due(seen, asked.ticked, asked.frontier)

    @abstractmethod
    def ask(
        self, lookups: Sequence[Lookup], plan: SynopsisPlan, once: OneTimeQuery | None = None
    ) -> Iterator[LookupAnswer]:
        """The rows of every lookup, in window order for each; one lookup may get several answers.

        A lookup carries the name of a query of the plan, or an empty name with `once`.
        """

    def pinned(self) -> tuple[Synopsis, Callable[[], None]] | None:
        """It as of now, which may be asked without the lock until the returned function is called; None: it is asked
        under the lock, since that takes no Spark job."""
        return None

    def revise(
        self, lookups: Sequence[Lookup], there: Sequence[tuple[Mask, Mask]], plan: SynopsisPlan
    ) -> Iterator[tuple[LookupAnswer, LookupAnswer]]:
        """For each lookup the rows without the cells held apart, and with them; equal rows may be left out.

        `there`: which of its windows were answered before, and which are to be answered now.
        """
        yield from ()

    def totals(self, count: Accumulator, panes: Points, late: bool = False) -> Points:
        """The sum of `count` in each of these closed panes (ascending), over all groups and nobody.

        `late`: in the cells held apart instead of the others.
        """
        return np.zeros(panes.size, np.int64)
