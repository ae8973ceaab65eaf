"""Completes a CREATE STREAM before it is checked and kept: absolute paths, and what it leaves to its files.

The completed statement is what the catalog keeps and SHOW CREATE STREAM prints, so nothing is found out a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from windrow.catalog.definitions import CHANGEABLE
from windrow.cql.names import quote_name
from windrow.cql.statements import ColumnDef, CreateStream, Options
from windrow.dataplane.sources.columns.inference import (
    FoundFiles,
    InferredColumns,
    find_files,
    format_of,
    infer_columns,
)
from windrow.dataplane.sources.files import FORMATS
from windrow.dataplane.sources.paths import check_paths, is_pattern, paths_of, resolved
from windrow.errors import SourceError

FILES_SOURCE = "files"


@dataclass(frozen=True)
class CompletedStream:
    """The statement to keep, and notes for the user."""

    statement: CreateStream
    notes: tuple[str, ...] = ()


def resolve_stream(statement: CreateStream) -> CreateStream:
    """The statement with absolute paths."""
    if statement.source.lower() != FILES_SOURCE:
        return statement
    return replace(statement, options=resolved(statement.options))


def as_completed(statement: CreateStream, kept: CreateStream) -> CreateStream:
    """The statement, with what it leaves out taken from an existing stream, so that the two can be compared."""
    statement = resolve_stream(statement)
    if statement.source.lower() != FILES_SOURCE:
        return statement
    given = {name.lower() for name, _ in statement.options}
    found = ({"header"} if not statement.columns else set()) | ({"format", "sep"} if "format" not in given else set())
    asked, changeable = _split_changeable(statement.options)
    known, _ = _split_changeable(kept.options)
    if {option for option in known if option[0] not in found - given} == set(asked):
        statement = replace(statement, options=known + changeable)
    return replace(statement, columns=statement.columns or kept.columns)


def _split_changeable(options: Options) -> tuple[Options, Options]:
    """The options without those that may be changed later, and these."""
    changeable = tuple(option for option in options if option[0].lower() in CHANGEABLE)
    return tuple(option for option in options if option not in changeable), changeable


def complete(spark: SparkSession, statement: CreateStream) -> CompletedStream:
    """Check the paths of a stream from files, and find its format and its columns if they are not given."""
    statement = resolve_stream(statement)
    paths = paths_of(statement.options)
    if statement.source.lower() != FILES_SOURCE or not paths:
        return CompletedStream(statement)
    notes = tuple(check_paths(spark, statement.name, paths))
    has_format = any(name.lower() == "format" for name, _ in statement.options)
    if statement.columns and has_format:
        return CompletedStream(statement, notes)
    found = find_files(spark, paths, statement.options)
    if not has_format:
        implied = format_of(found.names or [path for path in paths if is_pattern(path)])
        statement = replace(statement, options=_with_format(statement.options, implied))
    if statement.columns:
        return CompletedStream(statement, notes)
    return _with_columns(spark, statement, found)


def _with_format(options: Options, implied: Options) -> Options:
    """The options with those that file names imply, unless they are given, behind the path."""
    given = {name.lower() for name, _ in options}
    new = [option for option in implied if option[0] not in given and not (option[0] == "sep" and "delimiter" in given)]
    last = max(i for i, (name, _) in enumerate(options) if name.lower() == "path") + 1
    return (*options[:last], *new, *options[last:])


def _with_columns(spark: SparkSession, statement: CreateStream, found: FoundFiles) -> CompletedStream:
    paths = ", ".join(paths_of(statement.options))
    if found.count == 0:
        raise SourceError(
            f"stream '{statement.name}' has no columns, and there is no file in {paths} to find them in",
            remedy="Put a file there first, or list the columns: CREATE STREAM s (ts TIMESTAMP, …).",
        )
    kind = next(value.lower() for name, value in statement.options if name.lower() == "format")
    if kind not in FORMATS:
        return CompletedStream(statement)  # the source refuses it
    if kind == "csv" and not any(name.lower() == "header" for name, _ in statement.options):
        statement = replace(statement, options=(*statement.options, ("header", "true")))
    inferred = infer_columns(spark, kind, found, statement.options)
    axes = {name.lower() for name in (statement.timestamp_by, *(p.column for p in statement.punctuate)) if name}
    if kind != "parquet":
        axes_as_times = [_as_axis(c) if c.name.lower() in axes else c for c in inferred.columns]
        inferred = replace(inferred, columns=tuple(axes_as_times))
    return CompletedStream(replace(statement, columns=inferred.columns), tuple(_notes(statement, inferred, found)))


def _as_axis(column: ColumnDef) -> ColumnDef:
    """A window attribute is a time, not a date; text files give either."""
    return replace(column, type="TIMESTAMP") if column.type == "DATE" else column


def _notes(statement: CreateStream, inferred: InferredColumns, found: FoundFiles) -> list[str]:
    files = "1 file" if found.count == 1 else f"{len(found.sample)} of {found.count:,} files"
    listed = ", ".join(f"{quote_name(column.name)} {column.type}" for column in inferred.columns)
    notes = [
        f"columns found in {files}: {listed}. They stay so, whatever files come;"
        f" SHOW CREATE STREAM {quote_name(statement.name)} prints the statement to keep"
    ]
    if inferred.nested:
        names = ", ".join(map(quote_name, inferred.nested))
        notes.append(f"nested values are kept as their JSON text: {names}; get_json_object takes values out of it")
    if inferred.left_out:
        notes.append(f"left out, as a stream cannot have them: {', '.join(inferred.left_out)}")
    return notes
