"""`windrow status`: what a state directory says of itself, from outside, without Spark and without the engine."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from sqlite3 import Row
from typing import Any, cast

import pyarrow as pa
from rich.console import Console
from sqlglot import exp

from windrow.catalog.definitions import StreamDef, define_stream
from windrow.catalog.lock import Owner, owner_of
from windrow.catalog.snapshot import CATALOG, CatalogSnapshot
from windrow.console.tables import print_table, say
from windrow.cql import parse_one
from windrow.cql.dialect import window_of
from windrow.cql.statements import CreateQuery, CreateStream, CreateTable
from windrow.engine.store.progress_rows import ProgressRows
from windrow.plan.bind_window import bind_window
from windrow.types import SqlType, point_text


@dataclass(frozen=True)
class StreamStatus:
    """A stream as of its last commit. `rows` and `batches` are of this run, or of the last if it has ended."""

    name: str
    frontier: str | None
    admitted: int
    late: int
    dead_letters: int
    batches: int
    rows: int
    restarts: int
    last_commit: float | None
    last_error: str | None


@dataclass(frozen=True)
class QueryStatus:
    name: str
    stream: str
    windows_answered: int
    answer_rows: int
    latest_window_end: str | None
    last_answer: float | None
    error: str | None
    is_paused: bool = False


@dataclass(frozen=True)
class PlanStatus:
    """A continuous query, or one with SLIDE that runs as a plan: its changes (or rows of answers) and its last tick."""

    name: str
    streams: tuple[str, ...]
    changes: int
    ticked: str | None
    error: str | None
    is_paused: bool = False


@dataclass(frozen=True)
class TableStatus:
    """A table: the stream that feeds it, if any, and how many changes it has seen."""

    name: str
    is_retroactive: bool
    stream: str | None
    changes: int


@dataclass(frozen=True)
class StateStatus:
    """A state directory: who has it open, what it holds, and its size in bytes."""

    directory: Path
    owner: Owner
    bytes: int
    streams: tuple[StreamStatus, ...]
    queries: tuple[QueryStatus, ...]
    plans: tuple[PlanStatus, ...] = ()
    tables: tuple[TableStatus, ...] = ()

    @property
    def last_commit(self) -> float | None:
        return max((s.last_commit for s in self.streams if s.last_commit is not None), default=None)


def status_of(directory: Path) -> StateStatus:
    """The status of a state directory, which may be open in another process."""
    owner = owner_of(directory)
    catalog = CatalogSnapshot(directory / CATALOG)
    try:
        streams = catalog.rows("SELECT * FROM streams ORDER BY id")
        definitions = {row["name"]: define_stream(cast(CreateStream, parse_one(row["statement"]))) for row in streams}
        queries = catalog.rows("SELECT * FROM queries ORDER BY id")
        return StateStatus(
            directory,
            owner,
            int(catalog.value("SELECT sum(bytes) FROM blocks") or 0),
            tuple(_stream(row, definitions[row["name"]], ProgressRows(catalog)) for row in streams),
            tuple(_query(row, definitions[row["stream"]]) for row in queries),
            tuple(_plan(row, catalog) for row in catalog.rows("SELECT * FROM plans ORDER BY id")),
            tuple(_table(row) for row in catalog.rows("SELECT * FROM relations ORDER BY id")),
        )
    finally:
        catalog.close()


def _stream(row: Row, definition: StreamDef, saved: ProgressRows) -> StreamStatus:
    frontiers, several = saved.read(definition).frontiers, len(definition.punctuated) > 1
    shown = [
        (f"{p.column} " if several else "") + point_text(point, p.type)
        for p in definition.punctuated
        if (point := frontiers[p.column].value) is not None
    ]
    metrics = json.loads(row["metrics"]) if row["metrics"] else {"at_s": None, "counters": {}}
    run = metrics["counters"]
    return StreamStatus(
        row["name"],
        ", ".join(shown) or None,
        row["admitted"],
        row["late"],
        row["dead"],
        run.get("batches", 0),
        run.get("rows", 0),
        run.get("restarts", 0),
        metrics["at_s"],
        run.get("last_error"),
    )


def _query(row: Row, definition: StreamDef) -> QueryStatus:
    end = row["last_end"]
    return QueryStatus(
        row["name"],
        row["stream"],
        row["answers"],
        row["answer_rows"],
        None if end is None else point_text(end, _axis_type(row, definition)),
        row["delivered_s"],
        row["error"],
        bool(row["paused"]),
    )


def _plan(row: Row, catalog: CatalogSnapshot) -> PlanStatus:
    streams = catalog.rows("SELECT stream FROM plan_streams WHERE plan = ? ORDER BY rowid", (row["id"],))
    ticked, kind = row["ticked"], SqlType(json.loads(row["saved"])["point"])
    return PlanStatus(
        row["name"],
        tuple(one["stream"] for one in streams),
        row["changes"],
        None if ticked is None else point_text(ticked, kind),
        row["error"],
        bool(row["paused"]),
    )


def _table(row: Row) -> TableStatus:
    statement = cast(CreateTable, parse_one(row["statement"]))
    return TableStatus(row["name"], statement.retroactive, statement.stream, row["seq"])


def _axis_type(row: Row, definition: StreamDef) -> SqlType:
    """The type of a query's window attribute; an older version did not save it."""
    if row["axis_type"] is not None:
        return SqlType(row["axis_type"])
    table = cast(CreateQuery, parse_one(row["statement"])).select.find(exp.Table)
    assert table is not None
    return bind_window(window_of(table), definition).attribute.type


