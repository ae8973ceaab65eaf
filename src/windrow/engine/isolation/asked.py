"""A one-time query that was asked: how it is to be answered, what it has read, and its outcome."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pyarrow as pa

from windrow.dataplane.jobs import JobGroup
from windrow.engine.isolation.interface import OneTimeRead, PinnedVersion
from windrow.engine.isolation.partials import KeptPartials
from windrow.errors import ResultLimitError
from windrow.operators.tables.permit import Permit
from windrow.plan.nodes import ROW_NUM
from windrow.schedulers.history import Isolation
from windrow.schedulers.transactions.interface import CommitQuery
from windrow.settings import Settings, Size


@dataclass(frozen=True)
class Terms:
    """How a one-time query is to be answered. Greater `priority` is more urgent. `timeout_s` None: it may take any
    time. `begun_s`: when its time began, by the monotonic clock; None: when the coordinator gets it."""

    isolation: Isolation = Isolation.LATEST
    priority: int = 0
    timeout_s: float | None = None
    max_rows: int = 10**12
    max_bytes: int = 1 << 60
    max_partial_bytes: int = 1 << 60
    begun_s: float | None = None

    @classmethod
    def of(
        cls,
        settings: Settings,
        isolation: str | None = None,
        priority: int | None = None,
        timeout_us: int | None = None,
    ) -> Terms:
        """What a statement asks for, and else the settings."""
        timeout_s = settings.seconds("timeout") if timeout_us is None else timeout_us / 1e6
        return cls(
            Isolation(isolation or settings.text("isolation")),
            0 if priority is None else priority,
            timeout_s,
            settings.integer("max_result_rows"),
            settings.integer("max_result_bytes"),
            settings.integer("max_partial_bytes"),
        )

    def check_result(self, table: pa.Table) -> pa.Table:
        """The answer, if it is within the limits."""
        if table.num_rows > self.max_rows:
            raise ResultLimitError(
                f"the answer has {table.num_rows:,} rows, and max_result_rows is {self.max_rows:,}",
                remedy="Ask for less (LIMIT, WHERE, an aggregate), or SET max_result_rows.",
            )
        if table.nbytes > self.max_bytes:
            raise ResultLimitError(
                f"the answer has {table.nbytes:,} bytes, and max_result_bytes is {Size(self.max_bytes)}",
                remedy="Ask for fewer rows or columns, or SET max_result_bytes.",
            )
        return table

    def check_partials(self, nbytes: int) -> None:
        """Raise if the partial results take too much memory."""
        if nbytes > self.max_partial_bytes:
            raise ResultLimitError(
                f"the partial results of this query take {nbytes:,} bytes, and max_partial_bytes is "
                f"{Size(self.max_partial_bytes)}",
                remedy="Ask for fewer groups, rows or columns, or SET max_partial_bytes.",
            )


@dataclass(frozen=True)
class IsolatedAnswer:
    """An answer, and what it shows: the version that it was evaluated at, which is released, with the isolation that it
    really has. `reads`: how many reads it took, with those that were thrown away."""

    table: pa.Table
    version: PinnedVersion
    isolation: Isolation
    aborts: int = 0
    rescans: int = 0
    reads: int = 0

    @property
    def instant(self) -> int | None:
        """The instant of its windows; None: it has none."""
        return self.version.instant


class AskedQuery:
    """A one-time query from its asking to its end. The coordinator's lock guards it, except what one read at a time
    uses: the version and the partial results."""

    def __init__(self, number: int, text: str, read: OneTimeRead, terms: Terms):
        self.number = number
        self.text = text
        self.read = read
        self.terms = terms
        self.lengths: dict[str, int | None] = {}
        """Its sources, and how long its window over each is."""
        self.jobs = JobGroup()
        self.permit = Permit(terms.max_partial_bytes)
        """What its reads hold, in their threads."""
        self.thread = threading.get_ident()
        self.begun_s = time.monotonic() if terms.begun_s is None else terms.begun_s
        self.name = f"Q{number}"
        """The transaction that it is now: one that gives up following updates begins another."""
        self.attempt = 1
        self.aborts = 0
        self.opened: frozenset[str] = frozenset()
        self.version: PinnedVersion | None = None
        self.pinned_for: int | None = None
        """The instant of the transaction that the version was pinned for; that of the version may be below it."""
        self.is_pinned = False
        """Whether it keeps to the version whatever is committed."""
        self.reading = 0
        """How many of its reads are in progress, or wait for a thread: one, and one that is for nothing."""
        self.holds = False
        """Whether it runs serially: updates of its streams may be held back."""
        self.partials = KeptPartials()
        self.partials_of = 1
        """The attempt that has read the partial results."""
        self.prepared: tuple[int, int, pa.Table, PinnedVersion] | None = None
        """The answer that the last read of an attempt has given, with the instant and the version that it is of."""
        self.committed: CommitQuery | None = None
        self.fruitless = 0
        """How often an answer was ready when an update had come that it lacked."""
        self.reads = 0
        self.outcome: IsolatedAnswer | None = None
        self.error: BaseException | None = None
        self._done = threading.Event()

    @property
    def streams(self) -> frozenset[str]:
        """The streams of its windows, in lower case."""
        return frozenset(window.stream.lower() for window in self.read.windows)

    @property
    def goes_by_instant(self) -> bool:
        """Whether the instant alone says what it reads: it has windows, each by a window attribute, and no view."""
        windows = self.read.windows
        return bool(windows) and not self.read.views and all(window.axis != ROW_NUM for window in windows)

    @property
    def is_reading(self) -> bool:
        return self.reading > 0

    @property
    def is_over(self) -> bool:
        return self._done.is_set()

    @property
    def state(self) -> str:
        """What it does, in a word."""
        return "reading" if self.is_reading else "answering" if self.committed is not None else "waiting"

    def end(self, outcome: IsolatedAnswer | None, error: BaseException | None = None) -> None:
        """It is answered, or has failed; only the first call counts."""
        if not self.is_over:
            self.outcome, self.error = outcome, error
            self._done.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end; return whether it has come."""
        return self._done.wait(seconds)

    def keep_partials_of(self, attempt: int) -> None:
        """Forget what another attempt has read."""
        if attempt != self.partials_of:
            self.partials, self.partials_of = KeptPartials(), attempt

    def drop_version(self) -> None:
        """Release what it has pinned."""
        version, self.version = self.version, None
        self.partials = KeptPartials()
        if version is not None:
            version.release()
