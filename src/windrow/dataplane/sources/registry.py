"""The sources by name. A source checks its options when the stream is created and is opened when it runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import MISSING_COLUMNS, StreamDef
from windrow.dataplane.sources import files, nexmark, packets, rate, spool
from windrow.errors import SourceError, UnsupportedError
from windrow.settings import Settings

Opener = Callable[[SparkSession, StreamDef, Settings, Path], DataFrame]


@dataclass(frozen=True)
class Source:
    """`columnar`: columns that are not read cost nothing, so the records of dead letters are fetched separately."""

    check: Callable[[StreamDef], None]
    open: Opener
    columnar: Callable[[StreamDef], bool]


SOURCES: Mapping[str, Source] = {
    "files": Source(files.check, files.open_files, files.is_columnar),
    "memory": Source(spool.check, spool.open_spool, lambda stream: True),
    "rate": Source(rate.check, rate.open_rate, lambda stream: False),
    "packets": Source(packets.check, packets.open_packets, lambda stream: False),
    "nexmark": Source(nexmark.check, nexmark.open_nexmark, lambda stream: False),
}
DATAFRAME = "dataframe"
_LATER = ("kafka", "socket")


def source_of(stream: StreamDef) -> Source:
    """The source that a stream names, with its options checked."""
    name = stream.statement.source.lower()
    if name in _LATER:
        raise UnsupportedError(
            f"this version does not open '{name}' itself yet",
            remedy=f"Pass a streaming DataFrame from Python: wr.stream(name, spark.readStream.format('{name}')…).",
        )
    if name not in SOURCES:
        near = difflib.get_close_matches(name, SOURCES, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise SourceError(f"there is no source '{name}'", remedy=f"{hint}Sources: {', '.join(SOURCES)}.")
    options = [option.lower() for option, _ in stream.statement.options]
    if name != "files" and (MISSING_COLUMNS in options or any(c.may_miss for c in stream.statement.columns)):
        raise SourceError(
            f"NULLABLE MISSING and missing_columns are for files: no column of '{name}' can be missing",
            remedy="Leave them out.",
        )
    SOURCES[name].check(stream)
    return SOURCES[name]


def open_source(spark: SparkSession, stream: StreamDef, settings: Settings, spool_dir: Path) -> DataFrame:
    """The stream's rows, with the column `__bad` if the source detects malformed records."""
    return source_of(stream).open(spark, stream, settings, spool_dir)
