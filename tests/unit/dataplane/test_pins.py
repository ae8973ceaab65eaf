"""Pins: a file that is read stays on disk until nobody reads it, and a crash leaves nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.blocks.pins import FilePins


@pytest.fixture
def blocks(tmp_path: Path) -> BlockStore:
    return BlockStore(tmp_path, Catalog(tmp_path / "catalog.sqlite"))


def added(blocks: BlockStore) -> tuple[int, str]:
    """A block that the catalog names: its number and its file."""
    ref = blocks.write("stores/1", pa.table({"x": [1, 2, 3]}))
    with blocks._catalog.transaction():
        number = blocks.add(ref)
    return number, str(blocks.root.resolve() / ref.path)


def drop(blocks: BlockStore, number: int) -> None:
    with blocks._catalog.transaction():
        blocks.release(number)


def test_a_dropped_file_waits_for_the_last_pin(blocks: BlockStore) -> None:
    number, file = added(blocks)
    first, second = blocks.pins.pin([file]), blocks.pins.pin([file])
    assert first is not None and second is not None
    drop(blocks, number)
    first()
    first()  # a second call does nothing
    assert Path(file).exists() and (blocks.pins.count, blocks.pins.waiting) == (1, 1)
    second()
    assert not Path(file).exists() and (blocks.pins.count, blocks.pins.waiting) == (0, 0)


def test_a_file_that_nobody_reads_goes_at_once(blocks: BlockStore) -> None:
    number, file = added(blocks)
    release = blocks.pins.pin([file])
    assert release is not None
    release()
    drop(blocks, number)
    assert not Path(file).exists()
    assert blocks.pins.pin([file]) is None
    assert blocks.pins.count == 0


def test_a_crash_with_pins_leaves_nothing(blocks: BlockStore) -> None:
    number, file = added(blocks)
    kept, _ = added(blocks)
    assert blocks.pins.pin([file]) is not None
    drop(blocks, number)
    blocks._catalog.close()  # as a killed process would leave it: the file is there, and no commit names it
    again = BlockStore(blocks.root, Catalog(blocks.root / "catalog.sqlite"))
    assert Path(file).exists()
    assert again.sweep() == 1
    assert not Path(file).exists() and [row.id for row in again.named()] == [kept]


@pytest.mark.parametrize("is_read", [False, True])
def test_who_pins_a_file_that_is_removed_finds_it_gone(tmp_path: Path, is_read: bool) -> None:
    file, pins = tmp_path / "one", FilePins()
    file.touch()
    found = list[Callable[[], None] | None]()
    other = threading.Thread(target=lambda: found.append(pins.pin([str(file)])))

    def remove(path: Path) -> None:
        other.start()
        other.join(0.2)  # it waits for the removal
        path.unlink()

    release = pins.pin([str(file)]) if is_read else None
    pins.remove(file, remove)
    if release is not None:
        release()
    other.join()
    assert found == [None]
