"""Cells of many rows by one generated statement: DuckDB groups tens of millions of rows a second in one thread."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from windrow.operators.grouping.calls import GroupCalls
from windrow.operators.tables.kernel import Kernel, naive
from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.cells.cells import state_of_partials, to_columns

LEAST_ROWS = 10_000
"""Of fewer rows, cells are made faster without a statement."""

_SUMS = (Kind.COUNT, Kind.SUM_INT, Kind.SUM_LONG, Kind.SUM_DOUBLE, Kind.MOMENTS)
_EXTREMES = (Kind.LEAST, Kind.GREATEST)


def is_groupable(calls: GroupCalls, keys: Mapping[str, pa.Array], known: Mapping[str, pa.Array], rows: int) -> bool:
    """Whether a statement makes the cells of these rows, with the same states."""
    nested = any(pa.types.is_nested(key.type) for key in keys.values())
    return rows >= LEAST_ROWS and not nested and all(_has_sql(a, known) for a in calls.accumulators)


def _has_sql(a: Accumulator, known: Mapping[str, pa.Array]) -> bool:
    if a.kind in _SUMS:
        return True
    if a.kind not in _EXTREMES or a.arg is None:
        return False
    kind = known[a.arg].type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind))


def grouped_cells(
    calls: GroupCalls, keys: Mapping[str, pa.Array], known: Mapping[str, pa.Array], rows: int, kernel: Kernel
) -> pa.Table:
    """A cell per combination of keys: the keys, and the states. `known` has arguments and conditions by their text."""
    texts = {text: f"a{i}" for i, text in enumerate(known)}
    columns = {f"k{i}": key for i, key in enumerate(keys.values())} | {texts[t]: one for t, one in known.items()}
    columns = {name: naive(pa.chunked_array([column])) for name, column in columns.items()}
    columns = columns or {"__row": pa.chunked_array([pa.nulls(rows, pa.int8())])}
    by = [f"k{i}" for i in range(len(keys))]
    wanted = list(by)
    for i, a in enumerate(calls.accumulators):
        wanted += [f"{sql} AS p{i}_{j}" for j, sql in enumerate(_partial_sql(a, texts))]
    statement = f"SELECT {', '.join(wanted)} FROM source" + (f" GROUP BY {', '.join(by)}" if by else "")
    done = kernel.query(statement, source=pa.table(columns)).combine_chunks()
    if not by and not rows:
        done = done.slice(0, 0)
    out = {}
    for i, (name, key) in enumerate(keys.items()):
        found = done.column(f"k{i}")
        out[name] = found if found.type == key.type else found.cast(key.type)
    for i, a in enumerate(calls.accumulators):
        parts = [done.column(name).combine_chunks() for name in done.column_names if name.startswith(f"p{i}_")]
        out |= to_columns(a, state_of_partials(a, parts))
    return pa.table(out)


def _partial_sql(a: Accumulator, texts: Mapping[str, str]) -> list[str]:
    """The aggregates that `state_of_partials` turns into a state, in DuckDB's SQL."""
    where = f" FILTER (WHERE {texts[a.condition]})" if a.condition is not None else ""
    arg = None if a.arg is None else texts[a.arg]
    if a.kind is Kind.COUNT:
        return [f"count({'*' if arg is None else arg}){where}"]
    if a.kind is Kind.SUM_INT:
        return [f"CAST(sum({arg}){where} AS BIGINT)"]
    if a.kind is Kind.SUM_LONG:
        return [f"CAST(sum({arg} >> 32){where} AS BIGINT)", f"CAST(sum({arg} & 4294967295){where} AS BIGINT)"]
    if a.kind is Kind.SUM_DOUBLE:
        return [f"sum(CAST({arg} AS DOUBLE)){where}"]
    if a.kind is Kind.MOMENTS:
        x = f"CAST({arg} AS DOUBLE)"
        return [f"CAST(count({arg}){where} AS DOUBLE)", f"avg({x}){where}", f"var_pop({x}){where}"]
    return [f"{'min' if a.kind is Kind.LEAST else 'max'}({arg}){where}"]
