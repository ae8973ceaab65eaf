"""Decompose aggregates into accumulators, with Spark's result types."""

from __future__ import annotations

from collections.abc import Callable

from windrow.errors import BindError, UnsupportedError
from windrow.plan import holistic
from windrow.plan.accumulators import Accumulator, AggregateCall, Key, Kind, Parameter
from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.calls import Called as Called
from windrow.plan.sketched import SKETCHED
from windrow.types import SqlType, decimal_type

BIGINT, DOUBLE = SqlType("BIGINT"), SqlType("DOUBLE")

SUM, AVG = "SUM", "AVG"
MOMENT_FUNCTIONS = ("VARIANCE", "VAR_POP", "STDDEV", "STDDEV_POP")
FUNCTIONS = ("COUNT", SUM, AVG, "MIN", "MAX", *MOMENT_FUNCTIONS)


def _sum(arg: Key, condition: str | None) -> AggregateCall:
    return decompose(SUM, arg.sql, arg.type, condition)


DECOMPOSED: dict[str, Callable[[Called], AggregateCall]] = {
    "MEDIAN": holistic.median,
    "QUANTILE": holistic.quantile,
    COUNT_DISTINCT: holistic.count_distinct,
    "FREQUENT_ITEMS": holistic.frequent_items,
    "TOP_K": lambda called: holistic.top_k(called, _sum),
    **SKETCHED,
}
"""How to decompose aggregates with parameters or several arguments."""


def decompose(
    function: str,
    arg: str | None,
    type_: SqlType | None,
    condition: str | None,
    parameters: tuple[Parameter, ...] = (),
    more: tuple[Key, ...] = (),
) -> AggregateCall:
    """The accumulators of one aggregate over the rows that meet `condition` (WHERE and FILTER combined)."""
    if function == "COUNT":
        return AggregateCall(function, BIGINT, (("n", Accumulator(Kind.COUNT, arg, type_, condition)),))
    if arg is None or type_ is None:
        raise BindError(f"{function} needs an argument", remedy=f"For example {function}(x).")
    if function not in FUNCTIONS:
        if function not in DECOMPOSED:
            raise UnsupportedError(f"this version does not execute {function} yet", remedy="Leave it out.")
        return DECOMPOSED[function](Called(function, Key(arg, type_), more, parameters, condition))
    if function in ("MIN", "MAX"):
        kind = Kind.LEAST if function == "MIN" else Kind.GREATEST
        arg, type_ = (f"CAST({arg} AS STRING)", SqlType("STRING")) if type_.name == "VOID" else (arg, type_)
        return AggregateCall(
            function, type_, (_count(arg, type_, condition), ("v", Accumulator(kind, arg, type_, condition)))
        )
    arg, type_ = _numeric(function, arg, type_)
    if function in MOMENT_FUNCTIONS:
        return AggregateCall(function, DOUBLE, _moments(arg, type_, condition))
    if type_.is_float:
        return AggregateCall(function, DOUBLE, _double_sum(arg, type_, condition))
    if type_.is_decimal:
        precision, scale = type_.decimal
        added = (10, 0) if function == SUM else (4, 4)
        result = decimal_type(min(38, precision + added[0]), min(38, scale + added[1]))
        parts = (_count(arg, type_, condition), ("s", Accumulator(Kind.SUM_DECIMAL, arg, type_, condition)))
        return AggregateCall(function, result, parts)
    kind = Kind.SUM_LONG if type_.name == "BIGINT" else Kind.SUM_INT
    parts = (_count(arg, type_, condition), ("s", Accumulator(kind, arg, type_, condition)))
    return AggregateCall(function, BIGINT if function == SUM else DOUBLE, parts)


def _numeric(function: str, arg: str, type_: SqlType) -> tuple[str, SqlType]:
    """The argument as a number. Spark also takes texts, and NULL for those that are no number: too easily a mistake."""
    if type_.is_numeric:
        return arg, type_
    if type_.name == "VOID":
        return f"CAST({arg} AS DOUBLE)", DOUBLE
    number, note = ("DOUBLE", " Texts that are no numbers become NULL.") if type_.name == "STRING" else ("INT", "")
    raise BindError(
        f"{function} takes a number, and {arg} is {type_}",
        remedy=f"Cast it, for example {function}(CAST({arg} AS {number})).{note}",
    )


def _count(arg: str, type_: SqlType, condition: str | None) -> tuple[str, Accumulator]:
    return "n", Accumulator(Kind.COUNT, arg, type_, condition)


def _and(condition: str | None, more: str) -> str:
    return more if condition is None else f"({condition}) AND ({more})"


def _double_sum(arg: str, type_: SqlType, condition: str | None) -> tuple[tuple[str, Accumulator], ...]:
    """The finite sum and the counts of NaN, +∞ and −∞, so that a NaN has no effect after it leaves the window."""
    x = f"CAST({arg} AS DOUBLE)"
    return (
        _count(arg, type_, condition),
        ("s", Accumulator(Kind.SUM_DOUBLE, arg, type_, _and(condition, f"abs({x}) < double('Infinity')"))),
        ("nan", Accumulator(Kind.COUNT, arg, type_, _and(condition, f"isnan({arg})"))),
        ("above", Accumulator(Kind.COUNT, arg, type_, _and(condition, f"{x} = double('Infinity')"))),
        ("below", Accumulator(Kind.COUNT, arg, type_, _and(condition, f"{x} = double('-Infinity')"))),
    )


def _moments(arg: str, type_: SqlType, condition: str | None) -> tuple[tuple[str, Accumulator], ...]:
    if not type_.is_float:
        return (_count(arg, type_, condition), ("m", Accumulator(Kind.MOMENTS, arg, type_, condition)))
    finite = f"abs(CAST({arg} AS DOUBLE)) < double('Infinity')"
    return (
        _count(arg, type_, condition),
        ("m", Accumulator(Kind.MOMENTS, arg, type_, _and(condition, finite))),
    )
