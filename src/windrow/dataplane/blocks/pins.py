"""Pins: files that are read stay on disk, though the catalog has dropped them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path


class FilePins:
    """Counts who reads each file. Threads may share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: Counter[str] = Counter()
        self._dropped: dict[str, Callable[[Path], None]] = {}

    def pin(self, files: Iterable[str]) -> Callable[[], None] | None:
        """Keep these files until the returned function is called; None if one of them is gone already."""
        paths = tuple(files)
        with self._lock:
            self._readers.update(paths)
        release = self._releasing(paths)
        if all(Path(path).exists() for path in paths):
            return release
        release()
        return None

    def _releasing(self, paths: tuple[str, ...]) -> Callable[[], None]:
        is_held = threading.Lock()

        def release() -> None:
            if is_held.acquire(blocking=False):  # the first call alone
                self._release(paths)

        return release

    def _release(self, paths: tuple[str, ...]) -> None:
        with self._lock:
            self._readers.subtract(paths)
            free = [path for path in paths if self._readers[path] <= 0]
            for path in free:
                del self._readers[path]
                remove = self._dropped.pop(path, None)
                if remove is not None:
                    remove(Path(path))

    def remove(self, file: Path, remove: Callable[[Path], None]) -> None:
        """Remove a file that was dropped: now, or when nobody reads it any more."""
        with self._lock:
            if self._readers[str(file)] > 0:
                self._dropped[str(file)] = remove
                return
            del self._readers[str(file)]
            remove(file)  # within the lock: who pins it later must find it gone

    @property
    def count(self) -> int:
        """How many files are pinned."""
        with self._lock:
            return len(self._readers)

    @property
    def waiting(self) -> int:
        """How many dropped files wait for their readers."""
        with self._lock:
            return len(self._dropped)
