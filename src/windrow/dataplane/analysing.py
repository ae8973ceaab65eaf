"""Asks Spark for the types of expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from windrow.cql.bounds.guards import bounded_sql
from windrow.cql.names import quote_name
from windrow.dataplane.frames import unlogged
from windrow.errors import BindError, first_line
from windrow.types import SqlType, scalar_type


class Analyser:
    """Asks Spark for the types of expressions, with a cache. Spark computes some constants while it analyses, so the
    values that functions make are bounded here, too."""

    def __init__(self, spark: SparkSession, max_value_bytes: Callable[[], int]):
        self._spark = spark
        self._max_value_bytes = max_value_bytes
        self._types = lru_cache(maxsize=10_000)(self._analyse)
        self._frame = lru_cache(maxsize=100)(self._empty)

    def __call__(self, columns: Sequence[tuple[str, SqlType]], expressions: Sequence[str]) -> list[SqlType]:
        return list(self._types(tuple(columns), tuple(expressions)))

    def _analyse(self, columns: tuple[tuple[str, SqlType], ...], expressions: tuple[str, ...]) -> tuple[SqlType, ...]:
        most = self._max_value_bytes()
        try:
            with unlogged():
                selected = [f"({bounded_sql(e, most)}) AS `c{i}`" for i, e in enumerate(expressions)]
                schema = self._frame(columns).selectExpr(*selected).schema
        except PySparkException as error:
            raise BindError(first_line(error), remedy="Spark SQL refuses this expression.") from None
        return tuple(_sql_type(field.dataType) for field in schema.fields)

    def _empty(self, columns: tuple[tuple[str, SqlType], ...]) -> DataFrame:
        """A DataFrame with these columns and without rows. To make one takes three times as long as to ask it."""
        named = [f"CAST(NULL AS {kind.name}) AS {quote_name(name)}" for name, kind in columns if kind.name != "VOID"]
        named += [f"NULL AS {quote_name(name)}" for name, kind in columns if kind.name == "VOID"]
        return self._spark.range(0).selectExpr(*named)


def _sql_type(data_type: Any) -> SqlType:
    name = str(data_type.simpleString()).upper()
    try:
        return scalar_type(name)
    except ValueError:
        raise BindError(f"an expression of type {name} cannot be used here", remedy="Use a scalar type.") from None
