"""The transaction schedulers, case by case. `tests/support/transactions.py` plays the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.transactions import Driver

from windrow.schedulers.check_history import check_history
from windrow.schedulers.history import Isolation
from windrow.schedulers.notation import compact
from windrow.schedulers.panes import Pane, SourceKind, WindowUpdate
from windrow.schedulers.transactions import (
    AbortQuery,
    CommitQuery,
    CommitUpdate,
    DropPanes,
    HoldExpired,
    HoldUpdate,
    LatestScheduler,
    PassOn,
    PinVersion,
    QueryBegins,
    QueryCancelled,
    ReadFinished,
    ReadPanes,
    ReadTransaction,
    SerialScheduler,
    SourceCloses,
    SourceOpens,
    TransactionScheduler,
    TtuScheduler,
    UpdateReady,
    WindowScheduler,
)

ALL = (SerialScheduler, WindowScheduler, LatestScheduler, TtuScheduler)


def driven(make: Callable[..., TransactionScheduler], panes: int = 5, **options: Any) -> Driver:
    """A driver with one source `s` of panes of width 1; updates go on from there, by the names 5, 6, …"""
    driver = Driver(make, **options)
    driver.open("s", list(range(panes + 1)))
    driver.count = panes - 1
    return driver


def slide(driver: Driver, source: str = "s", width: int = 1) -> WindowUpdate:
    upto = next((held.upto for held in reversed(driver.held) if held.source == source), driver.stores[source].upto)
    return driver.update(source, (Pane(source, upto, upto + width),), upto + width)


def turn(driver: Driver, query: str = "Q1") -> None:
    """The read of a query ends, so that the next may begin."""
    driver.finish(next(read for read, (name, _, _) in driver.reads.items() if name == query))


def play(driver: Driver, turns: str) -> None:
    """`r`: the read in progress ends; `u`: the window slides."""
    for one in turns:
        turn(driver) if one == "r" else slide(driver)


def last_commit(driver: Driver) -> CommitQuery:
    assert not driver.problems
    assert not check_history(driver.history()).violations_of(driver.history().committed_queries)
    return driver.committed[-1]


def operations(driver: Driver) -> str:
    """The history without its heads, in slots of a circular array of five."""
    words = [str(one) for one in driver.history().operations]
    return " ".join(
        f"{word.split('[')[0]}[{int(word.split()[1].split(':')[0]) % 5}]" if "[" in word else word for word in words
    )


# -- Algorithms 7 and 8 --------------------------------------------------------------------------------


def test_ttu_runs_history_e() -> None:
    driver = driven(TtuScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 5}))
    play(driver, "urrrurr")
    assert operations(driver) == "rQ1[4] w5[0] c5 rQ1[0] rQ1[3] rQ1[2] w6[1] c6 rQ1[1] cQ1"
    assert last_commit(driver) == CommitQuery("Q1", Isolation.LATEST, instant=7)


def test_latest_aborts_history_f() -> None:
    """In storage order, T5 overwrites what was read first."""
    driver = driven(LatestScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 5}))
    slide(driver)
    assert driver.decisions[-1] == AbortQuery("Q1", 1, Pane("s", 0, 1), "5", Isolation.LATEST)
    play(driver, "rrrrrr")
    assert operations(driver).startswith("rQ1[0] w5[0] c5 aQ1 rQ1.2[1] rQ1.2[2]")
    assert last_commit(driver).aborts == 1


def test_latest_aborts_the_prefix_of_the_report() -> None:
    """H'_c of the report, section 4.1: when T6 commits, slots 4, 3, 2 and 1 have been read."""
    order = iter((4, 3, 2, 1))
    driver = driven(LatestScheduler, order=lambda query: Pane("s", i := next(order), i + 1))
    driver.begin(ReadTransaction("Q1", {"s": 5}))
    play(driver, "urrr")
    assert not any(isinstance(one, AbortQuery) for one in driver.decisions)
    driver.scheduler.order = lambda query: next(unread[0] for _, unread in query.unread())  # type: ignore[attr-defined]
    slide(driver)
    assert driver.decisions[-1] == AbortQuery("Q1", 1, Pane("s", 1, 2), "6", Isolation.LATEST)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_pane_that_leaves_a_shorter_window(length: int) -> None:
    """Line 5 of Algorithm 7: pane (j + n − n_k) mod n is the one that leaves when T_j writes."""
    driver = driven(LatestScheduler)
    driver.begin(ReadTransaction("Q1", {"s": length}))
    update = slide(driver)
    leaving = (int(update.name) + 5 - length) % 5
    assert driver.decisions[-1] == AbortQuery("Q1", 1, Pane("s", leaving, leaving + 1), "5", Isolation.LATEST)


