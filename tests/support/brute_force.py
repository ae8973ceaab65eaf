"""Aggregates in plain Python, from the tuples themselves, for comparison with synopses.

This shares nothing with the synopses: integers and decimals are exact, means are fractions, variances come from
`statistics`.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from windrow.plan.accumulators import Accumulator, AggregateCall
from windrow.plan.aggregates import decompose
from windrow.synopses.cells.cells import fold_of, state_of_rows
from windrow.synopses.cells.chunks import Cells, States
from windrow.synopses.cells.groups import Groups
from windrow.types import SqlType

EXACT = Context(prec=120)
MOMENTS = ("VARIANCE", "VAR_POP", "STDDEV", "STDDEV_POP")
PASSES = "passes"
"""The condition that a test's accumulators may have: the tuple's `passes` is true."""

TYPES = tuple(
    SqlType(name)
    for name in (
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(12,2)",
        "DECIMAL(18,4)",
        "DECIMAL(20,3)",
        "DECIMAL(38,0)",
        "STRING",
        "BINARY",
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP_NTZ",
        "BOOLEAN",
    )
)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


@dataclass(frozen=True)
class Row:
    """A tuple as a synopsis sees it: its pane, its group, the aggregated value, and whether it meets PASSES."""

    pane: int
    key: tuple[Any, ...]
    value: Any
    passes: bool = True


def functions_of(type_: SqlType) -> tuple[str, ...]:
    every = ("COUNT", "MIN", "MAX")
    return (*every, "SUM", "AVG", *MOMENTS) if type_.is_numeric else every


def calls_of(type_: SqlType, condition: str | None = None) -> list[AggregateCall]:
    return [decompose(function, "x", type_, condition) for function in functions_of(type_)]


def values_of(type_: SqlType) -> st.SearchStrategy[Any]:
    """Values of a type, including its extremes. Doubles are quarters, so that their sums are exact."""
    if type_.is_integer:
        top = 1 << (_BITS[type_.name] - 1)
        return st.sampled_from([top - 1, -top, top - 2, 0, 1, -1]) | st.integers(-100, 100)
    if type_.is_float:
        special = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0])
        return st.integers(-4000, 4000).map(lambda n: n / 4) | special
    if type_.is_decimal:
        precision, scale = type_.decimal
        top = 10**precision - 1
        unscaled = st.sampled_from([top, -top, top - 1, 0, 1, -1, 5]) | st.integers(-9999, 9999)
        return unscaled.map(lambda n: EXACT.scaleb(Decimal(n), -scale))
    by_name: dict[str, st.SearchStrategy[Any]] = {
        "STRING": st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        "BINARY": st.binary(max_size=3),
        "DATE": st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
        "TIMESTAMP": st.datetimes(timezones=st.just(dt.timezone.utc)),
        "TIMESTAMP_NTZ": st.datetimes(),
        "BOOLEAN": st.booleans(),
    }
    return by_name[type_.name]


def expected(call: AggregateCall, type_: SqlType, values: Iterable[Any]) -> Any:
    """The aggregate of these values (docs/semantics.md)."""
    present = [value for value in values if value is not None]
    if call.function == "COUNT":
        return len(present)
    if not present:
        return None
    if call.function in ("MIN", "MAX"):
        pick = min if call.function == "MIN" else max
        return pick(present, key=_order)
    if call.function in MOMENTS:
        return _moment(call.function, [float(value) for value in present])
    if type_.is_float:
        total = _double_sum(present)
        return total if call.function == "SUM" else total / len(present)
    total = sum(Fraction(value) for value in present)
    if type_.is_decimal:
        return _decimal(total if call.function == "SUM" else total / len(present), call.result)
    if call.function == "AVG":
        return float(total / len(present))
    return int(total) if -(1 << 63) <= total < 1 << 63 else None


def _order(value: Any) -> Any:
    """Spark's order: NaN above everything, strings by their UTF-8 bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def _double_sum(values: Sequence[float]) -> float:
    if any(math.isnan(value) for value in values) or (math.inf in values and -math.inf in values):
        return math.nan
    infinite = [value for value in values if math.isinf(value)]
    return infinite[0] if infinite else math.fsum(values)


def _decimal(value: Fraction, type_: SqlType) -> Decimal | None:
    """The value rounded half up to the type's scale; None if it does not fit its precision."""
    precision, scale = type_.decimal
    exact = EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))
    rounded = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    return rounded if EXACT.abs(EXACT.scaleb(rounded, scale)) < 10**precision else None


def _moment(function: str, values: Sequence[float]) -> float | None:
    sample = function in ("VARIANCE", "STDDEV")
    if len(values) <= sample:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(value) for value in values]
    variance = float(statistics.variance(exact) if sample else statistics.pvariance(exact))
    return math.sqrt(variance) if function.startswith("STDDEV") else variance


def same(found: Any, wanted: Any, rel: float = 1e-9) -> bool:
    """Equality, for doubles to 1e-9 relative."""
    if isinstance(wanted, float) and isinstance(found, float):
        if math.isnan(wanted) or math.isnan(found):
            return math.isnan(wanted) and math.isnan(found)
        return found == wanted or math.isclose(found, wanted, rel_tol=rel, abs_tol=1e-12)
    return type(found) is type(wanted) and bool(found == wanted)


# -- cells ------------------------------------------------------------------------------------------------


def takes(role: str, type_: SqlType, value: Any) -> bool:
    """Whether an accumulator in this role counts a value that is not null."""
    if not type_.is_float:
        return True
    tests = {"s": math.isfinite, "m": math.isfinite, "nan": math.isnan}
    if role in tests:
        return tests[role](value)
    return value == {"above": math.inf, "below": -math.inf}.get(role, value) or role in ("n", "v")


def roles_of(calls: Iterable[AggregateCall]) -> dict[Accumulator, tuple[str, str | None]]:
    """Every accumulator once, with its role and the condition of its call."""
    found: dict[Accumulator, tuple[str, str | None]] = {}
    for call in calls:
        base = call.part("n").condition
        for role, accumulator in call.parts:
            found.setdefault(accumulator, (role, base))
    return found


def cells_of(
    rows: Sequence[Row],
    accumulators: Mapping[Accumulator, tuple[str, str | None]],
    type_: SqlType,
    groups: Groups,
    key_types: Sequence[pa.DataType] = (),
    nobody: Sequence[bool] | None = None,
) -> Cells:
    """One cell per tuple; a synopsis must accept repeated cells."""
    keys = [pa.array([row.key[i] for row in rows], kind) for i, kind in enumerate(key_types)]
    ids = groups.ids(keys, np.array(nobody if nobody is not None else [False] * len(rows), bool))
    states: States = {}
    for accumulator, (role, base) in accumulators.items():
        at = [
            i
            for i, row in enumerate(rows)
            if (base is None or row.passes)
            and (accumulator.arg is None or (row.value is not None and takes(role, type_, row.value)))
        ]
        fold = fold_of(accumulator)
        values = None if accumulator.arg is None else pa.array([rows[i].value for i in at], type_.arrow)
        states[accumulator] = fold.identity(len(rows))
        fold.scatter_into(states[accumulator], np.array(at, np.int64), state_of_rows(accumulator, values, len(at)))
    return Cells(np.array([row.pane for row in rows], np.int64), ids, states)
