"""The kernel of window stores: tasks write the tuples that continuous plans need, once for all plans.

It runs on admitted rows before the group-by of a micro-batch, in the same job, and passes the rows on; if nothing is
grouped, it sums them up instead. What a task has written goes to the driver in a row of its own, which looks like a
dead letter: its reason is KEPT and its record the number of the partition. So the group-by sends the report of a
partition to the same place in every attempt, and the driver reads exactly one, whatever tasks and stages are run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.cql.bounds.guards import bounded_sql
from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.kernels.worker_process import settle
from windrow.dataplane.stores import ARRIVAL, POINT, KeptColumn, KeptFile, WindowStoreSpec, write_rows
from windrow.dataplane.stores.files import kept_of
from windrow.windows.lateness import bucket_of

KEPT = "kept"
"""Stands in place of a reason for a row that reports files."""

REPORT = "__kept"
"""The column of the report."""

MOST_FILE_BYTES = 128 << 20
"""A task that keeps more than this writes several files, so that it need not hold all in memory."""

_DEAD = ("__reason", "__record", "__dead_t")


@dataclass(frozen=True)
class KeepRequest:
    """What is kept of a micro-batch, and where. `points`: by axis, the column of its points. `tops`: by axis, the
    greatest point before this micro-batch. `max_value_bytes`: the bound on the values that its expressions make.
    `rows_before`: how many tuples have been admitted before this micro-batch."""

    root: str
    stores: tuple[WindowStoreSpec, ...]
    points: Mapping[str, str]
    tops: Mapping[str, int | None]
    max_value_bytes: int
    rows_before: int = 0

    @property
    def needs_order(self) -> bool:
        """Whether tuples are kept with their number in the order of arrival."""
        return ARRIVAL in self.columns

    @property
    def columns(self) -> tuple[KeptColumn, ...]:
        """What Spark must compute for all stores, each once."""
        return tuple(dict.fromkeys(one for spec in self.stores for one in spec.evaluated))

    def bounded(self, sql: str) -> str:
        """An expression as Spark evaluates it: with guards around calls that may make large values."""
        return bounded_sql(sql, self.max_value_bytes)

    def select(self) -> list[str]:
        """The columns as Spark computes them."""
        return [f"{self.bounded(one.sql)} AS {kept_name(one)}" for one in self.columns]


def kept_name(column: KeptColumn) -> str:
    """The name of a kept column in a micro-batch."""
    return f"__s_{column.id}"


class Keeper:
    """Collects the rows of one task, or of the driver, and writes a file per store. `names`: by column, its name in the
    rows. A `writer` that is used again does not sync directories again."""

    def __init__(self, request: KeepRequest, names: Mapping[KeptColumn, str], writer: BlockWriter):
        self._request = request
        self._names = names
        self._writer = writer
        self._held: dict[int, list[pa.Table]] = {spec.id: [] for spec in request.stores}
        self._bytes = 0
        self._written: list[KeptFile] = []

    def add(self, rows: pa.Table) -> None:
        """Take in rows of a micro-batch; dead letters are left out."""
        if rows.column("__reason").null_count < rows.num_rows:
            rows = rows.filter(pc.is_null(rows.column("__reason")))
        if not rows.num_rows:
            return
        for spec in self._request.stores:
            columns = [rows.column(self._request.points[spec.axis])]
            columns += [rows.column(self._names[one]) for one in spec.evaluated]
            kept = kept_of(spec, pa.Table.from_arrays(columns, names=[POINT, *(one.id for one in spec.evaluated)]))
            if kept.num_rows:
                self._held[spec.id].append(kept)
                self._bytes += kept.nbytes
        if self._bytes >= MOST_FILE_BYTES:
            self._flush()

    def written(self) -> list[KeptFile]:
        """Write what is left. Return all files."""
        self._flush()
        return self._written

    def _flush(self) -> None:
        for spec in self._request.stores:
            held = self._held[spec.id]
            file = write_rows(self._writer, spec, pa.concat_tables(held)) if held else None
            if file is not None:
                self._written.append(file)
            held.clear()
        self._bytes = 0


def keep_and_pass(
    request: KeepRequest, partition: int, passed: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The columns `passed` of all rows of a partition, with the column REPORT, and a row that reports the files."""
    settle()
    keeper = _keeper(request)
    schema = pa.schema([])
    for batch in batches:
        keeper.add(pa.Table.from_batches([batch]))
        fields = [batch.schema.field(name) for name in passed]
        schema = _nullable([(field.name, field.type) for field in fields])
        columns = [batch.column(name) for name in passed]
        yield pa.RecordBatch.from_arrays([*columns, pa.nulls(batch.num_rows, pa.string())], schema=schema)
    yield from _report(keeper, partition, schema)


