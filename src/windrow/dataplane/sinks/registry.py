"""The sinks that `INTO` names."""

from __future__ import annotations

import difflib
import hashlib
import os
import re

from windrow.cql.statements import SinkClause
from windrow.dataplane.sinks.base import Sink, StagingSink
from windrow.dataplane.sinks.console import ConsoleSink
from windrow.dataplane.sinks.jsonl import JsonLinesSink
from windrow.dataplane.sinks.parquet import ParquetSink
from windrow.errors import BindError

KINDS = ("console", "jsonl", "parquet")
LONGEST_NAME = 100


def target_of(query: str, clause: SinkClause) -> tuple[str, ...] | None:
    """The files that the sink writes, which no two queries may share; None if there are none."""
    path = dict(clause.options).get("path")
    if path is None:
        return None
    place = os.path.realpath(path)
    return (place,) if clause.kind.lower() == "jsonl" else (place, file_name(query))


def check_path(query: str, clause: SinkClause) -> None:
    """Raise SinkError if the sink's path cannot be written."""
    sink = open_sink(query, clause)
    if isinstance(sink, JsonLinesSink | ParquetSink):
        sink.check()


def file_name(query: str) -> str:
    """The query's name as a part of file names. A long one is cut and distinguished by a hash."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", query)
    return (
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{hashlib.sha1(query.encode()).hexdigest()[:8]}"
    )


def stage_name(query: str, path: str) -> str:
    """The name of the stages of a JSON lines file. It includes the file's name, since other queries may stage in the
    same directory."""
    text = f"{query}\0{os.path.basename(path)}"
    return f"{file_name(query)}-{hashlib.sha1(text.encode()).hexdigest()[:8]}"


def open_sink(query: str, clause: SinkClause) -> Sink | StagingSink:
    """The sink of a query, with its options checked."""
    kind, options = clause.kind.lower(), dict(clause.options)
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise BindError(f"there is no sink '{clause.kind}'", remedy=f"{hint}Sinks: {', '.join(KINDS)}.")
    allowed = set() if kind == "console" else {"path"}
    unknown = sorted(set(options) - allowed)
    if unknown:
        raise BindError(
            f"the sink {kind} has no option '{unknown[0]}'", remedy=f"It takes {', '.join(allowed) or 'none'}."
        )
    if kind == "console":
        return ConsoleSink()
    if not options.get("path"):
        raise BindError(f"the sink '{clause.kind}' needs a path", remedy=f"INTO {kind} OPTIONS (path '…').")
    path = options["path"]
    if kind == "parquet":
        return ParquetSink(query, file_name(query), path)
    return JsonLinesSink(query, stage_name(query, path), path)
