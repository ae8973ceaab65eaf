"""The source `nexmark`: its options, and how it is opened.

A stream has the persons, the auctions or the bids of one sequence of events. Streams of other kinds with the same
options come from the same sequence: their ids match.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.nexmark.events import KINDS, EventKind, EventSequence
from windrow.dataplane.nexmark.reader import FORMAT, NexmarkOptions, NexmarkSource
from windrow.dataplane.sources.rate import check_number
from windrow.errors import SourceError
from windrow.settings import Settings
from windrow.types import SqlType, moment_of, point_of

_MOST_EVENTS = 1_000_000_000_000
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
_registered: WeakSet[SparkSession] = WeakSet()


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
    if spark not in _registered:  # Spark warns of a second registration
        spark.dataSource.register(NexmarkSource)
        _registered.add(spark)
    columns = [f"{quote_name(name)} {kind.name}" for name, kind in stream.columns]
    reader = spark.readStream.format(FORMAT).schema(", ".join([*columns, f"{POSITION}0 BIGINT"]))
    return reader.options(**options_of(stream).as_texts(), tasks=spark.sparkContext.defaultParallelism).load()
