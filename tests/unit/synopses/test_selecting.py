"""Selection from sorted base intervals equals brute force and the counters; and when it is chosen."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import count_comparisons

from windrow.plan.accumulators import AggregateCall, Key
from windrow.plan.aggregates import decompose
from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.nodes import Attribute, Scan, Selection, WindowAggregate
from windrow.reference.frequency_counts import Frequencies, FrequencySynopsis
from windrow.reference.metering import Meter
from windrow.reference.quantile_intervals import QuantileSynopsis
from windrow.synopses.answering.planner import HolisticWay, why_not_selected
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.ordering import encode_doubles
from windrow.synopses.holistic import selecting
from windrow.synopses.holistic.phi import Phi
from windrow.synopses.holistic.roll_up import AnswerRows, rows_of
from windrow.synopses.holistic.selecting import selected
from windrow.synopses.holistic.selection_sizes import decide
from windrow.synopses.holistic.sorted_panes import Elements, SortedPanes, WindowSlots
from windrow.synopses.kinds.basic_interval import BasicIntervalSynopsis
from windrow.synopses.kinds.buffer import BufferSynopsis
from windrow.synopses.lookups import Lookup
from windrow.types import SqlType
from windrow.windows import SlidingWindow

BIGINT, DOUBLE, STRING, INT = (SqlType(name) for name in ("BIGINT", "DOUBLE", "STRING", "INT"))
K, X, Y = Key("k", STRING), Key("x", DOUBLE), Key("y", STRING)
PHIS = ("0", "0.1", "0.29", "0.5", "0.999999999", "1")
NUMBERS = [None, -math.inf, -1.5, -0.0, 0.0, 2.0, 2.0000001, math.nan]
TEXTS = [None, "", "é", "z", "ä"]
CALLS: dict[str, AggregateCall] = {
    "n": decompose("COUNT", None, None, None),
    "total": decompose("SUM", "w", INT, None),
    "least": decompose("MIN", "w", INT, "f"),
    "median": decompose("MEDIAN", "x", DOUBLE, None),
    "some": decompose("MEDIAN", "x", DOUBLE, "f"),
    "distinct": decompose(COUNT_DISTINCT, "x", DOUBLE, None),
    "texts": decompose(COUNT_DISTINCT, "y", STRING, "f"),
    "pairs": decompose(COUNT_DISTINCT, "x", DOUBLE, None, (), (Y,)),
    "text": decompose("QUANTILE", "y", STRING, None, (Decimal("0.5"),)),
    **{f"q{phi}": decompose("QUANTILE", "x", DOUBLE, None, (Decimal(phi),)) for phi in PHIS},
    "some_q": decompose("QUANTILE", "x", DOUBLE, "f", (Decimal("0.9"),)),
}


TOP = decompose("TOP_K", "y", STRING, None, (2,))
"""Selection cannot answer it."""


def aggregate_of(*names: str, keys: tuple[Key, ...] = (), more: tuple[AggregateCall, ...] = ()) -> WindowAggregate:
    scan = Selection(Scan("s", Attribute("t", BIGINT)), None)
    calls = (*(CALLS[n] for n in names), *more)
    return WindowAggregate(scan, SlidingWindow(3, 1), keys, calls)


Tuple = tuple[int, Any, Any, Any, int, bool]
"""The pane, k, x, y, w and whether it meets f."""

tuples = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.sampled_from(["a", "b", None]),
        st.sampled_from(NUMBERS),
        st.sampled_from(TEXTS),
        st.integers(-5, 5),
        st.booleans(),
    ),
    max_size=60,
)


def cells_of(synopsis: BasicIntervalSynopsis, aggregate: WindowAggregate, rows: list[Tuple]) -> Cells:
    """The deposit of a micro-batch: a cell per tuple, which the synopsis folds, and one cell of nobody."""
    at = {"k": 1, "x": 2, "y": 3}
    keys = [pa.array([row[at[key.sql]] for row in rows], key.type.arrow) for key in aggregate.cell_keys]
    ids = np.append(synopsis.groups.ids(keys), 0)
    states = {}
    for accumulator in aggregate.accumulators:
        met = [accumulator.condition is None or row[5] for row in rows]
        least = accumulator.kind.name == "LEAST"
        values = [(row[4] if accumulator.arg == "w" and accumulator.kind.name != "COUNT" else 1) for row in rows]
        nothing = np.iinfo(np.int64).max if least else 0
        states[accumulator] = (np.array([v if m else nothing for v, m in zip(values, met, strict=True)] + [nothing]),)
    return Cells(np.array([row[0] for row in rows] + [rows[0][0]], np.int64), ids, states)


def plain(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def by_definition(name: str, rows: list[Tuple]) -> Any:
    call = CALLS[name]
    if call.parts[0][1].condition is not None:
        rows = [row for row in rows if row[5]]
    if name in ("n", "total", "least"):
        weights = [row[4] for row in rows]
        return len(rows) if name == "n" else (sum(weights) if name == "total" else min(weights)) if rows else None
    if name == "pairs":
        return len({(plain(row[2]), row[3]) for row in rows if row[2] is not None and row[3] is not None})
    values = [row[3 if call.values[0] == Y else 2] for row in rows]
    values = sorted((v for v in values if v is not None), key=lambda v: v.encode() if call.values[0] == Y else rank(v))
    if call.function == COUNT_DISTINCT:
        return len({plain(v) for v in values})
    if not values:
        return None
    if call.function == "QUANTILE":
        return values[max(1, math.floor(Fraction(call.parameters[0]) * len(values))) - 1]
    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
    return low if plain(low) == plain(high) else statistics.fmean([low, high])


def rank(value: float) -> tuple[bool, float]:
    return math.isnan(value), value


def table(aggregate: WindowAggregate, rows: AnswerRows, synopsis: BasicIntervalSynopsis) -> dict[Any, list[Any]]:
    keys = [
        (c.dictionary_decode() if pa.types.is_dictionary(c.type) else c).to_pylist()
        for c in synopsis.groups.key_columns(rows.cells, len(aggregate.keys))
    ]
    columns = [[plain(v) for v in rows.result(call).to_pylist()] for call in aggregate.aggregates]
    assert (np.diff(rows.window) >= 0).all()
    return {
        (window, *(plain(key[i]) for key in keys)): [column[i] for column in columns]
        for i, window in enumerate(rows.window.tolist())
    }


def asked_of(aggregate: WindowAggregate, lookup: str, starts: Any, ends: Any) -> Lookup:
    return Lookup(lookup, starts, ends, aggregate.presence, aggregate.accumulators, False)


@pytest.mark.parametrize(
    "names",
    [["median", *(f"q{phi}" for phi in PHIS)], ["n", "median", "distinct", "total", "some", "least"], list(CALLS)],
    ids=["quantiles", "mixed", "several values"],
)
@pytest.mark.parametrize("keys", [(), (K,), (K, X)], ids=len)
@settings(deadline=None, max_examples=40)
@given(rows=tuples, width=st.integers(1, 25), closings=st.lists(st.integers(1, 22), max_size=3))
def test_selection_equals_brute_force(
    keys: tuple[Key, ...], names: list[str], rows: list[Tuple], width: int, closings: list[int]
) -> None:
    aggregate = aggregate_of(*names, keys=keys)
    synopsis = BasicIntervalSynopsis([key.type.arrow for key in aggregate.cell_keys])
    below = 0
    for upto in sorted({*closings, 25}):
        fresh, below = [row for row in rows if below <= row[0] < upto], upto
        if fresh:
            synopsis.deposit(cells_of(synopsis, aggregate, fresh))
        synopsis.close(upto)
        held = [row for row in rows if row[0] < upto]
        ends = np.arange(0, upto + 1)
        lookup = asked_of(aggregate, "q", ends - width, ends)
        (looked,) = selected(synopsis, [(aggregate, lookup)])
        found = table(aggregate, rows_of(aggregate, looked, synopsis.groups), synopsis)
        (counted,) = synopsis.answer([lookup])
        assert found == table(aggregate, rows_of(aggregate, counted, synopsis.groups), synopsis)
        at = {"k": 1, "x": 2}
        parts: dict[Any, list[Tuple]] = {} if keys else {(w,): [] for w in range(ends.size)}
        for row in held:
            key = [row[at[k.sql]] for k in keys]
            for w in range(row[0] + 1, min(row[0] + width, upto) + 1):
                parts.setdefault((w, *map(plain, key)), []).append(row)
        wanted = {slot: [plain(by_definition(name, mine)) for name in names] for slot, mine in parts.items()}
        assert found == wanted


@settings(deadline=None, max_examples=60)
@given(rows=tuples.filter(bool), width=st.integers(1, 25))
def test_selection_equals_the_quantile_synopsis(rows: list[Tuple], width: int) -> None:
    """B-INT-QNT (Arasu and Widom, VLDB 2004, section 3.3) over the tuples of one group, one cell each, in pane order."""
    names = [f"q{phi}" for phi in PHIS]
    aggregate, rows = aggregate_of(*names, keys=(K,)), sorted(rows, key=lambda row: row[0])
    synopsis = BasicIntervalSynopsis([pa.string(), pa.float64()])
    synopsis.deposit(cells_of(synopsis, aggregate, rows))
    synopsis.close(25)
    ends = np.arange(0, 25 + width)
    (looked,) = selected(synopsis, [(aggregate, asked_of(aggregate, "q", ends - width, ends))])
    found = table(aggregate, rows_of(aggregate, looked, synopsis.groups), synopsis)
    assert found
    for key in {row[1] for row in rows}:
        mine = [row for row in rows if row[1] == key]
        reference = QuantileSynopsis(len(mine), [Phi.of(phi) for phi in PHIS])
        present = np.array([row[2] is not None for row in mine], np.int64)
        reference.update((encode_doubles(np.array([row[2] or 0.0 for row in mine])), present))
        low, high = (np.searchsorted([row[0] for row in mine], edge) for edge in (ends - width, ends))
        answers = reference.lookup(low, high)
        for w in np.flatnonzero(high > low).tolist():
            codes = [None if x is None else code_of(x) for x in found.pop((w, key))]
            assert codes == (answers.codes[w].tolist() if answers.counts[w] else [None] * len(PHIS))
    assert not found


def code_of(value: Any) -> int:
    return int(encode_doubles(np.array([math.nan if value == "NaN" else value]))[0])


@pytest.mark.parametrize("way", HolisticWay)
@settings(deadline=None, max_examples=60)
@given(rows=tuples.filter(bool), width=st.integers(1, 25))
def test_both_ways_equal_frequency_counters(rows: list[Tuple], width: int, way: HolisticWay) -> None:
    """COUNT(DISTINCT) and QUANTILE from an interval synopsis of counters (Golab's dissertation, section 8.3.1)."""
    more = (TOP,) if way is HolisticWay.ROLL_UP else ()
    aggregate = aggregate_of("texts", "text", keys=(K,), more=more)
    synopsis = BasicIntervalSynopsis([pa.string(), pa.string()])
    synopsis.deposit(cells_of(synopsis, aggregate, rows))
    synopsis.close(25)
    ends = np.arange(0, 25)
    lookup = asked_of(aggregate, "q", ends - width, ends)
    by_selection = way is HolisticWay.SELECTION
    (looked,) = selected(synopsis, [(aggregate, lookup)]) if by_selection else synopsis.answer([lookup])
    found = table(aggregate, rows_of(aggregate, looked, synopsis.groups), synopsis)
    texts = sorted((text for text in TEXTS if text is not None), key=str.encode)
    for key in {row[1] for row in rows}:
        every, some = FrequencySynopsis(25), FrequencySynopsis(25)
        for pane in range(25):
            held = [row for row in rows if row[:2] == (pane, key) and row[3] is not None]
            every.update([counted([texts.index(row[3]) for row in held])])
            some.update([counted([texts.index(row[3]) for row in held if row[5]])])
        for w in (w for w in range(25) if (w, key) in found):
            counters, kept = every.lookup_one(max(w - width, 0), w), some.lookup_one(max(w - width, 0), w)
            right: list[Any] = [*kept.count_distinct()[1].tolist(), 0][:1]
            right += [*(texts[v] for v in counters.quantile(Phi.of("0.5"))[1].tolist()), None][:1]
            if more:
                _, best, counts = counters.top_k(2)
                pairs = zip(best.tolist(), counts.tolist(), strict=True)
                right.append([{"item": texts[v], "count": n} for v, n in pairs])
            assert found.pop((w, key)) == right
    assert not found


def counted(values: list[int]) -> Frequencies:
    """The counters of one pane of one group."""
    return Frequencies.of(np.zeros(len(values), np.int64), np.array(values, np.int64))


@settings(deadline=None, max_examples=40)
@given(rows=tuples.filter(bool), widths=st.lists(st.integers(1, 25), min_size=2, max_size=4))
def test_queries_share_sorting(rows: list[Tuple], widths: list[int]) -> None:
    aggregate = aggregate_of("median", "q0.29", "some", "distinct", keys=(K,))
    synopsis = BasicIntervalSynopsis([pa.string(), pa.float64()])
    synopsis.deposit(cells_of(synopsis, aggregate, rows))
    synopsis.close(25)
    queries = [replace(aggregate, aggregates=aggregate.aggregates[i % 4 :]) for i in range(len(widths))]
    ends = np.arange(0, 30)
    asked = [
        (one, asked_of(one, f"q{w}_{i}", ends - w, ends))
        for i, (one, w) in enumerate(zip(queries, widths, strict=True))
    ]
    made: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selecting, "SortedPanes", lambda *args: made.append(1) or SortedPanes(*args))
        together = list(selected(synopsis, asked))
    for (one, lookup), looked in zip(asked, together, strict=True):
        (alone,) = selected(synopsis, [(one, lookup)])
        assert looked.query == lookup.query
        rolled = [table(one, rows_of(one, some, synopsis.groups), synopsis) for some in (looked, alone)]
        assert rolled[0] == rolled[1]
    assert len(made) == 3  # all tuples, those that meet f, and previous panes


