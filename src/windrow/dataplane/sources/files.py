"""The files source: JSON, CSV or Parquet files, read by Spark's file source as they appear."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import MISSING_COLUMNS, ON_BAD_FILE, StreamDef
from windrow.cql.names import quote_name
from windrow.dataplane.frames import unlogged
from windrow.dataplane.ingest.admission import BAD
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.ingest.bad_text import ROW
from windrow.dataplane.ingest.lines import shown_path
from windrow.dataplane.sources.partitions import partition_base, partition_columns
from windrow.dataplane.sources.paths import check_paths, escaped, paths_of, resolved, spark_path
from windrow.dataplane.sources.rate import check_number
from windrow.errors import SourceError
from windrow.settings import Settings

Reader: TypeAlias = Any
"""Spark's DataFrameReader or DataStreamReader."""

FORMATS = ("json", "csv", "parquet")
_TEXT = ("json", "csv")
_OWN = ("path", "format", MISSING_COLUMNS, ON_BAD_FILE)
_STOP, _SKIP = "stop", "skip"
_MISSING = ("error", "null")
_LIMITS = {"maxfilespertrigger": (1 << 31) - 1, "maxbytespertrigger": (1 << 63) - 1}
_FIXED = ("mode", "columnnameofcorruptrecord")
_IGNORING = ("ignorecorruptfiles", "ignoremissingfiles")


def is_columnar(stream: StreamDef) -> bool:
    return dict(stream.statement.options).get("format", "").lower() == "parquet"


def check(stream: StreamDef) -> None:
    options = dict(stream.source_options)
    if not options.get("path"):
        raise SourceError("a stream from 'files' needs a path", remedy="FROM files OPTIONS (path '…', format 'json').")
    if not options.get("format"):
        raise SourceError(
            "a stream from 'files' needs a format", remedy=f"Add format '…': one of {', '.join(FORMATS)}."
        )
    if options["format"].lower() not in FORMATS:
        raise SourceError(
            f"format '{options['format']}' is unknown",
            remedy=f"One of {', '.join(FORMATS)}.",
        )
    for name, value in options.items():
        if name.lower() in _FIXED:
            raise SourceError(
                f"the option '{name}' is Windrow's own: malformed records go to dead letters", remedy="Leave it out."
            )
        if name.lower() in _IGNORING:
            raise SourceError(
                f"the option '{name}' would skip files in silence",
                remedy="Write on_bad_file 'skip': a skipped file is a dead letter, and none of its rows is admitted.",
            )
        if name.lower() == ON_BAD_FILE and value.lower() not in (_STOP, _SKIP):
            raise SourceError(
                f"the option on_bad_file is '{value}'",
                remedy="'stop' is the default: a file that cannot be read stops the stream. With 'skip' it is a dead"
                " letter, and the stream goes on.",
            )
        if name.lower() in _LIMITS:
            check_number(name, value, _LIMITS[name.lower()])
    _check_missing(stream, {name.lower(): value for name, value in options.items()})
    if set(_LIMITS) <= {name.lower() for name in options}:
        raise SourceError("maxFilesPerTrigger and maxBytesPerTrigger exclude each other", remedy="Give one of them.")


def _check_missing(stream: StreamDef, options: dict[str, str]) -> None:
    """Check what is said of columns that the data may lack."""
    if options.get(MISSING_COLUMNS, "error").lower() not in _MISSING:
        raise SourceError(
            f"the option missing_columns is '{options[MISSING_COLUMNS]}'",
            remedy="It takes 'error' (the default: a declared column that no record of a micro-batch has is an error)"
            " or 'null' (it is NULL).",
        )
    says_so = MISSING_COLUMNS in options or any(column.may_miss for column in stream.statement.columns)
    if says_so and options["format"].lower() == "csv" and options.get("header", "").lower() != "true":
        raise SourceError(
            "columns of CSV without a header go by position, so none can be missing",
            remedy="Leave NULLABLE MISSING and missing_columns out, or add header 'true' if the files have a header.",
        )


def schema_text(stream: StreamDef, bad: bool) -> str:
    columns = [f"{quote_name(name)} {kind.name}" for name, kind in stream.columns]
    return ", ".join(columns + ([f"{BAD} STRING"] if bad else []))


