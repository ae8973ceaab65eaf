"""Rolled-up aggregates, holistic and others, equal brute force over the tuples."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.plan.accumulators import AggregateCall, Key
from windrow.plan.aggregates import decompose
from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.nodes import Attribute, Scan, Selection, WindowAggregate
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.value_codes import coded
from windrow.synopses.holistic.roll_up import rows_of
from windrow.synopses.lookups import LookupAnswer
from windrow.types import SqlType
from windrow.windows import SlidingWindow

BIGINT, DOUBLE, STRING, INT = (SqlType(name) for name in ("BIGINT", "DOUBLE", "STRING", "INT"))
WINDOWS = 3
PHIS = (Decimal(0), Decimal("0.29"), Decimal("0.5"), Decimal(1))
CALLS = {
    "n": decompose("COUNT", None, None, None),
    "total": decompose("SUM", "w", INT, None),
    "distinct": decompose(COUNT_DISTINCT, "x", DOUBLE, None),
    "pairs": decompose(COUNT_DISTINCT, "x", DOUBLE, None, (), (Key("y", STRING),)),
    "median": decompose("MEDIAN", "x", DOUBLE, None),
    "top": decompose("TOP_K", "y", STRING, None, (2,)),
    "weighed": decompose("TOP_K", "x", DOUBLE, None, (2,), (Key("w", INT),)),
    **{f"q{phi}": decompose("QUANTILE", "x", DOUBLE, None, (phi,)) for phi in PHIS},
}

rows = st.lists(
    st.tuples(
        st.integers(0, WINDOWS - 1),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, -math.inf, -1.5, -0.0, 0.0, 2.0, math.nan]),
        st.sampled_from([None, "", "é", "z", "ä"]),
        st.one_of(st.none(), st.integers(-5, 5)),
    ),
    max_size=40,
)


def aggregate_of(keys: tuple[Key, ...], calls: dict[str, AggregateCall]) -> WindowAggregate:
    window = SlidingWindow(range=1, slide=1)
    return WindowAggregate(Selection(Scan("s", Attribute("t", BIGINT)), None), window, keys, tuple(calls.values()))


def looked_of(aggregate: WindowAggregate, tuples: list[Any]) -> tuple[LookupAnswer, Groups]:
    """What a synopsis keyed by k, x and y would have looked up."""
    at = {"k": 1, "x": 2, "y": 3}
    groups = Groups([key.type.arrow for key in aggregate.cell_keys])
    columns = [pa.array([row[at[key.sql]] for row in tuples], key.type.arrow) for key in aggregate.cell_keys]
    ids = groups.ids(columns) if tuples else np.empty(0, np.int64)
    cells = sorted({(row[0], cell) for row, cell in zip(tuples, ids.tolist(), strict=True)})
    place = {cell: i for i, cell in enumerate(cells)}
    states = {}
    for accumulator in aggregate.accumulators:
        state = np.zeros(len(cells), np.int64)
        for row, cell in zip(tuples, ids.tolist(), strict=True):
            weight = 1 if accumulator.arg is None else row[4]
            if accumulator.kind.name == "COUNT":
                state[place[row[0], cell]] += weight is not None
            else:
                state[place[row[0], cell]] += weight or 0
        states[accumulator] = (state,)
    window, group = (np.array([cell[i] for cell in cells], np.int64) for i in (0, 1))
    return LookupAnswer("q", WINDOWS, window, group, states), groups


def identity(x: Any) -> Any:
    return "NaN" if isinstance(x, float) and math.isnan(x) else x + 0.0 if isinstance(x, float) else x


def order(x: Any) -> Any:
    return (math.isnan(x), x) if isinstance(x, float) else x.encode()


def expected(name: str, call: AggregateCall, tuples: list[Any]) -> Any:
    xs = sorted((row[2] for row in tuples if row[2] is not None), key=order)
    if name == "n":
        return len(tuples)
    if name == "total":
        known = [row[4] for row in tuples if row[4] is not None]
        return sum(known) if known else None
    if name == "distinct":
        return len({identity(x) for x in xs})
    if name == "pairs":
        return len({(identity(row[2]), row[3]) for row in tuples if row[2] is not None and row[3] is not None})
    if name == "median":
        return None if not xs else math.nan if any(map(math.isnan, xs[len(xs) // 2 : len(xs) // 2 + 1])) else middle(xs)
    if name == "top":
        counts = Counter(row[3] for row in tuples if row[3] is not None)
        return [{"item": i, "count": n} for i, n in sorted(counts.items(), key=lambda e: (-e[1], e[0].encode()))[:2]]
    if name == "weighed":
        return weighed(tuples)
    return xs[max(1, math.floor(Fraction(call.parameters[0]) * len(xs))) - 1] if xs else None


def middle(xs: list[float]) -> float:
    low, high = xs[(len(xs) - 1) // 2], xs[len(xs) // 2]
    return low if identity(low) == identity(high) else statistics.fmean([low, high])


def weighed(tuples: list[Any]) -> list[dict[str, Any]]:
    totals: dict[Any, Any] = {}
    items = {identity(row[2]): row[2] for row in tuples if row[2] is not None}
    for key in items:
        known = [row[4] for row in tuples if row[2] is not None and identity(row[2]) == key and row[4] is not None]
        totals[key] = sum(known) if known else None
    by = sorted(items, key=lambda key: (totals[key] is None, -(totals[key] or 0), order(items[key])))
    return [{"item": items[key], "total": totals[key]} for key in by[:2]]


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and alike(list(a.values()), list(b.values()))
    return bool(identity(a) == identity(b))


@pytest.mark.parametrize("names", [["distinct", "median"], list(CALLS)], ids=["one value", "several values"])
@pytest.mark.parametrize("keys", [(), (Key("k", STRING),), (Key("k", STRING), Key("x", DOUBLE))], ids=len)
@settings(deadline=None)
@given(tuples=rows)
def test_roll_up_equals_brute_force(keys: tuple[Key, ...], names: list[str], tuples: list[Any]) -> None:
    calls = {name: CALLS[name] for name in names}
    aggregate = aggregate_of(keys, calls)
    looked, groups = looked_of(aggregate, tuples)
    rolled = rows_of(aggregate, looked, groups)
    key_columns = [
        (c.dictionary_decode() if pa.types.is_dictionary(c.type) else c).to_pylist()
        for c in groups.key_columns(rolled.cells, len(keys))
    ]
    assert (np.diff(rolled.window) >= 0).all()
    found = {}
    for i, window in enumerate(rolled.window.tolist()):
        found[(window, *(identity(column[i]) for column in key_columns))] = [
            rolled.result(call)[i].as_py() for call in calls.values()
        ]
    at = {"k": 1, "x": 2}
    parts: dict[Any, list[Any]] = {} if keys else {(window,): [] for window in range(WINDOWS)}
    for row in tuples:
        parts.setdefault((row[0], *(identity(row[at[key.sql]]) for key in keys)), []).append(row)
    assert found.keys() == parts.keys()
    for slot, mine in parts.items():
        wanted = [expected(name, call, mine) for name, call in calls.items()]
        assert alike(found[slot], wanted), (slot, found[slot], wanted)


def test_codes_follow_the_order_of_values() -> None:
    found = coded(pa.array([2.0, None, math.nan, -1.0, 2.0]))
    assert found.codes.tolist() == [1, -1, 2, 0, 1] and found.values.to_pylist()[:2] == [-1.0, 2.0]
    assert coded(pa.array(["ä", "z", "é"])).codes.tolist() == [1, 0, 2]


def test_overflowing_total_is_null_and_counted() -> None:
    calls = {"top": decompose("TOP_K", "y", STRING, None, (3,), (Key("w", BIGINT),))}
    aggregate = aggregate_of((), calls)
    groups = Groups([pa.string()])
    groups.ids([pa.array(["a", "b"])])
    ones, high = np.ones(2, np.int64), np.array([1 << 31, 1], np.int64)
    states = {a: (high, ones) if a.kind.name == "SUM_LONG" else (ones,) for a in aggregate.accumulators}
    rolled = rows_of(aggregate, LookupAnswer("q", 1, np.zeros(2, np.int64), np.array([1, 2]), states), groups)
    (call,) = calls.values()
    assert rolled.result(call).to_pylist() == [[{"item": "b", "total": (1 << 32) + 1}, {"item": "a", "total": None}]]
    assert rolled.overflows(aggregate.aggregates) == 1