def test_unordered_and_empty_windows() -> None:
    aggregate = aggregate_of("n", "median", "distinct")
    synopsis = BasicIntervalSynopsis([pa.float64()])
    rows = [(p, None, float(p % 3), "", 0, True) for p in range(9)]
    synopsis.deposit(cells_of(synopsis, aggregate, rows))
    synopsis.close(25)
    starts, ends = np.array([6, 0, 20, 3, 5]), np.array([9, 2, 24, 4, 5])
    (looked,) = selected(synopsis, [(aggregate, asked_of(aggregate, "q", starts, ends))])
    found = table(aggregate, rows_of(aggregate, looked, synopsis.groups), synopsis)
    assert found == {(0,): [3, 1.0, 3], (1,): [2, 0.5, 2], (2,): [0, None, 0], (3,): [1, 0.0, 1], (4,): [0, None, 0]}


def test_empty_synopsis() -> None:
    aggregate = aggregate_of("median", "distinct")
    synopsis = BasicIntervalSynopsis([pa.float64()])
    (looked,) = selected(synopsis, [(aggregate, asked_of(aggregate, "q", np.array([0]), np.array([5])))])
    assert table(aggregate, rows_of(aggregate, looked, synopsis.groups), synopsis) == {(0,): [None, 0]}


def synopsis_of(aggregate: WindowAggregate, groups: int, values: int, panes: int, each: int) -> BasicIntervalSynopsis:
    rng = np.random.default_rng(3)
    synopsis = BasicIntervalSynopsis([key.type.arrow for key in aggregate.cell_keys])
    size = panes * each
    columns = {
        "k": pa.array([f"k{g}" for g in rng.integers(0, groups, size)]),
        "x": pa.array(rng.random(values)[rng.integers(0, values, size)]),
    }
    ids = synopsis.groups.ids([columns[key.sql] for key in aggregate.cell_keys])
    states = {a: (np.ones(size, np.int64),) for a in aggregate.accumulators}
    synopsis.deposit(Cells(np.repeat(np.arange(panes), each), ids, states))
    synopsis.close(panes)
    return synopsis


