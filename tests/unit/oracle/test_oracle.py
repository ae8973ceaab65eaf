"""The oracle: its parts against their definitions, and the whole against brute force."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.cql import parse_one
from windrow.cql.statements import CreateStream
from windrow.errors import CatalogError, UnsupportedError
from windrow.oracle import (
    Batch,
    End,
    Oracle,
    Punctuation,
    Reason,
    admit,
    equal_rows,
    equal_values,
    extents_of,
)
from windrow.oracle.extents import Sliding, with_empty
from windrow.oracle.values import Misfit, fit, sort_key
from windrow.testing import ManualClock
from windrow.types import EPOCH, SqlType

NAN, INF = float("nan"), float("inf")


@given(st.lists(st.integers(-60, 60), max_size=5), st.integers(1, 25), st.integers(1, 12), st.integers(-7, 7))
def test_extents(points: list[int], range_: int, slide: int, origin: int) -> None:
    every = [(origin + (w + 1) * slide - range_, origin + (w + 1) * slide) for w in range(-200, 200)]
    assert extents_of(points, range_, slide, origin) == [
        (lo, hi) for lo, hi in every if any(lo <= t < hi for t in points)
    ]


@given(st.integers(-60, 60), st.integers(1, 25), st.integers(1, 12))
def test_first_edge_above(point: int, range_: int, slide: int) -> None:
    ends = [w * slide for w in range(-200, 200)]
    above = min(e for e in ends + [e - range_ for e in ends] if e > point)
    assert Sliding(range_, slide).first_edge_above(point) == above


def test_empty_windows() -> None:
    shape = Sliding(5, 5)
    held = [shape.ending(5), shape.ending(25)]
    assert [one.hi for one in with_empty(held, shape, 37)] == [5, 10, 15, 20, 25, 30, 35]
    assert [one.hi for one in with_empty(held, shape, 12)] == [5, 10, 15, 20, 25]
    assert [one.hi for one in with_empty(held, shape, None)] == [5, 10, 15, 20, 25]
    assert with_empty([], shape, 37) == []


def _stream(rest: str, columns: str = "n INT, x INT") -> CreateStream:
    statement = parse_one(f"CREATE STREAM s ({columns}) FROM memory TIMESTAMP BY n {rest}")
    assert isinstance(statement, CreateStream)
    return statement


def _rows(*points: int | None) -> list[dict[str, Any]]:
    return [{"n": point, "x": 1} for point in points]


def test_lateness_counts_from_the_previous_batch() -> None:
    state = admit(_stream("PUNCTUATE ORDERED"), [Batch(_rows(5, 3, 9)), Batch(_rows(8, 9, 20, 10)), Batch(_rows(19))])
    assert [row["n"] for row in state.rows] == [5, 3, 9, 9, 20, 10]
    assert [(letter.reason, letter.row["n"]) for letter in state.dead] == [
        (Reason.LATE, 8),
        (Reason.LATE, 19),
    ]
    assert state.frontiers == {"n": 20} and not state.ended


def test_slack() -> None:
    stream = _stream("PUNCTUATE WITH SLACK 5 SECONDS", "n TIMESTAMP, x INT")
    moments = [EPOCH + timedelta(seconds=s) for s in (10, 5, 4.999999)]
    state = admit(stream, [Batch([{"n": moments[0]}]), Batch([{"n": moments[1]}, {"n": moments[2]}])])
    assert state.frontiers == {"n": 5_000_000}
    assert [letter.reason for letter in state.dead] == [Reason.LATE]


def test_punctuations_and_the_end() -> None:
    state = admit(_stream("PUNCTUATE ORDERED"), [Punctuation("n", 7), Batch(_rows(6, 7)), Punctuation("n", 3), End()])
    assert [row["n"] for row in state.rows] == [7]
    assert state.frontiers == {"n": 7} and state.ended


def test_first_reason_counts() -> None:
    stream = _stream("PUNCTUATE ORDERED", "n TIMESTAMP, x INT")
    history = [
        Batch([(EPOCH + timedelta(seconds=10), 1)], now_us=0, max_future_us=20_000_000),
        Batch(
            [
                (EPOCH, 1),
                (None, 1),
                (EPOCH + timedelta(seconds=21), 1),
                (EPOCH, "one"),
                (EPOCH + timedelta(seconds=21), 1 << 40),
                (EPOCH + timedelta(seconds=20), 1),
            ],
            now_us=0,
            max_future_us=20_000_000,
        ),
    ]
    state = admit(stream, history)
    reasons = [Reason.LATE, Reason.NULL, Reason.FUTURE, Reason.MALFORMED, Reason.MALFORMED]
    assert [letter.reason for letter in state.dead] == reasons
    assert len(state.rows) == 2


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (128, "TINYINT"),
        (True, "INT"),
        (1.0, "INT"),
        ("1", "BIGINT"),
        (Decimal("1.123"), "DECIMAL(5,2)"),
        (Decimal("1234.00"), "DECIMAL(5,2)"),
        (1.5, "DECIMAL(5,2)"),
        ("2026-01-01", "DATE"),
        (datetime(2026, 1, 1), "DATE"),
        (1, "STRING"),
        (1, "BOOLEAN"),
        ("x", "DOUBLE"),
        (5, "TIMESTAMP"),
    ],
)
def test_values_that_do_not_fit(value: Any, kind: str) -> None:
    with pytest.raises(Misfit):
        fit(value, SqlType(kind))


def test_values_that_fit() -> None:
    assert fit(1, SqlType("DECIMAL(5,2)")) == Decimal("1.00")
    assert fit(Decimal("9" * 38), SqlType("DECIMAL(38,0)")) == Decimal("9" * 38)
    assert fit(datetime(2026, 1, 1), SqlType("TIMESTAMP")) == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert fit(0.1, SqlType("FLOAT")) == pytest.approx(0.1, rel=1e-7) and fit(0.1, SqlType("FLOAT")) != 0.1
    assert all(fit(None, SqlType(kind)) is None for kind in ("INT", "STRING", "DATE", "TIMESTAMP", "DECIMAL(5,2)"))


def test_equality_of_values() -> None:
    assert equal_values(NAN, NAN) and equal_values(-0.0, 0.0) and equal_values(1.0, 1.0 + 1e-12)
    assert equal_values(INF, INF) and equal_values(None, None)
    assert equal_values(datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=timezone.utc))
    unequal: list[tuple[Any, Any]] = [
        (1.0, 1.0 + 1e-8), (NAN, 1.0), (INF, -INF), (INF, 1e308), (1, 1.0), (1, True), (1, Decimal(1)),
        (None, 0), ("a", "A"), (0.0, 1e-300), (1.0, Decimal(1)),
    ]  # fmt: skip
    assert not any(equal_values(a, b) or equal_values(b, a) for a, b in unequal)


def test_equality_of_rows() -> None:
    assert equal_rows([(1, NAN), (2, None)], [(1, NAN), (2, None)])
    assert not equal_rows([(1, 2)], [(1, 2), (1, 2)])
    assert not equal_rows([(1, 2), (3, 4)], [(3, 4), (1, 2)])
    rows = [(2.0,), (None,), (NAN,), (-1.0,)]
    assert [str(row[0]) for row in sorted(rows, key=sort_key)] == ["None", "-1.0", "2.0", "nan"]


# ---- the whole, against brute force without SQL

_GROUPED = "SELECT k, COUNT(*) AS n, SUM(x) AS s, MIN(x) AS lo, MAX(x) AS hi, AVG(y) AS a FROM s [{w}] GROUP BY k"
_WHOLE = "SELECT COUNT(*) AS n, SUM(x) AS s, COUNT(x) FILTER (WHERE y > 0) AS p FROM s [{w}] WHERE x > 0"


def _random_batches(seed: int) -> list[list[dict[str, Any]]]:
    chance = random.Random(seed)
    point, batches = chance.randint(-50, 50), []
    for _ in range(4):
        rows = []
        for _ in range(chance.randint(0, 9)):
            point += chance.choice([0, 1, 2, 5, 40])
            x = chance.choice([None, chance.randint(-5, 9), chance.randint(-5, 9)])
            y = chance.choice([None, chance.randint(-8, 8) / 4])
            n = chance.choice([None, *[point - chance.choice([0, 0, 1, 4])] * 9])
            rows.append({"n": n, "k": chance.choice(["a", "b", None]), "x": x, "y": y})
        batches.append(rows)
    return batches


def _brute_admitted(batches: list[list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], int | None]:
    admitted: list[dict[str, Any]] = []
    frontier: int | None = None
    for batch in batches:
        good = [r for r in batch if r["n"] is not None and (frontier is None or r["n"] >= frontier)]
        admitted += good
        if admitted:
            frontier = max(r["n"] for r in admitted)
    return admitted, frontier


def _brute(batches: list[list[dict[str, Any]]], range_: int, slide: int, ended: bool, grouped: bool) -> list[Any]:
    admitted, frontier = _brute_admitted(batches)
    answers = []
    for w in range(-300, 600):
        hi = (w + 1) * slide
        held = [r for r in admitted if hi - range_ <= r["n"] < hi]
        if held and (ended or (frontier is not None and hi <= frontier)):
            answers += [(hi - range_, hi, *row) for row in (_brute_groups(held) if grouped else _brute_whole(held))]
    return answers


def _brute_groups(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    out = []
    for key in [None, "a", "b"]:
        mine = [r for r in rows if r["k"] == key]
        xs = [r["x"] for r in mine if r["x"] is not None]
        ys = [r["y"] for r in mine if r["y"] is not None]
        if mine:
            low, high = (min(xs), max(xs)) if xs else (None, None)
            mean = math.fsum(ys) / len(ys) if ys else None
            out.append((key, len(mine), sum(xs) if xs else None, low, high, mean))
    return out


def _brute_whole(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    kept = [r for r in rows if r["x"] is not None and r["x"] > 0]
    positive = [r for r in kept if r["y"] is not None and r["y"] > 0]
    return [(len(kept), sum(r["x"] for r in kept) if kept else None, len(positive))]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "range_", "slide"), [(1, 10, 5), (2, 7, 3), (3, 4, 9), (4, 6, 6), (5, 30, 1)])
def test_oracle_against_brute_force(spark: Any, seed: int, range_: int, slide: int) -> None:
    batches = _random_batches(seed)
    oracle = Oracle(spark, ManualClock())
    oracle.sql("CREATE STREAM s (n BIGINT, k STRING, x INT, y DOUBLE) FROM memory TIMESTAMP BY n PUNCTUATE ORDERED")
    for name, text in (("grouped", _GROUPED), ("whole", _WHOLE)):
        oracle.sql(f"CREATE QUERY {name} AS {text.format(w=f'RANGE {range_} SLIDE {slide}')}")
    for batch in batches:
        oracle.deposit("s", batch)
    for ended in (False, True):
        if ended:
            oracle.end_input("s")
        for name in ("grouped", "whole"):
            expected = _brute(batches, range_, slide, ended, name == "grouped")
            found = oracle.answers(name).rows
            assert equal_rows(found, expected), (name, ended, found, expected)


# ---- cases that brute force does not cover


@pytest.fixture
def oracle(spark: Any) -> Oracle:
    made = Oracle(spark, ManualClock())
    made.sql("CREATE STREAM s (n BIGINT, k STRING, x BIGINT) FROM memory TIMESTAMP BY n PUNCTUATE ORDERED")
    return made


def _answers(oracle: Oracle, text: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    oracle.sql(f"CREATE QUERY q AS {text}")
    oracle.deposit("s", rows)
    oracle.end_input("s")
    return oracle.answers("q").rows


@pytest.mark.slow
def test_sum_overflow(oracle: Oracle) -> None:
    big = (1 << 63) - 1
    rows = [(1, "fits", big), (2, "fits", 1), (3, "fits", -1), (4, "over", big), (5, "over", 1)]
    listed = "k, SUM(x) AS s, SUM(x) FILTER (WHERE x > 1) AS f, SUM(x) + 1 AS t"
    text = f"SELECT {listed} FROM s [RANGE 10 SLIDE 10] GROUP BY k"
    found = _answers(oracle, text, rows)
    assert found == [(0, 10, "fits", big, big, -big - 1), (0, 10, "over", None, big, None)]


@pytest.mark.slow
def test_order_and_limit(oracle: Oracle) -> None:
    rows = [(1, "b", 5), (2, "a", 5), (3, "c", 9), (4, None, 1), (11, "z", 1)]
    text = "SELECT k, SUM(x) AS s FROM s [RANGE 10 SLIDE 10] GROUP BY k ORDER BY s DESC LIMIT 3"
    found = _answers(oracle, text, rows)
    assert found == [(0, 10, "c", 9), (0, 10, "a", 5), (0, 10, "b", 5), (10, 20, "z", 1)]


@pytest.mark.slow
def test_aliases(oracle: Oracle) -> None:
    text = "SELECT k, SUM(x) AS x FROM s [RANGE 10 SLIDE 10] GROUP BY 1 HAVING x > 5 AND MAX(x) < 9 ORDER BY x"
    found = _answers(oracle, text, [(1, "a", 4), (2, "a", 4), (3, "b", 9), (4, "c", 3), (5, "d", 7)])
    assert found == [(0, 10, "d", 7), (0, 10, "a", 8)]


@pytest.mark.slow
def test_begin(oracle: Oracle) -> None:
    oracle.deposit("s", [(1, "a", 1), (12, "a", 2)])
    oracle.sql("CREATE QUERY q AS SELECT COUNT(*) AS c, SUM(x) AS s FROM s [RANGE 10 SLIDE 5]")
    oracle.deposit("s", [(13, "a", 4), (15, "a", 8), (17, "a", 16)])
    oracle.end_input("s")
    assert oracle.answers("q").rows == [(10, 20, 2, 24), (15, 25, 2, 24)]
    oracle.begin("q", 17)
    assert oracle.answers("q").rows == [(10, 20, 1, 16), (15, 25, 1, 16)]
    oracle.begin("q", None)
    complete = [(5, 15, 2, 6), (10, 20, 4, 30), (15, 25, 2, 24)]
    assert oracle.answers("q").rows == complete, "windows that closed before it was created are not answered"


@pytest.mark.slow
def test_begin_on_row_numbers(oracle: Oracle) -> None:
    oracle.deposit("s", [(1, "a", 1), (2, "a", 2), (3, "b", 4)])
    oracle.sql("CREATE QUERY r AS SELECT SUM(x) AS s FROM s [ROWS 4 SLIDE 2]")
    oracle.sql("CREATE QUERY p AS SELECT k, SUM(x) AS s FROM s [ROWS 2 SLIDE 1 PARTITION BY k]")
    oracle.deposit("s", [(4, "a", 8), (5, "a", 16), (6, "b", 32)])
    # Only rows 5 and 6 count: 5 is the first edge above row 3. The window [1, 5) was open, but holds none of them.
    assert oracle.answers("r").rows == [(3, 7, 48)]
    # Ranks count from row 4 on.
    assert sorted(oracle.answers("p").rows) == [(0, 2, "a", 8), (0, 2, "b", 32), (1, 3, "a", 24)]
    oracle.begin("r", None)
    assert oracle.answers("r").rows == [(1, 5, 15), (3, 7, 60)]
    oracle.begin("r", 4)
    assert oracle.answers("r").rows == [(1, 5, 8), (3, 7, 56)]


@pytest.mark.slow
def test_partitions(oracle: Oracle) -> None:
    text = "SELECT k, COUNT(*) AS c, SUM(x) AS s FROM s [ROWS 2 SLIDE 2 PARTITION BY k] WHERE x > 1"
    found = _answers(oracle, text, [(1, None, 1), (2, "a", 2), (3, None, 4), (4, None, 8), (5, "a", 16)])
    assert sorted(found, key=str) == [(1, 3, "a", 2, 18), (1, 3, None, 1, 4), (3, 5, None, 1, 8)]


@pytest.mark.slow
def test_unbounded_window(oracle: Oracle) -> None:
    text = "SELECT COUNT(*) AS c, SUM(x) AS s FROM s [UNBOUNDED SLIDE 10]"
    assert _answers(oracle, text, [(-3, "a", 1), (25, "b", 2)]) == [
        (None, 0, 1, 1), (None, 10, 1, 1), (None, 20, 1, 1), (None, 30, 2, 3),
    ]  # fmt: skip


@pytest.mark.slow
def test_order_of_early_groups(oracle: Oracle) -> None:
    oracle.sql("CREATE QUERY q AS SELECT k, SUM(x) AS s FROM s [RANGE 10 SLIDE 10] GROUP BY k ORDER BY s")
    oracle.sql("CREATE QUERY top AS SELECT k, SUM(x) AS s FROM s [RANGE 10 SLIDE 10] GROUP BY k ORDER BY s LIMIT 2")
    oracle.deposit("s", [(1, "a", 5), (2, "b", 3), (3, "c", 1), (4, "d", 2)])
    oracle.punctuate("s", 10, k="a")
    oracle.punctuate("s", 20, k="b")
    assert oracle.answers("q").rows == [(0, 10, "a", 5), (0, 10, "b", 3)]
    assert oracle.answers("top").rows == [], "the first two rows are known only when the window is complete"
    oracle.punctuate("s", 5, k="c")
    oracle.punctuate("s", 10)
    assert oracle.answers("q").rows == [(0, 10, "a", 5), (0, 10, "b", 3), (0, 10, "c", 1), (0, 10, "d", 2)]
    assert oracle.answers("top").rows == [(0, 10, "c", 1), (0, 10, "d", 2)]
    assert oracle.frontiers("s") == {"n": 10}


@pytest.mark.slow
def test_revisions(spark: Any) -> None:
    made = Oracle(spark, ManualClock())
    made.sql("CREATE STREAM s (n BIGINT, x INT) FROM memory TIMESTAMP BY n PUNCTUATE ORDERED LATE REVISE")
    made.sql("CREATE QUERY q AS SELECT SUM(x) AS s FROM s [RANGE 5 SLIDE 5]")
    for rows in ([(1, 1), (11, 2)], [(2, 4), (7, 8)], [(3, 16), (8, 32)]):
        made.deposit("s", rows)
    assert made.revisions("q") == [
        ("+", 0, 0, 5, 1),
        ("-", 1, 0, 5, 1), ("+", 1, 0, 5, 5), ("+", 0, 5, 10, 8),
        ("-", 2, 0, 5, 5), ("+", 2, 0, 5, 21), ("-", 1, 5, 10, 8), ("+", 1, 5, 10, 40),
    ]  # fmt: skip
    assert made.answers("q").rows == [(0, 5, 21), (5, 10, 40)]


@pytest.mark.slow
def test_column_names(oracle: Oracle) -> None:
    oracle.sql("CREATE QUERY q AS SELECT k, SUM(x) AS total, COUNT(*) FROM s [RANGE 10 SLIDE 10] GROUP BY k")
    assert oracle.answers("q").columns == ("window_start", "window_end", "k", "total", "COUNT(*)")


@settings(max_examples=10)
@given(
    st.sampled_from(
        [
            "[RANGE 10 SLIDE 10 WATTR x]",
            "[RANGE 10 SLIDE 10 PARTITION BY x]",
            "[RANGE 10 SLIDE 2 ROWS SATTR rank(x)]",
            "[RANGE 10 OFFSET 5 SLIDE 1 ROW]",
            "[RANGE 10 SLIDE 1 INTERNAL]",
        ]
    )
)
def test_unsupported_windows(window: str) -> None:
    made = Oracle(None, ManualClock())
    made.sql("CREATE STREAM s (n BIGINT, x BIGINT) FROM memory TIMESTAMP BY n PUNCTUATE ORDERED")
    with pytest.raises(UnsupportedError):
        made.sql(f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM s {window}")
    with pytest.raises(UnsupportedError):
        made.sql("SHOW STREAMS")
    with pytest.raises(CatalogError):
        made.answers("q")


@pytest.mark.parametrize("call", ["MEDIAN(k)", "TOP_K(t, 2, k)", "MEDIAN(lower(k)) FILTER (WHERE t > 0)"])
def test_strings_instead_of_numbers(spark: Any, call: str) -> None:
    oracle = Oracle(spark)
    oracle.sql("CREATE STREAM s (t INT, k STRING) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    oracle.sql(f"CREATE QUERY q AS SELECT {call} AS m FROM s [RANGE 10 SLIDE 10]")
    oracle.deposit("s", [(1, "1"), (11, "2")])
    with pytest.raises(UnsupportedError, match="is a string"):
        oracle.answers("q")
