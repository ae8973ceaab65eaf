"""The oracle's punctuation: policies, patterns, the two meanings of slack, revisions. Without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest

from windrow.cql import parse_one
from windrow.cql.dialect import window_of
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.oracle import Batch, End, Punctuation, Reason, admit
from windrow.oracle.admission import Admitted, Row, types_of
from windrow.oracle.extents import Extent
from windrow.oracle.looks import Look, Looks, OracleQuery, is_open
from windrow.oracle.patterns import ALWAYS, BadPattern, OracleCondition, Pattern, parse_pattern, pattern_of
from windrow.oracle.revisions import LookResult, revisions_of
from windrow.oracle.shapes import window_shape
from windrow.oracle.spark_sql import table_of
from windrow.types import SqlType

TYPES = {"n": SqlType("BIGINT"), "k": SqlType("STRING"), "ts": SqlType("TIMESTAMP"), "d": SqlType("DECIMAL(5,2)")}


def _stream(rest: str, columns: str = "n BIGINT, k STRING") -> CreateStream:
    statement = parse_one(f"CREATE STREAM s ({columns}) FROM memory TIMESTAMP BY n {rest}")
    assert isinstance(statement, CreateStream)
    return statement


def _batch(*pairs: tuple[int, str | None], generous: bool = False) -> Batch:
    return Batch([{"n": n, "k": k} for n, k in pairs], generous=generous)


def _source(*rows: tuple[int | None, str | None, str | None]) -> Batch:
    return Batch([{"n": n, "k": k, "punctuation": text} for n, k, text in rows])


def _frontiers(stream: CreateStream, history: Sequence[Any]) -> list[int | None]:
    return [instant.frontiers["n"] for instant in admit(stream, history).instants]


def _late(state: Admitted) -> list[int]:
    return [letter.row["n"] for letter in state.dead if letter.reason is Reason.LATE]


def _asker(clause: str, stream: CreateStream, groups: frozenset[str] = frozenset()) -> OracleQuery:
    query = parse_one(f"CREATE QUERY q AS SELECT COUNT(*) AS c FROM s {clause}")
    assert isinstance(query, CreateQuery)
    window = window_of(table_of(query.select))
    assert window is not None
    return OracleQuery(window_shape(window, stream), None, None, 0, groups)


def _seen(looks: Looks) -> list[tuple[int, int, int, list[int]]]:
    """(event, window_start, window_end, points) of every look, in order."""
    found = []
    for look in looks.all():
        until = {True: look.at, False: look.first}
        mine = [one for one in looks.tuples if one.part == look.part and look.extent.holds(one.point)]
        points = sorted(one.point for one in mine if one.arrival.event <= until[one.arrival.lasting])
        found.append((look.at, look.extent.start or 0, look.extent.end, [] if look.gone else points))
    return sorted(found)


# ---- policies


def test_slack_in_rows() -> None:
    stream = _stream("PUNCTUATE WITH SLACK 2 ROWS")
    history = [_batch((5, "a"), (9, "a")), _batch((7, "a")), _batch((9, "b"), (4, "b")), _batch((20, "a"))]
    # 5 9 | 5 7 9 → 5 | 5 7 9 9 (4 is late) → 7 | 5 7 9 9 20 → 9
    assert _frontiers(stream, history) == [None, 5, 7, 9]
    assert _late(admit(stream, history)) == [4]


def test_slack_of_0_rows() -> None:
    history = [_batch((5, "a"), (9, "a")), _batch((8, "a"))]
    assert _frontiers(_stream("PUNCTUATE WITH SLACK 0 ROWS"), history) == [9, 9]


def test_per_key() -> None:
    stream = _stream("PUNCTUATE PER k")
    history = [_batch((5, "a"), (3, "b")), _batch((9, "a")), _batch((8, "b"), (4, "c")), _batch((7, "c"), (30, None))]
    # a 5, b 3 | a 9 | b 8, c 4 joins: the least is 4 | c 7; NULL is a key like others
    assert _frontiers(stream, history) == [3, 3, 4, 7]
    assert _late(admit(stream, history)) == []


def test_idle_key() -> None:
    stream = _stream("PUNCTUATE PER k IDLE AFTER 10 SECONDS", "n TIMESTAMP, k STRING")

    def at(*pairs: tuple[int, str]) -> Batch:
        return Batch([{"n": datetime.fromtimestamp(s, timezone.utc), "k": k} for s, k in pairs])

    history = [at((5, "a"), (3, "b")), at((13, "a")), at((14, "a")), at((14, "b"), (12, "b")), at((20, "a"))]
    seconds = [None if f is None else f // 10**6 for f in _frontiers(stream, history)]
    # At 13, b is 10 behind and stays; at 14 it is 11 behind and leaves, so 12 is late; then it is back at 14.
    assert seconds == [3, 3, 14, 14, 14]
    assert len(_late(admit(stream, history))) == 1


def test_late_new_key() -> None:
    history = [_batch((5, "a")), _batch((4, "b")), _batch((9, "a"))]
    stream = _stream("PUNCTUATE PER k")
    assert _frontiers(stream, history) == [5, 5, 9] and _late(admit(stream, history)) == [4]


def test_punctuation_by_hand() -> None:
    for policy in ("ORDERED", "WITH SLACK 3", "WITH SLACK 2 ROWS", "PER k"):
        history = [_batch((5, "a")), Punctuation("n", 8), _batch((9, "a"), (7, "b")), _batch((10, "a"))]
        stream = _stream(f"PUNCTUATE {policy}")
        assert _frontiers(stream, history)[1] == 8 and _late(admit(stream, history)) == [7]


def test_two_attributes() -> None:
    stream = _stream("PUNCTUATE ORDERED PUNCTUATE ON m WITH SLACK 5", "n BIGINT, m INT")
    history = [Batch([(1, 100), (2, 90)]), Batch([(3, 94), (3, 95), (1, 99)])]
    state = admit(stream, history)
    assert state.frontiers == {"n": 3, "m": 95}
    assert [(letter.row["n"], letter.row["m"]) for letter in state.dead] == [(3, 94), (1, 99)]


# ---- patterns


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("k = 's6', n < 10", {"k": "s6", "n": 9}, {"k": "s6", "n": 10}),
        ("(k = 'it''s', n <= 10)", {"k": "it's", "n": 10}, {"k": "its", "n": 10}),
        ("n BETWEEN 3 AND 5", {"n": 5}, {"n": 6}),
        ("k IN ('a', 'b'), n >= -1", {"k": "b", "n": -1}, {"k": "c", "n": -1}),
        ("k = *, n < 10", {"k": None, "n": 1}, {"k": None, "n": 10}),
        ("ts < '2026-01-01 12:11:00'", {"ts": datetime(2026, 1, 1, 12, 10, tzinfo=timezone.utc)}, {"ts": None}),
        ("K = NULL, d > 1.5", {"k": None, "d": 2}, {"k": "a", "d": 2}),
    ],
)
def test_patterns(text: str, yes: dict[str, Any], no: dict[str, Any]) -> None:
    pattern = parse_pattern(text, TYPES)
    assert pattern.met_by(yes) and not pattern.met_by(no)


@pytest.mark.parametrize(
    "text", ["", "k", "k =", "j = 1", "n < 'x'", "n < 1 k = 'a'", "n < 1,", "k IN ()", "k LIKE 'a'"]
)
def test_bad_patterns(text: str) -> None:
    with pytest.raises(BadPattern):
        parse_pattern(text, TYPES)


def test_bound_of_a_pattern() -> None:
    kind = TYPES["n"]
    assert parse_pattern("k = 'a', n < 10", TYPES).bound("n", kind) == 10
    assert parse_pattern("n <= 10", TYPES).bound("n", kind) == 11
    assert parse_pattern("k = 'a'", TYPES).bound("n", kind) == ALWAYS
    assert parse_pattern("n BETWEEN 1 AND 5", TYPES).bound("n", kind) is None


def test_conditions_by_hand() -> None:
    assert pattern_of({"K": "a", "d": 1}, TYPES) == (OracleCondition("k", "=", ("a",)), OracleCondition("d", "=", (1,)))
    with pytest.raises(BadPattern):
        pattern_of({"n": "a"}, TYPES)


BY_SOURCE = "n BIGINT, k STRING, punctuation STRING"


def test_punctuations_of_the_source() -> None:
    stream = _stream("PUNCTUATE BY SOURCE", BY_SOURCE)
    history = [
        _source((5, "a", None), (None, None, "n < 20"), (7, "a", None)),
        _source((19, "a", None), (20, "a", None), (None, None, "n < 15"), (None, None, "n ! 5")),
        _source((None, None, "k = 'a', n < 40")),
        _source((39, "a", None), (40, "a", None), (39, "b", None)),
    ]
    state = admit(stream, history)
    assert [instant.frontiers["n"] for instant in state.instants] == [20, 20, 20, 20]
    assert [row["n"] for row in state.rows] == [5, 7, 20, 40, 39]
    assert [letter.reason for letter in state.dead] == [Reason.LATE, Reason.MALFORMED, Reason.LATE]


def test_name_of_the_punctuation_column() -> None:
    text = (
        "CREATE STREAM s (n BIGINT, p STRING) FROM memory OPTIONS (punctuation 'P') TIMESTAMP BY n PUNCTUATE BY SOURCE"
    )
    stream = parse_one(text)
    assert isinstance(stream, CreateStream)
    assert admit(stream, [Batch([{"n": 1}, {"p": "n <= 9"}])]).frontiers == {"n": 10}


def test_pattern_on_a_group() -> None:
    stream = _stream("PUNCTUATE BY SOURCE", BY_SOURCE)
    history = [
        _source((1, "a", None), (2, "b", None), (8, "a", None)),
        _source((None, None, "k = 'a', n < 10")),
        _source((9, "b", None), (12, "a", None), (None, None, "n < 10")),
        End(),
    ]
    grouped = Looks(_asker("[RANGE 10 SLIDE 5]", stream, frozenset({"k"})), admit(stream, history), types_of(stream))
    assert _seen(grouped) == [
        (1, -5, 5, [1]), (1, 0, 10, [1, 8]),
        (2, -5, 5, [2]), (2, 0, 10, [2, 9]),
        (3, 5, 15, [8, 12]), (3, 5, 15, [9]), (3, 10, 20, [12]),
    ]  # fmt: skip
    whole = Looks(_asker("[RANGE 10 SLIDE 5]", stream), admit(stream, history), types_of(stream))
    assert [(at, end, held) for at, _, end, held in _seen(whole)] == [
        (2, 5, [1, 2]), (2, 10, [1, 2, 8, 9]), (3, 15, [8, 9, 12]), (3, 20, [12]),
    ]  # fmt: skip


def test_group_closed_for_ever() -> None:
    stream = _stream("PUNCTUATE ORDERED", BY_SOURCE)
    pattern = Punctuation("n", 100, (OracleCondition("k", "=", ("a",)),))
    state = admit(stream, [_batch((1, "a"), (2, "b")), pattern, _batch((3, "a"), (3, "b"))])
    assert _late(state) == [3] and state.frontiers == {"n": 3}


# ---- the two meanings of slack


def test_generous_slack() -> None:
    stream = _stream("PUNCTUATE ORDERED")
    asker = _asker("[RANGE 10 SLIDE 5]", stream)

    def held(row: Row, event: int, state: Admitted) -> bool:
        return is_open(asker, row, state, types_of(stream))

    batches = [((1, "a"), (12, "a")), ((9, "a"), (4, "a"), (14, "a")), ((16, "a"),)]
    history: list[Any] = [*(_batch(*pairs, generous=True) for pairs in batches), End()]
    state = admit(stream, history, held)
    # At frontier 12 the windows up to 10 are answered: 9 is still in [5, 15), 4 in none.
    assert _late(state) == [4]
    assert _seen(Looks(asker, state, types_of(stream))) == [
        (0, -5, 5, [1]), (0, 0, 10, [1]), (2, 5, 15, [9, 12, 14]), (3, 10, 20, [12, 14, 16]), (3, 15, 25, [16]),
    ]  # fmt: skip
    consistent: list[Any] = [*(_batch(*pairs) for pairs in batches), End()]
    assert _late(admit(stream, consistent, held)) == [9, 4]


@pytest.mark.parametrize(
    ("clause", "point", "frontier", "is_held"),
    [
        ("[RANGE 10 SLIDE 5]", 9, 12, True),
        ("[RANGE 10 SLIDE 5]", 4, 12, False),
        ("[RANGE 6 SLIDE 1 ROW]", 7, 12, True),
        ("[RANGE 6 SLIDE 1 ROW]", 6, 12, False),
        ("[RANGE 4 OFFSET 6 SLIDE 5]", 5, 12, True),
        ("[RANGE 4 OFFSET 6 SLIDE 5]", 3, 12, False),
        ("[SINCE 5 SLIDE 5]", 5, 100, True),
        ("[SINCE 5 SLIDE 5]", 4, 100, False),
        ("[UNBOUNDED SLIDE 5]", -50, 100, True),
        ("[ROWS 2 SLIDE 1]", -50, 100, True),
    ],
)
def test_windows_open_to_a_late_tuple(clause: str, point: int, frontier: int, is_held: bool) -> None:
    stream = _stream("PUNCTUATE ORDERED")
    state = Admitted(frontiers={"n": frontier})
    assert is_open(_asker(clause, stream), {"n": point, "k": "a"}, state, types_of(stream)) is is_held


# ---- revisions


def test_late_revise_for() -> None:
    stream = _stream("PUNCTUATE ORDERED LATE REVISE FOR 6")
    history = [_batch((1, "a"), (12, "a")), _batch((7, "a"), (6, "a"), (5, "a")), _batch((12, "b")), End()]
    state = admit(stream, history)
    assert _late(state) == [5] and state.frontiers == {"n": 12}
    assert _seen(Looks(_asker("[RANGE 5 SLIDE 5]", stream), state, types_of(stream))) == [
        (0, 0, 5, [1]), (1, 5, 10, [6, 7]), (3, 10, 15, [12, 12]),
    ]  # fmt: skip
    assert _seen(Looks(_asker("[RANGE 10 SLIDE 5]", stream), state, types_of(stream))) == [
        (0, -5, 5, [1]), (0, 0, 10, [1]), (1, 0, 10, [1, 6, 7]), (3, 5, 15, [6, 7, 12, 12]), (3, 10, 20, [12, 12]),
    ]  # fmt: skip


def test_late_revise_without_for() -> None:
    state = admit(_stream("PUNCTUATE ORDERED LATE REVISE"), [_batch((100, "a")), _batch((-100, "a"))])
    assert not state.dead and [one.late for one in state.arrivals] == [False, True]


def test_late_tuple_changes_ranks() -> None:
    stream = _stream("PUNCTUATE ORDERED LATE REVISE")
    history = [_batch((1, "a"), (3, "a"), (5, "a"), (7, "a"), (8, "a")), _batch((2, "a"))]
    looks = Looks(_asker("[RANGE 2 SLIDE 2 ROWS SATTR rank(n)]", stream), admit(stream, history), types_of(stream))
    # Windows end at the values of rank 2 and 4: 3 and 7. After 2 arrives: 2 and 5 (8, of rank 6, is not complete).
    assert _seen(looks) == [
        (0, 1, 3, [3]), (0, 5, 7, [7]), (1, 0, 2, [1, 2]), (1, 1, 3, []), (1, 3, 5, [5]), (1, 5, 7, []),
    ]  # fmt: skip


def test_corrections() -> None:
    one, other = Extent(0, 5, 0, 5, 5), Extent(5, 10, 5, 10, 10)
    seen = [
        LookResult(Look(one, 0, 0, 2), (0, 5), [("a", 3), ("b", 1), ("c", 2)]),
        LookResult(Look(one, 0, 0, 0), (0, 5), [("a", 1), ("b", 1)]),
        LookResult(Look(one, 0, 0, 1), (0, 5), [("a", 1), ("b", 1)]),
        LookResult(Look(other, 0, 1, 1), (5, 10), [("a", 9)]),
        LookResult(Look(other, 0, 1, 3, gone=True), (5, 10), []),
    ]
    assert revisions_of(seen) == [
        ("+", 0, 0, 5, "a", 1), ("+", 0, 0, 5, "b", 1),
        ("+", 0, 5, 10, "a", 9),
        ("-", 1, 0, 5, "a", 1), ("+", 1, 0, 5, "a", 3), ("+", 1, 0, 5, "c", 2),
        ("-", 1, 5, 10, "a", 9),
    ]  # fmt: skip


def test_pattern_without_conditions() -> None:
    assert Pattern(()).met_by({"n": 1})


def test_late_tuple_of_a_closed_group() -> None:
    stream = _stream("PUNCTUATE WITH SLACK 100 LATE REVISE")
    closed = Punctuation("n", 10, (OracleCondition("k", "=", ("a",)),))
    history = [_batch((1, "a"), (2, "b")), closed, _batch((3, "a"), (4, "b")), Punctuation("n", 10)]
    looks = Looks(_asker("[RANGE 10 SLIDE 10]", stream, frozenset({"k"})), admit(stream, history), types_of(stream))
    assert _seen(looks) == [(1, 0, 10, [1]), (2, 0, 10, [1, 3]), (3, 0, 10, [2, 4])]


def test_generous_slack_on_row_numbers() -> None:
    stream = _stream("PUNCTUATE ORDERED")
    asker = _asker("[ROWS 2 SLIDE 2]", stream)

    def held(row: Row, event: int, state: Admitted) -> bool:
        return is_open(asker, row, state, types_of(stream))

    history = [_batch((9, "a"), generous=True), _batch((4, "a"), generous=True), _batch((1, "a"))]
    state = admit(stream, history, held)
    assert [one.number for one in state.arrivals] == [1, 2] and _late(state) == [1]
    looks = Looks(asker, state, types_of(stream)).all()
    assert [(look.extent.start, look.extent.end, look.at) for look in looks] == [(1, 3, 1)]


def test_late_tuples_do_not_move_the_frontier() -> None:
    """Only tuples on time move it: the punctuation by hand had promised that the others would not come."""
    history = [_batch((5, "a")), Punctuation("n", 30), _batch((20, "a"), (21, "a"), (22, "a")), _batch((31, "a"))]
    assert _frontiers(_stream("PUNCTUATE WITH SLACK 1 ROWS LATE REVISE"), history) == [None, 30, 30, 30]
    assert _frontiers(_stream("PUNCTUATE PER k LATE REVISE"), [*history, _batch((40, "b"))])[-1] == 31
