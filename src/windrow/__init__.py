"""Windrow: standing SQL over sliding windows, on Apache Spark."""

from typing import TYPE_CHECKING

from windrow.errors import WindrowError
from windrow.lazy import __getattr__ as __getattr__
from windrow.lazy import open as open
from windrow.version import __version__

if TYPE_CHECKING:
    from windrow.api import Windrow
    from windrow.dataplane.sinks.parquet_answers import compact_answers, read_answers
    from windrow.handles import Query
    from windrow.result import Result

__all__ = ["Query", "Result", "Windrow", "WindrowError", "__version__", "compact_answers", "open", "read_answers"]
