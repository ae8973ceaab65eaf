"""RETAIN: what a stream keeps for one-time queries, whether or not a standing query reads it.

A stream with RETAIN d has a reader of its own in a window store, which keeps all its columns. It needs nothing more
than d behind the frontier, so silence empties the store as soon as a punctuation or a heartbeat moves the frontier.
"""

from __future__ import annotations

from collections.abc import Iterable

from windrow.catalog.definitions import StreamDef
from windrow.catalog.store import Catalog
from windrow.dataplane.stores import ARRIVAL, KeptColumn
from windrow.engine.kept.store_entries import StoreReader
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.state import StreamState
from windrow.plan.continuous.clocks import tick_of
from windrow.plan.continuous.inputs import quoted
from windrow.plan.continuous.shape import shown
from windrow.types import SqlType

RETAIN = "retain"
"""The first part of the name of a reader that is of RETAIN."""


def reader_of(stream: StreamState) -> str:
    return f"{RETAIN}/{stream.id}"


def plain_column(name: str, kind: SqlType) -> KeptColumn:
    """A column of the stream itself, as plans that read it call it."""
    return KeptColumn(shown(quoted(name)), kind)


def plain_columns(stream: StreamDef) -> tuple[KeptColumn, ...]:
    """All columns of a stream; its tuples' order of arrival, too, if they have one that a replay repeats."""
    columns = tuple(plain_column(name, kind) for name, kind in stream.columns)
    return (*columns, ARRIVAL) if stream.has_arrival else columns


class Retention:
    """Keeps the readers of RETAIN in step with the streams and their frontiers."""

    def __init__(self, catalog: Catalog, stores: WindowStores):
        self._catalog = catalog
        self._stores = stores

    def recover(self, streams: Iterable[StreamState]) -> None:
        """After a restart: a stream that was created just before a crash gets its reader, a dropped one loses it."""
        wanted = {reader_of(stream): stream for stream in streams if stream.definition.retained is not None}
        for reader in self._readers():
            if reader.name not in wanted:
                self._stores.drop(reader.name)
        for stream in wanted.values():
            self.begin(stream)

    def begin(self, stream: StreamState) -> None:
        """Keep the tuples of a stream from now on, if it has RETAIN."""
        retained, name = stream.definition.retained, reader_of(stream)
        if retained is None or self._stores.use(name) is not None:
            return
        with stream.batch_lock:
            columns = plain_columns(stream.definition)
            self._stores.need(stream, name, retained.axis, columns, span=retained.length)

    def end(self, stream: StreamState) -> None:
        """Keep nothing more of a stream that is dropped."""
        if stream.definition.retained is not None:
            with stream.batch_lock:
                self._stores.drop(reader_of(stream))

    def follow(self, stream: StreamState) -> None:
        """After the frontier has moved: let go what is older than RETAIN says. One commit per twentieth of it."""
        retained = stream.definition.retained
        if retained is None:
            return
        frontier = stream.progress.frontiers[retained.axis].value
        reader = next((one for one in self._readers() if one.name == reader_of(stream)), None)
        if frontier is None or reader is None:
            return
        tick = tick_of(stream.definition, stream.definition.type_of(retained.axis))
        point = frontier // tick * tick - retained.length
        if reader.needs_from is not None and point - reader.needs_from < max(1, retained.length // 20):
            return
        with self._catalog.transaction():
            self._stores.keep_from({reader.name: point})
        self._stores.tidy_silent(stream)

    def _readers(self) -> list[StoreReader]:
        """All readers of RETAIN."""
        return [
            reader for store in self._stores.stores for reader in store.readers if reader.name.startswith(f"{RETAIN}/")
        ]
