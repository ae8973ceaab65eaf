"""Small Arrow tables in Spark: a micro-batch passed directly, and one-time queries over tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from windrow.cql.names import quote_name
from windrow.errors import BindError, first_line

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def frame_of(spark: SparkSession, table: pa.Table, partitions: int | None) -> DataFrame:
    df = spark.createDataFrame(table)
    return df if partitions is None else df.repartition(partitions)


def query_frame(spark: SparkSession, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run Spark SQL over tables that are registered under these names during the call. If Spark refuses the query,
    raise BindError with the first line of its reason."""
    for name, table in tables.items():
        spark.createDataFrame(table).createOrReplaceTempView(quote_name(name))
    try:
        with unlogged():
            return spark.sql(sql).toArrow()
    except PySparkException as error:
        raise BindError(_reason(error), remedy="Spark SQL refuses this query.") from None
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)


def _reason(error: Exception) -> str:
    """The first line of Spark's message, without its place, which refers to generated text."""
    return re.sub(r"; line \d+ pos \d+;?$", "", first_line(error))


@contextmanager
def unlogged() -> Iterator[None]:
    """Silence PySpark, which logs errors of analysis with their stack before it raises them."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
