"""Takes a micro-batch in: one Spark job, then one commit.

`foreachBatch` calls `deposit`, which is idempotent by batch id. A tuple is late if it is below the frontier at the end
of the previous micro-batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from windrow.clock import Clock
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockStore, BlockWriter
from windrow.dataplane.ingest import job as ingest
from windrow.dataplane.ingest.admission import Admission, AxisBound, Reach
from windrow.dataplane.ingest.bad_text import is_placed
from windrow.dataplane.ingest.deposit import DeadLetter, Deposit
from windrow.dataplane.ingest.gathering import deposit_of_rows, gathered_columns
from windrow.dataplane.ingest.grouping import Grouping, partial_columns
from windrow.dataplane.ingest.grouping_sets import deposit_of_groups
from windrow.dataplane.ingest.job import MicroBatch
from windrow.dataplane.ingest.keeping import keep_gathered
from windrow.dataplane.ingest.lines import with_places
from windrow.dataplane.ingest.observed import lateness_after
from windrow.dataplane.jobs import INGEST, in_pool
from windrow.dataplane.jvm import Jvm
from windrow.dataplane.kernels import KeepRequest, reported
from windrow.dataplane.sources.bad_files import bad_file
from windrow.dataplane.sources.columns.source_columns import SourceColumns
from windrow.dataplane.stores import KeptFile
from windrow.engine.choices.chooser import possible_setting
from windrow.engine.intake.compaction import Compactor
from windrow.engine.intake.oversized import OversizedColumn, OversizedCounts, counts_by_query
from windrow.engine.intake.punctuations import split_punctuations
from windrow.engine.intake.trials import Trials
from windrow.engine.kept.store_entries import StoreReader
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.store.deposit_commits import DepositCommit
from windrow.engine.store.homes import Homes, PendingBlock
from windrow.engine.store.journal import Journal
from windrow.errors import ExecutionError, SparkEndedError, first_line
from windrow.logs import log_event, logs_events
from windrow.optimizer.sharing.derivations import read_of
from windrow.optimizer.sharing.synopsis_plans import schedule_for
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import ROW_NUM
from windrow.settings import Settings
from windrow.synopses import Cells, Home
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.ranks import Ranks
from windrow.types import POINT_MIN
from windrow.windows import SlidingWindow, Window

log = logging.getLogger("windrow")


class Depositor:
    """Adds micro-batches to the synopses, on disk and in memory, and to the window stores."""

    def __init__(
        self, journal: Journal, blocks: BlockStore, clock: Clock, homes: Homes, jvm: Jvm, stores: WindowStores
    ):
        self._jvm = jvm
        self._stores = stores
        self._journal = journal
        self._blocks = blocks
        self._clock = clock
        self._homes = homes
        self._compactor = Compactor(journal, blocks, homes.spark)
        self._trials = Trials(journal)
        self._oversized = OversizedCounts()

    @in_pool(INGEST)
    def deposit(
        self,
        stream: StreamState,
        df: Any,
        batch_id: int,
        settings: Settings,
        columnar: bool,
        size: int | None = None,
        skipped: Sequence[DeadLetter] = (),
        columns: SourceColumns | None = None,
        places: Callable[[], Any] | None = None,
    ) -> bool:
        """Take in one micro-batch; return False if it was taken in before a restart. `size` is its size in bytes, used
        where Spark has no estimate. `skipped` are files that it leaves out. `columns` is what is known of the source's
        columns after it; None if it says nothing of them. `places` reads its rows again, with their places in files."""
        with stream.batch_lock:
            if batch_id <= stream.last_batch:
                return False
            admission = self._admission(stream, settings)
            batch = MicroBatch(df, stream.definition, admission, not columnar, places)
            started = time.monotonic()
            with self._tried(stream, batch, settings):
                ran = self._attempt(stream, batch, settings, size)
            mode, groupings = ran.mode, ran.groupings
            job_s = time.monotonic() - started
            stream.metrics.job_s += job_s
            table, kept = _kept(ran, self._blocks.writer)
            with stream.lock:
                started = time.monotonic()
                groups = {g.synopsis: stream.synopses[g.synopsis].synopsis.batch_groups() for g in groupings}
                blocks = self._homes.reported(stream, table)
                deposit = self._preaggregate(stream, table, mode, groupings, groups, admission)
                deposit, announced, malformed = split_punctuations(deposit, stream.definition)
                if columnar and deposit.dead:
                    batch = batch.placed()
                    deposit = self._with_records(batch, deposit, settings)
                before = {axis: frontier.greatest for axis, frontier in stream.frontiers.items()}
                lateness = lateness_after(table, stream.definition, groupings, mode, before, stream.lateness)
                dead = (
                    with_places(deposit.dead, stream.definition)
                    if is_placed(batch.source, stream.definition)
                    else deposit.dead
                )
                deposit = replace(deposit, dead=(*dead, *malformed, *skipped))
                oversized = counts_by_query(ran.counted, deposit.oversized)
                known = stream.progress.columns if columns is None else columns
                commit = DepositCommit(
                    batch_id, deposit, announced, lateness, (), admission, settings, known, oversized
                )
                self._commit(stream, commit, groups, blocks, kept)
                self._trials.end(stream, stream.active if deposit.admitted else ())
                stored = sum(block.ref.rows for block in blocks)
                self._measure(stream, deposit.admitted, deposit.cell_count + stored, kept, ran)
                apply_s = time.monotonic() - started
                stream.metrics.apply_s += apply_s
            if logs_events():
                _log_batch(stream, batch_id, deposit, mode, job_s, apply_s)
            return True

    @contextmanager
    def _tried(self, stream: StreamState, batch: MicroBatch, settings: Settings) -> Iterator[None]:
        """Mark the queries whose expressions no micro-batch has used yet, and try suspects alone before."""
        untried = [query for query in stream.active if not query.tried]
        try:
            for query in [query for query in untried if query.id in stream.suspects]:
                self._trials.begin_alone(stream, query)
                why = self._trial(stream, batch, query, settings)
                if why is not None:
                    self._jvm.raise_if_lost(ExecutionError(why))
            if untried:
                self._trials.begin(stream, untried)
            yield
        except SparkEndedError:
            self._trials.jvm_ended(stream)
            raise
        except BaseException:
            self._trials.end(stream)
            raise

    def _attempt(self, stream: StreamState, batch: MicroBatch, settings: Settings, size: int | None) -> _Ran:
        """Run the micro-batch; if queries fail, without them."""
        try:
            return self._once(stream, batch, settings, size)
        except Exception as error:
            self._jvm.raise_if_lost(error)
            if bad_file(error) is not None:
                raise  # no query is to blame
            self._suspend_guilty(stream, batch, error, settings)
        try:
            return self._once(stream, batch, settings, size)
        except Exception as error:
            self._jvm.raise_if_lost(error)
            raise

    def _once(self, stream: StreamState, batch: MicroBatch, settings: Settings, size: int | None) -> _Ran:
        most = settings.integer("max_value_bytes")
        groupings = [replace(grouping, max_value_bytes=most) for grouping in stream.groupings()]
        counted = self._oversized.columns(stream.active, most)
        keeping = self._stores.keeping(stream, most) if stream.readers else None
        batch = replace(batch, oversized=tuple(column.sql for column in counted), keeping=keeping)
        return _Ran(*self._run(stream, batch, groupings, settings, size), groupings, counted, keeping)

    def _admission(self, stream: StreamState, settings: Settings) -> Admission:
        ahead = settings["max_future"]
        latest = None if ahead == "off" else self._clock.now_us() + int(ahead)
        bounds = tuple(
            AxisBound(p, stream.frontiers[p.column].value, latest if p.type.is_timestamp else None)
            for p in stream.definition.punctuated
        )
        rows = stream.frontiers[ROW_NUM]
        ended = (rows.promised or 0) > stream.numbered + 1
        return Admission(bounds, stream.numbered, ended, _excused(stream, settings), tuple(stream.promises))

    def _run(
        self,
        stream: StreamState,
        batch: MicroBatch,
        groupings: list[Grouping],
        settings: Settings,
        size: int | None,
    ) -> tuple[pa.Table, str, int | None]:
        """The table of the micro-batch, where it was grouped, and the estimated bytes of a gather."""
        ordered = any(g.needs_order for g in groupings) or (batch.keeping is not None and batch.keeping.needs_order)
        batch = batch.placed() if ordered else batch
        ranks = _ranks(stream, groupings)
        sketched = any(g.is_sketched for g in groupings)
        setting = possible_setting(settings.text("preaggregate"), sum(one.nbytes for one in ranks.values()), sketched)
        gather, estimate = None, None
        if setting != "spark":
            gather = batch.gathered(groupings)
            estimate = ingest.estimated_bytes(gather.frame)
            estimate = size if estimate is None else estimate
        limit = settings.integer("gather_bytes")
        partials = len(partial_columns(groupings))
        storing = self._homes.storing(stream, groupings)
        mode = stream.chooser.choose(setting, estimate, limit, len(groupings), ordered, partials, storing is not None)
        if mode == "driver" and gather is not None:
            return batch.gather(gather), mode, estimate
        with stream.lock:
            counts = {synopsis: one.known() for synopsis, one in ranks.items()}
        return ingest.run(batch.grouped(groupings, counts, storing)), "spark", estimate

    def _suspend_guilty(self, stream: StreamState, batch: MicroBatch, error: Exception, settings: Settings) -> None:
        """Suspend the queries whose own expressions fail. Raise if the stream itself fails."""
        is_stopping = stream.stopping.is_set()
        active = [] if is_stopping else stream.active
        readers = [] if is_stopping else self._stores.readers(stream)
        tried = [(query, self._trial(stream, batch, query, settings)) for query in active]
        guilty = [(query, why) for query, why in tried if why is not None]
        kept = [(reader, self._trial_of(stream, batch, reader, settings)) for reader in readers]
        failing = [(reader, why) for reader, why in kept if why is not None]
        if guilty or failing:
            self._jvm.raise_if_lost(error)
        innocent = not (guilty or failing) or stream.stopping.is_set()
        everyone = len(guilty) + len(failing) == len(active) + len(readers)
        if innocent or everyone and not self._readable(batch):
            raise self._failed(stream, batch, error) from error
        for query, why in guilty:
            self._journal.suspend(stream, query, why)
        for reader, why in failing:
            self._stores.suspend(reader.name, why)

    def _trial_of(self, stream: StreamState, batch: MicroBatch, reader: StoreReader, settings: Settings) -> str | None:
        """Why the columns that are kept for a reader cannot be computed; None if they do not fail twice in a row."""
        keeping = self._stores.keeping(stream, settings.integer("max_value_bytes"))
        assert keeping is not None
        keys = [key for spec in keeping.stores if spec.id == reader.store for key in spec.keys]
        predicate = [] if reader.predicate is None else [reader.predicate]
        batch, why = replace(batch, keeping=keeping), None
        for _ in range(2):
            try:
                ingest.run(batch.computed((*reader.columns, *keys, *predicate)))
                return None
            except Exception as failure:
                why = _reason(failure)
        return why

    def _failed(self, stream: StreamState, batch: MicroBatch, error: Exception) -> ExecutionError:
        """The error of a micro-batch that fails although each query alone succeeds."""
        if not ingest.is_refused(error) or not self._readable(batch):
            return ExecutionError(
                f"a micro-batch of stream '{stream.name}' failed: {_reason(error)}",
                remedy="Fix the source; the micro-batch is processed again when the stream restarts.",
            )
        return ExecutionError(
            f"Spark refuses the job that serves all queries of stream '{stream.name}': {_reason(error)}",
            remedy="The source is not to blame. Drop queries of this stream, or SET preaggregate = 'driver' with a "
            "larger gather_bytes; the micro-batch is processed again when the stream restarts.",
        )

    def _trial(self, stream: StreamState, batch: MicroBatch, query: QueryState, settings: Settings) -> str | None:
        """Why the query's own expressions fail on this micro-batch; None if they do not fail twice in a row."""
        aggregate = query.plan.input
        alone = Grouping(
            0,
            aggregate.cell_keys,
            schedule_for(aggregate.window),
            None if aggregate.partition else aggregate.input.predicate,
            self._read_by(stream, query),
            query.axis,
            aggregate.partition,
            settings.integer("max_value_bytes"),
        )
        without_records = replace(batch, carry_records=False)
        why = None
        for _ in range(2):
            try:
                ingest.run(without_records.grouped([alone], {}))
                return None
            except Exception as failure:
                why = _reason(failure)
        return why

    def _read_by(self, stream: StreamState, query: QueryState) -> tuple[Accumulator, ...]:
        """The accumulators kept for a query: its own, or those that it derives them from."""
        plans = (state.plan for state in stream.synopses.values() if query.name in state.plan.derived)
        derived = next((plan.derived[query.name] for plan in plans), ())
        return read_of(query.plan.input, derived)

    def _readable(self, batch: MicroBatch) -> bool:
        try:
            ingest.run(batch.placed().dead_letters(1))
        except Exception:
            return False
        return True

    def _preaggregate(
        self,
        stream: StreamState,
        table: pa.Table,
        mode: str,
        groupings: list[Grouping],
        groups: Mapping[int, Groups],
        admission: Admission,
    ) -> Deposit:
        known = [groups[g.synopsis] for g in groupings]
        if mode != "driver":
            stored = {g.synopsis for g in groupings if stream.synopses[g.synopsis].synopsis.home is Home.SPARK}
            return deposit_of_groups(table, stream.definition, groupings, known, stored)
        return deposit_of_rows(table, stream.definition, groupings, known, admission, _ranks(stream, groupings))

    def _with_records(self, batch: MicroBatch, deposit: Deposit, settings: Settings) -> Deposit:
        """For columnar sources, fetch the records of the dead letters by a second job, up to the cap."""
        cap = settings.integer("dead_letters_per_batch")
        if cap == 0:
            return deposit
        rows = ingest.run(batch.dead_letters(cap)).to_pylist()
        fetched = [DeadLetter(r["__reason"], r["__record"], r["__dead_t"], 1) for r in rows]
        counts: dict[str, int] = {}
        for letter in deposit.dead:
            counts[letter.reason] = counts.get(letter.reason, 0) + letter.count
        for letter in fetched:
            counts[letter.reason] = counts.get(letter.reason, 0) - 1
        rest = [DeadLetter(reason, None, None, n) for reason, n in counts.items() if n > 0]
        return replace(deposit, dead=tuple(fetched + rest))

    def _commit(
        self,
        stream: StreamState,
        commit: DepositCommit,
        groups: Mapping[int, Groups],
        reported: Sequence[PendingBlock],
        kept: Sequence[KeptFile],
    ) -> None:
        """Write the blocks and commit them, and the files of window stores. `commit` has no blocks yet."""
        deposit = commit.deposit
        parts = [_part(stream, stream.synopses[number], cells) for number, cells in deposit.cells.items()]
        written = [block for part in parts for block in self._write(stream, part, groups, deposit.admitted)]
        crash_point("deposit-blocks-written")
        blocks = tuple((w.owner, w.ref, w.lo, w.hi) for w in (*written, *reported))
        blocks += tuple((file.ref.owner, file.ref, file.lo, file.hi) for file in kept)
        committed = self._journal.deposits.deposit(stream, replace(commit, blocks=blocks))
        crash_point("deposit-committed")
        self._stores.deposited(kept)
        stream.install(committed)
        if commit.has_arrived:
            now_s = self._clock.monotonic_s()
            stream.silent_since = {p.column: now_s for p in stream.definition.heartbeats}
        for part in parts:
            part.apply(stream.definition.revises)
        for block in reported:
            block.occupy()
        log_event(
            "deposit_commit",
            "stream '{stream}': micro-batch {batch} is committed, {blocks} blocks",
            stream=stream.name,
            batch=commit.batch_id,
            blocks=len(blocks),
        )
        self._tidy(stream, commit.settings)

    def _tidy(self, stream: StreamState, settings: Settings) -> None:
        """Move and compact synopses; no answer depends on it. The deposit is committed already, so a failure is logged
        and tried again with the next micro-batch."""
        for state in stream.synopses.values():
            for step in (self._homes.settle_one, self._compactor.compact):
                try:
                    step(stream, state, settings)
                except Exception as error:
                    log.warning(
                        "shared state %d of stream '%s' stays as it is until the next micro-batch: %s",
                        state.plan.id,
                        stream.name,
                        _reason(error),
                    )

    def tidy_stores(self, stream: StreamState) -> None:
        """Merge files of window stores; as `_tidy`, but after the ticks were submitted, which need not wait for it."""
        if not stream.readers:
            return
        try:
            stream.metrics.compactions += self._stores.tidy(stream)
        except Exception as error:
            log.warning(
                "what is kept of stream '%s' stays as it is until the next micro-batch: %s", stream.name, _reason(error)
            )

    def _write(
        self, stream: StreamState, part: _Part, groups: Mapping[int, Groups], admitted: int
    ) -> Iterator[PendingBlock]:
        """Write the blocks of one synopsis."""
        mine, rows = groups[part.state.plan.id], (stream.numbered + 1, stream.numbered + admitted)
        for cells, late in ((part.cells, False), (part.late, stream.definition.revises)):
            if len(cells):
                yield self._homes.write(part.state, cells, mine, rows, late)

    def _measure(self, stream: StreamState, admitted: int, cells: int, kept: Sequence[KeptFile], ran: _Ran) -> None:
        metrics, mode = stream.metrics, ran.mode
        metrics.batches += 1
        metrics.rows += admitted
        metrics.cells += cells
        metrics.preaggregated_by[mode] += 1
        metrics.last_preaggregate = mode
        gathered = ran.table.nbytes if mode == "driver" else None
        # A window store reduces nothing: its rows count like cells that Spark would have made.
        kept_rows = sum(file.ref.rows for file in kept)
        stream.chooser = stream.chooser.after(admitted, cells + kept_rows, gathered, ran.estimate)


