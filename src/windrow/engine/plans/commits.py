"""Commits of continuous queries: a batch of ticks is one transaction, of all plans that are due for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from sqlite3 import Row

import pyarrow as pa

from windrow.catalog.store import Catalog
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockRef, BlockStore
from windrow.dataplane.kernels.stage_messages import ANSWERS, CHANGES, SHARED, STATE, TOGETHER_ROWS, VIEW
from windrow.operators.changes import in_order
from windrow.operators.layouts.parts import Layout, StatePart
from windrow.operators.stages.ranges import WHOLE, Range
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
    def ends(self) -> int:
        """When the last row of a part of the view ends."""
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
    """Small parts of reported rows as fewer parts, and the numbers of the parts that these replace."""

    parts: tuple[NewPart, ...] = ()
    replaced: tuple[int, ...] = ()


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
    replace. Parts of state in a calendar, and of the view, whose rows have all left by `ticked` are dropped. Of the
    changes, the newest `keep` rows stay, and all that are newer than the latest view. `deposited`: the changes up to
    this commit are tuples of a derived stream, and are dropped. `staged` is the entry of the sink's stage.
    """

    plan: int
    ticked: int
    seq: int
    parts: tuple[NewPart, ...]
    drops: tuple[str, ...] = ()
    keep: int = 0
    covered: int | None = None
    deposited: int | None = None
    blocks: tuple[WrittenBlock, ...] = ()
    tidied: Tidied = Tidied()
    staged: str | None = None
    effects: tuple[TableEffect, ...] = ()

    @property
    def written(self) -> tuple[NewPart, ...]:
        """All that the driver writes."""
        return (*self.tidied.parts, *self.parts)

    @property
    def changes(self) -> int:
        mine: int = sum(part.table.num_rows for part in self.parts if part.kind in (CHANGES, ANSWERS))
        return mine + sum(p.rows for block in self.blocks for p in block.parts if p.kind in (CHANGES, ANSWERS))


@dataclass(frozen=True)
class _PlanFile:
    """A file that the driver wrote, and its parts by the numbers of their plans."""

    ref: BlockRef
    parts: dict[int, list[PlanPart]]

    def add(self, tick: PlanTick, part: NewPart, offset: int, length: int) -> None:
        """Note a part of a plan that is at this place of the file."""
        rows, state = part.table.num_rows, (part.operator, part.layout, part.lo, part.hi)
        seq = tick.seq if part.seq is None else part.seq
        placed = PlanPart(part.kind, seq, self.ref.path, offset, length, rows, *state)
        self.parts.setdefault(tick.plan, []).append(placed)

    def of(self, plan: int) -> Sequence[PlanPart]:
        return self.parts.get(plan, ())


