"""q.lookup and q.lookups: any window on cuts within the span, checked against the fed tuples."""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from windrow.errors import BindError, QuerySuspendedError, SpanError, UnsupportedError

from .conftest import STREAM, Open
from .helpers import Row, put, state_of

ROWS = [(t, "abc"[t % 3], t * 7 % 11) for t in range(0, 95, 1)]


def brute(start: int, end: int, rows: list[Row] = ROWS) -> list[Row]:
    """(k, SUM(x), COUNT(*), MAX(x)) of the tuples in [start, end), by key."""
    held: dict[Any, list[int]] = defaultdict(list)
    for t, k, x in rows:
        if start <= t < end:
            held[k].append(x)
    return [(k, sum(xs), len(xs), max(xs)) for k, xs in sorted(held.items())]


def looked(result: Any) -> list[Row]:
    return [tuple(row.values()) for row in result.arrow().drop_columns(["is_revision"]).to_pylist()]


@pytest.fixture
def q(wr: Any) -> Any:
    """A query with RANGE 60 SLIDE 10 over the tuples 0 … 94; panes below 90 are closed."""
    query = wr.query(
        "q", "SELECT k, SUM(x) AS s, COUNT(*) AS n, MAX(x) AS m FROM s [RANGE 60 SLIDE 10] GROUP BY k ORDER BY k"
    )
    put(wr, *ROWS)
    return query


@pytest.mark.parametrize(("window", "at", "start", "end"), [(20, None, 70, 90), (60, None, 30, 90), (30, 70, 40, 70)])
def test_lookup(q: Any, window: int, at: int | None, start: int, end: int) -> None:
    assert looked(q.lookup(window=window, at=at)) == [(start, end, *row) for row in brute(start, end)]


def test_lookup_columns(q: Any) -> None:
    assert q.lookup(20).arrow().schema == q.answers().arrow().schema
    assert q.lookups([]).arrow().schema == q.answers().arrow().schema and len(q.lookups([])) == 0


def test_lookup_of_the_last_window(q: Any) -> None:
    assert q.lookup(60).rows() == q.answer().rows()


def test_lookups_keep_their_order(q: Any) -> None:
    windows, ends = [20, 50, 20, 10, 60], [80, 90, 80, 50, 90]
    expected = [(e - w, e, *row) for w, e in zip(windows, ends, strict=True) for row in brute(e - w, e)]
    assert looked(q.lookups(windows, ends)) == expected
    assert looked(q.lookups(windows=20, at=[90, 60])) == [(e - 20, e, *r) for e in (90, 60) for r in brute(e - 20, e)]
    assert looked(q.lookups(windows=[10, 30])) == [(90 - w, 90, *row) for w in (10, 30) for row in brute(90 - w, 90)]
    with pytest.raises(BindError, match="2 windows and 1 ends"):
        q.lookups([10, 20], [90])


def test_thousands_of_lookups(q: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.engine.ask.lookups.SLOTS_AT_ONCE", 50)
    windows = [10 * (1 + i % 6) for i in range(2000)]
    assert looked(q.lookups(windows)) == [(90 - w, 90, *row) for w in windows for row in brute(90 - w, 90)]


def test_edge_inside_a_pane(q: Any) -> None:
    with pytest.raises(SpanError, match="cannot be looked up: windows can begin and end only every 10") as told:
        q.lookup(27)
    assert told.value.remedy == "Windows near it that fit: [60, 90) (30), [70, 90) (20)."
    with pytest.raises(SpanError, match="windows can begin and end only every") as told:
        q.lookup(20, at=83)
    assert told.value.remedy is not None and "[60, 80) (20)" in told.value.remedy


def test_window_outside_the_span(q: Any) -> None:
    with pytest.raises(SpanError, match=r"not closed yet: windows from 30 to 90 can be looked up"):
        q.lookup(10, at=100)
    with pytest.raises(SpanError, match=r"begins before what is kept: windows from 30 to 90") as told:
        q.lookup(40, at=60)
    assert told.value.remedy is not None and told.value.remedy.startswith("Ask for at most 30 with that end, or")
    with pytest.raises(SpanError, match=r"a window of 70 is longer than what is kept") as told:
        q.lookup(70)
    assert told.value.remedy is not None and told.value.remedy.startswith("Ask for at most 60 with that end, or")
    with pytest.raises(SpanError, match=r"begins before what is kept") as told:
        q.lookup(10, at=-1000)
    assert told.value.remedy is not None
    assert told.value.remedy.startswith("Windows are kept 60 back from 90: ask for an end above 30, or create")


def test_lookup_before_anything_is_closed(wr: Any) -> None:
    query = wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 60 SLIDE 10]")
    with pytest.raises(SpanError, match="stream 's' has no closed window"):
        query.lookup(10)