def _log_batch(stream: StreamState, batch_id: int, deposit: Deposit, mode: str, job_s: float, apply_s: float) -> None:
    log_event(
        "micro_batch",
        "stream '{stream}': micro-batch {batch} admitted {rows} rows in {seconds} s, grouped by the {grouped_by}",
        stream=stream.name,
        batch=batch_id,
        rows=deposit.admitted,
        seconds=round(job_s + apply_s, 3),
        job_s=round(job_s, 3),
        apply_s=round(apply_s, 3),
        grouped_by=mode,
    )
    reasons: dict[str, int] = {}
    for letter in deposit.dead:
        reasons[letter.reason] = reasons.get(letter.reason, 0) + letter.count
    for reason, count in reasons.items():
        log_event(
            "dead_letters",
            "stream '{stream}': micro-batch {batch} has {rows} dead letters: {reason}",
            stream=stream.name,
            batch=batch_id,
            rows=count,
            reason=reason,
        )


@dataclass(frozen=True)
class _Ran:
    """A micro-batch that has run: its table, where it was grouped, the estimated bytes of a gather, and what was
    grouped, counted and kept."""

    table: pa.Table
    mode: str
    estimate: int | None
    groupings: list[Grouping]
    counted: tuple[OversizedColumn, ...]
    keeping: KeepRequest | None


