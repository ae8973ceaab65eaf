"""A table in memory: its rows after the last committed change, and the changes that are not folded into its base."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from windrow.catalog.relations import TableDef
from windrow.dataplane.stores import ARRIVAL, KeptColumn
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.relations.changelog import FROM, after_change, netted_change
from windrow.operators.tables.edges import COUNT
from windrow.operators.tables.rows import appended, longs, numbered, taken
from windrow.types import POINT_MIN


@dataclass(frozen=True)
class TableVersion:
    """The rows of a table after its `seq`-th change. `gone`: the keys that were deleted, of a table that is NON
    RETROACTIVE. It is never changed; a change makes another, which shares what it does not touch."""

    seq: int
    rows: Keyed
    gone: Keyed

    @staticmethod
    def first(definition: TableDef) -> TableVersion:
        return TableVersion(0, Keyed(definition.key), Keyed(definition.key))

    def after(self, change: pa.Table, definition: TableDef) -> TableVersion:
        """With a change: the rows that it removes (COUNT −1) and those that it adds (COUNT 1)."""
        rows, gone = after_change(self.rows, change), self.gone
        old = taken(change, longs(change.column(COUNT)) < 0)
        if not definition.is_retroactive and old.num_rows:
            _, firsts = numbered(keys_in(old, definition), old.num_rows)
            old = taken(old, firsts)  # a stream may have replaced a row several times
            lost = taken(old, rows.find(keys_in(old, definition), old.num_rows) < 0)
            gone = gone.put(lost.select(list(definition.key)), np.zeros(0, np.int64))
        return replace(self, seq=self.seq + 1, rows=rows, gone=gone)


@dataclass(frozen=True)
class LoggedChange:
    """A change: its sequence number, its block, and what it removed and added."""

    seq: int
    path: str
    rows: pa.Table

    @cached_property
    def end(self) -> int:
        """Of a table that a stream feeds: the point above its last part."""
        return int(longs(self.rows.column(FROM)).max()) + 1


@dataclass(frozen=True)
class TableBase:
    """All rows as of a change, in a block; at first there are none. `is_bucketed`: they are in the order of buckets,
    and are read from the mapped file. `known_from`: of a table that a stream feeds, the first point whose version is
    known; of the changes below, only what they made is kept."""

    seq: int = 0
    path: str | None = None
    count: int = 0
    is_bucketed: bool = False
    known_from: int = POINT_MIN


@dataclass(frozen=True)
class TableFeed:
    """What a table reads of the stream that feeds it: the stream's window attribute, a column of the stream for each of
    its own, and the condition under which a row says that its key is gone (None: no row does)."""

    stream: str
    axis: str
    columns: tuple[KeptColumn, ...]
    deletes: KeptColumn | None
    has_arrival: bool = True
    """Whether tuples of equal points are ordered by their arrival; otherwise by their columns, deletions last."""

    @property
    def read(self) -> tuple[KeptColumn, ...]:
        """All that the stream keeps for it."""
        arrival = (ARRIVAL,) if self.has_arrival else ()
        return (*arrival, *self.columns, *(() if self.deletes is None else (self.deletes,)))

    def saved(self) -> str:
        deletes = None if self.deletes is None else self.deletes.saved()
        columns = [one.saved() for one in self.columns]
        return json.dumps([self.stream, self.axis, columns, deletes, self.has_arrival])

    @staticmethod
    def restored(saved: str) -> TableFeed:
        stream, axis, columns, deletes, has_arrival = json.loads(saved)
        kept = tuple(KeptColumn.restored(one) for one in columns)
        return TableFeed(stream, axis, kept, None if deletes is None else KeptColumn.restored(deletes), has_arrival)


@dataclass
class StoredTable:
    """A table. `version` is replaced as a whole after a commit; readers take it without a lock. `changes` are the last
    ones: all since the base, and earlier ones that plans may read."""

    id: int
    definition: TableDef
    version: TableVersion
    base: TableBase = TableBase()
    changes: tuple[LoggedChange, ...] = ()
    changing: threading.RLock = field(default_factory=threading.RLock)
    """Held while a statement changes it, or it is dropped."""
    is_dropped: bool = False
    feed: TableFeed | None = None
    """What it reads of the stream that feeds it; None: statements change it."""
    applied: int = POINT_MIN
    """All rows of that stream below this point are in it."""

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def rows(self) -> pa.Table:
        """Its rows, in the order of their keys."""
        return self.unordered.sort_by([(name, "ascending") for name in self.definition.key]).combine_chunks()

    @property
    def unordered(self) -> pa.Table:
        """Its rows, in no particular order."""
        return self.version.rows.rows(self.definition.schema).select(self.definition.schema.names)

    @property
    def log(self) -> pa.Table:
        """The last changes, one after another."""
        schema = change_schema(self.definition)
        return pa.concat_tables([schema.empty_table(), *(one.rows for one in self.changes)])

    def since(self, seq: int) -> pa.Table:
        """What the changes after the `seq`-th did, without what they undid."""
        schema = change_schema(self.definition)
        found = [one.rows for one in self.changes if one.seq > seq]
        return netted_change(pa.concat_tables(found)) if found else schema.empty_table()


def change_schema(definition: TableDef) -> pa.Schema:
    """The columns of a change."""
    head = [COUNT] if definition.stream is None else [COUNT, FROM]
    return pa.schema(
        [*((name, pa.int64()) for name in head), *((name, kind.arrow) for name, kind in definition.columns)]
    )


def changed(definition: TableDef, removed: pa.Table, added: pa.Table) -> pa.Table:
    """A change that removes rows and adds others, without those that it would put back."""
    counts = np.concatenate([np.full(removed.num_rows, -1), np.ones(added.num_rows, np.int64)])
    names = definition.schema.names
    rows = pa.concat_tables([removed.select(names), added.select(names)])
    return netted_change(appended(rows, **{COUNT: counts}).select([COUNT, *names]))


def keys_in(rows: pa.Table, definition: TableDef) -> list[pa.ChunkedArray]:
    """The key columns of rows."""
    return [rows.column(name) for name in definition.key]
