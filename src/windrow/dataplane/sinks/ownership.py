"""Which query writes to a path. A sink leaves a hidden mark beside its output, so that no other one mixes with it.

The mark names the state directory, the stream, the query and its columns. Only the query that they name may go on
writing there. Readers of the output skip the mark, as they skip all files whose names begin with a dot.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from windrow.catalog.lock import holder_of
from windrow.dataplane.sinks.places import open_regular, refused
from windrow.durable import sync
from windrow.errors import SinkError

OUTPUT = re.compile(r"^(?P<query>.+)-(?P<number>\d{12})(?P<net>-net)?\.parquet$")
STAGE = re.compile(r"^\.windrow-(?P<query>.+)-\d{12}(-net)?\.staged$")
MARK = re.compile(r"^\.(?P<name>.+)\.windrow$")
_LONGEST_MARK = 200
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class OutputOwner:
    """A query that writes to a path. `state` is the number of its state directory, which a copy shares. `mode` is that
    of a continuous query's sink."""

    state: int
    directory: str
    stream: int
    query: str
    columns: tuple[str, ...]
    mode: str | None = None

    def goes_on(self, other: OutputOwner) -> bool:
        """Whether this query continues the output of the other."""
        mine, theirs = (
            (o.state, o.stream, o.query.lower(), [c.lower() for c in o.columns], o.mode) for o in (self, other)
        )
        return mine == theirs


@dataclass(frozen=True)
class Claim:
    """A query's right to its output. `begun`: it has written there before, by the catalog."""

    owner: OutputOwner
    begun: bool = False


def mark_name(name: str) -> str:
    if len(os.fsencode(name)) > _LONGEST_MARK:
        name = f"{name[:40]}-{hashlib.sha1(os.fsencode(name)).hexdigest()}"
    return f".{name}.windrow"


def read_mark(mark: Path) -> OutputOwner | None:
    """The owner that a mark names; None if there is no mark, or an unreadable one."""
    try:
        with open(open_regular(mark, os.O_RDONLY), encoding="utf-8") as file:
            found = json.loads(file.read(_MOST_BYTES))
        return OutputOwner(
            int(found["state"]),
            str(found["directory"]),
            int(found["stream"]),
            str(found["query"]),
            tuple(map(str, found["columns"])),
            found.get("mode"),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_mark(mark: Path, owner: OutputOwner) -> None:
    """Write a mark durably, in one step."""
    written = mark.with_name(f"{mark.name}-{os.getpid()}")
    handle = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(asdict(owner), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(written, mark)
    sync(mark.parent)


def state_number(directory: Path) -> int | None:
    """The number of the state directory at a path; None if there is none."""
    try:
        uri = f"{(directory / 'catalog.sqlite').absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=1)) as catalog:
            found = catalog.execute("SELECT value FROM counters WHERE name = 'state'").fetchone()
        return None if found is None else int(found[0])
    except (sqlite3.Error, OSError, ValueError):
        return None


def refuse_copied(query: str, path: Path, mine: OutputOwner, other: OutputOwner) -> None:
    """Raise if the mark's state directory still exists elsewhere: then this one is a copy, not the moved original."""
    place = Path(other.directory)
    if other.state != mine.state or os.path.realpath(place) == os.path.realpath(mine.directory):
        return
    if state_number(place) == mine.state:
        raise refused(
            query,
            path,
            f"the state directory {place} writes there, and {mine.directory} is a copy of it",
            f"Open {place}; or DROP the query here and create it with another path; or remove {place} if this one"
            " replaces it.",
        )


def refuse_live(query: str, path: Path, mine: OutputOwner, other: OutputOwner | None) -> None:
    """Raise if a running process has the state directory that a mark names, unless it is this one."""
    if other is None or os.path.realpath(other.directory) == os.path.realpath(mine.directory):
        return
    holder = holder_of(Path(other.directory))
    if holder is not None:
        raise refused(
            query,
            path,
            f"query '{other.query}' of the state directory {other.directory} writes there, in process {holder}",
            "Name another path, or close that state directory first.",
        )


def not_ours(query: str, path: Path, mine: OutputOwner, file: str, other: OutputOwner | None) -> SinkError:
    """The error of a path with files that the query did not write; it names who did, if that is known."""
    remedy = "Name another path; or delete the old output: OPTIONS (path '…', overwrite 'true')"
    if other is None:
        who = ""
        remedy += "; or open the state directory that wrote it, to go on with its query."
    elif other.state == mine.state:
        who = f"; an earlier query '{other.query}' of this state directory wrote there"
        remedy += "."
    elif Path(other.directory, "catalog.sqlite").exists():
        who = f"; query '{other.query}' of the state directory {other.directory} wrote there"
        remedy += f"; or go on with that state directory, {other.directory}."
    else:
        who = f"; query '{other.query}' of the state directory {other.directory}, which is gone, wrote there"
        remedy += ". A state directory that you keep (--state, windrow.open(directory)) goes on with its output."
    return refused(query, path, f"it holds output that this query did not write ({file}){who}", remedy)


def gone(query: str, path: Path) -> SinkError:
    """The error of a query that has written to a path, where nothing is now."""
    return refused(
        query,
        path,
        "the query has written there before, and nothing is there now",
        "Start in the former working directory if the path is relative; or move the output back. To begin with empty"
        " output, create it: an empty file (jsonl) or directory (parquet). The answers are kept and written then.",
    )
