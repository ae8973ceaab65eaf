"""Answers that are revised (LATE REVISE): rows taken back and rows given, and what they come to.

A delivered table then has two columns more, after is_revision: `op`, '+' for a row that holds from now on and '-' for
one that holds no more, and `revision`, which counts the corrections of its window; first answers are 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.answers.finishing import plain
from windrow.plan.nodes import Finalise
from windrow.windows import Points

OP, REVISION = "op", "revision"
GIVEN, TAKEN = "+", "-"
OP_FIELDS = (pa.field(OP, pa.string()), pa.field(REVISION, pa.int32()))
_HEAD = 3
"""window_start, window_end, is_revision come first."""

Mask = npt.NDArray[np.bool_]


def revised_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of answers, where they are revised."""
    fields = list(schema)
    return pa.schema([*fields[:_HEAD], *OP_FIELDS, *fields[_HEAD:]])


def first_answers(table: pa.Table) -> pa.Table:
    """Answers to windows that have none yet, as they are delivered where answers are revised."""
    return with_ops(table, pa.array(np.full(table.num_rows, GIVEN)), np.zeros(table.num_rows, np.int64))


def with_ops(table: pa.Table, ops: pa.Array, revisions: Points) -> pa.Table:
    """The table with `op` and `revision`; is_revision tells the corrections."""
    table = table.set_column(_HEAD - 1, "is_revision", pa.array(revisions > 0))
    table = table.add_column(_HEAD, OP_FIELDS[0], ops.cast(pa.string()))
    return table.add_column(_HEAD + 1, OP_FIELDS[1], pa.array(revisions.astype(np.int32)))


def difference(before: pa.Table, before_of: Points, after: pa.Table, after_of: Points) -> tuple[Points, Points]:
    """The places of the rows of `before` that hold no more, and of those of `after` that are new, as bags per window.

    `before_of` and `after_of` say which window a row is of.
    """
    rows = pa.concat_tables([plain(before), plain(after)], promote_options="permissive")
    codes = _row_codes(rows.select(range(_HEAD, rows.num_columns)), np.concatenate([before_of, after_of]))
    return _unpaired(codes, before.num_rows)


def bag_difference(before: pa.Table, after: pa.Table) -> tuple[Points, Points]:
    """The same of tables that have nothing but what is compared."""
    rows = pa.concat_tables([before, after], promote_options="permissive")
    return _unpaired(_row_codes(rows, np.zeros(rows.num_rows, np.int64)), before.num_rows)


def _unpaired(codes: Points, first: int) -> tuple[Points, Points]:
    """Of the first ones and of the others, those that have no partner among the other."""
    old, new = codes[:first], codes[first:]
    return np.flatnonzero(~_paired(old, new)), np.flatnonzero(~_paired(new, old))


def revisions_of(table: pa.Table) -> pa.Table:
    """What was delivered, in order: op, revision, window_start, window_end, then the select list."""
    names = [name for name in table.column_names if name not in (OP, REVISION, "is_revision")]
    return table.select([OP, REVISION, *names])


def net_answers(table: pa.Table, plan: Finalise) -> pa.Table:
    """A query's answers: the rows that hold, those of corrected windows in the order that the query asks for.

    Windows on row numbers are never revised. An ORDER BY of what is not selected cannot be kept up.
    """
    if plan.scan.attribute.is_rows:
        return table.drop_columns([OP, REVISION])
    rows = net_rows(table)
    selected = {o.expression: i for i, o in enumerate(plan.outputs)}
    if not plan.order or not all(o.expression in selected for o in plan.order):
        return rows
    keys = [(_HEAD + selected[o.expression], o.descending, o.nulls_first) for o in plan.order]
    keys += [(_HEAD + i, False, True) for i, o in enumerate(plan.outputs) if not o.type.is_nested]
    first = _points(rows.column("window_end"))
    place = np.where(rows.column("is_revision").to_numpy(zero_copy_only=False), 0, np.arange(rows.num_rows))
    ranks = [_ranks(rows.column(i), descending, nulls_first) for i, descending, nulls_first in keys]
    return rows.take(np.lexsort((*reversed(ranks), place, first)))


def _ranks(column: pa.ChunkedArray, descending: bool, nulls_first: bool) -> Points:
    """Numbers in the order of the values."""
    distinct = column.unique().drop_null()
    order = pc.sort_indices(distinct).to_numpy()
    codes = pc.index_in(column, value_set=distinct)
    rank = np.empty(order.size + 1, np.int64)
    rank[order] = -np.arange(order.size) if descending else np.arange(order.size)
    rank[-1] = -order.size - 1 if nulls_first else order.size
    return np.asarray(rank[pc.fill_null(codes, order.size).to_numpy()])


