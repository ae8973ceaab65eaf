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
    """What no two queries may have in common: the files that are written; None where there are none."""
    path = dict(clause.options).get("path")
    if path is None:
        return None
    place = os.path.realpath(path)
    return (place,) if clause.kind.lower() == "jsonl" else (place, file_name(query))


def check_path(query: str, clause: SinkClause) -> None:
    """Refuse a path that could not be written, when the query is created."""
    sink = open_sink(query, clause)
    if isinstance(sink, JsonLinesSink | ParquetSink):
        sink.check()


def file_name(query: str) -> str:
    """The query's name as a part of file names; a long one is cut, and told apart by a hash."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", query)
    return (
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{hashlib.sha1(query.encode()).hexdigest()[:8]}"
    )


def stage_name(query: str, path: str) -> str:
    """What the stages of lines are called by: they stand beside their file, where other queries may have theirs."""
    told = f"{query}\0{os.path.basename(path)}"
    return f"{file_name(query)}-{hashlib.sha1(told.encode()).hexdigest()[:8]}"


def open_sink(query: str, clause: SinkClause) -> Sink | StagingSink:
    """The sink of a query, its options checked."""
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
