"""Statements, ticks and deposits take their locks in one order, so none of them waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import windrow
from engine.helpers import wait_until
from windrow.engine.plans.locking import in_order

HANGS_S = 10.0
"""Who waits so long for a lock hangs."""

TABLE = "CREATE TABLE names (k STRING PRIMARY KEY, name STRING) NON RETROACTIVE"
JOINED = "SELECT {0}.k, names.name FROM {0} [{1}] JOIN names ON {0}.k = names.k"


class WatchedLock:
    """A lock that knows which threads have asked for it and which have got it, in which a thread can be made to wait at
    `gate` before it gets it, and that gives up where others would hang."""

    def __init__(self, lock: Any, waits_at_gate: str = ""):
        self._lock = lock
        self._waits_at_gate = waits_at_gate
        self.gate = threading.Event()
        self.asked, self.got = set[str](), set[str]()

    def acquire(self, blocking: bool = True) -> bool:
        name = threading.current_thread().name
        self.asked.add(name)
        if name == self._waits_at_gate:
            self.gate.wait(HANGS_S)
        if not self._lock.acquire(blocking, HANGS_S if blocking else -1):
            assert not blocking, f"{name} hangs"
            return False
        self.got.add(name)
        return True

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class Call(threading.Thread):
    """A call in a thread of this name."""

    def __init__(self, name: str, call: Callable[[], object]):
        super().__init__(name=name, daemon=True)
        self._call = call
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self.error = error

    def ended(self) -> bool:
        """Wait for the call; whether it has ended without an error."""
        self.join(3 * HANGS_S)
        return not self.is_alive() and self.error is None


def test_drop_query_beside_a_statement_and_a_derived_tick(wr: windrow.Windrow) -> None:
    """The query is older than the derived stream that it reads since it was replaced. While DROP QUERY has the stream
    and waits for the query, the tick of the stream's plan waits for the stream, and a statement for both plans."""
    wr.sql(f"{TABLE}; CREATE QUERY q AS {JOINED.format('s', 'RANGE 10')}")
    wr.sql(f"CREATE STREAM named AS {JOINED.format('s', 'UNBOUNDED')}")
    wr.sql(f"CREATE OR REPLACE QUERY q AS {JOINED.format('named', 'RANGE 10')}")
    wr.sql("INSERT INTO names VALUES ('a', 'Anna')")
    plans, derived = wr._engine.plans, wr._engine.manager.stream("named")
    query, plan = plans.query("q"), plans.behind(derived)
    assert plan is not None and query.id < plan.id
    ticking: Any = WatchedLock(query.ticking, "drop")
    taking_in: Any = WatchedLock(derived.batch_lock)
    query.ticking, derived.batch_lock = ticking, taking_in

    dropping = Call("drop", lambda: wr.sql("DROP QUERY q"))
    wait_until(lambda: "drop" in ticking.asked)
    assert "drop" in taking_in.got
    depositing = Call("deposit", lambda: wr.deposit("s", [(1, "a", 1), (5, "a", 2)]))
    wait_until(lambda: "windrow-plans" in taking_in.asked)
    changing = Call("statement", lambda: wr.table("names").upsert([("a", "Ann")]))
    changing.join(0.5)  # time for it to take what it can
    ticking.gate.set()

    assert [one.ended() for one in (dropping, depositing, changing)] == [True] * 3, (dropping.error, changing.error)
    assert "q" not in wr.queries and wr.table("names").rows() == [{"k": "a", "name": "Ann"}]


def test_create_query_beside_ticks_of_its_streams(wr: windrow.Windrow) -> None:
    """While CREATE QUERY waits for a micro-batch of one stream, which waits for ticks, another stream ticks."""
    wr.sql("CREATE STREAM late (t BIGINT, k STRING) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    streams = wr._engine.manager
    wr.query("p", "SELECT COUNT(*) AS n FROM s [RANGE 5 SLIDE 5]")
    other = streams.stream("late")
    watched: Any = WatchedLock(other.batch_lock)
    other.batch_lock = watched
    with other.batch_lock:
        creating = Call(
            "create", lambda: wr.query("q", "SELECT s.k FROM s [RANGE 5] JOIN late [RANGE 5] ON s.k = late.k")
        )
        wait_until(lambda: "create" in watched.asked)
        stream = streams.stream("s")
        ticking = Call("tick", lambda: wr._engine.ticks.catch_up_stream(stream))
        assert ticking.ended()
    assert creating.ended()


def test_order_of_locks() -> None:
    def stream(number: int, is_derived: bool) -> Any:
        return SimpleNamespace(
            id=number, batch_lock=f"batch {number}", definition=SimpleNamespace(is_derived=is_derived)
        )

    def query(number: int, derived: Any = None) -> Any:
        return SimpleNamespace(id=number, ticking=f"ticking {number}", derived=derived)

    def table(number: int, feed: Any = None) -> Any:
        return SimpleNamespace(id=number, changing=f"changing {number}", feed=feed)

    derived, sources = stream(2, is_derived=True), [stream(5, is_derived=False), stream(1, is_derived=False)]
    found = in_order(
        [table(1, feed="s"), table(9), table(3), table(9)],
        [derived, *sources, derived],
        [query(7), query(1), query(4, derived="named"), query(3, derived="more")],
    )
    assert [str(lock) for lock in found] == [
        *("changing 3", "changing 9"),
        *("batch 1", "batch 5"),
        *("ticking 3", "ticking 4"),
        "batch 2",
        *("ticking 1", "ticking 7"),
        "changing 1",
    ]
