"""What a micro-batch adds to a stream, once its table has been read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.synopses.cells.chunks import Cells
from windrow.windows import Seen
from windrow.windows.frontier import Key

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DeadLetter:
    """A row that was not admitted: why, its text, its point, and how many such rows there were. `file` and `line` say
    where it stands, if that is known. A file that cannot be read is a dead letter, too."""

    reason: str
    record: str | None
    point: int | None
    count: int
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Deposit:
    """What a micro-batch adds: cells per synopsis, dead letters, and what was seen on each axis."""

    cells: dict[int, Cells]
    dead: tuple[DeadLetter, ...]
    admitted: int
    least: dict[str, int]
    seen: dict[str, Seen]
    oversized: tuple[int, ...] = ()
    """For each expression that the micro-batch counted: how many values were NULL by the bound on values."""

    @property
    def cell_count(self) -> int:
        return sum(len(cells) for cells in self.cells.values())


OVERSIZED = "__oversized"
"""Columns of counts: their names begin so and end with a number."""


def oversized_in(table: pa.Table) -> tuple[int, ...]:
    """The sums of the columns of counts, in order."""
    names = [name for name in table.column_names if name.startswith(OVERSIZED)]
    return tuple(int(pc.sum(table.column(f"{OVERSIZED}{i}")).as_py() or 0) for i in range(len(names)))


def seen_by_key(greatest: int | None, pairs: Iterable[tuple[Key, int | None]]) -> Seen:
    """What was seen of each key. A key whose tuples are all late (its point is None) does not join. Of several points
    of a key, from tasks that sum up apart, the greatest counts."""
    known = [(key, point) for key, point in pairs if point is not None]
    found = dict(known)
    if len(found) < len(known):
        for key, point in known:
            found[key] = max(found[key], point)
    return Seen(greatest, by_key=found) if found else Seen()


def mask_of(column: pa.Array | pa.ChunkedArray) -> Mask:
    """A Boolean column as an array; NULL is false."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)


def picked_rows(table: pa.Table, mask: Mask, names: Sequence[str]) -> list[dict[str, Any]]:
    """Some columns of some rows, as Python values."""
    if not mask.any():
        return []
    rows: list[dict[str, Any]] = table.select(names).filter(pa.array(mask)).to_pylist()
    return rows
