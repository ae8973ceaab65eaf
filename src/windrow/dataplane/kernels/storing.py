"""The kernel of a deposit: tasks write the cells of Spark-home synopses as blocks, and hand the rest through.

It stands behind the group-by of a micro-batch, in the same job. What the driver needs of the cells besides (how many
tuples, between which points, how late) is left of them in a few rows.
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
    """Which columns of a grouped micro-batch are one grouping's, and which rows (`__set`; None: all)."""

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
    """A synopsis whose cells tasks write."""

    synopsis: int
    owner: str
    columns: CellColumns
    key_types: tuple[pa.DataType, ...]
    bucketed_by: int
    buckets: int


@dataclass(frozen=True)
class StoreRequest:
    """What tasks write of a micro-batch, and where. `tops`: of each punctuated column, the greatest point that had come
    before (None: none had), by which it is told how late tuples are."""

    root: str
    targets: tuple[StoreTarget, ...]
    tops: tuple[int | None, ...]


@dataclass(frozen=True)
class BlockReport:
    """A block that a task has written for a synopsis, between two panes."""

    synopsis: int
    ref: BlockRef
    lo: int
    hi: int

    def text(self) -> str:
        return json.dumps({"synopsis": self.synopsis, "ref": asdict(self.ref), "lo": self.lo, "hi": self.hi})

    @classmethod
    def of(cls, text: str) -> BlockReport:
        told = json.loads(text)
        return cls(told["synopsis"], BlockRef(**told["ref"]), told["lo"], told["hi"])


def store_cells(storing: StoreRequest, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of one partition with WROTE: cells of the targets are in blocks, the others as they were."""
    held = list(batches)
    if not held:
        return
    table = pa.Table.from_batches(held)
    writer = BlockWriter(Path(storing.root))
    left, out = np.ones(table.num_rows, bool), []
    for target in storing.targets:
        mine = target.columns.rows(table)
        if mine.any():
            cells = table.filter(pa.array(mine))
            out.append(_summary(cells, storing.tops, _written(writer, target, cells).text()))
            left &= ~mine
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
    """What the driver reads of rows that are cells, in as few rows as tell it the same: one for each bucket of the
    histograms of lateness."""
    of = np.zeros(table.num_rows, np.int64)
    for i, top in enumerate(tops):
        late = np.zeros(of.size, np.int64) if top is None else top - _column(table, f"__least__t{i}").to_numpy()
        _, of = np.unique(of * (1 << 10) + bucket_of(late), return_inverse=True)
    _, first, of = np.unique(of, return_index=True, return_inverse=True)
    folded = table.take(pa.array(first))
    wanted = {"__n": "sum"} | {n: "min" for n in table.column_names if n.startswith("__least")}
    wanted |= {n: "max" for n in table.column_names if n.startswith(("__greatest", "__joining"))}
    grouped = pa.table({"of": of, **{name: table.column(name) for name in wanted}}).group_by("of")
    told = grouped.aggregate(list(wanted.items())).sort_by("of")
    for name, how in wanted.items():
        at, field = folded.schema.get_field_index(name), folded.schema.field(name)
        folded = folded.set_column(at, field, told.column(f"{name}_{how}").cast(field.type))
    reports = [wrote] + [None] * (folded.num_rows - 1)
    return folded.append_column(WROTE, pa.array(reports, pa.string()))


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
