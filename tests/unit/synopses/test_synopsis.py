"""The basic interval synopsis equals brute force after any deposits, closings, answers and expirations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.brute_force import (
    MOMENTS,
    PASSES,
    TYPES,
    Row,
    calls_of,
    cells_of,
    expected,
    functions_of,
    roles_of,
    same,
    values_of,
)

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.plan.accumulators import Accumulator, AggregateCall, Kind
from windrow.plan.aggregates import decompose
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup
from windrow.synopses.answering.indexing import Indexer, IndexSetting
from windrow.synopses.answering.pane_tables import can_be_tabled
from windrow.synopses.answering.way_costs import Way
from windrow.synopses.cells import chunks
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.index import pane_index
from windrow.synopses.kinds import basic_interval
from windrow.synopses.results.values import result_of
from windrow.types import SqlType

WIDTH = 10
INT, DOUBLE = SqlType("INT"), SqlType("DOUBLE")
KEYS = (pa.string(), pa.float64())
KEY_VALUES = [("a", 0.0), ("a", -0.0), ("b", math.nan), (None, 0.0), ("b", None), ("c", 1.5)]


def canonical(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        "NaN" if isinstance(v, float) and math.isnan(v) else v + 0.0 if isinstance(v, float) else v for v in key
    )


@dataclass
class Query:
    """A query of the synopsis: its aggregates and their common condition."""

    name: str
    condition: str | None
    calls: list[AggregateCall]
    since: int | None = None

    @property
    def presence(self) -> Accumulator:
        return Accumulator(Kind.COUNT, None, None, self.condition)


def _tabled(calls: Sequence[AggregateCall]) -> list[AggregateCall]:
    """The aggregates that tables can answer: sums and extremes of integers."""
    return [call for call in calls if can_be_tabled(fold_of(part) for _, part in call.parts)]


@dataclass
class Pair:
    """A synopsis and its tuples; queries may join later and see only later tuples."""

    type: SqlType
    key_types: tuple[pa.DataType, ...]
    queries: list[Query]
    synopsis: BasicIntervalSynopsis = field(init=False)
    rows: list[Row] = field(default_factory=list)
    closed: int = 0
    kept: int = 0

    def __post_init__(self) -> None:
        self.synopsis = BasicIntervalSynopsis(list(self.key_types))

    def deposit(self, rows: Sequence[Row]) -> None:
        roles = roles_of(call for query in self.queries for call in query.calls)
        roles |= {query.presence: ("n", query.condition) for query in self.queries}
        conditional = all(query.condition is not None for query in self.queries)
        nobody = [conditional and not row.passes for row in rows]
        groups = self.synopsis.groups
        self.synopsis.deposit(cells_of(rows, roles, self.type, groups, self.key_types, nobody))
        self.rows += rows

    def close(self, upto: int) -> None:
        self.closed = max(self.closed, upto)
        closing = self.synopsis.close(self.closed)
        assert closing.tolist() == sorted(closing.tolist())
        occupied = sorted({row.pane for row in self.rows if row.pane < self.closed})
        assert [p for p in self.synopsis.closed_panes.tolist() if p >= self.kept] == [
            p for p in occupied if p >= self.kept
        ]

    def expire(self, below: int) -> None:
        self.kept = max(self.kept, min(below, self.closed))
        self.synopsis.expire(self.kept)

    def lookup(self, query: Query, windows: Sequence[tuple[int, int]]) -> Lookup:
        starts = [start if query.since is None else max(start, query.since) for start, _ in windows]
        ends = [end for _, end in windows]
        reads = tuple(dict.fromkeys(part for call in query.calls for _, part in call.parts))
        array = (np.array(starts, np.int64), np.array(ends, np.int64))
        return Lookup(query.name, *array, query.presence, reads, not self.key_types)

    def check(self, asked: Sequence[tuple[Query, Sequence[tuple[int, int]]]]) -> None:
        """Answer these windows in one pass and, where possible, by the tree and by tables; compare every row."""
        self._check(asked, Way.ONE_PASS)
        if all([w[0] for w in windows] == sorted(w[0] for w in windows) for _, windows in asked):
            self._check(asked, Way.TREE)
        self._check([(replace(query, calls=_tabled(query.calls)), windows) for query, windows in asked], Way.TABLES)

    def check_indexed(
        self, asked: Sequence[tuple[Query, Sequence[tuple[int, int]]]], kind: SynopsisKind | None, most_bytes: int
    ) -> None:
        """Answer by an index of this kind, if the bound allows it; texts have no index."""
        self.synopsis.indexer.setting = IndexSetting(kind, most_bytes)
        self._compare(asked)

    def deposit_late(self, rows: Sequence[Row]) -> None:
        """Merge cells into closed panes."""
        roles = roles_of(call for query in self.queries for call in query.calls)
        roles |= {query.presence: ("n", query.condition) for query in self.queries}
        nobody = [False for _ in rows]
        self.synopsis.hold_late(cells_of(rows, roles, self.type, self.synopsis.groups, self.key_types, nobody))
        self.synopsis.merge_late()
        self.rows += rows

    def _check(self, asked: Sequence[tuple[Query, Sequence[tuple[int, int]]]], way: Way) -> None:
        self.synopsis._way = lambda *args: way  # type: ignore[method-assign]
        self._compare(asked)

    def _compare(self, asked: Sequence[tuple[Query, Sequence[tuple[int, int]]]]) -> None:
        looked = {found.query: found for found in self.synopsis.answer([self.lookup(*item) for item in asked])}
        assert sorted(looked) == sorted(query.name for query, _ in asked)
        for query, windows in asked:
            found = looked[query.name]
            assert found.windows == len(windows)
            assert found.window.tolist() == sorted(found.window.tolist())
            keys = zip(*(c.to_pylist() for c in self.synopsis.groups.key_columns(found.groups)), strict=True)
            keys = [canonical(key) for key in keys] if self.key_types else [()] * found.groups.size
            results = [result_of(call, found.states).to_pylist() for call in query.calls]
            names = zip(found.window.tolist(), keys, strict=True)
            got = dict(zip(names, zip(*results, strict=True) if results else [()] * len(keys), strict=True))
            assert len(got) == found.window.size, "a group has one row per window"
            wanted = self.brute_force(query, windows)
            assert got.keys() == wanted.keys()
            for name, row in wanted.items():
                for call, mine, right in zip(query.calls, got[name], row, strict=True):
                    assert same(mine, right), (query.name, name, call.function, mine, right)

    def brute_force(self, query: Query, windows: Sequence[tuple[int, int]]) -> dict[Any, list[Any]]:
        out: dict[Any, list[Any]] = {}
        for w, (start, end) in enumerate(windows):
            low = start if query.since is None else max(start, query.since)
            inside = [row for row in self.rows if low <= row.pane < end and (query.condition is None or row.passes)]
            by_key: dict[Any, list[Any]] = {} if self.key_types else {(): []}
            for row in inside:
                by_key.setdefault(canonical(row.key), []).append(row.value)
            for key, values in by_key.items():
                out[w, key] = [expected(call, self.type, values) for call in query.calls]
        return out


# -- random histories ---------------------------------------------------------------------------------------


def chosen_calls(type_: SqlType, condition: str | None) -> list[AggregateCall]:
    """Every aggregate; without moments if values may be too far apart for 1e-9."""
    conditioned = type_.is_float or type_.name in ("TINYINT", "SMALLINT")
    return [c for c in calls_of(type_, condition) if conditioned or c.function not in MOMENTS]


@st.composite
def rows(draw: st.DrawFn, type_: SqlType, keyed: bool, closed: int) -> list[Row]:
    """Tuples of open panes, in any order."""
    row = st.builds(
        Row,
        st.integers(closed // WIDTH, closed // WIDTH + 5).map(lambda p: p * WIDTH),
        st.sampled_from(KEY_VALUES) if keyed else st.just(()),
        st.none() | values_of(type_),
        st.booleans(),
    )
    return draw(st.lists(row, max_size=6))


@st.composite
def windows(draw: st.DrawFn, kept: int, closed: int) -> list[tuple[int, int]]:
    """Windows over the closed panes, ends ascending."""
    point = st.integers(kept // WIDTH, closed // WIDTH).map(lambda p: p * WIDTH)
    found = draw(st.lists(st.tuples(point, point).map(lambda w: (min(w), max(w))), min_size=1, max_size=3))
    return sorted(found, key=lambda w: w[1])


def play(data: Any, type_: SqlType, keyed: bool, conditions: Sequence[str | None]) -> None:
    queries = [Query(f"q{i}", c, chosen_calls(type_, c)) for i, c in enumerate(conditions)]
    pair = Pair(type_, KEYS if keyed else (), queries)
    for step in range(data.draw(st.integers(1, 5))):
        if step == 1 and data.draw(st.booleans()):
            free = max([pair.closed, *(row.pane + WIDTH for row in pair.rows)])
            pair.queries.append(
                Query("late", None, [decompose(f, "x", type_, None) for f in functions_of(type_)[:3]], free)
            )
        for _ in range(data.draw(st.integers(0, 2))):
            pair.deposit(data.draw(rows(type_, keyed, pair.closed)))
        pair.close(pair.closed + WIDTH * data.draw(st.integers(0, 4)))
        asked = data.draw(st.permutations(pair.queries))
        pair.check([(query, data.draw(windows(pair.kept, pair.closed))) for query in asked])
        pair.expire(pair.kept + WIDTH * data.draw(st.integers(0, 3)))


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("young", [0, 64])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_equals_brute_force_at_every_step(type_: SqlType, young: int, data: Any) -> None:
    """Also with every chunk old, and so in the smallest integers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(basic_interval, "YOUNG_CHUNKS", young)
        play(data, type_, True, [None, PASSES])


