"""The interface of sinks.

A plain sink is written before the tick commits: after a crash it may get an answer twice, but never misses one. A
staging sink takes part in the commit. It stages before and publishes after, and publishing is idempotent, so it holds
every answer exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from windrow.errors import BindError


@dataclass(frozen=True)
class AnswerBatch:
    """The answers of one query to the windows of one tick batch, in window order.

    `table` has window_start, window_end, is_revision, then the select list (string keys may be dictionary-encoded). A
    repeated delivery of the same windows has the same `key`.
    """

    query: str
    table: pa.Table
    key: str


@runtime_checkable
class Sink(Protocol):
    def write(self, batch: AnswerBatch) -> None: ...


class StagingSink(Protocol):
    def stage(self, batch: AnswerBatch, seq: int) -> str:
        """Write the answers durably but invisibly. The returned entry goes into the commit, and `publish` needs it."""
        ...

    def publish(self, entry: str) -> None:
        """Make a committed stage visible. Idempotent."""
        ...

    def sweep(self) -> None:
        """Remove all stages. Called only when no commit names one: at start after publishing, when the query is
        dropped, and when a temporary state is closed."""
        ...


def check_given(sink: Any) -> None:
    """Raise BindError if an object passed as sink= is no sink."""
    calls = (("write",), ("stage", "publish", "sweep"))
    if isinstance(sink, type) or not any(all(callable(getattr(sink, name, None)) for name in names) for names in calls):
        what = f"the class {sink.__name__}" if isinstance(sink, type) else f"of type {type(sink).__name__}"
        raise BindError(
            f"sink= takes an object with a method write(batch); this is {what}",
            remedy="Give such an object, or leave it out and use INTO.",
        )
