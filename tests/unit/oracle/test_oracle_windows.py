"""Every window kind of the oracle against a forward simulation, micro-batch by micro-batch.

The oracle asks for each window when it was answered; the simulation asks at each instant which windows are answered.
They share the definitions but no code, and run without Spark. The test compares windows, instants and contents.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.cql import parse_one
from windrow.cql.dialect import window_of
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.oracle import Batch, End, admit
from windrow.oracle.admission import Admitted, types_of
from windrow.oracle.looks import Looks, OracleQuery, axis_frontier
from windrow.oracle.shapes import window_shape
from windrow.oracle.spark_sql import table_of

Tuple = tuple[int, int, str | None]
"""Row number, point, key."""
Answered = dict[tuple[Any, ...], tuple[int, frozenset[int]]]
"""(window_start, window_end, partition) → the event that answered it, and its row numbers."""


def _stream(rest: str) -> CreateStream:
    text = f"CREATE STREAM s (n BIGINT, k STRING) FROM memory TIMESTAMP BY n PUNCTUATE {rest}"
    statement = parse_one(text)
    assert isinstance(statement, CreateStream)
    return statement


def _looked(clause: str, stream: CreateStream, history: list[Any], added_at: int = 0) -> Answered:
    """The oracle's answers, without Spark."""
    query = parse_one(f"CREATE QUERY q AS SELECT COUNT(*) AS c FROM s {clause}")
    assert isinstance(query, CreateQuery)
    written = window_of(table_of(query.select))
    assert written is not None
    window = window_shape(written, stream)
    before = admit(stream, history[:added_at])
    closed_by = None if window.partition else axis_frontier(window, before)
    looks = Looks(OracleQuery(window, None, closed_by, added_at), admit(stream, history), types_of(stream))
    found: Answered = {}
    for look in looks.all():
        held = [
            one
            for one in looks.tuples
            if one.part == look.part and look.extent.holds(one.point) and one.arrival.event <= look.at
        ]
        part = held[0].arrival.row["k"] if window.partition else None
        key = (look.extent.start, look.extent.end, part)
        found[key] = (look.at, frozenset(one.arrival.number for one in held))
    return found


def _simulate(history: list[Any], slack: int, due: Any) -> Answered:
    """`due(tuples, frontier, ended)` gives the windows due by now, with their tuples."""
    known: list[Tuple] = []
    frontier: int | None = None
    ended = False
    answered: Answered = {}
    for event, one in enumerate(history):
        if isinstance(one, End):
            ended = True
        else:
            on_time = [r for r in one.rows if frontier is None or r["n"] >= frontier]
            known += [(len(known) + i, r["n"], r["k"]) for i, r in enumerate(on_time, start=1)]
            if known:
                frontier = max(n for _, n, _ in known) - slack
        for key, held in due(known, frontier, ended):
            answered.setdefault(key, (event, frozenset(number for number, _, _ in held)))
    return answered


def _passed(point: int, frontier: int | None, ended: bool) -> bool:
    return ended or (frontier is not None and point <= frontier)


Due = Iterable[tuple[tuple[Any, ...], list[Tuple]]]


def _sliding(range_: int, slide: int, offset: int = 0) -> Any:
    def due(known: list[Tuple], frontier: int | None, ended: bool) -> Due:
        for e in (w * slide for w in range(-60, 120)):
            held = [t for t in known if e - offset - range_ <= t[1] < e - offset]
            if held and _passed(e, frontier, ended):
                yield (e - offset - range_, e - offset, None), held

    return due


def _rows(size: int, slide: int, offset: int = 0, partitioned: bool = False) -> Any:
    def due(known: list[Tuple], frontier: int | None, ended: bool) -> Due:
        for key in {k for _, _, k in known} if partitioned else {None}:
            mine = [t for t in known if not partitioned or t[2] == key]
            for e in range(1 + slide, 200, slide):
                held = [t for rank, t in enumerate(mine, start=1) if e - offset - size <= rank < e - offset]
                if held and (ended or len(mine) + 1 >= e):
                    yield (e - offset - size, e - offset, key), held

    return due


def _by_tuple(range_: int, every: int, ranked: bool) -> Any:
    def due(known: list[Tuple], frontier: int | None, ended: bool) -> Due:
        ordered = sorted(known, key=lambda t: (t[1], t[0])) if ranked else known
        for w in {t[1] for i, t in enumerate(ordered, start=1) if i % every == 0}:
            if ended or (frontier is not None and frontier > w):
                yield (w - range_, w, None), [t for t in known if w - range_ < t[1] <= w]

    return due


