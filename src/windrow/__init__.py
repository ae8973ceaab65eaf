"""Windrow: standing SQL over sliding windows, on Apache Spark."""

from windrow.api import Query, Windrow, open
from windrow.dataplane.sinks.parquet_answers import compact_answers, read_answers
from windrow.errors import WindrowError
from windrow.result import Result
from windrow.version import __version__

__all__ = ["Query", "Result", "Windrow", "WindrowError", "__version__", "compact_answers", "open", "read_answers"]
