"""Strategies of bound queries: which of them are refused, the reason that is told, and what is offered instead."""

from __future__ import annotations

import pytest
from unit.operators.test_relations import plan_of

from windrow.errors import UnsupportedError
from windrow.optimizer.execution import DIRECT, NEGATIVE, UPA, executed, execution_of

GROUPS = "a group's row is replaced"
NRR_JOIN = "s [RANGE 5] JOIN later ON s.k = later.k"


def refusal(text: str, execution: str) -> UnsupportedError:
    with pytest.raises(UnsupportedError, match=f"execution = '{execution}'") as raised:
        executed(plan_of(text), execution)
    return raised.value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT k, COUNT(*) AS n FROM s [RANGE 5] GROUP BY k", GROUPS),
        ("SELECT k, n + 1 AS m FROM (SELECT k, COUNT(*) AS n FROM s [RANGE 5] GROUP BY k) AS g WHERE n > 1", GROUPS),
        (
            "SELECT k FROM s [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM d [RANGE 5] WHERE d.k = s.k)",
            "a matching row comes",
        ),
        ("SELECT k FROM s [RANGE 5] WHERE EXISTS (SELECT 1 FROM d [RANGE 5] WHERE d.k = s.k)", "its last match goes"),
        ("SELECT s.k, d.x FROM s [RANGE 5] LEFT JOIN d [RANGE 5] ON d.k = s.k", "its first match comes"),
        ("SELECT k + 1 AS l FROM s [ROWS 5] WHERE x > 2", "a tuple leaves a count-based window"),
        ("SELECT k FROM s [RANGE 5] EXCEPT SELECT k FROM d [RANGE 5]", "changes with both inputs"),
        ("SELECT s.k, name FROM s [RANGE 5] JOIN names ON s.k = names.k", "when a statement changes it"),
        (
            "SELECT s.k, n FROM s [RANGE 5] JOIN (SELECT k, COUNT(*) AS n FROM d [RANGE 5] GROUP BY k) AS g ON s.k = g.k",
            GROUPS,
        ),
        ("SELECT DISTINCT k FROM (SELECT k, x FROM s [RANGE 5] ORDER BY x LIMIT 3) AS t", "leaves the first rows"),
    ],
)
def test_direct_is_refused_for_what_withdraws_rows(text: str, reason: str) -> None:
    error = refusal(text, DIRECT)
    assert reason in error.message and "SET execution = 'negative'" in (error.remedy or "")
    assert execution_of(executed(plan_of(text), NEGATIVE)) == (UPA if "[ROWS" in text else NEGATIVE)


@pytest.mark.parametrize(
    ("text", "reason", "negative"),
    [
        (f"SELECT name, COUNT(*) AS n FROM {NRR_JOIN} GROUP BY name", GROUPS, "may have changed since"),
        (
            "SELECT k, COUNT(*) AS n FROM s [RANGE 5 INTERNAL] GROUP BY k HAVING COUNT(*) > 1",
            GROUPS,
            None,  # an aggregate keeps the state of external windows
        ),
        ("SELECT WSTREAM(k)[ROWS 3] FROM s [RANGE 5]", "a result leaves the last rows", "results over an INTERNAL"),
    ],
)
def test_negative_is_offered_where_it_runs(text: str, reason: str, negative: str | None) -> None:
    error = refusal(text, DIRECT)
    assert reason in error.message and "SET execution = 'upa'" in (error.remedy or "")
    assert ("'negative'" in (error.remedy or "")) == (negative is None)
    if negative is not None:
        assert negative in refusal(text, NEGATIVE).message


def test_negative_is_refused_for_joins_that_cannot_take_results_back() -> None:
    plan = f"SELECT s.k, name FROM {NRR_JOIN}"
    assert "a join with a NON RETROACTIVE table cannot take results back" in refusal(plan, NEGATIVE).message
    assert execution_of(executed(plan_of(plan), DIRECT)) == DIRECT
