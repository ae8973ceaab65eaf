"""The two homes of a synopsis (DESIGN 1.5): which one it is in, the moves between them, and the Spark home's blocks.

A synopsis moves between micro-batches, in one commit that names its blocks anew: whatever happens, it is wholly in one
home. Blocks of the Spark home are ordinary blocks to whoever reads them whole, so the way back is that of recovery.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.catalog.definitions import StreamDef
from windrow.cql.statements import Policy
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockRef, BlockStore, counts_in, panes_in
from windrow.dataplane.blocks.store import BlockRow
from windrow.dataplane.ingest.job import Grouping, cell_columns, progress_columns
from windrow.dataplane.kernels import (
    WROTE,
    Answered,
    Asked,
    Collapse,
    Corrected,
    Reported,
    Revised,
    Revision,
    Stored,
    Storing,
    Target,
    Told,
    write_cells,
)
from windrow.dataplane.spark_home import SparkHome
from windrow.engine.state import StreamState, SynopsisState
from windrow.engine.store.journal import Journal
from windrow.engine.ticks.early import release
from windrow.optimizer.sharing.synopsis_plans import BUFFER, FREQUENT, LANDMARK, SynopsisPlan
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import WindowAggregate
from windrow.settings import Settings
from windrow.synopses import (
    BasicIntervalSynopsis,
    Cells,
    Lookup,
    StoredSynopsis,
    Weight,
)
from windrow.synopses.cells.blocks import from_block
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.groups import Groups
from windrow.synopses.kinds.frequent_panes import synopsis_of
from windrow.types import POINT_MIN
from windrow.windows import Points

Mask = npt.NDArray[np.bool_]

log = logging.getLogger("windrow")

BACK_BELOW = 4
"""A synopsis goes back to the driver when it is smaller than this part of what it may have there."""

WORKING_ROWS = 8
"""Rows for each group that a micro-batch and a tick take besides the cells (measured: 1.1 GB for 2,000,000 groups of
seven columns)."""

LARGE_BLOCK_BYTES = 32 << 20
"""Blocks of the Spark home from this size on are not folded again: more of them cost a task nothing."""

BLOCKS_PER_CORE = 8
"""Blocks of the Spark home before small ones are folded, for each core: a micro-batch leaves one for each."""


_MOVING = ("SlidingWindow", "SlideByTuple", "rank", LANDMARK, FREQUENT)
_STAYING = {BUFFER[0]: "its tuples are buffered"}
"""Styles of synopses whose cells tasks can answer from, and why others' they cannot."""


@dataclass(frozen=True)
class Written:
    """A block that a commit is to name: the panes between which it lies, and which those are where it is known.

    `late`: it is held apart, since it has cells of closed panes and the answers that they correct have been given.
    """

    state: SynopsisState
    ref: BlockRef
    lo: int
    hi: int
    panes: Points | None = None
    late: bool = False

    @property
    def owner(self) -> str:
        """Whose it is."""
        return self.state.late_owner if self.late else self.state.owner

    def occupy(self) -> None:
        """In the Spark home: what has been committed is known to be there."""
        home = self.state.synopsis
        if isinstance(home, StoredSynopsis) and self.panes is not None:
            kept = self.state.kept_from
            panes = self.panes if kept is None else self.panes[self.panes >= kept]
            (home.hold_late if self.late else home.occupy)(panes)


def must_stay(definition: StreamDef, plan: SynopsisPlan, promised: bool) -> str | None:
    """Why a synopsis stays in the driver whatever its size; None where it may go to Spark."""
    if promised or any(p.policy is Policy.BY_SOURCE for p in definition.punctuated):
        return "punctuations close groups early"
    if plan.style[0] in _STAYING:
        return _STAYING[plan.style[0]]
    if plan.partition:
        return "its windows count the rows of each partition"
    return None if plan.style[0] in _MOVING else f"it is of the style '{plan.style[0]}'"


