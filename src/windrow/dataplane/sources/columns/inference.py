"""What CREATE STREAM leaves out about files, found in the files: their format, and their columns.

The format comes from the files' names. The columns come from the first, the middle and the last file by name: from the
footer of a Parquet file, from at most RECORDS records of a text file. Spark infers the types, with two exceptions. Text
is a time only if it is written in full ('2026-03-01 08:00:00', with or without a zone), as Spark would also take 12345
for a year. Numbers with leading zeros ('00501') stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import RESERVED_PREFIX
from windrow.cql.names import quote_name
from windrow.cql.statements import ColumnDef, Options
from windrow.dataplane.frames import unlogged
from windrow.dataplane.sources.paths import escaped, joined
from windrow.errors import SourceError, first_line
from windrow.types import scalar_type

FILES = 3
RECORDS = 1000
NAMES = 200
"""How many names are looked at to find the format."""
_FORMATS = {
    **dict.fromkeys(("json", "jsonl", "ndjson"), "json"),
    **dict.fromkeys(("csv", "tsv"), "csv"),
    **dict.fromkeys(("parquet", "pq", "parq"), "parquet"),
}
_COMPRESSED = re.compile(r"\.(gz|gzip|bz2|zst|zstd|lz4|snappy|deflate|xz)$")
_LISTING = ("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "basepath")
_OWN = ("path", "format", "maxfilespertrigger", "maxbytespertrigger", "mode", "columnnameofcorruptrecord")
_TIME = r"^\\d{4}-\\d{2}-\\d{2}[ T]\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,9})?)?( ?(Z|UTC|[+-]\\d{2}:?\\d{2}))?$"
_DATE = r"^\\d{4}-\\d{2}-\\d{2}$"
_ZEROS = r"^[+-]?0\\d"
_UNNAMED = re.compile(r"_c\d+")


@dataclass(frozen=True)
class FoundFiles:
    """The files of a stream as Spark lists them, by name, and the columns of directories such as `day=2026-03-01`."""

    count: int
    sample: tuple[str, ...]
    names: tuple[str, ...]
    partitions: tuple[ColumnDef, ...]


@dataclass(frozen=True)
class InferredColumns:
    """The columns, which of them hold nested JSON as text, and what a stream cannot have, with the reason."""

    columns: tuple[ColumnDef, ...]
    nested: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def find_files(spark: SparkSession, paths: Sequence[str], options: Options) -> FoundFiles:
    """List the files under paths, by Spark's rules: hidden files are none, and the options that filter files count."""
    reader = spark.read.format("text")
    for name, value in options:
        if name.lower() in _LISTING:
            reader = reader.option(name, value)
    try:
        with unlogged():
            listed = reader.load(list(paths))
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return FoundFiles(0, (), (), ())
        raise SourceError(f"the files cannot be listed: {first_line(error)}", remedy="Correct the path.") from None
    files = sorted(map(unquote, joined(spark, listed._jdf.inputFiles()).splitlines()))
    count = len(files)
    partitions = tuple(ColumnDef(f.name, _widened(_sql_name(f.dataType))) for f in listed.schema.fields[1:])
    return FoundFiles(
        count,
        tuple(files[i] for i in _spread(count, FILES)),
        tuple(files[i] for i in _spread(count, NAMES)),
        partitions,
    )


