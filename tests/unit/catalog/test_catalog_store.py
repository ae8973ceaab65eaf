"""The catalog's store: migrations, transactions, hooks, threads, and errors for damaged files."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from windrow.catalog.store import Catalog, read_migrations
from windrow.errors import StateError

FIRST = "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT NOT NULL);\n-- a comment at the end"
SECOND = "ALTER TABLE t ADD COLUMN w INTEGER; CREATE TABLE u (k INTEGER REFERENCES t (k));"


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_first.sql").write_text(FIRST)
    return folder


@pytest.fixture
def catalog(tmp_path: Path, migrations: Path):
    with Catalog(tmp_path / "catalog.sqlite", migrations) as opened:
        yield opened


def put(catalog: Catalog, k: int, v: str = "x") -> None:
    catalog.execute("INSERT INTO t (k, v) VALUES (?, ?)", (k, v))


def keys(catalog: Catalog) -> list[int]:
    return [row["k"] for row in catalog.rows("SELECT k FROM t ORDER BY k")]


# -- opening and migrations ----------------------------------------------------------------------------


def test_pragmas(catalog: Catalog) -> None:
    assert catalog.value("PRAGMA journal_mode") == "wal"
    assert catalog.value("PRAGMA synchronous") == 2
    assert catalog.value("PRAGMA foreign_keys") == 1
    assert catalog.value("PRAGMA busy_timeout") > 0


def test_migrations_apply_once_in_order(tmp_path: Path, migrations: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with Catalog(path, migrations) as catalog, catalog.transaction():
        put(catalog, 1)
    (migrations / "0002_second.sql").write_text(SECOND)
    for _ in range(2):
        with Catalog(path, migrations) as catalog:
            assert [tuple(row) for row in catalog.rows("SELECT k, v, w FROM t")] == [(1, "x", None)]
            recorded = catalog.rows("SELECT version, name, checksum FROM schema_migrations ORDER BY version")
            expected = [(m.version, m.name, m.checksum) for m in read_migrations(migrations)]
            assert [tuple(row) for row in recorded] == expected


def test_failing_migration(tmp_path: Path, migrations: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    bad = migrations / "0002_bad.sql"
    bad.write_text("CREATE TABLE half (k INTEGER); CREATE TABLE t (k INTEGER);")
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        Catalog(path, migrations)
    bad.unlink()
    with Catalog(path, migrations) as catalog:
        assert catalog.value("SELECT count(*) FROM schema_migrations") == 1
        assert catalog.row("SELECT 1 FROM sqlite_master WHERE name = 'half'") is None


def test_migration_ends_its_transaction(tmp_path: Path, migrations: Path) -> None:
    (migrations / "0001_first.sql").write_text(FIRST + "\n;COMMIT;")
    with pytest.raises(RuntimeError, match="0001_first ended its own transaction"):
        Catalog(tmp_path / "catalog.sqlite", migrations)


def test_newer_database(tmp_path: Path, migrations: Path) -> None:
    second = migrations / "0002_second.sql"
    second.write_text(SECOND)
    Catalog(tmp_path / "catalog.sqlite", migrations).close()
    second.unlink()
    with pytest.raises(StateError, match="schema version 2; this Windrow knows them up to 1") as caught:
        Catalog(tmp_path / "catalog.sqlite", migrations)
    assert "newer Windrow" in str(caught.value)


def test_changed_migration(tmp_path: Path, migrations: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    Catalog(path, migrations).close()
    (migrations / "0001_first.sql").write_bytes(FIRST.replace("\n", "\r\n").encode())
    Catalog(path, migrations).close()
    (migrations / "0001_first.sql").write_text(FIRST + " changed")
    with pytest.raises(StateError, match="0001_first is not the one") as caught:
        Catalog(path, migrations)
    assert caught.value.remedy


@pytest.mark.parametrize("name", ["0003_gap.sql", "0001_twice.sql", "2_unpadded.sql", "0000_zero.sql"])
def test_wrong_migration_numbers(tmp_path: Path, migrations: Path, name: str) -> None:
    (migrations / name).write_text("SELECT 1;")
    with pytest.raises(StateError, match="migration"):
        Catalog(tmp_path / "catalog.sqlite", migrations)
    assert not (tmp_path / "catalog.sqlite").exists()


def test_no_migrations(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no migrations") as caught:
        Catalog(tmp_path / "catalog.sqlite", tmp_path)
    assert "install" in str(caught.value)


def test_file_is_not_a_database(tmp_path: Path, migrations: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(b"These are notes, not a database." * 100)
    with pytest.raises(StateError, match="not a database") as caught:
        Catalog(path, migrations)
    assert caught.value.remedy
    assert path.read_bytes() == b"These are notes, not a database." * 100


def test_damaged_database(tmp_path: Path, migrations: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with Catalog(path, migrations) as catalog, catalog.transaction():
        catalog.executemany("INSERT INTO t VALUES (?, ?)", ((k, "v" * 200) for k in range(2000)))
    data = bytearray(path.read_bytes())
    data[8192:40960] = b"\xa5" * 32768
    path.write_bytes(data)
    with pytest.raises(StateError, match="cannot be read as a catalog"):
        Catalog(path, migrations)


def test_database_of_another_program(tmp_path: Path, migrations: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE invoices (id INTEGER)")
    other.close()
    with pytest.raises(StateError, match="invoices"):
        Catalog(path, migrations)


def test_missing_directory(tmp_path: Path, migrations: Path) -> None:
    with pytest.raises(StateError, match="unable to open"):
        Catalog(tmp_path / "nowhere" / "catalog.sqlite", migrations)


# -- transactions --------------------------------------------------------------------------------------


def test_commit_is_visible_to_other_connections(catalog: Catalog) -> None:
    other = sqlite3.connect(catalog.path)
    with catalog.transaction():
        put(catalog, 1)
        assert keys(catalog) == [1]
        assert other.execute("SELECT count(*) FROM t").fetchone()[0] == 0
    assert other.execute("SELECT count(*) FROM t").fetchone()[0] == 1
    other.close()


def test_exception_rolls_back(catalog: Catalog) -> None:
    with pytest.raises(KeyboardInterrupt), catalog.transaction():
        put(catalog, 1)
        raise KeyboardInterrupt
    assert keys(catalog) == []
    with catalog.transaction():
        put(catalog, 2)
    assert keys(catalog) == [2]


def test_nested_transaction(catalog: Catalog) -> None:
    with catalog.transaction():
        put(catalog, 1)
        with pytest.raises(RuntimeError, match="do not nest"), catalog.transaction():
            pass
        assert catalog.in_transaction
        put(catalog, 2)
    assert not catalog.in_transaction
    assert keys(catalog) == [1, 2]


def test_write_outside_a_transaction(catalog: Catalog) -> None:
    with pytest.raises(RuntimeError, match="inside"):
        put(catalog, 1)
    with pytest.raises(RuntimeError, match="inside"):
        catalog.executemany("INSERT INTO t VALUES (?, 'x')", [(1,)])
    with pytest.raises(RuntimeError, match="inside"):
        catalog.on_commit(lambda: None)
    assert keys(catalog) == []


def test_transaction_of_another_thread(catalog: Catalog) -> None:
    seen: list[object] = []

    def intrude() -> None:
        seen.append(catalog.in_transaction)
        try:
            catalog.on_commit(lambda: None)
        except RuntimeError as error:
            seen.append(str(error))

    with catalog.transaction():
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
    assert seen[0] is False and "belongs inside" in str(seen[1])


def test_violated_constraint(catalog: Catalog) -> None:
    with pytest.raises(sqlite3.IntegrityError), catalog.transaction():
        put(catalog, 1)
        put(catalog, 1)
    assert keys(catalog) == []


def test_hooks_run_after_commit(catalog: Catalog) -> None:
    seen: list[object] = []

    def write_more() -> None:
        seen.append(catalog.in_transaction)
        with catalog.transaction():
            put(catalog, 2)

    with catalog.transaction():
        put(catalog, 1)
        catalog.on_commit(write_more)
        catalog.on_commit(lambda: seen.append(keys(catalog)))
        assert seen == []
    assert seen == [False, [1, 2]]
    with catalog.transaction():
        put(catalog, 3)
    assert len(seen) == 2


def test_hooks_after_rollback(catalog: Catalog) -> None:
    seen: list[int] = []
    with pytest.raises(ValueError), catalog.transaction():
        catalog.on_commit(lambda: seen.append(1))
        raise ValueError
    with catalog.transaction():
        put(catalog, 1)
    assert seen == []


def test_failing_hook(catalog: Catalog) -> None:
    seen: list[int] = []

    def fail() -> None:
        raise OSError("hook")

    with pytest.raises(OSError, match="hook"), catalog.transaction():
        put(catalog, 1)
        catalog.on_commit(fail)
        catalog.on_commit(lambda: seen.append(1))
    assert keys(catalog) == [1] and seen == [1]


def test_threads_see_whole_transactions(catalog: Catalog) -> None:
    odd: list[int] = []
    done = threading.Event()

    def write(first: int) -> None:
        for k in range(first, first + 40, 2):
            with catalog.transaction():
                put(catalog, k)
                put(catalog, k + 1)

    def watch() -> None:
        while not done.is_set():
            odd.append(catalog.value("SELECT count(*) FROM t") % 2)

    watcher = threading.Thread(target=watch)
    writers = [threading.Thread(target=write, args=(n * 100,)) for n in range(4)]
    watcher.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    watcher.join()
    assert len(keys(catalog)) == 160
    assert odd and not any(odd)


# -- a full disk, a busy file, closing ------------------------------------------------------------------


def fill(catalog: Catalog) -> None:
    """Make SQLite report a full disk after a few more pages."""
    catalog.value(f"PRAGMA max_page_count = {catalog.value('PRAGMA page_count') + 5}")


def test_full_disk(catalog: Catalog) -> None:
    seen: list[int] = []
    fill(catalog)
    with pytest.raises(StateError, match="full") as caught, catalog.transaction():
        put(catalog, 1)
        catalog.on_commit(lambda: seen.append(1))
        catalog.executemany("INSERT INTO t VALUES (?, ?)", ((k, "v" * 2000) for k in range(2, 100)))
    assert "Free space" in str(caught.value)
    assert keys(catalog) == [] and seen == []
    catalog.value("PRAGMA max_page_count = 100000")
    with catalog.transaction():
        put(catalog, 1)
    assert keys(catalog) == [1]


def test_no_commit_after_full_disk(catalog: Catalog) -> None:
    fill(catalog)
    with pytest.raises(StateError, match="full"), catalog.transaction():
        put(catalog, 1)
        with pytest.raises(StateError, match="full"):
            catalog.executemany("INSERT INTO t VALUES (?, ?)", ((k, "v" * 2000) for k in range(2, 100)))
        with pytest.raises(StateError, match="full"):
            put(catalog, 200)
    assert keys(catalog) == []


def test_file_locked_by_another_program(tmp_path: Path, migrations: Path) -> None:
    with Catalog(tmp_path / "catalog.sqlite", migrations, busy_timeout_s=0.1) as catalog:
        other = sqlite3.connect(catalog.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match="another program holds"), catalog.transaction():
            pass
        other.execute("ROLLBACK")
        other.close()
        with catalog.transaction():
            put(catalog, 1)
        assert keys(catalog) == [1]


def test_close(tmp_path: Path, migrations: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.sqlite", migrations)
    with catalog.transaction(), pytest.raises(RuntimeError, match="inside a transaction"):
        catalog.close()
    catalog.close()
    catalog.close()
    with pytest.raises(StateError, match="closed"):
        catalog.rows("SELECT 1")
    with pytest.raises(StateError, match="closed"), catalog.transaction():
        pass


def test_row_and_value_without_rows(catalog: Catalog) -> None:
    assert catalog.row("SELECT k FROM t") is None
    assert catalog.value("SELECT k FROM t") is None
    assert catalog.value("SELECT :a + :b", {"a": 2, "b": 3}) == 5