def _kept(ran: _Ran, writer: BlockWriter) -> tuple[pa.Table, list[KeptFile]]:
    """The files of window stores, written here or by the tasks that report them, and the table without reports."""
    table = ran.table
    if ran.keeping is None:
        return table, []
    if ran.mode == "driver":
        files = keep_gathered(ran.keeping, table, gathered_columns(ran.groupings, ran.keeping).values, writer)
    else:
        table, files = reported(table)
    crash_point("store-files-written")
    return table, files


@dataclass(frozen=True)
class _Part:
    """The cells that a micro-batch adds to one synopsis: of open panes, and of closed panes (`late`)."""

    state: SynopsisState
    cells: Cells
    late: Cells

    def apply(self, revises: bool) -> None:
        """Add the cells to the synopsis in memory, after the commit."""
        synopsis = self.state.synopsis
        synopsis.deposit(self.cells)
        (synopsis.hold_late if revises else synopsis.merge)(self.late)


def _part(stream: StreamState, state: SynopsisState, cells: Cells) -> _Part:
    ticked, nothing = stream.ticked.get(state.plan.axis), cells.where(slice(0, 0))
    if ticked is None or not len(cells):
        return _Part(state, cells, nothing)
    is_late = state.synopsis.is_late(cells, state.closed_at(ticked))
    if not is_late.any():
        return _Part(state, cells, nothing)
    late = cells.where(is_late if state.kept_from is None else is_late & (cells.panes >= state.kept_from))
    return _Part(state, cells.where(~is_late), late)