@pytest.mark.parametrize(
    ("keys", "groups", "values", "windows", "way"),
    [
        ((), 1, 20_000, 200, HolisticWay.SELECTION),
        ((), 1, 20_000, 1, HolisticWay.ROLL_UP),
        ((), 1, 20, 200, HolisticWay.ROLL_UP),
        ((K,), 3, 20_000, 200, HolisticWay.SELECTION),
        ((K,), 1000, 20_000, 200, HolisticWay.ROLL_UP),
    ],
    ids=["many windows of many values", "one window", "few values", "few groups", "few values a group"],
)
def test_choice_by_cost(keys: tuple[Key, ...], groups: int, values: int, windows: int, way: HolisticWay) -> None:
    aggregate = aggregate_of("n", "median", "distinct", keys=keys)
    synopsis = synopsis_of(aggregate, groups, values, 200, 100)
    ends = np.arange(1, windows + 1) if windows > 1 else np.array([200])
    (made,) = decide(synopsis, [(aggregate, np.maximum(ends - 60, 0), ends)])
    assert made.chosen is way and (made.sizes is None or made.sizes.sorting.groups == groups)
    for setting in ("selection", "roll up"):
        (forced,) = decide(synopsis, [(aggregate, ends - 60, ends)], setting)
        assert (forced.chosen is HolisticWay.SELECTION) is (setting == "selection") and forced.why == "forced"


