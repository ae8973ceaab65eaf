"""A copy of a catalog, taken from outside while another process writes it, after it stopped, and after it was killed."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windrow.catalog.lock import Owner, OwnerState, StateLock, owner_of
from windrow.catalog.snapshot import CatalogSnapshot
from windrow.catalog.store import MIGRATIONS, Catalog
from windrow.errors import ReadOnlyError, StateError

Ended = Callable[[], None]


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in folder.iterdir()}


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a process that opens the state directory, runs this body, and says when it is ready."""
    started: list[subprocess.Popen[str]] = []

    def start(body: str) -> subprocess.Popen[str]:
        code = f"""
            from windrow.catalog.lock import StateLock
            from windrow.catalog.store import Catalog
            lock = StateLock({str(tmp_path)!r})
            lock.acquire()
            catalog = Catalog({str(tmp_path / "catalog.sqlite")!r})
        """
        text = textwrap.dedent(code) + textwrap.dedent(body)
        process = subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


IDLE = """
with catalog.transaction() as tx:
    tx.execute("INSERT INTO settings VALUES ('a', '1')")
print("ready", flush=True)
input()
catalog.close()
lock.release()
"""

BUSY = """
# Both counters and a row of a growing table change in each commit; the log is begun anew every few commits.
catalog._connection.execute("PRAGMA wal_autocheckpoint = 20")
number = 0
while True:
    with catalog.transaction() as tx:
        for name in ("a", "b"):
            tx.execute("INSERT OR REPLACE INTO counters VALUES (?, ?)", (name, number))
        tx.execute("INSERT INTO settings VALUES (?, ?)", (str(number), "x" * 3000))
        tx.execute("DELETE FROM settings WHERE name = ?", (str(number - 50),))
    if number == 10:
        print("ready", flush=True)
    number += 1
"""


def test_open_catalog(tmp_path: Path, writer: Callable[[str], subprocess.Popen[str]]) -> None:
    process = writer(IDLE)
    before = files(tmp_path)
    catalog = CatalogSnapshot(tmp_path / "catalog.sqlite")
    assert catalog.value("SELECT value FROM settings WHERE name = 'a'") == "1"
    assert owner_of(tmp_path) == Owner(OwnerState.RUNNING, process.pid)
    assert files(tmp_path) == before
    process.communicate("\n")
    assert owner_of(tmp_path) == Owner(OwnerState.STOPPED)
    closed = files(tmp_path)
    assert set(closed) == {"catalog.sqlite", "lock"}
    assert CatalogSnapshot(tmp_path / "catalog.sqlite").value("SELECT value FROM settings") == "1"
    assert files(tmp_path) == closed


@pytest.mark.parametrize("with_shm", [True, False])
def test_killed(tmp_path: Path, writer: Callable[[str], subprocess.Popen[str]], with_shm: bool) -> None:
    """What was committed is still in the write-ahead log only."""
    process = writer(IDLE)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not with_shm:
        (tmp_path / "catalog.sqlite-shm").unlink()
    before = files(tmp_path)
    assert before["catalog.sqlite-wal"][0] > 0
    assert owner_of(tmp_path) == Owner(OwnerState.DIED, process.pid)
    assert CatalogSnapshot(tmp_path / "catalog.sqlite").value("SELECT value FROM settings") == "1"
    assert files(tmp_path) == before


def test_busy_catalog(tmp_path: Path, writer: Callable[[str], subprocess.Popen[str]]) -> None:
    """Each copy is that of one commit, while commits and checkpoints go on."""
    writer(BUSY)
    catalog, seen, until = CatalogSnapshot(tmp_path / "catalog.sqlite"), set(), time.monotonic() + 2
    while time.monotonic() < until:
        catalog.refresh()
        a, b = (catalog.value("SELECT value FROM counters WHERE name = ?", (name,)) for name in "ab")
        names = sorted(int(row["name"]) for row in catalog.rows("SELECT name FROM settings"))
        assert a == b == names[-1]
        assert names == list(range(max(0, a - 49), a + 1))
        assert catalog.value("PRAGMA integrity_check") == "ok"
        seen.add(a)
    assert len(seen) > 5


def test_refresh(tmp_path: Path, writer: Callable[[str], subprocess.Popen[str]]) -> None:
    writer(IDLE)
    catalog = CatalogSnapshot(tmp_path / "catalog.sqlite")
    time.sleep(0.15)
    catalog.refresh()
    assert not catalog.refresh()
    with sqlite3.connect(tmp_path / "catalog.sqlite") as other:
        other.execute("UPDATE settings SET value = '2'")
    assert catalog.refresh()
    assert catalog.value("SELECT value FROM settings") == "2"


def test_open_in_this_process(tmp_path: Path) -> None:
    with StateLock(tmp_path), Catalog(tmp_path / "catalog.sqlite") as mine:
        with mine.transaction() as tx:
            tx.execute("INSERT INTO settings VALUES ('a', '1')")
        assert CatalogSnapshot(tmp_path / "catalog.sqlite").value("SELECT value FROM settings") == "1"
        assert owner_of(tmp_path) == Owner(OwnerState.RUNNING, os.getpid())
        other = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM settings'); c.close()"
        subprocess.run([sys.executable, "-c", other, tmp_path / "catalog.sqlite"], check=True)
        assert (tmp_path / "catalog.sqlite-wal").exists(), "SQLite in this process has kept its locks"


def test_nothing_can_be_written(tmp_path: Path) -> None:
    Catalog(tmp_path / "catalog.sqlite").close()
    with (
        pytest.raises(ReadOnlyError, match="open read-only"),
        CatalogSnapshot(tmp_path / "catalog.sqlite").transaction(),
    ):
        pass


def test_no_state_directory(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="is not a state directory"):
        CatalogSnapshot(tmp_path / "none" / "catalog.sqlite")
    assert owner_of(tmp_path / "none") == Owner(OwnerState.STOPPED)
    assert list(tmp_path.iterdir()) == []


def test_older_schema(tmp_path: Path) -> None:
    """It is migrated in memory; the file stays as it is."""
    older = tmp_path / "migrations"
    older.mkdir()
    for path in sorted(MIGRATIONS.glob("*.sql"))[:8]:
        shutil.copy(path, older)
    Catalog(tmp_path / "catalog.sqlite", older).close()
    before = (tmp_path / "catalog.sqlite").read_bytes()
    assert CatalogSnapshot(tmp_path / "catalog.sqlite").rows("SELECT types FROM queries") == []
    assert (tmp_path / "catalog.sqlite").read_bytes() == before