def test_panes_of_unequal_width() -> None:
    driver = Driver(TtuScheduler)
    driver.open("s", [0, 10, 20, 50, 60])
    driver.begin(ReadTransaction("Q1", {"s": 50}))
    driver.update("s", (Pane("s", 60, 65),), 65)  # the window is [15, 65): nothing that was read has left
    play(driver, "rrrr")
    assert operations(driver).count("aQ1") == 0
    assert [one.panes for one in driver.decisions if isinstance(one, ReadPanes)][-1] == (Pane("s", 15, 20),)
    assert last_commit(driver).instant == 65


def test_pane_cut_by_the_window_is_read_again() -> None:
    driver = Driver(LatestScheduler)
    driver.open("s", [0, 30, 60])
    driver.begin(ReadTransaction("Q1", {"s": 60}, keeps_partials=True))
    driver.update("s", (Pane("s", 60, 70),), 70)
    assert driver.decisions[-1] == DropPanes("Q1", (Pane("s", 0, 30),), "1")
    play(driver, "rrrr")
    assert compact(driver.history()).endswith("rQ1[s 10:30] rQ1[s 30:60] rQ1[s 60:70] cQ1")
    assert last_commit(driver).rescans == 1


def test_several_panes_in_one_read() -> None:
    driver = driven(TtuScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 5}, run=2))
    reads = [one.panes for one in driver.decisions if isinstance(one, ReadPanes)]
    assert reads == [(Pane("s", 4, 5), Pane("s", 3, 4))]
    play(driver, "rrr")
    assert len([one for one in driver.decisions if isinstance(one, ReadPanes)]) == 3
    assert last_commit(driver).instant == 5


def test_two_sources_move_with_the_slower_one() -> None:
    driver = driven(TtuScheduler)
    driver.open("t", [0, 1, 2, 3, 4, 5])
    driver.begin(ReadTransaction("Q1", {"s": 2, "t": 1}))
    slide(driver)  # t is still at 5, and so is the instant
    assert not any(isinstance(one, AbortQuery) for one in driver.decisions)
    play(driver, "rr")
    slide(driver, "t")
    assert isinstance(driver.decisions[-2], AbortQuery) or isinstance(driver.decisions[-1], AbortQuery)
    play(driver, "rrrr")
    assert last_commit(driver).instant == 6


def test_tick_floors_the_instant() -> None:
    driver = driven(TtuScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 2}, tick=2))
    play(driver, "rr")
    assert last_commit(driver).instant == 4


@pytest.mark.parametrize("make", ALL)
def test_nothing_to_read(make: Callable[..., TransactionScheduler]) -> None:
    driver = Driver(make)
    driver.open("s", [0])
    driver.begin(ReadTransaction("Q1", {"s": 5}))
    assert driver.committed[0].query == "Q1" and not driver.reads


# -- re-scans, restarts and holds ------------------------------------------------------------------------


def test_query_with_partials_rescans() -> None:
    driver = driven(LatestScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 5}, keeps_partials=True))
    play(driver, "ru")
    assert driver.decisions[-1] == DropPanes("Q1", (Pane("s", 0, 1),), "5")
    play(driver, "u")  # the read of pane 1 is in progress
    assert driver.decisions[-1] == DropPanes("Q1", (Pane("s", 1, 2),), "6")
    play(driver, "rrrrrr")
    commit = last_commit(driver)
    assert (commit.aborts, commit.rescans, commit.isolation) == (0, 2, Isolation.LATEST)


