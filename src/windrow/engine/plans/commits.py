"""Commits of continuous queries: a batch of ticks is one transaction, of all plans that are due for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, groupby
from sqlite3 import Row

import pyarrow as pa
import pyarrow.compute as pc

from windrow.catalog.store import Catalog
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockRef, BlockStore, MappedBlocks, UnsyncedBlock
from windrow.dataplane.kernels.stage_messages import ANSWERS, CHANGES, SHARED, STATE, TOGETHER_ROWS, VIEW
from windrow.operators.changes import AT, HEAD
from windrow.operators.layouts.parts import Layout, StatePart
from windrow.operators.stages.ranges import WHOLE, Range
from windrow.operators.view import lifespan
from windrow.types import POINT_MAX, POINT_MIN

__all__ = [
    "ANSWERS",
    "CHANGES",
    "STATE",
    "VIEW",
    "NewPart",
    "PlanCommits",
    "PlanPart",
    "PlanTick",
    "TableEffect",
    "Tidied",
    "WrittenBlock",
]

SMALL_ROWS, SMALL_BYTES = 1_000, 1 << 20
"""Parts up to this size are merged when they are old."""

_EXPIRED = (
    f"kind IN ('{STATE}', '{VIEW}') AND (kind = '{VIEW}' AND hi < ? OR kind = '{STATE}' AND "
    f"(layout = '{Layout.FIFO.name}' AND hi <= ? OR "
    f"layout IN ('{Layout.CALENDAR.name}', '{Layout.LIST.name}') AND hi <= ?))"
)
"""Which parts have expired as a whole, by the tick, the tick, and the point after it (`StatePart.is_expired`). The
kinds come first: by them the index leaves out the parts of reported rows, which are the most."""

MOST_MARKS = 10_000
"""So many values are in one SQL statement at most."""

PREPARED_BYTES = 4 << 20
"""While files up to this size are synced, their transaction is prepared, which keeps other threads from the catalog."""


@dataclass(frozen=True)
class PlanPart:
    """A part of a block that a plan has written: its kind, its commit, and for state the operator and its layout.
    `buckets` is the range that its rows are of."""

    kind: str
    seq: int
    path: str
    offset: int
    length: int
    rows: int
    operator: str | None = None
    layout: str | None = None
    lo: int | None = None
    hi: int | None = None
    buckets: Range = WHOLE
    id: int = 0
    """Its number in the catalog, if it was read there."""

    @property
    def goes(self) -> int:
        """When the first row of a part of the view, or of changes, is gone; before all points if that is not known."""
        return POINT_MIN if self.lo is None else self.lo

    @property
    def ends(self) -> int:
        """When the last row of a part of the view, or of changes, ends; after all points if that is not known."""
        return POINT_MAX if self.hi is None else self.hi


@dataclass(frozen=True)
class WrittenBlock:
    """A block that is written already, and its parts."""

    ref: BlockRef
    parts: tuple[PlanPart, ...]


@dataclass(frozen=True)
class NewPart:
    """A table to write, and what the catalog says of it."""

    kind: str
    table: pa.Table
    operator: str | None = None
    layout: str | None = None
    lo: int | None = None
    hi: int | None = None
    seq: int | None = None
    """The commit whose rows it has; None: the one that writes it."""


@dataclass(frozen=True)
class Tidied:
    """Small parts of reported rows as fewer parts, and the numbers of the parts that these replace. `firsts`: the first
    commit of each new part."""

    parts: tuple[NewPart, ...] = ()
    replaced: tuple[int, ...] = ()
    firsts: tuple[int, ...] = ()


@dataclass(frozen=True)
class TableEffect:
    """What is in effect of a table, from a tick on: its changes up to `seq`; of one that a stream feeds, those below
    the point `upto`."""

    table: int
    tick: int
    seq: int = 0
    upto: int | None = None


@dataclass(frozen=True)
class PlanTick:
    """A tick batch of a plan up to `ticked`, its `seq`-th commit.

    `parts` are written, `blocks` are written already. `drops` are the kinds whose earlier parts the new ones
    replace. Parts of state and of the view whose rows have all left by `ticked` are dropped, except state by key. Of
    the changes, the newest `keep` rows stay, and those of commits from `shown_from` on, of which the view is made
    beside its merged parts; of answers, the newest `keep` rows, and in any case the latest. `deposited`: the changes up
    to this commit are tuples of a derived stream, and are dropped. `staged` is the entry of the sink's stage.
    `overflows`: so many values are NULL because they do not fit.
    """

    plan: int
    ticked: int | None
    seq: int
    parts: tuple[NewPart, ...]
    drops: tuple[str, ...] = ()
    keep: int = 0
    shown_from: int = 0
    covered: int | None = None
    deposited: int | None = None
    blocks: tuple[WrittenBlock, ...] = ()
    tidied: Tidied = Tidied()
    staged: str | None = None
    effects: tuple[TableEffect, ...] = ()
    overflows: int = 0

    @property
    def written(self) -> tuple[NewPart, ...]:
        """All that the driver writes."""
        return (*self.tidied.parts, *self.parts)

    @property
    def changes(self) -> int:
        return self.reported(CHANGES) + self.reported(ANSWERS)

    def reported(self, kind: str) -> int:
        """The number of changes, or of rows of answers."""
        mine: int = sum(part.table.num_rows for part in self.parts if part.kind == kind)
        return mine + sum(part.rows for block in self.blocks for part in block.parts if part.kind == kind)


@dataclass(frozen=True)
class CommittedTick:
    """What a commit has of a plan: the parts that its ticks gave, earlier ones that it merged, and the entry of its
    stage in the outbox."""

    parts: tuple[PlanPart, ...]
    tidied: tuple[PlanPart, ...] = ()
    entry: int | None = None


@dataclass(frozen=True)
class _PlanFile:
    """A file that the driver wrote, and its parts by the numbers of their plans."""

    block: UnsyncedBlock
    parts: dict[int, list[PlanPart]]

    @property
    def ref(self) -> BlockRef:
        return self.block.ref

    def add(self, tick: PlanTick, part: NewPart, offset: int, length: int) -> None:
        """Note a part of a plan that is at this place of the file."""
        rows, state = part.table.num_rows, (part.operator, part.layout, part.lo, part.hi)
        seq = tick.seq if part.seq is None else part.seq
        placed = PlanPart(part.kind, seq, self.ref.path, offset, length, rows, *state)
        self.parts.setdefault(tick.plan, []).append(placed)

    def of(self, plan: int) -> Sequence[PlanPart]:
        return self.parts.get(plan, ())


@dataclass
class _Held:
    """At most so many rows are held that a plan has reported. The oldest `oldest` of them go together."""

    rows: int
    oldest: int = 0


class PlanCommits:
    """Reads and writes the tables `plans`, `plan_streams` and `plan_parts`. A commit of many plans has as many
    statements as one of a single plan."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks
        self._tidy_from: dict[tuple[int, str], int] = {}
        """By plan and kind, the commit from which on parts may have to be merged."""
        self._held: dict[tuple[int, str], _Held] = {}
        """By plan and kind, what is held, so that a commit asks the catalog only when something may have to go."""

    # -- plans ---------------------------------------------------------------------------------

    def add(
        self,
        number: int,
        name: str,
        statement: str,
        saved: str,
        streams: Sequence[str],
        along: Callable[[], None],
    ) -> None:
        """Save a new plan; `along` is executed in the same transaction."""
        with self._catalog.transaction() as tx:
            tx.execute(
                "INSERT INTO counters VALUES ('query', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (number,),
            )
            tx.execute(
                "INSERT INTO plans (name, id, statement, saved) VALUES (?, ?, ?, ?)",
                (name, number, statement, saved),
            )
            tx.executemany("INSERT INTO plan_streams VALUES (?, ?)", [(number, stream) for stream in streams])
            along()

    def drop(self, number: int, along: Callable[[], None]) -> None:
        """Drop a plan and its blocks; `along` is executed in the same transaction."""
        with self._catalog.transaction() as tx:
            self._drop_where("plan = ?", (number,))
            for row in tx.rows("SELECT id, block FROM outbox WHERE query = ?", (number,)):
                tx.execute("DELETE FROM outbox WHERE id = ?", (row["id"],))
                if row["block"] is not None:
                    self._blocks.release(row["block"])
            for table, column in (("plan_streams", "plan"), ("plans", "id")):
                tx.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
            along()
        for kind in (CHANGES, ANSWERS):
            self._tidy_from.pop((number, kind), None)
            self._held.pop((number, kind), None)

    def changed(self, number: int, statement: str, saved: str, streams: Sequence[str]) -> None:
        """In a transaction: a plan is another from now on."""
        self._catalog.execute(
            "UPDATE plans SET statement = ?, saved = ?, error = NULL WHERE id = ?", (statement, saved, number)
        )
        self._catalog.execute("DELETE FROM plan_streams WHERE plan = ?", (number,))
        self._catalog.executemany("INSERT INTO plan_streams VALUES (?, ?)", [(number, name) for name in streams])

    def pause(self, number: int, paused: bool, ticked: int | None) -> None:
        """A plan rests after a tick, or ticks again."""
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE plans SET paused = ? WHERE id = ?", (int(paused), number))
            self.moved(number, ticked)

    def rows(self) -> list[Row]:
        """The plans, in the order of creation."""
        return self._catalog.rows("SELECT * FROM plans ORDER BY id")

    def row(self, number: int) -> Row | None:
        return self._catalog.row("SELECT * FROM plans WHERE id = ?", (number,))

    def moved(self, number: int, ticked: int | None) -> None:
        """In a transaction: a plan has passed ticks at which nothing changed."""
        self._catalog.execute("UPDATE plans SET ticked = ? WHERE id = ?", (ticked, number))

    def save(self, number: int, saved: str) -> None:
        """Save anew what a plan depends on besides its statement."""
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE plans SET saved = ? WHERE id = ?", (saved, number))

    def suspend(self, number: int, why: str) -> None:
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE plans SET error = ? WHERE id = ?", (why, number))

    # -- ticks ---------------------------------------------------------------------------------

    def tick(self, ticks: Sequence[PlanTick], along: Callable[[], None] = lambda: None) -> list[CommittedTick]:
        """Write and commit a tick batch of several plans in one transaction, in which `along` is executed."""
        files = self._write(ticks)
        if sum(file.ref.bytes for file in files) > PREPARED_BYTES:
            _wait(files)
        with self._catalog.transaction() as tx:
            numbers = [self._blocks.add(file.ref, refs=sum(map(len, file.parts.values()))) for file in files]
            by_path = self._add_written(block for tick in ticks for block in tick.blocks)
            self._drop_replaced(ticks)
            new = [(tick.plan, by_path[b.ref.path], part) for tick in ticks for b in tick.blocks for part in b.parts]
            for number, file in zip(numbers, files, strict=True):
                new += [(plan, number, part) for plan, parts in file.parts.items() for part in parts]
            self._insert(new)
            tx.executemany(
                "UPDATE plans SET ticked = ?, seq = ?, changes = changes + ?, overflows = overflows + ?, covered = ?,"
                " shown_from = ? WHERE id = ?",
                [(t.ticked, t.seq, t.changes, t.overflows, _saved(t.covered), t.shown_from, t.plan) for t in ticks],
            )
            tx.executemany(
                "UPDATE plan_relations SET seq = ?, tick = ?, upto = ? WHERE plan = ? AND relation = ?",
                [(one.seq, one.tick, _saved(one.upto), tick.plan, one.table) for tick in ticks for one in tick.effects],
            )
            self._retire_changes(ticks)
            found = [self._committed(tick, files) for tick in ticks]
            along()
            _wait(files)
            crash_point("plan-blocks-written")
        crash_point("plan-committed")
        return found

    def _committed(self, tick: PlanTick, files: Sequence[_PlanFile]) -> CommittedTick:
        parts, tidied = [part for block in tick.blocks for part in block.parts], list[PlanPart]()
        for file in files:
            for part in file.of(tick.plan):
                (parts if part.seq == tick.seq or part.kind == VIEW else tidied).append(part)
        return CommittedTick(tuple(parts), tuple(tidied), self._enter(tick))

    def _add_written(self, blocks: Iterable[WrittenBlock]) -> dict[str, int]:
        """Name blocks that tasks have written, and return their numbers by path. One may have parts of several
        plans."""
        refs, counts = dict[str, BlockRef](), Counter[str]()
        for block in blocks:
            refs[block.ref.path] = block.ref
            counts[block.ref.path] += len(block.parts)
        return {path: self._blocks.add(ref, refs=counts[path]) for path, ref in refs.items()}

    def discard(self, refs: Iterable[BlockRef]) -> None:
        """In a transaction: nobody needs these files, which tasks have written."""
        for ref in refs:
            self._blocks.release(self._blocks.add(ref))

    def write_views(self, plan: int, seq: int, views: Sequence[pa.Table]) -> tuple[WrittenBlock, ...]:
        """Write parts of a view, with the changes up to the commit `seq`, as blocks that are dropped one by one."""
        found = []
        for ref, view in zip(self._blocks.writer.write_each(f"plans/{plan}", views), views, strict=True):
            first, last = lifespan(view)
            part = PlanPart(VIEW, seq, ref.path, 0, ref.bytes, ref.rows, lo=first, hi=last)
            found.append(WrittenBlock(ref, (part,)))
        return tuple(found)

    def _write(self, ticks: Sequence[PlanTick]) -> list[_PlanFile]:
        """Write the parts of the plans: all but large ones into one file, since a file costs a sync. A table
        that several plans have is written once, and each of them has a part there."""
        fresh, repeated, seen = dict[int, list[NewPart]](), list[tuple[PlanTick, NewPart]](), set[int]()
        for tick in ticks:
            for part in tick.written:
                if id(part.table) in seen:
                    repeated.append((tick, part))
                else:
                    seen.add(id(part.table))
                    fresh.setdefault(tick.plan, []).append(part)
        writing = [(tick, fresh[tick.plan]) for tick in ticks if tick.plan in fresh]
        small, large = list[tuple[PlanTick, list[NewPart]]](), list[tuple[PlanTick, list[NewPart]]]()
        for one in writing:
            (small if sum(part.table.num_rows for part in one[1]) <= TOGETHER_ROWS else large).append(one)
        places = dict[int, tuple[_PlanFile, int, int]]()
        files = [self._file(some, places) for some in (*([one] for one in large), small) if some]
        for tick, part in repeated:
            file, offset, length = places[id(part.table)]
            file.add(tick, part, offset, length)
        return files

    def _file(
        self, ticks: Sequence[tuple[PlanTick, list[NewPart]]], places: dict[int, tuple[_PlanFile, int, int]]
    ) -> _PlanFile:
        """Write parts of plans into one file, and note the places of their tables."""
        parts = [(tick, part) for tick, mine in ticks for part in mine]
        owner = f"plans/{ticks[0][0].plan}" if len(ticks) == 1 else SHARED
        block, written = self._blocks.writer.begin_many(owner, [part.table for _, part in parts])
        file = _PlanFile(block, {})
        for (tick, part), (offset, length) in zip(parts, written, strict=True):
            file.add(tick, part, offset, length)
            places[id(part.table)] = (file, offset, length)
        return file

    def _insert(self, parts: Sequence[tuple[int, int, PlanPart]]) -> None:
        """Save parts, each with its plan and its block."""
        self._catalog.executemany(
            "INSERT INTO plan_parts (plan, kind, seq, operator, layout, block, offset, length, rows, lo, hi,"
            " first_bucket, end_bucket) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *(plan, part.kind, part.seq, part.operator, part.layout, block),
                    *(part.offset, part.length, part.rows, _saved(part.lo), _saved(part.hi), *part.buckets),
                )
                for plan, block, part in parts
            ],
        )

    def _enter(self, tick: PlanTick) -> int | None:
        """Put the stage of the sink into the outbox."""
        if tick.staged is None:
            return None
        cursor = self._catalog.execute(
            "INSERT INTO outbox (query, seq, entry, block) VALUES (?, ?, ?, NULL)", (tick.plan, tick.seq, tick.staged)
        )
        return int(cursor.lastrowid or 0)

    def tidied(self, plan: int, kind: str, read: Callable[[PlanPart], pa.Table], shown_upto: int = 0) -> Tidied:
        """The small parts of reported rows of a kind, merged where several follow one another, or where one is in a
        file of several plans, which must not stay for it. Thus neither files nor parts grow with the age of a query.
        `read` is a `reader`. Commits up to `shown_upto`, of which the view is not made, stay apart from later ones."""
        parts, replaced, firsts = list[NewPart](), list[int](), list[int]()
        runs = list(self._small_runs(plan, kind, shown_upto))
        several = [run for run in runs if _is_mergeable(run)]
        for run in several:
            for some, tables in _ascending(run, [read(part) for part in run]):
                if _is_mergeable(some) and all(table.schema.equals(tables[0].schema) for table in tables):
                    parts.append(_joined(some, tables))
                    replaced += [part.id for part in some]
                    firsts.append(some[0].seq)
        if runs:  # not beyond what is merged now, since the commit may fail
            self._tidy_from[plan, kind] = (several or runs[-1:])[0][0].seq
        return Tidied(tuple(parts), tuple(replaced), tuple(firsts))

    def _small_runs(self, plan: int, kind: str, shown_upto: int) -> Iterator[list[PlanPart]]:
        """Runs of small parts that were not looked at before. A run has all parts of its commits: the view in memory
        replaces parts by commit."""
        run, rows = list[PlanPart](), 0
        for parts in _by_commit(self.parts(plan, kind, since=self._tidy_from.get((plan, kind), 0))):
            is_small = all(part.rows <= SMALL_ROWS and part.length <= SMALL_BYTES for part in parts)
            is_cut = bool(run) and run[-1].seq <= shown_upto < parts[0].seq
            if run and (not is_small or rows > SMALL_ROWS or is_cut):
                yield run
                run, rows = [], 0
            if is_small:
                run += parts
                rows += sum(part.rows for part in parts)
        if run:
            yield run

    def _drop_replaced(self, ticks: Sequence[PlanTick]) -> None:
        """Drop the parts that these commits replace, and parts of state and view that are wholly expired."""
        for tick in ticks:
            if tick.drops:
                self._drop_where(f"plan = ? AND kind IN ({_marks(tick.drops)})", (tick.plan, *tick.drops))
        for ticked in {tick.ticked for tick in ticks}:
            plans = [tick.plan for tick in ticks if tick.ticked == ticked]
            if ticked is not None:
                self._drop_where(f"plan IN ({_marks(plans)}) AND {_EXPIRED}", (*plans, ticked, ticked, ticked + 1))
        replaced = [number for tick in ticks for number in tick.tidied.replaced]  # many are in the same blocks
        for first in range(0, len(replaced), MOST_MARKS):
            some = replaced[first : first + MOST_MARKS]
            self._drop_where(f"id IN ({_marks(some)})", some)

    def _retire_changes(self, ticks: Sequence[PlanTick]) -> None:
        """Drop the oldest changes that neither retention, nor the view, nor a derived stream needs."""
        for tick in ticks:
            if tick.deposited is not None:
                found = (tick.plan, CHANGES, tick.deposited)
                self._drop_where("plan = ? AND kind = ? AND seq <= ?", found)
                continue
            for kind in (CHANGES, ANSWERS):
                held = self._held.get((tick.plan, kind))
                if held is not None:
                    held.rows += tick.reported(kind)
                if held is None or held.rows > tick.keep and held.rows - held.oldest >= tick.keep:
                    self._retire(tick, kind)

    def _retire(self, tick: PlanTick, kind: str) -> None:
        plan, oldest = tick.plan, 0
        held = self._catalog.value("SELECT sum(rows) FROM plan_parts WHERE plan = ? AND kind = ?", (plan, kind)) or 0
        while held > tick.keep:
            first = self._catalog.row(
                "SELECT seq, sum(rows) AS rows FROM plan_parts WHERE plan = ? AND kind = ?"
                " GROUP BY seq ORDER BY seq LIMIT 1",
                (plan, kind),
            )
            oldest = 0 if first is None else first["rows"]
            if first is None or held - oldest < tick.keep:
                break
            if kind == ANSWERS and held == oldest:  # the latest
                break
            if kind == CHANGES and first["seq"] >= tick.shown_from:
                break
            held, oldest = held - oldest, 0
            self._drop_where("plan = ? AND kind = ? AND seq = ?", (plan, kind, first["seq"]))
        self._held.pop((plan, kind), None)
        self._catalog.on_commit(lambda: self._held.update({(plan, kind): _Held(held, oldest)}))

    def _drop_where(self, condition: str, values: Sequence[object]) -> None:
        rows = self._catalog.rows(f"SELECT id, block FROM plan_parts WHERE {condition}", tuple(values))
        if rows:
            self._catalog.executemany("DELETE FROM plan_parts WHERE id = ?", [(row["id"],) for row in rows])
            for block, count in Counter(row["block"] for row in rows).items():
                self._blocks.release(block, count)

    def published(self, entry: int) -> None:
        """Remove a published stage from the outbox."""
        with self._catalog.transaction() as tx:
            tx.execute("DELETE FROM outbox WHERE id = ?", (entry,))

    def unpublished(self, plan: int) -> list[tuple[int, str]]:
        """The committed stages of a plan that its sink may not show yet, in order."""
        rows = self._catalog.rows("SELECT id, entry FROM outbox WHERE query = ? ORDER BY id", (plan,))
        return [(row["id"], row["entry"]) for row in rows]

    # -- reading -------------------------------------------------------------------------------

    def parts(self, plan: int, *kinds: str, since: int = 0) -> list[PlanPart]:
        """The parts of these kinds, of commits from `since` on, in the order in which they were written."""
        rows = self._catalog.rows(
            f"{_PARTS} WHERE p.plan = ? AND p.kind IN ({_marks(kinds)}) AND p.seq >= ? ORDER BY p.seq, p.id",
            (plan, *kinds, since),
        )
        return [_part(row) for row in rows]

    def state_parts(self, plans: Sequence[int]) -> dict[int, list[PlanPart]]:
        """The parts of the state of several plans, as `parts`."""
        found: dict[int, list[PlanPart]] = {plan: [] for plan in plans}
        sql = f"{_PARTS} WHERE p.plan IN ({_marks(plans)}) AND p.kind = ? ORDER BY p.seq, p.id"
        for row in self._catalog.rows(sql, (*plans, STATE)):
            found[row["plan"]].append(_part(row))
        return found

    def view_parts(self, plan: int) -> list[PlanPart]:
        """The parts that make the view: the latest merged view first, and then all changes since, in the order in which
        they were written, from the first on that has not expired as a whole."""
        merged, row = self.parts(plan, VIEW), self.row(plan)
        ticked, first = (None, 0) if row is None else (row["ticked"], row["shown_from"])
        first = max(first, *(part.seq + 1 for part in merged)) if merged else first
        since = self.parts(plan, CHANGES, since=first)
        return [*merged, *dropwhile(lambda part: ticked is not None and part.ends < ticked, since)]

    def read(self, part: PlanPart) -> pa.Table:
        """The rows of a part, mapped: they outlive the deletion of the file."""
        return self._blocks.read_part(part.path, part.offset, part.length)

    def reader(self) -> Callable[[PlanPart], pa.Table]:
        """Reads as `read`, for many parts: it maps each file once."""
        mapped = MappedBlocks(self._blocks.root)
        return lambda part: mapped.part(part.path, part.offset, part.length)

    def state_part(self, part: PlanPart) -> StatePart:
        """A part of the state of a plan's operators."""
        assert part.operator is not None and part.layout is not None
        return StatePart(part.operator, Layout[part.layout], self.read(part), part.lo or 0, part.hi or 0)


