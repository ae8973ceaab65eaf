"""CREATE OR REPLACE QUERY, PAUSE and RESUME in every home: what a query reports does not depend on where it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from engine.conftest import Open
from engine.plan_streams import JOIN, MICRO_BATCHES, A, B, rows
from windrow.engine.plans.changing import takeover

LARGE = "too large for the driver"
HOMES: dict[str, dict[str, str]] = {
    "driver": {"plan_home": "driver"},
    "spark": {"plan_home": "spark"},
    LARGE: {"plan_home": "auto", "driver_plan_bytes": "1 B"},
}

TABLES = (
    "CREATE TABLE names (k STRING PRIMARY KEY, name STRING)",
    "CREATE TABLE fed (k STRING PRIMARY KEY, y INT) FROM STREAM b DELETE WHEN y > 30",
    "INSERT INTO names VALUES ('u', 'Una'), ('v', 'Vera')",
)
KEEPERS = (
    "SELECT a.t, a.k, x, name FROM a [RANGE 10] JOIN names ON a.k = names.k",
    "SELECT a.t, a.k, x, y FROM a [RANGE 10] JOIN fed ON a.k = fed.k",
    "SELECT b.t, b.k, y, name FROM b [RANGE 10] JOIN names ON b.k = names.k",
)
"""They keep the tuples of both streams, so that a query that is replaced finds all that its windows hold."""

STEPS: tuple[tuple[str, list[Any], list[Any]], ...] = (
    (JOIN, [(1, "u", 1), (3, "v", 2), (4, "u", 6)], [(2, "u", 10), (4, "v", 20)]),
    (f"{JOIN} WHERE x + y < 20", [(5, "u", 3), (6, "w", 4)], [(5, "u", 5), (6, "w", 8)]),
    (
        "SELECT a.k, x, y FROM a [RANGE 10] LEFT JOIN b [RANGE 5] ON a.k = b.k AND x < y",
        [(7, "v", 4), (8, "u", 8)],
        [(7, "z", 1), (8, "v", 31)],
    ),
    (
        "SELECT k, x, x AS y FROM a [RANGE 10] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 5] WHERE b.k = a.k)",
        [(9, "v", 5), (10, "w", 1)],
        [(9, "u", 7), (10, "v", 2)],
    ),
    ("SELECT a.k, x, fed.y FROM a [RANGE 10] JOIN fed ON a.k = fed.k", [(11, "u", 2)], [(11, "v", 33), (12, "u", 4)]),
    ("SELECT a.k, x, fed.y FROM a [RANGE 10] LEFT JOIN fed ON a.k = fed.k", [(13, "v", 2)], [(13, "w", 9)]),
    ("SELECT a.k, x, length(name) AS y FROM a [RANGE 10] JOIN names ON a.k = names.k", [(14, "v", 3)], [(14, "u", 2)]),
    (
        "SELECT a.k, x, length(name) AS y FROM a [RANGE 10] LEFT JOIN names ON a.k = names.k AND x > 2",
        [(15, "w", 4)],
        [(15, "u", 5)],
    ),
    (
        "SELECT k, COUNT(*) AS x, MAX(y) AS y FROM (SELECT b.k, y FROM b [RANGE 10] JOIN names ON b.k = names.k) "
        "GROUP BY k",
        [(16, "u", 0)],
        [(16, "u", 9)],
    ),
)
"""A query takes the place of another, then tuples come."""

UPDATES = {3: "UPDATE names SET name = 'Vreni' WHERE k = 'v'", 7: "UPDATE names SET name = 'Ursula' WHERE k = 'u'"}
"""Statements before a query is replaced, by the number of the step: no tick has seen them."""


def reported(open_state: Open, home: str) -> dict[str, Any]:
    """What one query reports and shows at every step while it is replaced, rests and goes on, and the homes in which it
    was. Without `ts`: of a row that was built anew it may be another."""
    wr, told, homes, steps = open_state(home, **HOMES[home]), list[Any](), set[str](), list[Any]()
    wr.sql(f"{A}; {B}; {'; '.join(TABLES)}")
    for i, text in enumerate(KEEPERS):
        wr.query(f"keeps{i}", text)
    for i, (text, one, other) in enumerate(STEPS):
        if i in UPDATES:
            wr.sql(UPDATES[i])
        wr.query("q", text, replace=i > 0)
        if i == 0:
            wr.queries["q"].subscribe(lambda batch: told.extend(rows(batch.table)))
        if i == 4:
            wr.sql("ALTER QUERY q PAUSE")
        wr.deposit("a", one)
        wr.deposit("b", other)
        if i == 4:
            wr.sql("ALTER QUERY q RESUME")
        homes.add(wr._engine.plans.query("q").home)
        steps.append((_sorted((op, *rest) for op, _, *rest in told), _sorted(rows(wr.queries["q"].view()))))
        told.clear()
        if i in (1, 5):
            wr.close()
            wr = open_state(home, **HOMES[home])
            wr.queries["q"].subscribe(lambda batch: told.extend(rows(batch.table)))
    wr.end_input("a")
    wr.end_input("b")
    return {"steps": steps, "view": _sorted(rows(wr.queries["q"].view())), "homes": homes}


def _sorted(found: Iterable[Any]) -> list[Any]:
    return sorted(found, key=repr)


def test_replaced_alike_in_every_home(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {home: reported(open_state, home) for home in ("driver", "spark")}

    def restored(*_: Any) -> None:
        raise AssertionError("the state came to the driver")

    monkeypatch.setattr(takeover, "restored", restored)
    found |= {LARGE: reported(open_state, LARGE)}
    assert [one.pop("homes") for one in found.values()] == [{"driver"}, {"spark"}, {"spark"}]
    assert sum(bool(told) for told, _ in found["driver"]["steps"]) > 6
    assert found["driver"]["view"] == [("u", 5, 9), ("v", 3, 33)]
    assert found["spark"] == found["driver"]
    assert found[LARGE] == found["driver"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SELECT ISTREAM(a.k, x, y) FROM a [RANGE 10] JOIN b [RANGE 5] ON a.k = b.k", "{} WHERE x > 1"),
        ("SELECT k, x FROM a [ROWS 3]", "SELECT k, x FROM a [ROWS 2]"),
        ("SELECT k, COUNT(*) AS n FROM a [RANGE 10] GROUP BY k", "{} HAVING n > 1"),
    ],
)
def test_large_state_comes_to_the_driver_where_it_must(open_state: Open, old: str, new: str) -> None:
    """The tuples of a stream of results, of a count-based window or of groups are not kept."""
    views = []
    for home in ("driver", LARGE):
        wr = open_state(home, **HOMES[home])
        wr.sql(f"{A}; {B}")
        q = wr.query("q", old)
        for i, (one, other) in enumerate(MICRO_BATCHES):
            if i == 1:
                wr.query("q", new.format(old), replace=True)
            wr.deposit("a", one)
            wr.deposit("b", other)
        views.append((rows(q.changes()), _sorted(rows(q.view()))))
    assert views[0] == views[1] and views[0][0]
