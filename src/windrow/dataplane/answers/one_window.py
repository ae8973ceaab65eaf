"""ORDER BY and LIMIT of a single window in Arrow: for plain columns a DuckDB statement would cost more than the rest.

This applies only if Arrow's order is certainly Spark's: integers, dates, timestamps and strings without NULL. (Arrow
places NULLs for the whole table, not per column, and orders NaN in its own way.)
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.plan.nodes import Finalise


def ordered_rows(plan: Finalise, columns: Mapping[str, pa.Array]) -> pa.Array | None:
    """The indices of the answer's rows in k0…, a0…, in order, ties broken by all output columns. None: use DuckDB."""
    named = [(o.expression, o.descending) for o in plan.order] + [(o.expression, False) for o in plan.outputs]
    if plan.having is not None or not all(isinstance(tree, exp.Column) for tree, _ in named):
        return None
    wanted: dict[str, str] = {}
    for tree, descending in named:
        wanted.setdefault(tree.name, "descending" if descending else "ascending")
    keys = {name: _comparable(columns[name]) for name in wanted}
    if any(key is None for key in keys.values()):
        return None
    rows = pc.sort_indices(pa.table(keys), sort_keys=list(wanted.items()))
    return rows if plan.limit is None else rows.slice(0, plan.limit)


def plain_column(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _comparable(column: pa.Array) -> pa.Array | None:
    column = plain_column(column)
    kind = column.type
    plain = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind)
    return column if (plain or pa.types.is_timestamp(kind)) and not column.null_count else None
