"""Statements about tables: they come, go and change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from windrow.cql.statements import CreateTable, DeleteRows, InsertRows, LoadRows, TableChangeStatement, UpdateRows
from windrow.engine.run.opening import OpenState
from windrow.engine.run.stream_ticks import StreamTicks
from windrow.engine.tables.stored import StoredTable
from windrow.errors import CatalogError, UnsupportedError


class TableStatements:
    """Executes statements about tables. `select` evaluates a one-time query."""

    def __init__(self, opened: OpenState, ticks: StreamTicks, select: Callable[[Any, str], pa.Table]):
        self._opened = opened
        self._ticks = ticks
        self._select = select

    def create(self, statement: CreateTable) -> tuple[StoredTable, bool]:
        """Create a table; returns it, and whether it is new."""
        self._ticks.refuse_inside("create a table")
        if statement.stream is not None:
            raise UnsupportedError(
                "this version does not feed tables from streams yet",
                remedy="Leave FROM STREAM out, and change the table by statements or by wr.table(name).upsert(rows).",
            )
        with self._opened.manager.changing, self._watched():
            self._refuse_taken(statement.name)
            return self._opened.tables.create(statement)

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
            self._opened.tables.drop(table, self._opened.plans.readers_of_table(table.name))

    def change(self, statement: TableChangeStatement, text: str) -> str:
        """Change the rows of a table; returns what was done."""
        with self._changing():
            tables, name = self._opened.tables, self._opened.tables.table(statement.table).name
            if isinstance(statement, InsertRows):
                rows = None if statement.select is None else self._select(statement.select, text)
                return f"{_rows(tables.insert(statement, text, rows))} inserted into {name}"
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
