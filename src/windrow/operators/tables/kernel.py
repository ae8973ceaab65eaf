"""Generated SQL over Arrow tables: one DuckDB connection per thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.cql.bounds.guards import guarded
from windrow.cql.final.sql import finalize
from windrow.cql.final.types import DOUBLE, Final
from windrow.errors import ExecutionError, ResultLimitError, first_line
from windrow.operators.tables.key_index import KeyIndexes
from windrow.operators.tables.permit import Permit, permit_of_thread
from windrow.plan.algebra.nodes import PlanColumn, columns_in
from windrow.types import SqlType

Types = Mapping[str, SqlType]
Column = TypeVar("Column", pa.Array, pa.ChunkedArray)

_INFINITIES = {"Infinity": "__above", "-Infinity": "__below"}
MOST_TEXTS = 10_000
"""The most expressions whose SQL is remembered."""

BATCH_ROWS = 1 << 17
"""So many rows of a result are counted at a time, where it is bounded."""


class Kernel:
    """Evaluates expressions and statements. Threads do not share connections, so calls need no lock.

    `max_value_bytes`, or what it returns at each call, bounds the values that functions make; a larger one is NULL.
    `indexes` are those of the stored
    tuples that operators look through at every tick.
    """

    def __init__(self, max_value_bytes: int | Callable[[], int] = 1 << 20, memory_limit: str = "1GB"):
        self._max_value_bytes = max_value_bytes if callable(max_value_bytes) else lambda: max_value_bytes
        self._memory_limit = memory_limit
        self._local = threading.local()
        self._texts: dict[int, tuple[exp.Expr, Final]] = {}
        self.indexes = KeyIndexes()

    def __reduce__(self) -> tuple[type[Kernel], tuple[int, str]]:
        """A connection stays in its process; another process opens its own."""
        return Kernel, (self._max_value_bytes(), self._memory_limit)

    def query(self, sql: str, **tables: pa.Table) -> pa.Table:
        """The result of a statement over tables. Pass times without a zone: see `naive`."""
        connection, permit = self._connection(), permit_of_thread()
        for name, table in tables.items():
            connection.register(name, table)
        try:
            if permit.most_bytes is None:
                return connection.sql(sql).to_arrow_table()
            with permit.executing(connection.interrupt):
                return _permitted(connection.sql(sql), permit)
        except (duckdb.Error, OSError) as error:  # a result that is read in batches fails with an OSError
            permit.check()
            if isinstance(error, duckdb.OutOfMemoryException):
                raise ResultLimitError(
                    f"this query takes more memory than there is for it: {first_line(error)}",
                    remedy="Ask for fewer rows or columns (WHERE, a shorter window).",
                ) from error
            raise ExecutionError(f"an expression of the query failed: {first_line(error)}") from error
        finally:
            for name in tables:
                connection.unregister(name)

    def evaluate(self, expressions: Sequence[exp.Expr], types: Types, table: pa.Table) -> list[pa.ChunkedArray]:
        """The values of expressions over a table's columns, a column each, of the expressions' Spark types."""
        finals = [None if isinstance(one, exp.Column) else self.final(one, types) for one in expressions]
        needed = sorted({n for one, f in zip(expressions, finals, strict=True) if f for n in columns_in(one)})
        computed: dict[int, pa.ChunkedArray] = {}
        asked = [(i, final) for i, final in enumerate(finals) if final is not None]
        if asked:
            rows = {name: naive(table.column(name)) for name in needed}
            # DuckDB counts rows by columns, and a constant needs none.
            source = pa.table(rows or {"__row": np.zeros(table.num_rows, np.int8)})
            sql = ", ".join(f"{final.sql} AS o{i}" for i, final in asked)
            done = self.query(f"SELECT {sql} FROM source", source=source)
            computed = {i: typed(done.column(f"o{i}"), final.type) for i, final in asked}
        return [computed[i] if i in computed else table.column(one.name) for i, one in enumerate(expressions)]

    def is_true(self, predicate: exp.Expr, types: Types, table: pa.Table) -> pa.Array:
        """Whether the predicate is true, for every row; NULL counts as false."""
        (found,) = self.evaluate([predicate], types, table)
        if pa.types.is_null(found.type):
            return pa.array(np.zeros(table.num_rows, bool))
        return pc.fill_null(found, False)

    def final(self, expression: exp.Expr, types: Types) -> Final:
        """The SQL of an expression. Remembered per tree: ids of columns are unique in a plan, so a tree has one SQL."""
        known = self._texts.get(id(expression))
        if known is not None and known[0] is expression:
            return known[1]
        tree = guarded(expression, None).tree.transform(_infinities)
        found = finalize(tree, {**types, **dict.fromkeys(_INFINITIES.values(), DOUBLE)})
        sql = found.sql
        for text, name in _INFINITIES.items():
            sql = sql.replace(f'"{name}"', f"CAST('{text}' AS DOUBLE)")
        final = Final(sql, found.type)
        if len(self._texts) >= MOST_TEXTS:
            self._texts.clear()
        self._texts[id(expression)] = (expression, final)
        return final

    def _connection(self) -> duckdb.DuckDBPyConnection:
        found: duckdb.DuckDBPyConnection | None = getattr(self._local, "connection", None)
        if found is None:
            config: dict[str, str | bool | int | float | list[str]] = {
                "threads": 1,
                "memory_limit": self._memory_limit,
                "enable_external_access": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
            found = self._local.connection = duckdb.connect(":memory:", config=config)
            # The plan gives the order in which inputs are probed (Golab's dissertation, section 5.3). IN with five
            # constants would be a join, which gives the rows of small chunks later: `evaluate` needs them in order.
            found.execute("SET disabled_optimizers = 'join_order,in_clause'")
        most = self._max_value_bytes()
        if getattr(self._local, "most", None) != most:
            found.execute(f"SET VARIABLE max_value_bytes = {most}")
            self._local.most = most
        return found


def _permitted(found: duckdb.DuckDBPyRelation, permit: Permit) -> pa.Table:
    """A result, whose bytes are counted while it grows."""
    batches, nbytes = list[pa.RecordBatch](), 0
    with found.to_arrow_reader(BATCH_ROWS) as reader:
        for batch in reader:
            batches.append(batch)
            nbytes += batch.nbytes
            permit.allow(nbytes)
    return pa.Table.from_batches(batches, reader.schema)


def types_of(*schemas: Sequence[PlanColumn]) -> dict[str, SqlType]:
    """The types of columns by their names in expressions."""
    return {column.sql: column.type for schema in schemas for column in schema}


def naive(column: Column) -> Column:
    """Times without their zone, which is UTC everywhere: DuckDB would use the session's."""
    if pa.types.is_timestamp(column.type) and column.type.tz:
        return column.cast(pa.timestamp("us"))
    return column


def typed(column: Column, kind: SqlType) -> Column:
    """A column that DuckDB made, as the Arrow type of its Spark type."""
    if kind.name == "VOID":
        nothing = pa.nulls(len(column))
        return pa.chunked_array([nothing]) if isinstance(column, pa.ChunkedArray) else nothing
    return column if column.type == kind.arrow else pc.cast(column, kind.arrow, safe=False)


def _infinities(node: exp.Expr) -> exp.Expr:
    """`double('Infinity')`, which conditions of accumulators have, as a column that stands for it."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "double" and len(node.expressions) == 1:
        name = _INFINITIES.get(node.expressions[0].name)
        return exp.column(name) if name is not None else node
    return node
