"""The block store: immutable Arrow files, named and reference-counted by the catalog.

A block is first written and synced under a unique name; then a catalog transaction names it. A crash, a failed task or
its retry may leave files that no transaction names; `sweep` deletes them at the next start. A file is deleted only
after the commit of the transaction that drops it. So every block that the catalog names is complete on disk at any
time.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks.pins import FilePins
from windrow.durable import in_background, sync, sync_all
from windrow.errors import StateError

_LOG = logging.getLogger(__name__)

_BUFFER_BYTES = 1 << 20
"""Arrow writes each column of each table by calls of its own: a hundred small tables take 25 ms without a buffer, and
4 ms with it."""

PIN_ATTEMPTS = 5
"""How often blocks are listed again because some were dropped before they were pinned."""

_ALIGNMENT_BYTES = 64
"""Parts of a container start at multiples of this, so that their mapped buffers have Arrow's alignment."""

_OURS = re.compile(r"^(blk-[0-9a-f]{32}\.arrow|\.blk-[0-9a-f]{32}\.arrow\.tmp)$")

Fill = Callable[[pa.NativeFile], None]
"""Writes the content of a file. Arrow writes to a file of its own many times faster than to one of Python's."""

_COLUMNS = "id, path, owner, lo, hi, rows, bytes, refs"


@dataclass(frozen=True)
class BlockRef:
    """A written file that can be named. `path` is relative to the store's root, with forward slashes."""

    path: str
    owner: str
    rows: int
    bytes: int

    def __post_init__(self) -> None:
        _check_owner(self.owner)
        if PurePosixPath(self.path).parent != PurePosixPath(self.owner):
            raise ValueError(f"the block {self.path} is not in the directory of its owner {self.owner}")
        if self.rows < 0 or self.bytes < 0:
            raise ValueError("a block has neither negative rows nor negative bytes")


@dataclass(frozen=True)
class BlockRow:
    """A named block in the catalog. The owner defines `lo` and `hi`: panes, ticks, or None."""

    id: int
    path: str
    owner: str
    lo: int | None
    hi: int | None
    rows: int
    bytes: int
    refs: int


@dataclass(frozen=True)
class _FilledFiles:
    """Written files that are open, and not on disk yet."""

    refs: list[BlockRef]
    directory: Path
    paths: list[Path]
    handles: list[int]
    opened: ExitStack

    def sync(self) -> None:
        """Return when the files and their names are on disk."""
        with self.opened, _disk_trouble(self.paths[0]):
            sync_all(self.handles)
            sync(self.directory)

    def synced(self, sync: Callable[[], None] | None = None) -> None:
        """Return when they are on disk, by `sync` or what waits for it; when it raises, nothing is left."""
        try:
            (sync or self.sync)()
        except BaseException:
            for path in self.paths:
                _remove(path)
            raise


@dataclass(frozen=True)
class UnsyncedBlock:
    """A written block that a thread syncs. It may be named in a transaction, which must `wait` before it commits."""

    ref: BlockRef
    _filled: _FilledFiles
    _syncing: Future[None]

    def wait(self) -> None:
        """Return when it is on disk; when it raises, nothing is left."""
        self._filled.synced(self._syncing.result)


