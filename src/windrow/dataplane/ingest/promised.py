"""Which tuples or groups a promise covers: as Spark SQL, and vectorised over Arrow columns.

Promises of single values on the same columns are looked up together. Promises with ranges are applied one by one; they
are few.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.catalog.definitions import Punctuated
from windrow.cql.names import quote_name, quote_text
from windrow.cql.patterns import Condition
from windrow.dataplane.ingest.deposit import Mask, mask_of
from windrow.synopses.cells.groups import Groups
from windrow.types import POINT_MIN, SqlType, moment_of, point_of
from windrow.windows import Points
from windrow.windows.promises import ALWAYS, FARTHEST, Promise

Types = Mapping[str, SqlType]
Bounds = Callable[[Promise], int | None]


def promised_columns(promises: Iterable[Promise]) -> list[str]:
    """The columns of the conditions, each once."""
    return sorted({column for promise in promises for column in promise.columns})


# -- Spark SQL ---------------------------------------------------------------------------------------


MOST_LISTS = 16
"""If a column's values have more different bounds than this, they become one map lookup instead of a condition per
bound: Spark takes seconds to plan thousands of conditions.
"""

Below = Callable[[str, int | str], str]


def broken_sql(promises: Sequence[Promise], types: Types, below: Below) -> list[str]:
    """Conditions of which a tuple that breaks a promise meets at least one. `below` gives the SQL for an axis being
    below a point, or below an expression of type DECIMAL(18,0).

    Values of one column with the same bound become one IN list, which Spark looks up in a set.
    """
    lists: dict[tuple[str, int, str], list[Any]] = {}
    found = []
    for promise in promises:
        first = promise.conditions[0] if promise.conditions else None
        if first is not None and promise.is_of_values and len(promise.conditions) == 1 and first.values[0] is not None:
            lists.setdefault((promise.axis, promise.bound, first.column), []).append(first.values[0])
        else:
            found.append(_all_of(promise.axis, promise.bound, promise.conditions, types, below))
    maps: dict[tuple[str, str], dict[Any, int]] = {}
    different = Counter((axis, column) for axis, _, column in lists)
    for (axis, bound, column), values in lists.items():
        if bound < FARTHEST and different[axis, column] > MOST_LISTS:
            maps.setdefault((axis, column), {}).update(dict.fromkeys(values, bound))
        else:
            found.append(_all_of(axis, bound, (Condition(column, "IN", tuple(values)),), types, below))
    return found + [
        f"({below(axis, _looked_up_sql(column, known, types[column]))})" for (axis, column), known in maps.items()
    ]


def _looked_up_sql(column: str, known: Mapping[Any, int], kind: SqlType) -> str:
    """SQL for the bound of a column's value; NULL if nothing is promised for it."""
    keys = ", ".join(quote_text(value if isinstance(value, str) else str(value)) for value in known)
    bounds = ", ".join(f"{bound}L" for bound in known.values())
    return (
        f"element_at(map_from_arrays(CAST(array({keys}) AS ARRAY<{kind.name}>),"
        f" CAST(array({bounds}) AS ARRAY<DECIMAL(18,0)>)), {quote_name(column)})"
    )


def _all_of(axis: str, bound: int, conditions: Sequence[Condition], types: Types, below: Below) -> str:
    tests = [] if bound == ALWAYS else [below(axis, bound)]
    tests += [_condition_sql(condition, types[condition.column]) for condition in conditions]
    return f"({' AND '.join(tests)})"


def _condition_sql(condition: Condition, kind: SqlType) -> str:
    name, values = quote_name(condition.column), [_literal(value, kind) for value in condition.values]
    if condition.op == "=" and condition.values[0] is None:
        return f"{name} IS NULL"
    if condition.op == "IN":
        return f"{name} IN ({', '.join(values)})"
    return f"{name} {condition.op} {' AND '.join(values)}"