def _state(query: QueryStatus | PlanStatus) -> str:
    if query.error is not None:
        return f"suspended: {query.error}"
    return "paused" if query.is_paused else "active"


def print_status(console: Console, status: StateStatus) -> None:
    """A line about the state, and a table each of its streams, tables and queries."""
    now_s, head = time.time(), f"{status.directory}: {status.owner}"
    if status.last_commit is not None:
        head += f"; last commit {_ago(now_s, status.last_commit)}"
    say(console, f"{head}; {_size(status.bytes)} of state", "bold")
    streams = [
        {
            "stream": s.name,
            "frontier": s.frontier,
            "admitted": s.admitted,
            "late": s.late,
            "dead letters": s.dead_letters,
            "last commit": _ago(now_s, s.last_commit),
            "last error": s.last_error,
        }
        for s in status.streams
    ]
    queries = [
        {
            "query": q.name,
            "stream": q.stream,
            "windows answered": q.windows_answered,
            "rows": q.answer_rows,
            "latest window end": q.latest_window_end,
            "last answer": _ago(now_s, q.last_answer),
            "state": _state(q),
        }
        for q in status.queries
    ]
    plans = [
        {
            "continuous query": p.name,
            "streams": ", ".join(p.streams),
            "changes": p.changes,
            "ticked up to": p.ticked,
            "state": _state(p),
        }
        for p in status.plans
    ]
    tables = [
        {
            "table": t.name,
            "kind": "retroactive" if t.is_retroactive else "non retroactive",
            "fed by": t.stream or "statements",
            "changes": t.changes,
        }
        for t in status.tables
    ]
    for rows in (streams, tables, queries, plans):
        if rows:
            print_table(console, pa.table({name: [row[name] for row in rows] for name in rows[0]}))


def status_json(status: StateStatus) -> str:
    """The status as one JSON object; times are ISO text in UTC."""
    streams = [{**asdict(s), "last_commit": _moment(s.last_commit)} for s in status.streams]
    queries = [{**asdict(q), "last_answer": _moment(q.last_answer)} for q in status.queries]
    found: dict[str, Any] = {
        "directory": str(status.directory),
        "state": status.owner.state.value,
        "pid": status.owner.pid,
        "last_commit": _moment(status.last_commit),
        "bytes": status.bytes,
        "streams": streams,
        "queries": queries,
        "continuous_queries": [asdict(one) for one in status.plans],
        "tables": [asdict(one) for one in status.tables],
    }
    return json.dumps(found)


def _moment(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, timezone.utc).isoformat()


def _ago(now_s: float, at_s: float | None) -> str | None:
    if at_s is None:
        return None
    past_s = max(0.0, now_s - at_s)
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if past_s >= 2 * length_s:
            return f"{past_s / length_s:.0f} {unit} ago"
    return f"{past_s:.0f} s ago"


def _size(count: int) -> str:
    for unit, length in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} bytes"