@pytest.mark.parametrize("few_groups", [2, 1024])
@settings(max_examples=60, deadline=None)
@given(data=st.data(), type_=st.sampled_from([INT, DOUBLE, SqlType("BIGINT"), SqlType("STRING")]), keyed=st.booleans())
def test_index_kind_changes(few_groups: int, type_: SqlType, keyed: bool, data: Any) -> None:
    """Switch while panes close, expire and get late cells and groups are renumbered; sometimes without room."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(basic_interval, "FEW_GROUPS", few_groups)
        patch.setattr(pane_index, "FEW_PANES", 2)
        patch.setattr(pane_index, "SPARE_GROUPS", 1.0)
        patch.setattr(Indexer, "_pays", lambda *args: True)
        queries = [
            Query("all", None, chosen_calls(type_, None)),
            Query("some", PASSES, chosen_calls(type_, PASSES)[:3]),
        ]
        pair = Pair(type_, KEYS if keyed else (), queries)
        kinds = [None, *sorted(SynopsisKind, key=lambda kind: kind.value), SynopsisKind.LANDMARK]
        for _ in range(data.draw(st.integers(2, 7))):
            pair.deposit(data.draw(rows(type_, keyed, pair.closed)))
            pair.close(pair.closed + WIDTH * data.draw(st.integers(0, 4)))
            if pair.closed > pair.kept and data.draw(st.integers(0, 3)) == 0:
                late = data.draw(rows(type_, keyed, 0))
                panes = list(range(pair.kept, pair.closed, WIDTH))
                pair.deposit_late([replace(row, pane=data.draw(st.sampled_from(panes))) for row in late[:4]])
            most = data.draw(st.sampled_from([512 << 20, 512 << 20, 0]))
            asked = [(query, data.draw(windows(pair.kept, pair.closed))) for query in pair.queries]
            pair.check_indexed(asked, data.draw(st.sampled_from(kinds)), most)
            pair.expire(pair.kept + WIDTH * data.draw(st.integers(0, 3)))


@pytest.mark.parametrize("widths", [[40], [40, 50, 7], [3, 13, 60]])
def test_landmark_index_follows_the_stream(widths: list[int]) -> None:
    """MAX over panes, some of them empty; other widths and historical windows are walked or get their own intervals."""
    call = decompose("MAX", "x", INT, None)
    most, count = call.part("v"), Accumulator(Kind.COUNT, None, None, None)
    synopsis, values = BasicIntervalSynopsis([pa.string()]), np.random.default_rng(3).integers(0, 1000, 700)
    synopsis.indexer.setting = IndexSetting(SynopsisKind.LANDMARK)
    built, served = set(), 0
    for first in range(0, 700, 10):
        panes = np.array([p for p in range(first, first + 10) if p % 23], np.int64)
        n = np.ones(panes.size, np.int64)
        groups = synopsis.groups.ids([pa.array(["a"] * panes.size)])
        synopsis.deposit(Cells(panes, groups, {count: (n,), most: (values[panes],), call.part("n"): (n,)}))
        synopsis.close(first + 10)
        ends = np.full(len(widths), first + 10, np.int64)
        starts = ends - widths
        (found,) = synopsis.answer([Lookup("q", starts, ends, count, (most,), False)])
        expected = [
            max(int(values[p]) for p in range(max(0, e - w), e) if p % 23) for w, e in zip(widths, ends, strict=True)
        ]
        assert found.states[most][0].tolist() == expected
        served += synopsis.indexer.kind is SynopsisKind.LANDMARK
        built.add(id(synopsis.indexer.index))
        synopsis.expire(first - 100)
    assert served > 40 and len(built) < 30, "it is extended, not built anew at every tick"


def test_empty_windows_beyond_landmark_reach() -> None:
    """As for LATE REVISE and for lookups into a gap."""
    call = decompose("MAX", "x", INT, None)
    most, count = call.part("v"), Accumulator(Kind.COUNT, None, None, None)
    synopsis = BasicIntervalSynopsis([pa.string()])
    synopsis.indexer.setting = IndexSetting(SynopsisKind.LANDMARK)
    for pane in (p for p in range(60) if not 20 <= p < 30):
        n, groups = np.ones(1, np.int64), synopsis.groups.ids([pa.array(["a"])])
        synopsis.deposit(Cells(np.array([pane]), groups, {count: (n,), most: (n * pane,), call.part("n"): (n,)}))
        synopsis.close(pane + 1)
        list(synopsis.answer([Lookup("q", np.array([pane - 4]), np.array([pane + 1]), count, (most,), False)]))
    assert synopsis.indexer.kind is SynopsisKind.LANDMARK
    for starts, ends in (([22], [27]), ([22, 55, 23, 21, 20], [27, 60, 28, 26, 25])):
        (found,) = synopsis.answer([Lookup("q", np.array(starts), np.array(ends), count, (most,), False)])
        assert found.states[most][0].tolist() == [59 for end in ends if end == 60]


def test_indexes_share_one_bound() -> None:
    made = [counting([pa.string()]) for _ in range(3)]
    indexers = [synopsis.indexer for synopsis, _ in made]

    def asked(most: int) -> None:
        for one in indexers:
            one.asked = IndexSetting(SynopsisKind.RUNNING, most, tuple(indexers))
        for synopsis, count in made:
            list(synopsis.answer([Lookup("q", np.array([0]), np.array([10]), count, (count,), False)]))

    for synopsis, count in made:
        synopsis.deposit(cells(synopsis, count, range(10), [0] * 10))
        synopsis.close(10)
    asked(1 << 30)
    each = indexers[0].nbytes
    assert [one.nbytes for one in indexers] == [each] * 3
    asked(2 * each)
    assert sum(one.nbytes for one in indexers) == 2 * each
    asked(0)
    assert sum(one.nbytes for one in indexers) == 0
    asked(each)
    assert [one.nbytes for one in indexers] == [each, 0, 0]


def test_index_follows_closing_and_expiring() -> None:
    synopsis, count = counting([pa.string()])
    synopsis.indexer.setting = IndexSetting(SynopsisKind.RUNNING)
    built = set()
    for first in range(0, 600, 10):
        synopsis.deposit(cells(synopsis, count, range(first, first + 10), [0] * 10))
        synopsis.close(first + 10)
        end = np.array([first + 10], np.int64)
        (found,) = synopsis.answer([Lookup("q", end - 40, end, count, (count,), False)])
        assert found.states[count][0].tolist() == [min(40, first + 10)]
        assert synopsis.indexer.kind is SynopsisKind.RUNNING
        built.add(id(synopsis.indexer.index))
        synopsis.expire(first - 30)
    assert len(built) < 12, "it is extended, not built anew at every tick"


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from([INT, DOUBLE, SqlType("STRING")]))
def test_ungrouped_query_has_a_row_per_window(data: Any, type_: SqlType) -> None:
    play(data, type_, False, [None, PASSES])


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_unqualified_tuples_occupy_panes(data: Any) -> None:
    play(data, INT, data.draw(st.booleans()), [PASSES])


@pytest.mark.parametrize(("dense_fill", "per_chunk"), [(0.0, 1), (0.0, 2), (9.9, 2), (9.9, 64)])
def test_chunk_shapes_agree(monkeypatch: pytest.MonkeyPatch, dense_fill: float, per_chunk: int) -> None:
    """Always dense or sparse, in small chunks; deposits are folded at once and groups renumbered early."""
    monkeypatch.setattr(chunks, "DENSE_FILL", dense_fill)
    monkeypatch.setattr(chunks, "PANES_PER_CHUNK", (per_chunk, per_chunk))
    monkeypatch.setattr(basic_interval, "FEW_GROUPS", 2)
    monkeypatch.setattr(basic_interval, "MOST_PENDING", 1)

    @settings(max_examples=25, deadline=None)
    @given(st.data(), st.sampled_from([DOUBLE, SqlType("STRING")]))
    def check(data: Any, type_: SqlType) -> None:
        play(data, type_, True, [None, PASSES])

    check()


# -- single properties ----------------------------------------------------------------------------------------


def counting(key_types: Sequence[pa.DataType]) -> tuple[BasicIntervalSynopsis, Accumulator]:
    return BasicIntervalSynopsis(list(key_types)), Accumulator(Kind.COUNT, None, None, None)


def cells(synopsis: BasicIntervalSynopsis, count: Accumulator, panes: Sequence[int], keys: Sequence[int]) -> Cells:
    ids = synopsis.groups.ids([pa.array(keys, pa.int64())])
    return Cells(np.array(panes, np.int64), ids, {count: (np.ones(len(panes), np.int64),)})


def test_memory_follows_live_groups() -> None:
    """Each pane brings ten new groups; the window is five panes long."""
    synopsis, count = counting([pa.int64()])
    sizes, bytes_ = [], []
    for pane in range(1000):
        synopsis.deposit(cells(synopsis, count, [pane] * 10, range(10 * pane, 10 * pane + 10)))
        synopsis.close(pane + 1)
        synopsis.expire(pane - 5)
        sizes.append(synopsis.groups.count)
        bytes_.append(synopsis.nbytes)
    assert max(sizes) <= basic_interval.FEW_GROUPS + 10
    assert max(bytes_[10:]) <= 2 * bytes_[10]
    last = np.array([1000], np.int64)
    (found,) = synopsis.answer([Lookup("q", last - 5, last, count, (count,), False)])
    assert synopsis.groups.key_columns(found.groups)[0].to_pylist() == list(range(9950, 10_000))


@pytest.mark.parametrize("dense_fill", [0.0, 9.9])
def test_renumbering_with_pending_cells(monkeypatch: pytest.MonkeyPatch, dense_fill: float) -> None:
    monkeypatch.setattr(chunks, "DENSE_FILL", dense_fill)
    synopsis, count = counting([pa.int64()])
    synopsis.deposit(cells(synopsis, count, [0] * 3000, range(3000)))
    synopsis.close(1)
    synopsis.deposit(cells(synopsis, count, [1, 2, 2], [2999, 7, 5000]))
    synopsis.close(2)
    synopsis.expire(1)
    assert synopsis.groups.count == 4
    synopsis.close(3)
    ends = np.array([2, 3], np.int64)
    (found,) = synopsis.answer([Lookup("q", ends - 1, ends, count, (count,), False)])
    keys = synopsis.groups.key_columns(found.groups)[0].to_pylist()
    assert sorted(zip(found.window.tolist(), keys, strict=True)) == [(0, 2999), (1, 7), (1, 5000)]


def test_empty_synopsis() -> None:
    synopsis, count = counting([])
    ends = np.array([10, 20], np.int64)
    (found,) = synopsis.answer([Lookup("q", ends - 10, ends, count, (count,), True)])
    assert found.window.tolist() == [0, 1] and found.states[count][0].tolist() == [0, 0]
    grouped, _ = counting([pa.int64()])
    (found,) = grouped.answer([Lookup("q", ends - 10, ends, count, (count,), False)])
    assert found.window.size == 0 and found.windows == 2


def test_empty_lookup_and_deposit() -> None:
    synopsis, count = counting([pa.int64()])
    assert list(synopsis.answer([])) == []
    synopsis.deposit(Cells(np.empty(0, np.int64), np.empty(0, np.int64), {count: (np.empty(0, np.int64),)}))
    assert synopsis.close(100).size == 0 and synopsis.closed_panes.size == 0
    synopsis.expire(100)


def test_window_before_query_start() -> None:
    """A window is clipped at the query's first tuple, so it may begin after its end."""
    synopsis, count = counting([])
    synopsis.deposit(Cells(np.array([0]), synopsis.groups.ids([], np.array([False])), {count: (np.array([1]),)}))
    synopsis.close(10)
    (found,) = synopsis.answer([Lookup("q", np.array([50]), np.array([10]), count, (count,), True)])
    assert found.states[count][0].tolist() == [0]


