"""A micro-batch's way in: one Spark job, then one commit (DESIGN 3, 6).

`deposit` is what `foreachBatch` calls; it is idempotent by batch id. Lateness is judged against the frontier
at the end of the previous micro-batch.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

import pyarrow as pa

from windrow.clock import Clock
from windrow.crash import crash_point
from windrow.dataplane import ingest
from windrow.dataplane.blocks import BlockRef, BlockStore
from windrow.dataplane.ingest import Admission, Grouping
from windrow.dataplane.preaggregate import DeadLetter, Deposit, of_groups, of_rows
from windrow.engine.journal import Journal
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.errors import ExecutionError
from windrow.settings import Settings
from windrow.synopses.blocks import from_block, to_block
from windrow.synopses.merging import fold_cells
from windrow.windows import Cuts, CutSchedule

log = logging.getLogger("windrow")


class Depositor:
    """Carries micro-batches into the synopses and onto disk."""

    def __init__(self, journal: Journal, blocks: BlockStore, clock: Clock):
        self._journal = journal
        self._blocks = blocks
        self._clock = clock

    def deposit(self, stream: StreamState, df: Any, batch_id: int, settings: Settings, columnar: bool) -> bool:
        """Take one micro-batch; False where it had been taken before a restart."""
        with stream.batch_lock:
            if batch_id <= stream.last_batch:
                return False
            admission = Admission(stream.frontier.value, self._latest(stream, settings))
            groupings = stream.groupings()
            started = time.monotonic()
            try:
                table, mode, estimate = self._run(stream, df, groupings, admission, settings, not columnar)
            except Exception as error:
                groupings = self._suspend_guilty(stream, df, admission, error)
                table, mode, estimate = self._run(stream, df, groupings, admission, settings, not columnar)
            stream.metrics.job_s += time.monotonic() - started
            with stream.lock:
                started = time.monotonic()
                deposit = self._preaggregate(stream, table, mode, groupings)
                if columnar and deposit.dead:
                    deposit = self._with_records(stream, df, deposit, admission, settings)
                self._commit(stream, deposit, batch_id, admission, settings)
                self._measure(stream, deposit, table, mode, estimate)
                stream.metrics.apply_s += time.monotonic() - started
            return True

    def _latest(self, stream: StreamState, settings: Settings) -> int | None:
        ahead = settings["max_future"]
        if ahead == "off" or not stream.definition.attribute_type.is_timestamp:
            return None
        return self._clock.now_us() + int(ahead)

    def _run(
        self,
        stream: StreamState,
        df: Any,
        groupings: list[Grouping],
        admission: Admission,
        settings: Settings,
        carry_records: bool,
    ) -> tuple[pa.Table, str, int | None]:
        """The micro-batch's table, where it is to be grouped, and Spark's estimate of what a gather brings."""
        setting = settings.text("preaggregate")
        gather, estimate = None, None
        if setting != "spark":
            gather = ingest.gathered(df, stream.definition, groupings, admission, carry_records)
            estimate = ingest.estimated_bytes(gather)
        mode = stream.chooser.choose(setting, estimate, settings.integer("gather_bytes"))
        if mode == "driver" and gather is not None:
            rows = ingest.run(gather)
            return rows if carry_records else ingest.judged(rows, stream.definition, admission), mode, estimate
        grouped = ingest.grouped(df, stream.definition, groupings, admission, carry_records)
        return ingest.run(grouped), "spark", estimate

    def _suspend_guilty(self, stream: StreamState, df: Any, admission: Admission, error: Exception) -> list[Grouping]:
        """Find the queries whose own expressions fail, and suspend them; raise if the stream itself fails."""
        active = [] if stream.stopping.is_set() else stream.active
        tried = [(query, self._trial(stream, df, query, admission)) for query in active]
        guilty = [(query, why) for query, why in tried if why is not None]
        innocent = not guilty or stream.stopping.is_set()
        if innocent or len(guilty) == len(active) and not self._readable(stream, df, admission):
            raise ExecutionError(
                f"a micro-batch of stream '{stream.name}' failed: {_reason(error)}",
                remedy="Mend the source; the micro-batch is taken again when the stream restarts.",
            ) from error
        for query, why in guilty:
            log.error("query '%s' is suspended: %s", query.name, why)
            self._journal.suspend(stream, query, why)
        return stream.groupings()

    def _trial(self, stream: StreamState, df: Any, query: QueryState, admission: Admission) -> str | None:
        """Why the query's own expressions fail on this micro-batch; None where they do not, or only once."""
        aggregate = query.plan.input
        cuts = CutSchedule.of(Cuts.for_window(aggregate.window))
        alone = Grouping(0, aggregate.keys, cuts, aggregate.input.predicate, aggregate.accumulators)
        why = None
        for _ in range(2):
            try:
                ingest.run(ingest.grouped(df, stream.definition, [alone], admission, False))
                return None
            except Exception as failure:
                why = _reason(failure)
        return why

    def _readable(self, stream: StreamState, df: Any, admission: Admission) -> bool:
        try:
            ingest.run(ingest.dead_letters(df, stream.definition, admission, 1))
        except Exception:
            return False
        return True

    def _preaggregate(self, stream: StreamState, table: pa.Table, mode: str, groupings: list[Grouping]) -> Deposit:
        groups = [stream.synopses[g.synopsis].synopsis.groups for g in groupings]
        make = of_rows if mode == "driver" else of_groups
        return make(table, groupings, groups)

    def _with_records(
        self, stream: StreamState, df: Any, deposit: Deposit, admission: Admission, settings: Settings
    ) -> Deposit:
        """Columnar sources: a second job fetches the records of the dead letters, up to the cap."""
        cap = settings.integer("dead_letters_per_batch")
        if cap == 0:
            return deposit
        rows = ingest.run(ingest.dead_letters(df, stream.definition, admission, cap)).to_pylist()
        fetched = [DeadLetter(r["__reason"], r["__record"], r["__dead_t"], 1) for r in rows]
        counts: dict[str, int] = {}
        for letter in deposit.dead:
            counts[letter.reason] = counts.get(letter.reason, 0) + letter.count
        for letter in fetched:
            counts[letter.reason] = counts.get(letter.reason, 0) - 1
        rest = [DeadLetter(reason, None, None, n) for reason, n in counts.items() if n > 0]
        return replace(deposit, dead=tuple(fetched + rest))

    def _commit(
        self, stream: StreamState, deposit: Deposit, batch_id: int, admission: Admission, settings: Settings
    ) -> None:
        written: list[tuple[SynopsisState, BlockRef, int, int]] = []
        for synopsis_id, cells in deposit.cells.items():
            if len(cells):
                state = stream.synopses[synopsis_id]
                ref = self._blocks.write(state.owner, to_block(cells, state.synopsis.groups))
                written.append((state, ref, int(cells.panes.min()), int(cells.panes.max())))
        crash_point("deposit-blocks-written")
        frontier = stream.frontier.after(deposit.greatest)
        least = min((p for p in (stream.least, deposit.least) if p is not None), default=None)
        self._journal.deposit(stream, batch_id, frontier, least, deposit, written, admission, settings)
        crash_point("deposit-committed")
        stream.frontier, stream.last_batch, stream.least = frontier, batch_id, least
        for synopsis_id, cells in deposit.cells.items():
            stream.synopses[synopsis_id].synopsis.deposit(cells)
        self._compact(stream, settings)

    def _compact(self, stream: StreamState, settings: Settings) -> None:
        """Keep the number of blocks of a synopsis bounded: fold the smaller half of them into one."""
        limit = settings.integer("synopsis_blocks")
        for state in stream.synopses.values():
            rows = self._blocks.named(state.owner)
            if len(rows) <= limit:
                continue
            small = sorted(rows, key=lambda row: row.rows)[: len(rows) // 2 + 1]
            accumulators, groups = state.plan.accumulators, state.synopsis.groups
            parts = [from_block(self._blocks.read(row.path), accumulators, groups) for row in small]
            cells = fold_cells(parts, state.kept_from)
            ref = self._blocks.write(state.owner, to_block(cells, groups)) if len(cells) else None
            crash_point("compaction-written")
            self._journal.compact(ref, [row.id for row in small], cells)
            stream.metrics.compactions += 1

    def _measure(self, stream: StreamState, deposit: Deposit, table: pa.Table, mode: str, estimate: int | None) -> None:
        metrics = stream.metrics
        metrics.batches += 1
        metrics.rows += deposit.admitted
        metrics.cells += deposit.cell_count
        metrics.preaggregated_by[mode] += 1
        metrics.last_preaggregate = mode
        gathered = table.nbytes if mode == "driver" else None
        stream.chooser = stream.chooser.after(deposit.admitted, deposit.cell_count, gathered, estimate)


def _reason(error: BaseException) -> str:
    """The first line that says something, without Java's package names."""
    text = str(getattr(error, "getCondition", lambda: None)() or "")
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return first if not text or text in first else f"{text}: {first}"
