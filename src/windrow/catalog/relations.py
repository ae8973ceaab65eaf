"""Table definitions: a checked CREATE TABLE statement."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from windrow.catalog.definitions import RESERVED_PREFIX, Columns
from windrow.cql.statements import CreateTable
from windrow.cql.tokens import nearest
from windrow.errors import BindError
from windrow.types import SqlType

_NOT_KEYS = ("FLOAT", "DOUBLE", "BINARY")


@dataclass(frozen=True)
class TableDef:
    """A table: its statement and its typed columns."""

    statement: CreateTable
    columns: Columns

    @property
    def name(self) -> str:
        return self.statement.name

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return self.statement.key

    @property
    def is_retroactive(self) -> bool:
        """Whether a change of a row changes past results, too."""
        return self.statement.retroactive

    @property
    def stream(self) -> str | None:
        """The changelog stream that feeds it."""
        return self.statement.stream

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, kind.arrow) for name, kind in self.columns])

    def column(self, wanted: str) -> tuple[str, SqlType]:
        """The column of this name in any case; raises BindError."""
        for name, kind in self.columns:
            if name.lower() == wanted.lower():
                return name, kind
        names = [name for name, _ in self.columns]
        near = nearest(wanted, names)
        hint = f"Did you mean '{near}'? " if near else ""
        raise BindError(
            f"'{wanted}' is not a column of table '{self.name}'", remedy=f"{hint}Its columns: {', '.join(names)}."
        )


def define_table(statement: CreateTable) -> TableDef:
    """Check a CREATE TABLE; raises BindError."""
    columns = tuple((one.name, SqlType(one.type)) for one in statement.columns)
    for name, kind in columns:
        if name.startswith(RESERVED_PREFIX):
            raise BindError(
                f"column '{name}': names that start with '{RESERVED_PREFIX}' are reserved",
                remedy=f"Call it for example {name.lstrip('_') or 'x'}.",
            )
        if name in statement.key and kind.name in _NOT_KEYS:
            raise BindError(
                f"'{name}' is {kind}, which cannot be a PRIMARY KEY",
                remedy="Take a column that names a row exactly: an integer, a STRING, a DECIMAL or a time.",
            )
    return TableDef(statement, columns)
