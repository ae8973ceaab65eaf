"""The catalog's store: one SQLite file, opened through numbered migrations, written in whole transactions.

It knows no stream and no query, only how to commit: a commit is one transaction that is either wholly on
the disk or not at all (WAL, synchronous=FULL), and what must follow a commit, such as deleting the files
it dropped, is a hook that runs after it and never after a rollback.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow.durable import sync
from windrow.errors import StateError

MIGRATIONS = Path(__file__).parent / "migrations"

Params = Sequence[Any] | Mapping[str, Any]

_MIGRATION_NAME = re.compile(r"^(?!0000)(\d{4})_([a-z0-9_]+)\.sql$")

_DAMAGE = ("not a database", "malformed", "disk i/o error", "unable to open", "unsupported file format")


@dataclass(frozen=True)
class Migration:
    """One numbered step of the schema. Once released it never changes: the checksum holds us to that."""

    version: int
    name: str
    sql: str
    checksum: str

    def __post_init__(self) -> None:
        if self.version < 1:
            raise ValueError("migrations are numbered from 1")


def read_migrations(folder: Path) -> tuple[Migration, ...]:
    """The migrations `NNNN_name.sql` of a folder, in order, without gaps from 0001.

    The checksum is of the text with line ends made `\\n`, so that a checkout's line ends do not matter.
    """
    found: list[Migration] = []
    for file in sorted(folder.glob("*.sql")):
        match = _MIGRATION_NAME.match(file.name)
        if match is None:
            raise StateError(
                f"the migration {file.name} is not named NNNN_name.sql",
                remedy="Rename it, with the next free number.",
            )
        sql = file.read_text(encoding="utf-8").replace("\r\n", "\n")
        checksum = hashlib.sha256(sql.encode()).hexdigest()
        found.append(Migration(int(match[1]), match[2], sql, checksum))
    if not found:
        raise StateError(
            f"there are no migrations in {folder}",
            remedy="The installation is incomplete: install Windrow again.",
        )
    for expected, migration in enumerate(found, start=1):
        if migration.version != expected:
            raise StateError(
                f"{migration.version:04d}_{migration.name} stands in the place of migration {expected:04d}",
                remedy="Number the migrations 0001, 0002, … without gaps; or install Windrow again.",
            )
    return tuple(found)


class _Transaction:
    """What a transaction in flight remembers: its thread, its hooks, and whether it can still commit."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.hooks: list[Callable[[], None]] = []
        self.failure: StateError | None = None


