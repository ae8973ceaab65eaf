"""What a sink is.

A plain sink is written to before the tick commits: after a crash it may get an answer again, never not at
all. A staging sink takes part in the commit: it stages before and publishes after, and publishing is
idempotent, so it holds every answer exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from windrow.errors import BindError


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
        """Remove all stages; called where no commit names one: at start, after committed ones were published,
        when the query is dropped, and when a temporary state is closed."""
        ...


def check_given(sink: Any) -> None:
    """Refuse an object from Python that is no sink."""
    calls = (("write",), ("stage", "publish", "sweep"))
    if isinstance(sink, type) or not any(all(callable(getattr(sink, c, None)) for c in some) for some in calls):
        what = f"the class {sink.__name__}" if isinstance(sink, type) else f"of type {type(sink).__name__}"
        raise BindError(
            f"sink= takes an object with a method write(batch); this is {what}",
            remedy="Give such an object, or leave it out and use INTO.",
        )
