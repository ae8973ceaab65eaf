"""One Spark job per micro-batch: decode, admit, tag with panes, and pre-aggregate for every query at once.

The job is a projection (what is a dead letter, which pane, which group) and one group-by, or, for `driver`
pre-aggregation, the projection alone, gathered as Arrow. It never grows with the number of queries: only
with the distinct accumulators and groupings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import Key
from windrow.synopses.cells import partial_sql
from windrow.windows import CutSchedule

BAD = "__bad"
"""The column in which a source reports a record that does not fit the schema (its text)."""

_MALFORMED = "__malformed"

POINT_BOUND = 10**18 - 1
"""Points beyond ±10^18 (the year 33658) are dead letters: pane arithmetic would leave int64."""

MALFORMED = "malformed record"
NULL_POINT = "null window attribute"
OUT_OF_RANGE = "window attribute out of range"
FUTURE = "too far in the future"
LATE = "late"


@dataclass(frozen=True)
class Grouping:
    """What one synopsis needs of a micro-batch. `qualifies` None: every tuple is of interest."""

    synopsis: int
    keys: tuple[Key, ...]
    schedule: CutSchedule
    qualifies: str | None
    accumulators: tuple[Accumulator, ...]


@dataclass(frozen=True)
class Admission:
    """The bounds of this micro-batch: tuples below `frontier` are late, above `latest` too far ahead."""

    frontier: int | None
    latest: int | None


def point_sql(stream: StreamDef) -> str:
    """The window attribute as a BIGINT."""
    assert stream.attribute is not None
    column, kind = quote_name(stream.attribute), stream.attribute_type
    if kind.name == "TIMESTAMP":
        return f"unix_micros({column})"
    if kind.name == "TIMESTAMP_NTZ":
        return f"unix_micros(CAST({column} AS TIMESTAMP))"
    return f"CAST({column} AS BIGINT)"


def _bound(point: int) -> str:
    # A DECIMAL literal is passed to the generated code by reference, a BIGINT one becomes part of its text: a
    # bound that moves with every micro-batch would have it compiled anew each time (measured: 0.05–0.2 s).
    return f"CAST({max(-POINT_BOUND, min(POINT_BOUND, point))} AS DECIMAL(18,0))"


def reason_sql(stream: StreamDef, admission: Admission, has_bad: bool) -> str:
    """Why a row is a dead letter; NULL for an admitted one (DESIGN 5)."""
    cases = []
    if has_bad:
        cases.append(f"WHEN {BAD} IS NOT NULL THEN '{MALFORMED}'")
    cases.append(f"WHEN __t IS NULL THEN '{NULL_POINT}'")
    cases.append(f"WHEN __t < -{POINT_BOUND}L OR __t > {POINT_BOUND}L THEN '{OUT_OF_RANGE}'")
    point = "CAST(__t AS DECIMAL(18,0))"
    latest = POINT_BOUND if admission.latest is None else admission.latest
    frontier = -POINT_BOUND if admission.frontier is None else admission.frontier
    if stream.attribute_type.is_timestamp:
        cases.append(f"WHEN {point} > {_bound(latest)} THEN '{FUTURE}'")
    cases.append(f"WHEN {point} < {_bound(frontier)} THEN '{LATE}'")
    return f"CASE {' '.join(cases)} END"


def judged(table: pa.Table, stream: StreamDef, admission: Admission) -> pa.Table:
    """A gathered table without `__reason` gets it here: what `reason_sql` says, vectorised in the driver."""
    points, tests = table.column("__t"), []
    t = pc.fill_null(points, 0).to_numpy()
    if _MALFORMED in table.column_names:
        tests.append((MALFORMED, table.column(_MALFORMED).to_numpy()))
    if points.null_count:
        tests.append((NULL_POINT, points.is_null().to_numpy()))
    tests.append((OUT_OF_RANGE, (t < -POINT_BOUND) | (t > POINT_BOUND)))
    if admission.latest is not None and stream.attribute_type.is_timestamp:
        tests.append((FUTURE, t > admission.latest))
    if admission.frontier is not None:
        tests.append((LATE, t < admission.frontier))
    found = [(reason, mask) for reason, mask in tests if mask.any()]
    reasons = pa.nulls(table.num_rows)
    if found:
        why = np.full(table.num_rows, None, object)
        for reason, mask in reversed(found):
            why[mask] = reason
        reasons = pa.array(why, pa.string())
    return table.append_column("__reason", reasons).append_column("__record", pa.nulls(table.num_rows))


def _record_sql(stream: StreamDef, has_bad: bool) -> str:
    columns = ", ".join(quote_name(name) for name, _ in stream.columns)
    record = f"to_json(struct({columns}), map('ignoreNullFields', 'false'))"
    return f"coalesce({BAD}, {record})" if has_bad else record


def _tagged(df: DataFrame, stream: StreamDef, admission: Admission, carry_records: bool) -> DataFrame:
    """The rows with __t (point), __reason, and for dead letters __record (if carried) and __dead_t."""
    has_bad = BAD in df.columns
    with_point = df.selectExpr("*", f"{point_sql(stream)} AS __t")
    with_reason = with_point.selectExpr("*", f"{reason_sql(stream, admission, has_bad)} AS __reason")
    record = _record_sql(stream, has_bad) if carry_records else "CAST(NULL AS STRING)"
    return with_reason.selectExpr(
        "*",
        f"CASE WHEN __reason IS NOT NULL THEN {record} END AS __record",
        "CASE WHEN __reason IS NOT NULL THEN __t END AS __dead_t",
    )


def _alive(condition: str | None, value: str) -> str:
    """A value for admitted (and qualifying) rows only, so that the others fall into one group."""
    test = "__reason IS NULL" if condition is None else f"__reason IS NULL AND coalesce({condition}, false)"
    return f"CASE WHEN {test} THEN {value} END"


def dead_letters(df: DataFrame, stream: StreamDef, admission: Admission, cap: int) -> DataFrame:
    """The dead letters of a micro-batch with their records, at most `cap`."""
    rows = _tagged(df, stream, admission, True).where("__reason IS NOT NULL")
    return rows.selectExpr("__reason", "__record", "__dead_t").limit(cap)


def grouped(
    df: DataFrame, stream: StreamDef, groupings: Sequence[Grouping], admission: Admission, carry_records: bool
) -> DataFrame:
    """Pre-aggregation by Spark: one row per (grouping, pane, group) and one per distinct dead letter."""
    tagged = _tagged(df, stream, admission, carry_records)
    dead = ["__reason", "__record", "__dead_t"]
    columns: list[str] = []
    sets: list[list[str]] = []
    for g, grouping in enumerate(groupings):
        mine = [(f"__pane{g}", _alive(None, grouping.schedule.sql("__t")))]
        if grouping.qualifies is not None:
            mine.append((f"__q{g}", _alive(None, f"coalesce({grouping.qualifies}, false)")))
        mine += [(f"__k{g}_{i}", _alive(grouping.qualifies, key.sql)) for i, key in enumerate(grouping.keys)]
        columns += [f"{sql} AS {name}" for name, sql in mine]
        sets.append([name for name, _ in mine])
    rows = tagged.selectExpr("*", *columns)
    partials = [F.expr(sql).alias(name) for name, sql in partial_columns(groupings)]
    seen = [F.min("__t").alias("__least"), F.max("__t").alias("__greatest")]
    extras = [F.count(F.lit(1)).alias("__n"), *seen]
    if len(groupings) <= 1:
        return rows.groupBy(*dead, *(sets[0] if sets else [])).agg(*extras, *partials)
    everything = [name for names in sets for name in names]
    wanted = [[F.col(c) for c in dead + names] for names in sets]
    return rows.groupingSets(wanted, *[F.col(c) for c in dead + everything]).agg(
        *extras, F.grouping_id().alias("__set"), *partials
    )


def set_ids(groupings: Sequence[Grouping]) -> list[int]:
    """grouping_id() of each grouping: a bit per key column, 1 where the column is not in its set."""
    widths = [1 + (g.qualifies is not None) + len(g.keys) for g in groupings]
    total, out, before = sum(widths), [], 0
    for width in widths:
        mine = ((1 << width) - 1) << (total - before - width)
        out.append(((1 << total) - 1) ^ mine)
        before += width
    return out


def partial_columns(groupings: Sequence[Grouping]) -> list[tuple[str, str]]:
    """(name, Spark aggregate) of every distinct accumulator of all the groupings."""
    distinct = dict.fromkeys(a for g in groupings for a in g.accumulators)
    return [(f"p_{a.id}_{i}", sql) for a in distinct for i, sql in enumerate(partial_sql(a))]


def gathered_names(groupings: Sequence[Grouping]) -> dict[str, str]:
    """Spark expression → column name, for everything that `driver` pre-aggregation needs of a row."""
    expressions: dict[str, str] = {}
    for grouping in groupings:
        wanted = [key.sql for key in grouping.keys]
        wanted += [] if grouping.qualifies is None else [f"coalesce({grouping.qualifies}, false)"]
        for a in grouping.accumulators:
            wanted += [] if a.arg is None else [a.arg]
            wanted += [] if a.condition is None else [f"coalesce({a.condition}, false)"]
        for sql in wanted:
            expressions.setdefault(sql, f"__c{len(expressions)}")
    return expressions


def gathered(
    df: DataFrame, stream: StreamDef, groupings: Sequence[Grouping], admission: Admission, carry_records: bool
) -> DataFrame:
    """`driver` pre-aggregation: just the columns that the synopses need, a row per tuple.

    Where records are not carried, `judged` adds the reason in the driver: two columns and four tests fewer per
    row in Spark (measured: 0.145 s instead of 0.19 s for 500,000 rows).
    """
    columns = [f"{sql} AS {name}" for sql, name in gathered_names(groupings).items()]
    if not carry_records:
        flag = [f"{BAD} IS NOT NULL AS {_MALFORMED}"] if BAD in df.columns else []
        return df.selectExpr(f"{point_sql(stream)} AS __t", *flag, *columns)
    return _tagged(df, stream, admission, carry_records).selectExpr("__reason", "__record", "__t", *columns)


def estimated_bytes(df: DataFrame) -> int | None:
    """Spark's own estimate of a plan's output; None where it does not know."""
    size = int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return size if size < 1 << 60 else None


def run(df: DataFrame) -> pa.Table:
    """Execute; the one action of a micro-batch."""
    table: Any = df.toArrow()
    return table