class Catalog:
    """One connection to the catalog, shared by all threads of the process.

    A transaction holds the connection until it ends, so other threads' reads wait and see only what is
    committed. Writing is possible in a transaction only. Misuse by the calling code (nesting, writing
    outside) is a RuntimeError; trouble with the file is a StateError with its remedy.
    """

    def __init__(self, path: Path | str, migrations: Path = MIGRATIONS, busy_timeout_s: float = 30.0):
        self.path = Path(path)
        self._lock = threading.RLock()
        self._current: _Transaction | None = None
        self._open: sqlite3.Connection | None = None
        steps = read_migrations(migrations)
        with self._translated():
            self._open = sqlite3.connect(
                self.path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translated():
                self._prepare()
                self._migrate(steps)
        except BaseException:
            self.close()
            raise

    # -- reading -------------------------------------------------------------------------------------

    def rows(self, sql: str, params: Params = ()) -> list[sqlite3.Row]:
        """All rows of a SELECT; within a transaction it sees the transaction's own writes."""
        with self._lock, self._translated():
            return self._connection.execute(sql, params).fetchall()

    def row(self, sql: str, params: Params = ()) -> sqlite3.Row | None:
        """The first row, or None."""
        with self._lock, self._translated():
            cursor = self._connection.execute(sql, params)
            try:
                found: sqlite3.Row | None = cursor.fetchone()
            finally:
                cursor.close()
            return found

    def value(self, sql: str, params: Params = ()) -> Any:
        """The first column of the first row, or None where there is no row."""
        found = self.row(sql, params)
        return None if found is None else found[0]

    # -- writing -------------------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        """Whether the calling thread is inside `transaction()`."""
        current = self._current
        return current is not None and current.thread == threading.get_ident()

    def execute(self, sql: str, params: Params = ()) -> sqlite3.Cursor:
        """Run one statement in the transaction of this thread; refused outside of one."""
        with self._lock:
            self._transaction_in_flight("execute")
            with self._translated():
                return self._connection.execute(sql, params)

    def executemany(self, sql: str, params: Iterable[Params]) -> sqlite3.Cursor:
        """Run one statement once per member of `params`, in the transaction of this thread."""
        with self._lock:
            self._transaction_in_flight("executemany")
            with self._translated():
                return self._connection.executemany(sql, params)

    def on_commit(self, hook: Callable[[], None]) -> None:
        """Have `hook` called once this thread's transaction is committed; a rollback forgets it."""
        self._transaction_in_flight("on_commit").hooks.append(hook)

    @contextmanager
    def transaction(self) -> Iterator[Catalog]:
        """BEGIN IMMEDIATE … COMMIT around the block; any exception rolls all of it back and goes on up.

        Hooks run after COMMIT, in order, with the connection free again (they may open a transaction of
        their own). A hook that fails does not keep the others from running; the first failure is then
        raised, and the commit stands.
        """
        with self._lock:
            if self._current is not None:
                raise RuntimeError("a catalog transaction is open in this thread: transactions do not nest")
            connection = self._connection
            current = _Transaction()
            try:
                self._current = current
                with self._translated():
                    connection.execute("BEGIN IMMEDIATE")
                yield self
                self._commit(current)
            except BaseException:
                self._rollback()
                raise
            finally:
                self._current = None
        _run_hooks(current.hooks)

    def close(self) -> None:
        """Close the connection; again is harmless. Refused inside a transaction."""
        with self._lock:
            if self._current is not None:
                raise RuntimeError("the catalog cannot be closed inside a transaction")
            if self._open is not None:
                self._open.close()
                self._open = None

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- within --------------------------------------------------------------------------------------

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            raise StateError(f"the catalog {self.path} is closed", remedy="Open the state directory again.")
        return self._open

    def _transaction_in_flight(self, what: str) -> _Transaction:
        """The transaction of this thread. One that SQLite has ended by itself takes no more statements:
        they would be committed one by one, without those before them."""
        current = self._current
        if current is None or current.thread != threading.get_ident():
            raise RuntimeError(f"Catalog.{what} belongs inside `with catalog.transaction():`")
        if current.failure is not None:
            raise current.failure
        return current

    def _commit(self, current: _Transaction) -> None:
        if current.failure is not None:
            raise current.failure
        with self._translated():
            self._connection.execute("COMMIT")

    def _rollback(self) -> None:
        """Undo what is left to undo; after some failures SQLite has rolled back by itself."""
        if self._open is not None and self._open.in_transaction:
            # The failure that led here is the one to report. What a ROLLBACK that fails leaves in the
            # write-ahead log has no commit mark, and the next open passes it over.
            with suppress(sqlite3.Error):
                self._open.execute("ROLLBACK")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Give SQLite's complaints about the file our words; a StateError dooms the transaction in flight.

        Mistakes in SQL and broken constraints are the caller's and pass as they are.
        """
        try:
            yield
        except sqlite3.DatabaseError as error:
            state_error = _as_state_error(self.path, error)
            if state_error is None:
                raise
            if self._current is not None:
                self._current.failure = state_error
            raise state_error from error

    def _prepare(self) -> None:
        connection = self._connection
        connection.row_factory = sqlite3.Row
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StateError(
                f"{self.path} cannot be written ahead: SQLite gives journal mode '{mode}' for 'wal'",
                remedy="Put the state directory on a local file system.",
            )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise _damaged(self.path, str(verdict))

    def _migrate(self, steps: tuple[Migration, ...]) -> None:
        applied = self._applied()
        if applied is None:
            self._check_empty()
        versions = [] if applied is None else [version for version, _ in applied]
        if versions != list(range(1, len(versions) + 1)):
            raise _damaged(self.path, f"it records migrations {versions}")
        if len(versions) > len(steps):
            raise StateError(
                f"{self.path} has schema version {len(versions)}; this Windrow knows them up to {len(steps)}",
                remedy="Open it with the newer Windrow that wrote it, or use another state directory.",
            )
        for step, (version, checksum) in zip(steps, applied or (), strict=False):
            if step.checksum != checksum:
                raise StateError(
                    f"migration {version:04d}_{step.name} is not the one that {self.path} was made with",
                    remedy="Restore the migration's text, and put the change into a new migration; "
                    "or install the Windrow that made this state directory.",
                )
        for step in steps[len(versions) :]:
            self._apply(step)
        if not versions:
            sync(self.path.parent)

    def _applied(self) -> list[tuple[int, str]] | None:
        """(version, checksum) of each migration in the file, or None where it has never had one."""
        tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'"
        if self._connection.execute(tables).fetchone() is None:
            return None
        listed = self._connection.execute("SELECT version, checksum FROM schema_migrations ORDER BY version")
        return [(row[0], row[1]) for row in listed]

    def _check_empty(self) -> None:
        """A database of someone else's must not be taken over."""
        stranger = self._connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone()
        if stranger is not None:
            raise StateError(
                f"{self.path} is a database, but not a catalog of Windrow: it holds '{stranger[0]}'",
                remedy="Name another state directory.",
            )

    def _apply(self, step: Migration) -> None:
        """One migration and its record, in one transaction."""
        connection = self._connection
        try:
            connection.executescript(
                "BEGIN IMMEDIATE;\n"
                "CREATE TABLE IF NOT EXISTS schema_migrations"
                " (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL);\n" + step.sql
            )
            if not connection.in_transaction:
                raise RuntimeError(f"migration {step.version:04d}_{step.name} ended its own transaction")
            connection.execute(
                "INSERT INTO schema_migrations VALUES (?, ?, ?)", (step.version, step.name, step.checksum)
            )
            connection.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise


def _run_hooks(hooks: Sequence[Callable[[], None]]) -> None:
    first: Exception | None = None
    for hook in hooks:
        try:
            hook()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first


def _as_state_error(path: Path, error: sqlite3.DatabaseError) -> StateError | None:
    """Our error for one that is about the file, None for one that is about the statement."""
    text = str(error).lower()
    if "disk is full" in text:
        return StateError(
            f"the file system of {path} is full: nothing of this transaction was written",
            remedy="Free space on the file system of the state directory, then open it again.",
        )
    if "database is locked" in text or "database table is locked" in text:
        return StateError(
            f"another program holds {path}", remedy="Close it (a SQLite shell, a back-up), then try again."
        )
    if "readonly database" in text:
        return StateError(f"{path} may not be written", remedy="Give this user write access to the state directory.")
    if any(sign in text for sign in _DAMAGE):
        return _damaged(path, str(error))
    return None


def _damaged(path: Path, what: str) -> StateError:
    return StateError(
        f"{path} cannot be read as a catalog: {what}",
        remedy="Check the path and the disk; restore the state directory from a copy, or name a new one.",
    )