def _nullable(fields: Iterable[tuple[str, pa.DataType]]) -> pa.Schema:
    """The schema of these columns and REPORT. All may be NULL, since a report has no others, and Arrow wants one schema
    for all batches."""
    return pa.schema([*fields, (REPORT, pa.string())])


@dataclass(frozen=True)
class SummaryColumns:
    """What to sum up. `tops`: the column of points of each axis, and its greatest point before this micro-batch, from
    which lateness is measured. `joining`: those of them whose tuples on time count apart. `sets`: (number, column) of
    the sets of progress; a single set has no number, and none but the totals no column. `sums`: counts to be added."""

    tops: tuple[tuple[str, int | None], ...]
    joining: tuple[str, ...]
    sets: tuple[tuple[int | None, str | None], ...]
    sums: tuple[str, ...] = ()

    @property
    def folds(self) -> dict[str, tuple[str, str]]:
        """By column of the result: the column that it is made of, and how."""
        found = {name: (name, "sum") for name in ("__n", *self.sums)}
        for t, _ in self.tops:
            found |= {f"__least{t}": (t, "min"), f"__greatest{t}": (f"__moving{t}", "max")}
        return found | {f"__joining{t}": (f"__joining{t}", "max") for t in self.joining}

    @property
    def names(self) -> list[str]:
        """The columns of the result."""
        sets = [column for _, column in self.sets if column is not None]
        return [*_DEAD, *sets, *self.folds, *(["__set"] if self.sets[0][0] is not None else [])]


def keep_and_sum(
    request: KeepRequest, partition: int, summary: SummaryColumns, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a group-by of the partition's rows gives a driver that needs only the stream's progress: few rows."""
    settle()
    keeper = _keeper(request)
    schema = pa.schema([])
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if not table.num_rows:
            continue
        keeper.add(table)
        for number, column in summary.sets:
            found = _summed(table, summary, number, column).combine_chunks()
            schema = _nullable([(field.name, field.type) for field in found.schema])
            reports = pa.nulls(found.num_rows, pa.string())
            yield from pa.Table.from_arrays([*found.columns, reports], schema=schema).to_batches()
    yield from _report(keeper, partition, schema)


def _keeper(request: KeepRequest) -> Keeper:
    return Keeper(request, {one: kept_name(one) for one in request.columns}, _writer(request.root))


@cache
def _writer(root: str) -> BlockWriter:
    """One writer for the life of a worker process."""
    return BlockWriter(Path(root))


def _report(keeper: Keeper, partition: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    written = keeper.written()
    if not written:
        return
    told = {"__reason": KEPT, "__record": str(partition), REPORT: json.dumps([file.saved() for file in written])}
    yield pa.RecordBatch.from_arrays([pa.array([told.get(f.name)], f.type) for f in schema], schema=schema)


def reported(table: pa.Table) -> tuple[pa.Table, list[KeptFile]]:
    """The table of a job without its reports, and the files that they name."""
    is_report = pc.fill_null(pc.equal(table.column("__reason"), KEPT), False)
    reports = table.filter(is_report)
    # With several grouping sets each report comes several times.
    texts = dict(zip(reports.column("__record").to_pylist(), reports.column(REPORT).to_pylist(), strict=True))
    files = [KeptFile.restored(one) for text in texts.values() for one in json.loads(text)]
    rest = table if not reports.num_rows else table.filter(pc.invert(is_report))
    return rest.drop_columns([REPORT]), files


def _summed(table: pa.Table, summary: SummaryColumns, number: int | None, column: str | None) -> pa.Table:
    """A row for each distinct dead letter, bucket of lateness and value of the set's column."""
    keys = {name: table.column(name) for name in (*_DEAD, *(() if column is None else (column,)))}
    for i, (name, top) in enumerate(summary.tops):
        points = pc.fill_null(table.column(name), 0).to_numpy()
        keys[f"late{i}"] = pa.array(np.zeros(points.size, np.int64) if top is None else bucket_of(top - points))
    counted = table.append_column("__n", pa.array(np.ones(table.num_rows, np.int64)))
    folds = summary.folds
    values = {name: counted.column(source) for name, (source, _) in folds.items()}
    totals = pa.table({**keys, **values}).group_by(list(keys)).aggregate([(n, how) for n, (_, how) in folds.items()])
    out = {name: totals.column(name) for name in keys}
    out |= {name: totals.column(f"{name}_{how}") for name, (_, how) in folds.items()}
    out["__set"] = pa.array(np.full(totals.num_rows, number or 0, np.int64))
    for _, other in summary.sets:
        if other is not None and other != column:
            out[other] = pa.nulls(totals.num_rows, table.schema.field(other).type)
    return pa.table({name: out[name] for name in summary.names})