def test_serial_after_three_restarts() -> None:
    driver = driven(LatestScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 5}))
    for _ in range(4):
        play(driver, "ur")
    aborts = [one for one in driver.decisions if isinstance(one, AbortQuery)]
    assert [one.then for one in aborts] == [Isolation.LATEST] * 3 + [Isolation.SERIAL]
    held = slide(driver)
    assert driver.decisions[-1] == HoldUpdate(held, ("Q1",))
    play(driver, "rrrrr")
    assert driver.decisions[-2:] == [CommitQuery("Q1", Isolation.SERIAL, 9, aborts=4), CommitUpdate(held)]
    assert last_commit(driver).aborts == 4


def test_hold_that_expires_leaves_a_window() -> None:
    driver = driven(SerialScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 5}))
    first, second = slide(driver), slide(driver)
    assert driver.held == [first, second]
    driver.expire(first)
    assert driver.decisions[-3:] == [PinVersion("Q1"), CommitUpdate(first), CommitUpdate(second)]
    slide(driver)
    assert not driver.held  # it holds nothing back any more
    play(driver, "rrrrr")
    assert last_commit(driver) == CommitQuery("Q1", Isolation.WINDOW, instant=5)


def test_expiry_of_an_update_that_is_committed_does_nothing() -> None:
    driver = driven(SerialScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 1}))
    update = slide(driver)
    turn(driver)
    driver.begin(ReadTransaction("Q2", {"s": 2}))
    driver.expire(update)
    play_all(driver)
    assert last_commit(driver).isolation is Isolation.SERIAL


def play_all(driver: Driver) -> None:
    while driver.reads:
        driver.finish(min(driver.reads))


def test_serial_holds_back_only_its_own_sources() -> None:
    driver = driven(TtuScheduler)
    driver.open("t", [0, 1, 2])
    driver.begin(ReadTransaction("Q1", {"s": 5}, isolation=Isolation.SERIAL))
    slide(driver, "t")
    assert not driver.held
    slide(driver, "s")
    assert len(driver.held) == 1
    play_all(driver)
    assert not driver.held


def test_endless_rescans_end_in_a_hold() -> None:
    """Two updates for each read: without a hold, the query would re-scan for ever."""
    driver = driven(TtuScheduler, panes=4)
    driver.begin(ReadTransaction("Q1", {"s": 4}, keeps_partials=True))
    for _ in range(100):
        if not driver.answers:
            break
        play(driver, "uu")
        turn(driver)
    commit = last_commit(driver)
    assert commit.aborts == 0 and 12 < commit.rescans < 20
    assert any(isinstance(one, HoldUpdate) for one in driver.decisions)


def test_panes_that_arrive_faster_than_they_are_read_end_in_a_hold() -> None:
    """Nothing leaves a window without a length, so nothing is re-scanned: the panes that were read count."""
    driver = driven(TtuScheduler, panes=4)
    driver.begin(ReadTransaction("Q1", {"s": None}, keeps_partials=True))
    for _ in range(100):
        if not driver.answers:
            break
        play(driver, "uu")
        turn(driver)
    commit = last_commit(driver)
    assert (commit.aborts, commit.rescans) == (0, 0)
    assert any(isinstance(one, HoldUpdate) for one in driver.decisions)


def test_hold_is_bounded_even_if_another_query_begins_to_hold() -> None:
    """While held updates are committed, a query that re-scans too much begins to hold: not those that waited."""
    driver = driven(LatestScheduler, slots=2, restarts=0)
    driver.begin(ReadTransaction("Q1", {"s": 5}, isolation=Isolation.SERIAL))
    driver.begin(ReadTransaction("Q2", {"s": 5}, keeps_partials=True))
    first, second = slide(driver), slide(driver)
    driver.expire(second)
    assert [one for one in driver.decisions if isinstance(one, CommitUpdate)] == [
        CommitUpdate(first),
        CommitUpdate(second),
    ]
    play_all(driver)
    assert {one.isolation for one in driver.committed} == {Isolation.WINDOW}
    last_commit(driver)


