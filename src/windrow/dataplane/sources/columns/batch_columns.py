"""Compares the files of a micro-batch with the declared columns, before the job that reads them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.sources.columns.csv_headers import check_twice, has_header, read_by_name, read_headers
from windrow.dataplane.sources.columns.json_keys import all_keys, sampled_keys
from windrow.dataplane.sources.columns.parquet_columns import check_types, read_footers
from windrow.dataplane.sources.columns.source_columns import FileColumns, SourceColumns, missing_columns, missing_error
from windrow.dataplane.sources.partitions import partition_columns


def with_checked_columns(
    stream: StreamDef, rows: DataFrame, uris: Sequence[str], known: SourceColumns
) -> tuple[DataFrame, SourceColumns]:
    """The rows of these files with their columns matched by name, and what is known of the source's columns after them.

    Raises SourceError if no record has a column that must be there, or if the type of a Parquet column does not fit.
    A micro-batch without records says nothing.
    """
    if not uris:
        return rows, known
    given = [name for names in partition_columns(stream, uris).values() for name in names]
    spark = rows.sparkSession
    kind = dict(stream.source_options).get("format", "").lower()
    if kind == "json":
        return rows, _check_json(stream, rows, uris, given, known)
    if kind == "parquet":
        footers = read_footers(spark, uris)
        check_types(stream, footers)
        return rows, _check(stream, [file.as_columns() for file in footers], given, known)
    if has_header(stream):
        headers = read_headers(spark, stream, uris)
        check_twice(stream, headers)
        known = _check(stream, [header.as_columns() for header in headers], given, known)
        return read_by_name(spark, stream, rows, uris, headers), known
    return rows, known


def _check(stream: StreamDef, files: list[FileColumns], given: list[str], known: SourceColumns) -> SourceColumns:
    """Check formats that name the columns once per file."""
    names = {name for file in files for name in file.types}
    missing = missing_columns(stream, [*names, *given])
    if files and missing:
        raise missing_error(stream, missing, names, [file.uri for file in files])
    return known.after(stream, files)


def _check_json(
    stream: StreamDef, rows: DataFrame, uris: Sequence[str], given: list[str], known: SourceColumns
) -> SourceColumns:
    """Check records that each name their columns. A column that some record has had may be left out by later ones. All
    records are read only if those at the beginning of the files lack a column that was never found."""
    files = sampled_keys(rows.sparkSession, stream, uris)
    names = {name for file in files for name in file.types}
    if missing_columns(stream, [*names, *given, *known.found]):
        everything = all_keys(rows.sparkSession, stream, uris)
        names |= everything or set()
        missing = missing_columns(stream, [*names, *given, *known.found])
        if everything and missing:
            raise missing_error(stream, missing, names, uris)
    return known.after(stream, files, [name for name in stream.required if name in names])
