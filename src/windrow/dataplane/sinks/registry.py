"""The sinks that `INTO` names."""

from __future__ import annotations

import difflib
import os

from windrow.cql.statements import SinkClause
from windrow.dataplane.sinks.base import Sink, StagingSink
from windrow.dataplane.sinks.console import ConsoleSink
from windrow.dataplane.sinks.files import file_name, stage_name
from windrow.dataplane.sinks.jsonl import JsonLinesSink
from windrow.dataplane.sinks.modes import MODE, SinkMode, given_mode
from windrow.dataplane.sinks.ownership import Claim
from windrow.dataplane.sinks.parquet import ParquetSink
from windrow.dataplane.sinks.places import local_path
from windrow.errors import BindError

KINDS = ("console", "jsonl", "parquet")


def target_of(query: str, clause: SinkClause) -> tuple[str, ...] | None:
    """The files that the sink writes, which no two queries may share: a file, or a directory and the name of the files
    in it; None if there are none."""
    path = dict(clause.options).get("path")
    if path is None:
        return None
    place = os.path.realpath(local_path(path))
    return (place,) if clause.kind.lower() == "jsonl" else (place, file_name(query))


def open_sink(
    query: str, clause: SinkClause, claim: Claim | None = None, mode: SinkMode | None = None
) -> Sink | StagingSink:
    """The sink of a query, with its options checked. A file sink with a claim writes only to output that is its own.
    `mode` is that of a continuous query's sink; None: it gets answers to windows."""
    kind, options = clause.kind.lower(), dict(clause.options)
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise BindError(f"there is no sink '{clause.kind}'", remedy=f"{hint}Sinks: {', '.join(KINDS)}.")
    given_mode(query, clause, is_continuous=mode is not None)
    allowed = (*(() if kind == "console" else ("path", "overwrite")), *(() if mode is None else (MODE,)))
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise BindError(
            f"the sink {kind} has no option '{unknown[0]}'", remedy=f"It takes {', '.join(allowed) or 'none'}."
        )
    if kind == "console":
        return ConsoleSink(mode)
    if not options.get("path"):
        raise BindError(f"the sink '{clause.kind}' needs a path", remedy=f"INTO {kind} OPTIONS (path '…').")
    is_overwriting(clause)
    path, replaces = local_path(options["path"]), mode is SinkMode.VIEW
    if kind == "parquet":
        return ParquetSink(query, file_name(query), path, claim, replaces)
    return JsonLinesSink(query, stage_name(query, path.name), path, claim, replaces)


def is_overwriting(clause: SinkClause) -> bool:
    """Whether the sink's old output is deleted when the query is created."""
    text = dict(clause.options).get("overwrite", "false")
    if text.lower() not in ("true", "false"):
        raise BindError(f"the option overwrite is '{text}'", remedy="It takes 'true' or 'false'.")
    return text.lower() == "true"
