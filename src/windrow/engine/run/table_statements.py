"""Statements about tables: they come, go and change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from windrow.catalog.relations import define_table
from windrow.cql.statements import CreateTable, DeleteRows, InsertRows, LoadRows, TableChangeStatement, UpdateRows
from windrow.engine.plans.locking import held
from windrow.engine.plans.manager import check_slack
from windrow.engine.run.opening import OpenState
from windrow.engine.run.stream_ticks import StreamTicks
from windrow.engine.state import StreamState
from windrow.engine.tables.feeding import bind_feed, reader_of
from windrow.engine.tables.stored import StoredTable
from windrow.errors import CatalogError
from windrow.types import POINT_MIN


class TableStatements:
    """Executes statements about tables. `select` evaluates a one-time query, `start` starts streams that are read for
    the first time."""

    def __init__(
        self,
        opened: OpenState,
        ticks: StreamTicks,
        select: Callable[[Any, str], pa.Table],
        start: Callable[[], None] = lambda: None,
    ):
        self._opened = opened
        self._ticks = ticks
        self._select = select
        self._start = start

    def create(self, statement: CreateTable) -> tuple[StoredTable, bool]:
        """Create a table; returns it, and whether it is new."""
        self._ticks.refuse_inside("create a table")
        with self._opened.manager.changing, self._watched():
            self._refuse_taken(statement.name)
            if statement.stream is None:
                return self._opened.tables.create(statement)
            known = self._opened.tables.known(statement)
            if known is not None:
                return known, False
            made = self._create_fed(statement, self._opened.manager.stream(statement.stream))
        self._start()
        return made, True

    def _create_fed(self, statement: CreateTable, stream: StreamState) -> StoredTable:
        """A table of the tuples that a stream has above those that it has now."""
        opened = self._opened
        check_slack(opened.settings)
        definition = define_table(replace(statement, if_not_exists=False))
        most = opened.settings.integer("max_value_bytes")
        feed = bind_feed(definition, stream.definition, opened.manager.record(), most)
        with held(streams=[stream], states=[stream]):
            greatest = opened.stores.greatest(stream, feed.axis)

            def along(number: int) -> None:
                opened.stores.need(stream, reader_of(number), feed.axis, feed.read)

            return opened.tables.add(statement, along, feed, POINT_MIN if greatest is None else greatest + 1)

    def _refuse_taken(self, name: str) -> None:
        """A name in FROM means one thing, so a table has a name of its own."""
        manager = self._opened.manager
        taken = "stream" if name.lower() in manager.streams else None
        taken = "query" if manager.has_query(name) or self._opened.plans.has(name) else taken
        if taken is not None:
            raise CatalogError(f"there is a {taken} '{name}' already", remedy="Choose another name for the table.")

    def drop(self, name: str) -> None:
        self._ticks.refuse_inside("drop a table")
        with self._opened.manager.changing, self._watched():
            table = self._opened.tables.table(name)
            readers = self._opened.plans.readers_of_table(table.name)
            feeding = [] if table.feed is None else [self._opened.manager.stream(table.feed.stream)]
            with held([table], feeding):
                self._opened.tables.drop(table, readers, lambda: self._opened.stores.drop(reader_of(table.id)))

    def change(self, statement: TableChangeStatement, text: str) -> str:
        """Change the rows of a table; returns what was done."""
        with self._changing():
            tables, name = self._opened.tables, self._opened.tables.table(statement.table).name
            if isinstance(statement, InsertRows):
                rows = None if statement.select is None else self._select(statement.select, text)
                came, known = tables.insert(statement, text, rows)
                kept = f"; {_rows(known)} kept, there already with the same values" if known else ""
                return f"{_rows(came)} inserted into {name}{kept}"
            if isinstance(statement, LoadRows):
                return f"{_rows(tables.load(statement))} loaded into {name}"
            if isinstance(statement, UpdateRows):
                return f"{_rows(tables.update(statement, text))} of {name} updated"
            assert isinstance(statement, DeleteRows)
            return f"{_rows(tables.delete(statement, text))} deleted from {name}"

    def put(self, name: str, rows: Any, replaces: bool) -> int:
        """Insert or upsert rows from Python; returns how many."""
        with self._changing():
            return self._opened.tables.put(self._opened.tables.table(name), rows, replaces)

    def remove(self, name: str, keys: Any) -> int:
        """Delete rows by their keys; returns how many."""
        with self._changing():
            return self._opened.tables.remove(self._opened.tables.table(name), keys)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._ticks.refuse_inside("change a table")
        with self._watched():
            yield

    @contextmanager
    def _watched(self) -> Iterator[None]:
        with self._opened.jvm.watched():
            self._opened.lifecycle.refuse_closed()
            yield


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"
