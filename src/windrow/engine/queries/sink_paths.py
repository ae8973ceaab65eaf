"""What the paths of sinks and streams have to do with each other: no two queries mix, and no query feeds itself."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from windrow.catalog.definitions import StreamDef
from windrow.cql.statements import SinkClause
from windrow.dataplane.sinks import SinkMode, check_sink
from windrow.dataplane.sinks.files import file_name
from windrow.dataplane.sinks.modes import MODE
from windrow.dataplane.sinks.ownership import Claim
from windrow.dataplane.sinks.places import is_within
from windrow.dataplane.sinks.registry import target_of
from windrow.dataplane.sources.paths import paths_of
from windrow.engine.state import StreamState
from windrow.engine.ticks.couriers import run_errands
from windrow.errors import BindError, SinkError, SourceError

_GLOB = re.compile(r"[*?\[{]")
_LOCAL = re.compile(r"^file:(//(localhost)?)?/+", re.IGNORECASE)


@dataclass(frozen=True)
class QueryPaths:
    """What a standing query reads and writes: its streams, in lower case, its sink, and for the plan of a derived
    stream that stream (`into`, in lower case)."""

    name: str
    sink: SinkClause | None
    streams: frozenset[str]
    into: str | None = None


def check_paths(
    query: QueryPaths,
    claim: Claim,
    streams: Mapping[str, StreamState],
    others: Collection[QueryPaths],
    timeout_s: float | None,
    mode: SinkMode | None = None,
) -> list[Path]:
    """Check that a new query may write to its sink's path, and return the old output that `overwrite` deletes."""
    if query.sink is None:
        return []
    neighbours = neighbours_of(query, others)
    refuse_loop(query, streams, others)
    errand = run_errands([partial(check_sink, query.name, query.sink, claim, neighbours, mode)], timeout_s)[0]
    if not errand.has_ended:
        raise SinkError(
            f"the path of query '{query.name}' does not respond within {timeout_s:g} s (sink_timeout)",
            remedy="Repair its file system, or name another path.",
        )
    if errand.error is not None:
        raise errand.error
    return list[Path](errand.result)


def neighbours_of(query: QueryPaths, others: Iterable[QueryPaths]) -> set[str]:
    """The names of the files of other queries in the directory of this query's sink. Raises BindError if another query
    writes to the same files, or above or below this directory."""
    mine, names = _target(query), set[str]()
    for other in others if mine is not None else ():
        theirs = _target(other)
        if mine is None or theirs is None:
            continue
        if mine == theirs:
            raise BindError(
                f"query '{query.name}' would write to the same files as query '{other.name}'",
                remedy="Give it a path of its own.",
            )
        if mine[0] == theirs[0] and len(mine) == len(theirs):
            names.add(theirs[1])
        elif (len(theirs) > 1 and is_within(mine[0], theirs[0])) or (len(mine) > 1 and is_within(theirs[0], mine[0])):
            raise BindError(
                f"the paths of this query and of query '{other.name}' lie in each other: {mine[0]}, {theirs[0]}",
                remedy="Give each query a directory of its own, side by side.",
            )
    return names


def _target(query: QueryPaths) -> tuple[str, ...] | None:
    return None if query.sink is None else target_of(query.name, query.sink)


# -- sinks that streams read ---------------------------------------------------------------------------


def refuse_loop(query: QueryPaths, streams: Mapping[str, StreamState], others: Collection[QueryPaths]) -> None:
    """Raise if a stream that feeds the query would read the query's own answers, or could not read them properly."""
    for reader in streams.values():
        if query.sink is None or not reads_sink(reader.definition, query.name, query.sink):
            continue
        fed = query.streams & {reader.name.lower(), *_fed_by(reader, streams.values(), others)}
        if fed:
            direct = reader.name.lower() in fed
            through = "" if direct else f", whose answers feed stream '{streams[min(fed)].name}'"
            raise BindError(
                f"query '{query.name}' would feed itself: stream '{reader.name}' reads its sink's path{through}",
                remedy="Write to a path that no stream of this query reads.",
            )
        why = _unreadable(reader.definition, query.name, query.sink)
        if why is not None:
            raise BindError(why[0], remedy=why[1])


