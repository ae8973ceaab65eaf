"""JSON lines: one file, appended to. Exactly once: an append is committed with the length it starts at."""

from __future__ import annotations

import errno
import json
import os
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from windrow.dataplane.answers import plain
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.dataplane.sinks.files import check_directory, reporting, sweep_stages
from windrow.durable import sync


class JsonLinesSink:
    """Stages the new lines beside the target; publishing truncates the target to where they begin and appends."""

    def __init__(self, query: str, file_name: str, path: str):
        self._query = query
        self._name = file_name
        self._path = Path(path)

    def _staged(self, seq: int) -> Path:
        return self._path.parent / f".windrow-{self._name}-{seq:012d}.staged"

    def check(self) -> None:
        """Refuse a path that could not be written, before there are answers."""
        with reporting(self._query, self._path, kept=False):
            check_directory(self._path.parent)
            self._size()
            if self._path.exists() and not os.access(self._path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _size(self) -> int:
        """The length of what is there already."""
        if self._path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return self._path.stat().st_size if self._path.exists() else 0

    def stage(self, batch: AnswerBatch, seq: int) -> str:
        with reporting(self._query, self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            start = self._size()
            staged = self._staged(seq)
            with open(staged, "w", encoding="utf-8") as out:
                out.writelines(line + "\n" for line in json_lines(batch))
                out.flush()
                os.fsync(out.fileno())
            sync(self._path.parent)
        return json.dumps({"seq": seq, "start": start})

    def publish(self, entry: str) -> None:
        told = json.loads(entry)
        staged = self._staged(told["seq"])
        with reporting(self._query, self._path):
            if not staged.exists():
                return
            with open(self._path, "ab") as out:
                out.truncate(min(told["start"], out.tell()))
                out.write(staged.read_bytes())
                out.flush()
                os.fsync(out.fileno())
            staged.unlink()
            sync(self._path.parent)

    def sweep(self) -> None:
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
    """One for all the sinks: to open one costs more than to print a tick's answers."""
    return duckdb.connect(":memory:", config={"threads": 1})


def _naive(table: pa.Table) -> pa.Table:
    """Times as naive UTC: DuckDB would turn those with a zone into the machine's local time."""
    kinds = [pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def _json_column(name: str, kind: object) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    text = str(kind)
    if text.startswith("timestamp"):
        value = f"strftime({quoted}::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%f')"
        value = f"{value} || 'Z'" if "UTC" in text else value
        return f"{quoted} := {value}"
    if text in ("double", "float"):
        return f"{quoted} := CASE WHEN isfinite({quoted}) THEN {quoted} END"
    if text == "binary":
        return f"{quoted} := base64({quoted})"
    return f"{quoted} := {quoted}"