def driver_bytes(state: SynopsisState) -> int:
    """What a synopsis takes in the driver: cells, keys (held twice, and once more to be found), and answering."""
    synopsis = state.synopsis
    assert not isinstance(synopsis, StoredSynopsis)
    return synopsis.nbytes + _group_bytes(state, synopsis.groups)


def weight_of(state: SynopsisState, cells: int) -> Weight:
    """What each of so many cells, and each group, of a synopsis takes in the driver, on average."""
    synopsis = state.synopsis
    assert isinstance(synopsis, BasicIntervalSynopsis)
    groups = synopsis.groups
    return Weight(synopsis.nbytes / max(1, cells), _group_bytes(state, groups) / max(1, groups.count - 1))


def stored_bytes(state: SynopsisState, cells: int) -> float | None:
    """About what a synopsis of the Spark home with so many cells would take in the driver, by what it took there, so
    that it does not leave again at once; None where that is not known. There are no more groups than cells."""
    home = state.synopsis
    assert isinstance(home, StoredSynopsis)
    if home.weight is None:
        return None
    row = _row_bytes(state)
    return max(home.weight.cell, row) * cells + max(home.weight.group, WORKING_ROWS * row) * min(
        home.groups_seen, cells
    )


def _group_bytes(state: SynopsisState, groups: Groups) -> int:
    return 3 * groups.nbytes + WORKING_ROWS * _row_bytes(state) * (groups.count - 1)


def _row_bytes(state: SynopsisState) -> int:
    return 8 * (2 + len(state.plan.keys) + sum(len(fold_of(a).dtypes) for a in state.plan.accumulators))


