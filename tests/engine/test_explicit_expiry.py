"""`SET explicit_expiry = 'on'`: consumers that ignore `exp` have the view at every tick."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import windrow
from engine.conftest import Open
from engine.plan_streams import JOIN, MICRO_BATCHES, A, B, lines, rows

QUERIES = {"pairs": JOIN, "few": f"{JOIN} WHERE x > 1", "seen": "SELECT DISTINCT k FROM a [RANGE 4]"}
"""The first two share their join; the first only renames what it gives."""

HOMES = ["driver", pytest.param("spark", marks=pytest.mark.slow)]


def standing(changes: list[tuple[Any, ...]]) -> Counter[Any]:
    """What is there for a consumer that looks at `op` alone."""
    found = Counter[Any]()
    for op, _, _, *row in changes:
        found[tuple(row)] += 1 if op == "+" else -1
        assert found[tuple(row)] >= 0
    return +found


@pytest.mark.parametrize("home", HOMES)
def test_rows_that_expire_are_withdrawn(open_state: Open, tmp_path: Path, home: str) -> None:
    wr = open_state(plan_home=home, explicit_expiry="on")
    wr.sql(f"{A}; {B}")
    for name, text in QUERIES.items():
        wr.sql(f"CREATE QUERY {name} AS {text} INTO jsonl OPTIONS (path '{tmp_path}/{name}', mode 'changes')")
    most = dict.fromkeys(QUERIES, 0)

    def play(wr: windrow.Windrow, *batches: Any) -> None:
        for one, other in batches:
            wr.deposit("a", one)
            wr.deposit("b", other)
            for name in QUERIES:
                query = wr.queries[name]
                told, view = lines(tmp_path / name), Counter(rows(query.view()))
                assert told == rows(query.changes()) and standing(told) == view, name
                most[name] = max(most[name], view.total())

    play(wr, *MICRO_BATCHES[:2])
    assert wr._engine.plans.query("pairs").shares_join_with == ("few",)
    wr.close()
    wr = open_state(plan_home=home)
    play(wr, MICRO_BATCHES[2], ([(60, "z", 0)], [(60, "y", 0)]))
    assert min(most.values()) > 0 and not any(standing(lines(tmp_path / name)) for name in ("pairs", "few"))
    gone = [one for one in lines(tmp_path / "pairs") if one[0] == "-"]
    assert gone[0] == ("-", 7, 7, "u", 1, 10), "it ends at 7, which the tick of 8 is the first to show"
    assert "explicit_expiry is on" in wr.queries["pairs"].explain()