def _spread(count: int, most: int) -> list[int]:
    """At most so many indexes, evenly spread, with the first and the last."""
    if count <= most:
        return list(range(count))
    return [i * (count - 1) // (most - 1) for i in range(most)]


def format_of(names: Sequence[str]) -> Options:
    """The options that the files' names imply: `format`, and `sep` for tab-separated files."""
    found: dict[str | None, str] = {}
    for name in names:
        ending = _COMPRESSED.sub("", name.lower().rpartition("/")[2]).rpartition(".")[2]
        found.setdefault(ending if ending in _FORMATS else None, name)
    remedy = "Add format 'json', 'csv' or 'parquet'."
    if not found:
        raise SourceError("there is no file yet that shows the format", remedy=remedy)
    if None in found:
        raise SourceError(f"the name of {found[None]} does not show its format", remedy=remedy)
    formats = {_FORMATS[ending] for ending in found if ending}
    if len(formats) > 1 or (len(found) > 1 and "tsv" in found):
        raise SourceError(
            f"files of several formats: {', '.join(found.values())}",
            remedy="Name those of one format, such as path '/data/*.json', or add pathGlobFilter '*.json'.",
        )
    tabs = (("sep", "\t"),) if "tsv" in found else ()
    return (("format", formats.pop()), *tabs)


def infer_columns(spark: SparkSession, kind: str, files: FoundFiles, options: Options) -> InferredColumns:
    """The columns of the sampled files, and then those of their directories."""
    merged: dict[str, _Found] = {}
    for file in files.sample:
        for column in _columns(spark, kind, file, options):
            known = merged.get(column.name)
            merged[column.name] = column if known is None else _merged(known, column, kind)
    for partition in files.partitions:
        merged.pop(partition.name, None)
        merged[partition.name] = _Found(partition.name, partition.type, files.sample[0])
    kept = {name: found for name, found in merged.items() if found.refused is None}
    if not kept:
        raise SourceError(
            f"no columns were found in {', '.join(files.sample)}",
            remedy=f"See whether it is {kind}, or list the columns: CREATE STREAM s (ts TIMESTAMP, …).",
        )
    _refuse_twins(list(kept))
    return InferredColumns(
        tuple(ColumnDef(name, "STRING" if found.type == "VOID" else found.type) for name, found in kept.items()),
        tuple(name for name, found in kept.items() if found.is_nested),
        tuple(f"{name} ({found.refused})" for name, found in merged.items() if found.refused is not None),
    )


@dataclass(frozen=True)
class _Found:
    """A column of one file; `type` is VOID if all values are NULL, `refused` says why a stream cannot have it."""

    name: str
    type: str
    file: str
    is_nested: bool = False
    refused: str | None = None


def _refuse_twins(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SourceError(
                f"the columns '{other}' and '{name}' differ only in upper and lower case",
                remedy="List the columns you need: CREATE STREAM s (ts TIMESTAMP, …).",
            )


def _merged(a: _Found, b: _Found, kind: str) -> _Found:
    """One column of two files. Text files of different types become the type that holds both."""
    if a.refused or b.refused or a.type == b.type:
        return a if a.refused or not b.refused else b
    if kind == "parquet":
        raise SourceError(
            f"the column '{a.name}' is {a.type} in {a.file}, and {b.type} in {b.file}",
            remedy="A stream has one type per column: name the files of one type, or list the columns you need.",
        )
    types = {a.type, b.type}
    if "VOID" in types:
        return b if a.type == "VOID" else a
    if types <= {"BIGINT", "DOUBLE"} or (types & {"DOUBLE"} and any(t.startswith("DECIMAL") for t in types)):
        wider = "DOUBLE"
    else:
        wider = "TIMESTAMP" if types == {"DATE", "TIMESTAMP"} else "STRING"
    return _Found(a.name, wider, a.file, a.is_nested or b.is_nested)


def _columns(spark: SparkSession, kind: str, file: str, options: Options) -> Iterator[_Found]:
    """The columns of one file, with the types that a stream can have."""
    try:
        with unlogged():
            frame, texts = _frame(spark, kind, file, options)
            types = {f.name: _sql_name(f.dataType) for f in frame.schema.fields}
            _refuse_twins(list(types))
            if texts is not None:
                types |= _checked(texts, types, {name.lower(): value for name, value in options})
    except (PySparkException, Py4JJavaError) as error:
        raise SourceError(
            f"the columns of {file} cannot be found: {_reason(error)}",
            remedy=f"See whether it is {kind}, or list the columns: CREATE STREAM s (ts TIMESTAMP, …).",
        ) from None
    is_named = _is_true(options, "header") or kind != "csv"
    for name, kind_name in types.items():
        yield _found(name, kind_name, file, kind, is_named)


def _reason(error: Exception) -> str:
    """The first line of the reason; Py4J's own message begins with the call."""
    return (
        str(error.java_exception.getMessage()).splitlines()[0]
        if isinstance(error, Py4JJavaError)
        else first_line(error)
    )


def _found(name: str, type_name: str, file: str, kind: str, is_named: bool) -> _Found:
    if name.startswith(RESERVED_PREFIX) or not name.strip() or "${" in name:
        return _Found(name, "", file, refused="a name that a stream cannot have")
    if kind == "csv" and is_named and _UNNAMED.fullmatch(name):
        return _Found(name, "", file, refused="it has no name in the header")
    try:
        return _Found(name, scalar_type(_widened(type_name) if kind != "parquet" else type_name).name, file)
    except ValueError:
        if kind == "json":
            return _Found(name, "STRING", file, is_nested=True)
        return _Found(name, "", file, refused=type_name)


def _frame(spark: SparkSession, kind: str, file: str, options: Options) -> tuple[DataFrame, DataFrame | None]:
    """The file with the types that Spark infers; and for a text file, its first records with columns of text."""
    reader, plain = spark.read, spark.read
    for name, value in options:
        if name.lower() not in _OWN:
            reader, plain = reader.option(name, value), plain.option(name, value)
    if kind == "parquet":
        return reader.parquet(escaped(file)), None
    source: Any = [escaped(file)] if _is_true(options, "multiline") else _lines(spark, file, options)
    if kind == "json":
        frame = reader.option("mode", "DROPMALFORMED").json(source)
        return frame, frame.limit(RECORDS)
    return reader.option("inferSchema", "true").csv(source), plain.csv(source).limit(RECORDS)


def _lines(spark: SparkSession, file: str, options: Options) -> DataFrame:
    """The first lines of a text file, collected, so that the file is read once."""
    reader = spark.read
    for name, value in options:
        if name.lower() in ("linesep", "encoding", "charset"):
            reader = reader.option(name, value)
    return spark.createDataFrame(reader.text(escaped(file)).limit(RECORDS).toArrow())


def _checked(texts: DataFrame, types: dict[str, str], options: dict[str, str]) -> dict[str, str]:
    """The types that need a look at the text: times and dates must be written in full, numbers without zeros ahead."""
    has_own_form = bool({"timestampformat", "dateformat", "timestampntzformat"} & options.keys())
    tests: dict[str, list[str]] = {}
    for name, kind in types.items():
        column = quote_name(name)
        if kind in ("INT", "BIGINT") or kind.startswith("DECIMAL"):
            tests[name] = [f"bool_or(CAST({column} AS STRING) RLIKE '{_ZEROS}')"]
        elif kind == "STRING" or (kind in ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE") and not has_own_form):
            is_time = f"{column} RLIKE '{_TIME}' AND try_cast({column} AS TIMESTAMP) IS NOT NULL"
            given = f"FILTER (WHERE {column} IS NOT NULL)"
            tests[name] = [f"bool_and({is_time}) {given}", f"bool_and({column} RLIKE '{_DATE}') {given}"]
    if not tests:
        return {}
    values: Iterator[Any] = iter(texts.selectExpr(*[test for found in tests.values() for test in found]).head() or ())
    out: dict[str, str] = {}
    for name, found in tests.items():
        first = next(values)
        if len(found) == 1:
            out[name] = "STRING" if first else types[name]
        else:
            is_date = next(values)
            out[name] = "VOID" if first is None else "TIMESTAMP" if first else "DATE" if is_date else "STRING"
    return out


def _sql_name(kind: Any) -> str:
    return str(kind.simpleString()).upper()


def _widened(kind: str) -> str:
    """BIGINT for the smaller integers: a sample says little about the greatest value."""
    return "BIGINT" if kind in ("TINYINT", "SMALLINT", "INT") else kind


def _is_true(options: Options, wanted: str) -> bool:
    return any(name.lower() == wanted and value.lower() == "true" for name, value in options)
