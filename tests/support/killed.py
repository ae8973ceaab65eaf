"""A directory in use, copied as a kill would leave it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


def copy_as_killed(root: Path, copy: Path) -> None:
    """Copy a directory at one moment: again and again, until nothing in it has changed meanwhile. Not the lock of the
    state, which a kill would free."""
    while True:
        before = _files(root)
        with contextlib.suppress(shutil.Error, FileNotFoundError):
            shutil.copytree(root, copy, ignore=shutil.ignore_patterns("lock"))
            if _files(root) == before:
                return
        shutil.rmtree(copy, ignore_errors=True)


def _files(root: Path) -> dict[str, tuple[int, int]]:
    """The size and the time of change of each file."""
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                told = os.stat(os.path.join(directory, name))
                found[os.path.join(directory, name)] = (told.st_size, told.st_mtime_ns)
    return found
