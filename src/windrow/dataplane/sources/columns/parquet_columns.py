"""The columns of Parquet files, from their footers, and whether their types fit the declared ones.

A type fits if Spark reads it and every value keeps its meaning: an INT32 that holds 300 is no TINYINT, although Spark
would read it as 44.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.dataplane.ingest.lines import shown_path
from windrow.dataplane.sources.columns.heads import UNREADABLE, open_file
from windrow.dataplane.sources.columns.source_columns import FileColumns
from windrow.errors import SourceError
from windrow.types import SqlType

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_NANOSECONDS = (
    "Write it in microseconds, pandas and pyarrow by coerce_timestamps='us', or as a string: Spark does not read"
    " nanoseconds."
)


@dataclass(frozen=True)
class ParquetColumn:
    """A column of a file. `sql` is the column type to declare for it; None if there is none, for the reason `why`.
    `fits` are the other types that it can be declared as."""

    name: str
    parquet: str
    sql: str | None
    why: str = "Write it with a type that a stream can have."
    fits: tuple[str, ...] = ()
    decimal: tuple[int, int] | None = None
    """How many digits a DECIMAL must have before the point, and after it."""

    def is_fit(self, kind: SqlType) -> bool:
        if kind.is_decimal and self.decimal is not None:
            precision, scale = kind.decimal
            return precision - scale >= self.decimal[0] and scale >= self.decimal[1]
        return kind.name == self.sql or kind.name in self.fits


@dataclass(frozen=True)
class ParquetFile:
    """The columns of a file with rows. Columns of the same name, or that differ only in case, are all there."""

    uri: str
    columns: tuple[ParquetColumn, ...]

    def as_columns(self) -> FileColumns:
        return FileColumns(self.uri, {column.name: column.sql or column.parquet for column in self.columns})


def read_footers(spark: SparkSession, uris: Sequence[str]) -> list[ParquetFile]:
    """The columns of the files that have rows. Files that cannot be read are left out."""
    found: list[ParquetFile] = []
    schema: Any = None  # files in a row mostly have the same one
    columns: tuple[ParquetColumn, ...] = ()
    for uri in uris:
        try:
            with open_file(spark, uri) as file:
                footer = pq.read_metadata(file)
        except (*UNREADABLE, pa.ArrowException):
            continue
        if footer.num_rows:
            if schema is None or not footer.schema.equals(schema):
                schema, columns = footer.schema, columns_of(footer.schema)
            found.append(ParquetFile(uri, columns))
    return found


def columns_of(schema: Any) -> tuple[ParquetColumn, ...]:
    """The top-level columns of a Parquet schema."""
    found: dict[str, ParquetColumn] = {}
    for i in range(len(schema)):
        leaf = schema.column(i)
        if leaf.path == leaf.name and leaf.max_repetition_level == 0:
            found[f"{i} {leaf.name}"] = _column(leaf)
        else:
            name = leaf.path.split(".")[0]
            why = "A stream has no arrays, maps and structs: write its parts as columns of their own."
            found[f"nested {name}"] = ParquetColumn(name, "nested", None, why)
    return tuple(found.values())


def check_types(stream: StreamDef, files: Sequence[ParquetFile]) -> None:
    """Raise SourceError for a declared column that a file has with a type that does not fit, or twice."""
    by_name: dict[str, list[tuple[ParquetFile, ParquetColumn]]] = defaultdict(list)
    for file in files:
        for column in file.columns:
            by_name[column.name.lower()].append((file, column))
    for name, kind in stream.columns:
        alike = by_name[name.lower()]
        unfit = [(file, column) for file, column in alike if not column.is_fit(kind)]
        if unfit:
            raise _misfit(name, kind, *unfit[0], others=len(alike) - len(unfit))
        for (file, column), (other_file, other) in zip(alike, alike[1:], strict=False):
            if file is other_file:
                raise SourceError(
                    f"two columns of {shown_path(file.uri)} match '{name}': '{column.name}' and"
                    f" '{other.name}', and upper and lower case are the same",
                    remedy="Change the file: give one of them another name.",
                )


def _misfit(name: str, kind: SqlType, file: ParquetFile, column: ParquetColumn, others: int) -> SourceError:
    meant = f" ({column.sql})" if column.sql and column.sql != column.parquet else ""
    if column.sql is None:
        remedy = f"Change the file. {column.why}"
    elif others:
        remedy = (
            f"Change the file: in {others} other file{'' if others == 1 else 's'} of the micro-batch the type fits."
        )
    else:
        remedy = (
            f"Change the stream: drop it, and declare {quote_name(name)} {column.sql}, as the files are. Or, if {kind}"
            " is right, write the files with that type."
        )
    return SourceError(
        f"column '{name}' is declared {kind}, but is {column.parquet}{meant} in {shown_path(file.uri)}",
        remedy=f"{remedy} Nothing of the micro-batch was taken in; it is read again.",
    )


def _column(leaf: Any) -> ParquetColumn:
    logical = json.loads(leaf.logical_type.to_json())
    kind, physical = logical["Type"], str(leaf.physical_type)
    name = leaf.name
    parquet = physical if kind in ("None", "Undefined") else f"{physical} {_annotation(logical)}"
    if kind == "Null":
        return ParquetColumn(name, parquet, None, "It has no type, since all its values are null: write it with one.")
    if kind == "Timestamp":
        return _timestamp(name, parquet, logical)
    if kind == "Decimal":
        precision, scale = int(logical["precision"]), int(logical["scale"])
        return ParquetColumn(name, parquet, f"DECIMAL({precision},{scale})", decimal=(precision - scale, scale))
    if kind == "Int" or kind in ("None", "Undefined") and physical in ("INT32", "INT64"):
        bits = logical.get("bitWidth", 32 if physical == "INT32" else 64)
        return _integer(name, parquet, physical, bits, logical.get("isSigned", True))
    if (physical, kind) in _PLAIN:
        sql, fits = _PLAIN[physical, kind]
        return ParquetColumn(name, parquet, sql, fits=fits)
    return ParquetColumn(name, parquet, None)


_PLAIN: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("BOOLEAN", "None"): ("BOOLEAN", ()),
    ("FLOAT", "None"): ("FLOAT", ("DOUBLE",)),
    ("DOUBLE", "None"): ("DOUBLE", ()),
    ("BYTE_ARRAY", "None"): ("BINARY", ("STRING",)),
    ("BYTE_ARRAY", "String"): ("STRING", ("BINARY",)),
    ("BYTE_ARRAY", "Enum"): ("STRING", ("BINARY",)),
    ("BYTE_ARRAY", "JSON"): ("STRING", ("BINARY",)),
    ("BYTE_ARRAY", "BSON"): ("BINARY", ()),
    ("FIXED_LEN_BYTE_ARRAY", "None"): ("BINARY", ()),
    ("INT32", "Date"): ("DATE", ("TIMESTAMP_NTZ",)),
    ("INT96", "None"): ("TIMESTAMP", ()),
}
"""By physical and logical type: the type to declare, and others that fit."""


def _annotation(logical: dict[str, Any]) -> str:
    given = [f"{key}={value}" for key, value in logical.items() if key in ("isAdjustedToUTC", "timeUnit", "bitWidth")]
    given += [f"isSigned={logical['isSigned']}"] if "isSigned" in logical else []
    if logical["Type"] == "Decimal":
        given = [str(logical["precision"]), str(logical["scale"])]
    return f"{logical['Type']}({', '.join(given)})" if given else str(logical["Type"])


def _timestamp(name: str, parquet: str, logical: dict[str, Any]) -> ParquetColumn:
    if logical["timeUnit"] == "nanoseconds":
        return ParquetColumn(name, parquet, None, _NANOSECONDS)
    if logical["isAdjustedToUTC"]:
        return ParquetColumn(name, parquet, "TIMESTAMP")
    # Windrow's session is in UTC, where both mean the same.
    return ParquetColumn(name, parquet, "TIMESTAMP_NTZ", fits=("TIMESTAMP",))


def _integer(name: str, parquet: str, physical: str, bits: int, signed: bool) -> ParquetColumn:
    if bits == 64 and not signed:
        return ParquetColumn(name, parquet, "DECIMAL(20,0)")
    least = {8: 0, 16: 1, 32: 2, 64: 3}[bits] + (not signed)
    # Spark reads an unsigned 2^32 - 1 as the DOUBLE -1.
    fits = (*_INTEGERS[least:], *(("DOUBLE",) if least < 3 else ()))
    decimal = None if not signed else (10, 0) if physical == "INT32" else (20, 0)
    return ParquetColumn(name, parquet, _INTEGERS[least], fits=fits, decimal=decimal)
