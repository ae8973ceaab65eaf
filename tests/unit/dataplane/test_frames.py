"""DataFrames of Arrow tables have all rows. Errors of analysis are not logged while any thread asks for silence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.logger import PySparkLogger

from windrow.dataplane.frames import frame_of, query_tables, unlogged


def test_silence_of_two_threads_that_overlap() -> None:
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    one, other = unlogged(), unlogged()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert logger.disabled
    other.__exit__(None, None, None)
    assert not logger.disabled


def test_rows_behind_empty_chunks(spark: Any) -> None:
    table = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    late = pa.concat_tables([table.slice(0, 0), table.slice(0, 0), table])
    assert frame_of(spark, late, None).count() == 3
    assert query_tables(spark, "SELECT n FROM behind_chunks", {"behind_chunks": late}).num_rows == 3