@pytest.mark.parametrize("make", [LatestScheduler, TtuScheduler])
@pytest.mark.parametrize("keeps_partials", [False, True])
@pytest.mark.parametrize("updates", [1, 2, 7])
@pytest.mark.parametrize("length", [5, None])
def test_no_starvation(
    make: Callable[..., TransactionScheduler], keeps_partials: bool, updates: int, length: int | None
) -> None:
    """However many updates come between two reads, and holds that never last, a query ends."""
    driver = driven(make)
    driver.begin(ReadTransaction("Q1", {"s": length}, keeps_partials=keeps_partials))
    reads = 0
    while driver.answers:
        for _ in range(updates):
            slide(driver)
        if driver.held:
            driver.expire(driver.held[0])
        turn(driver)
        reads += 1
        assert reads <= (5 * 5 + 5) * (1 if length else updates)  # nothing leaves a window without a length
    assert not driver.problems


# -- priorities, several readers --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [WindowScheduler, LatestScheduler, TtuScheduler])
def test_urgent_query_suspends_another(make: Callable[..., TransactionScheduler]) -> None:
    driver = driven(make)
    driver.begin(ReadTransaction("Q1", {"s": 3}))
    driver.begin(ReadTransaction("Q2", {"s": 2}, priority=1))
    play_all(driver)
    order = [one.query for one in driver.decisions if isinstance(one, ReadPanes)]
    assert order == ["Q1", "Q2", "Q2", "Q1", "Q1"]
    assert [one.query for one in driver.committed] == ["Q2", "Q1"]


def test_serial_does_not_suspend() -> None:
    driver = driven(SerialScheduler, slots=4)
    driver.begin(ReadTransaction("Q1", {"s": 2}))
    driver.begin(ReadTransaction("Q2", {"s": 2}))
    driver.begin(ReadTransaction("Q3", {"s": 2}, priority=1))
    play_all(driver)
    assert [one.query for one in driver.committed] == ["Q1", "Q3", "Q2"]


def test_serial_commits_updates_between_queries() -> None:
    driver = driven(SerialScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 1}))
    driver.begin(ReadTransaction("Q2", {"s": 1}))
    slide(driver)
    play_all(driver)
    assert [one.instant for one in driver.committed] == [5, 6]
    assert not driver.problems


def test_equals_are_served_in_their_order() -> None:
    driver = driven(TtuScheduler)
    for number in (1, 2, 3):
        driver.begin(ReadTransaction(f"Q{number}", {"s": 2}))
    play_all(driver)
    assert [one.query for one in driver.committed] == ["Q1", "Q2", "Q3"]


def test_each_reader_has_its_own_query() -> None:
    driver = driven(TtuScheduler, slots=2)
    for number in (1, 2, 3):
        driver.begin(ReadTransaction(f"Q{number}", {"s": 3}))
    assert sorted(name for name, _, _ in driver.reads.values()) == ["Q1", "Q2"]
    turn(driver, "Q2")
    assert sorted(name for name, _, _ in driver.reads.values()) == ["Q1", "Q2"]


def test_read_of_an_aborted_attempt_keeps_its_slot() -> None:
    driver = driven(LatestScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 5}))
    slide(driver)
    assert len(driver.reads) == 1  # the query begins again when its thread is free
    turn(driver)
    assert [attempt for _, attempt, _ in driver.reads.values()] == [2]


def test_cancelled_query_lets_updates_go() -> None:
    driver = driven(SerialScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 5}))
    update = slide(driver)
    driver.cancel("Q1")
    assert driver.decisions[-1] == CommitUpdate(update)
    assert compact(driver.history()).endswith("aQ1 w5[s 5:6] c5")
    play_all(driver)
    assert not driver.answers


# -- isolation by query, sub-results, views ----------------------------------------------------------------


