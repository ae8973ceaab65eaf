"""Columns that directories give to the files in them: `day` of `…/day=2026-03-01/a.json`.

As Spark's file source has it, only directories below a base count: the one that the stream reads, or that of the option
`basePath`.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.ingest.lines import shown_path
from windrow.dataplane.sources.paths import is_pattern, literal, paths_of, resolve, resolved, spark_path


def partition_base(stream: StreamDef) -> str | None:
    """The directory below which directories give columns; None if none does."""
    options = {name.lower(): value for name, value in stream.source_options}
    if options.get("recursivefilelookup", "").lower() == "true":
        return None
    if "basepath" in options:
        base = literal(resolve(options["basepath"]))
        return base.rstrip("/") if base else None
    path = spark_path(paths_of(resolved(stream.source_options)))
    return None if is_pattern(path) else path.rstrip("/")


def partition_columns(stream: StreamDef, uris: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By file: the declared columns that its directories give, the outermost first."""
    base = partition_base(stream)
    if base is None:
        return dict.fromkeys(uris, ())
    declared = {name.lower(): name for name, _ in stream.columns}
    return {uri: tuple(declared[n] for n in _names(shown_path(uri), base) if n in declared) for uri in uris}


def _has_base(stream: StreamDef) -> bool:
    """Whether the option `basePath` is given; Spark forgets it if the path is no pattern."""
    return any(name.lower() == "basepath" for name, _ in stream.source_options)


def _names(path: str, base: str) -> list[str]:
    """The columns that the directories of a path give, in lower case."""
    if not path.startswith(f"{base}/"):
        return []
    names: list[str] = []
    for part in reversed(path[len(base) + 1 :].split("/")[:-1]):
        if "=" in part:
            names.insert(0, unquote(part.partition("=")[0]).lower())
        elif names:
            break  # Spark looks no further
    return names


def are_shifted(columns: Sequence[str], stream: StreamDef, uris: Sequence[str]) -> bool:
    """Whether Spark's micro-batch of these files has values under wrong names. Spark puts the columns of directories
    last, and goes by position: `columns` are right only if the directories gave the same columns at its start."""
    given = set(partition_columns(stream, uris).values())
    if len(given) > 1 or given != {()} and _has_base(stream):
        return True
    last = [name for names in given for name in names]
    declared = [name for name, _ in stream.columns]
    known = {name.lower() for name in declared}
    found = [name.lower() for name in columns if name.lower() in known]
    return found != [name.lower() for name in (*(n for n in declared if n not in last), *last)]
