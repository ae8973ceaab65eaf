"""SHOW, DESCRIBE and metrics: what the engine knows, as tables and plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from windrow.cql.intervals import format_interval
from windrow.dataplane.sources.registry import DATAFRAME
from windrow.engine.state import QueryState, StreamState
from windrow.errors import CatalogError
from windrow.settings import SPECS
from windrow.types import point_text

if TYPE_CHECKING:
    from windrow.engine.engine import Engine


def show(engine: Engine, what: str) -> pa.Table:
    """SHOW STREAMS | QUERIES | TABLES | SETTINGS."""
    kind = what.lower()
    if kind == "streams":
        return _table([_stream_row(engine, s) for s in engine.manager.streams.values()], _STREAM)
    if kind == "queries":
        return _table([_query_row(engine, s, q) for s, q in engine.manager.queries().values()], _QUERY)
    if kind == "tables":
        return _table([], ("name", "columns"))
    rows = [
        {"name": n, "value": str(engine.settings[n]), "default": str(s.default), "meaning": s.doc}
        for n, s in SPECS.items()
    ]
    return _table(rows, ("name", "value", "default", "meaning"))


_STREAM = (
    "name",
    "source",
    "window_attribute",
    "punctuation",
    "frontier",
    "admitted",
    "late",
    "dead_letters",
    "queries",
    "state",
)
_QUERY = (
    "name",
    "stream",
    "window",
    "windows_answered",
    "answer_rows",
    "overflows",
    "latest_window_end",
    "completeness",
    "state",
)


def _table(rows: list[dict[str, Any]], names: tuple[str, ...]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in names}
    return pa.table({name: pa.array(values, None if rows else pa.string()) for name, values in columns.items()})


def _stream_row(engine: Engine, stream: StreamState) -> dict[str, Any]:
    row = engine.catalog.row("SELECT admitted, late, dead FROM streams WHERE id = ?", (stream.id,))
    assert row is not None
    return {
        "name": stream.name,
        "source": stream.definition.statement.source,
        "window_attribute": stream.definition.attribute,
        "punctuation": punctuation_text(stream),
        "frontier": frontier_text(stream),
        "admitted": row["admitted"],
        "late": row["late"],
        "dead_letters": row["dead"],
        "queries": len(stream.queries),
        "state": _stream_state(engine, stream),
    }


def _stream_state(engine: Engine, stream: StreamState) -> str:
    if stream.definition.statement.source == DATAFRAME and stream.dataframe is None:
        return "detached: call wr.stream with its DataFrame again"
    if not stream.active:
        return "idle: no query reads it"
    return "running" if engine.is_running else "stopped"


def punctuation_text(stream: StreamState) -> str:
    slack = stream.definition.slack
    if slack is None:
        return "none"
    if slack == 0:
        return "ordered"
    is_time = stream.definition.attribute_type.is_timestamp
    return f"slack {format_interval(slack) if is_time else slack}"


def frontier_text(stream: StreamState) -> str | None:
    value = stream.frontier.value
    return None if value is None else point_text(value, stream.definition.attribute_type)


def completeness(query: QueryState) -> str:
    """Which of a query's windows see all of their tuples."""
    first = query.first_complete_end
    if first is None:
        return "every window is complete"
    kind = query.plan.scan.attribute.type
    return f"windows that end before {point_text(first, kind)} are partial"


def _query_row(engine: Engine, stream: StreamState, query: QueryState) -> dict[str, Any]:
    row = engine.catalog.row("SELECT answers, answer_rows, overflows FROM queries WHERE id = ?", (query.id,))
    assert row is not None
    kind = query.plan.scan.attribute.type
    return {
        "name": query.name,
        "stream": stream.name,
        "window": window_text(query),
        "windows_answered": row["answers"],
        "answer_rows": row["answer_rows"],
        "overflows": row["overflows"],
        "latest_window_end": None if query.last_end is None else point_text(query.last_end, kind),
        "completeness": completeness(query),
        "state": "active" if query.error is None else f"suspended: {query.error}",
    }


def window_text(query: QueryState) -> str:
    window, kind = query.plan.window, query.plan.scan.attribute.type
    size, slide = (format_interval(v) if kind.is_timestamp else str(v) for v in (window.range, window.slide))
    return f"RANGE {size} SLIDE {slide}"


def describe(engine: Engine, name: str) -> pa.Table:
    """The columns of a stream, or of a query's answers."""
    stream = engine.manager.streams.get(name.lower())
    if stream is not None:
        attribute = stream.definition.attribute
        notes = {attribute: f"window attribute, {punctuation_text(stream)}"} if attribute else {}
        rows = [{"column": n, "type": t.name, "note": notes.get(n)} for n, t in stream.definition.columns]
        return _table(rows, ("column", "type", "note"))
    try:
        _, query = engine.manager.query(name)
    except CatalogError:
        raise CatalogError(
            f"there is no stream or query '{name}'", remedy="SHOW STREAMS and SHOW QUERIES list them."
        ) from None
    kind = query.plan.scan.attribute.type.bound.name
    rows = [
        {"column": n, "type": t, "note": None}
        for n, t in (("window_start", kind), ("window_end", kind), ("is_revision", "BOOLEAN"))
    ]
    rows += [{"column": o.name, "type": o.type.name, "note": None} for o in query.plan.outputs]
    return _table(rows, ("column", "type", "note"))


def stream_metrics(engine: Engine, stream: StreamState) -> dict[str, Any]:
    """Counters since opening, totals, and sizes."""
    row = _stream_row(engine, stream)
    return {
        **asdict(stream.metrics),
        **{name: row[name] for name in ("admitted", "late", "dead_letters", "frontier")},
        "dead_letter_reasons": engine.dead_letter_counts(stream.name),
        "synopses": len(stream.synopses),
        "groups": sum(s.synopsis.groups.count - 1 for s in stream.synopses.values()),
        "closed_panes": sum(int(s.synopsis.closed_panes.size) for s in stream.synopses.values()),
        "synopsis_bytes": sum(s.synopsis.nbytes for s in stream.synopses.values()),
    }


def query_metrics(engine: Engine, query: QueryState) -> dict[str, Any]:
    stream, _ = engine.manager.query(query.name)
    row = _query_row(engine, stream, query)
    return {**asdict(query.metrics), **{n: row[n] for n in ("windows_answered", "answer_rows", "overflows", "state")}}
