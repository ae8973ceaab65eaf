"""Shared by the file sinks: names of files, checking the path before anything is written, errors, and sweeping."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from windrow.errors import SinkError

LONGEST_NAME = 100
_IN_THE_WAY = "A file stands where a directory is needed: name another path, or move the file away."
_ACCESS = "Give this user write access, or name another path."
_SPACE = "Free space."
_REMEDIES = {
    errno.EISDIR: "Name a file, not a directory, or move the directory away.",
    errno.EEXIST: _IN_THE_WAY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EACCES: _ACCESS,
    errno.EPERM: _ACCESS,
    errno.EROFS: _ACCESS,
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.ELOOP: "Its symbolic links lead in a circle: mend them, or name another path.",
}


def file_name(query: str) -> str:
    """The query's name as a part of file names. A long one is cut and distinguished by a hash."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", query)
    return (
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{hashlib.sha1(query.encode()).hexdigest()[:8]}"
    )


def stage_name(query: str, name: str) -> str:
    """The name of the stages of a JSON lines file. It includes the file's name, since other queries may stage in the
    same directory."""
    text = f"{query}\0{name}"
    return f"{file_name(query)}-{hashlib.sha1(text.encode()).hexdigest()[:8]}"


@contextmanager
def reporting(query: str, path: Path, kept: bool = True) -> Iterator[None]:
    """Turn OSError into SinkError. `kept`: the message adds that answers wait until the path works."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "Repair the path, or name another.")
        raise SinkError(
            f"query '{query}' cannot write to {path}: {error.strerror or error}",
            remedy=f"{remedy} The answers are kept and written then." if kept else remedy,
        ) from error


def check_directory(directory: Path) -> None:
    """Raise the OSError that creating the directory or writing into it would raise, without creating anything."""
    place = directory.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def sweep_stages(directory: Path, name: str) -> None:
    """Remove a query's stages. A failure does no harm, since stages are overwritten."""
    with suppress(OSError):
        for leftover in stages_of(directory, name):
            leftover.unlink(missing_ok=True)


def stages_of(directory: Path, name: str) -> list[Path]:
    return sorted(directory.glob(f".windrow-{name}-{'[0-9]' * 12}.staged"))
