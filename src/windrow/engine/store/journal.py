"""Every commit the engine makes, each one SQLite transaction (DESIGN 6). No SQL is written elsewhere in this room."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from sqlite3 import Row

import pyarrow as pa

from windrow.catalog.definitions import StreamDef
from windrow.catalog.store import Catalog
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockRef, BlockStore
from windrow.dataplane.ingest.job import LATE, Admission
from windrow.dataplane.ingest.preaggregate import DeadLetter, Deposit
from windrow.dataplane.ingest.promised import bound_of_record, point_in_record
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.optimizer.derivations import Derivation
from windrow.plan.accumulators import Accumulator, Kind
from windrow.settings import Settings
from windrow.synopses import StoredSynopsis
from windrow.types import SqlType
from windrow.windows import Cuts, CutSchedule, Ended, Frontier, Silence, greater
from windrow.windows.ended import after_end, saved_ends
from windrow.windows.lateness import Lateness
from windrow.windows.promises import Promises, Told

LARGE_BLOCK_BYTES = 256 << 10
"""Blocks of answers from this size on are not folded again."""


MOST_FOLDED = 1000
"""Blocks that are folded, and so mapped, at a time."""


@dataclass(frozen=True)
class AnswerPart:
    """One query's share of a tick batch: what was answered, and which part of the answers block holds it.

    `revised`: the end and the number of revisions of each window that was corrected.
    """

    query: QueryState
    windows: int
    rows: int
    overflows: int
    last_end: int | None
    stored: tuple[int, int, int, int, int] | None
    staged: str | None
    revised: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Expired:
    """What a tick leaves of a synopsis: cells below the point are gone, `ranked` tuples with them."""

    state: SynopsisState
    below: int | None
    ranked: int


@dataclass(frozen=True)
class Applied:
    """Late cells taken into a synopsis, all that are held apart; `ranked` is what it comes to. No tuple to come can
    correct a window whose end is below `revised_from` (None: any can be)."""

    state: SynopsisState
    ranked: int
    revised_from: int | None


@dataclass(frozen=True)
class Left:
    """What a tick leaves of a stream's promises; `settled` are queries that have by now answered what these had closed
    before they came, `complete_from` says from where on synopses have all groups."""

    promises: Promises
    settled: tuple[QueryState, ...] = ()
    complete_from: tuple[tuple[SynopsisState, int | None], ...] = ()


class Journal:
    """Commits deposits, ticks and changes of the catalog."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks
        self._held: dict[int, int] = {}

    # -- micro-batches -------------------------------------------------------------------------

    def deposit(
        self,
        stream: StreamState,
        batch_id: int,
        frontiers: Mapping[str, Frontier],
        least: Mapping[str, int],
        deposit: Deposit,
        written: Sequence[tuple[str, BlockRef, int, int]],
        admission: Admission,
        settings: Settings,
        lateness: Mapping[str, Lateness],
        promises: Promises,
    ) -> None:
        """Name the blocks of a micro-batch, each with whose it is, and move the stream's progress."""
        late = sum(d.count for d in deposit.dead if d.reason == LATE)
        dead = sum(d.count for d in deposit.dead)
        with self._catalog.transaction() as tx:
            for owner, ref, lo, hi in written:
                self._blocks.add(ref, lo, hi, owner=owner)
            tx.execute(
                "UPDATE streams SET last_batch = ?, admitted = admitted + ?, late = late + ?, dead = dead + ?"
                " WHERE name = ?",
                (batch_id, deposit.admitted, late, dead, stream.name),
            )
            self._save_axes(stream, frontiers, least, stream.ended, stream.silences)
            self._save_promises(stream, promises)
            tx.executemany(
                "UPDATE axes SET lateness = ? WHERE stream = ? AND axis = ?",
                [(json.dumps(one.saved()), stream.name, axis) for axis, one in lateness.items()],
            )
            if deposit.dead:
                self._dead_letters(stream, batch_id, deposit, admission, settings)

    def _save_axes(
        self,
        stream: StreamState,
        frontiers: Mapping[str, Frontier],
        least: Mapping[str, int],
        ended: Mapping[str, tuple[Ended, ...]],
        silences: Mapping[str, Silence],
    ) -> None:
        """Inside a transaction: the progress of those axes that have moved."""
        for axis, frontier in frontiers.items():
            if frontier is not stream.frontiers[axis] or least.get(axis) != stream.least.get(axis):
                self._catalog.execute(
                    "INSERT INTO axes (stream, axis, frontier, least) VALUES (?, ?, ?, ?) ON CONFLICT (stream, axis)"
                    " DO UPDATE SET frontier = excluded.frontier, least = excluded.least",
                    (
                        stream.name,
                        axis,
                        json.dumps({**frontier.saved(), **saved_ends(ended.get(axis, ())), **_silent(silences, axis)}),
                        least.get(axis),
                    ),
                )

    def _save_promises(self, stream: StreamState, promises: Promises) -> None:
        """Inside a transaction: those promises that have changed."""
        if promises is stream.promises:
            return
        tx, before, name = self._catalog, stream.promises.held, stream.name
        gone = [promise for key, promise in before.items() if key not in promises.held]
        changed = [promise for key, promise in promises.held.items() if before.get(key) is not promise]
        tx.executemany(
            "DELETE FROM promises WHERE stream = ? AND axis = ? AND conditions = ? AND for_ever = ?",
            [(name, p.axis, p.text, p.is_for_ever) for p in gone],
        )
        tx.executemany(
            "INSERT INTO promises VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (stream, axis, conditions, for_ever)"
            " DO UPDATE SET bound = excluded.bound, given = excluded.given",
            [(name, p.axis, p.text, p.is_for_ever, p.bound, p.given) for p in changed],
        )
        tx.execute("UPDATE streams SET heard = ? WHERE name = ?", (promises.heard, name))

    def _dead_letters(
        self, stream: StreamState, batch_id: int, deposit: Deposit, admission: Admission, settings: Settings
    ) -> None:
        tx, cap = self._catalog, settings.integer("dead_letters_per_batch")
        letters = sorted(deposit.dead, key=lambda d: (d.record is None, d.point or 0, d.reason, d.record or ""))
        kept = 0
        for letter in letters:
            tx.execute(
                "INSERT INTO dead_letter_counts VALUES (?, ?, ?)"
                " ON CONFLICT (stream, reason) DO UPDATE SET count = count + excluded.count",
                (stream.name, letter.reason, letter.count),
            )
            if kept >= cap or letter.record is None:
                continue
            late_by = _late_by(letter, admission, stream.definition)
            tx.execute(
                "INSERT INTO dead_letters (stream, batch, reason, record, point, late_by, count)"
                " VALUES (?,?,?,?,?,?,?)",
                (stream.name, batch_id, letter.reason, letter.record, letter.point, late_by, letter.count),
            )
            kept += 1
        tx.execute(
            "DELETE FROM dead_letters WHERE stream = ? AND id <="
            " (SELECT id FROM dead_letters WHERE stream = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (stream.name, stream.name, settings.integer("retained_dead_letters")),
        )

    def replace_blocks(self, made: Sequence[tuple[BlockRef, int, int]], replaced: Sequence[int]) -> None:
        """Blocks that hold what others held; each with its first and last pane."""
        with self._catalog.transaction():
            self._exchange(made, replaced)

    def _exchange(self, made: Sequence[tuple[BlockRef, int, int]], replaced: Sequence[int]) -> None:
        for ref, lo, hi in made:
            self._blocks.add(ref, lo, hi)
        for block in replaced:
            self._blocks.release(block)

    def move(
        self,
        state: SynopsisState,
        home: StoredSynopsis | None,
        made: Sequence[tuple[BlockRef, int, int]],
        replaced: Sequence[int],
        enter: Callable[[], None],
    ) -> None:
        """A synopsis moves to the Spark home, or to the driver's (None); `enter` moves it in memory. That goes with the
        commit, whatever fails after it: else what is written next would be of the other home."""
        saved: tuple[float | None, ...] = (None,) * 4
        if home is not None:
            weight = (None, None) if home.left_with is None else (home.left_with.cell, home.left_with.group)
            saved = (home.buckets, *weight, home.groups_seen)
        with self._catalog.transaction() as tx:
            tx.on_commit(enter)
            self._exchange(made, replaced)
            tx.execute(
                "UPDATE synopses SET buckets = ?, cell_bytes = ?, group_bytes = ?, groups_seen = ? WHERE id = ?",
                (*saved, state.plan.id),
            )

    # -- ticks ---------------------------------------------------------------------------------

    def tick(
        self,
        stream: StreamState,
        axis: str,
        ticked: int | None,
        parts: Sequence[AnswerPart],
        block: BlockRef | None,
        expired: Sequence[Expired],
        settings: Settings,
        applied: Sequence[Applied] = (),
        left: Left | None = None,
    ) -> list[int]:
        """One tick batch: answers kept, stages named, cells expired, late cells taken in, promises changed. Returns the
        ids of the outbox entries."""
        outbox: list[int] = []
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE streams SET tick_seq = tick_seq + 1 WHERE name = ?", (stream.name,))
            if ticked is not None:
                self.save_ticked(stream, axis, ticked)
            if left is not None:
                self._leave(stream, left)
            stored = [part for part in parts if part.stored is not None]
            block_id = self._blocks.add(block, refs=len(stored)) if block is not None and stored else None
            for part in parts:
                self._answer(part, block_id, settings)
                if part.staged is not None:
                    cursor = tx.execute(
                        "INSERT INTO outbox (query, seq, entry) VALUES (?, ?, ?)",
                        (part.query.id, stream.tick_seq, part.staged),
                    )
                    outbox.append(int(cursor.lastrowid or 0))
            for gone in expired:
                seen = gone.state.synopsis.groups_seen
                tx.execute(
                    "UPDATE synopses SET kept_from = ?, ranked = ?, groups_seen = ? WHERE id = ?",
                    (gone.below, gone.ranked, seen, gone.state.plan.id),
                )
                rows = tx.rows("SELECT id FROM blocks WHERE owner = ? AND hi < ?", (gone.state.owner, gone.below))
                for row in rows:
                    self._blocks.release(row["id"])
            for taken in applied:
                self._apply(taken)
        return outbox

    def save_ticked(self, stream: StreamState, axis: str, ticked: int) -> None:
        """Inside a transaction: windows of the axis that are due by this point have been answered."""
        self._catalog.execute("UPDATE axes SET ticked = ? WHERE stream = ? AND axis = ?", (ticked, stream.name, axis))

    def _leave(self, stream: StreamState, left: Left) -> None:
        tx = self._catalog
        self._save_promises(stream, left.promises)
        tx.executemany("UPDATE queries SET fresh = 0 WHERE id = ?", [(query.id,) for query in left.settled])
        tx.executemany(
            "UPDATE synopses SET complete_from = ? WHERE id = ?",
            [(point, state.plan.id) for state, point in left.complete_from if point != state.complete_from],
        )

    def _apply(self, taken: Applied) -> None:
        tx, state = self._catalog, taken.state
        tx.execute("UPDATE blocks SET owner = ? WHERE owner = ?", (state.owner, state.late_owner))
        tx.execute("UPDATE synopses SET ranked = ? WHERE id = ?", (taken.ranked, state.plan.id))
        if taken.revised_from is not None:
            tx.execute(
                "DELETE FROM revisions WHERE window_end < ? AND query IN (SELECT id FROM queries WHERE synopsis = ?)",
                (taken.revised_from, state.plan.id),
            )

    def revisions(self, query: QueryState, first: int, last: int) -> dict[int, int]:
        """How often windows were corrected, of those that end between two points and were."""
        rows = self._catalog.rows(
            "SELECT window_end, revision FROM revisions WHERE query = ? AND window_end BETWEEN ? AND ?",
            (query.id, first, last),
        )
        return {row["window_end"]: row["revision"] for row in rows}

    def _answer(self, part: AnswerPart, block_id: int | None, settings: Settings) -> None:
        tx, query = self._catalog, part.query
        tx.execute(
            "UPDATE queries SET answers = answers + ?, answer_rows = answer_rows + ?, overflows = overflows + ?,"
            " last_end = ? WHERE id = ?",
            (part.windows, part.rows, part.overflows, part.last_end, query.id),
        )
        tx.executemany(
            "INSERT INTO revisions VALUES (?, ?, ?) ON CONFLICT (query, window_end) DO UPDATE"
            " SET revision = excluded.revision",
            [(query.id, end, revision) for end, revision in part.revised],
        )
        if part.stored is None or block_id is None:
            return
        tx.execute(
            "INSERT INTO answers (query, block, offset, length, rows, first_end, last_end) VALUES (?,?,?,?,?,?,?)",
            (query.id, block_id, *part.stored),
        )
        keep = settings.integer("retained_answers")
        # Where part of it was left out, what came before would stand behind a gap.
        self._retire(query.id, part.stored[2], 0 if part.stored[2] < part.rows else keep)

    def _retire(self, query_id: int, added: int, keep: int) -> None:
        """Forget the oldest parts while what is newer holds enough rows, at a cost that follows what is forgotten."""
        if query_id in self._held:
            held = self._held[query_id] + added
        else:
            held = int(self._catalog.value("SELECT sum(rows) FROM answers WHERE query = ?", (query_id,)))
        while True:
            oldest = self._catalog.rows(
                "SELECT id, block, rows FROM answers WHERE query = ? ORDER BY id LIMIT 2", (query_id,)
            )
            if len(oldest) < 2 or held - oldest[0]["rows"] < keep:
                break
            held -= oldest[0]["rows"]
            self._catalog.execute("DELETE FROM answers WHERE id = ?", (oldest[0]["id"],))
            self._blocks.release(oldest[0]["block"])
        self._catalog.on_commit(lambda: self._held.__setitem__(query_id, held))

    def compact_answers(self, limit: int, keep: int) -> None:
        """Fold runs of small blocks of answers where there are more than `limit`: a tick batch writes one each.

        No part grows beyond an eighth of the rows that a query may keep: parts are retired as a whole.
        """
        small = "SELECT count(*) FROM blocks WHERE owner = 'answers' AND bytes < ?"
        if self._catalog.value(small, (LARGE_BLOCK_BYTES,)) <= limit:
            return
        with self._catalog.transaction():
            for run in self._runs_of_answers(max(keep // 8, 1)):
                self._fold_answers(run)

    def _runs_of_answers(self, most_rows: int) -> Iterator[list[int]]:
        """Blocks next to each other in time that may become one."""
        parts = self._catalog.rows(
            "SELECT b.id, b.bytes, a.query, a.rows FROM blocks b JOIN answers a ON a.block = b.id ORDER BY b.id"
        )
        run: list[int] = []
        held: Counter[int] = Counter()
        for block, group in groupby(parts, key=lambda part: int(part["id"])):
            listed = list(group)
            is_large = listed[0]["bytes"] >= LARGE_BLOCK_BYTES
            is_full = is_large or len(run) == MOST_FOLDED
            if run and (is_full or any(held[p["query"]] + p["rows"] > most_rows for p in listed)):
                yield run
                run, held = [], Counter()
            if not is_large:
                run.append(block)
                held.update({p["query"]: p["rows"] for p in listed})
        yield run

    def _fold_answers(self, run: Sequence[int]) -> None:
        """Several blocks as one, a part per query in the place of its first."""
        if len(run) < 2:
            return
        tx, marks = self._catalog, ",".join("?" * len(run))
        rows = tx.rows(
            "SELECT a.*, b.path FROM answers a JOIN blocks b ON b.id = a.block"
            f" WHERE a.block IN ({marks}) ORDER BY a.query, a.id",
            run,
        )
        parts = [list(group) for _, group in groupby(rows, key=lambda row: int(row["query"]))]
        tables = [pa.concat_tables(map(self._read_answers, part)).combine_chunks() for part in parts]
        ref, places = self._blocks.write_many("answers", tables)
        crash_point("answers-compaction-written")
        block = self._blocks.add(ref, refs=len(parts))
        for part, place, table in zip(parts, places, tables, strict=True):
            tx.execute(
                "UPDATE answers SET block = ?, offset = ?, length = ?, rows = ?, last_end = ? WHERE id = ?",
                (block, *place, table.num_rows, part[-1]["last_end"], part[0]["id"]),
            )
            tx.executemany("DELETE FROM answers WHERE id = ?", [(p["id"],) for p in part[1:]])
        for row in rows:
            self._blocks.release(row["block"])

    def _read_answers(self, part: Row) -> pa.Table:
        return self._blocks.read_part(part["path"], part["offset"], part["length"])

    def published(self, outbox: Sequence[int]) -> None:
        with self._catalog.transaction() as tx:
            tx.executemany("DELETE FROM outbox WHERE id = ?", [(i,) for i in outbox])

    def promise(
        self,
        stream: StreamState,
        told: Told,
        greatest: Mapping[str, int] | None = None,
        silences: Mapping[str, Silence] | None = None,
    ) -> None:
        """Punctuations by hand, the end of the input (then `greatest` are the greatest points, by axis) or heartbeats
        (then `silences` are what they have counted, by axis)."""
        moved = {axis: stream.frontiers[axis].promise(upto) for axis, upto in told.frontiers.items()}
        frontiers = {**stream.frontiers, **moved}
        promises = stream.promises.after(told.promises, stream.ticked)
        ended = dict(stream.ended)
        for axis, point in (greatest or {}).items():
            before, upto, ticked = stream.frontiers[axis].value, frontiers[axis].value, stream.ticked.get(axis)
            ended[axis] = after_end(ended.get(axis, ()), before, point, upto, ticked)
        kept = {**stream.silences, **(silences or {})}
        with self._catalog.transaction():
            self._save_axes(stream, frontiers, stream.least, ended, kept)
            self._save_promises(stream, promises)
        stream.frontiers, stream.promises, stream.ended, stream.silences = frontiers, promises, ended, kept

    # -- the catalog ---------------------------------------------------------------------------

    def next_id(self, name: str) -> int:
        """A number never given before, for streams, synopses and queries; inside a transaction."""
        self._catalog.execute(
            "INSERT INTO counters VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1", (name,)
        )
        return int(self._catalog.value("SELECT value FROM counters WHERE name = ?", (name,)))

    def suspend(self, stream: StreamState, query: QueryState, why: str) -> None:
        """From now on the query takes no part; what only it needed is not kept, and is known not to be."""
        with stream.lock:
            changed = []
            for state in stream.synopses.values():
                plan = state.plan.without(query.name)
                if plan is not state.plan:
                    wanted = {a.id for a in plan.accumulators}
                    changed.append((state, plan, {a: s for a, s in state.since.items() if a in wanted}))
            with self._catalog.transaction() as tx:
                tx.execute("UPDATE queries SET error = ? WHERE id = ?", (why, query.id))
                for state, plan, since in changed:
                    self.save_synopsis(stream, replace(state, plan=plan, since=since))
            query.error = why
            for state, plan, since in changed:
                state.plan, state.since = plan, since

    def save_synopsis(self, stream: StreamState, state: SynopsisState) -> None:
        """Inside a transaction: the synopsis's schedule and since when it has each accumulator."""
        tx, plan = self._catalog, state.plan
        tx.execute(
            "INSERT INTO synopses (id, stream, keys, schedule, kept_from, ranked) VALUES (?,?,?,?,?,?)"
            " ON CONFLICT (id) DO UPDATE SET schedule = excluded.schedule",
            (
                plan.id,
                stream.name,
                json.dumps([k.sql for k in plan.keys]),
                schedule_text(plan.schedule),
                state.kept_from,
                state.ranked,
            ),
        )
        tx.execute("DELETE FROM synopsis_accumulators WHERE synopsis = ?", (plan.id,))
        tx.executemany(
            "INSERT INTO synopsis_accumulators VALUES (?, ?, ?)", [(plan.id, a, s) for a, s in state.since.items()]
        )

    def save_derivations(self, query_id: int, derived: Sequence[Derivation]) -> None:
        """Inside a transaction: what a query derives, with the definitions of what it is derived from: the queries
        that those were kept for may go."""
        self._catalog.executemany(
            "INSERT INTO derivations VALUES (?, ?, ?, ?, ?)",
            [
                (
                    query_id,
                    d.accumulator.id,
                    *(json.dumps([_saved(a) for a in part]) for part in (d.added, d.subtracted)),
                    d.is_sign,
                )
                for d in derived
            ],
        )

    def derivations(self, query: QueryState) -> tuple[Derivation, ...]:
        """What a query derives, as it was saved."""
        rows = self._catalog.rows("SELECT * FROM derivations WHERE query = ? ORDER BY rowid", (query.id,))
        mine = {a.id: a for a in query.plan.input.accumulators}
        return tuple(
            Derivation(
                mine[row["accumulator"]], _restored(row["added"]), _restored(row["subtracted"]), bool(row["is_sign"])
            )
            for row in rows
        )

    def is_used(self, state: SynopsisState) -> bool:
        """Whether a query, be it suspended, has this synopsis."""
        found = self._catalog.value("SELECT 1 FROM queries WHERE synopsis = ? LIMIT 1", (state.plan.id,))
        return found is not None

    def drop_synopsis(self, state: SynopsisState) -> None:
        for row in (*self._blocks.named(state.owner), *self._blocks.named(state.late_owner)):
            self._blocks.release(row.id)
        self._catalog.execute("DELETE FROM synopses WHERE id = ?", (state.plan.id,))

    def drop_query(self, query: QueryState) -> None:
        for row in self._catalog.rows("SELECT id, block FROM answers WHERE query = ?", (query.id,)):
            self._catalog.execute("DELETE FROM answers WHERE id = ?", (row["id"],))
            self._blocks.release(row["block"])
        self._catalog.execute("DELETE FROM outbox WHERE query = ?", (query.id,))
        self._catalog.execute("DELETE FROM revisions WHERE query = ?", (query.id,))
        self._catalog.execute("DELETE FROM queries WHERE id = ?", (query.id,))
        self._catalog.on_commit(lambda: self._forget(query.id))

    def _forget(self, query_id: int) -> None:
        self._held.pop(query_id, None)


def _late_by(letter: DeadLetter, admission: Admission, stream: StreamDef) -> int | None:
    """How far below the frontier of the first window attribute a late tuple was, or below what was promised of it."""
    if letter.reason != LATE or letter.point is None or not admission.bounds:
        return None
    punctuated, frontier, _ = admission.bounds[0]
    promises = [promise for promise in admission.promises if promise.axis == punctuated.column]
    if promises and letter.record is not None:
        frontier = greater(frontier, bound_of_record(promises, letter.record, dict(stream.columns)))
    late_by = None if frontier is None else max(0, frontier - letter.point)
    return late_by or _late_on_another(letter, admission) or late_by


def _late_on_another(letter: DeadLetter, admission: Admission) -> int | None:
    """The same of the first of the other window attributes that it was late on."""
    for punctuated, frontier, _ in admission.bounds[1:] if letter.record is not None else ():
        point = point_in_record(letter.record or "", punctuated)
        if point is not None and frontier is not None and point < frontier:
            return frontier - point
    return None


def _silent(silences: Mapping[str, Silence], axis: str) -> dict[str, int]:
    """How much silence heartbeats have counted on an axis, where they have any."""
    counted = silences[axis].counted if axis in silences else 0
    return {"silent": counted} if counted else {}


def _saved(accumulator: Accumulator) -> list[str | None]:
    kind = None if accumulator.type is None else accumulator.type.name
    return [accumulator.kind.name, accumulator.arg, kind, accumulator.condition]


def _restored(text: str) -> tuple[Accumulator, ...]:
    return tuple(
        Accumulator(Kind[kind], arg, None if type_ is None else SqlType(type_), condition)
        for kind, arg, type_, condition in json.loads(text)
    )


def schedule_text(schedule: CutSchedule) -> str:
    return json.dumps([[start, list(map(list, cuts.progressions))] for start, cuts in schedule.regimes])


def schedule_of(text: str) -> CutSchedule:
    regimes = ((start, Cuts(tuple((p, q) for p, q in pairs))) for start, pairs in json.loads(text))
    return CutSchedule(tuple(regimes))
