"""Texts that are not UTF-8: such a record is malformed, and no text that leaves this module has a byte of that kind.

A malformed record of a file is reported in `__bad` with its place: the file, a row, and the text in hexadecimal, which
is safe in any form. The row is a number in Parquet; `line` means that the text is the line in the file, `fields` that
it was put together from the columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.dataplane.ingest.admission import BAD, record_sql
from windrow.dataplane.ingest.arrival import POSITION

FILE = f"{POSITION}1"
"""The column with the file of a row, in rows that come from files."""

ROW = "__row"
"""The column with the number of a row in its Parquet file, from 0."""

REPLACED = "\ufffd"
"""What Spark reads in CSV instead of bytes that are not text."""

_LINE, _FIELDS = "line", "fields"
_DATAFRAME = "dataframe"
_UNSAID = "''"


@dataclass(frozen=True)
class BadRecord:
    """A malformed record of a file. `row`: its number, if known. `is_line`: the text is the line in the file."""

    file: str
    row: int | None
    is_line: bool
    text: bytes


def unpacked(packed: str) -> BadRecord:
    """The record that `__bad` reports for a file."""
    file, row, text = packed.split("\n")
    return BadRecord(file, int(row) if row.isdigit() else None, row == _LINE, bytes.fromhex(text))


def is_placed(rows: DataFrame, stream: StreamDef) -> bool:
    """Whether the rows have their files, so that `__bad` reports the place of a record."""
    return stream.statement.source.lower() == "files" and FILE in rows.columns


def with_bad_text(rows: DataFrame, stream: StreamDef) -> DataFrame:
    """The rows with valid texts. Those that had another one are reported in `__bad`, as those are that do not fit."""
    if is_placed(rows, stream):
        form = dict(stream.source_options)["format"].lower()
        return {"json": _json, "csv": _csv, "parquet": _parquet}[form](rows, stream)
    return _repaired(rows, stream, record_sql(stream)) if has_unchecked_texts(rows, stream) else rows


def with_valid_text(rows: DataFrame, stream: StreamDef) -> DataFrame:
    """The rows with valid texts. `__bad` is not NULL in those that had another one, and says no more: Spark took 14 ms
    longer to analyse a job that could report records."""
    return _repaired(rows, stream, _UNSAID)


def has_unchecked_texts(rows: DataFrame, stream: StreamDef) -> bool:
    """Whether the rows have texts that nobody has checked: of Parquet, or of a user's DataFrame. Spark checks those of
    JSON and CSV; `feed` and `deposit` take in valid ones only."""
    source = stream.statement.source.lower()
    is_parquet = source == "files" and dict(stream.source_options)["format"].lower() == "parquet"
    return (is_parquet or source == _DATAFRAME) and BAD not in rows.columns and bool(text_columns(stream))


def are_valid(texts: Iterable[pa.ChunkedArray]) -> bool:
    """Whether all texts are UTF-8."""
    try:
        for text in texts:
            text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def readable(text: bytes) -> str:
    """The bytes as text; what is not UTF-8 or cannot be printed is shown as `\\xff`."""
    return text.decode("utf-8", "backslashreplace").translate(_CONTROLS)


_CONTROLS = {c: f"\\x{c:02x}" for c in (*range(32), 127) if chr(c) not in "\t\n\r"}


def text_columns(stream: StreamDef) -> list[str]:
    """The columns with texts, as SQL."""
    return [quote_name(name) for name, kind in stream.columns if kind.name == "STRING"]


def _packed(row: str, text: str) -> str:
    return f"concat_ws('\\n', {FILE}, {row}, hex({text}))"


def _with_bad(rows: DataFrame, bad: str) -> DataFrame:
    kept = [quote_name(name) for name in rows.columns if name != BAD]
    return rows.selectExpr(*kept, f"{bad} AS {BAD}")


def _json(rows: DataFrame, stream: StreamDef) -> DataFrame:
    return _with_bad(rows, f"CASE WHEN {BAD} IS NOT NULL THEN {_packed(repr(_LINE), BAD)} END")


def _csv(rows: DataFrame, stream: StreamDef) -> DataFrame:
    cases = f"WHEN {BAD} IS NOT NULL THEN {_packed(repr(_LINE), BAD)}"
    if text_columns(stream):
        replaced = " OR ".join(f"contains({text}, '{REPLACED}')" for text in text_columns(stream))
        cases += f" WHEN {replaced} THEN {_packed(repr(_FIELDS), record_sql(stream))}"
    return _with_bad(rows, f"CASE {cases} END")


def _parquet(rows: DataFrame, stream: StreamDef) -> DataFrame:
    packed = _packed(f"CAST({ROW} + 1 AS STRING)", record_sql(stream))
    return _repaired(rows, stream, packed) if text_columns(stream) else rows


def _repaired(rows: DataFrame, stream: StreamDef, bad: str) -> DataFrame:
    """The rows with what is not UTF-8 replaced, and `bad` reported for such rows."""
    texts = set(text_columns(stream))
    valid = " AND ".join(f"is_valid_utf8({text})" for text in text_columns(stream))
    names = [quote_name(name) for name in rows.columns if name != ROW]
    kept = [f"make_valid_utf8({name}) AS {name}" if name in texts else name for name in names]
    return rows.selectExpr(*kept, f"CASE WHEN NOT ({valid}) THEN {bad} END AS {BAD}")
