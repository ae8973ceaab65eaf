"""Tables in the worker processes of Spark: what they know of a table is of the blocks that it has now."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.kernels.plan_tables import StoredBase, StoredRelation, TaskTables
from windrow.operators.tables.edges import COUNT


def relation(
    root: Path, *changes: list[tuple[int, str, int]], base: list[tuple[str, int]] | None = None, first: int = 1
) -> StoredRelation:
    """A table with these changes, each of (count, key, value)."""
    writer = BlockWriter(root)
    columns = [dict(zip((COUNT, "k", "v"), zip(*rows, strict=True), strict=True)) for rows in changes]
    made = [writer.write("tables/1", pa.table({name: list(one) for name, one in some.items()})) for some in columns]
    block = None
    if base is not None:
        ref = writer.write("tables/1", pa.table({"k": [k for k, _ in base], "v": [v for _, v in base]}))
        block = StoredBase(first - 1, ref.path, is_bucketed=False)
    numbered = tuple((first + i, ref.path) for i, ref in enumerate(made))
    return StoredRelation("0.1", 1, ("k",), first + len(made) - 1, block, numbered, None)


def rows(tables: TaskTables, root: Path, stored: StoredRelation) -> list[tuple[str, int]]:
    found = tables.whole(str(root), stored).rows.rows(pa.schema([("k", pa.string()), ("v", pa.int64())]))
    return sorted((row["k"], row["v"]) for row in found.to_pylist())


def test_later_changes_are_added(tmp_path: Path) -> None:
    tables, two = TaskTables(), relation(tmp_path, [(1, "a", 1)], [(-1, "a", 1), (1, "a", 2), (1, "b", 3)])
    one = StoredRelation(two.path, 1, two.key, 1, None, two.changes[:1], None)
    assert rows(tables, tmp_path, one) == [("a", 1)]
    assert rows(tables, tmp_path, two) == [("a", 2), ("b", 3)]
    folded = relation(tmp_path, [(1, "c", 4)], base=[("a", 2), ("b", 3)], first=3)
    assert rows(tables, tmp_path, folded) == [("a", 2), ("b", 3), ("c", 4)]


def test_another_state_directory_in_the_same_place(tmp_path: Path) -> None:
    """It was deleted and made anew: its first table has the same number, and as many changes."""
    tables = TaskTables()
    assert rows(tables, tmp_path, relation(tmp_path, [(1, "a", 1)])) == [("a", 1)]
    assert rows(tables, tmp_path, relation(tmp_path, [(1, "b", 2)])) == [("b", 2)]
