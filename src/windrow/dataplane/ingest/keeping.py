"""Keeps the tuples of a micro-batch for continuous plans: in its one job, or of the rows that the driver gathers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.cql.statements import Policy
from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.ingest import arrival
from windrow.dataplane.ingest.admission import Admission, advances_sql, bound_sql, on_time_sql, point_columns
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.ingest.deposit import OVERSIZED
from windrow.dataplane.ingest.grouping import Grouping, progress_columns
from windrow.dataplane.kernels import REPORT, Keeper, KeepRequest, SummaryColumns, keep_and_pass, keep_and_sum
from windrow.dataplane.stores import KeptFile
from windrow.plan.nodes import ROW_COLUMN

_TAGGED = ("__reason", "__record", "__dead_t")
Batches = Iterator[pa.RecordBatch]


def keep_gathered(
    request: KeepRequest, table: pa.Table, values: Mapping[str, str], writer: BlockWriter
) -> list[KeptFile]:
    """Write the files of a judged table of gathered rows; `values` are the names of its columns by expression."""
    keeper = Keeper(request, {one: values.get(one.sql, one.sql) for one in request.columns}, writer)
    if request.needs_order:
        table = table.filter(pc.is_null(table.column("__reason")))
        table = table.append_column(ROW_COLUMN, pa.array(arrival.numbers(table) + request.rows_before))
    keeper.add(table)
    return keeper.written()


def in_order(df: DataFrame, rows: DataFrame, stream: StreamDef, request: KeepRequest) -> DataFrame:
    """Tagged rows of a micro-batch, numbered in the order of arrival if a store keeps the numbers."""
    if not request.needs_order:
        return rows
    order = arrival.order_columns(df.columns, stream.statement.sequence_by)
    return arrival.numbered(arrival.placed(rows, order), bound_sql(request.rows_before))


def keep_aside(rows: DataFrame, stream: StreamDef, request: KeepRequest, needed: Sequence[str]) -> DataFrame:
    """Tagged rows with those columns that the group-by reads, written by their tasks on the way, and with REPORT."""
    passed = [*needed, *point_columns(stream).values(), *_TAGGED]
    job = rows.selectExpr(*(quote_name(name) for name in passed), *request.select())

    def kernel(batches: Batches) -> Batches:
        return keep_and_pass(request, _partition(), passed, batches)

    return job.mapInArrow(kernel, _schema([job.schema[name] for name in passed]))


def keep_only(
    rows: DataFrame,
    stream: StreamDef,
    admission: Admission,
    request: KeepRequest,
    sets: Sequence[int],
    oversized: Sequence[str] = (),
) -> DataFrame:
    """Tagged rows written by their tasks, and what `grouped` gives of them without any grouping, but finer: a row per
    bucket of lateness. `sets`: the `__set` of each progress column."""
    points, per_key = point_columns(stream), [p.column for p in stream.punctuated if p.policy is Policy.PER_KEY]
    advances, on_time = advances_sql(stream, admission), on_time_sql(stream, admission)
    columns = [*points.values(), *_TAGGED]
    for axis, t in points.items():
        columns.append(f"CASE WHEN {advances[axis]} THEN {t} END AS __moving{t}" if advances else f"{t} AS __moving{t}")
        if axis in per_key:
            columns.append(f"CASE WHEN {on_time} THEN {t} END AS __joining{t}" if on_time else f"{t} AS __joining{t}")
    progress = progress_columns(stream, admission)
    counted = [(f"{OVERSIZED}{i}", sql) for i, sql in enumerate(oversized)]
    columns += [f"CASE WHEN __reason IS NULL THEN {sql} END AS {name}" for name, sql in (*progress, *counted)]
    job = rows.selectExpr(*columns, *request.select())
    numbered = [(number if len(sets) > 1 else None, name) for number, (name, _) in zip(sets, progress, strict=True)]
    summary = SummaryColumns(
        tuple((t, request.tops[axis]) for axis, t in points.items()),
        tuple(points[column] for column in per_key),
        tuple(numbered) or ((None, None),),
        tuple(name for name, _ in counted),
    )

    def kernel(batches: Batches) -> Batches:
        return keep_and_sum(request, _partition(), summary, batches)

    texts = [StructField(name, job.schema[name].dataType) for name in (*_TAGGED, *(name for name, _ in progress))]
    counts = [StructField(name, LongType()) for name in summary.names[len(texts) :]]
    return job.mapInArrow(kernel, _schema([*texts, *counts]))


def needed_columns(
    columns: Sequence[str], stream: StreamDef, groupings: Sequence[Grouping], others: Sequence[str]
) -> list[str]:
    """Those of the source's columns that a group-by reads: in its keys, conditions and arguments, in `others`, for the
    order of arrival, and for the stream's progress."""
    texts = [*others, *(sql for _, sql in progress_columns(stream))]
    for grouping in groupings:
        texts += [key.sql for key in grouping.keys]
        texts += [sql for a in grouping.accumulators for sql in (a.arg, a.condition) if sql is not None]
        texts += [] if grouping.qualifies is None else [grouping.qualifies]
    words = set(_words(" ".join(texts))) | set(_words(stream.statement.sequence_by or ""))
    return [name for name in columns if name.startswith(POSITION) or words.issuperset(_words(name))]


def _words(text: str) -> list[str]:
    """A column that an expression reads has all its words there; so may a few that it does not read."""
    return re.findall(r"\w+", text.lower())


def _schema(fields: Sequence[StructField]) -> StructType:
    """All columns may be NULL: a report has no others."""
    return StructType([StructField(f.name, f.dataType) for f in fields] + [StructField(REPORT, StringType())])


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()
