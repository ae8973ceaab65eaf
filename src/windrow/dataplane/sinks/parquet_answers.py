"""Reads back what `INTO parquet` wrote: the net rows. Also compacts a directory of many small files.

Files are `<query>-<number>.parquet`, ordered by number. A compacted file is `<query>-<number>-net.parquet`; its
metadata lists the files that it replaces, each with a digest. A reader skips those that still exist, so a crash between
writing the compacted file and removing them duplicates nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.dataplane.answers.revisions import GIVEN, OP, REVISION, net_places, net_rows
from windrow.dataplane.sinks.files import file_name
from windrow.dataplane.sinks.ownership import OUTPUT
from windrow.durable import sync
from windrow.errors import SinkError
from windrow.result import Result

_REPLACES = b"windrow.replaces"


@dataclass(frozen=True)
class _File:
    path: Path
    query: str
    number: int

    def replaces(self) -> dict[str, str]:
        """The names of the files that this one replaces, each with its digest."""
        names: dict[str, str] = json.loads((pq.read_schema(self.path).metadata or {}).get(_REPLACES, b"{}"))
        return names

    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def read(self) -> pa.Table:
        return pq.ParquetFile(self.path).read().replace_schema_metadata(None)


def read_answers(path: str | Path, query: str | None = None) -> Result:
    """The answers in a directory of `INTO parquet`: the net rows, in window order if answers are revised.

    `query` is needed if several queries write into the directory.
    """
    standing, _ = _listed(Path(path), query)
    table = _concatenated(standing)
    return Result(net_rows(table) if _is_revised(table) else table)


def compact_answers(path: str | Path, query: str | None = None) -> int:
    """Merge the files of a query into one with the net rows. Return how many files it replaced.

    This may run while the query runs; `read_answers` still applies later corrections. After a kill the answers are
    unchanged, and another call completes the work.
    """
    directory = Path(path)
    standing, leftover = _listed(directory, query)
    _remove(directory, leftover)
    if len(standing) < 2:
        return 0
    last = standing[-1]
    target = directory / f"{last.query}-{last.number:012d}-net.parquet"
    if target == last.path:  # only a file with a higher number can have come since
        raise SinkError(f"{target} is there already", remedy="Move away what is not Windrow's, and call it again.")
    table = _standing_rows(_concatenated(standing))
    digests = {file.path.name: file.digest() for file in standing}
    staged = directory / f".windrow-{last.query}-{last.number:012d}-net.staged"
    pq.write_table(table.replace_schema_metadata({_REPLACES: json.dumps(digests).encode()}), staged)
    sync(staged)
    os.replace(staged, target)
    sync(directory)
    _remove(directory, standing)
    return len(standing)


def _standing_rows(table: pa.Table) -> pa.Table:
    """The net rows, still with op and revision, since later files may take them back."""
    if not _is_revised(table):
        return table
    places, is_revised = net_places(table)
    rows = table.take(places)
    rows = rows.set_column(rows.column_names.index("is_revision"), "is_revision", pa.array(is_revised))
    assert rows.num_rows == 0 or rows.column(OP).unique().to_pylist() == [GIVEN] and REVISION in rows.column_names
    return rows


def _is_revised(table: pa.Table) -> bool:
    """Whether the rows correct each other. Changes of continuous queries have `op` too, and stay as they are."""
    return OP in table.column_names and REVISION in table.column_names


def _listed(directory: Path, query: str | None) -> tuple[list[_File], list[_File]]:
    """The current files in order, and those that another file replaces."""
    found = [
        _File(file, match["query"], int(match["number"]))
        for file in sorted(directory.glob("*.parquet"))
        if (match := OUTPUT.match(file.name)) and (query is None or match["query"] == file_name(query))
    ]
    names = sorted({file.query for file in found})
    if len(names) != 1:
        what = f"answers of {', '.join(names)}" if names else "no answers" + ("" if query is None else f" of '{query}'")
        raise SinkError(f"there are {what} in {directory}", remedy="Name the directory, and the query with query=.")
    replaced: dict[str, str] = {}
    for file in found:
        replaced |= file.replaces()
    gone = [f for f in found if f.path.name in replaced and f.digest() == replaced[f.path.name]]
    standing = [file for file in found if file not in gone]
    return sorted(standing, key=lambda file: (file.number, file.path.name)), gone


def _concatenated(files: Sequence[_File]) -> pa.Table:
    return pa.concat_tables([file.read() for file in files])


def _remove(directory: Path, files: Sequence[_File]) -> None:
    for file in files:
        file.path.unlink(missing_ok=True)
    if files:
        sync(directory)
