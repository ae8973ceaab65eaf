"""Sketches: merging cells in any order equals one sketch over all values; shared sketches never change."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.errors import BindError
from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.aggregates import decompose
from windrow.synopses.answering.pane_tables import can_be_tabled
from windrow.synopses.cells.cells import from_columns, partial_sql, state_of_rows, to_columns
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.folds import State
from windrow.synopses.cells.sketches import KLL_K, LG_K, LG_MAP, MOST_ITEMS, SketchFold, held_bytes, objects
from windrow.synopses.kinds.basic_interval import BasicIntervalSynopsis
from windrow.synopses.lookups import Lookup
from windrow.synopses.results.approximate import distinct_estimate, element_at, top_items
from windrow.synopses.results.values import result_of
from windrow.types import SqlType

ds = pytest.importorskip("datasketches")

some = settings(max_examples=25, deadline=None)
KINDS = (Kind.HLL, Kind.KLL, Kind.FREQUENT)
VALUES = st.lists(st.integers(0, 40), max_size=12)


def sketch(kind: Kind, values: Sequence[int]) -> Any:
    """The sketch that Spark makes of a cell's values; None without values."""
    if not len(values):
        return None
    if kind is Kind.HLL:
        made = ds.hll_sketch(LG_K, ds.tgt_hll_type.HLL_8)
        for value in values:
            made.update(int(value))
        return made.serialize_compact()
    if kind is Kind.KLL:
        made = ds.kll_doubles_sketch(KLL_K)
        made.update(np.asarray(values, np.float64))
        return made.serialize()
    made = ds.frequent_strings_sketch(LG_MAP)
    for value, count in Counter(np.asarray(values).tolist()).items():
        made.update(str(value), count)
    return made


def told(kind: Kind, element: Any) -> Any:
    """The content of a sketch, for comparison; exact for few values."""
    if element is None:
        return None
    if kind is Kind.HLL:
        return round(distinct_estimate(element))
    if kind is Kind.KLL:
        kll = ds.kll_doubles_sketch.deserialize(element)
        return [element_at(kll, p) for p in range(1, kll.n + 1)]
    return top_items(element, 100, SqlType("INT"))


def expected(kind: Kind, values: Sequence[int]) -> Any:
    if not values:
        return None
    if kind is Kind.HLL:
        return len(set(values))
    if kind is Kind.KLL:
        return sorted(values)
    return sorted(Counter(values).items(), key=lambda one: (-one[1], one[0]))


def column(kind: Kind, lists: Sequence[Sequence[int]]) -> State:
    return (objects(sketch(kind, values) for values in lists),)


@pytest.mark.parametrize("kind", KINDS)
@given(lists=st.lists(VALUES, min_size=1, max_size=8))
@some
def test_reduce_scatter_and_merge_equal_one_sketch(kind: Kind, lists: list[list[int]]) -> None:
    fold, state = SketchFold(kind), column(kind, lists)
    before = [told(kind, element) for element in state[0]]
    whole = expected(kind, [value for values in lists for value in values])
    assert told(kind, fold.reduce([state[0].reshape(-1, 1)])[0][0]) == whole
    assert told(kind, fold.reduce(state)[0]) == whole

    scattered = fold.identity(3)
    fold.scatter_into(scattered, np.ones(len(lists), np.int64), state)
    fold.scatter_into(scattered, np.array([0]), column(kind, [[]]))
    assert [told(kind, element) for element in scattered[0]] == [None, whole, None]

    for order in (state[0], state[0][::-1]):
        into = fold.identity(1)
        for element in order:
            fold.merge_into(into, (objects([element]),))
        assert told(kind, into[0][0]) == whole
    assert [told(kind, element) for element in state[0]] == before


@pytest.mark.parametrize("kind", KINDS)
@given(a=VALUES, b=VALUES, c=VALUES)
@some
def test_merge_laws(kind: Kind, a: list[int], b: list[int], c: list[int]) -> None:
    fold = SketchFold(kind)
    left, right, bc = column(kind, [a]), column(kind, [a]), column(kind, [b])
    fold.merge_into(left, column(kind, [b]))
    fold.merge_into(left, column(kind, [c]))
    fold.merge_into(bc, column(kind, [c]))
    fold.merge_into(right, bc)
    fold.merge_into(right, fold.identity(1))
    assert told(kind, left[0][0]) == told(kind, right[0][0]) == expected(kind, a + b + c)


