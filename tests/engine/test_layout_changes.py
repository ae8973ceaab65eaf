"""State whose layout changes with the share of rows that are withdrawn: killed in the commit of such a change, a query
goes on with the old layout or the new one, and gives the same changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.killed import copy_as_killed

import windrow
from engine.conftest import Open
from engine.helpers import state_of
from engine.plan_streams import rows
from windrow.engine.plans import commits
from windrow.engine.plans.commits import STATE
from windrow.operators.layouts import choosing
from windrow.operators.layouts.parts import Layout

STREAM = "CREATE STREAM {} (t BIGINT, k INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
QUERY = (
    "SELECT x % 3 AS g, MAX(k) AS m FROM a [RANGE 10] AS a"
    " WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 10] AS b WHERE b.k = a.k) GROUP BY x % 3"
)
CALENDAR, TABLE = Layout.CALENDAR.name, Layout.KEYED.name
Batches = dict[str, list[list[tuple[int, int, int]]]]


def batches() -> Batches:
    """Micro-batches of both streams. At first most rows of a are withdrawn by those of b, later all stay to their
    end."""
    found: Batches = {"a": [], "b": []}
    for i in range(10):
        count, withdrawn = (24, 20) if i < 3 else (40, 0)
        found["a"].append([(4 * i, 100 * i + n, n) for n in range(count)])
        found["b"].append([(4 * i + 1, 100 * i + n, n) for n in range(withdrawn)] or [(4 * i + 1, -1, 0)])
    return found


def played(wr: windrow.Windrow) -> list[str]:
    """All changes, after the micro-batches that are not deposited yet."""
    every = batches()
    for i in range(10):
        for name in ("a", "b"):
            if i > state_of(wr, name).last_batch:
                wr.deposit(name, every[name][i])
    for name in ("a", "b"):
        wr._engine.ticks.catch_up(state_of(wr, name))
    return sorted(map(repr, rows(wr.queries["q"].changes())))


def layouts(wr: windrow.Windrow) -> set[str]:
    """The committed layouts of the rows that a group has."""
    empty = {path for path, use in wr._engine.plans.query("q").version.state.layouts.items() if use is not None}
    parts = wr._engine.opened.plan_commits.parts(wr._engine.plans.query("q").id, STATE)
    return {str(part.layout) for part in parts if part.operator in empty}


def test_killed_while_the_layout_changes(open_state: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "LEAST_LEFT", 10)
    wr = open_state()
    wr.sql(f"{STREAM.format('a')}; {STREAM.format('b')}")
    wr.query("q", QUERY)
    before, killed = {CALENDAR}, dict[tuple[str, str], set[str]]()

    def copy_state(point: str) -> None:
        """Copy the directory, as a kill would leave it, when the layout is first another one."""
        nonlocal before
        now = layouts(wr)
        if len(now) == 1 and now != before:
            (other,) = now
            if (other, point) not in killed:
                copy_as_killed(wr.state_dir, tmp_path / f"{other} {point}")
                killed[other, point] = before if point == "plan-blocks-written" else now
            before = now if point == "plan-committed" else before

    monkeypatch.setattr(commits, "crash_point", copy_state)
    expected = played(wr)
    monkeypatch.undo()
    monkeypatch.setattr(choosing, "LEAST_LEFT", 10)
    assert killed.keys() == {(one, at) for one in (TABLE, CALENDAR) for at in ("plan-blocks-written", "plan-committed")}
    for (other, point), kept in killed.items():
        again = open_state(f"{other} {point}")
        assert layouts(again) == kept, (other, point)
        assert played(again) == expected and len(expected) > 20, (other, point)
