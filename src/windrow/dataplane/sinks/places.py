"""Which paths a sink takes: local files and directories, never a FIFO, a device, or a place in a state directory."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from windrow.errors import BindError, SinkError

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")
_SPECIAL = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def local_path(path: str) -> Path:
    """The absolute local path that a sink's option names. It is resolved once: a later chdir does not move the sink."""
    try:
        os.fsencode(path)
    except UnicodeError:
        raise BindError("the sink's path has characters that no file name has", remedy="Name another path.") from None
    if "\0" in path:
        raise BindError("the sink's path has a null byte in it", remedy="Name a path without it.")
    scheme = _SCHEME.match(path)
    if scheme is None:
        return Path(path).absolute()
    if scheme[1].lower() != "file" or re.match(r"file://(?!localhost/)[^/]", path, re.IGNORECASE):
        raise BindError(
            f"no sink writes to '{path}': sinks write local files",
            remedy="Name a local or mounted path; or write the batches yourself: wr.query(…, sink=object).",
        )
    return Path(re.sub(r"^file:(//(localhost)?)?/+", "/", path, count=1, flags=re.IGNORECASE))


def refused(query: str, path: Path, why: str, remedy: str) -> SinkError:
    """The error of a path that a query must not write to."""
    return SinkError(f"query '{query}' cannot write to {path}: {why}", remedy=remedy)


def refuse_special(query: str, path: Path) -> None:
    """Raise if the path is no place for a file or a directory. Raises OSError for a circle of links and the like."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if path.is_symlink():
            why = f"it is a symbolic link to {os.readlink(path)}, which does not exist"
            raise refused(query, path, why, "Remove the link, or create what it points to.") from None
        return
    what = next((name for test, name in _SPECIAL if test(mode)), None)
    if what is not None:
        raise refused(
            query, path, f"it is {what}", "Name a file (jsonl) or a directory (parquet); INTO console prints answers."
        )


def real_places(path: Path) -> set[str]:
    """The places where a sink at this path writes, without links: the target, and where the path itself stands."""
    return {os.path.realpath(path), os.path.join(os.path.realpath(path.parent), path.name)}


def is_within(place: str, directory: str) -> bool:
    return place == directory or place.startswith(directory.rstrip(os.sep) + os.sep)


def refuse_state(query: str, path: Path, state_dir: Path, is_directory: bool) -> None:
    """Raise if the path lies in a state directory, this one or another, or if it is a directory that holds this one."""
    mine, remedy = os.path.realpath(state_dir), "Name a path outside of it."
    for place in real_places(path):
        if is_within(place, mine):
            raise refused(query, path, f"it lies in the state directory {state_dir}", remedy)
        if is_directory and is_within(mine, place):
            raise refused(query, path, f"it holds the state directory {state_dir}", "Name a directory of its own.")
        for above in (Path(place), *Path(place).parents):
            if (above / "catalog.sqlite").exists() and (above / "lock").exists():
                raise refused(query, path, f"it lies in the state directory {above}", remedy)


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file without ever waiting: a FIFO in its place would block. Raises OSError for anything else."""
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file")
    return handle
