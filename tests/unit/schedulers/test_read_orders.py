"""Theorem 7.4: of all orders of reads, that of ttu has the fewest aborts; tried for every schedule of small windows."""

from __future__ import annotations

from itertools import product

import pytest
from support.matrix import is_full
from support.transactions import Driver

from windrow.reference.transactions.read_orders import OnConflict, ReadGame, conflicts_of, fewest_conflicts
from windrow.schedulers.panes import Pane
from windrow.schedulers.transactions import AbortQuery, DropPanes, LatestScheduler, ReadTransaction, TtuScheduler

TURNS = 10 if is_full() else 8
EQUAL = tuple(range(20))
UNEQUAL = (0, 1, 4, 5, 7, 8, 11, 12, 15, 16, 18, 20, 21, 25, 27)
GAMES = [
    *(ReadGame(EQUAL, slots, length) for slots in (1, 2, 3, 4) for length in range(1, slots + 1)),
    *(ReadGame(UNEQUAL, 4, length) for length in (2, 4, 5, 7)),
]


def ids(game: ReadGame) -> str:
    return f"{'equal' if game.cuts == EQUAL else 'unequal'}-{game.shown}-{game.length}"


def schedules(turns: int) -> list[str]:
    return ["".join(turns) for turns in product("ru", repeat=turns)]


@pytest.mark.matrix
@pytest.mark.parametrize("game", GAMES, ids=ids)
def test_no_order_has_fewer_aborts(game: ReadGame) -> None:
    for schedule in schedules(TURNS):
        best = fewest_conflicts(game, schedule, OnConflict.ABORT)
        assert conflicts_of(game, schedule, OnConflict.ABORT, youngest_first=True) == best, schedule


@pytest.mark.matrix
@pytest.mark.parametrize("game", GAMES, ids=ids)
def test_no_order_has_fewer_rescans(game: ReadGame) -> None:
    for schedule in schedules(TURNS - 1):
        best = fewest_conflicts(game, schedule, OnConflict.RESCAN)
        assert conflicts_of(game, schedule, OnConflict.RESCAN, youngest_first=True) == best, schedule


def test_the_theorem_is_about_single_attempts() -> None:
    """With restarts, an order that is aborted sooner may finish sooner: then it has fewer aborts in all."""
    game = ReadGame(EQUAL, 2, 2)
    assert fewest_conflicts(game, "rururru", OnConflict.RESTART) == 1
    assert conflicts_of(game, "rururru", OnConflict.RESTART, youngest_first=True) == 2


def test_storage_order_has_more_aborts() -> None:
    game = ReadGame(EQUAL, 4, 4)
    worse = sum(conflicts_of(game, one, OnConflict.ABORT, youngest_first=False) for one in schedules(8))
    best = sum(fewest_conflicts(game, one, OnConflict.ABORT) for one in schedules(8))
    assert worse > 1.4 * best


def scheduled(game: ReadGame, schedule: str, youngest_first: bool, on_conflict: OnConflict) -> int:
    """The conflicts of the scheduler itself, on the same turns."""
    driver = Driver(TtuScheduler if youngest_first else LatestScheduler, restarts=1000)
    driver.open("s", list(game.cuts[: game.shown + 1]))
    keeps = on_conflict is OnConflict.RESCAN
    conflicts = 0
    updates = 0
    for turn in schedule:
        before = len(driver.decisions)
        if turn == "u":
            low, high = game.cuts[game.shown + updates : game.shown + updates + 2]
            updates += 1
            driver.update("s", (Pane("s", low, high),), high)
        elif driver.reads:
            driver.finish(next(iter(driver.reads)))
        elif not driver.committed:
            driver.begin(ReadTransaction("Q1", {"s": game.length}, keeps_partials=keeps))
        for one in driver.decisions[before:]:
            if isinstance(one, AbortQuery):
                return 1
            conflicts += len(one.panes) if isinstance(one, DropPanes) else 0
    return conflicts


@pytest.mark.matrix
@pytest.mark.parametrize("on_conflict", [OnConflict.ABORT, OnConflict.RESCAN])
@pytest.mark.parametrize("youngest_first", [True, False], ids=["ttu", "latest"])
@pytest.mark.parametrize("game", GAMES[-7:], ids=ids)
def test_schedulers_equal_the_reference(game: ReadGame, youngest_first: bool, on_conflict: OnConflict) -> None:
    for schedule in schedules(TURNS - 2):
        expected = conflicts_of(game, schedule, on_conflict, youngest_first)
        assert scheduled(game, schedule, youngest_first, on_conflict) == expected, schedule