def _ranks(stream: StreamState, groupings: list[Grouping]) -> dict[int, Ranks]:
    """The tuple counts of partitions (the backward context of partitioned windows), by synopsis."""
    found = ((g.synopsis, stream.synopses[g.synopsis].synopsis.ranks) for g in groupings)
    return {number: ranks for number, ranks in found if ranks is not None}


def _excused(stream: StreamState, settings: Settings) -> tuple[tuple[Reach, ...], ...]:
    """Which late tuples are admitted. LATE REVISE admits those within its reach, slack_meaning = 'generous' those in a
    window that is not answered yet."""
    definition = stream.definition
    frontiers = {p.column: stream.frontiers[p.column].value for p in definition.punctuated}
    if definition.revises:
        reach = definition.late_reach
        return (tuple(Reach(c, f - reach) for c, f in frontiers.items() if f is not None and reach is not None),)
    if settings.text("slack_meaning") != "generous":
        return ()
    least: dict[tuple[str, tuple[int, int, int] | None], int] = {}
    for query in stream.active:
        window = query.plan.window
        if query.axis == ROW_NUM:
            return ((),)
        f = frontiers[query.axis]
        bound = max(
            POINT_MIN if f is None else window.needed_from(f), POINT_MIN if query.since is None else query.since
        )
        held = (query.axis, _gaps(window))
        least[held] = min(bound, least.get(held, bound))
    return tuple((Reach(column, bound, within),) for (column, within), bound in least.items())


def _gaps(window: Window) -> tuple[int, int, int] | None:
    """The slide, phase and range of a window if some points lie in no extent (SLIDE > RANGE); else None."""
    if not isinstance(window, SlidingWindow) or window.slide <= window.range:
        return None
    return window.slide, window.extent(0)[0] % window.slide, window.range


def _reason(error: BaseException) -> str:
    """The first line of an error, with Spark's error condition."""
    text = str(getattr(error, "getCondition", lambda: None)() or "")
    first = first_line(error)
    return first if not text or text in first else f"{text}: {first}"
