"""Spark's rate source: numbered rows at a steady rate, for experiments."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.errors import SourceError
from windrow.settings import Settings

_COLUMNS = {"timestamp": "TIMESTAMP", "value": "BIGINT"}
_NUMBERS = ("rowspersecond", "numpartitions")


def check_number(name: str, value: str, most: int = (1 << 31) - 1) -> None:
    """Raise SourceError for an option that Spark would refuse only when the stream runs."""
    if not (value.isascii() and value.isdigit() and 0 < int(value) <= most):
        raise SourceError(f"the option {name} is '{value}'", remedy=f"It takes a whole number from 1 to {most:,}.")


def check(stream: StreamDef) -> None:
    for name, value in stream.statement.options:
        if name.lower() in _NUMBERS:
            check_number(name, value)
    for name, kind in stream.columns:
        if _COLUMNS.get(name.lower()) != kind.name:
            raise SourceError(
                f"a rate stream has no column '{name} {kind}'", remedy="Its columns: timestamp TIMESTAMP, value BIGINT."
            )


def open_rate(spark: SparkSession, stream: StreamDef, settings: Settings, spool_dir: Path) -> DataFrame:
    reader = spark.readStream.format("rate")
    for name, value in stream.statement.options:
        reader = reader.option(name, value)
    return reader.load().selectExpr(*[quote_name(name) for name, _ in stream.columns])