def refuse_unreadable(definition: StreamDef, queries: Iterable[QueryPaths]) -> None:
    """Raise if a new stream reads the output of a query in a way that would lose or spoil answers."""
    for query in queries:
        if query.sink is not None and reads_sink(definition, query.name, query.sink):
            why = _unreadable(definition, query.name, query.sink)
            if why is not None:
                raise SourceError(why[0], remedy=why[1])


def _unreadable(stream: StreamDef, query: str, sink: SinkClause) -> tuple[str, str] | None:
    """What is wrong, and the remedy, if a stream reads the output of a query; None if it can."""
    if sink.kind.lower() == "jsonl":
        return (
            f"stream '{stream.name}' reads the JSON lines file of query '{query}', which grows, and a stream reads each"
            " file once",
            "Use INTO parquet, which writes new files, and a stream of format 'parquet'; or another path.",
        )
    if dict(sink.options).get(MODE, "").lower() == SinkMode.VIEW.value:
        return (
            f"stream '{stream.name}' reads the Parquet file of query '{query}', which is replaced at every tick, and a"
            " stream reads each file once",
            "Use mode 'changes' or 'append', which write new files; or CREATE STREAM … AS SELECT; or another path.",
        )
    if dict(stream.source_options).get("format", "").lower() != "parquet":
        return (
            f"stream '{stream.name}' reads the Parquet files of query '{query}' in another format",
            "Give the stream the format 'parquet', or another path.",
        )
    return None


def _fed_by(stream: StreamState, streams: Iterable[StreamState], queries: Collection[QueryPaths]) -> set[str]:
    """The streams, in lower case, that the answers of a stream's queries reach, by way of files or as derived
    streams."""
    found, left, others = set[str](), [stream.name.lower()], list(streams)
    while left:
        name = left.pop()
        for query in queries:
            if name not in query.streams:
                continue
            reached = {query.into} if query.into is not None else set[str]()
            if query.sink is not None:
                written = query.sink
                reached |= {o.name.lower() for o in others if reads_sink(o.definition, query.name, written)}
            left += reached - found
            found |= reached
    return found


def reads_sink(stream: StreamDef, query: str, sink: SinkClause) -> bool:
    """Whether a stream from files reads what the sink of a query writes."""
    target = target_of(query, sink)
    if target is None or stream.statement.source.lower() != "files":
        return False
    written = target[0] if len(target) == 1 else os.path.join(target[0], f"{file_name(query)}-{0:012d}.parquet")
    return any(_covers(path, written) for path in input_paths(stream))


def input_paths(stream: StreamDef) -> list[str]:
    """The local paths that a stream from files reads: files, directories and globs."""
    paths = (
        re.sub(r"^file:(//(localhost)?)?/+", "/", path, count=1, flags=re.I) for path in paths_of(stream.source_options)
    )
    return [os.path.abspath(path) for path in paths if path and "://" not in path and "\0" not in path]


def _covers(pattern: str, file: str) -> bool:
    """Whether a path or glob names the file or a directory above it."""
    fixed = pattern[: m.start()] if (m := _GLOB.search(pattern)) else pattern
    head = fixed if m is None else fixed.rpartition(os.sep)[0]
    real = os.path.realpath(head or os.sep)
    if m is None:
        return is_within(file, real)
    try:
        expression = re.compile(re.escape(real.rstrip(os.sep)) + _glob_expression(pattern[len(head) :]))
    except re.error:
        return is_within(file, real)
    return any(expression.fullmatch(str(place)) for place in (Path(file), *Path(file).parents))


def _glob_expression(glob: str) -> str:
    """A regular expression for a glob as Hadoop reads it."""
    out, depth, at = "", 0, 0
    while at < len(glob):
        char = glob[at]
        if char == "[" and (end := glob.find("]", at + 2)) > 0:
            chosen = glob[at + 1 : end].replace("\\", "\\\\")
            out += f"[{'^' + chosen[1:] if chosen[0] in '!^' else chosen}]"
            at = end
        elif char == "\\" and at + 1 < len(glob):
            at += 1
            out += re.escape(glob[at])
        elif char == "{":
            out, depth = out + "(?:", depth + 1
        elif char == "}" and depth:
            out, depth = out + ")", depth - 1
        else:
            out += {"*": "[^/]*", "?": "[^/]", ",": "|" if depth else ","}.get(char) or re.escape(char)
        at += 1
    return out + ")" * depth
