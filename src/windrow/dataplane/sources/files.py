"""The files source: JSON, CSV or Parquet files, read by Spark's file source as they appear."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.dataplane.ingest.admission import BAD
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.sources.paths import check_paths, paths_of, resolved, spark_path
from windrow.dataplane.sources.rate import check_number
from windrow.errors import SourceError
from windrow.settings import Settings

FORMATS = ("json", "csv", "parquet")
_TEXT = ("json", "csv")
_OWN = ("path", "format")
_LIMITS = {"maxfilespertrigger": (1 << 31) - 1, "maxbytespertrigger": (1 << 63) - 1}
_FIXED = ("mode", "columnnameofcorruptrecord")


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
        if name.lower() in _LIMITS:
            check_number(name, value, _LIMITS[name.lower()])
    if set(_LIMITS) <= {name.lower() for name in options}:
        raise SourceError("maxFilesPerTrigger and maxBytesPerTrigger exclude each other", remedy="Give one of them.")


def schema_text(stream: StreamDef, bad: bool) -> str:
    columns = [f"{quote_name(name)} {kind.name}" for name, kind in stream.columns]
    return ", ".join(columns + ([f"{BAD} STRING"] if bad else []))


def open_files(spark: SparkSession, stream: StreamDef, settings: Settings, spool_dir: Path) -> DataFrame:
    options = dict(stream.source_options)
    kind, paths = options["format"].lower(), paths_of(resolved(stream.source_options))
    check_paths(spark, stream.name, paths)
    text = kind in _TEXT
    reader = spark.readStream.schema(schema_text(stream, text)).format(kind)
    if text:
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", BAD)
    if not any(name.lower() in _LIMITS for name in options):
        reader = reader.option("maxBytesPerTrigger", str(settings.integer("bytes_per_trigger")))
    # By default Spark silently skips files that are 7 days older than the newest.
    reader = reader.option("maxFileAge", "3650d")
    for name, value in options.items():
        if name.lower() not in _OWN:
            reader = reader.option(name, value)
    return placed(reader.load(spark_path(paths)))


def placed(rows: DataFrame) -> DataFrame:
    """Rows with their position: the file, oldest first, and the block in it. It costs nothing unless it is read."""
    places = ("file_modification_time", "file_path", "file_block_start")
    return rows.selectExpr("*", *(f"_metadata.{name} AS {POSITION}{i}" for i, name in enumerate(places)))
