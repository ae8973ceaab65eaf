"""Tables by definition: every version that a table has had, each with the event after which it was made.

A statement is Spark SQL over the rows before it. It takes effect for a plan at the first tick that was not processed
when it was executed: the one after the last tick that was due after the events so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp

from windrow.cql.statements import CreateTable, DeleteRows, InsertRows, UpdateRows
from windrow.errors import UnsupportedError
from windrow.oracle.continuous.due import INFINITE
from windrow.types import SqlType

_VIEW = "windrow_oracle_table"


@dataclass(frozen=True)
class EffectiveVersion:
    """The rows of a table at the ticks from ≤ b < to. `at_points`: at all points of that time; else a version is there
    from the tick before its first one on."""

    rows: pa.Table
    first: int
    end: int
    at_points: bool = False


@dataclass
class TableHistory:
    """A table: its statement, and (events before it, rows) of each version."""

    statement: CreateTable
    versions: list[tuple[int, pa.Table]] = field(default_factory=list)
    since: int | None = None
    """Of a table that a stream feeds: the least point of its tuples that counts; None: all do."""

    @property
    def types(self) -> dict[str, SqlType]:
        return {column.name: SqlType(column.type) for column in self.statement.columns}

    @property
    def rows(self) -> pa.Table:
        schema = pa.schema([(name, kind.arrow) for name, kind in self.types.items()])
        return self.versions[-1][1] if self.versions else schema.empty_table()

    def change(self, spark: Any, statement: InsertRows | UpdateRows | DeleteRows, events: int) -> None:
        """Execute a statement, which succeeds."""
        before = self.rows
        spark.createDataFrame(before).createOrReplaceTempView(_VIEW)
        if isinstance(statement, InsertRows):
            texts = [f"SELECT {', '.join(f'`{name}`' for name in self.types)} FROM {_VIEW}", *self._inserted(statement)]
            text = " UNION ALL ".join(texts)
        else:
            where = statement.where.sql(dialect="spark") if statement.where is not None else "TRUE"
            if isinstance(statement, DeleteRows):
                text = f"SELECT * FROM {_VIEW} WHERE NOT COALESCE({where}, FALSE)"
            else:
                text = f"SELECT {', '.join(self._updated(statement, where))} FROM {_VIEW}"
        self.versions.append((events, spark.sql(text).toArrow().cast(before.schema)))

    def _inserted(self, statement: InsertRows) -> list[str]:
        if statement.select is not None:
            raise UnsupportedError("the oracle evaluates no INSERT … SELECT")
        names = [name.lower() for name in statement.columns] or [name.lower() for name in self.types]
        return [f"SELECT {', '.join(self._row(dict(zip(names, row, strict=True))))}" for row in statement.rows]

    def _row(self, given: Mapping[str, exp.Expr]) -> list[str]:
        texts = {name: value.sql(dialect="spark") for name, value in given.items()}
        return [f"CAST({texts.get(name.lower(), 'NULL')} AS {kind})" for name, kind in self.types.items()]

    def _updated(self, statement: UpdateRows, where: str) -> list[str]:
        given = {name.lower(): tree.sql(dialect="spark") for name, tree in statement.changed}
        found = []
        for name, kind in self.types.items():
            value = f"CAST({given[name.lower()]} AS {kind})" if name.lower() in given else f"`{name}`"
            found.append(f"CASE WHEN {where} THEN {value} ELSE `{name}` END AS `{name}`")
        return found

    def effective(self, reached: Sequence[int], step: int) -> list[EffectiveVersion]:
        """The versions and their ticks, for a plan whose last tick after so many events was `reached`."""
        starts = [-INFINITE if reached[events] == -INFINITE else reached[events] + step for events, _ in self.versions]
        empty = self.rows.slice(0, 0)
        found = [(-INFINITE, empty), *zip(starts, (rows for _, rows in self.versions), strict=True)]
        ends = [start for start, _ in found[1:]] + [INFINITE]
        return [
            EffectiveVersion(rows, start, end) for (start, rows), end in zip(found, ends, strict=True) if start < end
        ]
