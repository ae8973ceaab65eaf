"""The counters of a run in the catalog, for readers in other processes. Commits that happen anyway save them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, fields
from sqlite3 import Row
from typing import Any

from windrow.engine.metrics import QueryMetrics, StreamMetrics
from windrow.engine.state import QueryState, StreamState

MOST_SIZING = 0.01
"""The share of the time that measuring sizes may take: a stream may have thousands of synopses."""


def saved_metrics(stream: StreamState, **counted: int) -> str:
    """The counters and sizes of a stream as JSON; `counted` are to be added."""
    begun_s = time.monotonic()
    if begun_s >= stream.size_again_s:
        stream.sizes_seen = stream.sizes()
        stream.size_again_s = begun_s + (time.monotonic() - begun_s) / MOST_SIZING
    counters: dict[str, Any] = asdict(stream.metrics)
    counters |= {name: counters[name] + more for name, more in counted.items()}
    return json.dumps({"at_s": time.time(), "counters": counters, "sizes": stream.sizes_seen})


def restore_metrics(stream: StreamState, text: str | None) -> None:
    """Give a stream the metrics that its owner saved; None: it has never saved any."""
    saved = json.loads(text) if text else {"counters": {}, "sizes": None}
    known = {field.name for field in fields(StreamMetrics)}
    stream.metrics = StreamMetrics(**{name: value for name, value in saved["counters"].items() if name in known})
    stream.sizes_seen = saved["sizes"] or dict.fromkeys(stream.sizes(), 0)


def restored_query_metrics(row: Row) -> QueryMetrics:
    """The metrics of a query that its owner saved."""
    return QueryMetrics(
        row["run_windows"], row["run_rows"], row["delivered_s"], row["callback_errors"], row["callback_error"]
    )


def query_counters(query: QueryState, windows: int, rows: int) -> tuple[Any, ...]:
    """The columns of a query's counters after an answer with these windows and rows."""
    metrics = query.metrics
    return (
        metrics.windows + windows,
        metrics.rows + rows,
        time.time(),
        metrics.callback_errors,
        metrics.last_callback_error,
    )
