"""The interface of every synopsis, whatever its kind and home.

The engine calls it and never asks for the class. What a synopsis cannot do it says as data: `cannot` gives the reason,
which EXPLAIN shows. The kinds are in `kinds/`; the Spark home's is completed in `engine/store/spark_synopsis.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
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
"""Rows for each group that a micro-batch and a tick take besides the cells (measured: 1.1 GB for 2,000,000 groups of
seven columns)."""


class Home(Enum):
    """Where a synopsis has its cells, as EXPLAIN names it."""

    DRIVER = "driver"
    SPARK = "Spark"


class Ability(Enum):
    """What only some synopses can do."""

    PANES = "keep its cells in panes of the stream's axis, which close and expire as the frontier moves"
    MOVE = "be kept in the Spark home"
    LOOK_UP = "answer windows of any length on its cuts"
    EARLY = "answer groups before their windows are due, and let go of them"
    READ = "have the cells of its closed panes read in the driver"
    NARROW = "be asked for some of the groups alone"
    INDEX = "hold an index over its closed panes"


@dataclass(frozen=True)
class Weight:
    """What a cell and a group take in the driver, in bytes: long keys, sketches and other objects show in no number of
    columns."""

    cell: float
    group: float

    def __post_init__(self) -> None:
        if self.cell < 0 or self.group < 0:
            raise ValueError("no cell and no group takes less than nothing")


@dataclass(frozen=True)
class OneTimeQuery:
    """Who asks once, beside the queries that a synopsis is kept for; `derived`: what the synopsis does not keep for
    it."""

    plan: Finalise
    derived: tuple[Derivation, ...] = ()


@dataclass(frozen=True)
class DueRequest:
    """The windows that wait for a frontier above `ticked` (None: for any) and not above `frontier`, of the tuples from
    `since` on (None: of all). `ended`: no more tuples come."""

    window: Window
    since: int | None
    ticked: int | None
    frontier: int
    ended: bool


class Synopsis(ABC):
    """Cells shared by the queries of a `SynopsisPlan`. Callers hold the lock of the stream.

    A micro-batch is written to blocks, committed, and then taken in by `deposit`, `merge` or `hold_late`; ticks close
    panes, ask, and let cells expire. Methods that need an ability are called only where `cannot` gives None for it.
    """

    kind: ClassVar[str]
    """As EXPLAIN names it."""
    home: ClassVar[Home] = Home.DRIVER
    _cannot: ClassVar[Mapping[Ability, str]] = {}

    cells: int | None = None
    """How many cells its blocks have, where that was counted: in the Spark home, between micro-batches."""
    groups: Groups
    """The groups that ids in its answers are of. Those of the Spark home are known to tasks alone."""

    def cannot(self, ability: Ability) -> str | None:
        """Why it cannot do this, for EXPLAIN; None where it can."""
        return self._cannot.get(ability)

    # -- how large it is -----------------------------------------------------------------------

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """What the driver holds of its cells."""

    @property
    def group_count(self) -> int:
        """Its groups, or values of groups; in the Spark home the most that there can be."""
        return self.groups.count - 1

    @property
    def groups_seen(self) -> int | None:
        """The most groups that jobs have found, which a commit saves; None where the driver knows the groups."""
        return None

    @property
    def buckets(self) -> int | None:
        """Into how many buckets its blocks are cut, for tasks to read; None: into none."""
        return None

    @property
    def content(self) -> str:
        """What it is made of, for EXPLAIN."""
        return f"{self.closed_panes.size} closed panes"

    @property
    def index_bytes(self) -> int:
        """What its index takes."""
        return 0

    @property
    def ranks(self) -> Ranks | None:
        """How many tuples of each partition have come; None where nothing is counted by partition."""
        return None

    def slots(self, reduced: bool = False, keys: int | None = None) -> int:
        """About how many answer rows a window takes while it is answered. `reduced`: few of them leave a task;
        `keys`: groups differ in the first so many keys alone."""
        return self.groups.count

    def driver_bytes(self, row: int) -> float | None:
        """What it takes in the driver with cells, keys (held twice, and once more to be found) and answering, at so
        many bytes a row; in the Spark home what it would about take there, None where that is not known."""
        return self.nbytes + self._group_bytes(row)

    def weight(self, row: int, cells: int) -> Weight:
        """What each of so many cells, and each group, takes in the driver, on average."""
        return Weight(self.nbytes / max(1, cells), self._group_bytes(row) / max(1, self.groups.count - 1))

    def _group_bytes(self, row: int) -> int:
        return 3 * self.groups.nbytes + WORKING_ROWS * row * (self.groups.count - 1)

    # -- what comes in -------------------------------------------------------------------------

    def batch_groups(self) -> Groups:
        """What gives ids to the groups of a micro-batch."""
        return self.groups

    def is_late(self, cells: Cells, closed: int) -> Mask:
        """Which cells are of panes that have been closed: those that start below `closed`."""
        return np.asarray(cells.panes < closed)

    def span(self, cells: Cells, rows: tuple[int, int]) -> tuple[int, int]:
        """What a block of these cells is known by: its first and last pane, or the numbers of the `rows` it is of."""
        return int(cells.panes.min()), int(cells.panes.max())

    @abstractmethod
    def deposit(self, cells: Cells) -> None:
        """Take cells of open panes that a commit has named."""

    @abstractmethod
    def merge(self, cells: Cells) -> None:
        """Take cells of closed panes that a commit has named: answers to come count them."""

    @abstractmethod
    def hold_late(self, cells: Cells) -> None:
        """Hold cells of closed panes apart until `merge_late`: the answers that they correct have been given."""

    def occupy(self, panes: Points, late: bool = False) -> None:
        """Tasks have written cells of these panes, and a commit has named them; `late`: they are held apart."""
        raise NotImplementedError("tasks write no cells of this synopsis")

    def restore(self, cells: Cells, answered: bool) -> None:
        """Take the cells of a block after a restart; `answered`: the block is of rows that ticks have passed."""
        self.deposit(cells)

    # -- what is held of it --------------------------------------------------------------------

    def parts(self) -> Iterator[Cells]:
        """All cells that the driver holds, but those held apart; a cell of an open pane may come in several parts."""
        yield from ()

    @property
    def late_parts(self) -> Sequence[Cells]:
        """The cells that the driver holds apart."""
        return ()

    @property
    def readable(self) -> ClosedPanes | None:
        """Itself where the driver can read the cells of closed panes (`Ability.READ`)."""
        return None

    def open_alone(self, wanted: Mask) -> Synopsis:
        """The open panes' cells of some groups by themselves, as closed panes (`Ability.EARLY`)."""
        raise NotImplementedError(self.cannot(Ability.EARLY))

    def release(self, needed: Points) -> None:
        """Let go of cells below the point from which on their group is needed, by group id (`Ability.EARLY`)."""
        raise NotImplementedError(self.cannot(Ability.EARLY))

    # -- panes ---------------------------------------------------------------------------------

    @property
    def closed_panes(self) -> Points:
        """The starts of the occupied closed panes, ascending."""
        return np.empty(0, np.int64)

    @property
    def late_panes(self) -> Points:
        """The starts of the closed panes of which cells are held apart, ascending."""
        return np.empty(0, np.int64)

    @property
    def last_pane(self) -> int | None:
        """The start of the youngest occupied pane, be it open."""
        return None

    @property
    def has_late(self) -> bool:
        """Whether cells are held apart."""
        return False

    def close(self, upto: int) -> Points | None:
        """Close the panes that start below `upto`, a cut."""
        return None

    def merge_late(self) -> None:
        """Take in what is held apart."""
        return None

    def collapse(self, below: int, into: Points) -> None:
        """Make the panes up to a point one pane from each of the points `into` on (ascending): landmark windows never
        look into them again."""
        return None

    def expire(self, below: int) -> None:
        """Cells of panes that start below the point are gone (`Ability.PANES`)."""
        return None

    def answered(self) -> None:
        """All windows that are due have been answered, and their commit is made."""
        return None

    def kept(self, cells: Cells) -> Cells:
        """Those of its cells that are worth keeping when blocks are folded."""
        return cells

    def may_fold(self, last: int | None, ticked: int | None) -> bool:
        """Whether a block whose span ends there may be folded with others."""
        return True

    # -- what is asked -------------------------------------------------------------------------

    def due(self, asked: DueRequest) -> Extents:
        """The windows that hold a tuple and are due."""
        panes = self.closed_panes
        seen = panes if asked.since is None else panes[np.searchsorted(panes, asked.since) :]
        return asked.window.due(seen, asked.ticked, asked.frontier)

    @abstractmethod
    def ask(
        self, lookups: Sequence[Lookup], plan: SynopsisPlan, once: OneTimeQuery | None = None
    ) -> Iterator[LookupAnswer]:
        """The rows of every lookup, in window order for each; those of one may come in several parts. Lookups are
        named after queries of the plan, or not named, where someone asks `once`."""

    def revise(
        self, lookups: Sequence[Lookup], there: Sequence[tuple[Mask, Mask]], plan: SynopsisPlan
    ) -> Iterator[tuple[LookupAnswer, LookupAnswer]]:
        """For each lookup the rows without what is held apart, and with it; rows that do not differ may be left out.
        `there`: which of its windows had been answered, and which are to be."""
        yield from ()

    def totals(self, count: Accumulator, panes: Points, late: bool = False) -> Points:
        """A count of these closed panes (ascending), all groups and nobody together; of what is held apart, or of the
        rest."""
        return np.zeros(panes.size, np.int64)