def test_nan_leaves_the_window() -> None:
    calls = [decompose(f, "x", DOUBLE, None) for f in ("SUM", "AVG", "VARIANCE")]
    pair = Pair(DOUBLE, (), [Query("q", None, calls)])
    pair.deposit([Row(0, (), 1.0), Row(0, (), 2.0), Row(10, (), math.nan), Row(20, (), 3.0), Row(20, (), 5.0)])
    pair.close(30)
    pair.check([(pair.queries[0], [(0, 10), (0, 20), (0, 30), (10, 30), (20, 30)])])


@pytest.mark.parametrize("closing", [10, 30])
def test_later_aggregate(closing: int) -> None:
    """Older cells count as empty, in the same chunk or in an older one."""
    first = Query("first", None, [decompose("COUNT", "x", INT, None)])
    pair = Pair(INT, KEYS, [first])
    pair.deposit([Row(0, ("a", 0.0), 5), Row(10, ("a", 0.0), 7), Row(10, ("b", 0.0), 9)])
    pair.close(closing - 20)
    pair.queries.append(Query("late", None, [decompose("MIN", "x", INT, None), decompose("SUM", "x", INT, None)], 20))
    pair.deposit([Row(20, ("b", 0.0), 1), Row(20, ("c", 0.0), 3), Row(20, ("c", 0.0), None)])
    pair.close(30)
    pair.check([(pair.queries[1], [(0, 30), (20, 30)]), (first, [(10, 20), (0, 30)])])


