"""Nesting of joins on different keys. `test_plan_rules_keep_answers.py` holds the answers equal."""

from __future__ import annotations

from itertools import product

import pytest
from support.plan_builder import Maker, join, over, plan, tree

from windrow.optimizer.facts import Facts, StreamFacts
from windrow.optimizer.pipeline import optimize
from windrow.optimizer.rules import nest_joins as rule
from windrow.optimizer.rules.merge_joins import merge_joins
from windrow.optimizer.rules.nest_joins import nest_joins
from windrow.optimizer.shapes import shape_text
from windrow.plan.algebra.nodes import Join, Node, Project, walk

FEW_LABELS: Facts = {
    "s": StreamFacts(1e6, {"k": 1e4}),
    "r": StreamFacts(1e6, {"k": 1e4, "x": 1e3}),
    "q": StreamFacts(0.001, {"x": 1}),
}


def chain(m: Maker, *streams: str) -> Node:
    """s ⋈ r ON s.k = r.k ⋈ q ON r.x = q.x ⋈ …, as it is written: every other join is on k."""
    node: Node = (last := m.window(streams[0], 100))
    for i, name in enumerate(streams[1:]):
        following = m.window(name, 100)
        column = "kxy"[i % 3]
        node = Join((node, following), ((over(last, column), over(following, column)),))
        last = following
    return node


def nested(node: Node, facts: Facts) -> str:
    return shape_text(nest_joins(plan(node), facts)[0].root)


def test_rare_stream_is_joined_first() -> None:
    node = chain(Maker(), "s", "r", "q")
    found, reason = nest_joins(plan(node), FEW_LABELS)
    assert reason is not None and reason.startswith("s ⋈ (r ⋈ q) instead of (s ⋈ r) ⋈ q (estimated")
    assert found.schema == node.schema and isinstance(found.root, Join)
    assert found.root.keys == ((tree("c0"), tree("c3")),)


def test_written_order_does_not_matter() -> None:
    m = Maker()
    q, r, s = m.window("q", 100), m.window("r", 100), m.window("s", 100)
    first = Join((s, r), ((over(s, "k"), over(r, "k")),))
    last = Join((first, q), ((over(r, "x"), over(q, "x")),))
    found, _ = nest_joins(plan(last), FEW_LABELS)
    assert shape_text(found.root) == "(q ⋈ r) ⋈ s" and isinstance(found.root, Project)
    assert found.schema == last.schema
    assert nest_joins(found, FEW_LABELS) == (found, None)


def test_given_nesting_stays_if_it_is_as_cheap() -> None:
    equal = {name: StreamFacts(10.0, dict.fromkeys("kxy", 50.0)) for name in "srq"}
    assert nest_joins(plan(chain(Maker(), "s", "r", "q")), equal)[1] is None
    assert nest_joins(plan(chain(Maker(), "s", "r", "q")), {})[1] is None


def test_small_drift_changes_nothing() -> None:
    for factors in product((0.9, 1.1), repeat=3):
        drifted = {
            name: StreamFacts((known.rate or 0.0) * factor, known.distinct)
            for (name, known), factor in zip(FEW_LABELS.items(), factors, strict=True)
        }
        assert nested(chain(Maker(), "s", "r", "q"), drifted) == "s ⋈ (r ⋈ q)"
        equal = {name: StreamFacts(10.0 * factor) for name, factor in zip("srq", factors, strict=True)}
        assert nested(chain(Maker(), "s", "r", "q"), equal) == "(s ⋈ r) ⋈ q"


def test_joins_on_one_key_stay_one() -> None:
    m = Maker()
    s, r, q, s2 = (m.window(name, 100) for name in ("s", "r", "q", "s"))
    many = join(s, r, s2)
    node = Join((many, q), ((over(r, "x"), over(q, "x")),))
    facts = {**FEW_LABELS, "s": StreamFacts(1e3, {"k": 1e4})}
    found, reason = nest_joins(plan(node), facts)
    assert reason is not None
    assert sorted(len(one.inputs) for one in walk(found.root) if isinstance(one, Join)) == [2, 3]


def test_conditions_stand_where_their_inputs_meet() -> None:
    m = Maker()
    s, r, q = (m.window(name, 100) for name in ("s", "r", "q"))
    inner = Join((s, r), ((over(s, "k"), over(r, "k")),), tree("c1 < c5"))
    node = Join((inner, q), ((over(r, "x"), over(q, "x")),), tree("c5 < c8 AND c2 < c8"))
    found, _ = nest_joins(plan(node), FEW_LABELS)
    outer = found.root
    assert isinstance(outer, Join) and isinstance(outer.inputs[1], Join)
    assert outer.inputs[1].condition == tree("c5 < c8")
    assert outer.condition == tree("c1 < c5 AND c2 < c8")


def test_product_is_made_last() -> None:
    m = Maker()
    rows = chain(m, "s", "r", "q")
    node = Join((rows, m.window("q", 100)), (), tree("c0 < c10"))
    assert nested(node, FEW_LABELS) == "(s ⋈ (r ⋈ q)) ⋈ q"


def test_eight_inputs() -> None:
    facts = {**FEW_LABELS, "r": StreamFacts(0.5), "q": StreamFacts(30.0)}
    found, reason = nest_joins(plan(chain(Maker(), *"srqssrqs")), facts)
    assert reason is not None and len([one for one in walk(found.root) if not one.inputs]) == 8


def test_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "MOST_JOINS", 3)
    assert nest_joins(plan(chain(Maker(), "s", "r", "q")), FEW_LABELS)[1] is None


def test_rule_can_be_off() -> None:
    node = plan(chain(Maker(), "s", "r", "q"))
    assert "s ⋈ (r ⋈ q)" in shape_text(optimize(node, FEW_LABELS).plan.root)
    assert "(s ⋈ r) ⋈ q" in shape_text(optimize(node, FEW_LABELS, {"nest_joins"}).plan.root)
    assert merge_joins(node, FEW_LABELS)[0] == node