def test_window_query_keeps_to_its_version() -> None:
    driver = driven(TtuScheduler)
    driver.begin(ReadTransaction("Q1", {"s": 5}, isolation=Isolation.WINDOW))
    driver.begin(ReadTransaction("Q2", {"s": 5}))
    slide(driver)
    play_all(driver)
    assert {one.query: (one.isolation.value, one.instant) for one in driver.committed} == {
        "Q1": ("window", 5),
        "Q2": ("latest", 6),
    }
    last_commit(driver)


def test_window_scheduler_refuses_more() -> None:
    driver = driven(WindowScheduler)
    with pytest.raises(ValueError, match="does not give isolation 'latest'"):
        driver.tell(QueryBegins(ReadTransaction("Q1", {"s": 5}, isolation=Isolation.LATEST)))


def test_insertions_into_parts_that_were_read_are_passed_on() -> None:
    """Figure 7.6: a sub-result by expiration; T1 inserts everywhere while the query has read the two latest parts."""
    driver = Driver(TtuScheduler)
    driver.open("v", [0, 1, 2, 3, 4, 5], SourceKind.RESULT)
    driver.begin(ReadTransaction("Q1", {"v": None}))
    turn(driver)
    driver.update("v", tuple(Pane("v", i, i + 1) for i in range(1, 6)), 1)
    assert driver.decisions[-1] == PassOn("Q1", (Pane("v", 3, 4), Pane("v", 4, 5)), "1")
    play_all(driver)
    commit = last_commit(driver)
    assert (commit.aborts, commit.instant) == (0, 1)


def test_part_that_expires_after_it_was_read_is_a_conflict() -> None:
    driver = Driver(LatestScheduler)
    driver.open("v", [0, 1, 2], SourceKind.RESULT)
    driver.begin(ReadTransaction("Q1", {"v": None}))
    driver.update("v", (), 1)
    assert isinstance(driver.decisions[-1], AbortQuery)
    play_all(driver)
    assert last_commit(driver).aborts == 1


def test_any_update_of_a_strict_view_is_a_conflict() -> None:
    driver = driven(TtuScheduler)
    driver.open("v", [0, 1, 2], SourceKind.STRICT, upto=5)
    driver.begin(ReadTransaction("Q1", {"s": 1, "v": None}))
    reads = [one.panes[0].source for one in driver.decisions if isinstance(one, ReadPanes)]
    assert reads == ["s"]
    driver.update("v", (Pane("v", 0, 2),), 6)
    assert not any(isinstance(one, AbortQuery) for one in driver.decisions)
    turn(driver)
    driver.update("v", (Pane("v", 0, 1), Pane("v", 1, 2)), 7)
    assert any(isinstance(one, AbortQuery) for one in driver.decisions)
    play_all(driver)
    assert last_commit(driver).aborts == 1


# -- events that cannot happen ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (ReadFinished(99), "read 99 is not in progress"),
        (QueryCancelled("Q9"), "there is no query Q9"),
        (QueryBegins(ReadTransaction("Q1", {"s": 1})), "Q1 has begun already"),
        (QueryBegins(ReadTransaction("Q2", {"x": 1})), "reads x, which is no source"),
        (SourceOpens("s", (), 0), "source s is open already"),
        (SourceCloses("s"), "source s is being read"),
        (SourceCloses("x"), "there is no source x"),
        (UpdateReady(WindowUpdate("9", "x", (), 1)), "of x, which is no source"),
        (UpdateReady(WindowUpdate("9", "s", (Pane("s", 5, 6),), 7)), "do not lead from 5 to 7"),
        (UpdateReady(WindowUpdate("9", "s", (Pane("s", 6, 7),), 7)), "begins at 6, but s ends at 5"),
        (UpdateReady(WindowUpdate("9", "s", (Pane("s", 4, 5), Pane("s", 5, 6)), 6)), "do not lead from 5"),
        (UpdateReady(WindowUpdate("9", "s", (), 4)), "would move s back"),
        (UpdateReady(WindowUpdate("9", "s", (), 5)), "changes nothing"),
    ],
)
def test_impossible_events(event: Any, message: str) -> None:
    for make in (SerialScheduler, TtuScheduler):
        driver = driven(make)
        driver.begin(ReadTransaction("Q1", {"s": 5}))
        with pytest.raises(ValueError, match=message):
            driver.tell(event)
        play_all(driver)
        assert last_commit(driver).instant == 5


