"""What the evaluation of a one-time query is permitted: to go on, and how much memory.

The thread of a read holds the permit, and operators ask for that of their thread. So it stops soon after the query is
cancelled, and an intermediate result that grows too large is an error before it takes all memory. Ticks of standing
queries hold none, and are never stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from windrow.errors import QueryCancelledError, ResultLimitError
from windrow.settings import Size

_REMEDY = "Ask for fewer rows or columns (WHERE, a shorter window, a key to join on), or SET max_partial_bytes."
AGAIN_S = 0.02
"""An interrupt may come just before a statement begins, and be lost; after this time it is sent again."""


class Permit:
    """Of one query. `most_bytes` bounds each of its intermediate results; None: nothing does."""

    def __init__(self, most_bytes: int | None = None):
        self.most_bytes = most_bytes
        self._withdrawn = threading.Event()
        self._lock = threading.Lock()
        self._interrupts: list[Callable[[], None]] = []

    @property
    def is_withdrawn(self) -> bool:
        return self._withdrawn.is_set()

    def withdraw(self) -> None:
        """Stop whoever holds it, at its next check; the statements that it executes are interrupted."""
        with self._lock:
            is_first = not self._withdrawn.is_set()
            self._withdrawn.set()
        if is_first and self._interrupt():
            threading.Thread(target=self._keep_interrupting, name="windrow-interrupt", daemon=True).start()

    def _interrupt(self) -> bool:
        """Interrupt what is executed; return whether there was something."""
        with self._lock:  # so that no statement of the next query on a connection is meant
            for interrupt in self._interrupts:
                interrupt()
            return bool(self._interrupts)

    def _keep_interrupting(self) -> None:
        pause = threading.Event()
        while self._interrupt():
            pause.wait(AGAIN_S)

    def check(self) -> None:
        """Raise QueryCancelledError if the query is over."""
        if self._withdrawn.is_set():
            raise QueryCancelledError("the one-time query was cancelled", remedy="Ask again.")

    def allow(self, nbytes: int) -> None:
        """Raise unless the query may go on with an intermediate result of so many bytes."""
        self.check()
        if self.most_bytes is not None and nbytes > self.most_bytes:
            raise ResultLimitError(
                f"an intermediate result of this query takes more than {Size(self.most_bytes)}, which is "
                "max_partial_bytes",
                remedy=_REMEDY,
            )

    def allow_rows(self, rows: int, of: pa.Table) -> None:
        """The same for so many rows as those of a table. Only a result that is larger than the table is looked at."""
        self.check()
        if self.most_bytes is not None and rows > of.num_rows > 0:
            self.allow(rows * of.nbytes // of.num_rows)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within the block, this thread holds the permit."""
        before, _HOLDER.permit = permit_of_thread(), self
        try:
            yield
        except MemoryError as error:
            raise ResultLimitError("this query takes more memory than there is", remedy=_REMEDY) from error
        finally:
            _HOLDER.permit = before

    @contextmanager
    def executing(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Within the block, `interrupt` ends what this thread executes."""
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)


class _Holder(threading.local):
    permit: Permit | None = None


_HOLDER = _Holder()
_ANYTHING = Permit()


def permit_of_thread() -> Permit:
    """The permit that this thread holds; one that permits everything if it holds none."""
    return _HOLDER.permit or _ANYTHING