class BlockWriter:
    """Writes blocks below a root. It needs no catalog, so a Spark task can use one.

    Names are random, hence unique across threads, processes and attempts. When a method returns, the file and its name
    are on disk; when it raises, nothing is left.
    """

    def __init__(self, root: Path):
        self.root = Path(root)
        self._lock = threading.Lock()
        self._synced: set[Path] = set()

    def write(self, owner: str, table: pa.Table, *, compress: bool = False) -> BlockRef:
        """Write one table as an Arrow file: lz4 if `compress`, otherwise readable by mapping without a copy."""
        options = pa.ipc.IpcWriteOptions(compression=_codec(compress), unify_dictionaries=True)

        def fill(file: pa.NativeFile) -> None:
            with pa.ipc.new_file(file, table.schema, options=options) as writer:
                writer.write_table(table)

        return self._write(owner, table.num_rows, fill)

    def write_batches(
        self, owner: str, schema: pa.Schema, batches: Sequence[pa.RecordBatch], *, compress: bool = False
    ) -> BlockRef:
        """Write record batches as one Arrow file, from which each can be read alone."""
        options = pa.ipc.IpcWriteOptions(compression=_codec(compress))

        def fill(file: pa.NativeFile) -> None:
            with pa.ipc.new_file(file, schema, options=options) as writer:
                for batch in batches:
                    writer.write_batch(batch)

        return self._write(owner, sum(batch.num_rows for batch in batches), fill)

    def write_many(
        self, owner: str, tables: Sequence[pa.Table], *, compress: bool = False
    ) -> tuple[BlockRef, list[tuple[int, int]]]:
        """Write several tables, of any schemas, as one file of consecutive Arrow streams.

        Returns (offset, length) of each for `read_part`. One file means one sync: writing the answers of a hundred
        queries costs as much as of one.
        """
        filled, parts = self._filled_many(owner, tables, compress)
        filled.synced()
        return filled.refs[0], parts

    def begin_many(self, owner: str, tables: Sequence[pa.Table]) -> tuple[UnsyncedBlock, list[tuple[int, int]]]:
        """As `write_many`, but the file is on disk only when `wait` of the block has returned. Until then a thread
        syncs it, so that the caller can prepare the transaction that names it."""
        filled, parts = self._filled_many(owner, tables, False)
        return UnsyncedBlock(filled.refs[0], filled, in_background(filled.sync)), parts

    def _filled_many(
        self, owner: str, tables: Sequence[pa.Table], compress: bool
    ) -> tuple[_FilledFiles, list[tuple[int, int]]]:
        options = pa.ipc.IpcWriteOptions(compression=_codec(compress))
        parts: list[tuple[int, int]] = []

        def fill(file: pa.NativeFile) -> None:
            for table in tables:
                file.write(bytes(-file.tell() % _ALIGNMENT_BYTES))
                offset = file.tell()
                with pa.ipc.new_stream(file, table.schema, options=options) as writer:
                    writer.write_table(table)
                parts.append((offset, file.tell() - offset))

        return self._fill_all(owner, [(sum(table.num_rows for table in tables), fill)]), parts

    def write_each(self, owner: str, tables: Sequence[pa.Table]) -> list[BlockRef]:
        """Write each table as a file of its own, of one part for `read_part`, so that each can be dropped alone. Files
        are synced together, and the directory once."""
        options = pa.ipc.IpcWriteOptions()

        def filling(table: pa.Table) -> Fill:
            def fill(file: pa.NativeFile) -> None:
                with pa.ipc.new_stream(file, table.schema, options=options) as writer:
                    writer.write_table(table)

            return fill

        return self._write_all(owner, [(table.num_rows, filling(table)) for table in tables]) if tables else []

    def _write(self, owner: str, rows: int, fill: Fill) -> BlockRef:
        return self._write_all(owner, [(rows, fill)])[0]

    def _write_all(self, owner: str, contents: Sequence[tuple[int, Fill]]) -> list[BlockRef]:
        """Write files, each with its number of rows, and sync them and their names."""
        filled = self._fill_all(owner, contents)
        filled.synced()
        return filled.refs

    def _fill_all(self, owner: str, contents: Sequence[tuple[int, Fill]]) -> _FilledFiles:
        """Write files, which are not on disk yet. They have their names at once: a rename would be one more entry in
        the file system's journal to wait for, and files that no transaction names are nobody's, complete or not."""
        _check_owner(owner)
        directory = self.root / owner
        names = [f"blk-{uuid.uuid4().hex}.arrow" for _ in contents]
        paths, opened = [directory / name for name in names], ExitStack()
        try:
            with _disk_trouble(paths[0]):
                self._make(directory)
                handles = [opened.enter_context(open(path, "xb")).fileno() for path in paths]
                for path, (_, fill) in zip(paths, contents, strict=True):
                    with pa.BufferedOutputStream(pa.OSFile(os.fspath(path), "wb"), _BUFFER_BYTES) as file:
                        fill(file)
                sizes = [os.fstat(handle).st_size for handle in handles]
        except BaseException:
            opened.close()
            for path in paths:
                _remove(path)
            raise
        found = zip(names, contents, sizes, strict=True)
        refs = [BlockRef(f"{owner}/{name}", owner, rows, size) for name, (rows, _), size in found]
        return _FilledFiles(refs, directory, paths, handles, opened)

    def _make(self, directory: Path) -> None:
        """Create the directory and sync it and all directories above it, up to the root, into their parents.

        This happens once per process even if the directory exists: a killed process may have created it without a sync.
        """
        with self._lock:
            if directory in self._synced and directory.is_dir():
                return
            directory.mkdir(parents=True, exist_ok=True)
            level = directory
            while level != self.root.parent:
                sync(level.parent)
                level = level.parent
            self._synced.add(directory)


