"""The JSON lines sink: one file, appended to exactly once. The commit holds the length at which an append starts."""

from __future__ import annotations

import errno
import json
import os
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from windrow.dataplane.answers.finishing import plain
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.dataplane.sinks.files import check_directory, reporting, sweep_stages
from windrow.dataplane.sinks.outputs import LinesOutput, may_sweep, take_output
from windrow.dataplane.sinks.ownership import Claim
from windrow.dataplane.sinks.places import open_regular, refuse_special
from windrow.durable import sync


class JsonLinesSink:
    """Stages new lines beside the target. Publishing truncates the target to the committed start, then appends.
    `replaces`: a stage is the whole content, and publishing puts it in the target's place."""

    def __init__(
        self, query: str, file_name: str, path: str | Path, claim: Claim | None = None, replaces: bool = False
    ):
        self._query = query
        self._name = file_name
        self._path = Path(path)
        self._claim = claim
        self._replaces = replaces
        self._is_taken = claim is None
        self.output = LinesOutput(query, self._path)

    def _staged(self, seq: int) -> Path:
        return self._path.parent / f".windrow-{self._name}-{seq:012d}.staged"

    def check(self) -> None:
        """Raise SinkError if the path cannot be written; called when the query is created."""
        with reporting(self._query, self._path, kept=False):
            refuse_special(self._query, self._path)
            check_directory(self._path.parent)
            self._size()
            if self._path.exists() and not os.access(self._path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _size(self) -> int:
        """The present length of the target."""
        if self._path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        refuse_special(self._query, self._path)
        return self._path.stat().st_size if self._path.exists() else 0

    def _take(self) -> None:
        """Before the first write: make sure that the file is this query's."""
        if not self._is_taken and self._claim is not None:
            take_output(self.output, self._claim)
            self._is_taken = True

    def stage(self, batch: AnswerBatch, seq: int) -> str:
        with reporting(self._query, self._path):
            start = self._size()
            self._take()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            staged = self._staged(seq)
            with open(staged, "w", encoding="utf-8") as out:
                out.writelines(line + "\n" for line in json_lines(batch))
                out.flush()
                os.fsync(out.fileno())
            sync(self._path.parent)
        return json.dumps({"seq": seq, "start": start})

    def publish(self, entry: str) -> None:
        position = json.loads(entry)
        staged = self._staged(position["seq"])
        with reporting(self._query, self._path):
            self._take()
            if not staged.exists():
                return
            if self._replaces:
                os.replace(staged, self._path)
                sync(self._path.parent)
                return
            with open(open_regular(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as out:
                out.truncate(min(position["start"], out.tell()))
                out.write(staged.read_bytes())
                out.flush()
                os.fsync(out.fileno())
            staged.unlink()
            sync(self._path.parent)

    def sweep(self) -> None:
        if may_sweep(self.output, self._claim):
            sweep_stages(self._path.parent, self._name)


def json_lines(batch: AnswerBatch) -> list[str]:
    """Each row as a JSON object, made by DuckDB: times as ISO text in UTC, decimals as numbers, NaN as null."""
    table = plain(batch.table)
    columns = ", ".join(_json_column(name, table.schema.field(name).type) for name in table.column_names)
    with _database().cursor() as connection:
        connection.register("answers", _naive(table))
        rows = connection.execute(f"SELECT to_json(struct_pack({columns}))::VARCHAR FROM answers").fetchall()
    return [row[0] for row in rows]


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One connection for all sinks: opening one costs more than writing a tick's answers."""
    return duckdb.connect(":memory:", config={"threads": 1})


def _naive(table: pa.Table) -> pa.Table:
    """Times as naive UTC; DuckDB would convert those with a zone to the machine's local time."""
    kinds = [_without_zones(field.type) for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def _without_zones(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_without_zones(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _without_zones(part.type)) for part in kind])
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind


def _json_column(name: str, kind: pa.DataType) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    return f"{quoted} := {_json_value(quoted, kind)}"


def _json_value(value: str, kind: pa.DataType, depth: int = 0) -> str:
    """The DuckDB expression whose JSON is the wanted one, applied to all parts of arrays and structs."""
    if pa.types.is_list(kind):
        one = f"e{depth}"
        return f"list_transform({value}, lambda {one}: {_json_value(one, kind.value_type, depth + 1)})"
    if pa.types.is_struct(kind):
        parts = (f'"{part.name}" := {_json_value(f"{value}.{part.name}", part.type, depth)}' for part in kind)
        return f"struct_pack({', '.join(parts)})"
    if pa.types.is_timestamp(kind):
        text = f"strftime({value}::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%f')"
        return f"{text} || 'Z'" if kind.tz else text
    if pa.types.is_floating(kind):
        return f"CASE WHEN isfinite({value}) THEN {value} END"
    return f"base64({value})" if pa.types.is_binary(kind) else value