def test_lookup_before_the_query_was_created(wr: Any, q: Any) -> None:
    late = wr.query("late", "SELECT k, SUM(length(k) * x) AS s FROM s [RANGE 60 SLIDE 10] GROUP BY k")
    put(wr, *[(t, "a", 1) for t in range(95, 131)])
    assert looked(late.lookup(20)) == [(110, 130, "a", 20)]
    with pytest.raises(SpanError, match="windows from 100 to 130"):
        late.lookup(40)


def test_span_and_cuts_of_a_shared_synopsis(wr: Any, q: Any) -> None:
    short = wr.query("short", "SELECT COUNT(*) AS n FROM s [RANGE 30 SLIDE 5]")
    wr.query("long", "SELECT k, COUNT(*) AS n FROM s [RANGE 100 SLIDE 20] GROUP BY k")
    put(wr, *[(t, "a", 1) for t in range(95, 301)])
    wr.sql("DROP QUERY q")
    grouped = wr.queries["long"]
    assert looked(grouped.lookup(40)) == [(260, 300, "a", 40)]
    assert looked(short.lookup(15)) == [(285, 300, 15)]


def test_ungrouped_lookup_always_has_a_row(wr: Any) -> None:
    query = wr.query("q", "SELECT COUNT(*) AS n, SUM(x) AS s FROM s [RANGE 60 SLIDE 10]")
    put(wr, (5, "a", 1), (55, "a", 2))
    assert looked(query.lookups([10, 50], at=[30, 50])) == [(20, 30, 0, None), (0, 50, 1, 1)]


def test_having_order_and_limit_per_window(wr: Any) -> None:
    query = wr.query(
        "q",
        "SELECT k, SUM(x) * 2 AS s FROM s [RANGE 60 SLIDE 10] GROUP BY k HAVING COUNT(*) > 3 ORDER BY s DESC LIMIT 2",
    )
    put(wr, *ROWS)
    expected = []
    for start, end in ((80, 90), (30, 90), (50, 90)):
        rows = sorted((-2 * s, k) for k, s, n, _ in brute(start, end) if n > 3)[:2]
        expected += [(start, end, k, -s) for s, k in rows]
    assert looked(query.lookups([10, 60, 40])) == expected


def test_windows_of_rows_and_windows_that_slide_by_tuple(wr: Any) -> None:
    rows = wr.query("rows", "SELECT SUM(x) AS s FROM s [ROWS 8 SLIDE 2]")
    tuples = wr.query("tuples", "SELECT SUM(x) AS s FROM s [RANGE 10 SLIDE 1 ROW]")
    put(wr, *[(10 * i, "a", i) for i in range(1, 12)])
    assert looked(rows.lookup(4)) == [(7, 11, 7 + 8 + 9 + 10)]
    assert looked(rows.lookup(6, at=9)) == [(3, 9, sum(range(3, 9)))]
    assert looked(tuples.lookup(10)) == [(99, 109, 10)]
    assert looked(tuples.lookup(5, at=104)) == [(99, 104, 10)]
    with pytest.raises(SpanError, match="windows can begin and end only every"):
        rows.lookup(3)


