"""The layout of rows that may end or be withdrawn before: what leaves is counted, decides, and the rows move over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.continuous import INT, KERNEL, Builder, Run, inputs_of, plan_of, rows_of, run
from support.continuous import stored as stored_tuples

from windrow.operators.advance import advance
from windrow.operators.carrying.carrying import carry, rebuild
from windrow.operators.changes import stored
from windrow.operators.layouts.choosing import COMMON, LEAST_LEFT, RARE, wanted_layout
from windrow.operators.layouts.live import live_calendar, live_table
from windrow.operators.layouts.parts import Departures, Layout, LayoutUse
from windrow.operators.sharing.same_state import is_same
from windrow.operators.sharing.subplans import CompactedOnce
from windrow.operators.state import compacted, restore
from windrow.operators.ticks import DueTicks
from windrow.operators.view import beginning
from windrow.plan.algebra.nodes import ContinuousPlan, Distinct

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


def test_table_that_was_empty_for_a_while() -> None:
    """Its layout was chosen, and later parts have the same one, so that a restart reads them as they were written."""
    b = [(16, (200,))]
    later = [[(15, (k,)) for k in range(200, 210)], b, [(19, (k,)) for k in range(200, 210)]]
    plan, history = negation_join(joined(streams(150, 20, 0), later))
    ends = [0, 5, 14, 16, 18, 20]
    plain = run(plan, history, ends)
    seen = dict[int, Any]()

    def look(made: Run, tick: int) -> None:
        seen[tick] = made.state.tables[OLD].layout, made.state.tables[OLD].count

    how = {5: "compacted", 18: "parts"}
    again = run(plan, history, ends, each=look, restart=lambda tick: how.get(tick))
    assert seen[14] == (Layout.KEYED, 0) and seen[18] == (Layout.KEYED, 9)
    assert rows_of(again.all_changes) == rows_of(plain.all_changes)
    assert sorted(row[4] for row in rows_of(again.all_changes)) == list(range(201, 210))


def test_table_is_carried_over_to_another_plan() -> None:
    more = [[(6, (300,))], [], [(7, (300,)), (7, (160,))]]
    old, history = negation_join(joined(streams(150, 20, 0), more))
    made = run(old, history, [0, 5], restart=lambda tick: "compacted")
    new, due = replace(old, root=Distinct(old.root)), DueTicks(5, 8, 1)
    carried = carry(old, made.state, new, 5, beginning(stored(made.all_changes), 5))
    assert carried.tables[f"0.{OLD}"].layout is Layout.KEYED
    state = rebuild(new, carried, {}, 5, KERNEL).state
    done = advance(new, state, inputs_of(new, stored_tuples(new, history), due), due, KERNEL)
    assert sorted(row[4:] for row in rows_of(done.changes)) == [(160, 160), (300, 300)]


def test_empty_tables_of_different_layouts_are_not_shared() -> None:
    columns = (Builder().column("k", INT),)
    calendar, table = live_calendar(columns, 5, may_change=True), live_table(columns)
    relaid_table = replace(table, departures=Departures())
    assert is_same(None, calendar, 5, True) and is_same(None, table, 5, True)
    assert is_same(relaid_table, replace(relaid_table, departures=Departures(3, 1)), 5, True)
    assert not is_same(relaid_table, None, 5, True) and not is_same(calendar, relaid_table, 5, True)


def test_newer_departures_weigh_more() -> None:
    assert Departures(100, 41).halved == Departures(50, 20)
    assert Departures().share == 0.0 and Departures(1, 3).share == 0.25
