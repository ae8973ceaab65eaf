"""The two homes of a synopsis, the driver's memory and Spark: the choice, the moves, and the blocks it writes.

A synopsis moves between micro-batches, in one commit that replaces its blocks, so it is always wholly in one home. A
block of the Spark home can be read whole like any other, so the move back loads blocks as recovery does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.catalog.definitions import StreamDef
from windrow.cql.statements import Policy
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockRef, BlockStore, panes_in
from windrow.dataplane.blocks.store import BlockRow
from windrow.dataplane.ingest.grouping import Grouping, progress_columns
from windrow.dataplane.ingest.grouping_sets import cell_columns
from windrow.dataplane.kernels import WROTE, BlockReport, StoreRequest, StoreTarget, write_cells
from windrow.dataplane.memory import give_back
from windrow.dataplane.spark_home import SparkHome
from windrow.engine.state import StreamState, SynopsisState
from windrow.engine.store.closed_groups import release
from windrow.engine.store.journal import Journal
from windrow.engine.store.spark_synopsis import SparkStore, SparkSynopsis, frequent_of
from windrow.logs import log_event
from windrow.settings import Settings
from windrow.synopses import Ability, Cells, Home, Synopsis, Weight
from windrow.synopses.cells.blocks import from_block, to_block
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.groups import Groups
from windrow.synopses.holistic.frequent_panes import synopsis_of
from windrow.types import POINT_MIN
from windrow.windows import Points

BACK_BELOW = 4
"""A synopsis moves back to the driver when it takes less than a BACK_BELOW-th of what it may take there."""


@dataclass(frozen=True)
class PendingBlock:
    """A written block that is not committed yet, with its first and last pane, and all its panes if they are known.

    `late`: it has cells of closed panes that correct given answers, so it is kept apart until a tick merges it.
    """

    state: SynopsisState
    ref: BlockRef
    lo: int
    hi: int
    panes: Points | None = None
    late: bool = False

    @property
    def owner(self) -> str:
        return self.state.late_owner if self.late else self.state.owner

    def occupy(self) -> None:
        """Add the panes of a block that tasks wrote to the synopsis, after the commit."""
        assert self.panes is not None
        self.state.synopsis.occupy(self.panes, self.late)


def must_stay(definition: StreamDef, synopsis: Synopsis, promised: bool) -> str | None:
    """Why a synopsis must stay in the driver whatever its size; None if it may move to Spark."""
    if promised or any(p.policy is Policy.BY_SOURCE for p in definition.punctuated):
        return "punctuations close groups early"
    return synopsis.cannot(Ability.MOVE)


def row_bytes(state: SynopsisState) -> int:
    """The bytes of a cell, by its columns."""
    return 8 * (2 + len(state.plan.keys) + sum(len(fold_of(a).dtypes) for a in state.plan.accumulators))


class Homes:
    """Moves synopses between the homes, and writes their blocks."""

    def __init__(self, journal: Journal, blocks: BlockStore, spark: SparkHome):
        self._journal = journal
        self._blocks = blocks
        self.spark = spark

    # -- which home ----------------------------------------------------------------------------

    def settle(self, stream: StreamState, settings: Settings, promised: bool = False) -> None:
        """Move each synopsis to the home it belongs to, between micro-batches. `promised`: a punctuation about a part
        of the stream is about to be committed."""
        for state in stream.synopses.values():
            self.settle_one(stream, state, settings, promised)

    def settle_one(self, stream: StreamState, state: SynopsisState, settings: Settings, promised: bool = False) -> None:
        """Move one synopsis to the home it belongs to."""
        home, belongs = state.synopsis.home, self._belongs(stream, state, settings, promised)
        if home is not belongs:
            (self.to_spark if belongs is Home.SPARK else self.to_driver)(stream, state)

    def _belongs(self, stream: StreamState, state: SynopsisState, settings: Settings, promised: bool) -> Home:
        synopsis = state.synopsis
        if not state.plan.queries:
            return synopsis.home
        if must_stay(stream.definition, synopsis, promised or bool(stream.promises)) is not None:
            return Home.DRIVER
        setting, most = settings.text("synopsis_home"), settings.integer("driver_synopsis_bytes")
        if setting != "auto":
            return Home.SPARK if setting == "spark" else Home.DRIVER
        if synopsis.home is Home.SPARK:
            synopsis.cells = sum(block.rows for block in self.blocks(state))
        takes = synopsis.driver_bytes(row_bytes(state))
        if takes is None:
            return Home.SPARK
        too_much = takes >= most // BACK_BELOW if synopsis.home is Home.SPARK else takes > most
        return Home.SPARK if too_much else Home.DRIVER

    # -- the moves -----------------------------------------------------------------------------

    def to_spark(self, stream: StreamState, state: SynopsisState) -> None:
        """Write the cells cut into buckets, one block per run of panes, so that memory holds no second copy of all."""
        synopsis, buckets = state.synopsis, self.spark.buckets(state.bucketed_by)
        old = [*self.blocks(state), *self._blocks.named(state.late_owner)]
        written = []
        for parts, is_late in ((synopsis.parts(), False), (synopsis.late_parts, True)):
            for cells in parts:
                kept = cells if state.kept_from is None else cells.where(cells.panes >= state.kept_from)
                if len(kept):
                    written.append(self._write_bucketed(state, kept, synopsis.groups, buckets, is_late))
        crash_point("home-blocks-written")
        weight = synopsis.weight(row_bytes(state), sum(w.ref.rows for w in written))
        home = SparkSynopsis(self._store(state), state.plan, buckets, weight, synopsis.groups.count - 1)
        named, replaced = [(w.ref, w.lo, w.hi) for w in written], [row.id for row in old]
        panes = [w.panes for w in written if w.panes is not None and not w.late]
        late = [w.panes for w in written if w.panes is not None and w.late]
        self._journal.moves.move(state, home, named, replaced, lambda: _enter(stream, state, home, panes, late))
        crash_point("home-moved")
        _log_move(stream, state, Home.SPARK)

    def to_driver(self, stream: StreamState, state: SynopsisState) -> None:
        """Load all cells into memory; the blocks stay."""
        back = synopsis_of(state.key_types, frequent_of(state.plan))
        load_cells(self._blocks, stream, state, back)

        def enter() -> None:
            state.synopsis = back
            release(stream, state)

        self._journal.moves.move(state, None, [], [], enter)
        crash_point("home-moved")
        self.forget(state)
        _log_move(stream, state, Home.DRIVER)

    def recover(
        self, stream: StreamState, state: SynopsisState, buckets: int, weight: Weight | None, groups: int | None
    ) -> None:
        """Restore a synopsis of the Spark home after a restart; its blocks tell the occupied panes. If no number of
        groups was saved, the groups of all blocks are taken to be different, as those of one micro-batch are."""
        blocks = self.blocks(state)
        panes, late = (
            [panes_in(self._blocks.root / block.path) for block in some]
            for some in (blocks, self._blocks.named(state.late_owner))
        )
        if groups is None:
            groups = sum(-(-block.rows // max(1, held.size)) for block, held in zip(blocks, panes, strict=True))
        home = SparkSynopsis(self._store(state), state.plan, buckets, weight, groups)
        _enter(stream, state, home, panes, late)

    def forget(self, state: SynopsisState) -> None:
        """Release the broadcasts of a synopsis that has left the Spark home or was dropped."""
        self._store(state).forget()

    def _store(self, state: SynopsisState) -> SparkStore:
        return SparkStore(self._blocks, self.spark, state.owner, state.late_owner)

    # -- the blocks ----------------------------------------------------------------------------

    def write(
        self, state: SynopsisState, cells: Cells, groups: Groups, rows: tuple[int, int], late: bool = False
    ) -> PendingBlock:
        """Write cells of these row numbers as a block, in the form of the synopsis's home."""
        if state.synopsis.buckets is not None:
            return self._write_bucketed(state, cells, groups, state.synopsis.buckets, late)
        ref = self._blocks.write(state.late_owner if late else state.owner, to_block(cells, groups))
        return PendingBlock(state, ref, *state.synopsis.span(cells, rows), late=late)

    def _write_bucketed(
        self, state: SynopsisState, cells: Cells, groups: Groups, buckets: int, late: bool = False
    ) -> PendingBlock:
        owner = state.late_owner if late else state.owner
        ref, panes = write_cells(self._blocks.writer, owner, cells, groups, state.bucketed_by, buckets)
        return PendingBlock(state, ref, int(panes[0]), int(panes[-1]), panes, late)

    def storing(self, stream: StreamState, groupings: Sequence[Grouping]) -> StoreRequest | None:
        """What the tasks of a micro-batch write themselves; None if no synopsis is in the Spark home."""
        targets, columns = [], cell_columns(groupings, len(progress_columns(stream.definition)))
        for g, grouping in enumerate(groupings):
            state = stream.synopses[grouping.synopsis]
            buckets = state.synopsis.buckets
            if buckets is not None:
                where = (state.key_types, state.bucketed_by, buckets)
                targets.append(StoreTarget(grouping.synopsis, state.owner, columns[g], *where))
        tops = tuple(stream.frontiers[p.column].greatest for p in stream.definition.punctuated)
        return StoreRequest(self.spark.root, tuple(targets), tops) if targets else None

    def reported(self, stream: StreamState, table: pa.Table) -> list[PendingBlock]:
        """The blocks that tasks report in the table of a micro-batch. With LATE REVISE, a block with a cell of a closed
        pane is late as a whole. Its cells of open panes are not missed: the next tick merges late blocks first."""
        if WROTE not in table.column_names:
            return []
        out = []
        for one in [BlockReport.of(text) for text in table.column(WROTE).drop_null().to_pylist()]:
            state, panes = stream.synopses[one.synopsis], panes_in(self._blocks.root / one.ref.path)
            late = stream.definition.revises and _has_closed(stream, state, panes)
            out.append(PendingBlock(state, one.ref, one.lo, one.hi, panes, late))
        return out

    def blocks(self, state: SynopsisState) -> list[BlockRow]:
        return self._blocks.named(state.owner)


