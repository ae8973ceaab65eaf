"""The order in which the engine takes its locks. Who takes several takes them by `held`, or one after another in this
order.

    1  `QueryManager.changing`
    2  `StoredTable.changing` of the tables that statements change
    3  `StreamState.batch_lock` of the streams that have a source
    4  `ContinuousQuery.ticking` of the plans that make derived streams
    5  `StreamState.batch_lock` of these derived streams
    6  `ContinuousQuery.ticking` of the queries
    7  `StoredTable.changing` of the tables that streams feed
    8  `StreamState.lock`

Those of one kind are taken by number. The number of a query does not say what it reads: CREATE OR REPLACE keeps it, and
the query may then read a derived stream that is younger. So 4 and 6 are apart. A tick of the plan of a derived stream
(4) deposits into the stream (5); whoever drops or replaces a query over that stream holds the stream (5) and waits for
the query (6); and a statement that changes a table waits for all plans that read it (4 and 6).

A thread that ticks is waited for as a lock is. That of the plans takes 4 and those after it, so it is waited for with
no more than 1 to 3 held; that of the streams takes 7 and 8, so it is waited for with no more than 1 to 6. What is only
tried has no place in the order.

Which plans read a table changes only with the table's `changing` held. So a statement that changes a table, and a
stream that feeds it, know all of its readers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.state import StreamState
from windrow.engine.tables.stored import StoredTable

_CHANGED, _SOURCES, _DERIVING, _DERIVED, _QUERIES, _FED = range(6)


def in_order(
    tables: Iterable[StoredTable] = (),
    streams: Iterable[StreamState] = (),
    queries: Iterable[ContinuousQuery] = (),
) -> list[threading.RLock]:
    """What to hold so that these tables do not change, these streams take nothing in, and these queries do not tick, in
    the order in which it is taken."""
    found = dict[tuple[int, int], threading.RLock]()
    for table in tables:
        found[_CHANGED if table.feed is None else _FED, table.id] = table.changing
    for stream in streams:
        found[_DERIVED if stream.definition.is_derived else _SOURCES, stream.id] = stream.batch_lock
    for query in queries:
        found[_QUERIES if query.derived is None else _DERIVING, query.id] = query.ticking
    return [found[place] for place in sorted(found)]


@contextmanager
def held(
    tables: Iterable[StoredTable] = (),
    streams: Iterable[StreamState] = (),
    queries: Iterable[ContinuousQuery] = (),
    states: Iterable[StreamState] = (),
) -> Iterator[None]:
    """Hold these tables, streams and queries, as `in_order` says, and the `lock` of the streams of `states`."""
    last = {stream.id: stream for stream in states}
    with ExitStack() as stack:
        for lock in in_order(tables, streams, queries):
            stack.enter_context(lock)
        for number in sorted(last):
            stack.enter_context(last[number].lock)
        yield


@contextmanager
def tried(locks: Sequence[threading.RLock]) -> Iterator[bool]:
    """Hold all of the locks, or none if another thread holds one of them. It waits for nobody."""
    with ExitStack() as stack:
        for lock in locks:
            if not lock.acquire(blocking=False):
                stack.close()
                yield False
                return
            stack.callback(lock.release)
        yield True