class Homes:
    """Moves synopses, and keeps the blocks of those in the Spark home."""

    def __init__(self, journal: Journal, blocks: BlockStore, spark: SparkHome):
        self._journal = journal
        self._blocks = blocks
        self.spark = spark

    # -- which home ----------------------------------------------------------------------------

    def settle(self, stream: StreamState, settings: Settings, promised: bool = False) -> None:
        """Move what is in the wrong home, between micro-batches. `promised`: a punctuation of a part of the stream
        is about to be taken in."""
        for state in stream.synopses.values():
            self.settle_one(stream, state, settings, promised)

    def settle_one(self, stream: StreamState, state: SynopsisState, settings: Settings, promised: bool = False) -> None:
        """The same of one synopsis."""
        stored = isinstance(state.synopsis, StoredSynopsis)
        if stored != self._belongs(stream, state, settings, promised):
            (self.to_driver if stored else self.to_spark)(stream, state)

    def _belongs(self, stream: StreamState, state: SynopsisState, settings: Settings, promised: bool) -> bool:
        """Whether a synopsis belongs to the Spark home."""
        stored = isinstance(state.synopsis, StoredSynopsis)
        if not state.plan.queries:
            return stored
        if must_stay(stream.definition, state.plan, promised or bool(stream.promises)) is not None:
            return False
        asked, most = settings.text("synopsis_home"), settings.integer("driver_synopsis_bytes")
        if asked != "auto":
            return asked == "spark"
        if isinstance(state.synopsis, StoredSynopsis):
            state.synopsis.cells = sum(block.rows for block in self.blocks(state))
            takes = stored_bytes(state, state.synopsis.cells)
            return takes is None or takes >= most // BACK_BELOW
        return driver_bytes(state) > most

    # -- the moves -----------------------------------------------------------------------------

    def to_spark(self, stream: StreamState, state: SynopsisState) -> None:
        """Write the cells cut into buckets, a block for each run of panes, so that no second copy of all is held."""
        synopsis = state.synopsis
        assert isinstance(synopsis, BasicIntervalSynopsis)
        home = StoredSynopsis(state.key_types, self.spark.buckets(state.bucketed_by))
        old = [*self.blocks(state), *self._blocks.named(state.late_owner)]
        written = []
        for parts, is_late in ((synopsis.parts(), False), (synopsis.late_parts, True)):
            for cells in parts:
                kept = cells if state.kept_from is None else cells.where(cells.panes >= state.kept_from)
                if len(kept):
                    written.append(self.write(state, home, kept, synopsis.groups, is_late))
        crash_point("home-blocks-written")
        home.weight = weight_of(state, sum(w.ref.rows for w in written))
        home.saw(synopsis.groups.count - 1)
        named, replaced = [(w.ref, w.lo, w.hi) for w in written], [row.id for row in old]
        panes = [w.panes for w in written if w.panes is not None and not w.late]
        late = [w.panes for w in written if w.panes is not None and w.late]
        self._journal.move(state, home, named, replaced, lambda: self._enter(stream, state, home, panes, late))
        crash_point("home-moved")
        log.info("synopsis %d of stream '%s' has moved to Spark", state.plan.id, stream.name)

    def to_driver(self, stream: StreamState, state: SynopsisState) -> None:
        """Take all cells into memory; the blocks stay as they are."""
        back = synopsis_of(state.key_types, _frequent(state))
        load_cells(self._blocks, stream, state, back)

        def enter() -> None:
            state.synopsis = back
            release(stream, state)

        self._journal.move(state, None, [], [], enter)
        crash_point("home-moved")
        self.forget(state)
        log.info("synopsis %d of stream '%s' has moved to the driver", state.plan.id, stream.name)

    def _enter(
        self,
        stream: StreamState,
        state: SynopsisState,
        home: StoredSynopsis,
        panes: Sequence[Points],
        late: Sequence[Points],
    ) -> None:
        for found, take in ((panes, home.occupy), (late, home.hold_late)):
            if found:
                take(np.concatenate(found))
        ticked = stream.ticked.get(state.plan.axis)
        if ticked is not None:
            home.close(state.closed_at(ticked))
        if state.kept_from is not None:
            home.expire(state.kept_from)
        state.synopsis = home

    def recover(
        self, stream: StreamState, state: SynopsisState, buckets: int, weight: Weight | None, groups: int | None
    ) -> None:
        """A synopsis of the Spark home after a restart: which panes are occupied stands in its blocks. Where no number
        of groups was saved, each block is taken to have groups of its own, as those of one micro-batch do."""
        blocks = self.blocks(state)
        panes, late = (
            [panes_in(self._blocks.root / block.path) for block in some]
            for some in (blocks, self._blocks.named(state.late_owner))
        )
        if groups is None:
            groups = sum(-(-block.rows // max(1, held.size)) for block, held in zip(blocks, panes, strict=True))
        self._enter(stream, state, StoredSynopsis(state.key_types, buckets, weight, groups), panes, late)

    def forget(self, state: SynopsisState) -> None:
        """Let go of what tasks were told of a synopsis that has left the Spark home, or is no more."""
        self.spark.forget(state.owner, _lookup_name(state))

    # -- what is asked of it -------------------------------------------------------------------

    def answer(self, state: SynopsisState, lookups: Sequence[Lookup]) -> list[list[Answered]]:
        """What each bucket knows of the windows that queries of the synopsis look up."""
        answered, groups = self._ask(state, state.owner, _told(state), _asked(state, lookups))
        assert isinstance(state.synopsis, StoredSynopsis)
        state.synopsis.saw(groups)
        return answered

    def lookup(self, state: SynopsisState, told: Told, starts: Points, ends: Points) -> list[Answered]:
        """What each bucket knows of windows that someone asks for now."""
        answered, _ = self._ask(state, _lookup_name(state), (told,), [Asked(0, starts, ends)])
        return answered[0]

    def revise(
        self, state: SynopsisState, lookups: Sequence[Lookup], there: Sequence[tuple[Mask, Mask]]
    ) -> list[list[Corrected]]:
        """What each bucket knows of how the cells that are held apart change windows of queries; `there`: those that
        had been answered, and those that are to be."""
        asked = [Revised(one, *masks) for one, masks in zip(_asked(state, lookups), there, strict=True)]
        bounds = _bounds([one.asked for one in asked])
        held, late = (self._between(owner, *bounds) for owner in (state.owner, state.late_owner))
        revision = Revision(self.stored(state, held), self.stored(state, late), tuple(asked))
        return self.spark.revise(revision, state.owner, _told(state), sum(block.rows for block in held))

    def _ask(
        self, state: SynopsisState, name: str, told: tuple[Told, ...], asked: Sequence[Asked]
    ) -> tuple[list[list[Answered]], int]:
        blocks = self._between(state.owner, *_bounds(asked))
        stored, rows = self.stored(state, blocks), sum(block.rows for block in blocks)
        return self.spark.answer(stored, name, told, asked, rows)

    def _between(self, owner: str, low: int, high: int) -> list[BlockRow]:
        """The blocks of an owner that have a pane which starts in [low, high)."""
        found = self._blocks.named(owner)
        return [b for b in found if b.lo is not None and b.hi is not None and b.lo < high and b.hi >= low]

    def totals(self, state: SynopsisState, count: Accumulator, panes: Points, late: bool = False) -> Points:
        """A count of these panes (ascending), all groups and nobody together, of what is held apart or of the rest. Of
        blocks that have such panes two columns are read, a bucket at a time."""
        out = np.zeros(panes.size, np.int64)
        owner = state.late_owner if late else state.owner
        for block in self._between(owner, int(panes[0]), int(panes[-1]) + 1) if panes.size else ():
            for pane, counted in counts_in(self._blocks.root / block.path, f"{count.id}_0"):
                at = np.minimum(np.searchsorted(panes, pane), panes.size - 1)
                known = panes[at] == pane
                np.add.at(out, at[known], counted[known])
        return out

    # -- its blocks ----------------------------------------------------------------------------

    def write(
        self, state: SynopsisState, home: StoredSynopsis, cells: Cells, groups: Groups, late: bool = False
    ) -> Written:
        """Cells that are in the driver, as a block of the Spark home."""
        owner = state.late_owner if late else state.owner
        ref, panes = write_cells(self._blocks.writer, owner, cells, groups, state.bucketed_by, home.buckets)
        return Written(state, ref, int(panes[0]), int(panes[-1]), panes, late)

    def stored(self, state: SynopsisState, blocks: list[BlockRow]) -> Stored:
        """Where a synopsis of the Spark home has its cells, of these blocks."""
        home = state.synopsis
        assert isinstance(home, StoredSynopsis)
        paths = tuple(block.path for block in blocks)
        by, kept = state.bucketed_by, state.kept_from
        return Stored(self.spark.root, state.owner, paths, home.key_types, by, home.buckets, kept, _frequent(state))

    def storing(self, stream: StreamState, groupings: Sequence[Grouping]) -> Storing | None:
        """What the tasks of a micro-batch write themselves; None: nothing."""
        targets, columns = [], cell_columns(groupings, len(progress_columns(stream.definition)))
        for g, grouping in enumerate(groupings):
            state = stream.synopses[grouping.synopsis]
            if isinstance(state.synopsis, StoredSynopsis):
                where = (state.key_types, state.bucketed_by, state.synopsis.buckets)
                targets.append(Target(grouping.synopsis, state.owner, columns[g], *where))
        tops = tuple(stream.frontiers[p.column].greatest for p in stream.definition.punctuated)
        return Storing(self.spark.root, tuple(targets), tops) if targets else None

    def reported(self, stream: StreamState, table: pa.Table) -> list[Written]:
        """The blocks that tasks report in a micro-batch's table. Where answers are revised, one that has a cell of a
        closed pane is held apart as a whole: what it has of open panes is needed by the next tick that closes one, and
        that takes it in first."""
        if WROTE not in table.column_names:
            return []
        out = []
        for one in [Reported.of(text) for text in table.column(WROTE).drop_null().to_pylist()]:
            state, panes = stream.synopses[one.synopsis], panes_in(self._blocks.root / one.ref.path)
            late = stream.definition.revises and _has_closed(stream, state, panes)
            out.append(Written(state, one.ref, one.lo, one.hi, panes, late))
        return out

    def blocks(self, state: SynopsisState) -> list[BlockRow]:
        return self._blocks.named(state.owner)

    def compact(self, stream: StreamState, state: SynopsisState, limit: int) -> None:
        """Fold the small blocks where there are too many: a job of its own, once in a while. Of landmark windows all,
        since what has been answered becomes one cell for each group, and else it would be read at every tick as it
        came."""
        is_landmark = state.plan.style[0] == LANDMARK
        small = [row for row in self.blocks(state) if is_landmark or row.bytes < LARGE_BLOCK_BYTES]
        if len(small) <= max(limit, BLOCKS_PER_CORE * self.spark.cores):
            return
        rows = sum(row.rows for row in small)
        collapse = _collapse(stream, state) if is_landmark else None
        most = max(1, limit // 4)
        made = self.spark.fold(self.stored(state, small), state.plan.accumulators, rows, most, collapse)
        crash_point("compaction-written")
        self._journal.replace_blocks(made, [row.id for row in small])
        stream.metrics.compactions += 1


def _has_closed(stream: StreamState, state: SynopsisState, panes: Points) -> bool:
    """Whether there is a closed pane among those that are still kept."""
    ticked = stream.ticked.get(state.plan.axis)
    if ticked is None:
        return False
    kept = POINT_MIN if state.kept_from is None else state.kept_from
    return bool(((panes >= kept) & (panes < state.closed_at(ticked))).any())


def _collapse(stream: StreamState, state: SynopsisState) -> Collapse | None:
    """What can be one pane of the past of landmark windows: as far as nothing can come into it."""
    ticked = stream.ticked.get(state.plan.axis)
    horizon = None if ticked is None else stream.horizon(state.plan.axis, ticked)
    return None if horizon is None else Collapse(state.closed_at(horizon), stream.landmarks(state))


def _frequent(state: SynopsisState) -> WindowAggregate | None:
    """What has FREQUENT_ITEMS, which has a synopsis of its own."""
    return state.plan.queries[0][1].input if state.plan.style[0] == FREQUENT and state.plan.queries else None


def _told(state: SynopsisState) -> tuple[Told, ...]:
    return tuple(Told(plan, state.plan.derived.get(name, ())) for name, plan in state.plan.queries)


def _asked(state: SynopsisState, lookups: Sequence[Lookup]) -> list[Asked]:
    """Lookups of queries, by their number among those that tasks are told of."""
    numbers = {name: i for i, (name, _) in enumerate(state.plan.queries)}
    return [Asked(numbers[one.query], one.starts, one.ends) for one in lookups]


def _bounds(asked: Sequence[Asked]) -> tuple[int, int]:
    return min(int(one.starts.min()) for one in asked), max(int(one.ends.max()) for one in asked)


def _lookup_name(state: SynopsisState) -> str:
    return f"{state.owner}/lookup"


def load_cells(blocks: BlockStore, stream: StreamState, state: SynopsisState, synopsis: BasicIntervalSynopsis) -> None:
    """All cells of a synopsis from its blocks, closed as far as its axis has ticked, late ones held apart; a block of
    the Spark home that is held apart may have some that are not late."""
    ticked = stream.ticked.get(state.plan.axis)
    closed = POINT_MIN if ticked is None else state.closed_at(ticked)
    for owner in (state.owner, state.late_owner):
        for block in blocks.named(owner):
            cells = from_block(blocks.read(block.path), state.plan.accumulators, synopsis.groups)
            cells = cells if state.kept_from is None else cells.where(cells.panes >= state.kept_from)
            if owner == state.late_owner:
                late = cells.panes < closed
                synopsis.deposit_late(cells.where(late))
                cells = cells.where(~late)
            synopsis.deposit(cells)
    if ticked is not None:
        synopsis.close(closed)
