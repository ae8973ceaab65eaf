"""The rule that admits a row or makes it a dead letter, in both of its forms: Spark SQL and NumPy over Arrow columns.

Spark applies it in a job that groups or carries records (`tagged`); the driver applies it to gathered rows (`judged`).
A property test holds the two forms equal (tests/unit/dataplane/test_admission.py). The first reason that holds is the
reason of the dead letter, in the order of `REASONS`. What promises say is in `promised.py`, also in both forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.cql.names import quote_name
from windrow.dataplane.ingest.deposit import Mask
from windrow.dataplane.ingest.promised import broken_sql, promised_bounds, promised_columns
from windrow.types import SqlType
from windrow.windows import Points
from windrow.windows.promises import Promise

BAD = "__bad"
"""The column in which a source reports the text of a record that does not fit the schema."""

POINT_BOUND = 10**18 - 1
"""Points beyond ±10^18 (the year 33658) are dead letters: pane arithmetic would leave int64."""

MALFORMED = "malformed record"
MALFORMED_PUNCTUATION = "malformed punctuation"
NULL_POINT = "null window attribute"
OUT_OF_RANGE = "window attribute out of range"
FUTURE = "too far in the future"
LATE = "late"

PUNCTUATION = "punctuation"
"""Stands in place of a reason for a record that is a punctuation; its pattern is then the record."""

REASONS = (MALFORMED, PUNCTUATION, NULL_POINT, OUT_OF_RANGE, FUTURE, LATE)

_MALFORMED, _PUNCTUATION, _PROMISED = "__malformed", "__punctuation", "__promised"
"""Columns of gathered rows that `judged` reads beside the points."""


@dataclass(frozen=True)
class Reach:
    """Points of a column from `least` on. With `within` (period, phase, length), only points less than `length` above a
    multiple of `period` plus `phase`: the windows have gaps between them."""

    column: str
    least: int
    within: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class AxisBound:
    """On a punctuated column, tuples below `frontier` are late, and those above `latest` too far in the future."""

    punctuated: Punctuated
    frontier: int | None
    latest: int | None


@dataclass(frozen=True)
class Admission:
    """The bounds of this micro-batch, one per punctuated column.

    `rows_before` tuples have been numbered before it. `ended`: the input had ended, so all tuples are late.

    A late tuple is admitted all the same if it is within all reaches of one of the alternatives of `excused`
    (LATE REVISE, or generous slack); it never moves a frontier. A tuple that breaks a promise is never excused.
    """

    bounds: tuple[AxisBound, ...]
    rows_before: int = 0
    ended: bool = False
    excused: tuple[tuple[Reach, ...], ...] = ()
    promises: tuple[Promise, ...] = ()


def point_columns(stream: StreamDef) -> dict[str, str]:
    """The column of a micro-batch that holds the points of each punctuated column."""
    return {p.column: f"__t{i}" for i, p in enumerate(stream.punctuated)}


# -- Spark SQL ---------------------------------------------------------------------------------------


def tagged(df: DataFrame, stream: StreamDef, admission: Admission, carry_records: bool) -> DataFrame:
    """The rows with __t0… (points), __reason, and for dead letters __record (if carried) and __dead_t."""
    has_bad = BAD in df.columns
    with_points = df.selectExpr("*", *points_sql(stream))
    with_reason = with_points.selectExpr("*", f"{reason_sql(stream, admission, has_bad)} AS __reason")
    record = record_sql(stream) if carry_records else "CAST(NULL AS STRING)"
    if has_bad and carry_records:
        record = f"coalesce({BAD}, {record})"
    pattern = ""
    if stream.punctuation is not None:
        pattern = f"WHEN __reason = '{PUNCTUATION}' THEN {quote_name(stream.punctuation)} "
    # A dead letter is known by the point of the first window attribute.
    point = "__t0" if stream.punctuated else "CAST(NULL AS BIGINT)"
    return with_reason.selectExpr(
        "*",
        f"CASE {pattern}WHEN __reason IS NOT NULL THEN {record} END AS __record",
        f"CASE WHEN __reason IS NOT NULL THEN {point} END AS __dead_t",
    )


def reason_sql(stream: StreamDef, admission: Admission, has_bad: bool) -> str:
    """Why a row is a dead letter; NULL for an admitted one. Reads the columns of `point_columns`."""
    tests: dict[str, list[str]] = {reason: [] for reason in REASONS}
    names = point_columns(stream)
    if has_bad:
        tests[MALFORMED].append(f"{BAD} IS NOT NULL")
    if stream.punctuation is not None:
        tests[PUNCTUATION].append(f"{quote_name(stream.punctuation)} IS NOT NULL")
    for bound in admission.bounds:
        t = names[bound.punctuated.column]
        tests[NULL_POINT].append(f"{t} IS NULL")
        tests[OUT_OF_RANGE].append(f"{t} < -{POINT_BOUND}L OR {t} > {POINT_BOUND}L")
        if bound.punctuated.type.is_timestamp:
            above_latest = POINT_BOUND + 1 if bound.latest is None else bound.latest + 1
            tests[FUTURE].append(f"NOT ({below_sql(t, above_latest)})")
    tests[LATE] = [test for test in (_dropped_sql(stream, admission),) if test]
    if admission.ended:
        tests[LATE].append("true")
    tests[LATE] += broken_sql(admission.promises, dict(stream.columns), lambda axis, v: below_sql(names[axis], v))
    cases = [f"WHEN {' OR '.join(any_of)} THEN '{reason}'" for reason, any_of in tests.items() if any_of]
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"


def points_sql(stream: StreamDef) -> list[str]:
    """The columns of `point_columns`, as Spark computes them."""
    return [f"{_point_sql(p.column, p.type)} AS __t{i}" for i, p in enumerate(stream.punctuated)]


def _point_sql(column: str, kind: SqlType) -> str:
    name = quote_name(column)
    if kind.name == "TIMESTAMP":
        return f"unix_micros({name})"
    if kind.name == "TIMESTAMP_NTZ":
        return f"unix_micros(CAST({name} AS TIMESTAMP))"
    return f"CAST({name} AS BIGINT)"


def bound_sql(point: int) -> str:
    """A point that changes with every micro-batch, within ±POINT_BOUND.

    A DECIMAL literal is passed to the generated code by reference, a BIGINT one becomes part of its text: Spark would
    compile the code anew for each micro-batch (measured: 0.05–0.2 s).
    """
    return f"CAST({max(-POINT_BOUND, min(POINT_BOUND, point))} AS DECIMAL(18,0))"


def below_sql(point: str, bound: int | str) -> str:
    """Whether a point in range is below a bound, or below an expression of type DECIMAL(18,0)."""
    if isinstance(bound, int) and bound > POINT_BOUND:
        return "true"
    return f"CAST({point} AS DECIMAL(18,0)) < {bound if isinstance(bound, str) else bound_sql(bound)}"


def _late_sql(stream: StreamDef, admission: Admission) -> dict[str, str]:
    """By column: whether a tuple is late on it."""
    names = point_columns(stream)
    frontiers = {bound.punctuated.column: bound.frontier for bound in admission.bounds}
    return {column: below_sql(names[column], -POINT_BOUND if f is None else f) for column, f in frontiers.items()}


def _dropped_sql(stream: StreamDef, admission: Admission) -> str | None:
    """Whether a tuple is late and not excused; None if no tuple can be."""
    late = " OR ".join(_late_sql(stream, admission).values())
    if not late or not admission.excused:
        return late or None
    excuses = [" AND ".join(_reach_sql(stream, reach) for reach in every) for every in admission.excused]
    return None if "" in excuses else f"({late}) AND NOT ({' OR '.join(f'({excuse})' for excuse in excuses)})"


def _reach_sql(stream: StreamDef, reach: Reach) -> str:
    t = point_columns(stream)[reach.column]
    test = f"NOT ({below_sql(t, reach.least)})"
    if reach.within is None:
        return test
    period, phase, length = reach.within
    return f"{test} AND pmod({t} - {phase}L, {period}L) < {length}L"


def on_time_sql(stream: StreamDef, admission: Admission) -> str | None:
    """Whether an admitted tuple is late on no column; None if all are on time."""
    if not admission.excused:
        return None
    return f"NOT ({' OR '.join(_late_sql(stream, admission).values())})"


def advances_sql(stream: StreamDef, admission: Admission) -> dict[str, str]:
    """By column: whether an admitted tuple may move its frontier; empty if all may.

    A late tuple moves nothing: below a frontier it cannot, and on its other columns it must not.
    """
    if not admission.excused or len(admission.bounds) < 2:
        return {}
    on_time = on_time_sql(stream, admission)
    return {column: f"({on_time} OR {late})" for column, late in _late_sql(stream, admission).items()}


def record_sql(stream: StreamDef) -> str:
    """The columns of a row as JSON."""
    columns = ", ".join(quote_name(name) for name, _ in stream.columns)
    return f"to_json(struct({columns}), map('ignoreNullFields', 'false'))"


# -- NumPy and Arrow ---------------------------------------------------------------------------------


def unjudged_sql(df: DataFrame, stream: StreamDef, admission: Admission) -> list[str]:
    """The columns that `judged` reads, as Spark computes them."""
    found = [f"{BAD} IS NOT NULL AS {_MALFORMED}"] if BAD in df.columns else []
    if stream.punctuation is not None:
        found.append(f"{quote_name(stream.punctuation)} AS {_PUNCTUATION}")
    named = enumerate(promised_columns(admission.promises))
    return [*points_sql(stream), *found, *(f"{quote_name(column)} AS {_PROMISED}{i}" for i, column in named)]


def judged(table: pa.Table, stream: StreamDef, admission: Admission) -> pa.Table:
    """The gathered table with the `__reason` that `reason_sql` gives, and with `__record` for punctuations."""
    tests: dict[str, list[Mask]] = {reason: [] for reason in REASONS}
    names, records = point_columns(stream), pa.nulls(table.num_rows)
    if _MALFORMED in table.column_names:
        tests[MALFORMED].append(table.column(_MALFORMED).to_numpy())
    if stream.punctuation is not None:
        records = table.column(_PUNCTUATION)
        tests[PUNCTUATION].append(records.is_valid().to_numpy())
    points = {column: pc.fill_null(table.column(t), 0).to_numpy() for column, t in names.items()}
    for bound in admission.bounds:
        name = bound.punctuated.column
        column, t = table.column(names[name]), points[name]
        if column.null_count:
            tests[NULL_POINT].append(column.is_null().to_numpy())
        tests[OUT_OF_RANGE].append((t < -POINT_BOUND) | (t > POINT_BOUND))
        if bound.latest is not None and bound.punctuated.type.is_timestamp:
            tests[FUTURE].append(t > bound.latest)
    tests[LATE].append(_dropped(points, table.num_rows, admission))
    if admission.promises:
        tests[LATE].append(_broken(table, points, admission))
    if admission.ended:
        tests[LATE].append(np.ones(table.num_rows, bool))
    found = [(reason, mask) for reason, masks in tests.items() for mask in masks if mask.any()]
    reasons = pa.nulls(table.num_rows)
    if found:
        why = np.full(table.num_rows, None, object)
        for reason, mask in reversed(found):
            why[mask] = reason
        reasons = pa.array(why, pa.string())
    return table.append_column("__reason", reasons).append_column("__record", records)


def _late(points: Mapping[str, Points], admission: Admission) -> dict[str, Mask]:
    """By column with a frontier: which points are late on it."""
    frontiers = {bound.punctuated.column: bound.frontier for bound in admission.bounds}
    return {column: points[column] < f for column, f in frontiers.items() if f is not None}


def _dropped(points: Mapping[str, Points], rows: int, admission: Admission) -> Mask:
    """Which tuples are late and not excused."""
    late = np.zeros(rows, bool)
    for mask in _late(points, admission).values():
        late |= mask
    for every in admission.excused if late.any() else ():
        excused = np.ones(rows, bool)
        for reach in every:
            t = points[reach.column]
            excused &= t >= reach.least
            if reach.within is not None:
                period, phase, length = reach.within
                excused &= (t - phase) % period < length
        late &= ~excused
    return late


def _broken(table: pa.Table, points: Mapping[str, Points], admission: Admission) -> Mask:
    """Which tuples break a promise."""
    names = {column: f"{_PROMISED}{i}" for i, column in enumerate(promised_columns(admission.promises))}
    columns = {column: table.column(name).combine_chunks() for column, name in names.items()}
    broken = np.zeros(table.num_rows, bool)
    for axis, t in points.items():
        promises = [promise for promise in admission.promises if promise.axis == axis]
        if promises:
            broken |= t < promised_bounds(promises, columns, table.num_rows)
    return broken


def on_time(points: Mapping[str, Points], admission: Admission) -> Mask | None:
    """Which admitted tuples are late on no column; None if all are on time."""
    late = _late(points, admission) if admission.excused else {}
    return ~np.logical_or.reduce(list(late.values())) if late else None


def advances(points: Mapping[str, Points], admission: Admission) -> dict[str, Any]:
    """By column: which admitted tuples may move its frontier; empty if all may."""
    on_time_mask = on_time(points, admission)
    if on_time_mask is None or len(admission.bounds) < 2:
        return {}
    late = _late(points, admission)
    columns = [bound.punctuated.column for bound in admission.bounds]
    return {column: on_time_mask | late.get(column, False) for column in columns}