@pytest.mark.parametrize("kind", KINDS)
def test_taken_answer_does_not_change(kind: Kind) -> None:
    """A pass goes on merging into the same arrays for the next, longer window."""
    fold, running = SketchFold(kind), SketchFold(kind).identity(1)
    fold.merge_into(running, column(kind, [[1, 2]]))
    taken = running[0][0]
    fold.merge_into(running, column(kind, [[3]]))
    assert told(kind, taken) == expected(kind, [1, 2]) and told(kind, running[0][0]) == expected(kind, [1, 2, 3])


@pytest.mark.parametrize("kind", KINDS)
def test_sketch_round_trip(kind: Kind) -> None:
    accumulator = Accumulator(kind, "x", SqlType("INT"), None)
    lists = [[1, 2, 2], [], list(range(300))]
    table = pa.table(to_columns(accumulator, column(kind, lists)))
    assert table.column(0).type == pa.binary() and table.column(0).null_count == 1
    read = from_columns(accumulator, table)
    assert read is not None
    assert [told(kind, element) for element in read[0][:2]] == [expected(kind, values) for values in lists[:2]]
    assert pa.table(to_columns(accumulator, read)).num_rows == 3 and read[0][2] is not None


def test_empty_sketches() -> None:
    empty = {
        Kind.HLL: ds.hll_sketch(LG_K, ds.tgt_hll_type.HLL_8).serialize_compact(),
        Kind.KLL: ds.kll_doubles_sketch(KLL_K).serialize(),
        Kind.FREQUENT: ds.frequent_strings_sketch(LG_MAP).serialize(),
    }
    for kind, data in empty.items():
        accumulator = Accumulator(kind, "x", SqlType("INT"), None)
        state = from_columns(accumulator, pa.table({f"{accumulator.id}_0": pa.array([data], pa.binary())}))
        assert state is not None and state[0][0] is None


# -- many values: within the bounds -------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> list[np.ndarray[Any, Any]]:
    """Sixty cells of 3,000 values each: a few frequent ones, many rare ones."""
    draw = np.random.default_rng(7)
    return [draw.zipf(1.3, 3_000).clip(max=1_000_000).astype(np.int64) for _ in range(60)]


def test_distinct_counts_within_bound(large: list[np.ndarray[Any, Any]]) -> None:
    fold, state = SketchFold(Kind.HLL), column(Kind.HLL, large)
    exact = len(np.unique(np.concatenate(large)))
    estimates = set()
    for order in (slice(None), slice(None, None, -1)):
        estimates.add(distinct_estimate(fold.reduce([state[0][order].reshape(-1, 1)])[0][0]))
        into = fold.identity(1)
        fold.scatter_into(into, np.zeros(30, np.int64), (state[0][order][:30],))
        fold.scatter_into(into, np.zeros(30, np.int64), (state[0][order][30:],))
        estimates.add(distinct_estimate(into[0][0]))
    estimates.add(distinct_estimate(sketch(Kind.HLL, np.concatenate(large))))
    assert len(estimates) == 1
    assert abs(estimates.pop() / exact - 1) < 3 * 1.04 / math.sqrt(1 << LG_K)


def test_quantiles_within_bound(large: list[np.ndarray[Any, Any]]) -> None:
    draw = np.random.default_rng(11)
    cells = [draw.normal(size=3_000) for _ in large]
    merged = SketchFold(Kind.KLL).reduce([column(Kind.KLL, cells)[0].reshape(-1, 1)])[0][0]
    kll, everything = ds.kll_doubles_sketch.deserialize(merged), np.sort(np.concatenate(cells))
    assert kll.n == everything.size and kll.is_estimation_mode()
    for phi in (0.01, 0.25, 0.5, 0.9, 0.99):
        found = element_at(kll, max(1, int(phi * kll.n)))
        assert abs(np.searchsorted(everything, found) / everything.size - phi) < 2 * 0.0133
    assert element_at(kll, 1) == everything[0] and element_at(kll, kll.n) == everything[-1]