@pytest.mark.parametrize(
    ("window", "told"), [("SINCE 0 SLIDE 10", "landmark"), ("ROWS 4 SLIDE 2 PARTITION BY k", "rows of each partition")]
)
def test_landmark_and_partitioned_windows_are_refused(wr: Any, window: str, told: str) -> None:
    query = wr.query("q", f"SELECT k, COUNT(*) AS n FROM s [{window}] GROUP BY k")
    put(wr, *ROWS)
    with pytest.raises(UnsupportedError, match=told):
        query.lookup(10)


def test_lookup_arguments_for_timestamps(open_state: Open) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM e (ts TIMESTAMP, x INT) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    query = wr.query("q", "SELECT COUNT(*) AS n FROM e [RANGE 10 MINUTES SLIDE 1 MINUTE]")
    noon = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    wr.deposit("e", [(noon + timedelta(seconds=20 * i), i) for i in range(40)])
    latest = query.lookup(window="7 minutes")
    assert looked(latest) == [(noon + timedelta(minutes=6), noon + timedelta(minutes=13), 21)]
    for at in (noon + timedelta(minutes=13), "2026-03-01 12:13:00", datetime(2026, 3, 1, 12, 13)):
        assert query.lookup(timedelta(minutes=7), at).rows() == latest.rows()
    for wrong in (7, "7 months", "seven", -1, None, 1.5, timedelta(0), True):
        with pytest.raises(BindError, match="is not a window length"):
            query.lookup(wrong)
    for wrong in (7, "noon", 1.5):
        with pytest.raises(BindError, match="is no point of ts"):
            query.lookup("1 minute", wrong)
    with pytest.raises(SpanError, match="begin and end only every 1 MINUTE"):
        query.lookup("90 seconds")


def test_lookup_of_a_suspended_query(wr: Any, q: Any) -> None:
    stream = state_of(wr)
    wr._engine.opened.journal.suspend(stream, stream.queries["q"], "a test")
    with pytest.raises(QuerySuspendedError):
        q.lookup(10)


def test_lookup_after_restart(open_state: Open) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.query("q", "SELECT k, SUM(x) AS s FROM s [RANGE 60 SLIDE 10] GROUP BY k ORDER BY k")
    put(wr, *ROWS)
    before = wr.queries["q"].lookups([10, 20, 60]).rows()
    wr.close()
    again = open_state()
    assert again.queries["q"].lookups([10, 20, 60]).rows() == before


def test_lookup_with_late_tuples(open_state: Open) -> None:
    wr = open_state()
    wr.sql(
        "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED LATE REVISE FOR 30"
    )
    query = wr.query(
        "q", "SELECT k, SUM(x) AS s, COUNT(*) AS n, MAX(x) AS m FROM s [RANGE 60 SLIDE 10] GROUP BY k ORDER BY k"
    )
    put(wr, *ROWS)
    late = (75, "b", 1000)
    put(wr, late)
    assert looked(query.lookup(30)) == [(60, 90, *row) for row in brute(60, 90, [*ROWS, late])]


def test_lookups_see_whole_ticks(wr: Any) -> None:
    """Every lookup sees whole ticks: as many tuples as the window has points."""
    query = wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 50 SLIDE 10]")
    put(wr, *[(t, "a", 1) for t in range(60)])
    wrong: list[Any] = []
    done = threading.Event()

    def ask() -> None:
        last = 0
        while not done.is_set():
            for start, end, n in looked(query.lookups([10, 50])):
                if n != end - start or end < last:
                    wrong.append((start, end, n))
                last = end

    asking = threading.Thread(target=ask)
    asking.start()
    for first in range(60, 300, 40):
        put(wr, *[(t, "a", 1) for t in range(first, first + 40)])
    done.set()
    asking.join()
    assert not wrong
    assert looked(query.lookup(50)) == [(240, 290, 50)]


