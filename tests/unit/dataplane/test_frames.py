"""DataFrames of Arrow tables have all rows. Errors of analysis are not logged while any thread asks for silence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from windrow.dataplane.frames import frame_of, query_tables, translated, unlogged
from windrow.errors import ExecutionError, ResultLimitError

JVM_ERROR = SimpleNamespace(_target_id="o1")


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


@pytest.mark.parametrize("error", [PySparkException, lambda message: Py4JJavaError(message, JVM_ERROR)])
def test_more_than_spark_collects(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Py4JJavaError, "__str__", lambda error: error.errmsg)
    message = "Job aborted: Total size of results of 2 tasks is bigger than spark.driver.maxResultSize (1024.0 MiB)"
    with pytest.raises(ResultLimitError, match="too many: Job aborted") as found, translated():
        raise error(message)
    assert "LIMIT" in str(found.value)
    with pytest.raises(ExecutionError, match="another"), translated():
        raise error("another")
