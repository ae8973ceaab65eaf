"""Carries out the decisions of the transaction scheduler: which one-time query reads what, and when updates are seen.

One scheduler serves a state directory, behind one lock. Commits tell what they moved, and go on: they never wait for a
query. Reads and answers run in reader threads; no lock is held meanwhile. An answer is prepared by the last read of a
query, before it commits: if an update comes until then, the query follows it, and the answer is prepared again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

import pyarrow as pa

from windrow.dataplane.jobs import SNAPSHOTS
from windrow.engine.isolation.alarms import Alarms
from windrow.engine.isolation.asked import AskedQuery, IsolatedAnswer, Terms
from windrow.engine.isolation.instants import NOTHING
from windrow.engine.isolation.interface import OneTimeRead, PaneRange, PinnedVersion
from windrow.engine.isolation.loans import FOR_URGENT, LONG_S, MOST_LENT, Loans, Reading
from windrow.engine.isolation.open_sources import OpenSources
from windrow.engine.isolation.partials import split_at
from windrow.engine.isolation.sources import EVERYTHING, cuts_of, rows_in, run_of
from windrow.errors import ExecutionError, QueryCancelledError, QueryTimeoutError, StateError, first_line
from windrow.schedulers.history import Entry, Isolation
from windrow.schedulers.panes import instant_of
from windrow.schedulers.transactions import TtuScheduler
from windrow.schedulers.transactions.interface import (
    AbortQuery,
    CommitQuery,
    CommitUpdate,
    HoldExpired,
    HoldUpdate,
    PinVersion,
    QueryBegins,
    QueryCancelled,
    ReadFinished,
    ReadPanes,
    ReadTransaction,
    TransactionDecision,
    TransactionEvent,
    UpdateReady,
)
from windrow.schedulers.transactions.machine import TransactionMachine

log = logging.getLogger("windrow")

RESTARTS = 3
"""So often a query follows an update that came when its answer was ready; then it runs serially."""

PIN_ATTEMPTS = 5
"""So often a version is pinned again because an update came between the pin and the beginning."""

UNPINNED = PinnedVersion(None)
"""The version of a query that has not pinned one yet."""

NO_UPDATE = ""
"""The name of no update. That its hold has expired is told in vain, but the scheduler fills slots after every event."""


_Prepared = tuple[pa.Table, PinnedVersion]
"""An answer, and the version that it is of."""


class Coordinator:
    """Answers one-time queries. `hold_s` gives how long a serial query may hold updates back."""

    def __init__(self, sources: OpenSources, hold_s: Callable[[], float], slots: int | None = None):
        self._sources = sources
        self._hold_s = hold_s
        self.slots = slots or max(1, (os.cpu_count() or 1) - 1)
        self._record: Callable[[Entry], None] | None = None
        self._make: Callable[..., TransactionMachine] = TtuScheduler
        self._scheduler = self._made()
        self._lock = threading.RLock()
        self._asked: dict[int, AskedQuery] = {}
        self._by_name: dict[str, AskedQuery] = {}
        self._numbers = count(1)
        self._updates = count(1)
        self._loans = Loans()
        self._loose: list[AskedQuery] = []
        self._held: frozenset[str] = frozenset()
        self._alarms = Alarms()
        self._readers = ThreadPoolExecutor(self.slots + MOST_LENT + FOR_URGENT, "windrow-reader")
        self._is_closed = False
        sources.told = self._progressed

    # -- asking --------------------------------------------------------------------------------

    def ask(
        self,
        read: OneTimeRead,
        terms: Terms | None = None,
        text: str = "",
        version: PinnedVersion | None = None,
    ) -> AskedQuery:
        """Begin to answer a query; `answer` waits for it. `version` is what it has pinned just now, and becomes the
        coordinator's to release; None: it is pinned here."""
        terms = terms or Terms()
        with self._lock:
            if self._is_closed and version is not None:
                version.release()
            self._refuse_closed()
            asked = AskedQuery(next(self._numbers), text, read, terms)
            self._asked[asked.number] = asked
        try:
            self._begin(asked, terms.isolation, version)
        except BaseException as error:
            self._give_up(asked, error)
            raise
        return asked

    def answer(self, asked: AskedQuery) -> IsolatedAnswer:
        """Wait for the answer. Raises the error of the query, or QueryTimeoutError after its time; whoever stops
        waiting for another reason (Ctrl-C) cancels it."""
        limit = asked.terms.timeout_s
        left = None if limit is None else max(0.0, asked.begun_s + limit - time.monotonic())
        try:
            in_time = asked.wait(left)
        except BaseException:
            self._give_up(asked, _cancelled(asked))
            raise
        if not in_time:
            error = QueryTimeoutError(
                f"the query took longer than {limit:g} s",
                remedy="Ask for less, or allow more: SET timeout, or TIMEOUT after the SELECT.",
            )
            self._give_up(asked, error)
        if asked.error is not None:
            raise asked.error
        assert asked.outcome is not None
        return asked.outcome

    def cancel(self, number: int | None = None, thread: int | None = None) -> int:
        """Cancel the query of this number, those that a thread has asked, or all; return how many. Who waits for one
        gets QueryCancelledError."""
        with self._lock:
            found = [
                one
                for one in self._asked.values()
                if number in (None, one.number) and thread in (None, one.thread) and not one.is_over
            ]
        return sum(self._give_up(one, _cancelled(one)) for one in found)

    @property
    def running(self) -> list[AskedQuery]:
        """The queries that are not answered yet, in the order in which they were asked."""
        with self._lock:
            return list(self._asked.values())

    def close(self) -> None:
        """Cancel everything; later calls of `ask` are refused."""
        with self._lock:
            self._is_closed = True
        self.cancel()
        self._alarms.close()
        self._readers.shutdown()
        self._release_loose()

    def schedule_by(self, make: Callable[..., TransactionMachine]) -> None:
        """Let another scheduler decide from now on: benchmarks compare them. Raises StateError unless nothing runs."""
        with self._lock:
            if not self._scheduler.is_idle:
                raise StateError("one-time queries run, or a history is recorded", remedy="Wait for their end.")
            self._make = make
            self._scheduler = self._made()

    def _made(self) -> TransactionMachine:
        return self._make(slots=self.slots, restarts=RESTARTS, record=self._recorded)

    # -- histories -----------------------------------------------------------------------------

    @contextmanager
    def recording(self, record: Callable[[Entry], None]) -> Iterator[None]:
        """Within the block, `record` is told every operation of one-time queries and of updates that concern them."""
        with self._lock:
            if self._asked:
                raise StateError(
                    f"{len(self._asked)} one-time queries run: a history begins when none does",
                    remedy="Wait for them, or wr.cancel().",
                )
            if self._record is not None:
                raise StateError("a history is being recorded already", remedy="End that one first.")
            self._record = record
        try:
            yield
        finally:
            with self._lock:
                self._record = None
                self._close_idle()

    def _recorded(self, entry: Entry) -> None:
        if self._record is not None:
            self._record(entry)

    # -- the beginning and the end of a query --------------------------------------------------

    def _begin(self, asked: AskedQuery, isolation: Isolation, given: PinnedVersion | None = None) -> None:
        """Begin a transaction, on a version that is pinned before. The two are of one instant, unless something else
        than its windows holds the instant of the query back.

        Views and the last rows of a stream may change while the instant stays, and a query that waits for a slot does
        not follow updates. So what reads them pins its version with its first read, unless it keeps to the one that is
        there when it begins."""
        is_late = not asked.goes_by_instant and isolation is not Isolation.WINDOW
        at_most = None
        for attempt in range(1, PIN_ATTEMPTS + 1):
            version, given = given or (UNPINNED if is_late else asked.read.pin(at_most)), None
            try:
                with self._lock:
                    instant = None if asked.is_over else self._would_be(asked, version)
                    # Pinned for this very instant and yet below it: no other pin would do better.
                    is_fit = not asked.goes_by_instant or _is_of(version, instant) or at_most == instant
                    is_begun = not asked.is_over and (is_fit or attempt == PIN_ATTEMPTS)
                    if is_begun:
                        asked.version = None if is_late else version
                        # One that is too old is pinned again by the first read, unless the query keeps to it.
                        asked.pinned_for = instant if is_fit or isolation is Isolation.WINDOW else None
                        self._begin_on(asked, version, isolation)
            except BaseException:
                version.release()
                raise
            if is_late or not is_begun:
                version.release()
            if is_begun or asked.is_over:
                return
            at_most = instant

    def _begin_on(self, asked: AskedQuery, version: PinnedVersion, isolation: Isolation) -> None:
        asked.is_pinned = isolation is Isolation.WINDOW
        self._by_name[asked.name] = asked
        if isolation is Isolation.SERIAL:
            self._holds(asked)
        self._tell(QueryBegins(self._transaction(asked, version, isolation)))
        self._lend_slots()

    def _would_be(self, asked: AskedQuery, version: PinnedVersion) -> int:
        """The instant that a transaction would begin with now. Opens what it reads."""
        for opening in self._sources.open_for(asked, version):
            self._tell(opening)
        return instant_of((self._sources.published(name) for name in asked.lengths), asked.read.tick)

    def _transaction(self, asked: AskedQuery, version: PinnedVersion, isolation: Isolation) -> ReadTransaction:
        run = EVERYTHING
        if asked.read.keeps_partials:
            window = asked.read.windows[0]
            low, _ = window.bounds(NOTHING if version.instant is None else version.instant)
            rows = sum(rows for _, hi, rows in rows_in(version) if low is None or hi >= low)
            panes = self._sources.panes(next(iter(asked.lengths)), window.length)
            run = run_of(panes, rows, asked.read.read_rows)
        return ReadTransaction(
            asked.name,
            asked.lengths,
            asked.terms.priority,
            isolation,
            asked.read.keeps_partials,
            asked.read.tick,
            run,
        )

    def _give_up(self, asked: AskedQuery, error: BaseException) -> bool:
        """End a query with an error; whether it had not ended before. A read in progress is stopped: it ends soon."""
        with self._lock:
            if asked.is_over:
                return False
            self._withdraw(asked)
            self._over(asked, None, error)
        asked.permit.withdraw()
        asked.jobs.end()
        self._release_loose()
        return True

    def _withdraw(self, asked: AskedQuery) -> None:
        """End the transaction of a query, if there is one."""
        if self._by_name.pop(asked.name, None) is not None and asked.committed is None:
            self._tell(QueryCancelled(asked.name))

    def _over(self, asked: AskedQuery, outcome: IsolatedAnswer | None, error: BaseException | None = None) -> None:
        asked.end(outcome, error)
        self._asked.pop(asked.number, None)
        self._by_name.pop(asked.name, None)
        if not asked.is_reading:
            self._loose.append(asked)
        self._sources.leave(asked)
        if asked.holds:
            self._held = frozenset[str]().union(*(one.streams for one in self._asked.values() if one.holds))
        self._close_idle()

    def _close_idle(self) -> None:
        """Close what nobody reads; while a history is recorded, sources stay open, since each begins once in it."""
        if self._record is None:
            for closing in self._sources.close_idle():
                self._tell(closing)

    def _release_loose(self) -> None:
        """Release the versions of queries that are over, outside of the lock: that may delete files."""
        with self._lock:
            loose, self._loose = self._loose, []
        for asked in loose:
            asked.drop_version()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise StateError("the state directory is being closed", remedy="Open it again: windrow.open(…).")

    # -- updates -------------------------------------------------------------------------------

    def _progressed(self) -> None:
        """A stream or view that is read has moved; called by the thread of its commit, which must go on."""
        with self._lock:
            scheduler = self._scheduler
            try:
                # While a history is recorded, no pane is forgotten: a later query must be seen to read all of its
                # window.
                for update in self._sources.updates(self._new_update, forgets=self._record is None):
                    self._tell(UpdateReady(update))
            except Exception as error:
                self._failed(scheduler, error)

    def _new_update(self) -> str:
        return str(next(self._updates))

    def _hold_expired(self, update: str) -> None:
        with self._lock:
            self._tell(HoldExpired(update))
        self._release_loose()

    # -- decisions -----------------------------------------------------------------------------

    def _tell(self, event: TransactionEvent) -> None:
        """Tell the scheduler an event, and carry out what it decides. The caller has the lock."""
        scheduler = self._scheduler
        try:
            for decision in scheduler.on(event):
                self._carry_out(decision)
        except Exception as error:
            raise self._failed(scheduler, error) from error

    def _failed(self, scheduler: TransactionMachine, error: Exception) -> Exception:
        """Begin anew, without a query and without a source, after a defect: what the scheduler knows may be wrong now,
        so all that run end with the error that is returned. If that was done within the call that failed, its error is
        given back."""
        if scheduler is not self._scheduler:
            return error
        log.exception("all one-time queries that run are given up", exc_info=error)
        found = ExecutionError(
            f"the scheduler of one-time queries failed: {first_line(error)}", remedy="Ask again; the log has more."
        )
        ended = list(self._asked.values())
        self._scheduler, self._loans, self._held = self._made(), Loans(), frozenset()
        self._asked.clear()
        self._by_name.clear()
        for asked in ended:
            self._sources.leave(asked)
            asked.end(None, found)
        self._loose += [asked for asked in ended if not asked.is_reading]
        for _ in self._sources.close_idle():
            pass  # the new scheduler knows none
        return found

    def _carry_out(self, decision: TransactionDecision) -> None:
        match decision:
            case ReadPanes(query=name):
                asked = self._by_name[name]
                asked.reading += 1
                reading = Reading(asked, decision, self._scheduler)
                self._readers.submit(self._perform, reading)
                self._alarms.after(LONG_S, lambda: self._lend(reading))
            case CommitUpdate(update):
                self._sources.publish(update)
            case PinVersion(name):
                asked = self._by_name[name]
                asked.is_pinned = True
                # What reads pane by pane may still have to pin the files of its instant: until then they must stay.
                self._holds(asked, asked.holds and asked.read.keeps_partials)
            case AbortQuery(query=name, attempt=attempt):
                self._by_name[name].attempt = attempt + 1
                self._by_name[name].aborts += 1
                if decision.then is Isolation.SERIAL:
                    self._holds(self._by_name[name])
            case CommitQuery(query=name):
                self._commit(self._by_name[name], decision)
            case HoldUpdate(update=update, queries=names):
                for name in names:
                    self._holds(self._by_name[name])
                self._alarms.after(self._hold_s(), lambda: self._hold_expired(update.name))
            case _:
                pass  # panes that leave are dropped by the next read

    def _holds(self, asked: AskedQuery, holds: bool = True) -> None:
        asked.holds = holds
        self._held = frozenset[str]().union(*(one.streams for one in self._asked.values() if one.holds))

    def is_held(self, stream: str) -> bool:
        """Whether a query may hold back the updates of a stream, so that an older version of it is still read."""
        return stream.lower() in self._held

    def _commit(self, asked: AskedQuery, commit: CommitQuery) -> None:
        asked.committed = commit
        if asked.prepared is not None and asked.prepared[:2] == (asked.attempt, commit.instant):
            self._answered(asked, *asked.prepared[2:])
        else:
            asked.reading += 1
            self._readers.submit(self._answer_committed, asked)

    def _answered(self, asked: AskedQuery, table: pa.Table, version: PinnedVersion) -> None:
        commit = asked.committed
        assert commit is not None
        aborts = max(asked.aborts, commit.aborts)
        self._over(asked, IsolatedAnswer(table, version, commit.isolation, aborts, commit.rescans, asked.reads))

    # -- reads, in reader threads --------------------------------------------------------------

    def _lend(self, reading: Reading) -> None:
        """Let another read begin, if this one still runs."""
        with self._lock:
            if reading.scheduler is self._scheduler:
                self._loans.offer(reading)
                self._lend_slots()

    def _lend_slots(self) -> None:
        """Let other reads begin in place of long ones, as many as may be."""
        while self._loans.lend(self._is_urgent_waiting):
            self._scheduler.slots += 1
            self._tell(HoldExpired(NO_UPDATE))

    def _is_urgent_waiting(self) -> bool:
        """Whether a query waits for a slot that is more urgent than all that read."""
        running = [(one.terms.priority, one.is_reading) for one in self._by_name.values() if one.committed is None]
        reading = max((priority for priority, is_reading in running if is_reading), default=None)
        return reading is not None and any(priority > reading for priority, is_reading in running if not is_reading)

    def _perform(self, reading: Reading) -> None:
        """Carry out a read, and tell that it is over."""
        asked, panes = reading.asked, reading.panes
        found, failure, is_serial_next = None, None, False
        with self._lock:
            is_current = self._is_current(asked, panes)
        try:
            if is_current:
                asked.jobs.join(SNAPSHOTS)
                with asked.permit.held():
                    found = self._read(asked, panes)
        except BaseException as error:
            failure = error
        with self._lock:
            asked.reading -= 1
            try:
                if reading.scheduler is self._scheduler:
                    is_serial_next = self._settle(reading, found, failure)
            except Exception as error:
                self._failed(reading.scheduler, error)
            if asked.is_over and not asked.is_reading:
                self._loose.append(asked)
        if is_serial_next:
            self._begin_serially(asked)
        self._release_loose()

    def _settle(self, reading: Reading, found: _Prepared | None, failure: BaseException | None) -> bool:
        """Tell the scheduler that a read is over; return whether its query must begin again, serially."""
        asked, panes = reading.asked, reading.panes
        if self._loans.give_back(reading):
            self._scheduler.slots -= 1
        if self._is_current(asked, panes):
            if failure is not None:
                self._withdraw(asked)
                self._over(asked, None, failure)
            elif found is not None:
                asked.prepared = (panes.attempt, panes.instant, *found)
        self._tell(ReadFinished(panes.read))
        self._lend_slots()
        if found is None or not self._is_current(asked, panes) or asked.committed is not None:
            return False
        asked.fruitless += 1
        if asked.fruitless <= RESTARTS:
            return False
        self._withdraw(asked)
        asked.name, asked.attempt, asked.prepared = f"{asked.name}.serial", 1, None
        asked.aborts += 1
        return True

    def _is_current(self, asked: AskedQuery, panes: ReadPanes) -> bool:
        """Whether somebody still wants what a read gives. Only under the lock the answer is not torn: a read that was
        decided for a query which begins again serially is for nothing."""
        return not asked.is_over and asked.name == panes.query and asked.attempt == panes.attempt

    def _begin_serially(self, asked: AskedQuery) -> None:
        asked.drop_version()
        try:
            self._begin(asked, Isolation.SERIAL)
        except BaseException as error:
            self._give_up(asked, error)

    def _read(self, asked: AskedQuery, panes: ReadPanes) -> _Prepared | None:
        """Read panes; with the last ones, the answer."""
        asked.reads += 1
        asked.keep_partials_of(panes.attempt)
        version = self._version(asked, panes.instant)
        if not asked.read.keeps_partials:
            return asked.terms.check_result(asked.read.answer((), version)), version
        window = asked.read.windows[0]
        least = NOTHING - window.offset
        low, high = window.bounds(panes.instant if version.instant is None else version.instant)
        low = least if low is None else low
        asked.partials.leave(low)
        wanted = [(pane.start - window.offset, pane.end - window.offset) for pane in panes.panes]
        gaps = asked.partials.gaps([(low, high)] if panes.is_last else wanted)
        # A pane may have far more rows than a read should: its source was cut for the query that opened it.
        pieces = split_at(gaps, cuts_of(version, asked.read.partial_rows) if gaps else ())
        pieces.reverse()  # the oldest, which leave the window next, are read last
        runs = [PaneRange(0, None if lo <= least else lo, hi) for lo, hi in pieces]
        for (lo, hi), partial in zip(pieces, asked.read.partials(runs, version), strict=True):
            asked.partials.add(lo, hi, partial)
            asked.terms.check_partials(asked.partials.nbytes)
            if not self._is_current(asked, panes):
                return None
        if not panes.is_last:
            return None
        return asked.terms.check_result(asked.read.answer(asked.partials.values, version)), version

    def _version(self, asked: AskedQuery, instant: int) -> PinnedVersion:
        """The version to read as of an instant. What does not go by the instant alone is pinned again for every read,
        unless it keeps to its version. Views are of their own ticks: they bound no other's instant."""
        known = asked.version
        if known is not None and (instant == asked.pinned_for if asked.goes_by_instant else asked.is_pinned):
            return known
        version = asked.read.pin(None if asked.read.views else instant)
        asked.version, asked.pinned_for = version, instant
        if known is not None:
            known.release()
        return version

    def _answer_committed(self, asked: AskedQuery) -> None:
        """Answer a query that has committed without a read: there was nothing to read."""
        table, version, failure = None, None, None
        try:
            assert asked.committed is not None
            asked.jobs.join(SNAPSHOTS)
            with asked.permit.held():
                version = self._version(asked, asked.committed.instant)
                table = asked.terms.check_result(asked.read.answer(asked.partials.values, version))
        except BaseException as error:
            failure = error
        with self._lock:
            asked.reading -= 1
            if asked.is_over:
                if not asked.is_reading:
                    self._loose.append(asked)
            elif table is None or version is None:
                self._over(asked, None, failure)
            else:
                self._answered(asked, table, version)
        self._release_loose()


def _is_of(version: PinnedVersion, instant: int | None) -> bool:
    """Whether a version shows an instant; one without an instant shows that nothing is complete yet."""
    if version.instant is None or instant is None:
        return instant is not None and instant <= NOTHING
    return version.instant == instant


def _cancelled(asked: AskedQuery) -> QueryCancelledError:
    return QueryCancelledError(f"one-time query {asked.number} was cancelled", remedy="Ask again.")
