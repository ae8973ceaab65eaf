"""The NEXMark source: the persons, the auctions or the bids of one sequence of events, as Spark's streaming source.

Spark's offset is the number of an event in the whole sequence, and its log keeps the range of each micro-batch, so a
stream that starts again goes on with the next event, and a repeated micro-batch has the same rows. Streams of other
kinds with the same options come from the same sequence: their ids match.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.sources.nexmark_events import KINDS, EventKind, Events, EventSequence, columns_of
from windrow.dataplane.sources.rate import check_number
from windrow.errors import SourceError
from windrow.settings import Settings
from windrow.types import SqlType, moment_of, point_of

FORMAT = "windrow_nexmark"
NUMBER = f"{POSITION}0"
_MOST_EVENTS = 1_000_000_000_000
_CHUNK = 50_000
"""Events per Arrow batch, and the fewest that a task makes."""
_NUMBERS = {
    "rate": (1000, 1_000_000_000),
    "seed": (1, _MOST_EVENTS),
    "events": (None, _MOST_EVENTS),
    "maxEventsPerTrigger": (1_000_000, _MOST_EVENTS),
}
"""Options that take whole numbers: their default and the most they take."""
_FIRST_EVENT_TIME = "2026-01-01 00:00:00"
_REMEDY = (
    "Options: kind (person, auction or bid), rate (events per second), events (how many in all; without it the stream"
    " is endless), seed, first_event_time, maxEventsPerTrigger."
)


@dataclass(frozen=True)
class NexmarkOptions:
    """The options of a stream. `events` is how many the sequence has; None: it comes at `rate`, without an end."""

    kind: EventKind
    sequence: EventSequence
    events: int | None
    per_batch: int


def options_of(stream: StreamDef) -> NexmarkOptions:
    """The checked options; raises SourceError."""
    given = {name.lower(): value for name, value in stream.statement.options}
    for name, _ in stream.statement.options:
        if name.lower() not in ("kind", "first_event_time", *(known.lower() for known in _NUMBERS)):
            raise SourceError(f"stream '{stream.name}': nexmark has no option '{name}'", remedy=_REMEDY)
    numbers: dict[str, Any] = {}
    for name, (default, most) in _NUMBERS.items():
        text = given.get(name.lower())
        if text is not None:
            check_number(name, text, most)
        numbers[name] = default if text is None else int(text)
    first_us = _first_us(given.get("first_event_time", _FIRST_EVENT_TIME))
    sequence = EventSequence(numbers["seed"], numbers["rate"], first_us)
    return NexmarkOptions(_kind(stream, given.get("kind")), sequence, numbers["events"], numbers["maxEventsPerTrigger"])


def _kind(stream: StreamDef, named: str | None) -> EventKind:
    found = KINDS.get((named or stream.name).lower())
    if found is None and named is None:
        raise SourceError(
            f"stream '{stream.name}': neither its name nor an option says which events it has",
            remedy="Call it person, auction or bid, or add one of these: OPTIONS (kind 'bid').",
        )
    if found is None:
        raise SourceError(f"the option kind is '{named}'", remedy=f"It takes one of {', '.join(KINDS)}.")
    return found


def _first_us(text: str) -> int:
    try:
        return point_of(moment_of(text), SqlType("TIMESTAMP"))
    except ValueError:
        raise SourceError(
            f"the option first_event_time is '{text}'",
            remedy="It takes a time such as '2026-01-01 00:00:00', in UTC or with an offset.",
        ) from None


def check(stream: StreamDef) -> None:
    kind = options_of(stream).kind
    for name, type_ in stream.columns:
        if name.lower() not in kind.fields or kind.fields[name.lower()][0] != type_.name:
            known = ", ".join(f"{n} {t}" for n, (t, _) in kind.fields.items())
            raise SourceError(
                f"stream '{stream.name}': {kind.name} has no field '{name} {type_}'", remedy=f"Its fields: {known}."
            )


def open_nexmark(spark: SparkSession, stream: StreamDef, settings: Settings, spool_dir: Path) -> DataFrame:
    options = options_of(stream)
    spark.dataSource.register(NexmarkSource)
    sequence = options.sequence
    reader = spark.readStream.format(FORMAT).options(
        kind=options.kind.name,
        seed=sequence.seed,
        rate=sequence.rate,
        first_us=sequence.first_us,
        per_batch=options.per_batch,
        tasks=spark.sparkContext.defaultParallelism,
    )
    if options.events is not None:
        reader = reader.option("events", options.events)
    columns = [f"{quote_name(name)} {kind.name}" for name, kind in stream.columns]
    return reader.schema(", ".join([*columns, f"{NUMBER} BIGINT"])).load()


class NexmarkSource(DataSource):
    """What Spark opens, in a Python process of its own. The columns are those of the stream, and NUMBER."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        def number(name: str) -> int:
            return int(self.options[name])

        sequence = EventSequence(number("seed"), number("rate"), number("first_us"))
        events = number("events") if "events" in self.options else None
        options = NexmarkOptions(KINDS[self.options["kind"]], sequence, events, number("per_batch"))
        return NexmarkReader(options, number("tasks"), schema.fieldNames())


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
        named = [name.lower() for name in self._columns if name != NUMBER]
        made: list[Any] = [*columns_of(events, kind, named), pa.array(events.numbers)]
        return pa.RecordBatch.from_arrays(made, names=list(self._columns))
