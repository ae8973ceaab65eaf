"""Every answer of a run as tables, CSV, JSON lines or Parquet, on standard output or in files."""

from __future__ import annotations

import json
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TextIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyarrow.parquet import ParquetWriter
from rich.console import Console

from windrow.api import Windrow
from windrow.console.formats import SUFFIXES, AnswerFormat, AnswerOutput
from windrow.console.tables import WIDE, output, print_table
from windrow.dataplane.answers.finishing import plain
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.dataplane.sinks.files import file_name
from windrow.dataplane.sinks.jsonl import json_lines
from windrow.engine.plans.tables import answers_schema, changes_schema
from windrow.engine.ticks.delivery import delivered_schema
from windrow.errors import SinkError, first_line

PARQUET_ROWS = 100_000
"""The rows of a row group; smaller batches of answers are gathered."""


WINDOW_START = "window_start"
"""The first column of answers; changes begin with their op."""

_ALL = ""
"""In the place of a query's name: the writer of all queries."""

_ONE_QUERY_PER_FILE = (AnswerFormat.CSV, AnswerFormat.PARQUET)


class _Writer(Protocol):
    def write(self, query: str, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class AllAnswers:
    """Writes every answer that it is given, each query's in order. Threads may call `write`.

    Files are created at once, so that a path that cannot be written is found before anything runs. `schemas` has the
    columns of each query's answers. With `gather`, tables are printed at the end, one per query.
    """

    def __init__(self, format_: AnswerFormat, path: Path | None, schemas: Mapping[str, pa.Schema], gather: bool):
        self.error: SinkError | None = None
        self.is_cut_off = False
        self._path = path
        self._lock = threading.Lock()
        self._writers: dict[str, _Writer] = {}
        _check(format_, path, schemas)
        try:
            files = _files(format_, path, list(schemas))
            _check_new(files.values())
            for name, file in files.items():
                self._writers[name] = _writer(format_, file, name, schemas, gather)
        except OSError as error:
            self.abandon()
            raise _unwritable(path, error) from None

    def write(self, query: str, table: pa.Table) -> None:
        """Write rows of answers. An error ends the writing: see `error` and, if a pipe was closed, `is_cut_off`."""
        with self._lock:
            if table.num_rows and not self.has_ended:
                writer = self._writers[query if query in self._writers else _ALL]
                self._attempt(lambda: writer.write(query, table))

    def close(self) -> None:
        """Complete the files. Raise SinkError if an answer could not be written."""
        with self._lock:
            for writer in {id(writer): writer for writer in self._writers.values()}.values():
                self._attempt(writer.close)
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """Close the files after an error, which is the one to report."""
        with suppress(SinkError):
            self.close()

    @property
    def has_ended(self) -> bool:
        """Whether nothing more can be written."""
        return self.error is not None or self.is_cut_off

    def _attempt(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BrokenPipeError:
            self.is_cut_off = True
        except (OSError, pa.ArrowException) as error:
            self.error = self.error or _unwritable(self._path, error)


def _check(format_: AnswerFormat, path: Path | None, schemas: Mapping[str, pa.Schema]) -> None:
    """Raise SinkError if the format does not go with the path or the queries."""
    if format_ is AnswerFormat.PARQUET and path is None:
        raise SinkError("Parquet goes into files", remedy="Add --output answers.parquet, or a directory.")
    if _is_directory(path):
        return
    where = "standard output" if path is None else str(path)
    if format_ in _ONE_QUERY_PER_FILE and len(schemas) > 1:
        raise SinkError(
            f"{format_.value} has the columns of one query, and these go to {where}: {', '.join(schemas)}",
            remedy="Name a directory with --output, for a file per query; or use --format jsonl.",
        )
    taken = [name for name, schema in schemas.items() if "query" in schema.names]
    if format_ is AnswerFormat.JSONL and taken:
        raise SinkError(
            f"the answers of '{taken[0]}' have a column 'query', which in each line names the query",
            remedy="Name a directory with --output, for a file per query; or rename the column.",
        )


def _check_new(files: Iterable[Path | None]) -> None:
    known = next((file for file in files if file is not None and file.exists()), None)
    if known is not None:
        raise SinkError(
            f"{known} exists, and may have answers of another run", remedy="Remove it, or name another --output."
        )


def _is_directory(path: Path | None) -> bool:
    """Whether a path names a directory: it is one, or has no suffix."""
    return path is not None and (path.is_dir() or path.suffix.lower() not in SUFFIXES)


def _files(format_: AnswerFormat, path: Path | None, queries: list[str]) -> dict[str, Path | None]:
    """The file of each query, or one for all. None is standard output."""
    if path is None or not _is_directory(path):
        return {queries[0] if format_ in _ONE_QUERY_PER_FILE else _ALL: path}
    path.mkdir(parents=True, exist_ok=True)
    return {query: path / f"{file_name(query)}{format_.suffix}" for query in queries}


def _writer(
    format_: AnswerFormat, file: Path | None, query: str, schemas: Mapping[str, pa.Schema], gather: bool
) -> _Writer:
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    if format_ is AnswerFormat.PARQUET:
        assert file is not None
        return _Parquet(file, schemas[query])
    stream = None if file is None else open(file, "x", encoding="utf-8", newline="")
    if format_ is AnswerFormat.CSV:
        return _Csv(stream, schemas[query])
    return _JsonLines(stream, names_query=query == _ALL) if format_ is AnswerFormat.JSONL else _Tables(stream, gather)


def _unwritable(path: Path | None, error: Exception) -> SinkError:
    where = "standard output" if path is None else str(path)
    why = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
    return SinkError(f"the answers cannot be written to {where}: {why}", remedy="Name another --output.")


class _Text:
    """Text on a stream; None is standard output. Each batch is flushed, so that others can follow it."""

    def __init__(self, stream: TextIO | None):
        self._stream = stream

    def _put(self, text: str) -> None:
        stream = sys.stdout if self._stream is None else self._stream
        stream.write(text)
        stream.flush()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


class _Csv(_Text):
    """RFC 4180, times as ISO text in UTC, NULL as nothing; arrays and structs as JSON."""

    def __init__(self, stream: TextIO | None, schema: pa.Schema):
        super().__init__(stream)
        self._rows(schema.empty_table(), header=True)

    def write(self, query: str, table: pa.Table) -> None:
        self._rows(table, header=False)

    def _rows(self, table: pa.Table, header: bool) -> None:
        sink = pa.BufferOutputStream()
        csv.write_csv(_flat(table), sink, csv.WriteOptions(include_header=header))
        self._put(sink.getvalue().to_pybytes().decode())


class _JsonLines(_Text):
    """An object per row, as `INTO jsonl` writes it; in a file of several queries it begins with the query's name."""

    def __init__(self, stream: TextIO | None, names_query: bool):
        super().__init__(stream)
        self._names_query = names_query

    def write(self, query: str, table: pa.Table) -> None:
        lines = json_lines(AnswerBatch(query, table, ""))
        if self._names_query:
            head = f'{{"query":{json.dumps(query)},'
            lines = [head + line[1:] for line in lines]
        self._put("\n".join(lines) + "\n")


class _Tables(_Text):
    """Tables, one per batch, or with `gather` one per query at the end."""

    def __init__(self, stream: TextIO | None, gather: bool):
        super().__init__(stream)
        self._gathered: dict[str, list[pa.Table]] | None = {} if gather else None

    def write(self, query: str, table: pa.Table) -> None:
        if self._gathered is None:
            self._print(query, table)
        else:
            self._gathered.setdefault(query, []).append(plain(table))

    def close(self) -> None:
        for query, tables in (self._gathered or {}).items():
            self._print(query, pa.concat_tables(tables))
        super().close()

    def _print(self, query: str, table: pa.Table) -> None:
        console = output() if self._stream is None else Console(file=self._stream, highlight=False, width=WIDE)
        if table.column_names[0] != WINDOW_START:  # the changes of a continuous query
            count = table.num_rows
            print_table(console, table, f"{query}: {count:,} change{'' if count == 1 else 's'}")
            return
        windows = len(table.column("window_end").unique())
        if not pc.any(table.column("is_revision")).as_py():
            table = table.drop_columns(["is_revision"])
        title = f"{query}: {windows} window{'' if windows == 1 else 's'}"
        print_table(console, table, title)


class _Parquet:
    """A Parquet file. It has its name only once it is complete."""

    def __init__(self, file: Path, schema: pa.Schema):
        self._file = file
        self._part = file.with_name(f".{file.name}.part")
        self._schema = schema
        self._writer = ParquetWriter(self._part, schema)
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def write(self, query: str, table: pa.Table) -> None:
        self._waiting.append(plain(table).cast(self._schema))
        self._rows += table.num_rows
        if self._rows >= PARQUET_ROWS:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._rows = self._waiting, [], 0
        if waiting:
            self._writer.write_table(pa.concat_tables(waiting))

    def close(self) -> None:
        try:
            self._flush()
            self._writer.close()
            self._part.rename(self._file)
        except BaseException:
            self._part.unlink(missing_ok=True)
            raise


def _flat(table: pa.Table) -> pa.Table:
    """The table with columns that CSV can hold."""
    table = plain(table)
    columns = [_flat_column(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _flat_column(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind):
        text = pc.strftime(column.cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%S")
        return pc.binary_join_element_wise(text, "Z", "") if kind.tz else text
    if pa.types.is_nested(kind):
        return pa.array([None if value is None else json.dumps(value, default=str) for value in column.to_pylist()])
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else b64encode(value).decode() for value in column.to_pylist()])
    return column


def all_answers(wr: Windrow, queries: Sequence[str], wanted: AnswerOutput, gather: bool) -> AllAnswers:
    """A writer of the answers of these queries."""
    schemas = {query: _schema(wr, query) for query in queries}
    return AllAnswers(wanted.format, wanted.path, schemas, gather)


def _schema(wr: Windrow, query: str) -> pa.Schema:
    """The columns of what a query delivers: answers, or the changes of a continuous query."""
    plans = wr._engine.plans
    if plans.has(query):
        plan = plans.query(query).plan
        return answers_schema(plan) if plan.periodic else changes_schema(plan)
    return delivered_schema(*wr._engine.manager.query(query))


def earlier_answers(wr: Windrow, query: str) -> pa.Table:
    """The retained answers or changes of a query, as they were delivered."""
    if wr._engine.plans.has(query):
        found = wr.queries[query]
        return found.changes().arrow() if found.is_continuous else found.answers().arrow()
    stream, state = wr._engine.manager.query(query)
    if not stream.definition.revises:
        return wr.queries[query].answers().arrow()
    table = wr.queries[query].revisions().arrow()
    marked = table.append_column("is_revision", pc.greater(table.column("revision"), 0))
    return marked.select(delivered_schema(stream, state).names)