def open_files(spark: SparkSession, stream: StreamDef, settings: Settings, spool_dir: Path) -> DataFrame:
    options = dict(stream.source_options)
    kind, paths = options["format"].lower(), paths_of(resolved(stream.source_options))
    check_paths(spark, stream.name, paths)
    reader = spark.readStream.schema(schema_text(stream, kind in _TEXT)).format(kind)
    if not any(name.lower() in _LIMITS for name in options):
        reader = reader.option("maxBytesPerTrigger", str(settings.integer("bytes_per_trigger")))
    # By default Spark silently skips files that are 7 days older than the newest. Some are of 1970.
    reader = reader.option("maxFileAge", "100000d")
    try:
        with unlogged():
            rows = configured(reader, stream).load(spark_path(paths))
            return placed(rows, kind) if kind in _TEXT else rows
    except PySparkException as error:
        raise _unopened(stream, error) from error


def _unopened(stream: StreamDef, error: PySparkException) -> SourceError:
    """The error for files or options that Spark refuses."""
    remedy = "Correct the path or the options of the stream: DROP STREAM, and create it again."
    if (error.getCondition() or "").startswith("CONFLICTING_"):
        remedy = (
            "Directories such as day=2026-03-01 give columns only if all files lie equally deep in them, below one"
            " directory. Move the files, or create the stream with recursiveFileLookup 'true', where they give none."
        )
    elif error.getCondition() == "INVALID_PARTITION_VALUE":
        remedy = "Rename the directory; or DROP STREAM, and create it with another type for this column."
    said = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return SourceError(f"Spark cannot open the files of stream '{stream.name}': {said}", remedy=remedy)


def configured(reader: Reader, stream: StreamDef) -> Reader:
    """The reader with the stream's options, and with malformed records of text in the column `__bad`."""
    options = dict(stream.source_options)
    if options["format"].lower() in _TEXT:
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", BAD)
    for name in _IGNORING:  # a session may ignore them by its configuration
        reader = reader.option(name, "false")
    for name, value in options.items():
        if name.lower() not in _OWN:
            reader = reader.option(name, value)
    return reader


def load_files(reader: Reader, uris: Sequence[str]) -> DataFrame:
    """The rows of files that are known: no name is a pattern."""
    rows: DataFrame = reader.load([escaped(shown_path(uri)) for uri in uris])
    return rows


def read_again(spark: SparkSession, stream: StreamDef, uris: Sequence[str]) -> DataFrame:
    """The rows of some files, as a micro-batch of `open_files` has them, and with their places."""
    kind = dict(stream.source_options)["format"].lower()
    schema = schema_text(stream, kind in _TEXT)
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)  # Spark refuses to read others together
    for uri, given in partition_columns(stream, uris).items():
        alike[given].append(uri)
    frames = []
    for given, files in alike.items():
        reader = with_base(configured(spark.read.schema(schema).format(kind), stream), stream, given)
        frames.append(placed(load_files(reader, files), kind))
    return reduce(DataFrame.unionByName, frames)


def with_base(reader: Reader, stream: StreamDef, given: Sequence[str]) -> Reader:
    """The reader of files whose directories give these columns."""
    base = partition_base(stream)
    return reader.option("basePath", base) if given and base else reader


def skips_bad_files(stream: StreamDef) -> bool:
    """Whether a file that cannot be read is a dead letter. Otherwise it stops the stream."""
    options = {name.lower(): value.lower() for name, value in stream.source_options}
    return options.get(ON_BAD_FILE, _STOP) == _SKIP


def placed(rows: DataFrame, kind: str) -> DataFrame:
    """Rows with their position: the file, oldest first, and the block in it; in Parquet also the number in the file.

    Spark computes all columns of a micro-batch before `foreachBatch` gets it, so places would be in every row. Files of
    Parquet are read again where a place matters (without places, a micro-batch took a fifth less time).
    """
    places = ("file_modification_time", "file_path", "file_block_start")
    columns = [f"_metadata.{name} AS {POSITION}{i}" for i, name in enumerate(places)]
    columns += [f"_metadata.row_index AS {ROW}"] if kind == "parquet" else []
    return rows.selectExpr("*", *columns)
