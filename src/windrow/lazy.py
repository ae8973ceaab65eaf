"""Imports what `windrow` exports when it is first used: `windrow status` must not wait for Spark's modules."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

HOMES = {
    "Query": "windrow.handles",
    "Result": "windrow.result",
    "Windrow": "windrow.api",
    "compact_answers": "windrow.dataplane.sinks.parquet_answers",
    "open": "windrow.api",
    "read_answers": "windrow.dataplane.sinks.parquet_answers",
}


def __getattr__(name: str) -> Any:
    """An attribute of the package `windrow`; afterwards it is one like any other."""
    if name not in HOMES:
        raise AttributeError(f"module 'windrow' has no attribute '{name}'")
    found = getattr(import_module(HOMES[name]), name)
    setattr(sys.modules["windrow"], name, found)
    return found