def _landmark(begin: int | None, slide: int) -> Any:
    def due(known: list[Tuple], frontier: int | None, ended: bool) -> Due:
        greatest = max((t[1] for t in known), default=None)
        for e in (w * slide for w in range(-60, 120)):
            held = [t for t in known if (begin is None or t[1] >= begin) and t[1] < e]
            last = greatest is not None and e - slide <= greatest
            if held and (begin is None or e > begin) and (_passed(e, frontier, False) or (ended and last)):
                yield (begin, e, None), held

    return due


KINDS = {
    "[RANGE 10 SLIDE 4]": _sliding(10, 4),
    "[RANGE 5 SLIDE 5]": _sliding(5, 5),
    "[RANGE 3 SLIDE 7]": _sliding(3, 7),
    "[NOW SLIDE 3]": _sliding(1, 3),
    "[RANGE 6 OFFSET 4 SLIDE 3]": _sliding(6, 3, 4),
    "[ROWS 4 SLIDE 1]": _rows(4, 1),
    "[ROWS 3 SLIDE 5]": _rows(3, 5),
    "[ROWS 5 OFFSET 2 SLIDE 3]": _rows(5, 3, 2),
    "[ROWS 3 SLIDE 2 PARTITION BY k]": _rows(3, 2, partitioned=True),
    "[ROWS 2 OFFSET 1 SLIDE 1 PARTITION BY k]": _rows(2, 1, 1, partitioned=True),
    "[RANGE 6 SLIDE 1 ROW]": _by_tuple(6, 1, False),
    "[NOW]": _by_tuple(1, 1, False),
    "[RANGE 6 SLIDE 3 ROWS]": _by_tuple(6, 3, False),
    "[RANGE 6 SLIDE 3 ROWS SATTR rank(n)]": _by_tuple(6, 3, True),
    "[SINCE 3 SLIDE 4]": _landmark(3, 4),
    "[UNBOUNDED SLIDE 6]": _landmark(None, 6),
}

rows = st.builds(lambda n, k: {"n": n, "k": k}, st.integers(-9, 40), st.sampled_from(["a", "b", None]))


@pytest.mark.parametrize("clause", KINDS)
@settings(max_examples=60)
@given(st.lists(st.lists(rows, max_size=6), max_size=5), st.integers(0, 12), st.booleans())
def test_windows_against_simulation(clause: str, batches: list[list[dict[str, Any]]], slack: int, ended: bool) -> None:
    history: list[Any] = [*map(Batch, batches), *([End()] if ended else [])]
    stream = _stream(f"WITH SLACK {slack}")
    assert _looked(clause, stream, history) == _simulate(history, slack, KINDS[clause])


@pytest.mark.parametrize("clause", ["[RANGE 10 SLIDE 4]", "[ROWS 3 SLIDE 2]", "[RANGE 6 SLIDE 1 ROW]"])
def test_query_added_later(clause: str) -> None:
    batches = [Batch([{"n": n, "k": "a"} for n in points]) for points in ([1, 5, 9, 13], [14, 18, 27])]
    history: list[Any] = [*batches, End()]
    stream = _stream("ORDERED")
    late, early = _looked(clause, stream, history, added_at=1), _looked(clause, stream, history)
    assert late == {key: (event, held) for key, (event, held) in early.items() if event >= 1}
    assert late and late != early


def test_windows_do_not_depend_on_order() -> None:
    """If a window does not depend on the order of arrival, its answer depends on event time alone."""
    points = [1, 2, 4, 6, 7, 11, 12, 15, 18, 19, 22, 31]
    shuffled = [4, 1, 2, 7, 6, 11, 15, 12, 18, 22, 19, 31]
    for clause in KINDS:
        if "ROWS" in clause and "rank" not in clause:
            continue
        contents = []
        for order in (points, shuffled):
            history: list[Any] = [Batch([{"n": n, "k": "a"}]) for n in order] + [End()]
            named = dict(enumerate(order, start=1))
            found = _looked(clause, _stream("WITH SLACK 4"), history)
            contents.append({key: sorted(named[number] for number in held) for key, (_, held) in found.items()})
        assert contents[0] == contents[1] and contents[0], clause


def test_frontiers_of_admission() -> None:
    state: Admitted = admit(_stream("ORDERED"), [Batch([{"n": 1, "k": "a"}]), End()])
    assert [instant.ended for instant in state.instants] == [False, True] and state.ended
