"""The block store: files are whole or absent, counted by the catalog, and swept if no row names them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockRef, BlockStore, BlockWriter, read_block
from windrow.errors import StateError

BLOCKS = """
CREATE TABLE blocks (
  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, lo INTEGER, hi INTEGER,
  rows INTEGER NOT NULL, bytes INTEGER NOT NULL, refs INTEGER NOT NULL CHECK (refs >= 0));
"""

TABLE = pa.table({"k": pa.array([1, 2, None], pa.int64()), "s": ["a", "", None], "d": [0.5, float("inf"), None]})
OTHER = pa.table({"x": pa.array(range(1000), pa.int32())})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "0001_blocks.sql").write_text(BLOCKS)
    with Catalog(tmp_path / "catalog.sqlite", tmp_path / "migrations") as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path, catalog: Catalog) -> BlockStore:
    return BlockStore(tmp_path / "state", catalog)


def named(store: BlockStore, catalog: Catalog, owner: str = "synopses/1", **more: Any) -> tuple[int, str]:
    ref = store.write(owner, TABLE)
    with catalog.transaction():
        return store.add(ref, **more), ref.path


def files(store: BlockStore) -> list[str]:
    return sorted(f.relative_to(store.root).as_posix() for f in store.root.rglob("*") if f.is_file())


# -- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("table", [TABLE, TABLE.slice(1, 1), TABLE.slice(0, 0), pa.concat_tables([TABLE, TABLE])])
def test_write_and_read(store: BlockStore, table: pa.Table, compress: bool) -> None:
    ref = store.write("synopses/1", table, compress=compress)
    assert store.read(ref.path).equals(table)
    assert ref.rows == table.num_rows
    assert ref.bytes == (store.root / ref.path).stat().st_size
    assert ref.owner == "synopses/1" and ref.path.startswith("synopses/1/")
    assert files(store) == [ref.path]


def test_dictionaries_of_chunks_are_unified(store: BlockStore) -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    ref = store.write("o", pa.table({"s": pa.chunked_array(chunks)}))
    assert store.read(ref.path)["s"].to_pylist() == ["a", "b", "c", "a"]


def test_read_table_outlives_its_file(store: BlockStore) -> None:
    table = pa.table({"x": pa.array(range(1_000_000), pa.int64())})
    part, parts = store.write_many("o", [table])
    whole = store.write("o", table)
    before = pa.total_allocated_bytes()
    mapped = [store.read(whole.path), store.read_part(part.path, *parts[0])]
    assert pa.total_allocated_bytes() - before < 100_000
    for ref in (whole, part):
        (store.root / ref.path).unlink()
    assert all(m.equals(table) for m in mapped)


@pytest.mark.parametrize("compress", [False, True])
def test_container_of_different_schemas(store: BlockStore, compress: bool) -> None:
    tables = [TABLE, OTHER, TABLE.slice(0, 0), pa.concat_tables([OTHER, OTHER])]
    ref, parts = store.write_many("answers", tables, compress=compress)
    assert [store.read_part(ref.path, *part) for part in parts] == tables
    assert ref.rows == 3003
    assert all(offset % 64 == 0 for offset, _ in parts)
    assert files(store) == [ref.path]


def test_a_file_for_each_table(store: BlockStore) -> None:
    tables = [TABLE, OTHER, TABLE.slice(0, 0)]
    refs = store.writer.write_each("views", tables)
    assert [store.read_part(ref.path, 0, ref.bytes) for ref in refs] == tables
    assert files(store) == sorted(ref.path for ref in refs)
    with pytest.raises(AttributeError):
        store.writer.write_each("views", [TABLE, None])
    assert files(store) == sorted(ref.path for ref in refs)


def test_empty_container(store: BlockStore, catalog: Catalog) -> None:
    ref, parts = store.write_many("answers", [])
    assert (ref.rows, ref.bytes, parts) == (0, 0, [])
    with catalog.transaction():
        store.add(ref)
    assert len(store.named()) == 1


def test_missing_file(store: BlockStore) -> None:
    with pytest.raises(StateError, match="synopses/1/none.arrow is missing"):
        store.read("synopses/1/none.arrow")
    with pytest.raises(StateError, match="synopses/1/none.arrow is missing"):
        store.read_part("synopses/1/none.arrow", 0, 8)


@pytest.mark.parametrize("keep", [0, 1, 7, 100, 0.5, -1])
def test_truncated_file(store: BlockStore, keep: float) -> None:
    ref = store.write("o", OTHER)
    many, parts = store.write_many("o", [OTHER, OTHER])
    for block in (ref, many):
        size = {0.5: block.bytes // 2, -1: block.bytes - 1}.get(keep, int(keep))
        os.truncate(store.root / block.path, size)
    with pytest.raises(StateError, match=f"{ref.path} is damaged"):
        store.read(ref.path)
    with pytest.raises(StateError, match=f"{many.path} is damaged"):
        store.read_part(many.path, *parts[1])


def test_part_outside_the_file(store: BlockStore) -> None:
    ref, [(offset, length)] = store.write_many("o", [OTHER])
    for place in ((offset + 8, length - 8), (0, 4), (-8, 8), (0, length + 1)):
        with pytest.raises(StateError, match="damaged"):
            store.read_part(ref.path, *place)


@pytest.mark.parametrize("owner", ["", "/abs", "../up", "a/../b", "a//b", ".hidden", "a/", "a\\b"])
def test_owner_outside_the_root(store: BlockStore, owner: str) -> None:
    with pytest.raises(ValueError, match="owner"):
        store.write(owner, TABLE)
    assert files(store) == []


def test_invalid_ref() -> None:
    with pytest.raises(ValueError, match="directory of its owner"):
        BlockRef("b/x.arrow", "a", 1, 1)
    with pytest.raises(ValueError, match="negative"):
        BlockRef("a/x.arrow", "a", -1, 1)


def test_concurrent_writers(store: BlockStore) -> None:
    program = (
        "import sys, pyarrow as pa; from pathlib import Path\n"
        "from windrow.dataplane.blocks import BlockWriter\n"
        "for n in range(10): BlockWriter(Path(sys.argv[1])).write('new/dir', pa.table({'n': [n]}))"
    )
    other = subprocess.Popen([sys.executable, "-c", program, str(store.root)])
    refs: list[BlockRef] = []

    def write() -> None:
        for _ in range(10):
            refs.append(store.write("new/dir", TABLE))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert other.wait() == 0
    assert len({ref.path for ref in refs}) == 40
    assert len(files(store)) == 50
    assert all(read_block(store.root / path).num_rows in (1, 3) for path in files(store))


def test_order_of_syncs(store: BlockStore, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    fsync = os.fsync

    def logged_fsync(fd: int) -> None:
        log.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), store.root))
        assert not log[-1].endswith(".arrow") or read_block_of(store.root / log[-1]), "a file is complete when synced"
        fsync(fd)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    first, second = store.write("a/b", TABLE), store.write("a/b", TABLE)
    assert log == ["a", ".", "..", first.path, "a/b", second.path, "a/b"]
    log.clear()
    several = store.writer.write_each("a/b", [TABLE, OTHER, TABLE])
    assert sorted(log[:3]) == sorted(ref.path for ref in several)
    assert log[3:] == ["a/b"], "the directory is synced once, and last"


def read_block_of(path: Path) -> bool:
    """Whether a file has all that was to be written: an Arrow file, or a stream with its end."""
    content = path.read_bytes()
    return content.endswith((b"ARROW1", b"\xff\xff\xff\xff\0\0\0\0"))


# -- a full disk ----------------------------------------------------------------------------------------


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk(store: BlockStore, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("o", TABLE)
    (kept,) = files(store)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        writes = (
            lambda: store.write("o", TABLE),
            lambda: store.write_many("o", [TABLE, OTHER]),
            lambda: store.writer.write_each("o", [TABLE, OTHER]),
            lambda: store.writer.begin_many("o", [TABLE, OTHER])[0].wait(),
        )
        for write in writes:
            with pytest.raises(StateError, match="no space left") as caught:
                write()
            assert "Free space on the file system of the state directory" in str(caught.value)
    assert files(store) == [kept]
    assert store.named() == []


def test_disk_full_within_a_table(store: BlockStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Filling:
        """Writes like the real file until the disk is full."""

        def __init__(self, *args: Any, **options: Any):
            self.writer = new_file(*args, **options)

        def __enter__(self) -> Filling:
            return self

        def __exit__(self, *exc: object) -> None:
            self.writer.close()

        def write_table(self, table: pa.Table) -> None:
            self.writer.write_table(table)
            full()

    new_file = pa.ipc.new_file
    monkeypatch.setattr(pa.ipc, "new_file", Filling)
    with pytest.raises(StateError, match="no space left"):
        store.write("o", OTHER)
    assert files(store) == []


def test_file_size_limit(tmp_path: Path) -> None:
    """A limit on file size makes write(2) fail below Arrow's writer."""
    program = (
        "import resource, signal, sys, pyarrow as pa; from pathlib import Path\n"
        "from windrow.dataplane.blocks import BlockWriter; from windrow.errors import StateError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: BlockWriter(Path(sys.argv[1])).write('o', pa.table({'x': list(range(100_000))}))\n"
        "except StateError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path / "r")], capture_output=True, text=True)
    assert "cannot be used: File too large" in ran.stdout, ran.stderr
    assert list((tmp_path / "r" / "o").iterdir()) == []


def test_interrupted_write(store: BlockStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.write("o", TABLE)
    assert files(store) == []


# -- naming and counting --------------------------------------------------------------------------------


def test_named_blocks_in_order_of_id(store: BlockStore, catalog: Catalog) -> None:
    first, path = named(store, catalog, lo=-5, hi=10, refs=3)
    second, _ = named(store, catalog, owner="synopses/2")
    third, _ = named(store, catalog)
    assert [row.id for row in store.named()] == [first, second, third]
    assert [row.id for row in store.named("synopses/1")] == [first, third]
    row = store.named()[0]
    assert (row.path, row.owner, row.lo, row.hi, row.rows, row.refs) == (path, "synopses/1", -5, 10, 3, 3)
    assert row.bytes == (store.root / path).stat().st_size


def test_changes_need_a_transaction(store: BlockStore, catalog: Catalog) -> None:
    ref = store.write("o", TABLE)
    for attempt in (lambda: store.add(ref), lambda: store.retain(1), lambda: store.release(1)):
        with pytest.raises(RuntimeError, match="inside"):
            attempt()
    assert store.named() == []


def test_add_refuses_a_missing_or_changed_file(store: BlockStore, catalog: Catalog) -> None:
    short, gone = store.write("o", TABLE), store.write("o", TABLE)
    os.truncate(store.root / short.path, short.bytes - 1)
    (store.root / gone.path).unlink()
    for ref in (short, gone):
        with pytest.raises(StateError, match=Path(ref.path).name), catalog.transaction():
            store.add(ref)
    assert store.named() == []


def test_last_release_deletes_after_the_commit(store: BlockStore, catalog: Catalog) -> None:
    block, path = named(store, catalog)
    with catalog.transaction():
        store.retain(block, 2)
    with catalog.transaction():
        store.release(block, 2)
    assert store.named()[0].refs == 1
    with catalog.transaction():
        store.release(block)
        assert store.named() == []
        assert files(store) == [path]
    assert files(store) == []


def test_rollback(store: BlockStore, catalog: Catalog) -> None:
    block, path = named(store, catalog, refs=2)
    fresh = store.write("o", OTHER)
    before = store.named()
    with pytest.raises(ZeroDivisionError), catalog.transaction():
        store.retain(block)
        store.release(block, 3)
        store.add(fresh)
        raise ZeroDivisionError
    assert store.named() == before
    assert store.read(path).equals(TABLE)
    with catalog.transaction():
        store.release(block, 2)
    assert files(store) == [fresh.path]


def test_release_and_retain_in_one_transaction(store: BlockStore, catalog: Catalog) -> None:
    block, path = named(store, catalog)
    with catalog.transaction():
        store.retain(block)
        store.release(block)
    assert [row.refs for row in store.named()] == [1]
    assert files(store) == [path]


def test_release_more_than_retained(store: BlockStore, catalog: Catalog) -> None:
    block, path = named(store, catalog, refs=2)
    with pytest.raises(StateError, match="has 2 users, 3 cannot leave"), catalog.transaction():
        store.release(block, 3)
    for change in (store.retain, store.release):
        with pytest.raises(StateError, match="no block 99"), catalog.transaction():
            change(99)
        with pytest.raises(ValueError, match="counts"), catalog.transaction():
            change(block, 0)
    with pytest.raises(ValueError, match="at least one user"), catalog.transaction():
        store.add(store.write("o", TABLE), refs=0)
    assert store.named()[0].refs == 2
    assert (store.root / path).exists()


def test_concurrent_retain_and_release(store: BlockStore, catalog: Catalog) -> None:
    shared, path = named(store, catalog, refs=41)

    def work() -> None:
        for _ in range(10):
            ref = store.write("own", TABLE)
            with catalog.transaction():
                mine = store.add(ref)
                store.release(shared)
            with catalog.transaction():
                store.release(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(row.path, row.refs) for row in store.named()] == [(path, 1)]
    assert files(store) == [path]


def test_undeletable_file(store: BlockStore, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    block, path = named(store, catalog)

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "no")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        with catalog.transaction():
            store.release(block)
    assert store.named() == [] and files(store) == [path]
    assert store.sweep() == 1
    assert files(store) == []


# -- sweeping --------------------------------------------------------------------------------------------


def test_sweep_keeps_named_blocks(tmp_path: Path, store: BlockStore, catalog: Catalog) -> None:
    _, path = named(store, catalog)
    BlockWriter(store.root).write("synopses/1", TABLE)
    store.write_many("answers", [TABLE, OTHER])
    torn = store.root / "synopses/1" / f".blk-{'0' * 32}.arrow.tmp"
    torn.write_bytes(b"ARROW1")
    restarted = BlockStore(store.root, catalog)
    assert restarted.sweep() == 3
    assert files(restarted) == [path]
    assert restarted.sweep() == 0
    assert restarted.read(path).equals(TABLE)


def test_sweep_deletes_only_blocks(tmp_path: Path, store: BlockStore, catalog: Catalog) -> None:
    store.write("o", TABLE)
    others = [
        "lock",
        "o/notes.txt",
        "o/mine.arrow",
        "spool/000.arrow",
        f"o/blk-{'0' * 31}.arrow",
        "o/x.arrow.tmp",
    ]
    for other in others:
        (store.root / other).parent.mkdir(exist_ok=True)
        (store.root / other).write_text("keep")
    outside = BlockWriter(tmp_path / "outside").write("o", TABLE)
    (store.root / "link").symlink_to(tmp_path / "outside")
    assert store.sweep() == 1
    assert all((store.root / other).read_text() == "keep" for other in others)
    assert (tmp_path / "outside" / outside.path).exists()


@pytest.mark.crash
def test_sweep_after_a_killed_writer(store: BlockStore) -> None:
    program = (
        "import os, signal, sys, pyarrow as pa; from pathlib import Path\n"
        "from windrow.dataplane.blocks import BlockWriter\n"
        "writer = BlockWriter(Path(sys.argv[1])); writer.write('o', pa.table({'x': [1]}))\n"
        "os.fsync = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "writer.write('o', pa.table({'x': [2]}))\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(store.root)]).returncode == -9
    assert len(files(store)) == 2
    assert store.sweep() == 2
    assert files(store) == []