def test_many_queries_share_the_cost_of_sorting() -> None:
    """Sorting does not pay for one window of one query, but pays for one window of each of forty."""
    aggregate = aggregate_of("median", "q0.29")
    synopsis = synopsis_of(aggregate, 1, 20_000, 200, 100)
    asked = [(aggregate, np.array([low]), np.array([200])) for low in range(100, 140)]
    for one in asked:
        (alone,) = decide(synopsis, [one])
        assert alone.chosen is HolisticWay.ROLL_UP
    together = decide(synopsis, asked)
    assert {made.chosen for made in together} == {HolisticWay.SELECTION}
    whole = together[0].sizes
    assert whole is not None and len(whole.works) == 40 and len(whole.sorting.lines) == 1
    assert whole.selected_ns < whole.rolled_ns


def test_no_selection_beyond_the_memory_limit() -> None:
    aggregate = aggregate_of("median")
    synopsis = synopsis_of(aggregate, 1, 20_000, 200, 100)
    (made,) = decide(synopsis, [(aggregate, np.zeros(200, np.int64), np.arange(1, 201))])
    whole = made.sizes
    assert whole is not None and whole.pays and whole.sorting.tuples == 20_000
    assert whole.sorting.nbytes >= 4 * whole.sorting.levels * whole.sorting.tuples
    assert not replace(whole, sorting=replace(whole.sorting, between=1 << 24)).pays


