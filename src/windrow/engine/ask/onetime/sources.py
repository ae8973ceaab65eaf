"""What FROM of a one-time query names: windows of streams, and tables whose rows are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from windrow.catalog.relations import TableDef
from windrow.cql.dialect import window_of
from windrow.cql.statements import CreateTable
from windrow.engine.ask.finished_tables import FinishedTable, FinishedTables, key_of, named_tables
from windrow.errors import UnsupportedError
from windrow.types import SqlType, decimal_type

_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}


@dataclass(frozen=True)
class ReadySource:
    """A table of FROM whose rows are there. `node`: it as written, from which its rows are found again. `definition`:
    its columns; None: one has a type that only Spark handles. `is_view`: it is the view of a continuous query."""

    node: exp.Table
    name: str
    definition: TableDef | None
    columns: tuple[str, ...]
    is_view: bool = False


@dataclass(frozen=True)
class AskedSources:
    """The SELECT with the names of ready tables replaced, its windows, and by these names the ready tables."""

    tree: exp.Expr
    windows: tuple[exp.Table, ...]
    ready: Mapping[str, ReadySource]

    def table_of(self, name: str) -> TableDef | None:
        """The ready table that has this name in `tree`. Raises UnsupportedError if only Spark handles its columns."""
        found = self.ready.get(name.lower())
        if found is not None and found.definition is None:
            raise UnsupportedError(
                f"'{found.name}' has columns of arrays or structs", remedy="Only Spark SQL evaluates them."
            )
        return None if found is None else found.definition

    def name_of(self, node: exp.Table) -> str:
        """The name of a ready table, as written, in `ready`."""
        return key_of(node)

    def columns_of(self, name: str) -> tuple[str, ...]:
        """The columns of a ready table."""
        return self.ready[name].columns


def is_window(table: exp.Table, is_stream: Callable[[str], bool]) -> bool:
    """Whether a table of FROM is a stream: it has a window, or should have one. `is_stream`: whether a name without a
    window means a stream."""
    if not isinstance(table.this, exp.Identifier):
        return False
    return window_of(table) is not None or is_stream(table.name)


def asked_sources(
    select: exp.Expr, text: str, finished: FinishedTables, is_stream: Callable[[str], bool]
) -> AskedSources:
    """What a SELECT names. Raises CatalogError for an unknown name."""
    tree, windows, ready = select.copy(), list[exp.Table](), dict[str, ReadySource]()
    for node in named_tables(tree):
        if is_window(node, is_stream):
            windows.append(node)
            continue
        written = node.copy()
        found = finished.named(written, text)
        name = key_of(node)
        ready[name] = ReadySource(
            written, found.name, _definition(name, found), tuple(found.schema.names), found.is_view
        )
        alias = node.args.get("alias") or exp.TableAlias()
        if alias.args.get("this") is None:
            alias.set("this", exp.to_identifier(node.this.name, quoted=True))
        called = exp.to_identifier(name, quoted=True)
        called.meta.update(node.this.meta)
        node.set("alias", alias)
        node.set("this", called)
    return AskedSources(tree, tuple(windows), ready)


def _definition(name: str, table: FinishedTable) -> TableDef | None:
    kinds = [_type_of(field.type) for field in table.schema]
    columns = tuple((name, kind) for name, kind in zip(table.schema.names, kinds, strict=True) if kind is not None)
    if len(columns) < len(kinds) or not columns:
        return None
    return TableDef(CreateTable(name, (), ()), columns)


def _type_of(kind: pa.DataType) -> SqlType | None:
    """The type of a column; None for arrays and structs."""
    if pa.types.is_decimal(kind):
        return decimal_type(kind.precision, kind.scale)
    found = _TYPES.get(kind)
    return None if found is None else SqlType(found)


def has_names(select: exp.Expr) -> bool:
    """Whether all columns of the answer have a name that Windrow and Spark SQL agree on: an alias, or that of a
    column."""
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    return all(isinstance(item, exp.Alias | exp.Column | exp.Star) for item in select.expressions)
