"""Replaying changes: what stands at each tick."""

from __future__ import annotations

import pytest
from support.replay import Change, ReplayMismatch, changes_of, replay, same_bag

from windrow.types import SqlType


def _next(point: int) -> int:
    return point + 1


def test_lifetime() -> None:
    assert replay([Change("+", 2, 4, ("a",))], range(1, 7), _next) == {
        1: [],
        2: [],
        3: [("a",)],
        4: [("a",)],
        5: [],
        6: [],
    }


def test_row_without_end() -> None:
    assert replay([Change("+", 2, None, ("a",))], [2, 3, 10**9], _next) == {2: [], 3: [("a",)], 10**9: [("a",)]}


def test_withdrawn() -> None:
    changes = [Change("+", 1, None, (1,)), Change("-", 4, None, (1,)), Change("+", 4, None, (2,))]
    assert replay(changes, [2, 4, 5, 6], _next) == {2: [(1,)], 4: [(1,)], 5: [(2,)], 6: [(2,)]}


def test_value_that_comes_back() -> None:
    changes = [Change("+", 1, None, (1,)), Change("-", 2, None, (1,)), Change("+", 5, None, (1,))]
    assert replay(changes, [2, 3, 5, 6], _next) == {2: [(1,)], 3: [], 5: [], 6: [(1,)]}


def test_one_of_two_equal_rows_is_withdrawn() -> None:
    changes = [Change("+", 1, 9, (1,)), Change("+", 1, None, (1,)), Change("-", 3, None, (1,))]
    assert replay(changes, [3, 4, 9, 10], _next) == {3: [(1,), (1,)], 4: [(1,)], 9: [(1,)], 10: []}


@pytest.mark.parametrize(
    "changes",
    [
        [Change("-", 3, None, (1,))],
        [Change("+", 1, 3, (1,)), Change("-", 3, None, (1,))],
        [Change("+", 3, None, (1,)), Change("-", 3, None, (1,))],
        [Change("+", 1, None, (2,)), Change("-", 3, None, (1,))],
    ],
    ids=["nothing", "expired", "born in the same tick", "another value"],
)
def test_withdrawal_of_what_does_not_stand(changes: list[Change]) -> None:
    with pytest.raises(ReplayMismatch):
        replay(changes, [4], _next)


def test_ticks_of_several_units() -> None:
    """A row that is born and gone between two ticks is never seen."""

    def above(point: int) -> int:
        return (point // 10 + 1) * 10

    changes = [Change("+", 11, 19, ("never",)), Change("+", 19, 20, ("once",))]
    assert replay(changes, [10, 20, 30], above) == {10: [], 20: [("once",)], 30: []}


def test_rows_of_changes() -> None:
    assert changes_of([("+", 3, None, "a", 1)], SqlType("BIGINT")) == [Change("+", 3, None, ("a", 1))]


def test_bags() -> None:
    assert same_bag([(1,), (1,), (2.0,)], [(2.0 + 1e-12,), (1,), (1,)])
    assert not same_bag([(1,), (1,), (2,)], [(1,), (2,), (2,)])
