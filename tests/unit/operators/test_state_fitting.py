"""Durable parts are recognised as those of a plan, or as those of another one."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from support.continuous import run
from support.plan_builder import Maker, join, join_plans, negation_plans, plan, plans, semi, streams

from windrow.errors import UnsupportedError
from windrow.operators.carrying.fitting import misfits
from windrow.operators.layouts.parts import StatePart
from windrow.operators.state import compacted
from windrow.optimizer.execution import DIRECT, NEGATIVE, UPA, executed
from windrow.plan.algebra.nodes import ContinuousPlan, Distinct, Node

ANY: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def parts(one: ContinuousPlan, rows: Any, **settings: Any) -> list[StatePart]:
    """All parts that a run writes, and those that replace them."""
    history = [[(t, tuple(row[one.sql] for one in w.columns)) for t, row in rows[w.stream]] for w in one.windows]
    begin = min((t for some in history for t, _ in some), default=0) // one.step * one.step
    ran = run(one, history, [begin, *(tick for tick in (4, 8) if tick > begin)], **settings)
    return [*ran.parts, *compacted(ran.state)]


@settings(max_examples=90, **ANY)
@given(
    one=st.one_of(plans(), join_plans(), negation_plans()),
    rows=streams(),
    execution=st.sampled_from([UPA, UPA, NEGATIVE, DIRECT]),
    explicit=st.booleans(),
)
def test_own_parts_fit(one: ContinuousPlan, rows: Any, execution: str, explicit: bool) -> None:
    try:
        ran = executed(one, execution)
    except UnsupportedError:
        reject()
    assert misfits(ran, parts(ran, rows, explicit_expiry=explicit)) == []


def of(node: Node) -> list[StatePart]:
    keys = {"a": 3, "b": 3, "c": 1}
    rows = {name: [(t, {"k": t % keys[name], "x": t, "y": t}) for t in range(1, 9)] for name in keys}
    return parts(plan(node), rows, explicit_expiry=True)


def test_parts_of_other_plans_do_not() -> None:
    def negated(m: Maker, once: bool) -> Node:
        left, right = m.window("a"), m.window("c", columns=("k",))
        return semi(left, Distinct(right) if once else right, is_anti=True)

    once, plain = (negated(Maker(), one) for one in (True, False))
    assert misfits(plan(once), of(once)) == [] == misfits(plan(plain), of(plain))
    assert set(misfits(plan(plain), of(once))) == {"0.1", "0.1/old"}
    m = Maker()
    up = semi(join(m.window("a"), m.window("b")), m.window("c"), is_anti=True)
    m = Maker()
    down = join(semi(m.window("a"), m.window("c"), is_anti=True), m.window("b"))
    assert misfits(plan(down), of(up)) != [] != misfits(plan(up), of(down))


def test_columns_tell_plans_apart_whose_operators_are_alike() -> None:
    def joined(m: Maker, *names: str) -> Node:
        windows = [m.window(name, columns=("k", "x") if name == "a" else ("k",)) for name in names]
        return join(*(Distinct(one) for one in windows))

    found = of(joined(Maker(), "a", "b"))
    other = plan(joined(Maker(), "b", "a"))
    assert {"0.0", "0.1/old"} <= set(misfits(other, found))
