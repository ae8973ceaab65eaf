"""Read aggregate calls: arguments, constant parameters, FILTER.

Constants are checked here and errors name their place: φ is the exact decimal in the text, k a whole number.
`aggregates.py` decomposes the call into accumulators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from windrow.cql.dialect import CQL, OwnAggregate
from windrow.errors import BindError, Place
from windrow.plan.accumulators import Key, Parameter

COUNT_DISTINCT = "COUNT(DISTINCT)"
MAX_K = 10_000
MAX_DIGITS = 9
"""The most digits of φ after the point; φ·N then stays exact in 64 bits."""

_ALGEBRAIC: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
    exp.Variance: "VARIANCE",
    exp.VariancePop: "VAR_POP",
    exp.Stddev: "STDDEV",
    exp.StddevSamp: "STDDEV",
    exp.StddevPop: "STDDEV_POP",
}


@dataclass(frozen=True)
class Called:
    """A call with parameters or several arguments, bound and checked.

    `more` are the arguments after the first: a weight, or the other columns of COUNT(DISTINCT …). `parameters` are
    its constants. `condition` is WHERE and FILTER combined.
    """

    function: str
    arg: Key
    more: tuple[Key, ...]
    parameters: tuple[Parameter, ...]
    condition: str | None


class ArgumentError(BindError):
    """An argument has a type that the aggregate does not accept; `at` is its index, not counting constants."""

    def __init__(self, message: str, at: int, remedy: str):
        super().__init__(message, remedy=remedy)
        self.at = at


PlaceOf = Callable[[exp.Expr | None], Place | None]


@dataclass(frozen=True)
class ParsedCall:
    """An aggregate call as written at `node`.

    `arguments` are all that are not constants: the value, then a weight or the other columns of COUNT(DISTINCT …).
    COUNT(*) has none.
    """

    function: str
    node: exp.Expr
    arguments: tuple[exp.Expr, ...]
    constants: tuple[exp.Expr, ...]
    condition: exp.Expr | None


@dataclass(frozen=True)
class Signature:
    """The arguments of an aggregate that CQL adds: a value, these constants, and a weight if it `weighs`."""

    shown: str
    constants: tuple[str, ...] = ()
    weighs: bool = False

    def fits(self, count: int) -> bool:
        return count - 1 - len(self.constants) in ((0, 1) if self.weighs else (0,))


SIGNATURES = {
    "MEDIAN": Signature("MEDIAN(x)"),
    "QUANTILE": Signature("QUANTILE(x, 0.9)", ("φ",)),
    "TOP_K": Signature("TOP_K(x, 10), or TOP_K(x, 10, weight)", ("k",), weighs=True),
    "FREQUENT_ITEMS": Signature("FREQUENT_ITEMS(x, 10)", ("k",)),
    "APPROX_COUNT_DISTINCT": Signature("APPROX_COUNT_DISTINCT(x)"),
    "APPROX_QUANTILE": Signature("APPROX_QUANTILE(x, 0.9)", ("φ",)),
    "APPROX_TOP_K": Signature("APPROX_TOP_K(x, 10)", ("k",)),
}


def written_call(node: exp.Expr) -> ParsedCall | None:
    """The aggregate call at a node, with its FILTER; None if the node is not an aggregate."""
    condition = None
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    if isinstance(node, OwnAggregate):
        constants = len(SIGNATURES[node.this].constants)
        first, rest = node.expressions[:1], node.expressions[1:]
        return ParsedCall(node.this, node, (*first, *rest[constants:]), tuple(rest[:constants]), condition)
    function = _ALGEBRAIC.get(type(node))
    if function is None:
        return None
    arg = node.this
    if isinstance(arg, exp.Distinct):
        return ParsedCall(COUNT_DISTINCT, node, tuple(arg.expressions), (), condition)
    counts_all = arg is None or isinstance(arg, exp.Star) or (function == "COUNT" and isinstance(arg, exp.Literal))
    return ParsedCall(function, node, () if counts_all else (arg,), (), condition)


def check_call(node: exp.Expr, place_of: PlaceOf) -> None:
    """Raise BindError if a call, with or without FILTER, has too few or too many arguments."""
    node = node.this if isinstance(node, exp.Filter) else node
    if isinstance(node, exp.Count) and node.this is None:
        raise BindError("COUNT needs an argument, or *", place=place_of(node), remedy="Write COUNT(*).")
    if not isinstance(node, OwnAggregate):
        return
    signature = SIGNATURES[node.this]
    if not signature.fits(len(node.expressions)):
        count = len(node.expressions)
        raise BindError(
            f"{node.this} does not take {count} argument{'' if count == 1 else 's'}",
            place=place_of(node),
            remedy=f"Write {signature.shown}.",
        )


def parameters_of(call: ParsedCall, place_of: PlaceOf) -> tuple[Parameter, ...]:
    """The values of a call's constants; raises BindError for one that is not a constant or out of range."""
    kinds = SIGNATURES[call.function].constants if call.constants else ()
    return tuple(_READ[kind](call.function, node, place_of) for kind, node in zip(kinds, call.constants, strict=True))


def _number(node: exp.Expr) -> Decimal | None:
    """The value of a number literal with its sign; None for anything else."""
    inner = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(inner, exp.Literal) or inner.is_string:
        return None
    try:
        value = Decimal(str(inner.this))
    except InvalidOperation:
        return None
    return -value if isinstance(node, exp.Neg) else value


def _phi(function: str, node: exp.Expr, place_of: PlaceOf) -> Decimal:
    value = _number(node)
    if value is None or not 0 <= value <= 1:
        raise BindError(
            f"{function} takes a number from 0 to 1, not {node.sql(dialect=CQL)}",
            place=place_of(node),
            remedy=f"For example {function}(x, 0.9), which nine tenths of the values do not exceed.",
        )
    if value != round(value, MAX_DIGITS):
        raise BindError(
            f"{function} takes a number of at most {MAX_DIGITS} digits after the point, not {node.sql(dialect=CQL)}",
            place=place_of(node),
            remedy="Leave out the last digits.",
        )
    return value


def _k(function: str, node: exp.Expr, place_of: PlaceOf) -> int:
    value = _number(node)
    if value is None or not str(node.this).isdigit() or not 1 <= value <= MAX_K:
        raise BindError(
            f"{function} takes a whole number from 1 to {MAX_K:,}, not {node.sql(dialect=CQL)}",
            place=place_of(node),
            remedy=f"For example {function}(x, 10).",
        )
    return int(value)


_READ: dict[str, Callable[[str, exp.Expr, PlaceOf], Parameter]] = {"φ": _phi, "k": _k}
