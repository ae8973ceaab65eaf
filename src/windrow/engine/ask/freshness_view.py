"""SHOW FRESHNESS: how far streams and queries lag behind, now and over the last hour. SHOW SNAPSHOTS: the one-time
queries that run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from windrow.engine.lags import LagRing
from windrow.engine.plans.manager import PlanManager
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.state import QueryState, StreamState
from windrow.plan.nodes import ROW_NUM
from windrow.types import SqlType, point_text

if TYPE_CHECKING:
    from windrow.engine.engine import Engine

_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("complete_to", pa.string()),
        ("lag", pa.float64()),
        ("mean_lag", pa.float64()),
        ("worst_lag", pa.float64()),
        ("samples", pa.int64()),
        ("unit", pa.string()),
    ]
)


def freshness_table(manager: QueryManager, plans: PlanManager) -> pa.Table:
    """One row per stream and standing query that has a window attribute. Lags are in seconds, or in points of an
    integer attribute: of a stream, how far its frontier is behind its newest tuple (slack and disorder); of a query,
    how far its answer is behind the frontiers of its streams."""
    streams = [stream for stream in manager.streams.values() if stream.definition.attribute is not None]
    rows = [
        *(row for stream in streams for row in _stream_rows(stream)),
        *(row for query in plans.queries() for row in _plan_rows(manager, query)),
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


_SNAPSHOTS = pa.schema(
    [
        ("id", pa.int64()),
        ("query", pa.string()),
        ("isolation", pa.string()),
        ("priority", pa.int64()),
        ("seconds", pa.float64()),
        ("reads", pa.int64()),
        ("aborts", pa.int64()),
        ("state", pa.string()),
    ]
)


def snapshots_table(engine: Engine) -> pa.Table:
    """The one-time queries that are not answered yet. `wr.cancel(id)` cancels one."""
    engine.refuse_live("SHOW SNAPSHOTS")
    now_s = time.monotonic()
    rows = [
        {
            "id": one.number,
            "query": one.text,
            "isolation": one.terms.isolation.value,
            "priority": one.terms.priority,
            "seconds": round(now_s - one.begun_s, 3),
            "reads": one.reads,
            "aborts": one.aborts,
            "state": one.state,
        }
        for one in engine.coordinator.running
    ]
    return pa.Table.from_pylist(rows, schema=_SNAPSHOTS)


def _stream_rows(stream: StreamState) -> Iterator[dict[str, Any]]:
    attribute, kind = stream.definition.attribute, stream.definition.attribute_type
    frontier = None if attribute is None else stream.frontiers.get(attribute)
    if frontier is None:
        return
    behind = None
    if frontier.value is not None:
        behind = max(0, (frontier.greatest or frontier.value) - frontier.value)
    yield _row("stream", stream.name, frontier.value, behind, stream.lags, kind)
    for query in stream.active:
        if query.axis != ROW_NUM:
            yield _query_row(stream, query)


def _query_row(stream: StreamState, query: QueryState) -> dict[str, Any]:
    """A periodic query: windows due by `ticked` are answered."""
    axis, kind = query.axis, stream.definition.type_of(query.axis)
    ticked, reached = stream.ticked.get(axis), stream.frontiers[axis].value
    behind = None if ticked is None or reached is None else max(0, reached - ticked)
    return _row("query", query.name, ticked, behind, stream.tick_lags.get(axis, LagRing()), kind)


def _plan_rows(manager: QueryManager, query: ContinuousQuery) -> Iterator[dict[str, Any]]:
    """A continuous query, and the streams of its windows that have not ended."""
    ticked = query.progress.ticked
    reached = [
        frontier
        for window in query.plan.windows
        if (stream := manager.streams.get(window.stream.lower())) is not None
        and not stream.progress.input_ended
        and (frontier := stream.frontiers[window.attribute.column].value) is not None
    ]
    behind = None if ticked is None else max(0, min(reached, default=ticked) - ticked)
    yield _row("query", query.name, ticked, behind, query.lags, query.plan.point)


def _row(kind: str, name: str, upto: int | None, lag: int | None, lags: LagRing, of: SqlType) -> dict[str, Any]:
    unit = 1e6 if of.is_timestamp else 1
    known = lags.summary(time.monotonic())
    return {
        "kind": kind,
        "name": name,
        "complete_to": None if upto is None else point_text(upto, of),
        "lag": None if lag is None else lag / unit,
        "mean_lag": None if known is None else known.mean / unit,
        "worst_lag": None if known is None else known.worst / unit,
        "samples": 0 if known is None else known.count,
        "unit": "seconds" if of.is_timestamp else "points",
    }
