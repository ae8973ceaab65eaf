"""Functions whose results may be much larger than their arguments, and the sizes of these results in bytes.

`SIZES` gives the size of a call as expressions of its arguments, each a better estimate than the one before: a call is
too large if all of them are.
Where the result is at most a few times as large as the arguments, its size is measured afterwards (`AFTERWARDS`).
The other allowed functions shorten their arguments, keep their length, or grow them once by a small factor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

Sizes = Callable[[Sequence[exp.Expr]], list[exp.Expr]]

AFTERWARDS = frozenset("BASE64 DECODE ENCODE HEX OVERLAY QUOTE TO_CHAR".split())
"""Functions that may run before their result is measured. Nested, each of them grows exponentially."""

CONVERSION = re.compile(r"%(?:\d+\$)?[-#+ 0,(<]*(\d*)(?:\.(\d+))?([a-zA-Z%])?")
_LONGEST_NUMBER = 400
"""No number has more characters without a width, a precision or decimals of its own."""


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def number(value: int) -> exp.Expr:
    """A BIGINT."""
    return exp.Literal.number(f"{value}L") if value >= 0 else exp.Neg(this=exp.Literal.number(f"{-value}L"))


def octets(value: exp.Expr) -> exp.Expr:
    return exp.cast(call("OCTET_LENGTH", value), "BIGINT")


def _whole(value: exp.Expr) -> exp.Expr:
    """A count of repetitions or characters as Spark takes it: an INT."""
    return exp.cast(exp.cast(value.copy(), "INT"), "BIGINT")


def total(terms: Sequence[exp.Expr]) -> exp.Expr:
    """The sum of any number of terms, as a tree of small depth."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return exp.paren(exp.Add(this=total(terms[:half]), expression=total(terms[half:])), copy=False)


def _product(*factors: exp.Expr) -> exp.Expr:
    product = factors[0]
    for factor in factors[1:]:
        product = exp.Mul(this=product, expression=factor)
    return exp.paren(product, copy=False)


def _occurrences(text: exp.Expr, part: exp.Expr) -> exp.Expr:
    """How often a part occurs in a text; NULL for an empty part."""
    without = octets(call("REPLACE", text, part, exp.Literal.string("")))
    missing = exp.paren(exp.Sub(this=octets(text), expression=without), copy=False)
    return exp.paren(exp.IntDiv(this=missing, expression=octets(part)), copy=False)