def _literal(value: Any, kind: SqlType) -> str:
    text = quote_text(value if isinstance(value, str) else str(value))
    return text if kind.name == "STRING" else f"CAST({text} AS {kind.name})"


# -- Arrow -------------------------------------------------------------------------------------------


def promised_bounds(
    promises: Sequence[Promise],
    columns: Mapping[str, pa.Array],
    rows: int,
    bound: Bounds = lambda promise: promise.bound,
) -> Points:
    """For each row the greatest bound of the promises whose conditions it meets; POINT_MIN if there is none."""
    found = np.full(rows, POINT_MIN, np.int64)
    together: dict[tuple[str, ...], list[Promise]] = {}
    for promise in promises:
        if bound(promise) is None:
            continue
        if promise.conditions and promise.is_of_values:
            together.setdefault(promise.columns, []).append(promise)
        else:
            mask = np.ones(rows, bool)
            for condition in promise.conditions:
                mask &= met(condition, columns[condition.column])
            found[mask] = np.maximum(found[mask], bound(promise) or 0)
    for names, alike in together.items():
        np.maximum(found, _looked_up(alike, [columns[name] for name in names], bound), out=found)
    return found


def bound_of_record(promises: Sequence[Promise], record: str, types: Types) -> int | None:
    """The greatest bound of the promises that a dead letter's record (Spark's JSON) meets; None if there is none."""
    bounded = [promise for promise in promises if not promise.is_for_ever]
    try:
        values = json.loads(record, parse_float=Decimal, parse_int=Decimal)
        columns = {name: pa.array([values.get(name)]).cast(types[name].arrow) for name in promised_columns(bounded)}
        found = int(promised_bounds(bounded, columns, 1)[0])
    except (ValueError, TypeError, ArithmeticError, AttributeError, pa.ArrowException):
        return None
    return None if found == POINT_MIN else found


def point_in_record(record: str, punctuated: Punctuated) -> int | None:
    """The point of a window attribute in a dead letter's record (Spark's JSON)."""
    try:
        value = json.loads(record).get(punctuated.column)
        return point_of(moment_of(value) if punctuated.type.is_timestamp else int(value), punctuated.type)
    except (ValueError, TypeError, ArithmeticError, AttributeError):
        return None


def _looked_up(promises: Sequence[Promise], columns: Sequence[pa.Array], bound: Bounds) -> Points:
    """For each row the bound of its values, from promises of single values on the same columns."""
    types = [column.type for column in columns]
    known = Groups(types)
    values = [[p.conditions[i].values[0] for p in promises] for i in range(len(columns))]
    ids_of_promises = known.ids([pa.array(listed, kind) for listed, kind in zip(values, types, strict=True)])
    greatest = np.full(known.count + 1, POINT_MIN, np.int64)
    np.maximum.at(greatest, ids_of_promises, np.array([bound(promise) for promise in promises], np.int64))
    unknown = known.count
    return np.asarray(greatest[np.minimum(known.ids(columns), unknown)])


def met(condition: Condition, column: pa.Array) -> Mask:
    """Which values meet a condition, compared as Spark SQL does: NULL meets only `= NULL`, NaN is above all numbers."""
    values = condition.values
    if condition.op == "=" and values[0] is None:
        return mask_of(column.is_null())
    floats = pa.types.is_floating(column.type)
    if floats:
        column = pc.add(column, pa.scalar(0.0, column.type))
    if condition.op == "IN":
        return mask_of(pc.is_in(column, value_set=pa.array(values, column.type)))
    least, *more = (pa.scalar(value, column.type) for value in values)
    if condition.op == "BETWEEN":
        return mask_of(pc.and_(pc.greater_equal(column, least), pc.less_equal(column, more[0])))
    found = mask_of(_COMPARE[condition.op](column, least))
    return found | mask_of(pc.is_nan(column)) if floats and condition.op in (">", ">=") else found


_COMPARE: dict[str, Callable[..., pa.Array]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