class PlanCommits:
    """Reads and writes the tables `plans`, `plan_streams` and `plan_parts`."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks
        self._tidy_from: dict[tuple[int, str], int] = {}
        """By plan and kind, the commit from which on parts may have to be merged."""

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

    def rows(self) -> list[Row]:
        """The plans, in the order of creation."""
        return self._catalog.rows("SELECT * FROM plans ORDER BY id")

    def row(self, number: int) -> Row | None:
        return self._catalog.row("SELECT * FROM plans WHERE id = ?", (number,))

    def moved(self, number: int, ticked: int | None) -> None:
        """In a transaction: a plan has passed ticks at which nothing changed."""
        self._catalog.execute("UPDATE plans SET ticked = ? WHERE id = ?", (ticked, number))

    def suspend(self, number: int, why: str) -> None:
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE plans SET error = ? WHERE id = ?", (why, number))

    # -- ticks ---------------------------------------------------------------------------------

    def tick(
        self, ticks: Sequence[PlanTick], along: Callable[[], None] = lambda: None
    ) -> list[tuple[tuple[PlanPart, ...], int | None]]:
        """Write and commit a tick batch of several plans in one transaction, in which `along` is executed. Return for
        each the parts written now, and the number of its outbox entry."""
        files = self._write(ticks)
        crash_point("plan-blocks-written")
        found = []
        with self._catalog.transaction() as tx:
            numbers = [self._blocks.add(file.ref, refs=sum(map(len, file.parts.values()))) for file in files]
            by_path = self._add_written(block for tick in ticks for block in tick.blocks)
            for tick in ticks:
                self._drop_replaced(tick)
                for block in tick.blocks:
                    self._insert(tick.plan, by_path[block.ref.path], block.parts)
                for number, file in zip(numbers, files, strict=True):
                    self._insert(tick.plan, number, file.of(tick.plan))
                tx.execute(
                    "UPDATE plans SET ticked = ?, seq = ?, changes = changes + ?, covered = ? WHERE id = ?",
                    (tick.ticked, tick.seq, tick.changes, _saved(tick.covered), tick.plan),
                )
                for one in tick.effects:
                    tx.execute(
                        "UPDATE plan_relations SET seq = ?, tick = ?, upto = ? WHERE plan = ? AND relation = ?",
                        (one.seq, one.tick, _saved(one.upto), tick.plan, one.table),
                    )
                self._retire_changes(tick)
                parts = [part for block in tick.blocks for part in block.parts]
                parts += [part for file in files for part in file.of(tick.plan) if part.seq == tick.seq]
                found.append((tuple(parts), self._enter(tick)))
            along()
        crash_point("plan-committed")
        return found

    def _add_written(self, blocks: Iterable[WrittenBlock]) -> dict[str, int]:
        """Name blocks that tasks have written, and return their numbers by path. One may have parts of several
        plans."""
        refs, counts = dict[str, BlockRef](), Counter[str]()
        for block in blocks:
            refs[block.ref.path] = block.ref
            counts[block.ref.path] += len(block.parts)
        return {path: self._blocks.add(ref, refs=counts[path]) for path, ref in refs.items()}

    def write_views(self, plan: int, seq: int, views: Sequence[tuple[int, pa.Table]]) -> tuple[WrittenBlock, ...]:
        """Write parts of a view, each with the end of its last row, as blocks that are dropped one by one."""
        refs = self._blocks.writer.write_each(f"plans/{plan}", [table for _, table in views])
        return tuple(
            WrittenBlock(ref, (PlanPart(VIEW, seq, ref.path, 0, ref.bytes, ref.rows, hi=end),))
            for ref, (end, _) in zip(refs, views, strict=True)
        )

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
        ref, written = self._blocks.write_many(owner, [part.table for _, part in parts])
        file = _PlanFile(ref, {})
        for (tick, part), (offset, length) in zip(parts, written, strict=True):
            file.add(tick, part, offset, length)
            places[id(part.table)] = (file, offset, length)
        return file

    def _insert(self, plan: int, block: int, parts: Sequence[PlanPart]) -> None:
        for part in parts:
            self._catalog.execute(
                "INSERT INTO plan_parts (plan, kind, seq, operator, layout, block, offset, length, rows, lo, hi,"
                " first_bucket, end_bucket) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(plan, part.kind, part.seq, part.operator, part.layout, block),
                    *(part.offset, part.length, part.rows, _saved(part.lo), _saved(part.hi), *part.buckets),
                ),
            )

    def _enter(self, tick: PlanTick) -> int | None:
        """Put the stage of the sink into the outbox."""
        if tick.staged is None:
            return None
        cursor = self._catalog.execute(
            "INSERT INTO outbox (query, seq, entry, block) VALUES (?, ?, ?, NULL)", (tick.plan, tick.seq, tick.staged)
        )
        return int(cursor.lastrowid or 0)

    def tidied(self, plan: int) -> Tidied:
        """The small parts of reported rows, merged where several follow one another, or where one is in a file of
        several plans, which must not stay for it. Thus neither files nor parts grow with the age of a query."""
        parts, replaced = list[NewPart](), list[int]()
        for kind in (CHANGES, ANSWERS):
            runs = list(self._small_runs(plan, kind))
            several = [run for run in runs if len(run) > 1 or run[0].path.startswith(f"{SHARED}/")]
            for run in several:
                tables = [self.read(part) for part in run]
                if all(table.schema.equals(tables[0].schema) for table in tables):
                    commits = groupby(zip(run, tables, strict=True), key=lambda one: one[0].seq)
                    tables = [in_order([table for _, table in some]) for _, some in commits]
                    parts.append(NewPart(run[-1].kind, pa.concat_tables(tables), seq=run[-1].seq))
                    replaced += [part.id for part in run]
            if runs:  # not beyond what is merged now, since the commit may fail
                self._tidy_from[plan, kind] = (several or runs[-1:])[0][0].seq
        return Tidied(tuple(parts), tuple(replaced))

    def _small_runs(self, plan: int, kind: str) -> Iterator[list[PlanPart]]:
        """Runs of small parts that were not looked at before."""
        run = list[PlanPart]()
        for part in self.parts(plan, kind, since=self._tidy_from.get((plan, kind), 0)):
            is_small = part.rows <= SMALL_ROWS and part.length <= SMALL_BYTES
            if run and (not is_small or sum(one.rows for one in run) > SMALL_ROWS):
                yield run
                run = []
            if is_small:
                run.append(part)
        if run:
            yield run

    def _drop_replaced(self, commit: PlanTick) -> None:
        """Drop the parts that this commit replaces, and parts of state and view that are wholly expired."""
        kinds = ", ".join("?" * len(commit.drops))
        self._drop_where(f"plan = ? AND kind IN ({kinds})", (commit.plan, *commit.drops))
        expired = "plan = ? AND kind IN (?, ?) AND coalesce(layout, '') <> 'KEYED' AND hi < ?"
        self._drop_where(expired, (commit.plan, STATE, VIEW, commit.ticked))
        for number in commit.tidied.replaced:
            self._drop_where("id = ?", (number,))

    def _retire_changes(self, commit: PlanTick) -> None:
        """Drop the oldest changes that neither retention, nor the view, nor a derived stream needs."""
        if commit.deposited is not None:
            found = (commit.plan, CHANGES, commit.deposited)
            self._drop_where("plan = ? AND kind = ? AND seq <= ?", found)
            return
        seen = self._catalog.value("SELECT max(seq) FROM plan_parts WHERE plan = ? AND kind = ?", (commit.plan, VIEW))
        for kind in (CHANGES, ANSWERS):
            held = self._catalog.value(
                "SELECT sum(rows) FROM plan_parts WHERE plan = ? AND kind = ?", (commit.plan, kind)
            )
            while (held or 0) > commit.keep:
                oldest = self._catalog.row(
                    "SELECT seq, sum(rows) AS rows FROM plan_parts WHERE plan = ? AND kind = ?"
                    " GROUP BY seq ORDER BY seq LIMIT 1",
                    (commit.plan, kind),
                )
                if oldest is None or held - oldest["rows"] < commit.keep:
                    break
                if kind == CHANGES and (seen is None or oldest["seq"] > seen):
                    break
                held -= oldest["rows"]
                self._drop_where("plan = ? AND kind = ? AND seq = ?", (commit.plan, kind, oldest["seq"]))

    def _drop_where(self, condition: str, values: Sequence[object]) -> None:
        for row in self._catalog.rows(f"SELECT id, block FROM plan_parts WHERE {condition}", tuple(values)):
            self._catalog.execute("DELETE FROM plan_parts WHERE id = ?", (row["id"],))
            self._blocks.release(row["block"])

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
        marks = ", ".join("?" * len(kinds))
        rows = self._catalog.rows(
            "SELECT p.*, b.path FROM plan_parts p JOIN blocks b ON b.id = p.block"
            f" WHERE p.plan = ? AND p.kind IN ({marks}) AND p.seq >= ? ORDER BY p.seq, p.id",
            (plan, *kinds, since),
        )
        names = ("id", "kind", "seq", "path", "offset", "length", "rows", "operator", "layout", "lo", "hi")
        found = []
        for row in rows:
            buckets = (row["first_bucket"], row["end_bucket"])
            found.append(PlanPart(**{name: row[name] for name in names}, buckets=buckets))
        return found

    def view_parts(self, plan: int) -> list[PlanPart]:
        """The parts that make the view: the latest merged view, and all changes since."""
        parts = self.parts(plan, VIEW, CHANGES)
        last = max((part.seq for part in parts if part.kind == VIEW), default=-1)
        return [part for part in parts if part.kind == VIEW or part.seq > last]

    def read(self, part: PlanPart) -> pa.Table:
        """The rows of a part, mapped: they outlive the deletion of the file."""
        return self._blocks.read_part(part.path, part.offset, part.length)

    def state_part(self, part: PlanPart) -> StatePart:
        """A part of the state of a plan's operators."""
        assert part.operator is not None and part.layout is not None
        return StatePart(part.operator, Layout[part.layout], self.read(part), part.lo or 0, part.hi or 0)


def _saved(point: int | None) -> int | None:
    """A bound that SQLite can hold: those of rows that never expire lie beyond."""
    return None if point is None else max(POINT_MIN, min(POINT_MAX, point))
