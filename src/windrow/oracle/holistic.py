"""Aggregates that Spark SQL lacks, by their definition: in Spark SQL over all values, or in Python over all tuples.

QUANTILE is an element of the sorted values, MEDIAN is halfway between two. Approximate aggregates are computed exactly,
as the engine's are exact too on the few values of a test. TOP_K and FREQUENT_ITEMS collect every tuple of a window in
Spark and count them in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from typing import Any

from sqlglot import exp

from windrow.cql.dialect import OwnAggregate
from windrow.errors import UnsupportedError
from windrow.oracle.extents import Sliding

COLLECTED = ("TOP_K", "FREQUENT_ITEMS", "APPROX_TOP_K")
POINT = "__t"
_WIDE = Context(prec=76)


def _call(item: exp.Expr) -> OwnAggregate | None:
    item = item.unnest()
    inner = item.this if isinstance(item, exp.Filter) else item
    return inner if isinstance(inner, OwnAggregate) else None


def is_collected(item: exp.Expr) -> bool:
    call = _call(item)
    return call is not None and call.this in COLLECTED


def numbers_of(aggregate: exp.Expr) -> list[str]:
    """The arguments of a call that must be numbers: that of MEDIAN, and the weight of TOP_K."""
    call = _call(aggregate)
    if call is None or call.this not in ("MEDIAN", "TOP_K"):
        return []
    texts = [argument.sql(dialect="spark") for argument in call.expressions]
    return texts[:1] if call.this == "MEDIAN" else texts[2:]


def spark_text(whole: exp.Expr, point: str = f"`{POINT}`") -> str:
    """The Spark SQL of a call, with the FILTER around it. `point` is the text of a tuple's point."""
    call = _call(whole)
    assert call is not None
    where = f" FILTER(WHERE {whole.expression.this.sql(dialect='spark')})" if isinstance(whole, exp.Filter) else ""
    x, *more = (argument.sql(dialect="spark") for argument in call.expressions)
    if call.this == "MEDIAN":
        values = f"sort_array(collect_list(CAST({x} AS DOUBLE)){where})"
        low, high = (f"get({values}, CAST(floor((size({values}) - {less}) / 2) AS INT))" for less in (1, 0))
        return f"IF({low} = {high}, {low}, 0.5D * {low} + 0.5D * {high})"
    if call.this == "APPROX_COUNT_DISTINCT":
        return f"count(DISTINCT {x}){where}"
    if call.this in ("QUANTILE", "APPROX_QUANTILE"):
        x = x if call.this == "QUANTILE" else f"CAST({x} AS DOUBLE)"
        values = f"sort_array(collect_list({x}){where})"
        place = f"greatest(1, floor({Decimal(more[0]):f}BD * size({values})))"
        return f"get({values}, CAST({place} AS INT) - 1)"
    if call.this in COLLECTED:
        weight = more[1] if len(more) > 1 else "1L"
        return f"collect_list(struct({x} AS item, {weight} AS weight, {point} AS point)){where}"
    raise UnsupportedError(f"the oracle does not evaluate {call.this}")


def finisher(item: exp.Expr, shape: Any) -> Callable[[list[dict[str, Any]]], Any] | None:
    """The function from what a select item collected to its value; None if Spark computes the value."""
    call = _call(item)
    if call is None or call.this not in COLLECTED:
        return None
    k, is_weighted = int(call.expressions[1].name), len(call.expressions) > 2
    if call.this == "FREQUENT_ITEMS":
        return lambda tuples: _frequent([row for row in tuples if row["item"] is not None], k, shape)
    return lambda tuples: _top_k([row for row in tuples if row["item"] is not None], k, is_weighted)


def _top_k(tuples: Iterable[Mapping[str, Any]], k: int, is_weighted: bool) -> list[dict[str, Any]]:
    """The k items with the greatest totals, NULL totals last, ties by the item."""
    weights: dict[Any, tuple[Any, list[Any]]] = {}
    for row in tuples:
        weights.setdefault(_identity(row["item"]), (row["item"], []))[1].append(row["weight"])
    name = "total" if is_weighted else "count"
    entries = [{"item": item, name: _total(values)} for item, values in weights.values()]
    entries.sort(key=lambda entry: _order(entry["item"]))
    entries.sort(key=lambda entry: (entry[name] is not None, _order(entry[name])), reverse=True)
    return entries[:k]


def _frequent(tuples: Iterable[Mapping[str, Any]], k: int, shape: Any) -> dict[str, Any]:
    """Golab's dissertation, Algorithm 6, over the top-k lists of the panes that the edges of all windows cut. Without a
    shape all tuples are one pane."""
    if shape is not None and not isinstance(shape, Sliding):
        raise UnsupportedError("the oracle counts frequent items of sliding windows")
    panes: dict[Any, list[Mapping[str, Any]]] = {}
    for row in tuples:
        panes.setdefault(None if shape is None else _pane(row["point"], shape), []).append(row)
    lists = [_top_k(rows, k, False) for rows in panes.values()]
    least = [listed[-1]["count"] if len(listed) == k else 0 for listed in lists]
    threshold, found = sum(least), dict[Any, dict[str, Any]]()
    for listed, lowest in zip(lists, least, strict=True):
        for entry in listed:
            item = found.setdefault(_identity(entry["item"]), {"item": entry["item"], "count": 0, "at_most": threshold})
            item["count"] += entry["count"]
            item["at_most"] += entry["count"] - lowest
    frequent = [item for item in found.values() if item["count"] > threshold]
    frequent.sort(key=lambda item: _order(item["item"]))
    frequent.sort(key=lambda item: -item["count"])
    return {"threshold": threshold, "items": frequent}


def _pane(point: int, shape: Sliding) -> tuple[int, int]:
    begin = shape.origin - shape.offset
    return (point - begin) // shape.slide, (point - begin + shape.range) // shape.slide


def _identity(value: Any) -> Any:
    """One NaN, and one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _order(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else 0 if value is None else value


def _total(weights: list[Any]) -> Any:
    """SUM: NULL if there is no value, or if the total of integers or decimals does not fit its type."""
    known = [weight for weight in weights if weight is not None]
    if not known:
        return None
    if isinstance(known[0], Decimal):
        total = Decimal(0)
        for weight in known:
            total = _WIDE.add(total, weight)
        return total if len(total.as_tuple().digits) <= 38 else None
    total = sum(known)
    return total if isinstance(total, float) or -(1 << 63) <= total < 1 << 63 else None