class BlockStore:
    """The blocks below one root, with the catalog that names them.

    Call `add`, `retain` and `release` inside a transaction of the catalog; they are undone with it.
    """

    def __init__(self, root: Path, catalog: Catalog):
        self.root = Path(root)
        self._catalog = catalog
        self.writer = BlockWriter(self.root)
        with _disk_trouble(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
        self._resolved = self.root.resolve()
        self.pins = FilePins()
        """Who reads which files, by their resolved paths."""

    def write(self, owner: str, table: pa.Table, *, compress: bool = False) -> BlockRef:
        """Write one table durably, to be named by `add`. An owner is a path such as `synopses/3`."""
        return self.writer.write(owner, table, compress=compress)

    def write_many(
        self, owner: str, tables: Sequence[pa.Table], *, compress: bool = False
    ) -> tuple[BlockRef, list[tuple[int, int]]]:
        """Write several tables into one file. Return it and each table's (offset, length)."""
        return self.writer.write_many(owner, tables, compress=compress)

    def read(self, path: str) -> pa.Table:
        """The table of a block that `write` wrote, memory-mapped."""
        return read_block(self.root / path)

    def read_part(self, path: str, offset: int, length: int) -> pa.Table:
        """One table of a block that `write_many` wrote, memory-mapped."""
        return read_block_part(self.root / path, offset, length)

    def add(
        self, ref: BlockRef, lo: int | None = None, hi: int | None = None, refs: int = 1, owner: str | None = None
    ) -> int:
        """Name a written block in this transaction, with `refs` users, for its owner or another. Return its id.

        Raises StateError if the file is missing or has another size.
        """
        if refs < 1:
            raise ValueError("a block needs at least one user")
        file = self.root / ref.path
        with _disk_trouble(file):
            size = file.stat().st_size
        if size != ref.bytes:
            raise _damaged(file, f"it has {size} bytes, {ref.bytes} were written")
        cursor = self._catalog.execute(
            "INSERT INTO blocks (path, owner, lo, hi, rows, bytes, refs) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (ref.path, owner or ref.owner, lo, hi, ref.rows, ref.bytes, refs),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def retain(self, block_id: int, count: int = 1) -> None:
        """Count `count` more users of the block."""
        if count < 1:
            raise ValueError("retain counts up")
        updated = self._catalog.execute("UPDATE blocks SET refs = refs + ? WHERE id = ?", (count, block_id))
        if updated.rowcount == 0:
            raise _unknown(block_id)

    def release(self, block_id: int, count: int = 1) -> None:
        """Remove `count` users. A block without users is dropped; its file is deleted after the commit."""
        if count < 1:
            raise ValueError("release counts down")
        found = self._catalog.execute("SELECT path, refs FROM blocks WHERE id = ?", (block_id,)).fetchone()
        if found is None:
            raise _unknown(block_id)
        if found["refs"] < count:
            message = f"block {block_id} has {found['refs']} users, {count} cannot leave it"
            raise StateError(message, remedy=_REPORT)
        if found["refs"] > count:
            self._catalog.execute("UPDATE blocks SET refs = refs - ? WHERE id = ?", (count, block_id))
            return
        self._catalog.execute("DELETE FROM blocks WHERE id = ?", (block_id,))
        file = self._resolved / found["path"]
        self._catalog.on_commit(lambda: self.pins.remove(file, _remove))

    def named(self, owner: str | None = None) -> list[BlockRow]:
        """The named blocks of one owner or of all, in the order in which they were added."""
        if owner is None:
            found = self._catalog.rows(f"SELECT {_COLUMNS} FROM blocks ORDER BY id")
        else:
            found = self._catalog.rows(f"SELECT {_COLUMNS} FROM blocks WHERE owner = ? ORDER BY id", (owner,))
        return [BlockRow(*row) for row in found]

    def pin(self, owner: str) -> tuple[tuple[BlockRow, ...], Callable[[], None]]:
        """The named blocks of an owner. Their files stay until the returned function is called."""
        for _ in range(PIN_ATTEMPTS):
            found = tuple(self.named(owner))
            release = self.pins.pin(str(self._resolved / one.path) for one in found)
            if release is not None:
                return found, release
        raise StateError(f"the blocks of {owner} are replaced faster than they can be read", remedy="Ask again.")

    def at(self, paths: Sequence[str]) -> list[BlockRow]:
        """The named blocks at these paths, in the order in which they were added."""
        marks = ", ".join("?" * len(paths))
        found = self._catalog.rows(f"SELECT {_COLUMNS} FROM blocks WHERE path IN ({marks}) ORDER BY id", tuple(paths))
        return [BlockRow(*row) for row in found]

    def sweep(self) -> int:
        """Delete the files of this store that no row names. Return their number.

        Call it at start, before anything is written: it would delete a block that is written but not yet added. It
        deletes only files whose names `write` makes, and follows no links.
        """
        named = {row["path"] for row in self._catalog.rows("SELECT path FROM blocks")}
        swept = 0
        with _disk_trouble(self.root):
            for directory, _, files in os.walk(self.root):
                for name in filter(_OURS.match, files):
                    file = Path(directory, name)
                    if file.relative_to(self.root).as_posix() not in named:
                        file.unlink()
                        swept += 1
        return swept


def read_block(file: Path) -> pa.Table:
    """The table in a block file. Its buffers map the file and outlive its deletion."""
    with readable(file):
        return pa.ipc.open_file(pa.memory_map(os.fspath(file))).read_all()


def read_block_part(file: Path, offset: int, length: int) -> pa.Table:
    """One table of a container."""
    return MappedBlocks(file.parent).part(file.name, offset, length)


class MappedBlocks:
    """Containers below a root, each mapped once, for reading many parts of them."""

    def __init__(self, root: Path):
        self._root = root
        self._mapped: dict[str, pa.Buffer] = {}

    def part(self, path: str, offset: int, length: int) -> pa.Table:
        """One table of a container. The length is checked first, since Arrow reads a stream that is cut between two
        batches as a shorter one."""
        file = self._root / path
        with readable(file):
            whole = self._mapped.get(path)
            if whole is None:
                whole = self._mapped[path] = pa.memory_map(os.fspath(file)).read_buffer()
            if not 0 <= offset <= offset + length <= whole.size:
                raise _damaged(file, f"it has {whole.size} bytes, a part is at {offset} to {offset + length}")
            return pa.ipc.open_stream(whole.slice(offset, length)).read_all()


_REPORT = "The state directory is inconsistent: restore it from a copy, and report this as a bug."


def _codec(compress: bool) -> str | None:
    return "lz4" if compress else None


def _check_owner(owner: str) -> None:
    """An owner is a relative path that stays below the root and is not hidden."""
    parts = owner.split("/")
    if any(not part or part.startswith(".") or "\0" in part or "\\" in part for part in parts):
        raise ValueError(f"'{owner}' does not name an owner of blocks")


def _unknown(block_id: int) -> StateError:
    return StateError(f"the catalog names no block {block_id}", remedy=_REPORT)


def _damaged(file: Path, what: str) -> StateError:
    return StateError(
        f"the block {file} is damaged: {what}",
        remedy="Check the disk; restore the state directory from a copy, or start with a new one.",
    )


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turn errors of reading a block into StateError."""
    try:
        yield
    except FileNotFoundError as error:
        raise StateError(
            f"the block {file} is missing",
            remedy="Restore the state directory from a copy, or start with a new one.",
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise _damaged(file, str(error)) from error


@contextmanager
def _disk_trouble(file: Path) -> Iterator[None]:
    """Turn errors of the file system into StateError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StateError(
                f"there is no space left to write {file}",
                remedy="Free space on the file system of the state directory, then start again.",
            ) from error
        raise StateError(
            f"{file} cannot be used: {os.strerror(error.errno) if error.errno else error}",
            remedy="Check that the disk works and that this user may write the state directory.",
        ) from error


def _remove(file: Path) -> None:
    """Delete the file if it exists. If it cannot be deleted, the next sweep tries again."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        _LOG.warning("the block %s could not be deleted; the next start tries again: %s", file, error)
