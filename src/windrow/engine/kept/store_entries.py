"""Window stores and their readers in the catalog: what each keeps, since when, and for whom."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from sqlite3 import Row

from windrow.catalog.store import Catalog
from windrow.dataplane.stores import KeptColumn, WindowStoreSpec
from windrow.windows.frontier import max_or_none

Point = int | None
Since = Mapping[KeptColumn, Point]


@dataclass(frozen=True)
class StoreReader:
    """A reader of a store. Its rows are complete from `since` on (None: all are). It needs no rows below `needs_from`
    (None: it needs all), and at most `span` points of them (None: unknown). `error`: Spark cannot compute its columns,
    so nothing is kept for it any more."""

    name: str
    store: int
    columns: tuple[KeptColumn, ...]
    predicate: KeptColumn | None
    since: int | None
    needs_from: int | None
    span: int | None = None
    error: str | None = None

    def moved(self, point: int) -> StoreReader:
        """The reader when it needs nothing below the point."""
        return replace(self, needs_from=max_or_none(self.needs_from, point))


@dataclass(frozen=True)
class WindowStore:
    """A store: the keys that bucket its rows, and since which point it keeps each column and each selection of rows
    (None: since the stream began). The selection None is all rows. Rows below `kept_from` have expired."""

    id: int
    stream: str
    axis: str
    keys: tuple[KeptColumn, ...]
    columns: Since
    selections: Mapping[KeptColumn | None, Point]
    kept_from: int | None
    readers: tuple[StoreReader, ...] = ()

    @property
    def owner(self) -> str:
        return f"stores/{self.id}"

    @property
    def spec(self) -> WindowStoreSpec:
        """What the next micro-batch adds."""
        tests = () if None in self.selections else tuple(one for one in self.selections if one is not None)
        return WindowStoreSpec(self.id, self.stream, self.axis, self.keys, tuple(self.columns), tests)

    @property
    def live(self) -> tuple[StoreReader, ...]:
        """The readers that rows are kept for."""
        return tuple(reader for reader in self.readers if reader.error is None)

    @property
    def needed_from(self) -> int | None:
        """The point below which no reader needs rows; None: there is none."""
        needs = [reader.needs_from for reader in self.live]
        known = [point for point in needs if point is not None]
        return min(known) if known and len(known) == len(needs) else None

    @property
    def span(self) -> int | None:
        """The most points that a reader needs at once; None: unknown."""
        spans = [reader.span for reader in self.live]
        known = [span for span in spans if span is not None]
        return max(known) if known and len(known) == len(spans) else None

    def complete_from(
        self, columns: Iterable[KeptColumn], predicate: KeptColumn | None, fresh: int | None
    ) -> int | None:
        """The point from which rows with these columns and this predicate are complete, given that what the store does
        not keep yet it keeps from `fresh` on. None: all are."""
        found = [self.columns.get(one, fresh) for one in columns]
        found += [self._selected_from(predicate, fresh), self.kept_from]
        return max((point for point in found if point is not None), default=None)

    def _selected_from(self, predicate: KeptColumn | None, fresh: int | None) -> int | None:
        """Since when all rows are kept for which the predicate is true."""
        known = [self.selections[one] for one in {predicate, None} if one in self.selections]
        return fresh if not known else None if None in known else min(point for point in known if point is not None)

    def less_needed(self, needs: Mapping[str, int]) -> dict[str, int]:
        """Of the points from which readers need rows, those that are above what is known of readers of this store."""
        found = ((one.name, needs[one.name], one.needs_from) for one in self.readers if one.name in needs)
        return {name: point for name, point, known in found if known is None or known < point}

    def with_reader(self, reader: StoreReader, fresh: int | None) -> WindowStore:
        """The store with a reader, which replaces the one of its name; it keeps what the readers need and no more."""
        others = tuple(one for one in self.readers if one.name != reader.name)
        return self._for((*others, reader), fresh)

    def without_reader(self, name: str) -> WindowStore:
        return self._for(tuple(one for one in self.readers if one.name != name), None)

    def _for(self, readers: tuple[StoreReader, ...], fresh: int | None) -> WindowStore:
        live = [one for one in readers if one.error is None]
        tests = [one.predicate for one in live if one.predicate is not None]
        columns = dict.fromkeys([column for one in live for column in one.columns] + tests)
        selections = dict.fromkeys(one.predicate for one in live)
        return replace(
            self,
            readers=readers,
            columns={one: self.columns.get(one, fresh) for one in columns},
            selections={one: self._selected_from(one, fresh) for one in selections},
        )


class StoreEntries:
    """Reads and writes stores and readers. Writing needs a transaction of the caller."""

    def __init__(self, catalog: Catalog):
        self._catalog = catalog

    def all(self) -> list[WindowStore]:
        readers: dict[int, list[StoreReader]] = {}
        for row in self._catalog.rows("SELECT * FROM store_readers ORDER BY rowid"):
            readers.setdefault(row["store"], []).append(_reader(row))
        found = self._catalog.rows("SELECT * FROM window_stores ORDER BY id")
        return [replace(_store(row), readers=tuple(readers.get(row["id"], ()))) for row in found]

    def find(self, has: Callable[[WindowStore], bool]) -> WindowStore | None:
        """The first store of this kind, as this transaction sees it."""
        return next((one for one in self.all() if has(one)), None)

    def create(self, stream: str, axis: str, keys: Sequence[KeptColumn], kept_from: int | None) -> WindowStore:
        empty = WindowStore(0, stream, axis, tuple(keys), {}, {}, kept_from)
        made = self._catalog.execute(
            "INSERT INTO window_stores (stream, axis, spec, kept_from) VALUES (?, ?, ?, ?)",
            (stream, axis, _saved(empty), kept_from),
        )
        assert made.lastrowid is not None
        return replace(empty, id=made.lastrowid)

    def save(self, store: WindowStore) -> None:
        """Save what the store keeps, and its readers."""
        self._catalog.execute(
            "UPDATE window_stores SET spec = ?, kept_from = ? WHERE id = ?",
            (_saved(store), store.kept_from, store.id),
        )
        self._catalog.execute("DELETE FROM store_readers WHERE store = ?", (store.id,))
        self._catalog.executemany(
            "INSERT INTO store_readers (name, store, columns, since, needs_from, span, error)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(one.name, store.id, _read(one), one.since, one.needs_from, one.span, one.error) for one in store.readers],
        )

    def drop(self, store: WindowStore) -> None:
        """Delete an entry; its blocks are released before."""
        self._catalog.execute("DELETE FROM store_readers WHERE store = ?", (store.id,))
        self._catalog.execute("DELETE FROM window_stores WHERE id = ?", (store.id,))

    def needs(self, store: int, points: Mapping[str, int]) -> int | None:
        """Save that readers of a store need nothing below these points. Return the point below which no reader of it
        needs anything; None: there is none."""
        self._catalog.executemany(
            "UPDATE store_readers SET needs_from = ? WHERE name = ?", [(point, name) for name, point in points.items()]
        )
        found = self._catalog.row(
            "SELECT min(needs_from), count(*) = count(needs_from) FROM store_readers WHERE store = ? AND error IS NULL",
            (store,),
        )
        return None if found is None or not found[1] else found[0]

    def rename(self, reader: str, name: str) -> None:
        self._catalog.execute("UPDATE store_readers SET name = ? WHERE name = ?", (name, reader))

    def kept_from(self, store: int, point: int) -> None:
        self._catalog.execute("UPDATE window_stores SET kept_from = ? WHERE id = ?", (point, store))


def _saved(store: WindowStore) -> str:
    return json.dumps(
        {
            "keys": [key.saved() for key in store.keys],
            "columns": [[one.saved(), since] for one, since in store.columns.items()],
            "selections": [[None if one is None else one.saved(), since] for one, since in store.selections.items()],
        }
    )


def _store(row: Row) -> WindowStore:
    spec = json.loads(row["spec"])
    return WindowStore(
        row["id"],
        row["stream"],
        row["axis"],
        tuple(KeptColumn.restored(key) for key in spec["keys"]),
        {KeptColumn.restored(one): since for one, since in spec["columns"]},
        {None if one is None else KeptColumn.restored(one): since for one, since in spec["selections"]},
        row["kept_from"],
    )


def _read(reader: StoreReader) -> str:
    predicate = None if reader.predicate is None else reader.predicate.saved()
    return json.dumps({"columns": [one.saved() for one in reader.columns], "predicate": predicate})


def _reader(row: Row) -> StoreReader:
    read = json.loads(row["columns"])
    predicate = None if read["predicate"] is None else KeptColumn.restored(read["predicate"])
    columns = tuple(KeptColumn.restored(one) for one in read["columns"])
    kept = (row["since"], row["needs_from"], row["span"], row["error"])
    return StoreReader(row["name"], row["store"], columns, predicate, *kept)
