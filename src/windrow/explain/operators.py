"""What the operators of a continuous plan are and how they work, in the words of EXPLAIN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windrow.cql.intervals import format_interval
from windrow.explain.names import ColumnNames, plain_sql
from windrow.operators.grouping.calls import SUBTRACTABLE, exact
from windrow.operators.layouts.parts import Layout
from windrow.operators.scan import window_of
from windrow.plan.accumulators import AggregateCall
from windrow.plan.algebra.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    Lifetime,
    MergeUnion,
    Node,
    OutputWindow,
    Project,
    StreamWindow,
    TopRows,
    ToStream,
)
from windrow.plan.nodes import Order
from windrow.types import SqlType

LAYOUTS = {
    Layout.FIFO: "FIFO, in order of birth",
    Layout.CALENDAR: "calendar by expiration",
    Layout.KEYED: "newest per key",
}


def window_text(lifetime: Lifetime, kind: SqlType) -> str:
    """A window as it is written, in brackets."""

    def length(points: int) -> str:
        return format_interval(points) if kind.is_timestamp else str(points)

    parts = ["UNBOUNDED" if lifetime.range is None else f"RANGE {length(lifetime.range)}"]
    parts += [f"OFFSET {length(lifetime.offset)}"] if lifetime.offset else []
    parts += ["INTERNAL"] if lifetime.internal else []
    return f"[{' '.join(parts)}]"


def order_text(order: tuple[Order, ...], names: ColumnNames) -> str:
    return ", ".join(names.expression(one.expression) + (" DESC" if one.descending else "") for one in order)


Described = tuple[str, str, str]
"""The operator, its expression, and how it works."""


def described(node: Node, names: ColumnNames, kind: SqlType) -> Described:
    """An operator in words. `kind` is the type of the plan's points."""
    return _DESCRIBED[type(node)](node, names, kind)


def _stream_window(node: StreamWindow, names: ColumnNames, kind: SqlType) -> Described:
    where = "" if node.predicate is None else f" WHERE {plain_sql(node.predicate)}"
    columns = ", ".join(plain_sql(one.sql) for one in node.columns) or "no column"
    how = f"Spark stores {columns} on arrival, by {node.attribute}"
    name = names.stream(node)
    stream = name if name.partition("#")[0] == node.stream else f"{node.stream} AS {name}"
    return "Window", f"{stream} {window_text(node.lifetime, kind)}{where}", how


def _filter(node: Filter, names: ColumnNames, kind: SqlType) -> Described:
    return "Filter", names.expression(node.predicate), "a whole batch in DuckDB; keeps nothing"


def _project(node: Project, names: ColumnNames, kind: SqlType) -> Described:
    is_renamed = all(one.is_renamed for one in node.columns)
    how = "columns as they are" if is_renamed else "a whole batch in DuckDB; keeps nothing"
    return "Project", ", ".join(map(names.computed, node.columns)), how


def _merge_union(node: MergeUnion, names: ColumnNames, kind: SqlType) -> Described:
    return "UnionAll", names.columns(node.columns), "rows of all inputs, as they come; keeps nothing"


def _join(node: Join, names: ColumnNames, kind: SqlType) -> Described:
    keys = [" = ".join(map(names.expression, key)) for key in node.keys]
    condition = [] if node.condition is None else [names.expression(node.condition)]
    text = " AND ".join([*keys, *condition])
    how = "hash join on equal keys" if keys else "no equal key: every pair is tested"
    if len(node.inputs) > 2:
        how = f"{len(node.inputs)}-way {how}"
    sources = [names.source(one) for one in node.inputs]
    probes = "; ".join(
        f"new rows of {one} probe {', then '.join(other for j, other in enumerate(sources) if j != i)}"
        for i, one in enumerate(sources)
    )
    return "Join", f"on {text}" if text else "of all pairs", f"{how}; {probes}"


def _distinct(node: Distinct, names: ColumnNames, kind: SqlType) -> Described:
    return "Distinct", names.columns(node.schema), "δ*: of each value the row shown and the latest expiry"


def _group_by(node: GroupBy, names: ColumnNames, kind: SqlType) -> Described:
    by = f"by {names.columns(node.keys)}: " if node.keys else "all rows: "
    running, again = list[str](), list[str]()
    for one in node.aggregates:
        (running if _is_running(exact(one.call)) else again).append(names.column(one.column))
    how = [f"{', '.join(running)} by what came and went"] if running else []
    how += [f"{', '.join(again)} recomputed for the groups that change"] if again else []
    text = names.columns([one.column for one in node.aggregates])
    return "GroupBy", (by + text).rstrip(": "), "; ".join(how) or "which groups there are"


def _is_running(call: AggregateCall) -> bool:
    return not call.values and all(part.kind in SUBTRACTABLE for _, part in call.parts)


def _output_window(node: OutputWindow, names: ColumnNames, kind: SqlType) -> Described:
    return "Window", f"over the results {window_text(node.lifetime, kind)}", "a result lives from its birth"


def _to_stream(node: ToStream, names: ColumnNames, kind: SqlType) -> Described:
    what = {"ISTREAM": "what came", "DSTREAM": "what went", "RSTREAM": "all that is there"}[node.kind.name]
    return node.kind.name, f"{what} at every tick", "from the rows that live at one tick and the last"


def _top_rows(node: TopRows, names: ColumnNames, kind: SqlType) -> Described:
    order = f"{order_text(node.order, names)} " if node.order else ""
    how = "sorted anew at the ticks at which a row comes or goes"
    return "TopRows", f"{'ORDER BY ' if order else ''}{order}LIMIT {node.limit}", how


_DESCRIBED: dict[type[Node], Callable[[Any, ColumnNames, SqlType], Described]] = {
    StreamWindow: _stream_window,
    Filter: _filter,
    Project: _project,
    MergeUnion: _merge_union,
    Join: _join,
    Distinct: _distinct,
    GroupBy: _group_by,
    OutputWindow: _output_window,
    ToStream: _to_stream,
    TopRows: _top_rows,
}

_WHAT = {
    GroupBy: "groups",
    Distinct: "values",
    OutputWindow: "results to be born",
    TopRows: "live rows",
    ToStream: "live rows",
}
_PARTS = {"cells": "partial aggregates", "shown": "rows shown"}


def kept_rows(node: Node, part: str) -> str:
    """What an operator keeps in one of its tables; `part` is its name after the operator's path, or empty."""
    return _PARTS.get(part, part) if part else _WHAT.get(type(node), "rows")


def reads_store(node: Join, i: int) -> bool:
    """Whether a join reads the earlier rows of an input from the window's store, and keeps none itself."""
    return window_of(node.inputs[i]) is not None
