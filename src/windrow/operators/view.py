"""The current answer of a continuous query, folded from its changes.

R(b) = the rows that were added and not withdrawn, with ts < b ≤ exp
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.operators.changes import AT, BORN, END, HEAD, OP
from windrow.operators.tables.rows import flat, hashed, longs, numbered, run_lasts, taken
from windrow.operators.ticks import NEVER, Points
from windrow.synopses.cells.arrays import place_in_run, run_starts
from windrow.types import POINT_MIN

MOST_WITHDRAWN = 8
"""Withdrawn rows are matched once they are more than this part of all rows, or when somebody reads."""

MINUS = ord("-")

MOST_PIECES = 64
"""Into so many intervals of expiration a view is cut: more than there are twentieths in a window, unless another window
is longer by far."""


@dataclass(frozen=True)
class LiveView:
    """An immutable view: what was added, and what was withdrawn and is not matched yet.

    A withdrawn row is matched by its values and its exp.
    """

    schema: pa.Schema
    added: tuple[pa.Table, ...] = ()
    withdrawn: tuple[pa.Table, ...] = ()
    ticked: int | None = None

    @staticmethod
    def empty(schema: pa.Schema) -> LiveView:
        """`schema` is that of the changes (`changes_schema`)."""
        return LiveView(schema)

    @staticmethod
    def from_table(table: pa.Table) -> LiveView:
        """The view that `compacted` gave."""
        return LiveView(table.schema, (table,) if table.num_rows else ())

    def after(self, changes: pa.Table, ticked: int | None = None) -> LiveView:
        """The view after these changes; `ticked` is the last tick of their batch."""
        is_new = pc.equal(changes.column(OP), "+")
        came, went = changes, changes.slice(0, 0)
        if not pc.all(is_new).as_py():
            came, went = changes.filter(is_new), changes.filter(pc.invert(is_new))
        found = replace(
            self,
            added=(*self.added, came) if came.num_rows else self.added,
            withdrawn=(*self.withdrawn, went) if went.num_rows else self.withdrawn,
            ticked=self.ticked if ticked is None else ticked,
        )
        if MOST_WITHDRAWN * _size(found.withdrawn) > _size(found.added) or len(found.added) > 64:
            return found.settled()
        return found

    def at(self, tick: int) -> pa.Table:
        """The rows of R(tick), in the output columns."""
        rows = self._rows
        ts, exp = longs(rows.column(BORN)), _ends(rows)
        alive = taken(rows, (ts < tick) & (exp >= tick))
        return pa.Table.from_arrays(alive.columns[len(HEAD) :], schema=_outputs(self.schema))

    def settled(self) -> LiveView:
        """The same view, with withdrawn rows matched and expired ones dropped."""
        rows = self._rows
        if self.ticked is not None:
            rows = taken(rows, _ends(rows) >= self.ticked)
        return replace(self, added=(rows.combine_chunks(),) if rows.num_rows else (), withdrawn=())

    def compacted(self) -> pa.Table:
        """The view as one table, as `from_table` takes it."""
        return next(iter(self.settled().added), self.schema.empty_table())

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in (*self.added, *self.withdrawn))

    @cached_property
    def _rows(self) -> pa.Table:
        added = pa.concat_tables([self.schema.empty_table(), *self.added])
        if not self.withdrawn or not added.num_rows:
            return added
        return taken(added, ~_matched(added, pa.concat_tables(self.withdrawn)))


def _outputs(schema: pa.Schema) -> pa.Schema:
    return pa.schema([schema.field(i) for i in range(len(HEAD), len(schema))])


def _size(tables: Sequence[pa.Table]) -> int:
    return sum(table.num_rows for table in tables)


def _ends(rows: pa.Table) -> Points:
    ends = rows.column(END)
    return longs(pc.fill_null(ends, NEVER) if ends.null_count else ends)


def _matched(added: pa.Table, withdrawn: pa.Table) -> np.ndarray:
    """The rows that are withdrawn."""
    ours, theirs = (table.columns[END : END + 1] + table.columns[len(HEAD) :] for table in (added, withdrawn))
    near = np.flatnonzero(np.isin(hashed(ours, added.num_rows), hashed(theirs, withdrawn.num_rows)))
    at = pa.array(near)
    both = [pa.concat_arrays([*c.take(at).chunks, *d.chunks]) for c, d in zip(ours, theirs, strict=True)]
    ids, firsts = numbered(both, near.size + withdrawn.num_rows)
    mine, gone = ids[: near.size], np.bincount(ids[near.size :], minlength=firsts.size)
    order = np.lexsort((longs(added.column(AT))[near], mine))
    hit = place_in_run(mine[order]) < gone[mine[order]]
    out = np.zeros(added.num_rows, bool)
    out[near[order[hit]]] = True
    return out


def beginning(changes: pa.Table, ticked: int) -> pa.Table:
    """The first changes of a query that begins on tuples of the past: what its answer at the tick consists of."""
    rows = LiveView.empty(changes.schema).after(changes, ticked).compacted()
    return rows.set_column(AT, rows.schema.field(AT), pa.array(np.full(rows.num_rows, ticked, np.int64)))


def merged_view(changes: Sequence[pa.Table], ticked: int) -> pa.Table:
    """The rows of the view, and those that are yet to expire, as changes."""
    if any(map(_withdraws, changes)):
        return live_view(changes, ticked).compacted()
    rows = pa.concat_tables(changes)
    return taken(rows, _ends(rows) >= ticked).combine_chunks()


def view_at(changes: Sequence[pa.Table], ticked: int) -> pa.Table:
    """The rows of the view that these changes make at a tick."""
    return LiveView.from_table(merged_view(changes, ticked)).at(ticked)


def by_expiration(changes: Sequence[pa.Table], ticked: int, width: int) -> list[pa.Table]:
    """The view after these changes, of which none is a '-', by the interval of this width in which its rows end: those
    of far intervals together, and those that do not end. There is at least one table."""
    rows = pa.concat_tables(changes).combine_chunks()
    ends = _ends(rows)
    alive = np.flatnonzero(ends >= ticked)
    piece = np.minimum((ends[alive] - ticked // width * width) // width, MOST_PIECES).astype(np.uint8)
    piece[ends[alive] == NEVER] = MOST_PIECES + 1
    order = np.argsort(piece, kind="stable")
    starts = run_starts(piece[order].astype(np.int64))
    if not starts.size:
        return [rows.slice(0, 0)]
    found, stops = taken(rows, alive[order]), run_lasts(starts, alive.size) + 1
    return [found.slice(lo, hi - lo) for lo, hi in zip(starts.tolist(), stops.tolist(), strict=True)]


def lifespan(changes: pa.Table, is_withdrawn: bool = True) -> tuple[int, int]:
    """When the first of these rows is gone (at its end, or when a '-' withdraws it; NEVER if none is), and when the
    last of them ends (before all points if there is none). `is_withdrawn`: there may be a '-'."""
    if not changes.num_rows:
        return NEVER, POINT_MIN
    ends = _ends(changes)
    first, last = int(ends.min()), int(ends.max())
    if is_withdrawn and _withdraws(changes):
        goes = np.asarray(flat(pc.equal(changes.column(OP), "-")))
        first = int(np.where(goes, np.minimum(ends, longs(changes.column(AT))), ends).min())
    return first, last


def _withdraws(changes: pa.Table) -> bool:
    """Whether one of these changes is a '-'. It is asked of each query at each tick, so it looks at bytes, which is
    faster than comparing texts."""
    return any((_bytes(chunk) == MINUS).any() for chunk in changes.column(OP).chunks if len(chunk))


def _bytes(texts: pa.StringArray) -> np.ndarray:
    """The bytes of these texts. The buffer of a slice also has those of its neighbours."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)
    return np.frombuffer(data, np.uint8)[ends[texts.offset] : ends[texts.offset + len(texts)]]


def live_view(changes: Sequence[pa.Table], ticked: int) -> LiveView:
    """The view after all of these changes."""
    view = LiveView.empty(changes[0].schema)
    for part in changes:
        view = view.after(part, ticked)
    return view
