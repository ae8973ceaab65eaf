"""Commits of micro-batches and of punctuations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockRef, BlockStore
from windrow.dataplane.ingest.admission import LATE, Admission
from windrow.dataplane.ingest.deposit import Deposit
from windrow.dataplane.sources.columns.source_columns import SourceColumns
from windrow.engine.state import CommittedState, StreamState
from windrow.engine.store.dead_letters import DeadLetters
from windrow.engine.store.progress_rows import ProgressRows
from windrow.engine.store.run_metrics import saved_metrics
from windrow.settings import Settings
from windrow.windows.lateness import Lateness
from windrow.windows.promises import Announcement


@dataclass(frozen=True)
class DepositCommit:
    """A micro-batch: its deposit, its punctuations, and its blocks (owner, block, first and last pane)."""

    batch_id: int
    deposit: Deposit
    announced: Announcement
    lateness: Mapping[str, Lateness]
    blocks: tuple[tuple[str, BlockRef, int, int], ...]
    admission: Admission
    settings: Settings
    columns: SourceColumns = field(default_factory=SourceColumns)
    oversized: Mapping[int, int] = field(default_factory=dict)
    """By query: how many of its values were NULL by the bound `max_value_bytes`."""

    @property
    def has_arrived(self) -> bool:
        """Whether the source sent anything: tuples, dead letters or punctuations."""
        return bool(self.deposit.admitted or self.deposit.dead or self.announced != Announcement())


@dataclass(frozen=True)
class PunctuationCommit:
    """Punctuations by hand, the end of the input (`greatest`: the greatest points, by axis) or heartbeats (`silent`:
    the silence counted, by axis)."""

    announced: Announcement
    greatest: Mapping[str, int] | None = None
    silent: Mapping[str, int] | None = None


class DepositCommits:
    """Commits micro-batches and punctuations, each in one transaction."""

    def __init__(self, catalog: Catalog, blocks: BlockStore, rows: ProgressRows, dead_letters: DeadLetters):
        self._catalog = catalog
        self._blocks = blocks
        self._rows = rows
        self._dead_letters = dead_letters

    def deposit(self, stream: StreamState, commit: DepositCommit) -> CommittedState:
        """Commit the blocks of a micro-batch and the progress of the stream."""
        new, before = commit.deposit, stream.progress
        after = before.after_deposit(
            commit.batch_id,
            new.seen,
            new.least,
            commit.announced,
            commit.lateness,
            commit.has_arrived,
            commit.columns,
        )
        late = sum(d.count for d in new.dead if d.reason == LATE)
        dead = sum(d.count for d in new.dead)
        with self._catalog.transaction() as tx:
            for owner, ref, lo, hi in commit.blocks:
                self._blocks.add(ref, lo, hi, owner=owner)
            tx.execute(
                "UPDATE streams SET admitted = admitted + ?, late = late + ?, dead = dead + ?, metrics = ?"
                " WHERE name = ?",
                (new.admitted, late, dead, saved_metrics(stream, batches=1, rows=new.admitted), stream.name),
            )
            for query, count in commit.oversized.items():
                tx.execute("UPDATE queries SET overflows = overflows + ? WHERE id = ?", (count, query))
            self._rows.save(stream.name, before, after)
            if new.dead:
                self._dead_letters.add(stream.definition, commit.batch_id, new.dead, commit.admission, commit.settings)
        return CommittedState(after, stream.unpublished)

    def punctuate(self, stream: StreamState, commit: PunctuationCommit) -> CommittedState:
        """Commit the frontiers and promises of the stream."""
        after = stream.progress.after_punctuation(commit.announced, commit.greatest, commit.silent)
        with self._catalog.transaction():
            self._rows.save(stream.name, stream.progress, after)
        return CommittedState(after, stream.unpublished)
