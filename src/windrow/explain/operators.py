"""What the operators of a continuous plan are and how they work, in the words of EXPLAIN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windrow.cql.intervals import format_interval
from windrow.explain.names import ColumnNames, plain_sql
from windrow.operators.grouping.calls import SUBTRACTABLE, exact
from windrow.operators.layouts.choosing import COMMON, LEAST_LEFT, RARE
from windrow.operators.layouts.parts import Layout, LayoutUse
from windrow.operators.scan import window_of
from windrow.operators.state import is_direct, is_strict
from windrow.plan.accumulators import AggregateCall
from windrow.plan.algebra.nodes import (
    Distinct,
    Expiring,
    Filter,
    GroupBy,
    Join,
    Lifetime,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    OutputRows,
    OutputWindow,
    Project,
    RowsWindow,
    SemiJoin,
    SetOperation,
    Streaming,
    StreamWindow,
    TableScan,
    TopRows,
    ToStream,
    WindowExpiry,
)
from windrow.plan.nodes import Order
from windrow.types import SqlType

LIVE_ROWS = "live rows"
"""What an operator keeps of its input where rows may be withdrawn, or must be known."""

_LAYOUTS = {
    Layout.FIFO: "FIFO, in order of birth",
    Layout.CALENDAR: "calendar by expiration",
    Layout.KEYED: "newest per key",
    Layout.LIST: "list in order of arrival, scanned for expired rows",
}


def layout_text(layout: Layout, is_withdrawn: bool) -> str:
    """How rows are kept. `is_withdrawn`: they are those of an input that withdraws some."""
    if not is_withdrawn:
        return _LAYOUTS[layout]
    return "by value and end, counted" if layout is Layout.KEYED else f"{_LAYOUTS[layout]}, with tombstones"


def chosen_layout_text(use: LayoutUse | None) -> str:
    """How rows are kept that may end or be withdrawn before, and why. None: nothing has been measured."""
    calendar, table = layout_text(Layout.CALENDAR, True), layout_text(Layout.KEYED, True)
    if use is None:
        return f"{calendar}, as long as few rows are withdrawn before their end"
    text = table if not use.calendars else calendar if not use.tables else f"{table}, or in tasks with few: {calendar}"
    if use.departures.count < LEAST_LEFT:
        return f"{text}, since fewer than {LEAST_LEFT} rows have left" if use.calendars else f"{text}, as chosen before"
    share = f"{use.departures.share:.0%} of the rows that left were withdrawn before their end"
    bound = (
        f"below {RARE:.0%} it would be a calendar" if not use.calendars else f"above {COMMON:.0%} it would be by value"
    )
    return f"{text}, since {share}; {bound}"


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
    return "Window", f"{_called(node, names)} {window_text(node.lifetime, kind)}{where}", how


def _rows_window(node: RowsWindow, names: ColumnNames, kind: SqlType) -> Described:
    by = f" PARTITION BY {names.columns(node.partition)}" if node.partition else ""
    columns = ", ".join(plain_sql(one.sql) for one in node.columns) or "no column"
    how = f"the last by {node.attribute} and order of arrival; Spark stores {columns} on arrival"
    return "Window", f"{_called(node, names)} [ROWS {node.size}{by}]", how


def _called(node: StreamWindow | RowsWindow, names: ColumnNames) -> str:
    """The stream of a window, with the alias that it goes by in the plan."""
    name = names.stream(node)
    return name if name.partition("#")[0] == node.stream else f"{node.stream} AS {name}"


def _filter(node: Filter, names: ColumnNames, kind: SqlType) -> Described:
    return "Filter", names.expression(node.predicate), "a whole batch in DuckDB; keeps nothing"


def _project(node: Project, names: ColumnNames, kind: SqlType) -> Described:
    is_renamed = all(one.is_renamed for one in node.columns)
    how = "columns as they are" if is_renamed else "a whole batch in DuckDB; keeps nothing"
    return "Project", ", ".join(map(names.computed, node.columns)), how


def _merge_union(node: MergeUnion, names: ColumnNames, kind: SqlType) -> Described:
    return "UnionAll", names.columns(node.columns), "rows of all inputs, as they come; keeps nothing"


def _join(node: Join, names: ColumnNames, kind: SqlType) -> Described:
    text = _condition(node, names)
    how = "hash join on equal keys" if node.keys else "no equal key: every pair is tested"
    if len(node.inputs) > 2:
        how = f"{len(node.inputs)}-way {how}"
    sources = [names.source(one) for one in node.inputs]
    probes = "; ".join(
        f"new rows of {one} probe {', then '.join(other for j, other in enumerate(sources) if j != i)}"
        for i, one in enumerate(sources)
    )
    return "Join", f"on {text}" if text else "of all pairs", f"{how}; {probes}"


def _condition(node: Join | SemiJoin | OuterJoin | NrrJoin, names: ColumnNames) -> str:
    signs = [" <=> " if safe else " = " for safe in node.null_safe] if isinstance(node, SemiJoin) else []
    signs = signs or [" = "] * len(node.keys)
    keys = [sign.join(map(names.expression, key)) for key, sign in zip(node.keys, signs, strict=True)]
    return " AND ".join([*keys, *([] if node.condition is None else [names.expression(node.condition)])])


def _semi_join(node: SemiJoin, names: ColumnNames, kind: SqlType) -> Described:
    left, right = (names.source(one) for one in node.inputs)
    how = f"rows of {left} are shown while {'no' if node.is_anti else 'some'} row of {right} matches"
    text = _condition(node, names)
    return "AntiJoin" if node.is_anti else "SemiJoin", f"on {text}" if text else "of all pairs", how


def _outer_join(node: OuterJoin, names: ColumnNames, kind: SqlType) -> Described:
    side = "Full" if node.keeps_left and node.keeps_right else "Left" if node.keeps_left else "Right"
    kept = [
        names.source(one)
        for one, is_kept in zip(node.inputs, (node.keeps_left, node.keeps_right), strict=True)
        if is_kept
    ]
    text = _condition(node, names)
    how = f"pairs that match; rows of {' and of '.join(kept)} with NULLs while they have no match"
    return f"{side}OuterJoin", f"on {text}" if text else "of all pairs", how


def _table_scan(node: TableScan, names: ColumnNames, kind: SqlType) -> Described:
    columns = ", ".join(one.name for one in node.columns)
    return "Table", node.table, f"{columns}; its changes come at the first tick at which they count"


def _nrr_join(node: NrrJoin, names: ColumnNames, kind: SqlType) -> Described:
    text, table = _condition(node, names), names.source(node.table)
    how = f"new rows look for matches in {table} as of their own ts; later changes of it change no result"
    how += "; rows without a match get NULLs" if node.is_left else ""
    return "NrrJoin", f"on {text}" if text else "of all pairs", how


def _set_operation(node: SetOperation, names: ColumnNames, kind: SqlType) -> Described:
    how = "how often each value is in either input, at the ticks at which that changes"
    return node.kind.name.capitalize() + ("All" if node.is_all else ""), names.columns(node.columns), how


def _distinct(node: Distinct, names: ColumnNames, kind: SqlType) -> Described:
    how = "δ*: of each value the row shown and the latest expiry"
    if is_strict(node):
        how = "counts the rows of each value"
    elif is_direct(node):
        how = "scans the rows shown for new values, and the input for values whose row expires"
    return "Distinct", names.columns(node.schema), how


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


def _expiry(node: WindowExpiry, names: ColumnNames, kind: SqlType) -> Described:
    if node.how is Expiring.NEGATIVE:
        return "NegativeTuples", "of every row that expires", "finds the rows that leave the window, and withdraws them"
    return "Direct", "expiry", "hands rows on; operators above scan what they keep for expired ones"


def _output_rows(node: OutputRows, names: ColumnNames, kind: SqlType) -> Described:
    return "Window", f"over the results [ROWS {node.size}]", "a result goes when enough later ones have come"


def _to_stream(node: ToStream, names: ColumnNames, kind: SqlType) -> Described:
    what = {"ISTREAM": "what came", "DSTREAM": "what went", "RSTREAM": "all that is there"}[node.kind.name]
    if not node.restores:
        return node.words, f"{what} at every tick", "from the rows that live at one tick and the last"
    more = "" if node.kind is Streaming.ISTREAM else ", and what came and went since the last"
    when = "at every instant" if node.kind is Streaming.ISTREAM else "at every tick"
    return node.words, f"{what} {when}{more}", "all below it is evaluated at every instant at which something changes"


def _top_rows(node: TopRows, names: ColumnNames, kind: SqlType) -> Described:
    order = f"{order_text(node.order, names)} " if node.order else ""
    how = "sorted anew at the ticks at which a row comes or goes"
    return "TopRows", f"{'ORDER BY ' if order else ''}{order}LIMIT {node.limit}", how


_DESCRIBED: dict[type[Node], Callable[[Any, ColumnNames, SqlType], Described]] = {
    StreamWindow: _stream_window,
    RowsWindow: _rows_window,
    Filter: _filter,
    Project: _project,
    MergeUnion: _merge_union,
    Join: _join,
    SemiJoin: _semi_join,
    OuterJoin: _outer_join,
    TableScan: _table_scan,
    NrrJoin: _nrr_join,
    SetOperation: _set_operation,
    Distinct: _distinct,
    GroupBy: _group_by,
    OutputWindow: _output_window,
    WindowExpiry: _expiry,
    OutputRows: _output_rows,
    ToStream: _to_stream,
    TopRows: _top_rows,
}

_WHAT = {
    GroupBy: "groups",
    Distinct: "values",
    OutputWindow: "results to be born",
    WindowExpiry: "rows of the window",
    TopRows: LIVE_ROWS,
    ToStream: LIVE_ROWS,
    RowsWindow: "the last rows",
    OutputRows: "the last rows",
    SetOperation: "values",
}
_PARTS = {
    "cells": "partial aggregates",
    "came": "rows of the input",
    "shown": "rows shown",
    "live": LIVE_ROWS,
    "rows": LIVE_ROWS,
    "leaving": "counts that will leave",
    "counted": "tuples counted by partition",
}


def kept_rows(node: Node, part: str) -> str:
    """What an operator keeps in one of its tables; `part` is its name after the operator's path, or empty."""
    return _PARTS.get(part, part) if part else _WHAT.get(type(node), "rows")


def reads_store(node: Join | SemiJoin | OuterJoin, i: int) -> bool:
    """Whether a join reads the earlier rows of an input from the window's store, and keeps none itself."""
    return window_of(node.inputs[i]) is not None
