"""Partial results of runs of panes: merged, they are what the plan gives over all tuples at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from support.continuous import BIGINT, DOUBLE, INT, KERNEL, STRING, Builder, plan_of, rows_of

from windrow.operators.advance import advance
from windrow.operators.changes import HEAD
from windrow.operators.grouping import grouped_sql
from windrow.operators.scan import POINT, StreamRows, stored_schema
from windrow.operators.stages.partials import partial_plan
from windrow.operators.state import PlanState
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import Distinct, Node

COLUMNS = {"k": STRING, "x": INT, "y": BIGINT, "d": DOUBLE}
CALLS = ("COUNT", None), ("SUM", "x"), ("SUM", "y"), ("MIN", "k"), ("MAX", "d"), ("AVG", "d"), ("STDDEV", "x")


def tuples(node: Node, rows: int, seed: int = 7) -> pa.Table:
    """Stored tuples with NULL, NaN, zeros of both signs and large numbers, all born just before tick 100."""
    rng = np.random.default_rng(seed)
    floats = rng.choice([0.5, -0.0, 0.0, np.nan, np.inf, 2.25], rows)
    values = {
        "k": pa.array(rng.choice(["a", "b", "é", ""], rows), mask=rng.random(rows) < 0.1),
        "x": pa.array(rng.integers(-9, 9, rows), pa.int32(), mask=rng.random(rows) < 0.1),
        "y": pa.array(rng.integers(-(1 << 62), 1 << 62, rows)),
        "d": pa.array(floats, mask=rng.random(rows) < 0.1),
    }
    window = plan_of(node).windows[0]
    schema = stored_schema(window)
    named = {column.sql: values[column.name] for column in window.schema}
    return pa.table({POINT: np.full(rows, 99), **named}).select(schema.names).cast(schema)


def shapes(builder: Builder) -> dict[str, Node]:
    window = builder.window(50, COLUMNS)
    some = builder.filter(window, "$.x > 0")
    return {
        "selection": builder.project(some, k=("$.k", STRING), z=("$.x + 1", INT)),
        "groups": builder.group_by(some, ["k"], *CALLS),
        "by a double": builder.group_by(window, ["d"], ("COUNT", None)),
        "total": builder.group_by(some, [], *CALLS),
        "counted values": builder.group_by(window, ["k"], ("MEDIAN", "x"), ("COUNT(DISTINCT)", "d")),
        "first rows": builder.top(some, "$.d", 25, descending=True),
        "no rows": builder.top(some, "$.d", 0),
        "some of the first rows": builder.filter(
            builder.top(builder.project(some, k=("$.k", STRING)), "$.k", 9), "$.k > 'a'"
        ),
        "distinct": Distinct(builder.project(window, k=("$.k", STRING), d=("$.d", DOUBLE))),
    }


@pytest.mark.parametrize("shape", shapes(Builder()))
@pytest.mark.parametrize("rows", [0, 1, 500, 30_000])
@pytest.mark.parametrize("least", [0, 1 << 40])
def test_merged_partials_are_the_answer(shape: str, rows: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_sql, "LEAST_ROWS", least)  # by a statement, and without
    root = shapes(Builder())[shape]
    plan, due = plan_of(root), DueTicks(99, 100, 1)
    partial = partial_plan(root)
    assert partial is not None
    whole = tuples(root, rows)
    cuts = sorted({0, rows // 3, rows // 2, rows})
    parts = [whole.slice(lo, hi - lo) for lo, hi in zip(cuts, cuts[1:], strict=False)] or [whole]
    merged = partial.merged([partial.partial(part, KERNEL) for part in parts], KERNEL)
    given = {partial.path: partial.output(merged, due, KERNEL)}
    found = advance(plan, PlanState(), {}, due, KERNEL, given=given).changes
    expected = advance(plan, PlanState(), {0: StreamRows(whole)}, due, KERNEL).changes
    assert _close(found, expected)


def _close(one: pa.Table, other: pa.Table) -> bool:
    def key(row: tuple[object, ...]) -> str:
        return repr([round(v, 6) if isinstance(v, float) else v for v in row])

    rows, expected = (sorted(map(key, (r[len(HEAD) :] for r in rows_of(t)))) for t in (one, other))
    return rows == expected


@pytest.mark.parametrize(
    ("shape", "most", "reduces"), [("first rows", 25, True), ("distinct", 40, True), ("selection", 1 << 20, False)]
)
def test_partials_keep_the_rows_that_are_needed(shape: str, most: int, reduces: bool) -> None:
    root = shapes(Builder())[shape]
    partial = partial_plan(root)
    assert partial is not None
    found = partial.partial(tuples(root, 30_000), KERNEL)
    assert 0 < found.num_rows <= most
    assert (partial.reduces, partial.is_answer) == (reduces, not reduces)


def test_first_rows_that_are_asked_for_above_the_plan() -> None:
    builder = Builder()
    window = builder.window(50, COLUMNS)
    top = builder.top(window, "$.y", 3, descending=True)
    partial = partial_plan(window, top)
    assert partial is not None and partial.path == "0"
    rows = tuples(window, 500)
    merged = partial.merged(
        [partial.partial(rows.slice(0, 100), KERNEL), partial.partial(rows.slice(100), KERNEL)], KERNEL
    )
    (y,) = (column.sql for column in window.schema if column.name == "y")
    assert merged.column(y).to_pylist() == sorted(rows.column(y).to_pylist(), reverse=True)[:3]


def test_a_join_has_no_partials() -> None:
    builder = Builder()
    joined = builder.join(builder.window(50, {"k": STRING}), builder.window(50, {"k": STRING}), on=["k"])
    assert partial_plan(joined) is None
