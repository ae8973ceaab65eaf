"""What `windrow` exports: imported when it is first used, since `windrow status` must not wait for Spark's modules.

`open` imports the rest of Windrow while Spark's JVM starts.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.errors import StateError

if TYPE_CHECKING:
    from windrow.api import Windrow
    from windrow.clock import Clock

HOMES = {
    "Query": "windrow.handles",
    "Result": "windrow.result",
    "Windrow": "windrow.api",
    "compact_answers": "windrow.dataplane.sinks.parquet_answers",
    "read_answers": "windrow.dataplane.sinks.parquet_answers",
}


def __getattr__(name: str) -> Any:
    """An attribute of the package `windrow`; afterwards it is one like any other."""
    if name not in HOMES:
        raise AttributeError(f"module 'windrow' has no attribute '{name}'")
    found = getattr(import_module(HOMES[name]), name)
    setattr(sys.modules["windrow"], name, found)
    return found


def open(
    state_dir: str | Path | None = None,
    *,
    master: str | None = None,
    spark: Any = None,
    settings: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    read_only: bool = False,
) -> Windrow:
    """Open a state directory (created if absent), or a temporary one that is removed on close.

    `read_only` reads what is committed in a state directory that another process may have open. It takes no lock,
    writes nothing, and starts Spark only if a statement needs it.
    """
    if read_only and state_dir is None:
        raise StateError(
            "read_only needs a state directory", remedy="Name the one to read: windrow.open(directory, …)."
        )
    if "\0" in str(state_dir):
        raise StateError("the path of a state directory has a null byte", remedy="Leave it out.")
    if read_only:
        from windrow.api import Windrow
        from windrow.engine.read_only import ReadOnlyEngine

        return Windrow(ReadOnlyEngine(Path(str(state_dir)).absolute(), spark, master, settings or {}))
    temporary = tempfile.mkdtemp(prefix="windrow-") if state_dir is None else None
    try:
        return _opened(Path(temporary or str(state_dir)).absolute(), master, spark, settings or {}, clock, temporary)
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        raise


def _opened(
    path: Path,
    master: str | None,
    spark: Any,
    settings: Mapping[str, Any],
    clock: Clock | None,
    temporary: str | None,
) -> Windrow:
    from windrow.engine.run.beginning import BegunState

    begun = BegunState(path, spark, master, settings)
    try:
        from windrow.api import Windrow
        from windrow.clock import SystemClock
        from windrow.engine.engine import Engine
    except BaseException:
        begun.abandon()
        raise
    return Windrow(Engine(begun, clock or SystemClock()), temporary)