def test_aggregates_that_cannot_be_selected() -> None:
    top = replace(aggregate_of("median"), aggregates=(CALLS["median"], decompose("TOP_K", "x", DOUBLE, None, (2,))))
    assert "TOP_K" in str(why_not_selected(top, False, False, False))
    doubles = replace(top, aggregates=(CALLS["median"], decompose("SUM", "x", DOUBLE, None)))
    assert why_not_selected(doubles, False, False, False) is None and "keep their order" in str(
        why_not_selected(doubles, True, False, False)
    )
    assert why_not_selected(aggregate_of(*CALLS), True, False, False) is None
    buffer = BufferSynopsis([pa.float64()])
    some = np.arange(1)
    (made,) = decide(buffer, [(aggregate_of("median"), some, some)], "selection")
    assert made.chosen is HolisticWay.ROLL_UP


def test_levels_grow_with_the_logarithm_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arasu and Widom, VLDB 2004, Figure 1: an element is sorted once a level; a selection reads p arrays."""
    size, meter = 4096, Meter()
    count_comparisons(monkeypatch, meter)
    elements = Elements(*(np.zeros(size, np.int64), np.arange(size), np.arange(size)[::-1], np.ones(size, np.int64)))
    for widest, levels in ((1, 1), (63, 6), (64, 7), (4096, 13)):
        made = SortedPanes(elements, 1, size, widest)
        assert made._sorted.shape == (levels, size)
        slots = WindowSlots(np.array([size - widest]), np.array([size]), np.zeros(1, np.int64), np.zeros(1, np.int64))
        assert made.at_ranks(slots, np.array([1])).tolist() == [0]
        assert 0 < meter.read() <= 2 * levels * (levels + 1) * (3 * levels + 3)
