"""Window serializability (WS): a query sees its windows as of its beginning.

Window updates are committed at once, nothing is aborted, and an answer is as old as the query ran long (Golab's
dissertation, Definition 7.1 and section 7.5.1). The engine keeps the version that the query began with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from windrow.schedulers.history import Entry, Isolation
from windrow.schedulers.transactions.machine import TransactionMachine
from windrow.schedulers.transactions.ttu import highest_ttu


class WindowScheduler(TransactionMachine):
    """Like Algorithm 8, but queries do not follow updates."""

    isolation: ClassVar[Isolation] = Isolation.WINDOW
    given: ClassVar[frozenset[Isolation]] = frozenset({Isolation.WINDOW})

    def __init__(self, *, slots: int = 1, record: Callable[[Entry], None] | None = None):
        super().__init__(slots=slots, order=highest_ttu, record=record)
