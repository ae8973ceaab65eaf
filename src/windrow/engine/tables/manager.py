"""Tables come, go and change; `TableManager` owns them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
from sqlglot import exp

from windrow.catalog.relations import TableDef, define_table
from windrow.cql import parse_one
from windrow.cql.statements import CreateTable, DeleteRows, InsertRows, LoadRows, UpdateRows
from windrow.cql.tokens import place_of
from windrow.dataplane.sources.rows import table_rows
from windrow.dataplane.table_rows import file_rows, format_of, frame_rows, is_frame
from windrow.engine.tables.changing import deleted, inserted, not_there, refuse_misfits, updated
from windrow.engine.tables.commits import TableCommits
from windrow.engine.tables.evaluating import Assigned, RowExpressions
from windrow.engine.tables.stored import StoredTable, TableFeed
from windrow.errors import BindError, CatalogError, Place, TableError
from windrow.logs import log_event
from windrow.operators.tables.rows import taken
from windrow.types import POINT_MIN

Along = Callable[[], None]


_OF_STREAMS = "Tuples of a stream come from its source; wr.feed(name, rows) feeds one FROM memory."
_OF_QUERIES = "The results of a query change with its streams alone."


class TableManager:
    """Owns the tables of a state directory. The dict of tables is never changed, only replaced.

    `held` holds back the plans that read a table while a statement changes it, and gives what to commit with the
    statement, so that it is known from which tick on it is in effect.
    """

    def __init__(self, commits: TableCommits, expressions: RowExpressions, spark: Callable[[], Any]):
        self.commits = commits
        self._expressions = expressions
        self._spark = spark
        self._tables: dict[str, StoredTable] = {}
        self.kinds: Callable[[], Mapping[str, str]] = dict
        """All names in lower case, each with 'stream', 'table' or 'query'; the manager of plans sets it."""
        self.held: Callable[[StoredTable], AbstractContextManager[Along]] = lambda table: nullcontext(lambda: None)

    # -- names ---------------------------------------------------------------------------------

    @property
    def named(self) -> Mapping[str, StoredTable]:
        """By name in lower case; replaced when a table comes or goes."""
        return self._tables

    def all(self) -> list[StoredTable]:
        return list(self._tables.values())

    def find(self, name: str) -> StoredTable | None:
        return self._tables.get(name.lower())

    def definition(self, name: str) -> TableDef | None:
        """The definition of a table; None if there is none of this name."""
        found = self.find(name)
        return None if found is None else found.definition

    def table(self, name: str, place: Place | None = None) -> StoredTable:
        found = self.find(name)
        if found is None:
            kind = self.kinds().get(name.lower())
            if kind is not None:
                raise CatalogError(
                    f"there is no table '{name}': this is the name of a {kind}",
                    place=place,
                    remedy=_OF_STREAMS if kind == "stream" else _OF_QUERIES,
                )
            names = sorted(table.name for table in self.all())
            near = difflib.get_close_matches(name.lower(), [one.lower() for one in names], n=1)
            hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(names) or 'none yet'}."
            raise CatalogError(f"there is no table '{name}'", place=place, remedy=hint)
        return found

    # -- coming and going ----------------------------------------------------------------------

    def create(self, statement: CreateTable) -> tuple[StoredTable, bool]:
        """Create a table that statements change; returns it, and whether it is new."""
        known = self.known(statement)
        return (known, False) if known is not None else (self.add(statement), True)

    def known(self, statement: CreateTable) -> StoredTable | None:
        """The table of this name, or None. Raises CatalogError if there is one and the statement has no IF NOT
        EXISTS."""
        known = self.find(statement.name)
        if known is not None and not statement.if_not_exists:
            raise CatalogError(
                f"table '{known.name}' exists already", remedy="DROP TABLE it first, or use IF NOT EXISTS."
            )
        return known

    def add(
        self,
        statement: CreateTable,
        along: Callable[[int], None] = lambda number: None,
        feed: TableFeed | None = None,
        applied: int = POINT_MIN,
    ) -> StoredTable:
        """Add a new table; `along` is executed in its transaction, with its number. `feed`: what it reads of a stream,
        of which all below `applied` counts as read."""
        made = self.commits.add(define_table(replace(statement, if_not_exists=False)), along, feed, applied)
        self._tables = {**self._tables, made.name.lower(): made}
        log_event("table_created", "table '{table}' is created", table=made.name)
        return made

    def fed_by(self, stream: str) -> list[StoredTable]:
        """The tables that a stream feeds."""
        return [one for one in self.all() if one.feed is not None and one.feed.stream.lower() == stream.lower()]

    def drop(self, table: StoredTable, readers: Sequence[str], along: Along = lambda: None) -> None:
        """Drop a table that no query reads; `along` is executed in the same transaction."""
        if readers:
            raise CatalogError(
                f"table '{table.name}' is read by: {', '.join(readers)}", remedy="Drop these queries first."
            )
        with table.changing:
            self.commits.drop(table, along)
            table.is_dropped = True
            self._tables = {name: one for name, one in self._tables.items() if one is not table}
        log_event("table_dropped", "table '{table}' is dropped", table=table.name)

    def recover(self) -> None:
        """Read the tables of the catalog and their blocks; known ones that have not changed are kept."""
        found = dict[str, StoredTable]()
        for row in self.commits.rows():
            known = self.find(row["name"])
            if known is None or known.id != row["id"] or known.version.seq != row["seq"]:
                definition = define_table(cast(CreateTable, parse_one(row["statement"])))
                known = StoredTable(row["id"], definition, *self.commits.restored(row["id"], definition))
                known.feed = None if row["feed"] is None else TableFeed.restored(row["feed"])
            known.applied = POINT_MIN if row["applied"] is None else row["applied"]
            found[known.name.lower()] = known
        self._tables = found

    # -- statements ----------------------------------------------------------------------------

    def insert(self, statement: InsertRows, text: str, selected: pa.Table | None) -> tuple[int, int]:
        """INSERT; `selected` has the rows of its SELECT. Returns how many rows came, and how many were there already,
        which is an error unless the statement is repeatable."""
        table = self.table(statement.table)
        with self._changed(table):
            columns = [table.definition.column(name) for name in statement.columns] or list(table.definition.columns)
            rows = self._values(table, statement, columns, text)
            if selected is not None:
                rows = self._selected(table, columns, selected)
            rows = _all(table, rows)
            new = not_there(table.definition, table.version, rows) if statement.is_repeatable else rows
            came = self._commit(table, inserted(table.definition, table.version, new), new.num_rows)
            return came, rows.num_rows - came

    def _values(
        self, table: StoredTable, statement: InsertRows, columns: Sequence[tuple[str, Any]], text: str
    ) -> pa.Table:
        for row in statement.rows:
            if len(row) != len(columns):
                raise BindError(
                    f"a row has {len(row)} values, and {len(columns)} columns are filled",
                    place=place_of(row[0], text),
                    remedy=f"Give a value for each of {', '.join(name for name, _ in columns)}.",
                )
        if not statement.rows:
            return pa.table({})
        cells = [
            [self._expressions.resolved(one, table.definition, text, alone=True) for one in row]
            for row in statement.rows
        ]
        found = self._expressions.constants(cells, [kind for _, kind in columns])
        for (name, _), one, i in zip(columns, found, range(len(columns)), strict=True):
            try:
                refuse_misfits(table.definition, [(name, one.misfits)], [row[i].sql("spark") for row in cells])
            except TableError as error:
                error.place = place_of(statement.rows[int(one.misfits.argmax())][i], text)
                raise
        return pa.table([one.values for one in found], [name for name, _ in columns])

    def _selected(self, table: StoredTable, columns: Sequence[tuple[str, Any]], selected: pa.Table) -> pa.Table:
        if selected.num_columns != len(columns):
            raise BindError(
                f"the SELECT has {selected.num_columns} columns, and {len(columns)} are filled",
                remedy=f"Select a value for each of {', '.join(name for name, _ in columns)}.",
            )
        names = [f"s{i}" for i in range(len(columns))]
        found = self._expressions.cast(selected.rename_columns(names), [kind for _, kind in columns])
        refuse_misfits(table.definition, [(name, one.misfits) for (name, _), one in zip(columns, found, strict=True)])
        return pa.table([one.values for one in found], [name for name, _ in columns])

    def update(self, statement: UpdateRows, text: str) -> int:
        """UPDATE. Returns how many rows its WHERE found."""
        table = self.table(statement.table)
        with self._changed(table):
            old, definition = self._where(table, statement.where, text), table.definition
            changed = [definition.column(name) for name, _ in statement.changed]
            trees = [self._expressions.resolved(tree, definition, text) for _, tree in statement.changed]
            found = self._expressions.assigned(trees, [kind for _, kind in changed], definition, old)
            refuse_misfits(definition, [(name, one.misfits) for (name, _), one in zip(changed, found, strict=True)])
            if not old.num_rows:
                self._refuse_constants(definition, changed, trees)
            new = _with(old, [name for name, _ in changed], found)
            moves = any(name in definition.key for name, _ in changed)
            return self._commit(table, updated(definition, table.version, old, new, moves), old.num_rows)

    def _refuse_constants(
        self, definition: TableDef, changed: Sequence[tuple[str, Any]], trees: Sequence[exp.Expr]
    ) -> None:
        """Refuse a constant that its column cannot hold, though there is no row to put it in."""
        for (name, kind), tree in zip(changed, trees, strict=True):
            if tree.find(exp.Column) is None:
                (found,) = self._expressions.constants([[tree]], [kind])
                refuse_misfits(definition, [(name, found.misfits)], [tree.sql("spark")])

    def delete(self, statement: DeleteRows, text: str) -> int:
        """DELETE. Returns how many rows went."""
        table = self.table(statement.table)
        with self._changed(table):
            found = self._where(table, statement.where, text)
            return self._commit(table, deleted(table.definition, table.version, found), found.num_rows)

    def _where(self, table: StoredTable, where: exp.Expr | None, text: str) -> pa.Table:
        rows = table.rows
        if where is None:
            return rows
        condition = self._expressions.resolved(where, table.definition, text)
        return taken(rows, self._expressions.is_true(condition, table.definition, rows))

    def load(self, statement: LoadRows) -> int:
        """LOAD. Rows with keys that exist are replaced. Returns how many rows came."""
        table = self.table(statement.table)
        self._refuse_fed(table)
        form = statement.format or format_of(statement.path)
        columns = table.definition.columns
        rows = file_rows(self._spark(), statement.path, form, statement.options, columns, table.name)
        return self.put(table, rows, replaces=True)

    # -- rows from Python ----------------------------------------------------------------------

    def put(self, table: StoredTable, rows: Any, replaces: bool) -> int:
        """Insert rows: dicts, tuples, pandas, Arrow or a Spark DataFrame. `replaces`: those with keys that exist
        replace theirs. Returns how many came."""
        given = self._given(table.definition, rows, table.definition.columns)
        with self._changed(table):
            change = inserted(table.definition, table.version, given, replaces)
            return self._commit(table, change, given.num_rows)

    def remove(self, table: StoredTable, keys: Any) -> int:
        """Delete the rows with these keys: values, tuples or dicts, or rows that have the key columns. Returns how many
        went."""
        definition = table.definition
        columns = [(name, kind) for name, kind in definition.columns if name in definition.key]
        if isinstance(keys, list | tuple | set) and len(columns) == 1:
            keys = [key if isinstance(key, dict | tuple) else (key,) for key in keys]
        given = self._given(definition, keys, columns)
        with self._changed(table):
            change = deleted(definition, table.version, given)
            return self._commit(table, change, change.num_rows)

    def _given(self, definition: TableDef, rows: Any, columns: Sequence[tuple[str, Any]]) -> pa.Table:
        """Rows from Python, with these columns of the table."""
        if is_frame(rows):
            rows = frame_rows(rows)
        return table_rows(definition.name, tuple(columns), list(rows) if isinstance(rows, set) else rows)

    # -- commits -------------------------------------------------------------------------------

    @contextmanager
    def _changed(self, table: StoredTable) -> Iterator[None]:
        with table.changing:  # DROP TABLE has it, too
            self._refuse_fed(table)
            yield

    def _refuse_fed(self, table: StoredTable) -> None:
        if table.is_dropped:
            raise CatalogError(f"there is no table '{table.name}'", remedy="It was dropped just now.")
        if table.definition.stream is not None:
            raise TableError(
                f"table '{table.name}' is fed by stream '{table.definition.stream}'",
                remedy="Its rows come from that stream alone: feed it there.",
            )

    def _commit(self, table: StoredTable, change: pa.Table, rows: int) -> int:
        if change.num_rows:
            with self.held(table) as along:
                self.commits.change(table, change, along)
        return rows


def _all(table: StoredTable, rows: pa.Table) -> pa.Table:
    """The rows with all columns of the table; NULL in those that are not given."""
    schema = table.definition.schema
    given = {name: rows.column(name) for name in rows.column_names}
    columns = [given[field.name] if field.name in given else pa.nulls(rows.num_rows, field.type) for field in schema]
    return pa.Table.from_arrays(
        [_cast(one, field.type) for one, field in zip(columns, schema, strict=True)], schema=schema
    )


def _cast(column: Any, kind: pa.DataType) -> Any:
    return column if column.type == kind else column.cast(kind)


def _with(rows: pa.Table, names: Sequence[str], found: Sequence[Assigned]) -> pa.Table:
    """The rows with other values in these columns."""
    for name, one in zip(names, found, strict=True):
        at = rows.column_names.index(name)
        rows = rows.set_column(at, rows.schema.field(at), _cast(one.values, rows.schema.field(at).type))
    return rows
