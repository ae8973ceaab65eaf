"""Spark SQL over windows: DataFrames whose tasks map the files of window stores, so that no row passes the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windrow.cql.names import quote_name
from windrow.dataplane.frames import check_columns, schema_of, translated, whole
from windrow.dataplane.kernels.window_rows import WindowRows

MOST_LIMIT = 2**31 - 1
"""The most rows that a LIMIT of Spark can name."""


def window_frame(spark: SparkSession, rows: WindowRows, names: Sequence[str]) -> DataFrame:
    """The rows of a window under these names, a task per share."""
    payload = pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)
    schema = schema_of(pa.schema([(name, one.type.arrow) for name, one in zip(names, rows.columns, strict=True)]))

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        work: WindowRows = pickle.loads(payload)
        for batch in batches:
            for share in batch.column(0).to_pylist():
                yield from work.batches(share, names)

    return spark.range(0, len(rows.shares), 1, len(rows.shares)).mapInArrow(read, schema)


def question_frame(
    spark: SparkSession,
    sql: str,
    windows: Mapping[str, tuple[WindowRows, Sequence[str]]],
    tables: Mapping[str, pa.Table],
) -> DataFrame:
    """A lazy DataFrame: Spark SQL over windows and tables, which have these names in the text alone."""
    made = list[str]()
    try:
        with translated():
            for name, (rows, names) in windows.items():
                window_frame(spark, rows, names).createOrReplaceTempView(quote_name(name))
                made.append(name)
            for name, table in tables.items():
                frame_of_rows(spark, table).createOrReplaceTempView(quote_name(name))
                made.append(name)
            found = spark.sql(sql)
            check_columns(found.columns)
            return found
    finally:
        for name in made:
            spark.catalog.dropTempView(name)


def frame_of_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows as a DataFrame."""
    return spark.createDataFrame(whole(rows), schema=schema_of(rows.schema))


def collected(frame: DataFrame, most: int | None = None) -> pa.Table:
    """The rows of a DataFrame, at most so many (None: all)."""
    with translated():
        return (frame if most is None or most > MOST_LIMIT else frame.limit(most)).toArrow()


class PartialJobs:
    """Jobs that reduce the rows of a window: each task gives one Arrow table."""

    def __init__(self, spark: SparkSession):
        self._spark = spark

    @property
    def cores(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def run(self, work: Any, numbers: range) -> Iterator[pa.Table]:
        """`work.reduced(i)` of these numbers, by a Spark task each. `work` is pickled, and its module can be
        imported."""
        payload = pickle.dumps(work, pickle.HIGHEST_PROTOCOL)

        def reduced(place: int, _: Iterable[int]) -> Iterator[bytes]:
            yield _packed(pickle.loads(payload).reduced(numbers[place]))

        context = self._spark.sparkContext
        with translated():
            tasks = context.parallelize(numbers, len(numbers))
            found = tasks.mapPartitionsWithIndex(reduced).collect()
        return (pa.ipc.open_stream(one).read_all() for one in found)


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