@pytest.mark.parametrize("dense_fill", [0.0, 9.9])
@pytest.mark.parametrize("type_", [DOUBLE, SqlType("STRING"), SqlType("DECIMAL(38,0)")], ids=str)
def test_chunks_are_joined(monkeypatch: pytest.MonkeyPatch, type_: SqlType, dense_fill: float) -> None:
    """Eighty ticks of one pane each; some panes have no qualifying tuple; a query joins midway."""
    monkeypatch.setattr(chunks, "DENSE_FILL", dense_fill)
    merges: list[int] = []
    plain = chunks.ChunkView.merge_into
    monkeypatch.setattr(chunks.ChunkView, "merge_into", lambda *args: (merges.append(1), plain(*args))[1])
    monkeypatch.setattr(BasicIntervalSynopsis, "_way", lambda *args: Way.ONE_PASS)
    random = Random(7)
    values = {"DOUBLE": [0.25, -1.5, math.nan, math.inf, None], "STRING": ["a", "é", "", None]}.get(
        type_.name, [Decimal("9" * 38), Decimal(-5), Decimal(0), None]
    )
    pair = Pair(type_, KEYS, [Query("q", PASSES, chosen_calls(type_, PASSES))])
    for pane in range(0, 80 * WIDTH, WIDTH):
        if pane == 40 * WIDTH:
            pair.queries.append(Query("late", PASSES, [decompose("MIN", "x", type_, PASSES)], pane))
        keys = random.sample(KEY_VALUES, random.randint(1, 3))
        pair.deposit([Row(pane, key, random.choice(values), random.random() < 0.6) for key in keys])
        pair.close(pane + WIDTH)
    end = 80 * WIDTH
    for start in (0, 37 * WIDTH, 79 * WIDTH):
        pair.check([(query, [(start, end - WIDTH), (start, end)]) for query in pair.queries])
    merges.clear()
    pair.check([(pair.queries[0], [(0, end)])])
    assert len(merges) <= 40, "fewer steps than half of the panes: chunks were joined"


def test_one_pass_answers_all_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule CS2: a tick merges each pane of the longest window once, whatever the number of queries."""
    merged: list[int] = []
    plain = chunks.ChunkView.merge_into

    def spy(self: Any, into: Any, lo: int, hi: int) -> None:
        merged.append(hi - lo)
        plain(self, into, lo, hi)

    monkeypatch.setattr(chunks.ChunkView, "merge_into", spy)
    monkeypatch.setattr(BasicIntervalSynopsis, "_way", lambda *args: Way.ONE_PASS)
    synopsis, count = counting([pa.int64()])
    synopsis.deposit(cells(synopsis, count, range(100), [0] * 100))
    synopsis.close(100)
    end = np.array([100], np.int64)
    lookups = [Lookup(f"q{n}", end - n, end, count, (count,), False) for n in (7, 90, 3, 50, 90, 1)]
    found = [looked.states[count][0].tolist() for looked in synopsis.answer(lookups)]
    assert sorted(found) == [[1], [3], [7], [50], [90], [90]]
    assert sum(merged) == 90
