"""Cuts: every window edge is a cut, no pane straddles one while queries come and go, and who may share them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.types import POINT_MIN
from windrow.windows import Cuts, CutSchedule, Points, SlidingWindow, why_not_share

some = settings(max_examples=60, deadline=None)

MS, S, MINUTE = 1_000, 1_000_000, 60_000_000

windows = st.builds(SlidingWindow, st.integers(1, 30), st.integers(1, 30), st.integers(-40, 40))
several = st.lists(windows, min_size=1, max_size=5)
SPAN = np.arange(-250, 250, dtype=np.int64)


def union(used: Sequence[SlidingWindow]) -> Cuts:
    cuts = used[0].cuts()
    for window in used[1:]:
        cuts = cuts.union(window.cuts())
    return cuts


def edges_of(window: SlidingWindow, lo: int, hi: int) -> set[int]:
    """The starts and ends in [lo, hi], computed with `extent` only."""
    wids = range(window.first_wid(lo) - window.range // window.slide - 2, window.last_wid(hi) + 3)
    return {edge for w in wids for edge in window.extent(w) if lo <= edge <= hi}


def assert_no_pane_straddles(panes: Points, points: Points, edges: set[int]) -> None:
    """Points of one pane lie on the same side of every edge. `points` are consecutive integers."""
    assert np.all(panes <= points)
    assert np.all(np.diff(panes) >= 0)
    same = set(points[1:][panes[1:] == panes[:-1]].tolist())
    assert not same & edges


@some
@given(several)
def test_every_edge_is_a_cut(used: list[SlidingWindow]) -> None:
    cuts = union(used)
    panes = cuts.floor(SPAN)
    edges = {e for window in used for e in edges_of(window, -250, 249)}
    assert edges <= set(SPAN[panes == SPAN].tolist())
    assert_no_pane_straddles(panes, SPAN, edges)


@some
@given(several)
def test_union_holds_its_parts(used: list[SlidingWindow]) -> None:
    cuts = union(used)
    assert all(cuts.union(window.cuts()) == cuts for window in used)
    assert all(cuts.holds(window.cuts()) for window in used)


@some
@given(several)
def test_grid_at_most_doubles_the_cuts(used: list[SlidingWindow]) -> None:
    """A union may be replaced by one grid only if that at most doubles the panes."""
    edges = {(w.slide, phase % w.slide) for w in used for phase in (w.origin, w.origin - w.range)}
    assert Cuts.of(edges).density <= 2 * sum(Fraction(1, period) for period, _ in edges)


@some
@given(several, windows)
def test_holds(used: list[SlidingWindow], other: SlidingWindow) -> None:
    mine, theirs = union(used), other.cuts()
    cuts = set(SPAN[mine.floor(SPAN) == SPAN].tolist())
    wanted = set(SPAN[theirs.floor(SPAN) == SPAN].tolist())
    if mine.holds(theirs):
        assert wanted <= cuts


@some
@given(several, st.integers(-200, 200))
def test_above(used: list[SlidingWindow], point: int) -> None:
    cuts = union(used)
    above = cuts.above(point)
    assert above > point
    between = np.arange(point + 1, above + 1, dtype=np.int64)
    assert set(cuts.floor(between[:-1]).tolist()) <= {int(cuts.floor(np.array([point]))[0])}
    assert cuts.floor(between[-1:])[0] == above


def test_bad_progressions() -> None:
    for bad in [(), ((0, 0),), ((5, 5),), ((5, -1),)]:
        with pytest.raises(ValueError, match="progressions"):
            Cuts(bad)


def test_range_not_multiple_of_slide() -> None:
    cuts = SlidingWindow(7, 5).cuts()
    assert SPAN[cuts.floor(SPAN) == SPAN][:5].tolist() == [-250, -247, -245, -242, -240]


# -- schedules: queries come and go ---------------------------------------------------------------------


@dataclass
class History:
    """Queries join and leave while the greatest deposited point rises, as in the engine."""

    schedule: CutSchedule
    greatest: int | None = None
    users: dict[int, tuple[SlidingWindow, int]] = field(default_factory=dict)

    def join(self, name: int, window: SlidingWindow) -> None:
        before = self.schedule
        self.schedule = before.moved(before.current.union(window.cuts()), self.greatest)
        self.users[name] = (window, before.first_free(self.greatest))
        self._deposited_panes_stay(before)

    def leave(self, name: int) -> None:
        before = self.schedule
        del self.users[name]
        self.schedule = before.moved(union([window for window, _ in self.users.values()]), self.greatest)
        self._deposited_panes_stay(before)

    def _deposited_panes_stay(self, before: CutSchedule) -> None:
        if self.greatest is not None:
            seen = SPAN[self.greatest >= SPAN]
            assert self.schedule.pane_starts(seen).tolist() == before.pane_starts(seen).tolist()

    def check(self, floor: int = -250) -> None:
        points = SPAN[floor <= SPAN]
        panes = self.schedule.pane_starts(points)
        for window, since in self.users.values():
            assert_no_pane_straddles(panes, points, {e for e in edges_of(window, floor, 249) if e >= since})


@st.composite
def histories(draw: st.DrawFn) -> History:
    first = draw(windows)
    history = History(CutSchedule.of(first.cuts()))
    history.users[0] = (first, POINT_MIN)
    for name in range(1, draw(st.integers(1, 6))):
        rise = draw(st.none() | st.integers(0, 60))
        if rise is not None:
            history.greatest = -150 + rise if history.greatest is None else history.greatest + rise
        if len(history.users) > 1 and draw(st.booleans()):
            history.leave(draw(st.sampled_from(sorted(history.users))))
        else:
            history.join(name, draw(windows))
    return history


@some
@given(histories())
def test_no_pane_straddles_an_edge(history: History) -> None:
    history.check()


@some
@given(histories(), st.data())
def test_pruned(history: History, data: st.DataObject) -> None:
    whole = history.schedule
    near = data.draw(st.sampled_from([start for start, _ in whole.regimes[1:]] or [0]))
    frontier = near + data.draw(st.integers(-8, 8))
    history.schedule = whole.pruned(frontier)
    history.check(frontier)
    assert history.schedule.current == whole.current
    assert history.schedule == whole or history.schedule.regimes[0][0] <= frontier
    points = SPAN[max(frontier, history.schedule.regimes[0][0]) <= SPAN]
    before, after = whole.pane_starts(points), history.schedule.pane_starts(points)
    for ours, theirs, point in zip(after.tolist(), before.tolist(), points.tolist(), strict=True):
        assert ours == theirs or (ours < theirs == history.schedule.regimes[0][0] <= point)


@some
@given(histories(), windows)
def test_holds_since(history: History, window: SlidingWindow) -> None:
    wanted = window.cuts()
    since = history.schedule.holds_since(wanted)
    if since is None:
        assert not history.schedule.current.holds(wanted)
        return
    panes = history.schedule.pane_starts(SPAN)
    assert_no_pane_straddles(panes, SPAN, {e for e in edges_of(window, -250, 249) if e >= since})
    earlier = [cuts for start, cuts in history.schedule.regimes if start < since]
    assert not earlier or not earlier[-1].holds(wanted)


def test_moved() -> None:
    tens, threes = Cuts.of([(10, 0)]), Cuts.of([(3, 0)])
    schedule = CutSchedule.of(tens).moved(threes, 25)
    assert schedule.regimes == ((POINT_MIN, tens), (30, threes))
    assert schedule.pane_starts(np.array([25, 29, 30, 32, 33])).tolist() == [20, 20, 30, 30, 33]


def test_moved_twice() -> None:
    tens, threes, sevens = Cuts.of([(10, 0)]), Cuts.of([(3, 0)]), Cuts.of([(7, 0)])
    twice = CutSchedule.of(tens).moved(threes, 25).moved(sevens, 25)
    assert twice.regimes == ((POINT_MIN, tens), (30, sevens))


def test_moved_before_first_deposit() -> None:
    tens, threes = Cuts.of([(10, 0)]), Cuts.of([(3, 0)])
    assert CutSchedule.of(tens).moved(threes, None) == CutSchedule.of(threes)
    assert CutSchedule.of(tens).first_free(None) == POINT_MIN
    same = CutSchedule.of(tens)
    assert same.moved(tens, 25) is same


def test_regimes_ascend() -> None:
    tens = Cuts.of([(10, 0)])
    for bad in [(), ((5, tens), (5, tens)), ((5, tens), (4, tens))]:
        with pytest.raises(ValueError, match="ascending"):
            CutSchedule(bad)


# -- the SQL text ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"threads": 1}) as made:
        made.execute("CREATE MACRO pmod(a, n) AS ((a % n) + n) % n")
        yield made


def evaluated(connection: duckdb.DuckDBPyConnection, sql: str, points: Sequence[int]) -> list[int]:
    """The value of the Spark expression in DuckDB: `pmod` is a macro, and BIGINT literals lose their suffix."""
    text = re.sub(r"\b(\d+)L\b", r"\1::BIGINT", sql)
    table = ", ".join(f"({i}, {p}::BIGINT)" for i, p in enumerate(points))
    rows = connection.execute(f"SELECT {text} FROM (VALUES {table}) AS rows(i, t) ORDER BY i").fetchall()
    return [row[0] for row in rows]


def test_sql_matches_numpy(connection: duckdb.DuckDBPyConnection) -> None:

    @some
    @given(histories(), st.lists(st.integers(-300, 300), min_size=1, max_size=20))
    def check(history: History, points: list[int]) -> None:
        wanted = history.schedule.pane_starts(np.array(points)).tolist()
        assert evaluated(connection, history.schedule.sql("t"), points) == wanted

    check()


def test_sql_at_bounds_of_points(connection: duckdb.DuckDBPyConnection) -> None:
    day = 86_400 * S
    schedule = CutSchedule.of(SlidingWindow(7 * day, day, 3 * S).cuts())
    schedule = schedule.moved(SlidingWindow(1 << 60, 1 << 60).cuts(), -5).moved(Cuts.of([(333, 7)]), 10**17)
    points = [-(10**18) + 1, -1, 0, 1, 10**17, 10**18 - 1]
    wanted = schedule.pane_starts(np.array(points)).tolist()
    assert evaluated(connection, schedule.sql("t"), points) == wanted
    assert all(pane <= point for pane, point in zip(wanted, points, strict=True))


# -- why_not_share ----------------------------------------------------------------------------------------


def may_share(present: Cuts, incoming: Cuts, cut_factor: int) -> bool:
    return why_not_share(present, incoming, cut_factor) is None


def window(range_us: int, slide_us: int, origin_us: int = 0) -> Cuts:
    return SlidingWindow(range_us, slide_us, origin_us).cuts()


@pytest.mark.parametrize("factor", [4, 1000])
def test_333_milliseconds_and_a_second_do_not_share(factor: int) -> None:
    second, odd = window(10 * S, S), window(10 * 333 * MS, 333 * MS)
    assert not may_share(second, odd, factor)
    assert not may_share(odd, second, factor)


def test_whole_seconds_share() -> None:
    assert may_share(window(60 * S, S), window(100 * S, 7 * S), 4)
    assert may_share(window(60 * S, 5 * S), window(99 * S, 7 * S), 4)
    assert may_share(window(60 * S, 2 * S), window(60 * S, S), 4)
    assert may_share(window(60 * S, 2 * S), window(60 * S, 2 * S, S), 4)


def test_query_without_new_cuts_shares() -> None:
    assert may_share(window(60 * S, S), window(60 * MINUTE, MINUTE), 1)
    assert may_share(window(60 * S, S), window(60 * S, S), 1)


def test_cut_factor() -> None:
    minutes, quarters = window(10 * MINUTE, MINUTE), window(MINUTE, 15 * S)
    assert may_share(minutes, quarters, 4)
    assert not may_share(minutes, quarters, 3)
    assert not may_share(minutes, window(MINUTE, S), 4)
    assert may_share(minutes, window(MINUTE, S), 60)


@some
@given(several, windows, st.integers(1, 8))
def test_cut_factor_bounds_density(used: list[SlidingWindow], other: SlidingWindow, factor: int) -> None:
    present, incoming = union(used), other.cuts()
    if may_share(present, incoming, factor):
        assert present.union(incoming).density <= factor * present.density
