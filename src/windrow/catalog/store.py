"""The catalog's store: one SQLite file with numbered migrations and atomic, durable transactions.

It knows no streams and no queries. A commit is one transaction, wholly on disk or not at all (WAL, synchronous=FULL).
Work that must follow a commit, such as deleting dropped files, is a hook: it runs after COMMIT and never after a
rollback.
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
    """One numbered step of the schema. A released migration never changes; its checksum enforces this."""

    version: int
    name: str
    sql: str
    checksum: str

    def __post_init__(self) -> None:
        if self.version < 1:
            raise ValueError("migrations are numbered from 1")


def read_migrations(folder: Path) -> tuple[Migration, ...]:
    """The migrations `NNNN_name.sql` of a folder, in order, without gaps from 0001.

    The checksum is of the text with `\\n` line ends, so that those of a checkout do not matter.
    """
    steps: list[Migration] = []
    for file in sorted(folder.glob("*.sql")):
        match = _MIGRATION_NAME.match(file.name)
        if match is None:
            raise StateError(
                f"the migration {file.name} is not named NNNN_name.sql",
                remedy="Rename it, with the next free number.",
            )
        sql = file.read_text(encoding="utf-8").replace("\r\n", "\n")
        checksum = hashlib.sha256(sql.encode()).hexdigest()
        steps.append(Migration(int(match[1]), match[2], sql, checksum))
    if not steps:
        raise StateError(
            f"there are no migrations in {folder}",
            remedy="The installation is incomplete: install Windrow again.",
        )
    for expected, migration in enumerate(steps, start=1):
        if migration.version != expected:
            raise StateError(
                f"found {migration.version:04d}_{migration.name}, but migration {expected:04d} was expected",
                remedy="Number the migrations 0001, 0002, … without gaps; or install Windrow again.",
            )
    return tuple(steps)


class _Transaction:
    """An open transaction: its thread, its hooks, and the failure after which it cannot commit."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.hooks: list[Callable[[], None]] = []
        self.failure: StateError | None = None


class Catalog:
    """One connection to the catalog, shared by all threads of the process.

    A transaction holds the connection until it ends, so reads of other threads wait and see only committed data.
    Writing needs a transaction. Misuse by the calling code (nesting, writing outside of a transaction) raises
    RuntimeError; problems with the file raise StateError with a remedy.
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
        """All rows of a SELECT; inside a transaction it sees the writes of that transaction."""
        with self._lock, self._translated():
            return self._connection.execute(sql, params).fetchall()

    def row(self, sql: str, params: Params = ()) -> sqlite3.Row | None:
        """The first row, or None."""
        with self._lock, self._translated():
            cursor = self._connection.execute(sql, params)
            try:
                first: sqlite3.Row | None = cursor.fetchone()
            finally:
                cursor.close()
            return first

    def value(self, sql: str, params: Params = ()) -> Any:
        """The first column of the first row, or None if there is no row."""
        first = self.row(sql, params)
        return None if first is None else first[0]

    # -- writing -------------------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        """Whether the calling thread is inside `transaction()`."""
        current = self._current
        return current is not None and current.thread == threading.get_ident()

    def execute(self, sql: str, params: Params = ()) -> sqlite3.Cursor:
        """Run one statement in this thread's transaction; raises RuntimeError if there is none."""
        with self._lock:
            self._transaction_in_flight("execute")
            with self._translated():
                return self._connection.execute(sql, params)

    def executemany(self, sql: str, params: Iterable[Params]) -> sqlite3.Cursor:
        """Run one statement once per member of `params`, in this thread's transaction."""
        with self._lock:
            self._transaction_in_flight("executemany")
            with self._translated():
                return self._connection.executemany(sql, params)

    def on_commit(self, hook: Callable[[], None]) -> None:
        """Call `hook` after the commit of this thread's transaction; a rollback drops it."""
        self._transaction_in_flight("on_commit").hooks.append(hook)

    @contextmanager
    def transaction(self) -> Iterator[Catalog]:
        """BEGIN IMMEDIATE … COMMIT around the block; any exception rolls the block back and is raised again.

        Hooks run after COMMIT, in order. The connection is free then, so they may open transactions. If a hook fails,
        the others still run, the commit stands, and the first failure is raised.
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
        """Close the connection; a second call does nothing. Raises RuntimeError inside a transaction."""
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
        """This thread's transaction. After SQLite has ended it by itself, this raises its failure: further statements
        would be committed one by one, without the earlier ones."""
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
        """Roll back, unless SQLite has already done so after a failure."""
        if self._open is not None and self._open.in_transaction:
            # Report the original failure. If ROLLBACK fails, the write-ahead log holds changes without a commit mark,
            # which the next open ignores.
            with suppress(sqlite3.Error):
                self._open.execute("ROLLBACK")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's errors about the file into StateError, after which the open transaction cannot commit.

        Errors in SQL and violated constraints are the caller's and pass unchanged.
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
                f"{self.path} cannot have a write-ahead log: SQLite gives journal mode '{mode}' for 'wal'",
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
        self._apply(steps[len(versions) :])
        if not versions:
            sync(self.path.parent)

    def _applied(self) -> list[tuple[int, str]] | None:
        """(version, checksum) of each migration in the file, or None if it never had one."""
        tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'"
        if self._connection.execute(tables).fetchone() is None:
            return None
        listed = self._connection.execute("SELECT version, checksum FROM schema_migrations ORDER BY version")
        return [(row[0], row[1]) for row in listed]

    def _check_empty(self) -> None:
        """Refuse to take over the database of another program."""
        stranger = self._connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone()
        if stranger is not None:
            raise StateError(
                f"{self.path} is a database, but not a catalog of Windrow: it holds '{stranger[0]}'",
                remedy="Name another state directory.",
            )

    def _apply(self, steps: Sequence[Migration]) -> None:
        """Apply migrations and record them, in one transaction: each would take a sync of its own."""
        if not steps:
            return
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS schema_migrations"
                " (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)"
            )
            for step in steps:
                for statement in _statements(step.sql):
                    connection.execute(statement)
                if not connection.in_transaction:
                    raise RuntimeError(f"migration {step.version:04d}_{step.name} ended its own transaction")
                connection.execute(
                    "INSERT INTO schema_migrations VALUES (?, ?, ?)", (step.version, step.name, step.checksum)
                )
            connection.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. `executescript` would commit the open transaction first."""
    held = ""
    for piece in re.split(r"(?<=;)", script):
        held += piece
        if sqlite3.complete_statement(held):
            yield held
            held = ""
    if held.strip():
        yield held


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
    """A StateError for an error about the file; None for an error about the statement."""
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
