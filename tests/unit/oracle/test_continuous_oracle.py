"""The oracle on continuous queries: due ticks, and relations against brute force in Python."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from windrow.cql import parse_one
from windrow.errors import UnsupportedError
from windrow.oracle import Oracle
from windrow.oracle.continuous import is_continuous
from windrow.testing import ManualClock

STREAM = "CREATE STREAM {0} (n BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY n{1} PUNCTUATE ORDERED"
Rows = list[tuple[int, str | None, int]]


def _oracle(spark: Any, query: str, ticks: dict[str, str] | None = None) -> Oracle:
    oracle = Oracle(spark, ManualClock("2030-01-01"))
    for name in ("a", "b"):
        oracle.sql(STREAM.format(name, f" TICK {ticks[name]}" if ticks and name in ticks else ""))
    oracle.sql(f"CREATE QUERY q AS {query}")
    return oracle


def _feed(oracle: Oracle, stream: str, *points: int) -> None:
    oracle.deposit(stream, [(point, "p", point) for point in points])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT COUNT(*) FROM a [RANGE 5 SLIDE 5]", False),
        ("SELECT k, COUNT(*) FROM a [NOW] GROUP BY k", False),
        ("SELECT COUNT(*) FROM a [RANGE 5 SLIDE 1 ROW]", False),
        ("SELECT COUNT(*) FROM a [RANGE 5]", True),
        ("SELECT k FROM a [RANGE 5 SLIDE 5]", True),
        ("SELECT DISTINCT k FROM a [RANGE 5 SLIDE 5]", True),
        ("SELECT k FROM a [NOW]", True),
        ("SELECT COUNT(*) FROM a [RANGE 5 SLIDE 5] JOIN b [RANGE 5 SLIDE 5] ON a.k = b.k", True),
    ],
)
def test_which_queries_are_plans(text: str, expected: bool) -> None:
    statement = parse_one(f"CREATE QUERY q AS {text}")
    assert is_continuous(statement.select) is expected  # type: ignore[union-attr]


JOIN = "SELECT a.k FROM a [RANGE 5] JOIN b [RANGE 5] ON a.k = b.k"


def _due(oracle: Oracle) -> tuple[int, int] | None:
    due = oracle.due("q")
    return None if due is None else (due.first, due.last)


def test_least_frontier_is_due() -> None:
    oracle = _oracle(None, JOIN)
    _feed(oracle, "a", 3, 9)
    assert _due(oracle) is None
    _feed(oracle, "b", 5, 7)
    assert _due(oracle) == (4, 7)


def test_ended_stream_holds_nobody_back() -> None:
    oracle = _oracle(None, JOIN)
    _feed(oracle, "a", 3)
    oracle.end_input("b")
    _feed(oracle, "a", 20)
    assert _due(oracle) == (4, 20)
    oracle.end_input("a")
    assert _due(oracle) == (4, 21)


def test_ticks_of_the_largest_tick() -> None:
    oracle = _oracle(None, JOIN, {"a": "4", "b": "2"})
    _feed(oracle, "a", 3, 11)
    _feed(oracle, "b", 1, 14)
    assert _due(oracle) == (4, 8)
    for name in ("a", "b"):
        oracle.end_input(name)
    assert _due(oracle) == (4, 16)


def test_punctuation_beyond_the_last_tuple() -> None:
    """What was due stays due at the end of the input."""
    oracle = _oracle(None, "SELECT k FROM a [RANGE 5]")
    _feed(oracle, "a", 3)
    oracle.punctuate("a", 40)
    oracle.end_input("a")
    assert _due(oracle) == (4, 40)


def test_query_added_later() -> None:
    oracle = _oracle(None, "SELECT k FROM a [RANGE 5]")
    _feed(oracle, "a", 3, 7)
    oracle.sql("CREATE QUERY later AS SELECT k FROM a [RANGE 5]")
    _feed(oracle, "a", 20)
    due = oracle.due("later")
    assert due is None or due.first > 7
    oracle.begin("later", {"a": 7})
    due = oracle.due("later")
    assert due is not None and (due.first, due.last) == (8, 20)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM a [ROWS 5 SLIDE 2 ROWS]",
        "SELECT a.k FROM a [RANGE 6 SLIDE 2] JOIN b [RANGE 6 SLIDE 3] ON a.k = b.k",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(UnsupportedError):
        oracle = _oracle(None, text)
        _feed(oracle, "a", 1)
        oracle.ticks("q")


def _random_rows(seed: int) -> Rows:
    """Of streams in order, with ties, silence and NULL keys."""
    generator = random.Random(seed)
    point, rows = generator.randint(-5, 5), []
    for _ in range(12):
        point += generator.choice([0, 0, 1, 1, 2, 5, 15])
        rows.append((point, generator.choice(["p", "q", None]), generator.randint(0, 4)))
    return rows


def _held(rows: Rows, b: int, length: int | None, offset: int = 0) -> Rows:
    return [row for row in rows if row[0] + offset < b and (length is None or b <= row[0] + offset + length)]


def _counts(rows: Rows) -> Counter[Any]:
    return Counter(k for _, k, _ in rows)


def _keys(rows: Rows) -> list[str | None]:
    return [k for _, k, _ in rows]


def _last(rows: Rows, b: int, count: int, by_key: bool = False) -> Rows:
    """The last so many tuples below b, which are in order."""
    below = [row for row in rows if row[0] < b]
    parts = [[row for row in below if row[1] == key] for key in set(_keys(below))] if by_key else [below]
    return [row for part in parts for row in part[-count:]]


def _not_in(x: str | None, values: list[str | None]) -> bool:
    return not values or (x is not None and x not in values and None not in values)


def _outer(a: Rows, b: Rows, keeps_a: bool, keeps_b: bool) -> list[tuple[Any, ...]]:
    """Pairs of equal keys with a.x <= b.x, and what has none."""
    pairs = [(one, two) for one in a for two in b if one[1] is not None and one[1] == two[1] and one[2] <= two[2]]
    alone_a = [(one[2], None) for one in a if keeps_a and not any(one is x for x, _ in pairs)]
    alone_b = [(None, two[2]) for two in b if keeps_b and not any(two is y for _, y in pairs)]
    return [*((one[2], two[2]) for one, two in pairs), *alone_a, *alone_b]


def _joined(a: Rows, b: Rows) -> list[tuple[Any, ...]]:
    return [(k, x, y) for _, k, x in a for _, j, y in b if k is not None and k == j]


CASES: dict[str, tuple[str, Any]] = {
    "selection": (
        "SELECT k, x FROM a [RANGE 6] WHERE x > 1",
        lambda a, b, t: [r[1:] for r in _held(a, t, 6) if r[2] > 1],
    ),
    "offset": ("SELECT k, x FROM a [RANGE 4 OFFSET 3]", lambda a, b, t: [r[1:] for r in _held(a, t, 4, 3)]),
    "join": (
        "SELECT a.k, a.x, b.x AS y FROM a [RANGE 6] JOIN b [RANGE 9] ON a.k = b.k",
        lambda a, b, t: _joined(_held(a, t, 6), _held(b, t, 9)),
    ),
    "union": (
        "SELECT k FROM a [RANGE 3] UNION ALL SELECT k FROM b [UNBOUNDED]",
        lambda a, b, t: [(r[1],) for r in _held(a, t, 3) + _held(b, t, None)],
    ),
    "distinct": ("SELECT DISTINCT k FROM a [RANGE 6]", lambda a, b, t: [(k,) for k in _counts(_held(a, t, 6))]),
    "groups": (
        "SELECT k, COUNT(*) AS n FROM a [RANGE 6] GROUP BY k HAVING COUNT(*) > 1",
        lambda a, b, t: [(k, n) for k, n in _counts(_held(a, t, 6)).items() if n > 1],
    ),
    "total": (
        "SELECT COUNT(*) AS n, SUM(b.x) AS s FROM a [RANGE 6] JOIN b [RANGE 9] ON a.k = b.k WHERE a.x > 0",
        lambda a, b, t: _total([p for p in _joined(_held(a, t, 6), _held(b, t, 9)) if p[1] > 0]),
    ),
    "now": ("SELECT k, x FROM a [NOW]", lambda a, b, t: [r[1:] for r in a if r[0] == t - 1]),
    "top": (
        "SELECT x, k FROM a [RANGE 6] ORDER BY x DESC LIMIT 2",
        lambda a, b, t: [
            (r[2], r[1]) for r in sorted(_held(a, t, 6), key=lambda r: (-r[2], r[1] is not None, r[1] or ""))[:2]
        ],
    ),
    "sub-query": (
        "WITH w AS (SELECT DISTINCT k FROM b [RANGE 9]) SELECT w.k, x FROM w JOIN a [RANGE 6] USING (k)",
        lambda a, b, t: [r[1:] for r in _held(a, t, 6) if r[1] is not None and r[1] in _counts(_held(b, t, 9))],
    ),
    "not exists": (
        "SELECT k, x FROM a [RANGE 6] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 3] WHERE b.k = a.k AND b.x > a.x)",
        lambda a, b, t: [
            r[1:] for r in _held(a, t, 6) if not any(s[1] == r[1] and r[1] and s[2] > r[2] for s in _held(b, t, 3))
        ],
    ),
    "not in": (
        "SELECT k FROM a [RANGE 6] WHERE k NOT IN (SELECT k FROM b [RANGE 2])",
        lambda a, b, t: [(r[1],) for r in _held(a, t, 6) if _not_in(r[1], _keys(_held(b, t, 2)))],
    ),
    "in of groups, or of a union": (
        "SELECT x FROM a [RANGE 6] WHERE k IN (SELECT k FROM b [RANGE 9] GROUP BY k HAVING COUNT(*) > 1) "
        "AND k IN (SELECT k FROM b [RANGE 3] UNION ALL SELECT k FROM a [RANGE 2])",
        lambda a, b, t: [
            (r[2],)
            for r in _held(a, t, 6)
            if r[1] is not None and _counts(_held(b, t, 9))[r[1]] > 1 and r[1] in _keys(_held(b, t, 3) + _held(a, t, 2))
        ],
    ),
    "total where exists": (
        "SELECT COUNT(*) AS n FROM a [RANGE 6] WHERE EXISTS (SELECT 1 FROM b [RANGE 3] AS z WHERE z.k = a.k)",
        lambda a, b, t: [(sum(r[1] is not None and r[1] in _keys(_held(b, t, 3)) for r in _held(a, t, 6)),)],
    ),
    "left": (
        "SELECT a.x, b.x AS y FROM a [RANGE 6] LEFT JOIN b [RANGE 3] ON a.k = b.k AND a.x <= b.x",
        lambda a, b, t: _outer(_held(a, t, 6), _held(b, t, 3), True, False),
    ),
    "right": (
        "SELECT a.x, b.x AS y FROM a [RANGE 6] RIGHT JOIN b [RANGE 3] ON a.k = b.k AND a.x <= b.x",
        lambda a, b, t: _outer(_held(a, t, 6), _held(b, t, 3), False, True),
    ),
    "full": (
        "SELECT a.x, b.x AS y FROM a [RANGE 6] FULL JOIN b [RANGE 3] ON a.k = b.k AND a.x <= b.x",
        lambda a, b, t: _outer(_held(a, t, 6), _held(b, t, 3), True, True),
    ),
    "total of a full join": (
        "SELECT COUNT(*) AS n, COUNT(a.x) AS m FROM a [RANGE 6] FULL JOIN b [RANGE 3] ON a.k = b.k AND a.x <= b.x",
        lambda a, b, t: [
            (len(pairs), sum(x is not None for x, _ in pairs))
            for pairs in [_outer(_held(a, t, 6), _held(b, t, 3), True, True)]
        ],
    ),
    "full using": (
        "SELECT * FROM (SELECT DISTINCT k FROM a [RANGE 6]) FULL JOIN (SELECT DISTINCT k FROM b [RANGE 3]) USING (k)",
        lambda a, b, t: [
            (k,)
            for one, two in [(set(_keys(_held(a, t, 6))), set(_keys(_held(b, t, 3))))]
            for k in [*(one | two), *([None] if None in one & two else [])]
        ],
    ),
    "semi and anti": (
        "SELECT a.x FROM a [RANGE 6] LEFT SEMI JOIN b [RANGE 9] ON a.k = b.k LEFT ANTI JOIN b [RANGE 2] AS c ON a.k = c.k",
        lambda a, b, t: [
            (r[2],)
            for r in _held(a, t, 6)
            if r[1] is not None and r[1] in _keys(_held(b, t, 9)) and r[1] not in _keys(_held(b, t, 2))
        ],
    ),
    "except all": (
        "SELECT k FROM a [RANGE 6] EXCEPT ALL SELECT k FROM b [RANGE 3]",
        lambda a, b, t: [(k,) for k in (_counts(_held(a, t, 6)) - _counts(_held(b, t, 3))).elements()],
    ),
    "except and intersect": (
        "SELECT k FROM a [RANGE 9] EXCEPT SELECT k FROM b [RANGE 3] INTERSECT SELECT k FROM a [RANGE 2]",
        lambda a, b, t: [
            (k,) for k in set(_keys(_held(a, t, 9))) - (set(_keys(_held(b, t, 3))) & set(_keys(_held(a, t, 2))))
        ],
    ),
    "rows": ("SELECT k, x FROM a [ROWS 3]", lambda a, b, t: [r[1:] for r in _last(a, t, 3)]),
    "rows of keys, with a selection": (
        "SELECT k, x FROM a [ROWS 2 PARTITION BY k] WHERE x > 1",
        lambda a, b, t: [r[1:] for r in _last(a, t, 2, True) if r[2] > 1],
    ),
    "rows in exists": (
        "SELECT x FROM a [RANGE 6] WHERE EXISTS (SELECT 1 FROM b [ROWS 2] WHERE b.k = a.k)",
        lambda a, b, t: [(r[2],) for r in _held(a, t, 6) if r[1] is not None and r[1] in _keys(_last(b, t, 2))],
    ),
    "internal": (
        "SELECT a.k, a.x, b.x AS y FROM a [RANGE 3 INTERNAL] JOIN b [RANGE 4 INTERNAL] ON a.k = b.k",
        lambda a, b, t: [
            (k, x, y)
            for n, k, x in a
            for m, j, y in b
            if k is not None and k == j and max(n, m) < t and max(n, m) + 1 <= min(n + 3, m + 4)
        ],
    ),
}


def _total(pairs: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(len(pairs), sum(p[2] for p in pairs) if pairs else None)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_relations_by_brute_force(case: str, spark: Any) -> None:
    text, expected = CASES[case]
    oracle = _oracle(spark, text)
    rows = {"a": _random_rows(1), "b": _random_rows(2)}
    for name, some in rows.items():
        oracle.deposit(name, some)
    for name in rows:
        oracle.end_input(name)
    due = oracle.due("q")
    assert due is not None
    every = oracle.relations("q", due.all(1))
    changing = set(oracle.ticks("q"))
    before: Any = None
    for tick, found in every.items():
        assert Counter(found) == Counter(expected(rows["a"], rows["b"], tick)), tick
        assert tick in changing or Counter(found) == before, tick
        before = Counter(found)
    middle = sorted(changing)[len(changing) // 2]
    assert oracle.relation("q", middle) == every[middle]