def net_rows(table: pa.Table) -> pa.Table:
    """The rows that hold after all that was delivered, in window order; is_revision: the window was corrected.

    A row taken back cancels one that was given. Its floats may differ from those in the last digits, since the two
    were summed in another order, and what came from sketches (a float, or an array of items) within its bound; then
    the nearest row with equal other columns is meant. A row taken back that is not
    there (it was delivered before what is kept begins) cancels nothing.
    """
    places, is_revised = net_places(table)
    out = plain(table).take(places).drop_columns([OP, REVISION])
    return out.set_column(_HEAD - 1, "is_revision", pa.array(is_revised))


def net_places(table: pa.Table) -> tuple[Points, Mask]:
    """Where the rows that hold stand, in window order, and which of them are of corrected windows."""
    table = plain(table).combine_chunks()
    taken = np.asarray(pc.equal(table.column(OP), TAKEN).to_numpy(zero_copy_only=False), bool)
    ends = _codes(table.column("window_end"))
    marked = np.asarray(table.column("is_revision").to_numpy(zero_copy_only=False), bool)
    corrected = np.unique(ends[marked])
    select = table.select(range(_HEAD + 2, table.num_columns))
    given, lost = np.flatnonzero(~taken), np.flatnonzero(taken)
    if lost.size:
        codes = _row_codes(select, ends)
        kept = ~_paired(codes[given], codes[lost])
        lost = lost[~_paired(codes[lost], codes[given])]
        given = given[kept]
        given = _without_nearest(select, ends, given, lost)
    points = _points(table.column("window_end"))
    given = given[np.argsort(points[given], kind="stable")]
    return given, np.isin(ends[given], corrected)


def _without_nearest(select: pa.Table, ends: Points, given: Points, lost: Points) -> Points:
    """The places given less, for each lost, the nearest given before it that differs in floats and arrays alone."""
    floats = [i for i, field in enumerate(select.schema) if pa.types.is_floating(field.type)]
    nested = [field for field in select.schema if pa.types.is_nested(field.type)]
    if not (floats or nested) or not lost.size:
        return given
    codes = _row_codes(select, ends, floats=False)
    columns = [np.nan_to_num(pc.fill_null(select.column(i), 0).to_numpy()) for i in floats]
    values = np.stack(columns, axis=1) if columns else np.zeros((select.num_rows, 1))
    left = np.ones(given.size, bool)
    for row in lost.tolist():
        alike = np.flatnonzero(left & (codes[given] == codes[row]) & (given < row))
        if alike.size:
            apart = np.abs(values[given[alike]] - values[row]).sum(axis=1)
            left[alike[int(np.argmin(apart))]] = False
    return given[left]


def _points(column: pa.ChunkedArray) -> Points:
    whole = column.combine_chunks()
    return np.asarray(whole.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _paired(some: Points, others: Points) -> Mask:
    """Which of `some` have a partner of their own among `others`, both with repeats."""
    most = int(max(some.size, others.size, 1))
    return np.isin(some * most + _occurrence(some), others * most + _occurrence(others))


def _occurrence(codes: Points) -> Points:
    """How many equal ones come before each."""
    order = np.argsort(codes, kind="stable")
    sorted_ = codes[order]
    begins = np.concatenate(([True], sorted_[1:] != sorted_[:-1])) if codes.size else np.empty(0, bool)
    starts = np.maximum.accumulate(np.where(begins, np.arange(codes.size), 0)) if codes.size else order
    out = np.empty(codes.size, np.int64)
    out[order] = np.arange(codes.size) - starts
    return out


def _row_codes(table: pa.Table, lead: Points, floats: bool = True) -> Points:
    """A number per row, equal where the rows are: NULL is equal to NULL, and NaN to NaN. Without `floats` all floats
    are equal."""
    codes = np.unique(lead, return_inverse=True)[1].astype(np.int64)
    for column in table.columns:
        codes = _paired_codes(codes, _codes(column, floats))
    return codes


def _paired_codes(codes: Points, more: Points) -> Points:
    packed = codes * (int(more.max(initial=0)) + 1) + more
    return np.asarray(np.unique(packed, return_inverse=True)[1], dtype=np.int64)


def _codes(column: pa.ChunkedArray | pa.Array, floats: bool = True) -> Points:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = whole.type
    if pa.types.is_null(kind) or not len(whole) or (pa.types.is_floating(kind) and not floats):
        return np.zeros(len(whole), np.int64)
    if pa.types.is_struct(kind):
        codes = np.asarray(whole.is_valid()).astype(np.int64)
        for part in whole.flatten():
            codes = _paired_codes(codes, _codes(part, floats))
        return codes
    if pa.types.is_list(kind):
        whole = _as_words(whole, floats)
    encoded = whole.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _as_words(lists: pa.ListArray, floats: bool) -> pa.Array:
    """Lists as words of the codes of their elements, which can be compared."""
    valid = lists.is_valid()
    elements = _codes(lists.flatten(), floats)
    lengths = np.where(np.asarray(valid), np.asarray(pc.fill_null(pc.list_value_length(lists), 0)), 0)
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64) * elements.itemsize
    words = pa.Array.from_buffers(
        pa.large_binary(), len(lists), [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(elements))]
    )
    return pc.if_else(valid, words, pa.scalar(None, pa.large_binary()))
