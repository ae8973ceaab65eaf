"""Expressions of statements that change tables, with Spark SQL's meaning.

DuckDB evaluates what `cql/final` translates to it; Spark evaluates the rest. A value is assigned to a column as by
CAST; one that the column cannot hold (a text that is no number, a number out of range or with digits that would be
lost) is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.catalog.relations import TableDef
from windrow.cql.bounds.guards import check_bounds, guarded
from windrow.cql.dialect import CQL
from windrow.cql.final.types import duckdb_type
from windrow.cql.functions import OVER_TABLES, check_functions, check_names
from windrow.cql.tokens import place_of
from windrow.dataplane.frames import query_tables
from windrow.errors import BindError, FunctionError
from windrow.operators.tables.kernel import Kernel, naive, typed
from windrow.operators.tables.rows import appended, flat
from windrow.plan.mistyped import refuse_mistyped
from windrow.synopses.cells.arrays import Mask
from windrow.types import SqlType

_ROW = "__row"
_numbers = count()


@dataclass(frozen=True)
class Assigned:
    """The values of a column, and where the expression has a value that the column cannot hold."""

    values: pa.ChunkedArray
    misfits: Mask


class RowExpressions:
    """Evaluates expressions. `spark` gives the session; `max_value_bytes` bounds the values that functions make."""

    def __init__(self, kernel: Kernel, spark: Callable[[], Any], max_value_bytes: Callable[[], int]):
        self._kernel = kernel
        self._spark = spark
        self._max_value_bytes = max_value_bytes

    def resolved(self, tree: exp.Expr, definition: TableDef, text: str, alone: bool = False) -> exp.Expr:
        """The expression with the names of columns as the table has them; raises for what cannot stand there. `alone`:
        it has no columns."""
        check_functions(tree, text, OVER_TABLES)
        check_bounds(tree, text, self._max_value_bytes())
        check_names(tree, text, set() if alone else {name.lower() for name, _ in definition.columns})
        for node in tree.find_all(exp.AggFunc, exp.Window):
            raise BindError(
                "an aggregate cannot stand here", place=place_of(node, text), remedy="Use INSERT INTO … SELECT."
            )

        def named(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            if alone:
                raise BindError(
                    f"VALUES has constants, and '{node.name}' is a name",
                    place=place_of(node, text),
                    remedy="Write a text in quotes, or INSERT INTO … SELECT.",
                )
            if node.table and node.table.lower() != definition.name.lower():
                raise BindError(
                    f"'{node.table}' is not the table that changes",
                    place=place_of(node, text),
                    remedy=f"Leave it out, or write {definition.name}.",
                )
            try:
                return exp.column(exp.to_identifier(definition.column(node.name)[0], quoted=True))
            except BindError as error:
                error.place = place_of(node, text)
                raise

        found = tree.copy().transform(named)
        types = {name.lower(): kind for name, kind in definition.columns}
        refuse_mistyped(found, types, lambda node: place_of(node, text))
        return found

    def is_true(self, condition: exp.Expr, definition: TableDef, rows: pa.Table) -> Mask:
        """Where a resolved condition is true."""
        try:
            (found,) = self._kernel.evaluate([condition], dict(definition.columns), rows)
        except (FunctionError, ValueError):
            (found,) = self._by_spark([f"({self._sql(condition)})"], rows)
        if pa.types.is_null(found.type):
            return np.zeros(rows.num_rows, bool)
        if not pa.types.is_boolean(found.type):
            raise BindError("WHERE needs a condition", remedy="Write a comparison, for example x > 0.")
        return _true(found)

    def assigned(
        self, trees: Sequence[exp.Expr], kinds: Sequence[SqlType], definition: TableDef, rows: pa.Table
    ) -> list[Assigned]:
        """The values of resolved expressions over rows, as columns of these types."""
        types = dict(definition.columns)
        try:
            pairs = [self._duckdb(tree, kind, types) for tree, kind in zip(trees, kinds, strict=True)]
            source = pa.table({name: naive(rows.column(name)) for name in rows.column_names})
            shown = ", ".join(f"{value} AS o{i}, {bad} AS b{i}" for i, (value, bad) in enumerate(pairs))
            done = self._kernel.query(f"SELECT {shown} FROM source", source=source)
            columns = [(done.column(f"o{i}"), done.column(f"b{i}")) for i in range(len(trees))]
        except (FunctionError, ValueError):
            texts = [
                sql
                for tree, kind in zip(trees, kinds, strict=True)
                for sql in _spark_pair(f"({self._sql(tree)})", kind)
            ]
            found = self._by_spark(texts, rows)
            columns = list(zip(found[::2], found[1::2], strict=True))
        return [Assigned(typed(v, kind), _true(bad)) for (v, bad), kind in zip(columns, kinds, strict=True)]

    def cast(self, rows: pa.Table, kinds: Sequence[SqlType]) -> list[Assigned]:
        """The columns of rows that Spark made, as these types, by Spark."""
        texts = [sql for name, kind in zip(rows.column_names, kinds, strict=True) for sql in _spark_pair(name, kind)]
        found = self._by_spark(texts, rows)
        pairs = zip(found[::2], found[1::2], kinds, strict=True)
        return [Assigned(typed(value, kind), _true(bad)) for value, bad, kind in pairs]

    def constants(self, cells: Sequence[Sequence[exp.Expr]], kinds: Sequence[SqlType]) -> list[Assigned]:
        """The columns of rows of resolved constants."""
        try:
            texts = [[self._duckdb(one, kind, {}) for one, kind in zip(row, kinds, strict=True)] for row in cells]
            rows = ", ".join("(" + ", ".join(f"{v}, {bad}" for v, bad in row) + ")" for row in texts)
            names = ", ".join(f"o{i}, b{i}" for i in range(len(kinds)))
            done = self._kernel.query(f"SELECT * FROM (VALUES {rows}) AS v({names})")
            columns = [(done.column(f"o{i}"), done.column(f"b{i}")) for i in range(len(kinds))]
        except (FunctionError, ValueError):
            columns = self._constants_by_spark(cells, kinds)
        return [Assigned(typed(v, kind), _true(bad)) for (v, bad), kind in zip(columns, kinds, strict=True)]

    def _constants_by_spark(
        self, cells: Sequence[Sequence[exp.Expr]], kinds: Sequence[SqlType]
    ) -> list[tuple[pa.ChunkedArray, pa.ChunkedArray]]:
        """A row of the table is its number; each value is chosen by it."""
        rows = pa.table({"n": np.arange(len(cells))})
        found = list[pa.ChunkedArray]()
        for i, kind in enumerate(kinds):
            pairs = [_spark_pair(f"({self._sql(row[i])})", kind) for row in cells]
            texts = []
            for part in (0, 1):
                cases = " ".join(f"WHEN {n} THEN {pair[part]}" for n, pair in enumerate(pairs))
                texts.append(f"CASE n {cases} END")
            found += self._by_spark(texts, rows)
        return list(zip(found[::2], found[1::2], strict=True))

    def _duckdb(self, tree: exp.Expr, kind: SqlType, types: dict[str, SqlType]) -> tuple[str, str]:
        """The value as the type, and whether the type cannot hold it."""
        value = self._kernel.final(tree, types)
        if value.type.is_numeric and (kind.is_integer or kind.is_decimal):
            exact = f"TRY_CAST({value.sql} AS {duckdb_type(kind)})"
            return exact, f"({value.sql} IS NOT NULL AND coalesce({exact} <> {value.sql}, true))"
        if value.type.is_numeric and kind.name == "DATE":
            return "CAST(NULL AS DATE)", f"({value.sql} IS NOT NULL)"
        cast = self._kernel.final(exp.Cast(this=tree.copy(), to=exp.DataType.build(kind.name, dialect="spark")), types)
        misfit = f"({value.sql} IS NOT NULL AND {cast.sql} IS NULL)"
        if kind.name == "DATE" and value.type.is_timestamp:
            misfit = f"coalesce({value.sql} <> CAST({cast.sql} AS {duckdb_type(value.type)}), false)"
        if (kind.is_integer or kind.is_decimal) and value.type.name == "STRING":
            lost = f"TRY_CAST({value.sql} AS DOUBLE) <> TRY_CAST({cast.sql} AS DOUBLE)"
            misfit = f"({misfit} OR coalesce({lost}, false))"
        return cast.sql, misfit

    def _sql(self, tree: exp.Expr) -> str:
        return guarded(tree, self._max_value_bytes()).tree.sql(dialect=CQL)

    def _by_spark(self, texts: Sequence[str], rows: pa.Table) -> list[pa.ChunkedArray]:
        """The values of Spark SQL over the rows, in their order."""
        view = f"windrow_rows_{next(_numbers)}"
        shown = ", ".join(f"{text} AS o{i}" for i, text in enumerate(texts))
        source = appended(rows, **{_ROW: np.arange(rows.num_rows)})
        done = query_tables(self._spark(), f"SELECT {_ROW}, {shown} FROM {view}", {view: source})
        done = done.take(pc.sort_indices(done.column(_ROW)))
        return [done.column(f"o{i}") for i in range(len(texts))]


def _true(column: pa.ChunkedArray) -> Mask:
    return np.asarray(flat(pc.fill_null(column, False)))


def _spark_pair(value: str, kind: SqlType) -> tuple[str, str]:
    """Spark SQL for the value as the type, and whether the type cannot hold it."""
    cast = f"CAST({value} AS {kind})"
    misfit = f"({value} IS NOT NULL AND {cast} IS NULL)"
    if kind.is_integer or kind.is_decimal:
        lost = f"CAST(CAST({value} AS STRING) AS DOUBLE) <> CAST({cast} AS DOUBLE)"
        misfit = f"({misfit} OR COALESCE({lost}, FALSE))"
    if kind.name == "DATE":  # a time of day would be lost
        misfit = f"({misfit} OR COALESCE(CAST({value} AS TIMESTAMP_NTZ) <> CAST({cast} AS TIMESTAMP_NTZ), FALSE))"
    if kind.is_timestamp:  # a time without a day is of the day on which it is read
        misfit = f"({misfit} OR COALESCE(CAST({value} AS STRING) RLIKE '^ *T?[0-9]+:', FALSE))"
    return cast, misfit
