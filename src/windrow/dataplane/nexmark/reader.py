"""Spark's streaming source of NEXMark events.

An offset is the number of an event in the whole sequence, and Spark's log keeps the range of each micro-batch: a stream
that starts again goes on with the next event, and a repeated micro-batch has the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from windrow.dataplane.nexmark.events import KINDS, EventKind, Events, EventSequence, columns_of

FORMAT = "windrow_nexmark"
_CHUNK = 50_000
"""Events per Arrow batch, and the fewest that a task makes."""


@dataclass(frozen=True)
class NexmarkOptions:
    """What a stream reads. `events` is how many the sequence has; None: it comes at its rate, without an end."""

    kind: EventKind
    sequence: EventSequence
    events: int | None
    per_batch: int

    def as_texts(self) -> dict[str, str]:
        """As options of Spark's reader."""
        sequence = self.sequence
        numbers = {
            "seed": sequence.seed,
            "rate": sequence.rate,
            "first_us": sequence.first_us,
            "events": self.events,
            "per_batch": self.per_batch,
        }
        return {"kind": self.kind.name, **{name: str(n) for name, n in numbers.items() if n is not None}}

    @classmethod
    def of_texts(cls, options: dict[str, str]) -> NexmarkOptions:
        sequence = EventSequence(int(options["seed"]), int(options["rate"]), int(options["first_us"]))
        events = int(options["events"]) if "events" in options else None
        return cls(KINDS[options["kind"]], sequence, events, int(options["per_batch"]))


class NexmarkSource(DataSource):
    """The source by its name, FORMAT. Columns are fields of the kind; any other column has the event's number."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = dict(self.options)
        return NexmarkReader(NexmarkOptions.of_texts(options), int(options["tasks"]), schema.fieldNames())


@dataclass(frozen=True)
class EventRange(InputPartition):
    """The events that a task makes: from `first` to below `upto`."""

    first: int
    upto: int


class NexmarkReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says how far the sequence has come, and makes its events."""

    def __init__(
        self, options: NexmarkOptions, tasks: int, columns: Sequence[str], clock: Callable[[], float] = time.monotonic
    ):
        self._options = options
        self._tasks = tasks
        self._columns = columns
        self._clock = clock
        self._began: tuple[float, int] | None = None
        """When the first question came, and the event that it was about: events come at the rate from there on."""
        self._is_available_now = False

    def initialOffset(self) -> dict[str, int]:
        return {"event": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_available_now = True

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        upto = max(start["event"], self._there(start["event"]))
        return {"event": min(upto, start["event"] + limit.max_rows) if isinstance(limit, ReadMaxRows) else upto}

    def _there(self, first: int) -> int:
        """The number of events that there are now. An endless sequence has none that wait."""
        if self._options.events is not None:
            return self._options.events
        if self._is_available_now:
            return first
        began_s, began = self._began = self._began or (self._clock(), first)
        return began + int((self._clock() - began_s) * self._options.sequence.rate)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[EventRange]:
        first, upto = start["event"], end["event"]
        size = max(_CHUNK, -(-(upto - first) // self._tasks))
        return [EventRange(at, min(at + size, upto)) for at in range(first, upto, size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, EventRange)
        for first in range(partition.first, partition.upto, _CHUNK):
            yield self._batch(first, min(first + _CHUNK, partition.upto))

    def _batch(self, first: int, upto: int) -> pa.RecordBatch:
        kind = self._options.kind
        events = Events(self._options.sequence, kind.numbers(first, upto))
        return pa.RecordBatch.from_arrays(columns_of(events, kind, self._columns), names=list(self._columns))
