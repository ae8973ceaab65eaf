"""Revised answers (LATE REVISE): rows given and taken back, and the net rows that result.

A delivered table then has two more columns after is_revision. `op` is '+' for a row that holds from now on and '-' for
one that no longer holds. `revision` counts the corrections of the row's window; first answers have 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.answers.finishing import plain
from windrow.plan.nodes import Finalise
from windrow.synopses.cells.arrays import place_in_run
from windrow.windows import Points

OP, REVISION = "op", "revision"
GIVEN, TAKEN = "+", "-"
OP_FIELDS = (pa.field(OP, pa.string()), pa.field(REVISION, pa.int32()))
_HEAD = 3
"""The number of leading columns: window_start, window_end, is_revision."""

Mask = npt.NDArray[np.bool_]


def revised_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of revised answers."""
    fields = list(schema)
    return pa.schema([*fields[:_HEAD], *OP_FIELDS, *fields[_HEAD:]])


def first_answers(table: pa.Table) -> pa.Table:
    """First answers to windows, in the form in which revised answers are delivered."""
    return with_ops(table, pa.array(np.full(table.num_rows, GIVEN)), np.zeros(table.num_rows, np.int64))


def with_ops(table: pa.Table, ops: pa.Array, revisions: Points) -> pa.Table:
    """The table with `op` and `revision`; is_revision marks the corrections."""
    table = table.set_column(_HEAD - 1, "is_revision", pa.array(revisions > 0))
    table = table.add_column(_HEAD, OP_FIELDS[0], ops.cast(pa.string()))
    return table.add_column(_HEAD + 1, OP_FIELDS[1], pa.array(revisions.astype(np.int32)))


def difference(before: pa.Table, before_of: Points, after: pa.Table, after_of: Points) -> tuple[Points, Points]:
    """The indices of rows of `before` that no longer hold and of rows of `after` that are new, as bags per window.

    `before_of` and `after_of` give the window of each row.
    """
    rows = pa.concat_tables([plain(before), plain(after)], promote_options="permissive")
    codes = _row_codes(rows.select(range(_HEAD, rows.num_columns)), np.concatenate([before_of, after_of]))
    return _unpaired(codes, before.num_rows)


def bag_difference(before: pa.Table, after: pa.Table) -> tuple[Points, Points]:
    """`difference` for tables that hold only the columns to compare."""
    rows = pa.concat_tables([before, after], promote_options="permissive")
    return _unpaired(_row_codes(rows, np.zeros(rows.num_rows, np.int64)), before.num_rows)


def _unpaired(codes: Points, first: int) -> tuple[Points, Points]:
    """The indices in the first `first` codes and in the others that have no partner on the other side."""
    old, new = codes[:first], codes[first:]
    return np.flatnonzero(~_paired(old, new)), np.flatnonzero(~_paired(new, old))


def revisions_of(table: pa.Table) -> pa.Table:
    """All deliveries in order: op, revision, window_start, window_end, then the select list."""
    names = [name for name in table.column_names if name not in (OP, REVISION, "is_revision")]
    return table.select([OP, REVISION, *names])


def net_answers(table: pa.Table, plan: Finalise) -> pa.Table:
    """A query's net answers; the rows of corrected windows are in the query's order.

    Windows on row numbers are never revised. An ORDER BY on an expression that is not selected is not maintained.
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
    """The rank of each value."""
    distinct = column.unique().drop_null()
    order = pc.sort_indices(distinct).to_numpy()
    codes = pc.index_in(column, value_set=distinct)
    rank = np.empty(order.size + 1, np.int64)
    rank[order] = -np.arange(order.size) if descending else np.arange(order.size)
    rank[-1] = -order.size - 1 if nulls_first else order.size
    return np.asarray(rank[pc.fill_null(codes, order.size).to_numpy()])


def net_rows(table: pa.Table) -> pa.Table:
    """The rows that hold after all deliveries, in window order; is_revision marks rows of corrected windows.

    A row taken back cancels one that was given. Its floats may differ in the last digits, since the two were summed in
    different order, and values from sketches (floats, or arrays of items) within their error bound. It then cancels the
    nearest row whose other columns are equal. A row taken back cancels nothing if its '+' is no longer retained.
    """
    places, is_revised = net_places(table)
    out = plain(table).take(places).drop_columns([OP, REVISION])
    return out.set_column(_HEAD - 1, "is_revision", pa.array(is_revised))


def net_places(table: pa.Table) -> tuple[Points, Mask]:
    """The indices of the net rows in window order, and which of them belong to corrected windows."""
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
    """The indices given, less for each lost row the nearest earlier one that differs only in floats and arrays."""
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


def _paired(codes: Points, others: Points) -> Mask:
    """Which of `codes` have a partner of their own among `others`; both may have repeats."""
    most = int(max(codes.size, others.size, 1))
    return np.isin(codes * most + _occurrence(codes), others * most + _occurrence(others))


def _occurrence(codes: Points) -> Points:
    """For each code, how many equal ones come before it."""
    order = np.argsort(codes, kind="stable")
    out = np.empty(codes.size, np.int64)
    out[order] = place_in_run(codes[order])
    return out


def _row_codes(table: pa.Table, lead: Points, floats: bool = True) -> Points:
    """A number per row, equal for equal rows. NULL equals NULL, and NaN equals NaN; without `floats` all floats are
    equal."""
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
    """Lists as binary values made of the codes of their elements, which can be compared."""
    valid = lists.is_valid()
    elements = _codes(lists.flatten(), floats)
    lengths = np.where(np.asarray(valid), np.asarray(pc.fill_null(pc.list_value_length(lists), 0)), 0)
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64) * elements.itemsize
    words = pa.Array.from_buffers(
        pa.large_binary(), len(lists), [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(elements))]
    )
    return pc.if_else(valid, words, pa.scalar(None, pa.large_binary()))
