"""MEDIAN and QUANTILE by selection: the same answers as from counters."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.plan.accumulators import Key
from windrow.plan.aggregates import decompose
from windrow.plan.nodes import Attribute, Scan, Selection, WindowAggregate
from windrow.synopses.basic_interval import BasicIntervalSynopsis
from windrow.synopses.chunks import Cells
from windrow.synopses.lookups import Lookup
from windrow.synopses.roll_up import rows_of
from windrow.synopses.selecting import selected, selection_pays
from windrow.types import SqlType
from windrow.windows import SlidingWindow

BIGINT, DOUBLE = SqlType("BIGINT"), SqlType("DOUBLE")
CALLS = (
    decompose("MEDIAN", "x", DOUBLE, None),
    decompose("QUANTILE", "x", DOUBLE, None, (Decimal("0.3"),)),
    decompose("QUANTILE", "x", DOUBLE, "c", (Decimal(1),)),
)
VALUES = [None, -1.5, 0.0, 2.0, 3.0, math.inf, math.nan]


def aggregate_of(*calls: Any, keys: tuple[Key, ...] = ()) -> WindowAggregate:
    scan = Selection(Scan("s", Attribute("t", BIGINT)), None)
    return WindowAggregate(scan, SlidingWindow(3, 1), keys, calls, 0, bool(keys))


def synopsis_of(aggregate: WindowAggregate, panes: list[int], values: list[Any]) -> BasicIntervalSynopsis:
    synopsis = BasicIntervalSynopsis([pa.float64()] * len(aggregate.cell_keys))
    ids = synopsis.groups.ids([pa.array(values, pa.float64())] * len(aggregate.cell_keys))
    some = {
        a: (np.arange(ids.size) % 3 if a.condition else np.ones(ids.size, np.int64),) for a in aggregate.accumulators
    }
    synopsis.deposit(Cells(np.array(panes, np.int64), ids, some))
    synopsis.close(100)
    return synopsis


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from(VALUES)), min_size=1, max_size=50), st.integers(1, 25))
def test_selection_equals_the_counters(rows: list[tuple[int, Any]], width: int) -> None:
    aggregate = aggregate_of(*CALLS)
    synopsis = synopsis_of(aggregate, [row[0] for row in rows], [row[1] for row in rows])
    ends = np.arange(0, 30)
    lookup = Lookup("q", ends - width, ends, aggregate.presence, aggregate.accumulators, False)
    (looked,) = synopsis.answer([lookup])
    counted = rows_of(aggregate, looked, synopsis.groups)
    found = rows_of(aggregate, selected(synopsis, aggregate, lookup), synopsis.groups)
    assert found.window.tolist() == counted.window.tolist()
    for call in CALLS:
        assert str(found.result(call).to_pylist()) == str(counted.result(call).to_pylist())


@pytest.mark.parametrize("windows", [2, 100_000])
def test_it_is_chosen_for_many_windows_of_many_values(windows: int) -> None:
    plain = aggregate_of(CALLS[0])
    synopsis = synopsis_of(plain, list(range(90)) * 100, np.arange(9000.0).tolist())
    assert selection_pays(synopsis, plain, windows) is (windows > 2)
    for other in (
        aggregate_of(CALLS[0], decompose("COUNT", None, None, None)),
        aggregate_of(CALLS[0], keys=(Key("x", DOUBLE),)),
    ):
        assert not selection_pays(synopsis_of(other, [1], [1.0]), other, windows)
