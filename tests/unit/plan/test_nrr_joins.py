"""Where the binder places joins with tables that are NON RETROACTIVE, and what it refuses beside them."""

from __future__ import annotations

import pytest
from unit.operators.test_relations import plan_of

from windrow.errors import UnsupportedError
from windrow.plan.algebra.nodes import NrrJoin, SemiJoin, walk

JOINED = "s [RANGE 6] JOIN later ON s.k = later.k"


@pytest.mark.parametrize(
    ("text", "negations"),
    [
        (f"SELECT s.k FROM {JOINED} WHERE NOT EXISTS (SELECT 1 FROM d [RANGE 4] WHERE d.k = s.k)", 1),
        (f"SELECT s.k FROM {JOINED} WHERE EXISTS (SELECT 1 FROM d [RANGE 4] WHERE d.x < later.n) AND n > 1", 1),
        (f"SELECT s.k FROM {JOINED} WHERE later.n NOT IN (SELECT x FROM d [RANGE 4])", 3),
        (f"SELECT s.k FROM {JOINED} WHERE s.x IN (SELECT n FROM names)", 1),
        (f"SELECT s.k FROM {JOINED} JOIN d [RANGE 3] ON d.k = s.k WHERE EXISTS (SELECT 1 FROM names)", 1),
        ("SELECT s.k FROM later JOIN s [RANGE 6] USING (k) WHERE EXISTS (SELECT 1 FROM d [RANGE 4])", 1),
        (
            "SELECT s.k FROM s [RANGE 6 SLIDE 2] JOIN later ON s.k = later.k "
            "WHERE NOT EXISTS (SELECT 1 FROM d [RANGE 4 SLIDE 2] WHERE d.k = s.k)",
            1,
        ),
    ],
)
@pytest.mark.parametrize("rules_off", [(), ("push_selections",), ("place_negation",)])
def test_what_where_asks_stands_above(text: str, negations: int, rules_off: tuple[str, ...]) -> None:
    root = plan_of(text, rules_off).root
    below = [one for node in walk(root) if isinstance(node, NrrJoin) for one in walk(node)]
    assert any(isinstance(one, NrrJoin) for one in below) and not any(isinstance(one, SemiJoin) for one in below)
    assert sum(isinstance(one, SemiJoin) for one in walk(root)) == negations


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (f"{JOINED} LEFT JOIN d [RANGE 3] ON d.k = s.k", "a row without a match goes when one comes"),
        (f"{JOINED} JOIN names AS m ON m.k = s.k", "a row goes when a statement changes its table"),
        (f"{JOINED} LEFT ANTI JOIN d [RANGE 3] ON d.k = s.k", "a row goes when its matches change"),
        ("s [ROWS 5] JOIN later ON s.k = later.k", "later tuples push earlier ones out"),
    ],
)
def test_from_must_not_withdraw_rows(source: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match="'later' is NON RETROACTIVE") as raised:
        plan_of(f"SELECT s.k, later.name FROM {source}")
    assert why in raised.value.message and "in a sub-query in FROM" in (raised.value.remedy or "")


def test_a_table_alone_is_not_asked() -> None:
    for text in (
        "SELECT later.k FROM later WHERE EXISTS (SELECT 1 FROM d [RANGE 4])",
        "SELECT k FROM s [RANGE 4] WHERE EXISTS (SELECT 1 FROM later WHERE later.k = s.k)",
    ):
        with pytest.raises(UnsupportedError, match="no stream is joined with it"):
            plan_of(text)


def test_last_results_of_a_retroactive_join_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="a row goes when a statement changes its table"):
        plan_of("SELECT WSTREAM(s.k, name)[ROWS 3] FROM s [RANGE 5] JOIN names ON s.k = names.k")
    assert plan_of("SELECT WSTREAM(s.k, name)[ROWS 3] FROM s [RANGE 5] JOIN later ON s.k = later.k").tables == (
        "later",
    )
