"""Every type as a key, a value and an argument; filters of aggregates, approximate aggregates, names that clash."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from support.continuous import (
    DOUBLE,
    INT,
    KERNEL,
    STRING,
    Builder,
    counted,
    named,
    plan_of,
    replayed,
    rows_of,
    run,
    viewed,
)

from windrow.cql.select_text import parse_expression
from windrow.errors import ExecutionError
from windrow.operators.changes import changes_schema
from windrow.operators.grouping.calls import exact
from windrow.operators.view import LiveView
from windrow.plan.aggregates import decompose
from windrow.plan.algebra.nodes import Aggregated, Distinct, Filter, GroupBy, Streaming, ToStream
from windrow.reference.window_operators import WindowOperators
from windrow.types import SqlType

UTC = timezone.utc
VALUES = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "INT": [1, -1],
    "BIGINT": [(1 << 63) - 1, -(1 << 63)],
    "FLOAT": [0.5, float("nan"), -0.0, 0.0],
    "DOUBLE": [0.1, float("nan"), float("inf"), -0.0, 0.0],
    "STRING": ["", "ä", "a", "a much longer text than the others"],
    "BINARY": [b"", b"\x00", b"\xff"],
    "DATE": [date(1969, 12, 31), date(2026, 1, 1)],
    "TIMESTAMP": [datetime(1969, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=UTC)],
    "TIMESTAMP_NTZ": [datetime(1969, 1, 1), datetime(2026, 1, 1, 1)],
    "DECIMAL(10,2)": [Decimal("-1.50"), Decimal("1.50")],
    "DECIMAL(38,10)": [Decimal("12345678901234567890.0000000001"), Decimal("-1.0000000000")],
}
TICKS = [0, 2, 3, 7, 20]


def history(kind):
    values = [*VALUES[kind], None]
    return [(t, (values[(t * 7) % len(values)], t)) for t in range(12)] + [(5, (values[0], 99)), (5, (None, 98))]


def agrees(plan, tuples):
    """Replayed changes and views equal the definition, also across restarts."""
    naive = WindowOperators(plan, tuples, plan.step)
    view = LiveView.empty(changes_schema(plan.schema))

    def check(made, tick):
        nonlocal view
        view = view.after(made.changes[-1], tick)
        assert viewed(view, tick) == counted(naive.answer(tick)), tick

    done = run(plan, tuples, TICKS, restart=lambda tick: "parts" if tick == 3 else "compacted", each=check)
    for tick in range(1, TICKS[-1] + 1):
        assert replayed(done.all_changes, tick) == counted(naive.answer(tick)), tick


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("shape", ["distinct", "group", "join", "top", "istream", "min", "holistic", "dstream"])
def test_type(kind, shape):
    b = Builder()
    window = b.window(4, {"v": SqlType(kind), "n": INT})
    tuples = [history(kind)]
    if shape == "distinct":
        root = Distinct(b.project(window, v=("$.v", SqlType(kind))))
    elif shape == "group":
        root = b.group_by(window, ["v"], ("COUNT", None), ("SUM", "n"))
    elif shape == "join":
        root = b.join(window, b.window(6, {"v": SqlType(kind), "m": INT}), on=["v"])
        tuples = [history(kind), history(kind)[::2]]
    elif shape == "top":
        if kind == "BINARY":
            pytest.skip("BINARY has no order")
        root = b.top(window, "$.v", 3, descending=True)
    elif shape == "min":
        root = b.group_by(window, [], ("MIN", "v"), ("MAX", "v"))
    elif shape == "holistic":
        root = b.group_by(window, [], ("QUANTILE", "v", Decimal("0.5")), ("TOP_K", "v", 2), ("COUNT(DISTINCT)", "v"))
    else:
        root = ToStream(window, Streaming.ISTREAM if shape == "istream" else Streaming.DSTREAM)
    agrees(plan_of(root), tuples)


def test_untyped_null():
    b = Builder()
    void = b.project(b.window(3, {"n": INT}), v=("NULL", SqlType("VOID")), n=("$.n", INT))
    agrees_rows = run(plan_of(Distinct(void)), [[(0, (1,)), (1, (1,))]], TICKS).all_changes
    assert rows_of(agrees_rows) == [("+", 1, 0, 3, None, 1), ("+", 4, 3, 4, None, 1)]
    nothing = run(plan_of(Filter(b.window(3, {"n": INT}), parse_expression("NULL"))), [[(0, (1,))]], TICKS)
    assert nothing.all_changes.num_rows == 0


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(38,10)", "FLOAT"])
def test_filtered_sums(kind):
    b = Builder()
    window = b.window(4, {"v": SqlType(kind), "n": INT})
    v, n = named(window, "v"), named(window, "n")
    call = decompose("SUM", v.sql, v.type, f"{n.sql} > 2")
    root = GroupBy(window, (), (Aggregated(b.column("total", call.result), call),))
    values = VALUES[kind] if kind != "DOUBLE" else [0.5, float("nan"), -0.0, None]
    agrees(plan_of(root), [[(t, (values[t % len(values)], t)) for t in range(9)]])


def test_infinite_sums():
    b = Builder()
    root = b.group_by(b.window(3, {"v": DOUBLE}), [], ("SUM", "v"), ("AVG", "v"))
    inf = float("inf")
    agrees(plan_of(root), [[(0, (1.0,)), (1, (inf,)), (3, (-inf,)), (6, (2.0,))]])


def test_approximate_aggregates_are_exact():
    b = Builder()
    window = b.window(6, {"s": STRING, "n": INT})
    s, n = named(window, "s"), named(window, "n")
    approximate = [
        decompose("APPROX_COUNT_DISTINCT", s.sql, s.type, None),
        decompose("APPROX_QUANTILE", n.sql, n.type, None, (Decimal("0.5"),)),
        decompose("APPROX_TOP_K", s.sql, s.type, None, (2,)),
    ]
    one = GroupBy(window, (), tuple(Aggregated(b.column(f"a{i}", c.result), c) for i, c in enumerate(approximate)))
    # The reference knows the exact ones alone.
    other = GroupBy(window, (), tuple(Aggregated(a.column, exact(a.call)) for a in one.aggregates))
    tuples = [[(t, ("abc"[t % 3] if t % 4 else None, t * t % 5)) for t in range(10)]]
    naive = WindowOperators(plan_of(other), tuples, 1)
    done = run(plan_of(one), tuples, TICKS)
    for tick in range(1, 15):
        expected = [(d, None if q is None else float(q), top) for d, q, top in naive.answer(tick)]
        assert replayed(done.all_changes, tick) == counted(expected), tick


def test_frequent_items_are_those_above_the_kth_count():
    b = Builder()
    root = b.group_by(b.window(6, {"s": STRING}), [], ("FREQUENT_ITEMS", "s", 3))
    tuples = [[(t, (s,)) for t, s in enumerate(["a", "b", "a", None, "c", "a"])]]
    done = run(plan_of(root), tuples, [0, 2, 5, 6])
    one, two = ({"threshold": 0, "items": items} for items in (listed(("a", 1), ("b", 1)), listed(("a", 2), ("b", 1))))
    assert replayed(done.all_changes, 2) == counted([(one,)])  # fewer than k values: all are reported
    assert replayed(done.all_changes, 4) == counted([(two,)])
    assert replayed(done.all_changes, 6) == counted([({"threshold": 1, "items": listed(("a", 3))},)])


def listed(*counts: tuple[str, int]) -> list[dict[str, object]]:
    return [{"item": item, "count": count, "at_most": count} for item, count in counts]


@pytest.mark.parametrize("explicit", [False, True])
def test_output_columns_with_names_of_changes(explicit):
    b = Builder()
    columns = {"ts": INT, "exp": INT, "op": STRING, "tick": INT}
    plan = plan_of(b.window(3, columns))
    view = LiveView.empty(changes_schema(plan.schema))
    done = run(plan, [[(0, (1, 2, "-", 4)), (1, (1, 2, "-", 4))]], [0, 2], explicit_expiry=explicit)
    view = view.after(done.all_changes, 2)
    assert rows_of(view.at(2)) == [(1, 2, "-", 4)] * 2
    assert view.compacted().num_rows == 2


def test_kernel_errors_name_the_cause():
    with pytest.raises(ExecutionError, match="failed"):
        KERNEL.query("SELECT CAST('x' AS INTEGER)")
