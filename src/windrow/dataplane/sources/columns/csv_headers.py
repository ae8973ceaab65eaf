"""CSV files with a header: their columns are matched by name, whatever their order in each file.

Spark matches the columns of a CSV file by position. So files whose header differs from the declared columns are read
with a schema in the order of their own header, one reader per different header, all in the one job.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.dataplane.ingest.admission import BAD
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.ingest.lines import shown_path
from windrow.dataplane.sources.columns.heads import UNREADABLE, read_head
from windrow.dataplane.sources.columns.source_columns import FileColumns
from windrow.dataplane.sources.files import configured, load_files, placed, with_base
from windrow.dataplane.sources.partitions import partition_columns
from windrow.errors import SourceError

_HEAD, _LONGEST = 1 << 16, 1 << 22
_OTHER = "__other"


@dataclass(frozen=True)
class CsvHeader:
    """The header of a file that has records."""

    uri: str
    names: tuple[str, ...]

    def as_columns(self) -> FileColumns:
        return FileColumns(self.uri, dict.fromkeys(name for name in self.names if name))


def has_header(stream: StreamDef) -> bool:
    options = _lower(stream)
    return options.get("format", "").lower() == "csv" and options.get("header", "").lower() == "true"


def read_headers(spark: SparkSession, stream: StreamDef, uris: Sequence[str]) -> list[CsvHeader]:
    """The headers of the files that have records. Files that cannot be read are left out."""
    options, found = _lower(stream), []
    for uri in uris:
        size, header = _HEAD, None
        while header is None and size <= _LONGEST:
            try:
                head = read_head(spark, uri, size)
            except UNREADABLE:
                break
            header = parse_header(head, options, len(head) < size)
            size *= 8
        if header:
            found.append(CsvHeader(uri, header))
    return found


def parse_header(head: bytes, options: Mapping[str, str], is_whole: bool) -> tuple[str, ...] | None:
    """The names in the first line that is not empty and no comment. Nothing, if no line follows it; None, if the head
    does not reach beyond it. `options` are Spark's, with names in lower case."""
    encoding = options.get("encoding", options.get("charset", "utf-8"))
    try:
        text = head.decode(encoding, "replace").removeprefix("\ufeff")
    except LookupError:
        return ()
    comment = options.get("comment", "\0")
    lines = re.split(re.escape(options["linesep"]) if "linesep" in options else r"\r\n|\n|\r", text)
    begin = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith(comment)), None)
    if begin is None:
        return () if is_whole else None
    rest = lines[begin:]
    names, used = _fields(rest, options) if options.get("multiline", "").lower() == "true" else (None, 1)
    if len(rest) <= used and not is_whole:
        return None
    has_records = any(line.strip() for line in rest[used:])
    return tuple(name.strip() for name in names or _fields(rest[:1], options)[0]) if has_records else ()


def _fields(lines: Sequence[str], options: Mapping[str, str]) -> tuple[list[str], int]:
    """The fields of the first record, and how many lines it takes."""
    separator = (options.get("sep") or options.get("delimiter") or ",").replace("\\t", "\t")
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    if len(separator) > 1:
        return [name.strip().removeprefix(quote).removesuffix(quote) for name in lines[0].split(separator)], 1
    reader = csv.reader(
        io.StringIO("\n".join(lines), newline=""),
        delimiter=separator,
        quotechar=quote or None,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        escapechar=None if escape in ("", quote) else escape,
    )
    try:
        return next(reader), reader.line_num
    except (csv.Error, StopIteration):
        return lines[0].split(separator), 1


def check_twice(stream: StreamDef, headers: Sequence[CsvHeader]) -> None:
    """Raise SourceError for a declared column that a header names twice."""
    for header in headers:
        names = [name.lower() for name in header.names]
        for name, _ in stream.columns:
            if names.count(name.lower()) > 1:
                raise SourceError(
                    f"the header of {shown_path(header.uri)} names '{name}' twice, and upper and lower case are the"
                    " same",
                    remedy="Change the file: give one of them another name.",
                )


def read_by_name(
    spark: SparkSession, stream: StreamDef, rows: DataFrame, uris: Sequence[str], headers: Sequence[CsvHeader]
) -> DataFrame:
    """The rows of a micro-batch with each column from the field that its file's header names. `rows` are those by
    position; they are right if every header is as declared."""
    declared = tuple(name.lower() for name, _ in stream.columns)
    by_file = {one.uri: tuple(n.lower() if n.lower() in declared else "" for n in one.names) for one in headers}
    alike: dict[_Alike, list[str]] = {}
    for uri, names in partition_columns(stream, uris).items():
        given = tuple(name.lower() for name in names)
        plain = tuple(name for name in declared if name not in given)
        alike.setdefault(_Alike(by_file.get(uri, plain), given), []).append(uri)
    if all(one.header == tuple(name for name in declared if name not in one.given) for one in alike):
        return rows
    return reduce(DataFrame.union, [_read(spark, stream, one, files) for one, files in alike.items()])


@dataclass(frozen=True)
class _Alike:
    """What files that one reader reads have in common: the header, without the names of undeclared columns; the
    declared columns that directories give. All names are in lower case."""

    header: tuple[str, ...]
    given: tuple[str, ...]


def _read(spark: SparkSession, stream: StreamDef, alike: _Alike, uris: Sequence[str]) -> DataFrame:
    """The rows of files that are alike."""
    header, given = alike.header, alike.given
    types = {name.lower(): kind.name for name, kind in stream.columns}
    fields = [
        f"{quote_name(name)} {types[name]}" if name in types and name not in given else f"{_OTHER}{i} STRING"
        for i, name in enumerate(header)
    ]
    fields += [f"{BAD} STRING", *(f"{quote_name(name)} {types[name]}" for name in given)]
    reader = configured(spark.read.schema(", ".join(fields)).format("csv"), stream)
    reader = reader.option("columnPruning", "false")  # else a line with too few or too many fields is not malformed
    frame = placed(load_files(with_base(reader, stream, given), uris), "csv")
    there = {*header, *given}
    # Spark refuses to read malformed records only. So if no declared column is there, NULL seems to depend on another.
    is_read = any(name in types and name not in given for name in header)
    null = "NULL" if is_read else f"CASE WHEN length({_OTHER}0) < 0 THEN {_OTHER}0 END"
    columns = [
        f"{quote_name(name.lower())} AS {quote_name(name)}"
        if name.lower() in there
        else f"CAST({null} AS {kind}) AS {quote_name(name)}"
        for name, kind in stream.columns
    ]
    return frame.selectExpr(*columns, BAD, *(name for name in frame.columns if name.startswith(POSITION)))


def _lower(stream: StreamDef) -> dict[str, str]:
    return {name.lower(): value for name, value in stream.source_options}
