"""Long reads lend their slots, so that they keep nobody waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windrow.engine.isolation.asked import AskedQuery
from windrow.schedulers.transactions.interface import ReadPanes
from windrow.schedulers.transactions.machine import TransactionMachine

LONG_S = 0.1
"""A read that takes longer lends its slot to the next one."""

MOST_LENT = 8
"""At most so many slots are lent."""

FOR_URGENT = 1
"""So many more are lent to a query that is more urgent than all that read."""


@dataclass
class Reading:
    """A read in progress, which `scheduler` has decided."""

    asked: AskedQuery
    panes: ReadPanes
    scheduler: TransactionMachine
    is_lent: bool = False
    is_over: bool = False


class Loans:
    """The slots that are lent, and the long reads that may lend theirs. The coordinator's lock guards it."""

    def __init__(self) -> None:
        self._long: list[Reading] = []
        self._lent = 0

    def offer(self, reading: Reading) -> None:
        """A read is long."""
        if not reading.is_over:
            self._long.append(reading)

    def lend(self, is_urgent: Callable[[], bool]) -> bool:
        """Lend one slot more, if that may be; the caller lets the scheduler have it. `is_urgent`: whether a query waits
        that is more urgent than all that read."""
        self._long = [one for one in self._long if not one.is_over]
        if not self._long or (self._lent >= MOST_LENT and not (self._lent < MOST_LENT + FOR_URGENT and is_urgent())):
            return False
        self._long.pop(0).is_lent = True
        self._lent += 1
        return True

    def give_back(self, reading: Reading) -> bool:
        """A read is over; return whether it had lent its slot, which the scheduler then has no more."""
        reading.is_over = True
        self._lent -= reading.is_lent
        return reading.is_lent