_PARTS = "SELECT p.*, b.path FROM plan_parts p JOIN blocks b ON b.id = p.block"
_NAMES = ("id", "kind", "seq", "path", "offset", "length", "rows", "operator", "layout", "lo", "hi")


def _part(row: Row) -> PlanPart:
    return PlanPart(**{name: row[name] for name in _NAMES}, buckets=(row["first_bucket"], row["end_bucket"]))


def _wait(files: Sequence[_PlanFile]) -> None:
    """Return when the files are on disk."""
    for file in files:
        file.block.wait()


def _saved(point: int | None) -> int | None:
    """A bound that SQLite can hold: those of rows that never expire lie beyond."""
    return None if point is None else max(POINT_MIN, min(POINT_MAX, point))


def _joined(run: Sequence[PlanPart], tables: Sequence[pa.Table]) -> NewPart:
    """Parts as one, which is of the last of their commits."""
    lo = None if any(part.lo is None for part in run) else min(part.goes for part in run)
    hi = None if any(part.hi is None for part in run) else max(part.ends for part in run)
    return NewPart(run[0].kind, pa.concat_tables(tables), lo=lo, hi=hi, seq=run[-1].seq)


def _is_mergeable(run: Sequence[PlanPart]) -> bool:
    """Whether parts become fewer, or leave a file of several plans."""
    return len(run) > 1 or run[0].path.startswith(f"{SHARED}/")


