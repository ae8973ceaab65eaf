"""Transaction schedulers: which query reads which pane next, and which window update is committed when."""

from windrow.schedulers.transactions.interface import (
    AbortQuery,
    CommitQuery,
    CommitUpdate,
    DropPanes,
    HoldExpired,
    HoldUpdate,
    PassOn,
    PinVersion,
    QueryBegins,
    QueryCancelled,
    ReadFinished,
    ReadPanes,
    ReadTransaction,
    SourceCloses,
    SourceOpens,
    TransactionDecision,
    TransactionEvent,
    TransactionScheduler,
    UpdateReady,
)
from windrow.schedulers.transactions.latest import LatestScheduler
from windrow.schedulers.transactions.serial import SerialScheduler
from windrow.schedulers.transactions.ttu import TtuScheduler
from windrow.schedulers.transactions.window import WindowScheduler

__all__ = [
    "AbortQuery",
    "CommitQuery",
    "CommitUpdate",
    "DropPanes",
    "HoldExpired",
    "HoldUpdate",
    "LatestScheduler",
    "PassOn",
    "PinVersion",
    "QueryBegins",
    "QueryCancelled",
    "ReadFinished",
    "ReadPanes",
    "ReadTransaction",
    "SerialScheduler",
    "SourceCloses",
    "SourceOpens",
    "TransactionDecision",
    "TransactionEvent",
    "TransactionScheduler",
    "TtuScheduler",
    "UpdateReady",
    "WindowScheduler",
]
