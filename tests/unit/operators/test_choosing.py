"""The layout of rows that may end or be withdrawn before: what leaves is counted, decides, and the rows move over."""

from __future__ import annotations

from typing import Any

import pytest
from support.continuous import INT, Builder, Run, plan_of, rows_of, run

from windrow.operators.layouts.choosing import COMMON, LEAST_LEFT, RARE, wanted_layout
from windrow.operators.layouts.parts import Departures, Layout, LayoutUse
from windrow.operators.sharing.subplans import CompactedOnce
from windrow.operators.state import compacted, restore
from windrow.plan.algebra.nodes import ContinuousPlan

OLD = "0.0/old"
"""What the join keeps of the negation, its first input."""


def negation_join(history: list[Any]) -> tuple[ContinuousPlan, list[Any]]:
    """(a NOT EXISTS b) JOIN c, all on k: the join keeps the rows of the negation."""
    b = Builder()
    left = b.semi_join(b.window(10, {"k": INT}), b.window(10, {"k": INT}), ["k"], is_anti=True)
    return plan_of(b.join(left, b.window(10, {"k": INT}), on=["k"])), history


def streams(withdrawn: int, ends: int, first: int) -> list[Any]:
    """Of a's rows, from point `first` on, so many are withdrawn by b's at the next point, and so many end."""
    every = withdrawn + ends
    a = [(first, (k,)) for k in range(every)]
    return [a, [(first + 1, (k,)) for k in range(withdrawn)], []]


def joined(*parts: list[Any]) -> list[Any]:
    return [[row for part in parts for row in part[i]] for i in range(3)]


def relaid(made: Run) -> dict[str, Layout]:
    made.state = CompactedOnce().relaid(made.plan, made.state)
    return {path: table.layout for path, table in made.state.tables.items()}


def test_what_leaves_is_counted() -> None:
    plan, history = negation_join(joined(streams(3, 2, 0), streams(0, 1, 5)))
    made = run(plan, history, [0, 4, 6])
    assert made.state.layouts == {OLD: LayoutUse(1, 0, Departures(3, 0))}
    made = run(plan, history, [0, 4, 6, 9, 12])
    assert made.state.layouts == {OLD: LayoutUse(1, 0, Departures(3, 2))}


@pytest.mark.parametrize("ends", [[0, 12], [0, 1, 12], [0, 4, 12]])
def test_the_count_does_not_depend_on_batches(ends: list[int]) -> None:
    plan, history = negation_join(joined(streams(3, 2, 0), streams(0, 1, 5)))
    assert run(plan, history, ends).state.layouts[OLD].departures == Departures(3, 2)


def test_the_share_decides() -> None:
    many, some, few = Departures(60, 40), Departures(10, 90), Departures(5, 95)
    assert COMMON > RARE
    assert wanted_layout(Layout.CALENDAR, many) is Layout.KEYED
    assert wanted_layout(Layout.CALENDAR, some) is Layout.CALENDAR
    assert wanted_layout(Layout.KEYED, some) is Layout.KEYED
    assert wanted_layout(Layout.KEYED, few) is Layout.CALENDAR
    assert wanted_layout(Layout.CALENDAR, Departures(LEAST_LEFT - 1, 0)) is Layout.CALENDAR
    assert wanted_layout(Layout.KEYED, Departures(0, 0)) is Layout.KEYED


def test_rows_move_to_a_table_and_back() -> None:
    """Many are withdrawn, then only few: the state moves twice, and answers and restarts go on."""
    early, late, last = streams(150, 20, 0), streams(0, 900, 12), streams(0, 5, 20)
    more = [[], [], [(15, (170,)), (23, (880,)), (5, (160,))]]
    plan, history = negation_join(joined(early, late, last, more))
    plain = run(plan, history, [0, 5, 14, 16, 24])
    seen = list[Any]()

    def moved(made: Run, tick: int) -> None:
        seen.append((tick, relaid(made)[OLD]))
        assert restore(plan, compacted(made.state), tick).tables[OLD].layout is seen[-1][1]

    again = run(plan, history, [0, 5, 14, 16, 24], each=moved, restart=lambda tick: "compacted" if tick == 16 else None)
    assert rows_of(again.all_changes) == rows_of(plain.all_changes) and again.all_changes.num_rows
    assert seen == [(5, Layout.KEYED), (14, Layout.KEYED), (16, Layout.KEYED), (24, Layout.CALENDAR)]


def test_newer_departures_weigh_more() -> None:
    assert Departures(100, 41).halved == Departures(50, 20)
    assert Departures().share == 0.0 and Departures(1, 3).share == 0.25
