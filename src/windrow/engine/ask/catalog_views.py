"""SHOW, DESCRIBE and metrics, as tables and plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from windrow.catalog.definitions import Punctuated
from windrow.cql.intervals import format_interval
from windrow.cql.statements import Policy
from windrow.engine.ask.freshness_view import freshness_table, snapshots_table
from windrow.engine.ask.sharing_view import sharing_table
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.due import complete_from
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.plans.tables import changes_schema
from windrow.engine.state import QueryState, StreamState
from windrow.engine.tables.stored import StoredTable
from windrow.errors import CatalogError
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.plan.continuous.properties import too_short
from windrow.plan.nodes import Finalise
from windrow.settings import SPECS, Settings
from windrow.types import POINT_MAX, POINT_MIN, SqlType, point_text
from windrow.windows import LandmarkWindow, PartitionedWindow, PerKeyFrontier, SlideByTuple, SlideOver

if TYPE_CHECKING:
    from windrow.engine.engine import Engine


def show(engine: Engine, what: str) -> pa.Table:
    """SHOW STREAMS | QUERIES | SHARING | TABLES | SETTINGS | FRESHNESS | SNAPSHOTS."""
    kind = what.lower()
    if kind == "streams":
        found = (_stream_row(engine, s) for s in engine.manager.streams.values())
        return _table([row for row in found if row is not None], _STREAM)
    if kind == "queries":
        answered = (_query_row(engine, s, q) for s, q in engine.manager.queries().values())
        continuous = (_plan_row(engine, query) for query in engine.plans.queries())
        return _table([row for row in (*answered, *continuous) if row is not None], _QUERY)
    if kind == "sharing":
        return sharing_table(list(engine.manager.streams.values()), engine.settings)
    if kind == "freshness":
        return freshness_table(engine.manager, engine.plans)
    if kind == "snapshots":
        return snapshots_table(engine)
    if kind == "tables":
        return _table([_table_row(engine, table) for table in engine.tables.all()], _TABLE)
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


_TABLE = ("name", "columns", "key", "kind", "rows", "changes", "queries")


def _table_row(engine: Engine, table: StoredTable) -> dict[str, Any]:
    definition = table.definition
    fed = "" if definition.stream is None else f", fed by stream {definition.stream}"
    return {
        "name": table.name,
        "columns": ", ".join(f"{name} {kind}" for name, kind in definition.columns),
        "key": ", ".join(definition.key),
        "kind": ("retroactive" if definition.is_retroactive else "non retroactive") + fed,
        "rows": table.version.rows.count,
        "changes": table.version.seq,
        "queries": len(engine.plans.readers_of_table(table.name)),
    }


def _table(rows: list[dict[str, Any]], names: tuple[str, ...]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in names}
    return pa.table({name: pa.array(values, None if rows else pa.string()) for name, values in columns.items()})


def _stream_row(engine: Engine, stream: StreamState) -> dict[str, Any] | None:
    """The row of a stream; None if it was dropped after it was listed."""
    row = engine.opened.journal.entries.stream_totals(stream.id)
    if row is None:
        return None
    return {
        "name": stream.name,
        "source": stream.definition.statement.source,
        "window_attribute": stream.definition.attribute,
        "punctuation": punctuation_text(stream),
        "frontier": frontier_text(stream),
        "admitted": row["admitted"],
        "late": row["late"],
        "dead_letters": row["dead"],
        "queries": len(stream.queries) + len(engine.plans.readers(stream)),
        "state": engine.running.condition(stream),
    }


def punctuation_text(stream: StreamState) -> str:
    """The punctuation policy of each window attribute; with the column name if there are several."""
    several = len(stream.definition.punctuated) > 1
    policies = [(f"{p.column} " if several else "") + _policy_text(p) for p in stream.definition.punctuated]
    return ", ".join(policies) or "none"


def _policy_text(p: Punctuated) -> str:
    heartbeat = "" if p.heartbeat is None else f", heartbeat after {format_interval(p.heartbeat)}"
    return _order_text(p) + heartbeat


def _order_text(p: Punctuated) -> str:
    if p.policy is Policy.PER_KEY:
        idle = "" if p.idle_after is None else f", idle after {length_text(p.idle_after, p.type)}"
        return f"per {p.key}{idle}"
    if p.policy is Policy.BY_SOURCE:
        return "by source"
    if p.slack_rows is not None:
        return f"slack {p.slack_rows} rows"
    return f"slack {length_text(p.slack, p.type)}" if p.slack else "ordered"


def late_text(stream: StreamState, settings: Settings) -> str:
    """What happens to late tuples."""
    definition = stream.definition
    if definition.revises:
        reach, p = definition.late_reach, definition.punctuated[0]
        within = "" if reach is None else f" within {length_text(reach, p.type)} of the frontier"
        return f"taken in, answers corrected{within}"
    if settings.text("slack_meaning") == "generous":
        return "taken into windows that are open, else dropped"
    return "dropped"


def length_text(points: int, kind: SqlType) -> str:
    return format_interval(points) if kind.is_timestamp else str(points)


def frontier_text(stream: StreamState) -> str | None:
    """The frontier of each window attribute that has one; with the column name if there are several."""
    frontiers = []
    for p in stream.definition.punctuated:
        value = stream.frontiers[p.column].value
        if value is not None:
            name = f"{p.column} " if len(stream.definition.punctuated) > 1 else ""
            frontiers.append(name + point_text(value, p.type))
    return ", ".join(frontiers) or None


def sub_streams(stream: StreamState) -> dict[str, dict[str | None, str]]:
    """The frontier of each live sub-stream (PUNCTUATE PER), by column."""
    by_column = {}
    for p in stream.definition.punctuated:
        frontier = stream.frontiers[p.column]
        if isinstance(frontier, PerKeyFrontier):
            by_column[p.column] = {key: point_text(point, p.type) for key, point in frontier.keys.items()}
    return by_column


def promised(stream: StreamState) -> dict[str, dict[str, str]]:
    """The promises of punctuations about parts of the stream: column, pattern, bound; the least bound first."""
    by_column: dict[str, dict[str, str]] = {}
    for promise in sorted(stream.promises, key=lambda promise: promise.bound):
        kind = stream.definition.axes[promise.axis]
        bound = "for ever" if promise.is_for_ever else point_text(promise.bound, kind)
        by_column.setdefault(promise.axis, {})[promise.text] = bound
    return by_column


def completeness(query: QueryState) -> str:
    """Which windows of a query see all of their tuples, in words."""
    return completeness_from(query.plan, query.since)


def completeness_of_plan(query: ContinuousQuery) -> str:
    """From when the answers of a continuous query are complete, in words (Golab's dissertation, Definition 3.1)."""
    choices, kind, ticked = query.choices, query.plan.point, query.progress.ticked
    told, past = _partial_answers(query), choices.begins_after
    if choices.known_from is not None and past is not None and (ticked is None or ticked < past):
        return f"it begins at {point_text(past, kind)}: what its tables held before is not kept; {told}"
    return told


def _partial_answers(query: ContinuousQuery) -> str:
    """Which answers of a continuous query are partial, in words."""
    since, known, kind = [use.since for use in query.uses], query.choices.known_from, query.plan.point
    points = [point for point in (*since, known) if point is not None]
    if not points:
        return "every answer is complete"
    first = complete_from(query.plan, since, known)
    if first is None:
        return f"it sees tuples from {point_text(max(points), kind)} on"
    begins = query.choices.begins_after
    if known is not None and begins is not None and first <= begins:
        return "every answer is complete"
    return f"answers before {point_text(first, kind)} are partial"


def between_ticks(plan: ContinuousPlan) -> str | None:
    """What a continuous query leaves out because its windows are short; None if they are long enough."""
    shortest = too_short(plan)
    if shortest is None:
        return None
    tick, window = length_text(plan.step, plan.point), length_text(shortest, plan.point)
    return (
        f"the shortest window is {window} and a tick is {tick}: what comes and goes between two ticks is not shown. "
        "Give the streams a smaller TICK; or write ISTREAM RESTORE(…), or INTERNAL windows, to list every result"
    )


def completeness_from(plan: Finalise, since: int | None) -> str:
    """Which windows of a query that sees tuples from `since` on are complete, in words."""
    window, kind = plan.window, plan.scan.attribute.type
    if since is None:
        return "every window is complete"
    if isinstance(window, PartitionedWindow):
        return f"the rows of each partition are counted from {point_text(since, kind)} on"
    first = window.first_complete(since)
    if first is None:
        return f"every window is partial: it sees tuples from {point_text(since, kind)} on"
    return f"windows that end before {point_text(first, kind)} are partial"


def _query_row(engine: Engine, stream: StreamState, query: QueryState) -> dict[str, Any] | None:
    """The row of a query; None if it was dropped after it was listed."""
    row = engine.opened.journal.entries.query_totals(query.id)
    if row is None:
        return None
    kind = query.plan.scan.attribute.type
    return {
        "name": query.name,
        "stream": stream.name,
        "window": window_in_words(query.plan),
        "windows_answered": row["answers"],
        "answer_rows": row["answer_rows"],
        "overflows": row["overflows"],
        "latest_window_end": None if query.last_end is None else point_text(query.last_end, kind),
        "completeness": completeness(query),
        "state": _query_state(stream, query),
    }


def _plan_row(engine: Engine, query: ContinuousQuery) -> dict[str, Any] | None:
    """The row of a continuous query; None if it was dropped after it was listed."""
    row = engine.opened.plan_commits.row(query.id)
    if row is None:
        return None
    ticked, kind = query.progress.ticked, query.plan.point
    step = length_text(query.plan.step, kind)
    return {
        "name": query.name,
        "stream": ", ".join(query.plan.streams),
        "window": f"{'slides' if query.plan.periodic else 'continuous, ticks'} every {step}",
        "windows_answered": None,
        "answer_rows": row["changes"],
        "overflows": row["overflows"],
        "latest_window_end": None if ticked is None else point_text(ticked, kind),
        "completeness": completeness_of_plan(query),
        "state": plan_state(query, engine.opened.stores),
    }


def plan_state(query: ContinuousQuery, stores: WindowStores) -> str:
    """Whether a continuous query ticks; of one that is paused, how many tuples its streams keep for later."""
    if query.error is not None:
        return f"suspended: {query.error}"
    if not query.is_paused:
        return "active"
    ticked, count = query.progress.ticked, 0
    for window, use in zip(query.plan.windows, query.uses, strict=True):
        lo = POINT_MIN if ticked is None else ticked - window.lifetime.offset
        count += stores.rows(use, (), lo, POINT_MAX).num_rows
    return f"paused: {'no tuple waits' if not count else f'{count:,} tuples wait for it'}"


def _query_state(stream: StreamState, query: QueryState) -> str:
    if query.error is not None:
        return f"suspended: {query.error}"
    if query.is_paused:
        count = sum(item.query is query for item in stream.unpublished)
        return "paused: " + (f"{count:,} batches of answers wait" if count else "no answer waits")
    return "active" if query.delivery_error is None else f"delivery suspended: {query.delivery_error}"


def window_in_words(plan: Finalise) -> str:
    """The window in words, without brackets."""
    window, kind = plan.window, plan.scan.attribute.type
    if isinstance(window, PartitionedWindow):
        columns = ", ".join(key.sql for key in plan.input.keys[: plan.input.partition])
        offset = f" OFFSET {window.offset}" if window.offset else ""
        return f"ROWS {window.rows}{offset} SLIDE {window.slide} PARTITION BY {columns}"
    if isinstance(window, SlideByTuple):
        rank = f" SATTR rank({plan.scan.attribute.column})" if window.over is SlideOver.RANK else ""
        rows = f"{window.every_n} ROW{'' if window.every_n == 1 else 'S'}"
        return f"RANGE {length_text(window.range, kind)} SLIDE {rows}{rank}"
    slide = length_text(window.slide, kind)
    if isinstance(window, LandmarkWindow):
        return (
            f"UNBOUNDED SLIDE {slide}"
            if window.since is None
            else f"SINCE {point_text(window.since, kind)} SLIDE {slide}"
        )
    offset = f" OFFSET {length_text(window.offset, kind)}" if window.offset else ""
    return (
        f"{'ROWS' if plan.scan.attribute.is_rows else 'RANGE'} {length_text(window.range, kind)}{offset} SLIDE {slide}"
    )


def describe(engine: Engine, name: str) -> pa.Table:
    """The columns of a stream, of a table, or of a query's answers. A query that does not go on has a last row, without
    a column, that says why."""
    stream = engine.manager.streams.get(name.lower())
    if stream is not None:
        attribute = stream.definition.attribute
        notes = {attribute: "window attribute, not punctuated"} if attribute else {}
        notes |= {p.column: f"window attribute, {_policy_text(p)}" for p in stream.definition.punctuated}
        rows = [{"column": n, "type": t.name, "note": notes.get(n)} for n, t in stream.definition.columns]
        rows += _undeclared_rows(stream)
        return _table(rows, ("column", "type", "note"))
    table = engine.tables.find(name)
    if table is not None:
        key = table.definition.key
        rows = [
            {"column": n, "type": t.name, "note": "primary key" if n in key else None}
            for n, t in table.definition.columns
        ]
        return _table(rows, ("column", "type", "note"))
    if engine.plans.has(name):
        plan = engine.plans.query(name)
        rows = [*_plan_columns(plan), *_rests(plan_state(plan, engine.opened.stores))]
        return _table(rows, ("column", "type", "note"))
    try:
        owner, query = engine.manager.query(name)
    except CatalogError:
        raise CatalogError(
            f"there is no stream, table or query '{name}'",
            remedy="SHOW STREAMS, SHOW TABLES and SHOW QUERIES list them.",
        ) from None
    kind = query.plan.scan.attribute.type.bound.name
    rows = [
        {"column": n, "type": t, "note": None}
        for n, t in (("window_start", kind), ("window_end", kind), ("is_revision", "BOOLEAN"))
    ]
    rows += [{"column": o.name, "type": o.type.name, "note": None} for o in query.plan.outputs]
    return _table([*rows, *_rests(_query_state(owner, query))], ("column", "type", "note"))


def _rests(state: str) -> list[dict[str, Any]]:
    """A row that says why a query does not go on."""
    return [] if state == "active" else [{"column": None, "type": None, "note": f"state: {state}"}]


def _plan_columns(query: ContinuousQuery) -> list[dict[str, Any]]:
    """The columns of the answers of a query with SLIDE, or of the changes of a continuous one and its view."""
    plan, kind = query.plan, query.plan.point.bound.name
    head: list[tuple[str, str, str | None]]
    if plan.periodic:
        head = [("window_start", kind, None), ("window_end", kind, None), ("is_revision", "BOOLEAN", None)]
    else:
        names = changes_schema(plan).names
        notes = ("'+' or '-'", "when the row begins, or is withdrawn", "when it ends; NULL: not known")
        types = ("STRING", kind, kind)
        head = [(n, t, f"only in changes: {note}") for n, t, note in zip(names, types, notes, strict=False)]
    return [
        {"column": name, "type": type_, "note": note}
        for name, type_, note in (*head, *((column.name, column.type.name, None) for column in plan.schema))
    ]


def _undeclared_rows(stream: StreamState) -> list[dict[str, Any]]:
    """The columns that the data has and the stream does not declare."""
    columns = stream.progress.columns
    rows: list[dict[str, Any]] = [
        {
            "column": one.name,
            "type": one.type,
            "note": f"not declared; in {one.files} file{'' if one.files == 1 else 's'}, first in {one.first_file}",
        }
        for one in columns.undeclared.values()
    ]
    if columns.more:
        rows.append({"column": "…", "type": None, "note": "more columns are not declared"})
    return rows


def stream_metrics(engine: Engine, stream: StreamState) -> dict[str, Any]:
    """Counters since opening, totals, and sizes; the totals are None if the stream was dropped meanwhile."""
    row = _stream_row(engine, stream) or {}
    sizes = stream.sizes_seen if engine.is_read_only and stream.sizes_seen else stream.sizes()
    return {
        **asdict(stream.metrics),
        **{name: row.get(name) for name in ("admitted", "late", "dead_letters", "frontier", "state")},
        "dead_letter_reasons": engine.reads.dead_letter_counts(stream),
        "undeclared_columns": len(stream.progress.columns.undeclared),
        "sub_streams": sub_streams(stream),
        "promised": promised(stream),
        **sizes,
    }


def query_metrics(engine: Engine, query: QueryState) -> dict[str, Any]:
    stream, _ = engine.manager.query(query.name)
    row = _query_row(engine, stream, query)
    if row is None:
        raise CatalogError(f"there is no query '{query.name}'", remedy="It was dropped just now.")
    waiting = sum(item.query is query for item in stream.unpublished)
    return {
        **asdict(query.metrics),
        "undelivered": waiting,
        **{n: row[n] for n in ("windows_answered", "answer_rows", "overflows", "state")},
    }