def _by_commit(parts: Iterable[PlanPart]) -> Iterator[list[PlanPart]]:
    """Parts in the order of their commits, by commit: that of a plan in Spark has one for each range."""
    for _, some in groupby(parts, key=lambda part: part.seq):
        yield list(some)


def _ascending(
    run: Sequence[PlanPart], tables: Sequence[pa.Table]
) -> Iterator[tuple[Sequence[PlanPart], Sequence[pa.Table]]]:
    """A run of parts cut where a commit reports ticks of the one before it, as that after CREATE OR REPLACE does. The
    rows of a part are read in the order of their ticks, so the two must stay apart. The parts of a commit do not."""
    start, stop, top = 0, 0, POINT_MIN
    for parts in _by_commit(run):
        begin, stop = stop, stop + len(parts)
        bounds = [found for table in tables[begin:stop] if (found := _ticks(table)) is not None]
        if bounds and begin > start and min(least for least, _ in bounds) <= top:
            yield run[start:begin], tables[start:begin]
            start = begin
        top = max((top, *(most for _, most in bounds)))
    yield run[start:], tables[start:]


def _ticks(table: pa.Table) -> tuple[int, int] | None:
    """The first and the last tick of changes; None if there are none."""
    if HEAD[AT] not in table.column_names or not table.num_rows:
        return None
    least, most = pc.min_max(table.column(HEAD[AT])).as_py().values()
    return least, most


def _marks(values: Sequence[object]) -> str:
    """As many question marks."""
    return ", ".join("?" * len(values))
