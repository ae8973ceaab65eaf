"""Rows that are alive, as intervals: in both layouts, in any batches, with restarts, the rows of every tick are those
that came and were neither withdrawn nor at their end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.continuous import INT, batches_of

from windrow.operators.layouts.live import (
    ENTER,
    LEAVE,
    intervals,
    is_touched,
    is_withdrawn,
    live_calendar,
    live_schema,
    live_table,
)
from windrow.operators.layouts.steps import StateTable
from windrow.operators.tables.edges import COUNT, STRICT, TICK, Edge, as_strict, netted, strict_schema
from windrow.operators.tables.rows import longs
from windrow.operators.ticks import EXP, NEVER, TS, DueTicks
from windrow.plan.algebra.nodes import PlanColumn

SCHEMA = (PlanColumn(1, "v", INT),)
LAST = 20
Change = tuple[int, int, int, int, Any]
"""A strict change: tick, count, ts, exp, value."""


@st.composite
def strict_changes(draw: Any, step: int) -> list[Change]:
    """At every tick some rows come, and some of those that are there are withdrawn."""
    there: Counter[tuple[int, Any]] = Counter()
    made: list[Change] = []
    for tick in range(step, LAST + 1, step):
        there = Counter({(exp, v): n for (exp, v), n in there.items() if exp >= tick})
        for exp, v in (
            draw(st.lists(st.sampled_from(sorted(there, key=repr)), max_size=2, unique=True)) if there else ()
        ):
            gone = draw(st.integers(1, there[exp, v]))
            made.append((tick, -gone, tick - 1, exp, v))
            there[exp, v] -= gone
            there += Counter()
        for _ in range(draw(st.integers(0, 2))):
            exp = draw(st.one_of(st.just(NEVER), st.integers(tick, tick + 8)))
            v, count = draw(st.sampled_from([None, 1, 2])), draw(st.integers(1, 3))
            made.append((tick, count, tick - draw(st.integers(1, step)), exp, v))
            there[exp, v] += count
    return made


def relation(made: list[Change], tick: int) -> Counter[Any]:
    """R(tick), by definition."""
    found: Counter[Any] = Counter()
    for at, count, _, exp, v in made:
        if at <= tick <= exp:
            found[exp, v] += count
    return +found


def edge_of(made: list[Change], due: DueTicks) -> Edge:
    rows = [change for change in made if due.before < change[0] <= due.upto]
    columns = list(zip(*rows, strict=True)) or [[]] * 5
    schema = strict_schema(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return Edge(pa.Table.from_arrays(arrays, schema=schema), SCHEMA, is_strict=True)


def seen_at(rows: pa.Table, tick: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row in rows.to_pylist():
        if row[ENTER] <= tick < row[LEAVE]:
            found[row[EXP], row["c1"]] += row[COUNT]
    return found


LAYOUTS = {"calendar": lambda: live_calendar(SCHEMA, 3), "table": lambda: live_table(SCHEMA)}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_intervals_are_the_relation(layout: str, data: st.DataObject) -> None:
    step = data.draw(st.sampled_from([1, 2]))
    made = data.draw(strict_changes(step))
    inner = data.draw(st.sets(st.integers(1, LAST // step - 1)))
    ends = [0, *(step * tick for tick in sorted(inner)), LAST, LAST + 40]
    empty: StateTable = LAYOUTS[layout]()
    state, parts = empty, []
    for due in batches_of(ends, step):
        found = intervals(edge_of(made, due), "p", state, due)
        state = found.tables["p"]
        parts += found.parts
        for tick in range(due.before, due.upto + 1, step):
            assert seen_at(found.rows, tick) == relation(made, tick), tick
        how = data.draw(st.sampled_from(["go on", "parts", "compacted"]))
        if how != "go on":
            parts = state.parts("p", due.upto) if how == "compacted" else parts
            state = empty
            for part in parts:
                if not part.is_expired(due.upto):
                    state = state.appended(part.rows)
            state = state.settled(due.upto)
    left = relation(made, LAST + 40)
    assert state.count == len(left), "what is gone is dropped, and equal rows are kept as one"


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_the_first_that_came_is_withdrawn(layout: str) -> None:
    made: list[Change] = [(1, 2, 0, 9, 5), (2, 1, 1, 9, 5), (3, -1, 2, 9, 5), (3, 1, 2, 7, 5), (4, -2, 3, 9, 5)]
    due = DueTicks(0, 20, 1)
    rows = intervals(edge_of(made, due), "p", LAYOUTS[layout](), due).rows
    found = sorted((r[ENTER], r[LEAVE], r[TS], r[EXP], r[COUNT]) for r in rows.to_pylist())
    assert found == [(1, 3, 0, 9, 1), (1, 4, 0, 9, 1), (2, 4, 1, 9, 1), (3, 8, 2, 7, 1)]
    assert sorted(np.array([r[ENTER] for r in rows.to_pylist()])[is_withdrawn(rows, due)]) == [1, 1, 2]
    later = DueTicks(2, 3, 1)
    before = intervals(edge_of(made, DueTicks(0, 2, 1)), "p", LAYOUTS[layout](), DueTicks(0, 2, 1)).tables["p"]
    rows = intervals(edge_of(made, later), "p", before, later).rows
    touched = [
        (r[ENTER], r[LEAVE], r[COUNT]) for r, t in zip(rows.to_pylist(), is_touched(rows, later), strict=True) if t
    ]
    assert sorted(touched) == [(2, 3, 1), (3, 8, 1)]


def test_withdrawing_what_is_not_there_fails() -> None:
    due = DueTicks(0, 3, 1)
    with pytest.raises(AssertionError, match="more rows are withdrawn"):
        intervals(edge_of([(1, 1, 0, 9, 5), (2, -2, 1, 9, 5)], due), "p", live_table(SCHEMA), due)


def test_lifetimes_are_intervals_too() -> None:
    rows = pa.table({TS: [0, 1, 2], EXP: [5, 6, 3], "c1": pa.array([1, 1, 2], pa.int32())})
    due = DueTicks(0, 4, 2)
    found = intervals(Edge(rows, SCHEMA), "p", live_calendar(SCHEMA, 3), due)
    # (2, 3) is between two ticks.
    assert sorted((r[ENTER], r[LEAVE], r[EXP]) for r in found.rows.to_pylist()) == [(2, 6, 5), (2, 8, 6)]
    state = found.tables["p"]
    again = intervals(Edge(rows.slice(0, 0), SCHEMA), "p", state, DueTicks(4, 6, 2))
    assert sorted((r[ENTER], r[LEAVE]) for r in again.rows.to_pylist()) == [(4, 6), (4, 8)]
    assert live_schema(SCHEMA).names == [LEAVE, EXP, COUNT, "c1"]


def test_netted_keeps_what_was_born_last() -> None:
    made: list[Change] = [
        (4, 1, 2, 9, 1),
        (4, 2, 3, 9, 1),
        (4, -2, 3, 9, 1),
        (4, 1, 3, 8, 1),
        (6, 1, 5, 9, 2),
        (6, -1, 5, 9, 2),
        (6, 1, 4, 9, 1),
        (6, -3, 5, 9, 1),
    ]
    rows = netted(edge_of(made, DueTicks(0, 10, 2)).rows, ["c1"])
    found = sorted(tuple(row[name] for name in (*STRICT, "c1")) for row in rows.to_pylist())
    assert rows.column_names[0] == TICK
    assert found == [(4, 1, 3, 8, 1), (4, 1, 3, 9, 1), (6, -2, 5, 9, 1)]


def test_lifetimes_born_before_the_due_ticks_keep_their_first_tick() -> None:
    """A strict join makes intervals of the old rows of a window, too."""
    rows = pa.table({TS: [3, 12], EXP: [30, 30], SCHEMA[0].sql: pa.array([1, 2], pa.int32())})
    assert longs(as_strict(Edge(rows, SCHEMA), DueTicks(10, 20, 10)).rows.column(TICK)).tolist() == [10, 20]
