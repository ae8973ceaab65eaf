"""What a sink is.

A plain sink is written to before the tick commits: after a crash it may get an answer again, never not at
all. A staging sink takes part in the commit: it stages before and publishes after, and publishing is
idempotent, so it holds every answer exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa


@dataclass(frozen=True)
class AnswerBatch:
    """The answers of one query to the windows of one tick batch, in window order.

    `table`: window_start, window_end, is_revision, then the select list (string keys may be
    dictionary-encoded). `key` is the same whenever the same windows are delivered again.
    """

    query: str
    table: pa.Table
    key: str


@runtime_checkable
class Sink(Protocol):
    def write(self, batch: AnswerBatch) -> None: ...


class StagingSink(Protocol):
    def stage(self, batch: AnswerBatch, seq: int) -> str:
        """Write the answers durably but invisibly; the text that publishing needs goes into the commit."""
        ...

    def publish(self, entry: str) -> None:
        """Make a committed stage visible; doing it twice is doing it once."""
        ...

    def sweep(self) -> None:
        """Remove stages that no commit named; called at start, after committed ones were published."""
        ...
