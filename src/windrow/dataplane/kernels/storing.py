"""The kernel of a deposit: tasks write the cells of Spark-home synopses as blocks and pass the other rows on.

It runs after the group-by of a micro-batch, in the same job. For the cells it writes, a few summary rows tell the
driver how many tuples there were, between which points, and how late.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.blocks import BlockRef, BlockWriter
from windrow.dataplane.kernels.loading import write_cells
from windrow.dataplane.kernels.worker_process import settle
from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells.cells import state_of_partials
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups
from windrow.windows.lateness import bucket_of

Mask = npt.NDArray[np.bool_]
WROTE = "__wrote"
"""The column in which a task reports a block that it has written."""


@dataclass(frozen=True)
class CellColumns:
    """The columns of a grouped micro-batch that belong to one grouping, and its rows (`__set`; None: all)."""

    set_id: int | None
    pane: str
    qualifies: str | None
    keys: tuple[str, ...]
    partials: tuple[tuple[Accumulator, tuple[str, ...]], ...]

    def rows(self, table: pa.Table) -> Mask:
        """The rows that are cells of this grouping."""
        alive = np.asarray(pc.is_null(table.column("__reason")).to_numpy(), dtype=bool)
        return alive if self.set_id is None else alive & (table.column("__set").to_numpy() == self.set_id)

    def cells(self, table: pa.Table, groups: Groups) -> Cells:
        """The cells of these rows."""
        keys = [_column(table, name) for name in self.keys]
        nobody = np.zeros(table.num_rows, bool)
        if self.qualifies is not None:
            qualifies = pc.fill_null(_column(table, self.qualifies), False)
            nobody = ~np.asarray(qualifies.to_numpy(zero_copy_only=False), dtype=bool)
        states = {a: state_of_partials(a, [_column(table, name) for name in names]) for a, names in self.partials}
        panes = _column(table, self.pane).to_numpy(zero_copy_only=False).astype(np.int64)
        return Cells(panes, groups.ids(keys, nobody), states)


@dataclass(frozen=True)
class StoreTarget:
    """A synopsis for which tasks write blocks of cells."""

    synopsis: int
    owner: str
    columns: CellColumns
    key_types: tuple[pa.DataType, ...]
    bucketed_by: int
    buckets: int


@dataclass(frozen=True)
class StoreRequest:
    """What tasks write of a micro-batch, and where. `tops` has for each punctuated column the greatest point before
    this micro-batch (None: none), from which lateness is measured."""

    root: str
    targets: tuple[StoreTarget, ...]
    tops: tuple[int | None, ...]


@dataclass(frozen=True)
class BlockReport:
    """A block that a task has written for a synopsis, with its first and last pane."""

    synopsis: int
    ref: BlockRef
    lo: int
    hi: int

    def text(self) -> str:
        return json.dumps({"synopsis": self.synopsis, "ref": asdict(self.ref), "lo": self.lo, "hi": self.hi})

    @classmethod
    def of(cls, text: str) -> BlockReport:
        report = json.loads(text)
        return cls(report["synopsis"], BlockRef(**report["ref"]), report["lo"], report["hi"])


def store_cells(storing: StoreRequest, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of one partition with the column WROTE. Cells of the targets are replaced by a summary; other rows are
    unchanged."""
    settle()
    held = list(batches)
    if not held:
        return
    table = pa.Table.from_batches(held)
    writer = BlockWriter(Path(storing.root))
    left, out = np.ones(table.num_rows, bool), []
    for target in storing.targets:
        is_cell = target.columns.rows(table)
        if is_cell.any():
            cells = table.filter(pa.array(is_cell))
            out.append(_summary(cells, storing.tops, _written(writer, target, cells).text()))
            left &= ~is_cell
    rest = table if left.all() else table.filter(pa.array(left))
    out.append(rest.append_column(WROTE, pa.nulls(rest.num_rows, pa.string())))
    for part in out:
        yield from part.combine_chunks().to_batches()


def _written(writer: BlockWriter, target: StoreTarget, table: pa.Table) -> BlockReport:
    groups = Groups(target.key_types)
    cells = target.columns.cells(table, groups)
    ref, panes = write_cells(writer, target.owner, cells, groups, target.bucketed_by, target.buckets)
    return BlockReport(target.synopsis, ref, int(panes[0]), int(panes[-1]))


def _summary(table: pa.Table, tops: Sequence[int | None], wrote: str) -> pa.Table:
    """The few rows that tell the driver as much as the cells do: one per bucket of the lateness histograms."""
    of = np.zeros(table.num_rows, np.int64)
    for i, top in enumerate(tops):
        late = np.zeros(of.size, np.int64) if top is None else top - _column(table, f"__least__t{i}").to_numpy()
        _, of = np.unique(of * (1 << 10) + bucket_of(late), return_inverse=True)
    _, first, of = np.unique(of, return_index=True, return_inverse=True)
    folded = table.take(pa.array(first))
    wanted = {"__n": "sum"} | {n: "min" for n in table.column_names if n.startswith("__least")}
    wanted |= {n: "max" for n in table.column_names if n.startswith(("__greatest", "__joining"))}
    grouped = pa.table({"of": of, **{name: table.column(name) for name in wanted}}).group_by("of")
    totals = grouped.aggregate(list(wanted.items())).sort_by("of")
    for name, how in wanted.items():
        at, field = folded.schema.get_field_index(name), folded.schema.field(name)
        folded = folded.set_column(at, field, totals.column(f"{name}_{how}").cast(field.type))
    reports = [wrote] + [None] * (folded.num_rows - 1)
    return folded.append_column(WROTE, pa.array(reports, pa.string()))


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
