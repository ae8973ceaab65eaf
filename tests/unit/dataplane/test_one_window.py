"""ORDER BY and LIMIT of one window in Arrow agree with the DuckDB statement, or are left to it."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from sqlglot import exp

from windrow.dataplane.answers.finishing import Finisher, _evaluated, _looked, finish_one_sql
from windrow.dataplane.answers.one_window import ordered_rows
from windrow.plan.accumulators import Accumulator, AggregateCall, Kind
from windrow.plan.nodes import Attribute, Finalise, Key, Order, Output, Scan, Selection, WindowAggregate
from windrow.types import SqlType
from windrow.windows import SlidingWindow

BIGINT, STRING = SqlType("BIGINT"), SqlType("STRING")
COUNT = AggregateCall("COUNT", BIGINT, (("n", Accumulator(Kind.COUNT, None, None, None)),))


def plan_of(order: tuple[Order, ...], limit: int | None) -> Finalise:
    scan = Selection(Scan("s", Attribute("t", BIGINT)), None)
    aggregate = WindowAggregate(scan, SlidingWindow(10, 5), (Key("`k`", STRING),), (COUNT,))
    outputs = (Output("k", exp.column("k0"), STRING), Output("n", exp.column("a0"), BIGINT))
    return Finalise(aggregate, outputs, None, order, limit)


@pytest.mark.parametrize("seed", range(40))
def test_order_is_that_of_duckdb(seed: int) -> None:
    rng = Random(seed)
    rows = rng.randrange(0, 30)
    keys = pa.array([rng.choice(["a", "B", "é", "b", "", "ab"]) for _ in range(rows)], pa.string()).dictionary_encode()
    columns = {"k0": keys, "a0": pa.array([rng.randrange(-3, 3) for _ in range(rows)], pa.int64())}
    names = rng.sample(["k0", "a0"], rng.randrange(3))
    order = tuple(Order(exp.column(n), rng.random() < 0.5, rng.random() < 0.5) for n in names)
    plan = plan_of(order, rng.choice([None, 0, 1, 5, 100]) if order else rng.choice([0, 1, 5]))
    found = ordered_rows(plan, columns)
    assert found is not None
    finisher = Finisher(lambda: 1 << 20)
    done = finisher._evaluate(plan, finish_one_sql, _looked(pa.array([0] * rows, pa.int64()).to_numpy(), columns))
    window, outputs = _evaluated(plan, done)
    finisher.close()
    assert window.size == len(found)
    for output, name in zip(outputs, ("k0", "a0"), strict=True):
        column = columns[name].dictionary_decode() if name == "k0" else columns[name]
        assert column.take(found).to_pylist() == output.to_pylist()


@pytest.mark.parametrize("column", [pa.array([1, None]), pa.array([1.0, float("nan")]), pa.array([True, False])])
def test_columns_left_to_duckdb(column: pa.Array) -> None:
    plan = plan_of((Order(exp.column("a0"), True, False),), 1)
    assert ordered_rows(plan, {"k0": pa.array(["a", "b"]), "a0": column}) is None
