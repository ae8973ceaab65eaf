"""The bound on the values that functions make, by definition: a call whose result is larger than the bound is NULL."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from windrow.oracle.spark_sql import Parts

_FUNCTIONS = frozenset(
    "BASE64 CONCAT_WS DECODE ENCODE FORMAT_NUMBER FORMAT_STRING HEX LPAD PRINTF QUOTE REGEXP_REPLACE REPEAT REPLACE "
    "RPAD SPACE TO_CHAR".split()
)


def bounded_parts(parts: Parts, most: int) -> Parts:
    """The clauses of a query with the bound applied to each call."""
    order = []
    for item in parts.order:
        item = item.copy()
        item.set("this", bounded(item.this, most))
        order.append(item)
    return replace(
        parts,
        items=tuple(bounded(item, most) for item in parts.items),
        where=None if parts.where is None else bounded(parts.where, most),
        keys=tuple(bounded(key, most) for key in parts.keys),
        having=None if parts.having is None else bounded(parts.having, most),
        order=tuple(order),
    )


def bounded(node: exp.Expr, most: int) -> exp.Expr:
    """An expression or a query with the bound applied to each call."""
    made = node.copy()
    for name, value in list(made.args.items()):
        if isinstance(value, exp.Expr):
            made.set(name, bounded(value, most))
        elif isinstance(value, list):
            made.set(name, [bounded(v, most) if isinstance(v, exp.Expr) else v for v in value])
    is_call = isinstance(made, exp.Anonymous) and made.name.upper() in _FUNCTIONS
    if not is_call and not isinstance(made, exp.Concat | exp.DPipe | exp.Overlay):
        return made
    size = exp.Anonymous(this="OCTET_LENGTH", expressions=[made.copy()])
    too_large = exp.GT(this=size, expression=exp.Literal.number(str(most)))
    return exp.If(this=too_large, true=exp.Null(), false=made)
