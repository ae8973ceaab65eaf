"""Decompose approximate aggregates into sketches, and check their arguments."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from windrow.errors import BindError, UnsupportedError
from windrow.plan.accumulators import Accumulator, AggregateCall, Key, Kind
from windrow.plan.calls import Called
from windrow.types import SqlType, array_type, struct_type

HAS_SKETCHES = find_spec("datasketches") is not None
"""Whether sketches can be merged: the package has no release for Python 3.14 yet."""

MOST_APPROXIMATE = 1000
"""The greatest k of APPROX_TOP_K; its sketch counts about 1,500 items."""


def _distinct(call: Called) -> AggregateCall:
    return AggregateCall(call.function, SqlType("BIGINT"), (("d", _sketch(call, Kind.HLL)),))


def _quantile(call: Called) -> AggregateCall:
    """The sketch does not accept NaN, so NaN in FLOAT and DOUBLE is counted separately."""
    arg = _typed(call.arg, "DOUBLE")
    if not arg.type.is_numeric:
        to = f"unix_date({arg.sql})" if arg.type.name == "DATE" else f"CAST({arg.sql} AS DOUBLE)"
        raise BindError(
            f"{call.function} takes a number, and {arg.sql} is {arg.type}",
            remedy=f"Make it one, for example {call.function}({to}, {call.parameters[0]}); QUANTILE takes any type.",
        )
    parts = [("q", _sketch(call, Kind.KLL))]
    if arg.type.is_float:
        nan = f"isnan({arg.sql})"
        condition = nan if call.condition is None else f"({call.condition}) AND ({nan})"
        parts.append(("nan", Accumulator(Kind.COUNT, arg.sql, arg.type, condition)))
    return AggregateCall(call.function, SqlType("DOUBLE"), tuple(parts), parameters=call.parameters)


def _top_k(call: Called) -> AggregateCall:
    if call.parameters[0] > MOST_APPROXIMATE:
        raise BindError(
            f"{call.function} returns at most {MOST_APPROXIMATE:,} items, not {call.parameters[0]}",
            remedy=f"TOP_K({call.arg.sql}, {call.parameters[0]}) counts every item.",
        )
    result = array_type(struct_type(item=_typed(call.arg).type, count=SqlType("BIGINT")))
    return AggregateCall(call.function, result, (("f", _sketch(call, Kind.FREQUENT)),), parameters=call.parameters)


def _sketch(call: Called, kind: Kind) -> Accumulator:
    if not HAS_SKETCHES:
        raise UnsupportedError(
            f"{call.function} needs the package datasketches, which is not installed",
            remedy="Install it, or use Python 3.10 to 3.13, for which `make setup` does.",
        )
    arg = _typed(call.arg, "DOUBLE" if kind is Kind.KLL else "STRING")
    return Accumulator(kind, arg.sql, arg.type, call.condition)


def _typed(arg: Key, void: str = "STRING") -> Key:
    """The argument; an untyped NULL is cast to `void`."""
    return Key(f"CAST({arg.sql} AS {void})", SqlType(void)) if arg.type.name == "VOID" else arg


SKETCHED: dict[str, Callable[[Called], AggregateCall]] = {
    "APPROX_COUNT_DISTINCT": _distinct,
    "APPROX_QUANTILE": _quantile,
    "APPROX_TOP_K": _top_k,
}
