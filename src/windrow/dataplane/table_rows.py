"""Rows for tables from files and from Spark DataFrames, as Arrow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from windrow.cql.names import quote_name
from windrow.cql.statements import Options
from windrow.dataplane.frames import translated
from windrow.dataplane.sources.paths import check_loaded, resolve
from windrow.errors import SourceError, TableError
from windrow.types import SqlType

_ENDS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_DEFAULTS = {"csv": {"header": "true", "mode": "FAILFAST"}, "json": {"mode": "FAILFAST"}, "parquet": {}}


def is_frame(rows: Any) -> bool:
    """Whether rows are a Spark DataFrame."""
    return isinstance(rows, DataFrame)


def frame_rows(df: Any) -> pa.Table:
    """The rows of a Spark DataFrame that is not a stream."""
    if df.isStreaming:
        raise SourceError(
            "a table takes a DataFrame that is not a stream",
            remedy="Make a stream of it, wr.stream(name, df, …), and CREATE TABLE … FROM STREAM name.",
        )
    with translated():
        return df.toArrow()


def format_of(path: str) -> str:
    """The format that a path's end names."""
    end = os.path.splitext(path.rstrip("/*"))[1].lower()
    if end not in _ENDS:
        raise SourceError(
            f"the path '{path}' does not tell its format", remedy="Write FORMAT csv, FORMAT parquet or FORMAT json."
        )
    return _ENDS[end]


def file_rows(
    spark: SparkSession, path: str, form: str, options: Options, columns: Sequence[tuple[str, SqlType]], table: str
) -> pa.Table:
    """The rows of files, with the columns of a table. CSV has a header unless an option says otherwise; then columns
    are taken in their order. Raises if a column is missing or a value does not fit its type."""
    given = {**_DEFAULTS[form], **({"sep": "\t"} if path.endswith(".tsv") else {}), **dict(options)}
    check_loaded(table, resolve(path))
    with translated():
        frame = spark.read.format(form).options(**given).load(resolve(path))
        names = {name.lower(): name for name in frame.columns}
        if form == "csv" and given["header"].lower() != "true":
            names = {name.lower(): found for (name, _), found in zip(columns, frame.columns, strict=False)}
        missing = [name for name, _ in columns if name.lower() not in names]
        if missing:
            raise SourceError(
                f"the files of '{path}' have no column '{missing[0]}', which table '{table}' has",
                remedy=f"They have: {', '.join(frame.columns)}.",
            )
        shown = [expression for name, kind in columns for expression in _cast(names[name.lower()], kind, name)]
        found = frame.selectExpr(*shown).toArrow()
    for name, kind in columns:
        if any(chunk.true_count for chunk in found.column(f"__bad {name}").chunks):
            raise TableError(
                f"a value in '{path}' does not fit column '{name}' of table '{table}', which is {kind}",
                remedy="Nothing was changed. Correct the file, or declare the column with another type.",
            )
    schema = pa.schema([(name, kind.arrow) for name, kind in columns])
    return found.select(schema.names).cast(schema)


def _cast(source: str, kind: SqlType, name: str) -> tuple[str, str]:
    """The column as its type, and whether the type cannot hold it."""
    value, bad = quote_name(source), quote_name(f"__bad {name}")
    cast = f"CAST({value} AS {kind})"
    misfit = f"({value} IS NOT NULL AND {cast} IS NULL)"
    if kind.is_integer or kind.is_decimal:
        misfit = f"({misfit} OR COALESCE(CAST(CAST({value} AS STRING) AS DOUBLE) <> CAST({cast} AS DOUBLE), FALSE))"
    return f"{cast} AS {quote_name(name)}", f"{misfit} AS {bad}"
