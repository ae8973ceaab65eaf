"""Small Arrow tables through Spark: a micro-batch given directly, and one-time queries over a table."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windrow.cql.names import quote_name


def frame_of(spark: SparkSession, table: pa.Table, partitions: int | None) -> DataFrame:
    df = spark.createDataFrame(table)
    return df if partitions is None else df.repartition(partitions)


def query_frame(spark: SparkSession, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run Spark SQL over tables registered under these names for the time of the call."""
    for name, table in tables.items():
        spark.createDataFrame(table).createOrReplaceTempView(quote_name(name))
    try:
        return spark.sql(sql).toArrow()
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)
