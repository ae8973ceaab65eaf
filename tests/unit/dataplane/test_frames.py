"""Spark's errors of analysis are not logged while any thread asks for silence, and logged again afterwards."""

from __future__ import annotations

from pyspark.logger import PySparkLogger

from windrow.dataplane.frames import unlogged


def test_silence_of_two_threads_that_overlap() -> None:
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    one, other = unlogged(), unlogged()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert logger.disabled
    other.__exit__(None, None, None)
    assert not logger.disabled