def _has_closed(stream: StreamState, state: SynopsisState, panes: Points) -> bool:
    """Whether one of the panes is closed and not expired."""
    ticked = stream.ticked.get(state.plan.axis)
    if ticked is None:
        return False
    kept = POINT_MIN if state.kept_from is None else state.kept_from
    return bool(((panes >= kept) & (panes < state.closed_at(ticked))).any())


def _enter(
    stream: StreamState, state: SynopsisState, home: SparkSynopsis, panes: Sequence[Points], late: Sequence[Points]
) -> None:
    for found, is_late in ((panes, False), (late, True)):
        if found:
            home.occupy(np.concatenate(found), is_late)
    ticked = stream.ticked.get(state.plan.axis)
    if ticked is not None:
        home.close(state.closed_at(ticked))
    if state.kept_from is not None:
        home.expire(state.kept_from)
    state.synopsis = home


def load_cells(blocks: BlockStore, stream: StreamState, state: SynopsisState, synopsis: Synopsis) -> None:
    """Load all cells of a synopsis from its blocks; close panes up to the last tick, and keep late cells apart. A late
    block of the Spark home may have cells that are not late."""
    ticked = stream.ticked.get(state.plan.axis)
    closed = POINT_MIN if ticked is None else state.closed_at(ticked)
    for owner in (state.owner, state.late_owner):
        for block in blocks.named(owner):
            cells = from_block(blocks.read(block.path), state.plan.accumulators, synopsis.groups)
            cells = cells if state.kept_from is None else cells.where(cells.panes >= state.kept_from)
            if owner == state.late_owner:
                late = synopsis.is_late(cells, closed)
                synopsis.hold_late(cells.where(late))
                cells = cells.where(~late)
            synopsis.restore(cells, ticked is not None and (block.hi or 0) < ticked)
    if ticked is not None:
        synopsis.close(closed)


def give_back_memory(stream: StreamState) -> None:
    """Give freed memory back to the system if some synopsis is in the Spark home. Otherwise reallocating costs more: a
    sixth of the time of 100 queries."""
    if any(state.synopsis.home is Home.SPARK for state in list(stream.synopses.values())):
        give_back()


def _log_move(stream: StreamState, state: SynopsisState, home: Home) -> None:
    log_event(
        "synopsis_moved",
        "shared state {synopsis} of stream '{stream}' has moved, and is kept in: {home}",
        stream=stream.name,
        synopsis=state.plan.id,
        home=home.value,
    )
