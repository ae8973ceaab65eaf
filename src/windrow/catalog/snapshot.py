"""A private copy of a catalog that another process may be writing. It takes no lock and writes nothing there.

SQLite's own read-only connections create `-wal` and `-shm` files beside a catalog that is closed, and change those of
one that is open. So the files are read as bytes, and SQLite recovers the copy elsewhere. The copy is that of a commit
if the write-ahead log was not begun anew in between: then it has every page that a checkpoint may have been writing.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from windrow.catalog.lock import is_open_here
from windrow.catalog.store import MIGRATIONS, Catalog, read_migrations
from windrow.errors import ReadOnlyError, StateError

CATALOG = "catalog.sqlite"
_HEADER_BYTES = 32
"""The header of a write-ahead log has random numbers that change when the log is begun anew."""

_ATTEMPTS = 200
_PAUSE_S = 0.01
_SETTLED_S = 0.1
"""Times of files are coarse: a file that changed less than this ago may change again and keep its time."""

_Stat = tuple[int, int, int] | None


class CatalogSnapshot(Catalog):
    """A catalog as of one commit, in memory. An older schema is migrated there. Writing raises ReadOnlyError."""

    def __init__(self, path: Path | str, migrations: Path = MIGRATIONS):
        self.path = Path(path)
        self._lock = threading.RLock()
        self._current = None
        self._open: sqlite3.Connection | None = None
        self._steps = read_migrations(migrations)
        self._seen: tuple[_Stat, _Stat] | None = None
        with self._translated():
            now = _stat(self.path), _stat(_log(self.path))
            self._open = _copy(self.path)
            self._finish(now)

    def refresh(self) -> bool:
        """Replace the copy if the catalog has changed. Return whether it has."""
        with self._lock, self._translated():
            now = _stat(self.path), _stat(_log(self.path))
            before = self._connection
            if now == self._seen:
                return False
            self._open = _copy(self.path)
            before.close()
            self._finish(now)
            return True

    def _finish(self, seen: tuple[_Stat, _Stat]) -> None:
        """Make a new copy usable."""
        self._connection.row_factory = sqlite3.Row
        self._migrate(self._steps)
        self._seen = seen if _is_settled(seen) else None

    @contextmanager
    def transaction(self) -> Iterator[Catalog]:
        raise ReadOnlyError(
            f"the state directory {self.path.parent} is open read-only", remedy="Open it without read_only."
        )
        yield self


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _stat(file: Path) -> _Stat:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_settled(stats: tuple[_Stat, _Stat]) -> bool:
    latest_ns = max((found[2] for found in stats if found is not None), default=0)
    return time.time_ns() - latest_ns > _SETTLED_S * 1e9


def _copy(path: Path) -> sqlite3.Connection:
    """The catalog in memory, as of one commit."""
    if is_open_here(path.parent):
        # To close a plain file of this process would drop the locks that SQLite has on it. SQLite knows this.
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as source:
            return _in_memory(source)
    for _ in range(_ATTEMPTS):
        files = _read(path)
        if files is not None:
            return _recovered(*files)
        time.sleep(_PAUSE_S)
    raise StateError(f"{path} changes too quickly to be read", remedy="Try again.")


def _read(path: Path) -> tuple[bytes, bytes] | None:
    """The catalog and its write-ahead log; None if they may not belong together."""
    before, header = _stat(path), _header(path)
    try:
        pages = path.read_bytes()
        log = _read_if_there(_log(path))
    except FileNotFoundError:
        raise StateError(
            f"{path.parent} is not a state directory: it has no {path.name}",
            remedy="Name one that windrow.open or `windrow run` made.",
        ) from None
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}", remedy="Give this user read access.") from error
    if not header == log[:_HEADER_BYTES] == _header(path):
        return None
    return (pages, log) if header or _stat(path) == before else None


def _header(path: Path) -> bytes:
    return _read_if_there(_log(path), _HEADER_BYTES)


def _read_if_there(file: Path, size: int = -1) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read(size)
    except FileNotFoundError:
        return b""


def _recovered(pages: bytes, log: bytes) -> sqlite3.Connection:
    with tempfile.TemporaryDirectory(prefix="windrow-read-") as folder:
        copy = Path(folder, CATALOG)
        copy.write_bytes(pages)
        _log(copy).write_bytes(log)
        with closing(sqlite3.connect(copy)) as source:
            return _in_memory(source)


def _in_memory(source: sqlite3.Connection) -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        source.backup(memory)
    except BaseException:
        memory.close()
        raise
    return memory
