"""The order of arrival, on which row numbers and ranks depend. It is the same on replay.

A source gives the position of a row in columns `__pos0…`, the first being the most significant. A SEQUENCE BY column
goes before them. Rows at the same position are ordered as in their Spark partition. Only admitted tuples are numbered.
Gathered rows are numbered in the driver. In a job that groups, Spark numbers them by a window over the whole
micro-batch, which sorts its rows in one partition.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from windrow.cql.names import quote_name
from windrow.plan.nodes import ROW_COLUMN
from windrow.synopses.cells.ordering import encode_doubles
from windrow.windows import Points

POSITION = "__pos"
"""The prefix of the columns in which a source gives a row's position."""

ORDER = "__order"
"""The prefix, in gathered rows, of the columns that define the order of arrival."""

PLACE = "__place"
"""In a job that groups: a tuple's position in the order of arrival, as one value."""


def order_columns(columns: Sequence[str], sequence_by: str | None) -> list[str]:
    """The columns that define the order of arrival, as Spark expressions."""
    named = [] if sequence_by is None else [quote_name(sequence_by)]
    return named + sorted(name for name in columns if name.startswith(POSITION))


def placed(rows: DataFrame, order: Sequence[str]) -> DataFrame:
    """The rows with the column PLACE."""
    return rows.selectExpr("*", f"struct({', '.join([*order, 'monotonically_increasing_id()'])}) AS {PLACE}")


def numbered(rows: DataFrame, before: str) -> DataFrame:
    """Placed rows with the row numbers of the admitted ones, continued from `before`."""
    number = f"{before} + row_number() OVER (PARTITION BY __reason IS NULL ORDER BY {PLACE})"
    return rows.selectExpr("*", f"CAST({number} AS BIGINT) AS {ROW_COLUMN}")


def numbers(table: pa.Table) -> Points:
    """The number of each row of a gathered table, from 1, in the order in which Spark would sort them.

    Rows of a file come together, so only the runs of rows at one position are sorted.
    """
    columns = [one for name in table.column_names if name.startswith(ORDER) for one in _sortable(table.column(name))]
    begins = _begins(columns, table.num_rows)
    lengths = np.diff(np.append(begins, table.num_rows))
    firsts = pa.table({str(i): column.take(pa.array(begins)) for i, column in enumerate(columns)})
    order = np.arange(begins.size)
    if begins.size > 1 and columns:
        order = pc.sort_indices(firsts, sort_keys=[(name, "ascending") for name in firsts.column_names]).to_numpy()
    before = np.empty(begins.size, np.int64)
    before[order] = np.cumsum(lengths[order]) - lengths[order]
    return np.arange(1, table.num_rows + 1) + np.repeat(before - begins, lengths)


def _sortable(column: pa.ChunkedArray) -> list[pa.Array]:
    """The column in a form that Arrow sorts as Spark does: nulls first, NaN above everything, −0.0 equal to 0.0."""
    whole = column.combine_chunks()
    if pa.types.is_floating(whole.type):
        values = pc.fill_null(whole.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        whole = pa.array(encode_doubles(values), mask=np.asarray(whole.is_null()))
    return [whole.is_valid().cast(pa.int8()), whole] if whole.null_count else [whole]


def _begins(columns: Sequence[pa.Array], rows: int) -> npt.NDArray[np.int64]:
    """The indices of rows whose position differs from the previous row's, including the first row."""
    differs = np.zeros(max(rows - 1, 0), bool)
    for column in columns:
        changes = pc.not_equal(column.slice(1), column.slice(0, max(rows - 1, 0)))
        differs |= pc.fill_null(changes, False).to_numpy(zero_copy_only=False)
    return np.concatenate([np.zeros(min(rows, 1), np.int64), np.flatnonzero(differs) + 1])
