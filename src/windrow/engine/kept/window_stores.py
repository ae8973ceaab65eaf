"""All window stores of a state directory: who reads them, their rows, and how long these are kept.

A store is found by stream, axis and keys, and shared by all its readers. What it keeps changes between micro-batches
(the caller holds the stream's `batch_lock`); rows expire and files are merged at any time. A reader sees the files of
one commit; what it has mapped stays valid when they are deleted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from windrow.catalog.store import Catalog
from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.blocks.store import BlockRow
from windrow.dataplane.ingest.admission import point_columns
from windrow.dataplane.kernels import KeepRequest
from windrow.dataplane.stores import (
    KeptColumn,
    KeptFile,
    MappedFiles,
    MappedStoreFile,
    PinnedFiles,
    ReadColumn,
    Selected,
    StoredRows,
    merged,
    read_rows,
    write_rows,
)
from windrow.engine.kept.computing import ComputedColumns, computable
from windrow.engine.kept.rewrites import Rewrite, rewrites
from windrow.engine.kept.store_entries import StoreEntries, StoreReader, WindowStore
from windrow.engine.state import StreamState
from windrow.errors import StateError
from windrow.logs import log_event
from windrow.operators.tables.kernel import Kernel
from windrow.types import POINT_MAX, POINT_MIN
from windrow.windows.frontier import max_or_none

log = logging.getLogger("windrow")

ATTEMPTS = 5
"""How often a read begins anew because files that it was about to map were merged or had expired."""


@dataclass(frozen=True)
class StoreUse:
    """What a reader has of a store. Rows below `since` must be ignored, and are never returned: some may be missing
    (None: none is). Only rows for which the predicate is true are returned."""

    store: int
    reader: str
    since: int | None
    predicate: KeptColumn | None = None


@dataclass(frozen=True)
class WantedRows:
    """What a window of a plan needs of a stream: these columns of the tuples for which the predicate is true, in a
    store that is bucketed by `keys`; at most `span` points at once."""

    stream: StreamState
    axis: str
    columns: tuple[KeptColumn, ...]
    predicate: KeptColumn | None
    keys: tuple[KeptColumn, ...]
    span: int | None
    ignored_below: int | None = None
    """Tuples below this point do not count, though they may be kept; None: all count."""

    @property
    def read(self) -> tuple[KeptColumn, ...]:
        """All columns that must be there."""
        return tuple(dict.fromkeys((*self.columns, *(() if self.predicate is None else (self.predicate,)))))


@dataclass(frozen=True)
class MovedReader:
    """A reader that takes the place of another: what it wants, and the point below which it needs nothing any more
    (None: it needs all). `source`: where the rows are that its own store, which is new, lacks (None: it lacks none).
    `since`: it ignores rows below."""

    wanted: WantedRows
    needs_from: int | None
    source: StoreUse | None
    since: int | None


class WindowStores:
    """Owns the window stores. `on_failure` is told the reader and the reason when Spark cannot compute its columns."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks
        self._root = str(blocks.root.resolve())
        self._entries = StoreEntries(catalog)
        self._mapped = MappedFiles()
        # Questions ask for ever other columns: copies for them would leave none for ticks.
        self._asked = MappedFiles(most_runs=0)
        self._stores: Mapping[int, WindowStore] = {}
        self._streams: dict[str, StreamState] = {}
        self._files: dict[int, tuple[BlockRow, ...]] = {}
        self._paths: dict[int, tuple[tuple[BlockRow, ...], dict[int, StoredRows], tuple[StoredRows, ...]]] = {}
        self._version = 0
        self._guard = threading.Lock()
        self._reloading = threading.Lock()
        self.on_failure: Callable[[str, str], None] | None = None
        self.is_held: Callable[[str], bool] = lambda stream: False
        """Whether one-time queries see an older version of a stream than the latest: then its rows do not expire."""

    # -- readers -------------------------------------------------------------------------------

    def recover(self, streams: Iterable[StreamState]) -> None:
        """Read the stores of the catalog, at opening."""
        self._streams = {stream.name.lower(): stream for stream in streams}
        self._reload()

    def need(
        self,
        stream: StreamState,
        reader: str,
        axis: str,
        columns: Sequence[KeptColumn],
        predicate: KeptColumn | None = None,
        keys: Sequence[KeptColumn] = (),
        span: int | None = None,
        ignored_below: int | None = None,
    ) -> StoreUse:
        """Keep these columns of the tuples for which the predicate is true, from the next micro-batch on, for a reader
        of this name, in a store that is bucketed by `keys`. Call it with the stream's `batch_lock` held; it is part of
        the caller's transaction if there is one.

        A name is that of one use: a plan with two windows has two readers. `span` is the most points that the reader
        needs at once; by it, expired rows are measured and files merged. Rows below `ignored_below` do not count.
        """
        with self._transaction():
            taken = self._entries.find(lambda one: _is_read(one, reader))
            own = self._entries.find(lambda one: _is_at(one, stream, axis, keys))
            if taken is not None and (own is None or taken.id != own.id):
                raise ValueError(f"'{reader}' reads another store already")
            greatest = self.greatest(stream, axis)
            fresh = None if greatest is None else greatest + 1
            if own is None:
                own = self._entries.create(stream.name, axis, keys, fresh)
            read = (*columns, *(() if predicate is None else (predicate,)))
            since = max_or_none(own.complete_from(read, predicate, fresh), ignored_below)
            self._entries.save(
                own.with_reader(StoreReader(reader, own.id, tuple(columns), predicate, since, since, span), fresh)
            )
            self._catalog.on_commit(lambda: self._reload(stream))
        return StoreUse(own.id, reader, since, predicate)

    def need_rows(self, wanted: WantedRows, reader: str) -> StoreUse:
        """As `need`."""
        columns = (wanted.columns, wanted.predicate, wanted.keys, wanted.span, wanted.ignored_below)
        return self.need(wanted.stream, reader, wanted.axis, *columns)

    def own_source(self, wanted: WantedRows) -> StoreUse | None:
        """The store that a new reader would share, and from when on it has its rows; None: it does not exist yet."""
        own = next(
            (one for one in self._of(wanted.stream) if _is_at(one, wanted.stream, wanted.axis, wanted.keys)), None
        )
        return None if own is None else self._source(own, wanted)

    def best_source(self, wanted: WantedRows) -> StoreUse | None:
        """The store that has such rows from the earliest point on, whatever it is bucketed by; None: none has any."""
        found = [self._source(one, wanted) for one in self._of(wanted.stream) if one.axis == wanted.axis]
        fresh = self.fresh(wanted)
        found = [one for one in found if one.since is None or (fresh is not None and one.since < fresh)]
        return min(found, key=lambda one: POINT_MIN if one.since is None else one.since, default=None)

    def _source(self, store: WindowStore, wanted: WantedRows) -> StoreUse:
        since = store.complete_from(wanted.read, wanted.predicate, self.fresh(wanted))
        return StoreUse(store.id, "", since, wanted.predicate)

    def fresh(self, wanted: WantedRows) -> int | None:
        """The point from which on everything is kept that nobody has asked for before."""
        greatest = self.greatest(wanted.stream, wanted.axis)
        return None if greatest is None else greatest + 1

    def compute(self, wanted: WantedRows, kernel: Kernel) -> None:
        """Add wanted columns that can be computed from kept ones to the rows of the reader's own store, or, if there is
        none yet, of all stores of the axis. A commit of its own, with the stream's `batch_lock` held; no answer depends
        on it."""
        stores = [one for one in self._of(wanted.stream) if one.axis == wanted.axis]
        own = [one for one in stores if one.keys == wanted.keys]
        for store in own or stores:
            columns = computable(store.columns, wanted.read, kernel)
            if columns is not None and self._named(store.id):
                self._compute(store, columns, kernel)

    def _compute(self, store: WindowStore, columns: ComputedColumns, kernel: Kernel) -> None:
        rows = self._named(store.id)
        wider = replace(store, columns={**store.columns, **dict.fromkeys(columns.trees, columns.since)})
        bounds = [min(_points(row)[0] for row in rows), max(_points(row)[1] for row in rows) + 1]
        files = [MappedStoreFile(f"{self._root}/{row.path}") for row in rows]
        made = merged(self._blocks.writer, wider.spec, files, bounds, lambda table: columns.added_to(table, kernel))
        with self._transaction():
            now = self._entries.find(lambda one: one.id == store.id)
            if now is not None and {row.id for row in rows} == {row.id for row in self._blocks.named(store.owner)}:
                for file in made:
                    self._blocks.add(file.ref, file.lo, file.hi)
                for row in rows:
                    self._blocks.release(row.id)
                self._entries.save(replace(now, columns=wider.columns))
            self._catalog.on_commit(lambda: self._forget({store.id}))
            self._catalog.on_commit(self._reload)

    def move(self, number: int, old: Sequence[str], moved: Sequence[MovedReader]) -> list[StoreUse]:
        """Give a plan other readers, in the transaction of the caller, with the `batch_lock` of all streams held. What
        both need stays."""
        found = [self._moved(f"{number}/new{i}", one) for i, one in enumerate(moved)]
        for reader in old:
            self.drop(reader)
        for i, use in enumerate(found):
            self._entries.rename(use.reader, f"{number}/{i}")
        self._catalog.on_commit(self._reload)
        return [replace(use, reader=f"{number}/{i}") for i, use in enumerate(found)]

    def _moved(self, name: str, moved: MovedReader) -> StoreUse:
        wanted = moved.wanted
        use = self.need_rows(wanted, name)
        store = self._entries.find(lambda one: one.id == use.store)
        assert store is not None
        own = next(one for one in store.readers if one.name == name)
        if moved.source is not None:
            self._fill(store, moved)
            since = moved.source.since
            kept = dict.fromkeys(store.columns, since), dict.fromkeys(store.selections, since)
            store = replace(store, kept_from=moved.needs_from, columns=kept[0], selections=kept[1])
        own = replace(own, since=moved.since, needs_from=moved.needs_from)
        readers = tuple(own if one.name == name else one for one in store.readers)
        self._entries.save(replace(store, readers=readers))
        return replace(use, since=moved.since)

    def _fill(self, store: WindowStore, moved: MovedReader) -> None:
        """Write the rows of another store that are still needed into a new one."""
        assert moved.source is not None
        lo = POINT_MIN if moved.needs_from is None else moved.needs_from
        rows = self.rows(moved.source, moved.wanted.read, lo, POINT_MAX)
        made = write_rows(self._blocks.writer, store.spec, rows)
        if made is not None:
            self._blocks.add(made.ref, made.lo, made.hi)

    def use(self, reader: str) -> StoreUse | None:
        """What a reader has of its store, after a restart; None if there is no such reader."""
        found = self._reader(reader)
        return None if found is None else StoreUse(found.store, found.name, found.since, found.predicate)

    def serves(self, use: StoreUse, wanted: WantedRows) -> bool:
        """Whether a reader has its rows where a window that wants these would look for them, with all its columns."""
        store, reader = self._stores.get(use.store), self._reader(use.reader)
        if store is None or reader is None or not _is_at(store, wanted.stream, wanted.axis, wanted.keys):
            return False
        return set(wanted.columns) <= set(reader.columns) and reader.predicate in (None, wanted.predicate)

    def error(self, reader: str) -> str | None:
        """Why nothing is kept for a reader any more."""
        found = self._reader(reader)
        return None if found is None else found.error

    def drop(self, reader: str) -> None:
        """Forget a reader, and what is kept for it alone. Call it with the stream's `batch_lock` held; it is part of
        the caller's transaction if there is one. An unknown reader is none."""
        with self._transaction():
            found = self._entries.find(lambda one: _is_read(one, reader))
            if found is None:
                return
            left = found.without_reader(reader)
            if left.readers:
                self._entries.save(left)
                if left.needed_from is not None:
                    self._expire(left, left.needed_from)
            else:
                for row in self._blocks.named(left.owner):
                    self._blocks.release(row.id)
                self._entries.drop(left)
            self._catalog.on_commit(self._reload)

    def suspend(self, reader: str, why: str) -> None:
        """Keep nothing more for a reader whose columns Spark cannot compute; what it has read stays."""
        with self._transaction():
            found = self._entries.find(lambda one: _is_read(one, reader))
            if found is None:
                return
            old = next(one for one in found.readers if one.name == reader)
            self._entries.save(found.with_reader(replace(old, error=why), None))
            self._catalog.on_commit(self._reload)
        log_event(
            "reader_suspended", "nothing is kept for '{reader}': {error}", logging.ERROR, reader=reader, error=why
        )
        if self.on_failure is not None:
            self.on_failure(reader, why)

    def is_suspended(self, reader: str) -> bool:
        """Whether nothing is kept for a reader any more."""
        found = self._reader(reader)
        return found is not None and found.error is not None

    def readers(self, stream: StreamState) -> list[StoreReader]:
        """The readers that rows of a stream are kept for."""
        return [reader for store in self._of(stream) for reader in store.live]

    # -- rows ----------------------------------------------------------------------------------

    def rows(
        self,
        use: StoreUse,
        columns: Sequence[ReadColumn],
        lo: int,
        hi: int,
        buckets: range | None = None,
    ) -> pa.Table:
        """The committed rows of a use with lo ≤ point < hi, in a run of the 256 buckets (None: in all): `__t`, then the
        columns in this order, named by their ids. The table maps files; it is valid as long as it is held."""
        selected = Selected(max(lo, POINT_MIN if use.since is None else use.since), hi, use.predicate, buckets)
        for _ in range(ATTEMPTS):
            named = self._named(use.store)
            try:
                return read_rows(self._mapped, self._located(use.store, named), columns, selected)
            except StateError:
                if not self._has_changed(use.store, named):
                    raise
        return read_rows(self._mapped, self.files(use), columns, selected)

    def files(self, use: StoreUse) -> Sequence[StoredRows]:
        """The committed files of a use, for `read_rows` in Spark tasks. Rows below its `since`, and those for which its
        predicate is not true, are the task's to leave out."""
        return self._located(use.store, self._named(use.store))

    def pin(self, wanted: Mapping[int, tuple[int, int]]) -> tuple[dict[int, PinnedFiles], Callable[[], None]]:
        """The committed files of stores that have rows with lo ≤ point < hi, by the numbers of the stores. They stay on
        disk until the returned function is called."""
        for _ in range(ATTEMPTS):
            found = {
                store: PinnedFiles(
                    tuple(one for one in self._located(store, self._named(store)) if one.hi >= lo and one.lo < hi),
                    self._asked,
                )
                for store, (lo, hi) in wanted.items()
            }
            release = self._blocks.pins.pin(file.path for files in found.values() for file in files.files)
            if release is not None:
                return found, release
            self._forget(wanted)
        raise StateError("the files of a window store are replaced faster than they can be read", remedy="Ask again.")

    def store(self, number: int) -> WindowStore | None:
        """The store of this number as of now; None if it is gone."""
        return self._stores.get(number)

    def bytes_from(self, use: StoreUse, lo: int) -> int:
        """The bytes of the files of a use that have rows from a point on."""
        return sum(row.bytes for row in self._named(use.store) if _points(row)[1] >= lo)

    def look_again(self, uses: Iterable[StoreUse]) -> None:
        """Read the lists of files again: some that were listed are gone."""
        self._forget({use.store for use in uses})

    def size(self, use: StoreUse) -> tuple[int, int]:
        """The rows and bytes in the committed files of a use's store, for all its readers."""
        files = self._named(use.store)
        return sum(row.rows for row in files), sum(row.bytes for row in files)

    def sharers(self, use: StoreUse) -> int:
        """The number of windows that read a use's store."""
        store = self._stores.get(use.store)
        return 0 if store is None else len(store.readers)

    def _located(self, store: int, rows: tuple[BlockRow, ...]) -> Sequence[StoredRows]:
        """The files of a store for `read_rows`, made once for a list: every window of every tick asks."""
        known = self._paths.get(store)
        if known is None or known[0] is not rows:
            before = {} if known is None else known[1]
            made = {row.id: before.get(row.id) or self._stored(row) for row in rows}
            known = self._paths[store] = (rows, made, tuple(made.values()))
        return known[2]

    def _stored(self, row: BlockRow) -> StoredRows:
        return StoredRows(f"{self._root}/{row.path}", *_points(row), row.rows)

    def greatest(self, stream: StreamState, axis: str) -> int | None:
        """The greatest point deposited on an axis; None: none is. A late tuple that is admitted on another axis moves
        no frontier, and may lie above all that did."""
        named = [row.hi for store in self._of(stream) if store.axis == axis for row in self._named(store.id)]
        known = [point for point in (stream.greatest(axis), *named) if point is not None]
        return max(known, default=None)

    @property
    def nbytes(self) -> int:
        """The bytes of all files."""
        return sum(row.bytes for number in self._stores for row in self._named(number))

    @property
    def stores(self) -> tuple[WindowStore, ...]:
        return tuple(self._stores.values())

    # -- deposits ------------------------------------------------------------------------------

    def keeping(self, stream: StreamState, max_value_bytes: int) -> KeepRequest | None:
        """What a micro-batch of the stream adds; None: nothing."""
        specs = tuple(store.spec for store in self._of(stream) if store.live)
        if not specs:
            return None
        tops = {p.column: stream.frontiers[p.column].greatest for p in stream.definition.punctuated}
        points = point_columns(stream.definition)
        return KeepRequest(self._root, specs, points, tops, max_value_bytes, stream.numbered)

    def deposited(self, files: Iterable[KeptFile]) -> None:
        """See the files of a micro-batch, after its commit and before its frontiers are seen."""
        paths = dict[int, list[str]]()
        for file in files:
            paths.setdefault(file.store, []).append(file.ref.path)
        for store, mine in paths.items():
            version = self._version
            self._see(store, self._blocks.at(mine), version)

    # -- expiry and merging --------------------------------------------------------------------

    def keep_from(self, needs: Mapping[str, int]) -> None:
        """These readers need no rows below these points any more. Call it in the transaction of a tick. Files that no
        reader needs are dropped with it; `tidy` cuts those that are needed in part. An unknown reader is none. While a
        stream is held, nothing is noted; a later tick does it."""
        stores = [store for store in self._stores_of(needs) if not self.is_held(store.stream)]
        found = [(store, store.less_needed(needs)) for store in stores]
        for store, points in found:
            if points:
                below = self._entries.needs(store.id, points)
                self._catalog.on_commit(partial(self._needs, store.id, points, below))
                if below is not None:
                    self._expire(store, below)

    def _stores_of(self, readers: Mapping[str, int]) -> list[WindowStore]:
        """The stores of these readers, which may be of this transaction."""
        known = {one.name for store in self._stores.values() for one in store.readers}
        if readers.keys() <= known:
            return list(self._stores.values())
        return self._entries.all()

    def _needs(self, number: int, points: Mapping[str, int], below: int | None) -> None:
        """See what `keep_from` has committed."""
        with self._reloading:
            store = self._stores.get(number)
            if store is not None:
                readers = tuple(one.moved(points[one.name]) if one.name in points else one for one in store.readers)
                moved = replace(store, readers=readers, kept_from=max_or_none(store.kept_from, below))
                self._stores = {**self._stores, number: moved}

    def _expire(self, store: WindowStore, below: int) -> None:
        """In a transaction: drop the files that are wholly below the point."""
        if store.kept_from is None or below > store.kept_from:
            self._entries.kept_from(store.id, below)
        if not any(_points(row)[1] < below for row in self._named(store.id)):
            return
        gone = [row for row in self._blocks.named(store.owner) if _points(row)[1] < below]
        for row in gone:
            self._blocks.release(row.id)
        self._catalog.on_commit(lambda: self._leave_out(store.id, gone))

    def tidy(self, stream: StreamState) -> int:
        """Merge small files and cut expired rows off, in commits of their own; no answer depends on it. Return how many
        commits there were. Without anything to do it costs a look at the list of files."""
        if not stream.batch_lock.acquire(blocking=False):
            return 0  # what the store keeps may be changing; the next micro-batch tidies
        try:
            return sum(self._tidy(store, self.greatest(stream, store.axis)) for store in self._of(stream))
        finally:
            stream.batch_lock.release()

    def tidy_silent(self, stream: StreamState) -> int:
        """After a tick: as `tidy`, if no tuple has come for a twentieth of what a reader needs. No micro-batch may come
        that would cut expired rows off. A failure is logged, and the next tick tries again."""
        try:
            is_silent = any(self._is_silent(store, self.greatest(stream, store.axis)) for store in self._of(stream))
            return self.tidy(stream) if is_silent else 0
        except Exception as error:
            log.warning("what is kept of stream '%s' stays as it is until the next tick: %s", stream.name, error)
            return 0

    def _is_silent(self, store: WindowStore, greatest: int | None) -> bool:
        if store.span is None or store.kept_from is None or greatest is None or not self._named(store.id):
            return False
        return store.kept_from + store.span - greatest >= max(1, store.span // 20)

    def _tidy(self, store: WindowStore, greatest: int | None) -> int:
        files, below = self._named(store.id), store.kept_from
        if below is not None and any(_points(row)[1] < below for row in files):
            with self._transaction():
                self._expire(store, below)
            files = self._named(store.id)
        span = store.span
        if span is None and below is not None and greatest is not None:
            span = max(1, greatest - below)
        return sum(self._rewrite(store, one) for one in rewrites(files, span, below, greatest))

    def _rewrite(self, store: WindowStore, rewrite: Rewrite) -> bool:
        try:
            files = [MappedStoreFile(f"{self._root}/{row.path}") for row in rewrite.files]
        except StateError:
            # The catalog knows first: what is remembered of it may name a file that a tick has just let go.
            if {row.id for row in rewrite.files} <= {row.id for row in self._blocks.named(store.owner)}:
                raise
            return False
        made = merged(self._blocks.writer, store.spec, files, rewrite.bounds)
        crash_point("store-merge-written")
        with self._transaction():
            ids = {row.id for row in self._blocks.named(store.owner)}
            is_current = all(row.id in ids for row in rewrite.files)
            for file in made if is_current else ():
                self._blocks.add(file.ref, file.lo, file.hi)
            for row in rewrite.files if is_current else ():
                self._blocks.release(row.id)
            self._catalog.on_commit(lambda: self._forget({store.id}))
        crash_point("store-merged")
        if not is_current:
            for file in made:
                (self._blocks.root / file.ref.path).unlink(missing_ok=True)
        return is_current

    # -- within --------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """The caller's transaction, or a new one."""
        if self._catalog.in_transaction:
            yield
        else:
            with self._catalog.transaction():
                yield

    def _reload(self, stream: StreamState | None = None) -> None:
        """Read stores and readers again, after a commit. The catalog's lock is never waited for with `_guard` held:
        transactions call in here."""
        with self._reloading:
            if stream is not None:
                self._streams[stream.name.lower()] = stream
            self._stores = {store.id: store for store in self._entries.all()}
            for name, one in self._streams.items():
                live = (store.live for store in self._stores.values() if store.stream.lower() == name)
                one.readers = frozenset(reader.name for readers in live for reader in readers)
        gone = set(self._files) - set(self._stores)
        self._forget(gone)
        for number in gone:
            self._unmap(number, ())
            self._paths.pop(number, None)

    def _of(self, stream: StreamState) -> list[WindowStore]:
        return [store for store in self._stores.values() if store.stream.lower() == stream.name.lower()]

    def _reader(self, name: str) -> StoreReader | None:
        return next((one for store in self._stores.values() for one in store.readers if one.name == name), None)

    def _named(self, store: int) -> tuple[BlockRow, ...]:
        """The committed files of a store. The list is kept until a commit changes it."""
        known = self._files.get(store)
        if known is not None:
            return known
        version = self._version
        rows = tuple(self._blocks.named(f"stores/{store}"))
        if self._catalog.in_transaction:
            return rows  # it may be rolled back
        with self._guard:
            if version == self._version:
                self._files[store] = rows
        self._unmap(store, rows)
        return rows

    def _unmap(self, store: int, held: Sequence[BlockRow]) -> None:
        """Release the mappings of a store's files except these."""
        kept = {f"{self._root}/{row.path}" for row in held}
        for mapped in (self._mapped, self._asked):
            mine = {path for path in mapped.paths if path.startswith(f"{self._root}/stores/{store}/")}
            mapped.forget(mine - kept)

    def _see(self, store: int, rows: Sequence[BlockRow], version: int) -> None:
        """Add committed files to the list of a store, if it is held and no commit has changed it since a version."""
        with self._guard:
            known = self._files.pop(store, None)
            if known is not None and version == self._version:
                ids = {row.id for row in known}
                self._files[store] = (*known, *(row for row in rows if row.id not in ids))
            self._version += 1

    def _leave_out(self, store: int, rows: Sequence[BlockRow]) -> None:
        """Take dropped files off the list of a store, after the commit, and release their mappings."""
        gone = {row.id for row in rows}
        with self._guard:
            self._version += 1
            known = self._files.get(store)
            if known is not None:
                self._files[store] = tuple(row for row in known if row.id not in gone)
        for mapped in (self._mapped, self._asked):
            mapped.forget([f"{self._root}/{row.path}" for row in rows])

    def _forget(self, stores: Iterable[int]) -> None:
        """Read the lists of these stores' files again when they are asked for."""
        with self._guard:
            self._version += 1
            for number in stores:
                self._files.pop(number, None)

    def _has_changed(self, store: int, named: tuple[BlockRow, ...]) -> bool:
        """Whether the files of a store are no more these."""
        self._forget({store})
        return self._named(store) != named


def _is_at(store: WindowStore, stream: StreamState, axis: str, keys: Sequence[KeptColumn]) -> bool:
    return store.stream.lower() == stream.name.lower() and store.axis == axis and store.keys == tuple(keys)


def _is_read(store: WindowStore, reader: str) -> bool:
    return any(one.name == reader for one in store.readers)


def _points(row: BlockRow) -> tuple[int, int]:
    assert row.lo is not None and row.hi is not None
    return row.lo, row.hi
