"""The Python process of a Spark worker, which runs one task after another."""

from __future__ import annotations

import gc
import sys

_MAIN = ("pyspark.daemon", "pyspark.worker")
"""What such a process has been started as."""

_settled = 0
"""How many modules were imported when the process was last settled."""


def settle() -> None:
    """Every kernel calls this first. It hides what has been imported from the garbage collector.

    PySpark collects garbage after every task. To look through all that Windrow and its libraries define takes 50 ms of
    a core (measured), for which the next task waits.
    """
    global _settled
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name in _MAIN and len(sys.modules) != _settled:
        gc.freeze()
        _settled = len(sys.modules)