def test_expired_hold_of_nothing() -> None:
    assert driven(TtuScheduler).tell(HoldExpired("5")) == ()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReadTransaction("", {"s": 1}),
        lambda: ReadTransaction("Q1", {}),
        lambda: ReadTransaction("Q1", {"s": 0}),
        lambda: ReadTransaction("Q1", {"s": 1}, tick=0),
        lambda: ReadTransaction("Q1", {"s": 1}, run=0),
        lambda: Pane("s", 1, 1),
        lambda: WindowUpdate("1", "s", (Pane("t", 0, 1),), 1),
        lambda: WindowUpdate("1", "s", (Pane("s", 0, 2), Pane("s", 1, 3)), 3),
        lambda: TtuScheduler(slots=0),
        lambda: TtuScheduler(restarts=-1),
    ],
)
def test_illegal_values(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        make()


def opened(make: Callable[..., TransactionScheduler], length: int) -> tuple[TransactionScheduler, int]:
    """A scheduler with five panes of a source and a query over the youngest, and the number of its first read."""
    scheduler = make()
    scheduler.on(SourceOpens("s", tuple(Pane("s", at, at + 1) for at in range(5)), 5))
    (read,) = (one for one in scheduler.on(QueryBegins(ReadTransaction("Q1", {"s": length}))) if hasattr(one, "read"))
    assert isinstance(read, ReadPanes)
    return scheduler, read.read


T5 = UpdateReady(WindowUpdate("5", "s", (Pane("s", 5, 6),), 6))


def test_no_read_begins_before_the_events_that_wait() -> None:
    """Told alone, the end of the read of [4, 5) begins that of [3, 4), which the update then takes away."""
    scheduler, first = opened(TtuScheduler, 2)
    commit, read = scheduler.on(ReadFinished(first), T5)
    assert isinstance(commit, CommitUpdate) and isinstance(read, ReadPanes)
    assert read.panes == (Pane("s", 5, 6),)

    scheduler, first = opened(TtuScheduler, 2)
    assert [one.panes for one in scheduler.on(ReadFinished(first)) if isinstance(one, ReadPanes)] == [
        (Pane("s", 3, 4),)
    ]
    assert any(isinstance(one, AbortQuery) for one in scheduler.on(T5))


@pytest.mark.parametrize("make", ALL)
def test_query_whose_last_read_ends_commits_before_the_update_told_next(make: Callable[..., Any]) -> None:
    scheduler, first = opened(make, 1)
    query, update = scheduler.on(ReadFinished(first), T5)
    assert isinstance(query, CommitQuery) and query.instant == 5
    assert isinstance(update, CommitUpdate)


def test_decisions_before_an_impossible_event_come_with_the_next_call() -> None:
    scheduler, first = opened(TtuScheduler, 1)
    with pytest.raises(ValueError, match="read 99 is not in progress"):
        scheduler.on(ReadFinished(first), ReadFinished(99), T5)
    (query,) = scheduler.on()
    assert isinstance(query, CommitQuery) and query.instant == 5
    assert scheduler.on() == ()


def test_closed_source_may_open_again() -> None:
    driver = driven(TtuScheduler)
    driver.tell(SourceCloses("s"))
    with pytest.raises(ValueError, match="no source"):
        driver.tell(QueryBegins(ReadTransaction("Q1", {"s": 1})))


def test_forgotten_panes() -> None:
    """`kept_from` bounds the memory of a scheduler, whatever the age of its sources."""
    driver = driven(TtuScheduler)
    for upto in range(6, 100):
        driver.tell(UpdateReady(WindowUpdate(str(upto), "s", (Pane("s", upto - 1, upto),), upto, kept_from=upto - 5)))
    assert len(driver.scheduler._sources["s"].panes) == 5  # type: ignore[attr-defined]
