"""Joins of four and five inputs over random rows: the changes, replayed at every tick, are the answers by definition."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.continuous import INT, Builder, counted, plan_of, replayed, run

from windrow.plan.algebra.nodes import Distinct, Node
from windrow.reference.window_operators import WindowOperators

COLUMNS = {"k": INT, "x": INT}
LENGTHS = (9, 5, 7, 6, 8)
LAST = 20


def rows(rng: Random) -> list[tuple[int, tuple[Any, ...]]]:
    """The first of every input meet, whatever the join asks."""
    times = sorted(rng.randrange(2, 14) for _ in range(4))
    return [(rng.randrange(3), (1, 1)), *((t, (rng.choice((None, 1, 1, 2)), rng.randrange(3))) for t in times)]


def inputs(b: Builder, count: int, kind: str) -> list[Node]:
    found: list[Node] = [b.window(length, COLUMNS, internal=kind == "internal") for length in LENGTHS[:count]]
    if kind == "sub-queries":
        found[1], found[-1] = Distinct(found[1]), b.filter(found[-1], "$.x > 0")
    if kind == "withdrawn":
        found[2] = b.project(b.group_by(found[2], ["k"], ("COUNT", None)), k=("$.k", INT), x=("$.COUNT_None", INT))
    return found


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["windows", "sub-queries", "withdrawn", "internal", "condition", "no key"])
@pytest.mark.parametrize("count", [4, 5])
def test_joins_of_many_inputs(count: int, kind: str, seed: int) -> None:
    b, rng = Builder(), Random(100 * count + seed)
    on = [] if kind == "no key" else ["k"]
    last = count - 1
    condition = f"$0.x <= ${last}.x OR $1.x = $2.x" if kind == "condition" else None
    condition = f"$0.k = $1.k AND $1.x = $2.x AND $2.k <= ${last}.x AND $3.x = 1" if kind == "no key" else condition
    plan = plan_of(b.join(*inputs(b, count, kind), on=on, condition=condition))
    history = [rows(rng) for _ in plan.windows]
    cuts = [0, *sorted(rng.sample(range(1, LAST), 5)), LAST]
    how = {tick: rng.choice([None, "parts", "compacted"]) for tick in cuts}
    done = run(plan, history, cuts, restart=how.get)
    naive = WindowOperators(plan, history, plan.step)
    answers = {tick: counted(naive.answer(tick)) for tick in range(1, LAST + 1)}
    assert any(answers.values()), "the test would say nothing"
    for tick, answer in answers.items():
        assert replayed(done.all_changes, tick) == answer, tick
