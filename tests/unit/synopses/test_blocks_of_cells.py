"""Cells to a block and back, and deposits folded into one."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.brute_force import MOMENTS, TYPES, Row, calls_of, cells_of, expected, roles_of, same, values_of

from windrow.plan.accumulators import Accumulator, AggregateCall, Kind
from windrow.synopses import Cells
from windrow.synopses.cells.blocks import from_block, to_block
from windrow.synopses.cells.groups import NOBODY, Groups
from windrow.synopses.cells.merging import fold_cells
from windrow.synopses.results.values import result_of
from windrow.types import SqlType

some = settings(max_examples=15, deadline=None)
KEYS = (pa.string(), pa.float64())
KEY_VALUES = [("a", 0.0), ("b", math.nan), (None, 1.5), ("b", None), (None, None)]
INT = SqlType("INT")


def calls(type_: SqlType) -> list[AggregateCall]:
    exact = type_.is_float or type_.name in ("TINYINT", "SMALLINT")
    return [call for call in calls_of(type_) if exact or call.function not in MOMENTS]


def rows(type_: SqlType) -> st.SearchStrategy[list[Row]]:
    row = st.builds(
        Row, st.integers(-3, 3).map(lambda p: p * 10), st.sampled_from(KEY_VALUES), st.none() | values_of(type_)
    )
    return st.lists(row, max_size=8)


def stored(table: pa.Table) -> pa.Table:
    """A round trip through the file format of blocks, which must keep dictionaries and slices."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return pa.ipc.open_file(sink.getvalue()).read_all()


def contents(cells: Cells, groups: Groups, made: Sequence[AggregateCall]) -> dict[Any, list[Any]]:
    """(pane, key) → results, cells merged."""
    once = fold_cells([cells], None)
    columns = [c.to_pylist() for c in groups.key_columns(once.groups)]
    keys = [tuple("NaN" if v != v else v for v in key) for key in zip(*columns, strict=True)]
    results = [result_of(call, dict(once.states)).to_pylist() for call in made]
    names = zip(once.panes.tolist(), keys, strict=True)
    return dict(zip(names, map(list, zip(*results, strict=True)), strict=True))


def brute_force(given_rows: Sequence[Row], type_: SqlType, made: Sequence[AggregateCall]) -> dict[Any, list[Any]]:
    by_cell: dict[Any, list[Any]] = {}
    for row in given_rows:
        key = tuple("NaN" if v != v else v for v in row.key)
        by_cell.setdefault((row.pane, key), []).append(row.value)
    return {name: [expected(call, type_, values) for call in made] for name, values in by_cell.items()}


def assert_equal(found: dict[Any, list[Any]], wanted: dict[Any, list[Any]]) -> None:
    assert found.keys() == wanted.keys()
    for name, row in wanted.items():
        assert all(map(same, found[name], row)), (name, found[name], row)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@some
@given(st.data())
def test_block_round_trip(type_: SqlType, data: Any) -> None:
    """The reader may know no groups, or others."""
    given_rows, made, groups = data.draw(rows(type_)), calls(type_), Groups(KEYS)
    cells = cells_of(given_rows, roles_of(made), type_, groups, KEYS)
    block = stored(to_block(cells, groups))
    assert block.column("pane").to_pylist() == sorted(row.pane for row in given_rows)
    elsewhere = Groups(KEYS)
    elsewhere.ids([pa.array(["z", "b"]), pa.array([9.0, math.nan])])
    for known in (groups, elsewhere):
        back = from_block(block, list(roles_of(made)), known)
        assert_equal(contents(back, known, made), brute_force(given_rows, type_, made))


@pytest.mark.parametrize("type_", [INT, SqlType("DOUBLE"), SqlType("STRING"), SqlType("DECIMAL(38,0)")], ids=str)
@some
@given(st.data())
def test_fold_cells(type_: SqlType, data: Any) -> None:
    made, groups = calls(type_), Groups(KEYS)
    parts = [data.draw(rows(type_)) for _ in range(data.draw(st.integers(1, 3)))]
    kept_from = data.draw(st.none() | st.integers(-40, 40))
    cells = [cells_of(part, roles_of(made), type_, groups, KEYS) for part in parts]
    folded = fold_cells(cells, kept_from)
    names = list(zip(folded.panes.tolist(), folded.groups.tolist(), strict=True))
    assert names == sorted(set(names))
    every = [row for part in parts for row in part if kept_from is None or row.pane >= kept_from]
    assert_equal(contents(folded, groups, made), brute_force(every, type_, made))


def test_nobody_round_trip() -> None:
    groups = Groups([pa.string()])
    count = Accumulator(Kind.COUNT, None, None, None)
    ids = groups.ids([pa.array(["a", None, None])], np.array([False, True, False]))
    cells = Cells(np.array([0, 0, 0]), ids, {count: (np.array([1, 1, 1]),)})
    block = stored(to_block(cells, groups))
    assert block.column("nobody").to_pylist() == [False, True, False]
    assert from_block(block, [count], Groups([pa.string()])).groups.tolist() == [1, NOBODY, 2]


def test_ungrouped_block_has_no_key_columns() -> None:
    groups = Groups([])
    count = Accumulator(Kind.COUNT, None, None, None)
    cells = Cells(np.array([10, 0]), groups.ids([], np.array([False, True])), {count: (np.array([5, 1]),)})
    block = stored(to_block(cells, groups))
    assert block.column_names == ["pane", "nobody", f"{count.id}_0"]
    again = Groups([])
    back = from_block(block, [count], again)
    assert (back.panes.tolist(), back.groups.tolist(), again.count) == ([0, 10], [NOBODY, 1], 2)


def test_old_block_lacks_new_accumulator() -> None:
    groups = Groups([pa.int64()])
    old, new = Accumulator(Kind.COUNT, None, None, None), Accumulator(Kind.LEAST, "x", INT, None)
    first = Cells(np.array([0]), groups.ids([pa.array([7])]), {old: (np.array([2]),)})
    both = {old: (np.array([1]),), new: (np.array([5]),)}
    second = Cells(np.array([0]), groups.ids([pa.array([7])]), both)
    blocks = [to_block(first, groups), to_block(second, groups)]
    parts = [from_block(block, [old, new], groups) for block in blocks]
    assert list(parts[0].states) == [old] and list(parts[1].states) == [old, new]
    folded = fold_cells(parts, None)
    assert folded.states[old][0].tolist() == [3] and folded.states[new][0].tolist() == [5]


def test_unread_accumulator_is_dropped() -> None:
    groups = Groups([pa.int64()])
    a, b = Accumulator(Kind.COUNT, None, None, None), Accumulator(Kind.COUNT, "x", INT, None)
    states = {a: (np.array([2]),), b: (np.array([1]),)}
    block = to_block(Cells(np.array([0]), groups.ids([pa.array([7])]), states), groups)
    assert list(from_block(block, [b], groups).states) == [b]


def test_fold_cells_drops_all() -> None:
    count = Accumulator(Kind.COUNT, None, None, None)
    cells = Cells(np.array([0, 5]), np.array([1, 1]), {count: (np.array([1, 1]),)})
    assert len(fold_cells([cells], 6)) == 0
    assert fold_cells([cells], 5).panes.tolist() == [5]
