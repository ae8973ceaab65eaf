"""Counters and timings of a stream and a query, for `metrics()` and SHOW."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class StreamMetrics:
    """Counters since the state directory was opened; the catalog has the totals."""

    batches: int = 0
    rows: int = 0
    cells: int = 0
    job_s: float = 0.0
    apply_s: float = 0.0
    tick_s: float = 0.0
    tick_batches: int = 0
    compactions: int = 0
    restarts: int = 0
    heartbeats: int = 0
    last_error: str | None = None
    preaggregated_by: dict[str, int] = field(default_factory=lambda: {"spark": 0, "driver": 0})
    last_preaggregate: str | None = None


@dataclass
class QueryMetrics:
    windows: int = 0
    rows: int = 0
    last_delivery_s: float | None = None
    callback_errors: int = 0
    last_callback_error: str | None = None
    sink_timeouts: int = 0
    last_sink_error: str | None = None


@dataclass
class PlanMetrics:
    """Counters of a continuous query since the state directory was opened."""

    ticks: int = 0
    rows: int = 0
    tick_s: float = 0.0
    last_delivery_s: float | None = None
    callback_errors: int = 0
    last_callback_error: str | None = None
    sink_timeouts: int = 0
    last_sink_error: str | None = None