def _repeat(args: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [_product(octets(args[0]), exp.Greatest(this=_whole(args[1]), expressions=[number(0)]))]


def _replace(args: Sequence[exp.Expr]) -> list[exp.Expr]:
    """At most, then exactly, which searches the text."""
    text, old, new = args
    growth = exp.paren(exp.Sub(this=octets(new), expression=octets(old)), copy=False)
    most = _product(octets(text), exp.Greatest(this=octets(new), expressions=[number(1)]))
    return [most, total([octets(text), _product(_occurrences(text, old), growth)])]


def _replace_matches(args: Sequence[exp.Expr]) -> list[exp.Expr]:
    """At most: the text, the replacement for each match, and for each $ the text once more; a group in a look-ahead or
    look-behind may repeat the text with each match."""
    text, pattern, new = args[:3]
    signs = _occurrences(new, exp.Literal.string("$"))
    longest = total([octets(new), _product(signs, octets(text))])
    most = total([octets(text), _product(total([octets(text), number(1)]), longest)])
    matches = exp.cast(call("REGEXP_COUNT", text, pattern), "BIGINT")
    looks = exp.Or(
        this=call("CONTAINS", pattern, exp.Literal.string("(?=")),
        expression=call("CONTAINS", pattern, exp.Literal.string("(?<=")),
    )
    times = exp.If(this=looks, true=matches.copy(), false=number(1))
    repeated = _product(signs.copy(), octets(text), times)
    return [most, total([octets(text), _product(matches, octets(new)), repeated])]


def _concatenation(args: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [total([octets(argument) for argument in args])]


def _joined(args: Sequence[exp.Expr]) -> list[exp.Expr]:
    """CONCAT_WS leaves out NULLs."""
    separator, *parts = args
    present = [exp.If(this=call("ISNOTNULL", part), true=number(1), false=number(0)) for part in parts]
    between = exp.Greatest(this=exp.Sub(this=total(present), expression=number(1)), expressions=[number(0)])
    lengths = [exp.Coalesce(this=octets(part), expressions=[number(0)]) for part in parts]
    return [total([*lengths, _product(octets(separator), between)])]


def _format_number(args: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [total([_whole(args[1]), number(_LONGEST_NUMBER)])]


def _formatted(args: Sequence[exp.Expr]) -> list[exp.Expr]:
    """At most: the format, its widths, and every argument for each %."""
    form, *values = args
    signs = _occurrences(form, exp.Literal.string("%"))
    lengths = [exp.Coalesce(this=octets(value), expressions=[number(4)]) for value in values]
    each = total([*lengths, number(_LONGEST_NUMBER)])
    return [total([octets(form), _widths(form), _product(signs, each)])]


def _widths(form: exp.Expr) -> exp.Expr:
    """The sum of the numbers in a format."""
    if isinstance(form, exp.Literal) and form.is_string:
        digits = (part for match in CONVERSION.finditer(form.name) for part in match.group(1, 2) if part)
        return number(min(sum(int(part[:12]) for part in digits), 10**15))
    numbers = call("REGEXP_EXTRACT_ALL", form, exp.Literal.string("[0-9]+"), exp.Literal.number("0"))
    added = exp.Lambda(
        this=exp.Add(this=exp.to_identifier("__sum"), expression=exp.cast(exp.to_identifier("__one"), "DOUBLE")),
        expressions=[exp.to_identifier("__sum"), exp.to_identifier("__one")],
    )
    return exp.cast(exp.Anonymous(this="AGGREGATE", expressions=[numbers, exp.Literal.number("0D"), added]), "BIGINT")


SIZES: dict[str, Sizes] = {
    "CONCAT": _concatenation,
    "CONCAT_WS": _joined,
    "FORMAT_NUMBER": _format_number,
    "FORMAT_STRING": _formatted,
    "LPAD": lambda args: [_whole(args[1])],
    "PRINTF": _formatted,
    "REGEXP_REPLACE": _replace_matches,
    "REPEAT": _repeat,
    "REPLACE": _replace,
    "RPAD": lambda args: [_whole(args[1])],
    "SPACE": lambda args: [_whole(args[0])],
}
"""The sizes of a call, by function; `||` is CONCAT. NULL: the call makes nothing large."""

BOUNDED = frozenset(SIZES) | AFTERWARDS

_LEAST_ARGUMENTS = {"CONCAT_WS": 2, "FORMAT_NUMBER": 2, "LPAD": 2, "RPAD": 2, "REPEAT": 2, "REPLACE": 3}
_LEAST_ARGUMENTS |= {"REGEXP_REPLACE": 3, "DECODE": 2}


def bounded_name(node: exp.Expr) -> str | None:
    """The name of the bounded function that a node calls; None for other nodes."""
    if isinstance(node, exp.DPipe | exp.Concat):
        return "CONCAT"
    if isinstance(node, exp.Overlay):
        return "OVERLAY"
    name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    if name not in BOUNDED or len(node.expressions) < _LEAST_ARGUMENTS.get(name, 1):
        return None
    # DECODE of more than two arguments returns one of them.
    return None if name == "DECODE" and len(node.expressions) > 2 else name


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a bounded call; `a || b || c` is one call."""
    return list(node.flatten(unnest=False)) if isinstance(node, exp.DPipe) else list(node.expressions)


def is_inner(node: exp.Expr) -> bool:
    """Whether the node is a part of a longer chain of `||`."""
    return isinstance(node, exp.DPipe) and isinstance(node.parent, exp.DPipe)
