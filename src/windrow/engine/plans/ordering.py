"""ORDER BY of a continuous query: it orders the view, and the rows inside each answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.tables.kernel import Kernel, naive, types_of
from windrow.operators.tables.rows import longs, taken
from windrow.plan.algebra.nodes import ContinuousPlan


def ordered(plan: ContinuousPlan, table: pa.Table, kernel: Kernel, first: str | None = None) -> pa.Table:
    """The rows in the plan's order, ties by all columns of the select list, which are the last of the table. `first` is
    a column to sort by before. Without ORDER BY the table as it is."""
    if not plan.order or table.num_rows < 2:
        return table
    names = [column.sql for column in plan.schema]
    values = table.columns[table.num_columns - len(names) :]
    rows = {name: naive(column) for name, column in zip(names, values, strict=True)}
    types = types_of(plan.schema)
    by = [
        f"{kernel.final(one.expression, types).sql} {'DESC' if one.descending else 'ASC'} "
        f"NULLS {'FIRST' if one.nulls_first else 'LAST'}"
        for one in plan.order
    ]
    by += [f'"{name}" ASC NULLS FIRST' for name in names]
    if first is not None:
        rows["__first"] = table.column(first)
        by.insert(0, "__first ASC")
    source = pa.table({**rows, "__row": np.arange(table.num_rows)})
    done = kernel.query(f"SELECT __row FROM source ORDER BY {', '.join(by)}, __row", source=source)
    return taken(table, longs(done.column("__row")))
