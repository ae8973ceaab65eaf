"""Windrow: standing SQL over sliding windows, on Apache Spark."""

from windrow.api import Query, Windrow, open
from windrow.errors import WindrowError
from windrow.result import Result

__version__ = "0.1.0"
__all__ = ["Query", "Result", "Windrow", "WindrowError", "__version__", "open"]
