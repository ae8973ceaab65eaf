"""Tables that streams feed: the rows of a changelog stream become changes of a table, as the stream's frontier moves.

A row of the stream replaces the row of the table that has its key, or says that the key is gone (DELETE WHEN). It
takes effect at its own point of the stream's window attribute; a table has applied all rows below the frontier, and
none above it, whatever the micro-batches. So a table is a function of the stream, and plans that read it wait for its
frontier.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.catalog.definitions import StreamDef
from windrow.catalog.relations import TableDef
from windrow.cql import parse_one
from windrow.cql.bounds.guards import check_bounds
from windrow.cql.names import quote_name
from windrow.cql.statements import CreateQuery
from windrow.dataplane.stores import ARRIVAL, KeptColumn
from windrow.dataplane.stores.files import POINT
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.state import StreamState
from windrow.engine.store.dead_letters import DeadLetters
from windrow.engine.tables.commits import TableCommits
from windrow.engine.tables.stored import StoredTable, TableFeed
from windrow.errors import BindError
from windrow.operators.relations.changelog import DELETES, FROM, ReadChangelog, read_changelog
from windrow.operators.tables.rows import appended, flat, hashed, longs, taken
from windrow.plan.algebra.nodes import Project, StreamWindow
from windrow.plan.binder import TypesOf
from windrow.plan.continuous import bind_continuous
from windrow.settings import Settings

NULL_KEY, DELETED_KEY = "null key of table {}", "deleted key of table {}"
"""Why a row of a changelog stream is a dead letter: a key is NULL; or it was deleted before, and the table is NON
RETROACTIVE."""


def reader_of(table: int) -> str:
    """The name under which a table reads its stream."""
    return f"table/{table}"


def bind_feed(definition: TableDef, stream: StreamDef, types_of: TypesOf, most_bytes: int) -> TableFeed:
    """What a table reads of its stream; raises BindError. `most_bytes` bounds the values that functions make."""
    _refuse_misfits(definition, stream)
    condition = definition.statement.delete_when
    items = [quote_name(name) for name, _ in definition.columns]
    if condition is not None:
        _refuse_values(condition, stream)
        items.append(f"CASE WHEN {condition.sql(dialect='spark')} THEN true ELSE false END AS `{DELETES}`")
    text = f"CREATE QUERY q AS SELECT {', '.join(items)} FROM {quote_name(stream.name)} [UNBOUNDED]"
    select = cast(CreateQuery, parse_one(text)).select
    try:
        check_bounds(select, text, most_bytes)
        root = bind_continuous(select, text, lambda name, place: stream, types_of).root
    except BindError as error:  # the place is in a text that nobody has written
        raise type(error)(error.message, remedy=error.remedy) from None
    names = [column.sql for column in root.schema]
    if isinstance(root, Project):
        names, root = [one.expression.name for one in root.columns], root.input
    assert isinstance(root, StreamWindow)
    kept = {one.column.sql: KeptColumn(one.sql, one.column.type) for one in root.columns}
    columns = tuple(kept[name] for name in names)
    count = len(definition.columns)
    deletes = None if condition is None else columns[count]
    return TableFeed(stream.name, root.attribute.column, columns[:count], deletes, stream.has_arrival)


def _refuse_misfits(definition: TableDef, stream: StreamDef) -> None:
    """The columns of the table are columns of the stream."""
    for name, kind in definition.columns:
        found = next((one for one in stream.columns if one[0].lower() == name.lower()), None)
        if found is None:
            raise BindError(
                f"table '{definition.name}' is fed by stream '{stream.name}', which has no column '{name}'",
                remedy=f"The columns of a table have the names of the stream's: "
                f"{', '.join(one for one, _ in stream.columns)}. CREATE STREAM … AS SELECT … gives others.",
            )
        if found[1] != kind:
            raise BindError(
                f"column '{name}' is {kind} in table '{definition.name}', and {found[1]} in stream '{stream.name}'",
                remedy=f"Declare it {found[1]} in the table.",
            )


def _refuse_values(condition: exp.Expr, stream: StreamDef) -> None:
    """DELETE WHEN takes a condition, not a column of another type."""
    inner = condition.unnest()
    kind = None
    if isinstance(inner, exp.Column):
        kind = next((kind for name, kind in stream.columns if name.lower() == inner.name.lower()), None)
    if kind is not None and kind.name != "BOOLEAN":
        raise BindError(
            f"DELETE WHEN needs a condition, and '{inner.name}' is {kind}",
            remedy=f"Write a comparison, for example {inner.name} {'= 0' if kind.is_numeric else 'IS NOT NULL'}.",
        )


class TableFeeder:
    """Brings tables up to their streams. `idle`: whether no plan that reads a table ticks."""

    def __init__(
        self,
        commits: TableCommits,
        stores: WindowStores,
        stream_of: Callable[[str], StreamState],
        dead_letters: DeadLetters,
        settings: Callable[[], Settings],
        idle: Callable[[StoredTable], AbstractContextManager[bool]],
    ):
        self._commits = commits
        self._stores = stores
        self._stream_of = stream_of
        self._dead_letters = dead_letters
        self._settings = settings
        self._idle = idle

    def feed(self, table: StoredTable) -> None:
        """Apply all rows of its stream below the frontier that are not applied yet."""
        assert table.feed is not None
        with table.changing:
            stream = self._stream_of(table.feed.stream)
            upto = stream.progress.frontiers[table.feed.axis].value
            if table.is_dropped or upto is None or upto <= table.applied:
                return
            reader = self._stores.use(reader_of(table.id))
            if reader is None or self._stores.error(reader.reader) is not None:
                return
            rows = self._stores.rows(reader, table.feed.read, table.applied, upto)
            if not rows.num_rows:
                table.applied = upto  # the next commit says so; until then it is found again
                return
            gone = None if table.definition.is_retroactive else table.version.gone
            found = read_changelog(_log(table, rows), table.version.rows, gone)
            self._commit(table, stream, found, upto)

    def _commit(self, table: StoredTable, stream: StreamState, found: ReadChangelog, upto: int) -> None:
        def along() -> None:
            for reason, rows in ((NULL_KEY, found.without_key), (DELETED_KEY, found.reused)):
                records = [_record(row) for row in rows.drop_columns([FROM, DELETES]).to_pylist()]
                points = longs(rows.column(FROM)).tolist()
                why, batch = reason.format(table.name), stream.last_batch
                letters = list(zip(records, points, strict=True))
                self._dead_letters.refuse(stream.name, batch, why, letters, self._settings())
            self._stores.keep_from({reader_of(table.id): upto})

        if not found.change.num_rows:
            self._commits.advance(table, upto, along)
            return
        with self._idle(table) as is_idle:
            self._commits.change(table, found.change, along, upto, folds=is_idle)


def _log(table: StoredTable, rows: pa.Table) -> pa.Table:
    """Rows of a store as a changelog, in the order in which they take effect."""
    feed, schema = table.feed, table.definition.schema
    assert feed is not None
    columns = [rows.column(one.id).cast(field.type) for one, field in zip(feed.columns, schema, strict=True)]
    deletes = pa.array(np.zeros(rows.num_rows, bool)) if feed.deletes is None else flat(rows.column(feed.deletes.id))
    log = appended(pa.Table.from_arrays(columns, schema=schema), **{FROM: longs(rows.column(POINT)), DELETES: deletes})
    if feed.has_arrival:
        return taken(log, np.lexsort((longs(rows.column(ARRIVAL.id)), longs(rows.column(POINT)))))
    names = [FROM, DELETES, *schema.names]
    by = {name: _sortable(log.column(name), log.num_rows) for name in names}
    order = pc.sort_indices(pa.table(by), [(name, "ascending") for name in names])
    return log.take(order)


def _sortable(column: pa.ChunkedArray, rows: int) -> pa.ChunkedArray | pa.Array:
    """The column, or of arrays and structs a hash: any order does that a replay repeats."""
    return pa.array(hashed([column], rows).view(np.int64)) if pa.types.is_nested(column.type) else column


def _record(row: dict[str, object]) -> str:
    return json.dumps(row, default=str, ensure_ascii=False)