def test_top_items_within_bound(large: list[np.ndarray[Any, Any]]) -> None:
    merged = SketchFold(Kind.FREQUENT).reduce([column(Kind.FREQUENT, large)[0].reshape(-1, 1)])[0][0]
    exact = Counter(np.concatenate(large).tolist())
    rows = sum(exact.values())
    assert len(exact) > MOST_ITEMS
    found = top_items(merged, 10, SqlType("BIGINT"))
    for item, count in found:
        assert 0 <= count - exact[item] <= 3.5 / (1 << LG_MAP) * rows
    assert {item for item, _ in found[:5]} == {item for item, _ in exact.most_common(5)}


# -- values ------------------------------------------------------------------------------------


def test_positions_equal_quantile() -> None:
    for n in (1, 2, 3, 7, 10, 199, KLL_K):
        kll = ds.kll_doubles_sketch.deserialize(sketch(Kind.KLL, list(range(1, n + 1))))
        assert [element_at(kll, p) for p in range(1, n + 1)] == list(range(1, n + 1))


def quantiles(values: Sequence[float], phi: str, type_: str = "DOUBLE") -> list[float | None]:
    call = decompose("APPROX_QUANTILE", "x", SqlType(type_), None, (Decimal(phi),))
    numbers = [value for value in values if not math.isnan(value)]
    states = {call.part("q"): column(Kind.KLL, [numbers])}
    if "nan" in dict(call.parts):
        states[call.part("nan")] = (np.array([len(values) - len(numbers)]),)
    found: list[float | None] = result_of(call, states).to_pylist()
    return found


@given(values=st.lists(st.floats(allow_nan=True), max_size=30), phi=st.integers(0, 100))
@some
def test_small_quantile_is_exact(values: list[float], phi: int) -> None:
    ordered = sorted(values, key=lambda value: (math.isnan(value), value))
    position = max(1, math.floor(Fraction(phi, 100) * len(values)))
    wanted = ordered[position - 1] if values else None
    found = quantiles(values, f"{phi / 100:.2f}")[0]
    assert found == wanted or (found is not None and wanted is not None and math.isnan(found) and math.isnan(wanted))


def test_quantile_is_a_double() -> None:
    assert quantiles([3, 1, 2], "0.5", "INT") == [1.0]
    assert quantiles([], "0.5", "DECIMAL(10,2)") == [None]


ITEMS = [
    ("INT", ["3", "-1", "20"], [-1, 3, 20]),
    ("STRING", ["b", "", "a"], ["", "a", "b"]),
    ("BOOLEAN", ["true", "false"], [False, True]),
    ("DOUBLE", ["NaN", "1.5E10", "-Infinity"], [-math.inf, 1.5e10, math.nan]),
    ("DECIMAL(20,10)", ["2.0000000000", "1.000E-7"], [Decimal("0.0000001000"), Decimal("2.0000000000")]),
    ("BINARY", ["FF", "00"], [b"\x00", b"\xff"]),
]


@pytest.mark.parametrize(("type_", "texts", "items"), ITEMS)
def test_items_round_trip(type_: str, texts: list[str], items: list[Any]) -> None:
    call = decompose("APPROX_TOP_K", "x", SqlType(type_), None, (10,))
    made = ds.frequent_strings_sketch(LG_MAP)
    for text in texts:
        made.update(text, 2)
    found = result_of(call, {call.part("f"): (objects([made, None]),)})
    assert found.type == call.result.arrow
    assert str([row["item"] for row in found.to_pylist()[0]]) == str(items)
    assert {row["count"] for row in found.to_pylist()[0]} == {2} and found.to_pylist()[1] == []


def test_k_items_with_ties() -> None:
    made = ds.frequent_strings_sketch(LG_MAP)
    for item, count in (("9", 5), ("2", 1), ("1", 1), ("10", 1)):
        made.update(item, count)
    assert top_items(made, 2, SqlType("INT")) == [(9, 5), (1, 1)]
    assert top_items(made, 3, SqlType("STRING")) == [("9", 5), ("1", 1), ("10", 1)]