@pytest.mark.parametrize("kind", ["basic interval", "interval", "running", "landmark interval"])
def test_the_kind_of_synopsis_changes_no_lookup(wr: Any, kind: str) -> None:
    query = wr.query(
        "q", "SELECT k, SUM(x) AS s, COUNT(*) AS n, MAX(x) AS m FROM s [RANGE 60 SLIDE 10] GROUP BY k ORDER BY k"
    )
    put(wr, *ROWS[:50])
    wr.sql(f"SET synopsis = '{kind}'")
    put(wr, *ROWS[50:])
    assert looked(query.lookups([20, 50, 60])) == [(90 - w, 90, *r) for w in (20, 50, 60) for r in brute(90 - w, 90)]
    (state,) = state_of(wr).synopses.values()
    assert state.synopsis.indexer.kind.value == kind
    told = query.explain()
    assert f"choice: {kind}" in told and f"SET synopsis = '{kind}'" in told
    assert "answered last: " in told and "for 3 windows, estimated: one pass " in told
    assert all(f"{other} " in told for other in ("basic interval", "interval", "running", "landmark interval"))
    wr.sql("SET synopsis = 'basic interval'")
    assert looked(query.lookup(20)) == [(70, 90, *row) for row in brute(70, 90)]
    assert state.synopsis.indexer.index is None


def test_explain_shows_index_costs_after_lookups(wr: Any, q: Any) -> None:
    (line,) = (one for one in q.explain().splitlines() if "choice:" in one)
    assert "probings, each of so many windows that a walk is quickest" in line and " ns" not in line


def test_index_is_built_and_bounded(wr: Any) -> None:
    """An index is built once walking has cost as much as building, and dropped if it exceeds its bound."""
    wr.query("fine", "SELECT k, SUM(x) AS s FROM s [RANGE 1 SLIDE 1] GROUP BY k")
    query = wr.query("q", "SELECT k, SUM(x) AS s FROM s [RANGE 2000 SLIDE 2000] GROUP BY k")
    put(wr, *[(t, f"k{t % 400}", 1) for t in range(4000)])
    (state,) = state_of(wr).synopses.values()
    expected = looked(query.lookup(1500))
    assert state.synopsis.indexer.kind.value == "basic interval"
    for _ in range(1500):
        query.lookup(1999)
        if state.synopsis.indexer.index is not None:
            break
    assert state.synopsis.indexer.kind.value == "running"
    assert "choice: running" in query.explain() and "(by cost)" in query.explain()
    assert looked(query.lookup(1500)) == expected and len(expected) == 400
    wr.sql("SET index_bytes = '1 KB'")
    assert looked(query.lookup(1500)) == expected
    assert state.synopsis.indexer.index is None


@pytest.mark.parametrize("kind", ["running", "interval", "landmark interval"])
def test_index_with_groups_of_open_panes(wr: Any, kind: str) -> None:
    """Groups are numbered when they arrive, before the index has them."""
    wr.sql(f"SET synopsis = '{kind}'")
    query = wr.query(
        "q", "SELECT k, SUM(x) AS s, COUNT(*) AS n, MAX(x) AS m FROM s [RANGE 60 SLIDE 10] GROUP BY k ORDER BY k"
    )
    put(wr, *ROWS)
    assert looked(query.lookup(20)) == [(70, 90, *row) for row in brute(70, 90)]
    put(wr, *((95, f"new {i}", i) for i in range(50)))
    assert looked(query.lookup(20)) == [(70, 90, *row) for row in brute(70, 90)]


def test_panes_of_single_points_after_restart(open_state: Open) -> None:
    wr = open_state()
    wr.sql(STREAM)
    wr.query("long", "SELECT k, SUM(x) AS s FROM s [RANGE 4 SLIDE 4] GROUP BY k")
    wr.query("short", "SELECT k, SUM(x) AS s FROM s [RANGE 3 SLIDE 1] GROUP BY k")
    put(wr, *ROWS)
    before = [state.plan.style for state in wr._engine.manager.stream("s").synopses.values()]
    wr.close()
    again = open_state()
    assert [state.plan.style for state in again._engine.manager.stream("s").synopses.values()] == before
    assert len(before) == 1 and before[0][0] != "buffer"
