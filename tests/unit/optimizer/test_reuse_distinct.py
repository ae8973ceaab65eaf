"""δ* reused as the input of a join: Query 4 of Golab and Özsu (section 6.5, Figure 8)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from support.continuous import rows_of, run, stored
from support.plan_builder import Maker, join, keep, over, plan, semi
from support.staged import run_staged

from windrow.explain.continuous import explain_plan
from windrow.operators.changes import stored as stored_changes
from windrow.optimizer.facts import NOTHING_MEASURED
from windrow.optimizer.pipeline import OptimizedPlan
from windrow.optimizer.rules.reuse_distinct import reuse_distinct
from windrow.plan.algebra.nodes import ContinuousPlan, Distinct, Join, Node

TICKS = [0, 3, 4, 10, 17, 18, 30, 60]


def query_4(m: Maker) -> Node:
    """The distinct sources of two links, joined."""
    return join(*(Distinct(m.window(link, 12, columns=("k",))) for link in ("s", "r")))


def wider(m: Maker) -> Node:
    """More columns than the key, with a selection and a projection above δ*, and a third input."""
    left = keep(Distinct(m.window("s", 12)), "x > 0")
    right = m.project(Distinct(m.window("r", 7)), k="k", z="x + y")
    return join(left, right, m.window("q", 9))


def below_negation(m: Maker) -> Node:
    """The other input is strict: the join works over intervals."""
    return join(Distinct(m.window("s", 12)), semi(m.window("r", 9), m.window("q", 9), is_anti=True))


def history(node: Node, seed: int) -> list[list[tuple[int, tuple[object, ...]]]]:
    draw = Random(seed)
    values = [0, 1, 1, 2, 3, None]
    return [
        [(t, tuple(draw.choice(values) for _ in window.columns)) for t in sorted(draw.choices(range(40), k=60))]
        for window in plan(node).windows
    ]


def reused(node: Node) -> ContinuousPlan:
    found, reason = reuse_distinct(plan(node), NOTHING_MEASURED)
    assert reason is not None and "keeps no rows of DISTINCT" in reason
    again, nothing = reuse_distinct(found, NOTHING_MEASURED)
    assert again == found and nothing is None
    return found


@pytest.mark.parametrize("make", [query_4, wider, below_negation])
@pytest.mark.parametrize("seed", range(4))
def test_same_changes(make, seed: int, tmp_path: Path) -> None:
    node = make(Maker())
    tuples, after = history(node, seed), reused(node)
    without, found = (run(one, tuples, TICKS, lambda tick: "parts") for one in (plan(node), after))
    assert rows_of(found.all_changes) == rows_of(without.all_changes)
    assert not any(path.endswith("0/old") for path in found.state.tables)
    tables, _ = run_staged(tmp_path, after, tuples, TICKS, lambda batch: 3)
    assert [repr(row) for one in tables for row in rows_of(one)] == [
        repr(row) for row in rows_of(stored_changes(found.all_changes))
    ]


def test_state_is_kept_once() -> None:
    """At a tick the join itself keeps nothing: the values of δ* are all the state there is."""
    node = query_4(Maker())
    tuples = history(node, 1)
    sizes = [run(one, tuples, [0, 20]).state.sizes for one in (plan(node), reused(node))]
    assert set(sizes[0]) == {"0.0", "0.1", "0.0/old", "0.1/old"} and set(sizes[1]) == {"0.0", "0.1"}
    assert stored(plan(node), tuples)[0].num_rows == 60 and sizes[1]["0.0"][0] <= 5


def test_explain_says_where_rows_are() -> None:
    text = explain_plan("q", OptimizedPlan(reused(query_4(Maker())), ())).text()
    assert "reads  earlier rows of s from the state of DISTINCT below" in text and "keeps  rows of s" not in text


@pytest.mark.parametrize("kind", ["no key", "computed key", "computed column", "strict", "over a join"])
def test_where_it_does_not_apply(kind: str) -> None:
    m = Maker()
    other = m.window("r")
    if kind == "no key":
        node: Node = join(Distinct(m.window()), other, on=())
    elif kind == "computed key":
        left = Distinct(m.window())
        node = Join((left, other), ((over(left, "k + 1"), over(other, "k")),))
    elif kind == "computed column":
        node = join(Distinct(m.project(m.window(), k="k + 1")), other)
    elif kind == "strict":
        node = join(Distinct(semi(m.window(), m.window("q"), is_anti=True)), other)
    else:
        node = join(Distinct(join(m.window("s"), m.window("q"), on=("x",))), other)
    assert reuse_distinct(plan(node), NOTHING_MEASURED) == (plan(node), None)


def test_a_join_reads_only_the_state_of_distinct() -> None:
    m = Maker()
    with pytest.raises(ValueError, match="reads the state of a DISTINCT"):
        Join((m.window("s"), m.window("r")), (), None, (0,))