# -- in a synopsis -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("windows", [1, 40])
def test_windows_over_sketches(kind: Kind, windows: int) -> None:
    """One window takes a pass. Many long ones take the tree, which merges least; tables need numbers."""
    draw = np.random.default_rng(3)
    presence, accumulator = Accumulator(Kind.COUNT, None, None, None), Accumulator(kind, "x", SqlType("INT"), None)
    lists = [draw.integers(0, 9, 3).tolist() for _ in range(60)]
    synopsis = BasicIntervalSynopsis([pa.int64()])
    ids = synopsis.groups.ids([pa.array([0, 1] * 30)], np.zeros(60, bool))
    panes = np.repeat(np.arange(30), 2)
    states = {presence: (np.full(60, 3),), accumulator: column(kind, lists)}
    synopsis.deposit(Cells(panes, ids, states))
    synopsis.close(30)
    ends = np.arange(30 - windows + 1, 31) if windows < 30 else np.arange(windows) * 30 // windows + 1
    starts = np.maximum(ends - 20, 0)
    assert not can_be_tabled([SketchFold(kind)])
    looked = next(synopsis.answer([Lookup("q", starts, ends, presence, (presence, accumulator), False)]))
    assert looked.window.size == 2 * windows
    for row, element in enumerate(looked.states[accumulator][0]):
        start, end = starts[looked.window[row]], ends[looked.window[row]]
        group = int(looked.groups[row]) - 1
        values = [value for pane in range(start, end) for value in lists[2 * pane + group]]
        assert told(kind, element) == expected(kind, values)
    assert synopsis.nbytes > 60 * 30


def test_sketch_bytes() -> None:
    full = column(Kind.HLL, [list(range(5_000))] * 100)[0]
    assert 100 * 4_000 < held_bytes(full) < 100 * 5_000
    assert held_bytes(np.zeros(10)) == 80 and held_bytes(np.full(10, None)) == 80


# -- arguments ---------------------------------------------------------------------------------


def test_parameters_share_a_sketch() -> None:
    some_call = decompose("APPROX_QUANTILE", "x", SqlType("INT"), "y > 0", (Decimal("0.1"),))
    other = decompose("APPROX_QUANTILE", "x", SqlType("INT"), "y > 0", (Decimal("0.9"),))
    assert some_call.parts == other.parts and some_call != other


@pytest.mark.parametrize(
    ("function", "type_", "parameters", "says"),
    [
        ("APPROX_QUANTILE", "STRING", (Decimal("0.5"),), r"takes a number.*CAST\(x AS DOUBLE\)"),
        ("APPROX_QUANTILE", "DATE", (Decimal("0.5"),), r"takes a number.*unix_date\(x\)"),
        ("APPROX_TOP_K", "INT", (1001,), r"at most 1,000 items.*TOP_K\(x, 1001\)"),
    ],
)
def test_refusals_name_a_remedy(function: str, type_: str, parameters: tuple[Any, ...], says: str) -> None:
    with pytest.raises(BindError) as caught:
        decompose(function, "x", SqlType(type_), None, parameters)
    assert re.search(says, f"{caught.value.message} {caught.value.remedy}")


def test_null_argument() -> None:
    for function, parameters in (
        ("APPROX_COUNT_DISTINCT", ()),
        ("APPROX_QUANTILE", (Decimal("0.5"),)),
        ("APPROX_TOP_K", (3,)),
    ):
        call = decompose(function, "NULL", SqlType("VOID"), None, parameters)
        assert all(part.type is not None and part.type.name != "VOID" for _, part in call.parts)


def test_rows_cannot_make_sketches() -> None:
    accumulator = Accumulator(Kind.HLL, "x", SqlType("INT"), "y > 0")
    assert partial_sql(accumulator) == ["hll_sketch_agg(CAST((x) AS BIGINT), 12) FILTER (WHERE y > 0)"]
    with pytest.raises(ValueError, match="Spark makes sketches"):
        state_of_rows(accumulator, pa.array([1]), 1)
    with pytest.raises(ValueError, match="not a sketch"):
        SketchFold(Kind.COUNT)
