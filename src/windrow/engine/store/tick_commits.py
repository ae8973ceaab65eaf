"""Commits of tick batches: answers, stages of sinks, expired cells, merged late cells, and promises."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockRef, BlockStore
from windrow.engine.progress import QueryProgress, SynopsisProgress
from windrow.engine.state import CommittedState, QueryState, StreamState, SynopsisState, UnpublishedStage
from windrow.engine.store.answers_kept import AnswersKept
from windrow.engine.store.progress_rows import ProgressRows
from windrow.engine.store.run_metrics import query_counters, saved_metrics
from windrow.windows.promises import Promises


@dataclass(frozen=True)
class AnswerPart:
    """One query's share of a tick batch: its counts, and the part of the answers block that holds its rows.

    `revised`: the end and the revision number of each corrected window. `waiting`: the `WaitingEntry` of answers that
    nobody has taken.
    """

    query: QueryState
    windows: int
    rows: int
    overflows: int
    last_end: int | None
    stored: tuple[int, int, int, int, int] | None
    staged: str | None
    revised: tuple[tuple[int, int], ...] = ()
    waiting: str | None = None


@dataclass(frozen=True)
class Expiry:
    """The cells of a synopsis below a point expire; `ranked` is the new number of tuples in expired panes."""

    state: SynopsisState
    below: int | None
    ranked: int


@dataclass(frozen=True)
class LateMerge:
    """All late cells of a synopsis are merged; `ranked` is its new value. No later tuple can correct a window whose end
    is below `revised_from` (None: no such bound)."""

    state: SynopsisState
    ranked: int
    revised_from: int | None


@dataclass(frozen=True)
class PromiseUpdate:
    """The promises after a tick. `settled` queries have now answered the groups that were closed before their creation;
    `complete_from` has the point from which each synopsis has all groups."""

    promises: Promises
    settled: tuple[QueryState, ...] = ()
    complete_from: tuple[tuple[SynopsisState, int | None], ...] = ()


@dataclass(frozen=True)
class TickCommit:
    """A tick batch of an axis, up to `ticked` (None: no window was due). `block` holds the retained answers, `keep`
    rows per query; `waiting` those that nobody has taken yet."""

    axis: str
    ticked: int | None
    parts: Sequence[AnswerPart] = ()
    block: BlockRef | None = None
    expired: Sequence[Expiry] = ()
    applied: Sequence[LateMerge] = ()
    left: PromiseUpdate | None = None
    keep: int = 0
    waiting: BlockRef | None = None


class TickCommits:
    """Commits tick batches, each in one transaction."""

    def __init__(self, catalog: Catalog, blocks: BlockStore, rows: ProgressRows, answers: AnswersKept):
        self._catalog = catalog
        self._blocks = blocks
        self._rows = rows
        self._answers = answers

    def tick(self, stream: StreamState, commit: TickCommit) -> CommittedState:
        """Commit a tick batch."""
        promises = stream.promises if commit.left is None else commit.left.promises
        after = stream.progress.after_tick(commit.axis, commit.ticked, promises)
        with self._catalog.transaction() as tx:
            self._rows.save(stream.name, stream.progress, after)
            tx.execute("UPDATE streams SET metrics = ? WHERE name = ?", (saved_metrics(stream), stream.name))
            unpublished = self._answer(stream, commit)
            for gone in commit.expired:
                self._expire(gone)
            for taken in commit.applied:
                self._apply(taken)
            if commit.left is not None:
                self._leave(commit.left)
        synopses, queries = _synopses_after(commit), _queries_after(commit)
        return CommittedState(after, (*stream.unpublished, *unpublished), synopses, queries)

    def _answer(self, stream: StreamState, commit: TickCommit) -> list[UnpublishedStage]:
        """Save the answers, and return the stages to publish."""
        tx, staged = self._catalog, []
        stored = [part for part in commit.parts if part.stored is not None]
        block_id = self._blocks.add(commit.block, refs=len(stored)) if commit.block is not None and stored else None
        undelivered = [part for part in commit.parts if part.waiting is not None]
        waiting_id = self._blocks.add(commit.waiting, refs=len(undelivered)) if commit.waiting is not None else None
        for part in commit.parts:
            self._count(part)
            if part.stored is not None and block_id is not None:
                self._answers.add(part.query.id, block_id, part.stored, part.rows, commit.keep)
            entry, block = (part.staged, None) if part.waiting is None else (part.waiting, waiting_id)
            if entry is not None:
                cursor = tx.execute(
                    "INSERT INTO outbox (query, seq, entry, block) VALUES (?, ?, ?, ?)",
                    (part.query.id, stream.tick_seq, entry, block),
                )
                staged.append(UnpublishedStage(part.query, entry, int(cursor.lastrowid or 0), block))
        return staged

    def _count(self, part: AnswerPart) -> None:
        tx, query = self._catalog, part.query
        tx.execute(
            "UPDATE queries SET answers = answers + ?, answer_rows = answer_rows + ?, overflows = overflows + ?,"
            " last_end = ?, run_windows = ?, run_rows = ?, delivered_s = ?, callback_errors = ?, callback_error = ?"
            " WHERE id = ?",
            (
                *(part.windows, part.rows, part.overflows, part.last_end),
                *query_counters(query, part.windows, part.rows),
                query.id,
            ),
        )
        tx.executemany(
            "INSERT INTO revisions VALUES (?, ?, ?) ON CONFLICT (query, window_end) DO UPDATE"
            " SET revision = excluded.revision",
            [(query.id, end, revision) for end, revision in part.revised],
        )

    def _expire(self, gone: Expiry) -> None:
        tx, seen = self._catalog, gone.state.synopsis.groups_seen
        tx.execute(
            "UPDATE synopses SET kept_from = ?, ranked = ?, groups_seen = ? WHERE id = ?",
            (gone.below, gone.ranked, seen, gone.state.plan.id),
        )
        rows = tx.rows("SELECT id FROM blocks WHERE owner = ? AND hi < ?", (gone.state.owner, gone.below))
        for row in rows:
            self._blocks.release(row["id"])

    def _leave(self, left: PromiseUpdate) -> None:
        tx = self._catalog
        tx.executemany("UPDATE queries SET fresh = 0 WHERE id = ?", [(query.id,) for query in left.settled])
        tx.executemany(
            "UPDATE synopses SET complete_from = ? WHERE id = ?",
            [(point, state.plan.id) for state, point in left.complete_from if point != state.complete_from],
        )

    def _apply(self, taken: LateMerge) -> None:
        tx, state = self._catalog, taken.state
        tx.execute("UPDATE blocks SET owner = ? WHERE owner = ?", (state.owner, state.late_owner))
        tx.execute("UPDATE synopses SET ranked = ? WHERE id = ?", (taken.ranked, state.plan.id))
        if taken.revised_from is not None:
            tx.execute(
                "DELETE FROM revisions WHERE window_end < ? AND query IN (SELECT id FROM queries WHERE synopsis = ?)",
                (taken.revised_from, state.plan.id),
            )

    # -- what was committed --------------------------------------------------------------------

    def revisions(self, query: QueryState, first: int, last: int) -> dict[int, int]:
        """The number of corrections of each corrected window that ends in [first, last], by its end."""
        rows = self._catalog.rows(
            "SELECT window_end, revision FROM revisions WHERE query = ? AND window_end BETWEEN ? AND ?",
            (query.id, first, last),
        )
        return {row["window_end"]: row["revision"] for row in rows}

    def published(self, stream: StreamState, outbox: Collection[int]) -> CommittedState:
        """Remove published stages, and answers that were handed over, from the outbox."""
        with self._catalog.transaction() as tx:
            tx.executemany("DELETE FROM outbox WHERE id = ?", [(i,) for i in sorted(outbox)])
            for item in stream.unpublished:
                if item.outbox in outbox and item.block is not None:
                    self._blocks.release(item.block)
        left = tuple(item for item in stream.unpublished if item.outbox not in outbox)
        return CommittedState(stream.progress, left)

    def outbox(self) -> list[tuple[int, int, str, int | None]]:
        """What sinks are to show, in order: number, query, the entry, and the block of answers that wait."""
        rows = self._catalog.rows("SELECT id, query, entry, block FROM outbox ORDER BY id")
        return [(row["id"], row["query"], row["entry"], row["block"]) for row in rows]


def _synopses_after(commit: TickCommit) -> tuple[tuple[SynopsisState, SynopsisProgress], ...]:
    changed: dict[int, tuple[SynopsisState, SynopsisProgress]] = {}

    def before(state: SynopsisState) -> SynopsisProgress:
        return changed.get(state.plan.id, (state, state.progress))[1]

    for gone in commit.expired:
        changed[gone.state.plan.id] = gone.state, before(gone.state).expired(gone.below, gone.ranked)
    for taken in commit.applied:
        changed[taken.state.plan.id] = taken.state, replace(before(taken.state), ranked=taken.ranked)
    for state, point in commit.left.complete_from if commit.left is not None else ():
        changed[state.plan.id] = state, replace(before(state), complete_from=point)
    return tuple(changed.values())


def _queries_after(commit: TickCommit) -> tuple[tuple[QueryState, QueryProgress], ...]:
    changed: dict[int, tuple[QueryState, QueryProgress]] = {}
    for part in commit.parts:
        changed[part.query.id] = part.query, part.query.progress.answered(part.last_end)
    for query in commit.left.settled if commit.left is not None else ():
        progress = changed.get(query.id, (query, query.progress))[1]
        changed[query.id] = query, replace(progress, fresh=False)
    return tuple(changed.values())
