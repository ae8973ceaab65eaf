"""Serial execution: one query at a time, and window updates between queries.

It is what systems without concurrency control do (Golab's dissertation, section 7.5.1): a query locks the sources that
it reads. An urgent query waits for the one that runs, and an update for at most `serial_hold`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from windrow.schedulers.history import Isolation
from windrow.schedulers.transactions.interface import ReadTransaction
from windrow.schedulers.transactions.machine import TransactionMachine
from windrow.schedulers.transactions.running import RunningQuery


class SerialScheduler(TransactionMachine):
    """A query that asks for less gets serial execution all the same."""

    isolation: ClassVar[Isolation] = Isolation.SERIAL

    def _begin(self, transaction: ReadTransaction) -> None:
        super()._begin(_serial(transaction))

    def _next(self, waiting: list[RunningQuery]) -> RunningQuery | None:
        """The query that runs goes on until it is done; then the most urgent one follows."""
        running = [query for query in self._queries.values() if query.is_started]
        if running:
            return next((query for query in running if query in waiting), None)
        return super()._next(waiting)


def _serial(transaction: ReadTransaction) -> ReadTransaction:
    return replace(transaction, isolation=Isolation.SERIAL)
