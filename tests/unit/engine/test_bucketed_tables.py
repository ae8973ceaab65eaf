"""Large tables in bucketed blocks: what the driver and Spark tasks read of them, and what EXPLAIN says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.engine.test_tables import Tables
from unit.operators.test_relations import plan_of, table

from windrow.dataplane.kernels.plan_tables import StoredBase, StoredRelation, TaskTables
from windrow.engine.tables.stored import StoredTable, TableBase, TableVersion
from windrow.engine.tables.uses import table_uses
from windrow.explain.table_notes import table_note
from windrow.operators.stages.cutting import node_at, staged
from windrow.operators.stages.ranges import ranges_of
from windrow.operators.tables.edges import COUNT
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import ContinuousPlan, TableScan

DUE = DueTicks(0, 1, 1)
NAMES = "names (k INT PRIMARY KEY, name STRING, n INT)"
BY_KEY = "SELECT s.k, x, name, n FROM s [RANGE 6] JOIN names ON s.k = names.k"
BY_NUMBER = "SELECT x, name FROM s [RANGE 6] JOIN names ON x = n"


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    found = Tables(tmp_path, broadcast_bytes=0)
    yield found
    found.catalog.close()


def told(one: StoredTable, since: int | None) -> StoredRelation:
    """What the driver tells tasks."""
    base = None if one.base.path is None else StoredBase(one.base.seq, one.base.path, one.base.is_bucketed)
    changes = tuple((change.seq, change.path) for change in one.changes)
    return StoredRelation("", one.id, one.definition.key, one.version.seq, base, changes, since)


def scan_of(plan: ContinuousPlan) -> tuple[TableScan, tuple[str, ...]]:
    (path, names), *_ = staged(plan).scans.items()
    scan = node_at(plan.root, path)
    assert isinstance(scan, TableScan) and names is not None
    return scan, names


def rows_in(found: pa.Table) -> list[tuple[object, ...]]:
    names = ["k", "name", "n"]
    return sorted(tuple(row[name] for name in names) for row in found.to_pylist()) if found.num_rows else []


KEYS = st.integers(0, 40)
OPERATIONS = st.lists(
    st.one_of(st.lists(st.tuples(KEYS, st.integers(0, 3)), min_size=1, max_size=20), st.sets(KEYS)), max_size=5
)


@settings(max_examples=12, deadline=None)
@given(OPERATIONS, st.integers(1, 5), st.sampled_from([0, 400, 1 << 30]))
def test_tasks_share_the_rows(
    tmp_path_factory: pytest.TempPathFactory, operations: list[list[tuple[int, int]] | set[int]], tasks: int, most: int
) -> None:
    """After every change, the tasks together read each row once, those of a range of buckets; a task that looks rows up
    has all of them."""
    tables, worker = Tables(tmp_path_factory.mktemp("tables"), most), TaskTables()
    try:
        tables.sql(f"CREATE TABLE {NAMES}")
        one, root = tables.manager.table("names"), str(tables.root)
        for change in operations:
            if isinstance(change, set):
                tables.manager.remove(one, change)
            else:
                tables.manager.put(one, [(k, f"name {k}", n) for k, n in change], replaces=True)
            expected = tables.rows("names")
            assert rows_in(worker.whole(root, told(one, None)).rows.rows(one.definition.schema)) == expected
            for text in (BY_KEY, BY_NUMBER):
                shared = [
                    worker.shared(root, told(one, None), *scan_of(plan_of(text)), buckets, DUE).changes
                    for buckets in ranges_of(tasks)
                ]
                assert sorted(row for some in shared for row in rows_in(some)) == expected
    finally:
        tables.catalog.close()


def test_a_task_reads_its_range(tables: Tables) -> None:
    """Of a join on the key, no row of another range is looked at: not even to hash it."""
    tables.sql(f"CREATE TABLE {NAMES}")
    one = tables.manager.table("names")
    tables.manager.put(one, [(k, f"name {k}", k % 7) for k in range(2_000)], replaces=True)
    assert one.base.is_bucketed and not one.changes
    worker, (first, second) = TaskTables(), ranges_of(2)
    whole = worker.whole(str(tables.root), told(one, None)).rows
    halves = [whole.within(first), whole.within(second)]
    assert sum(half.count for half in halves) == 2_000 and all(900 < half.count < 1_100 for half in halves)
    mine = worker.shared(str(tables.root), told(one, None), *scan_of(plan_of(BY_KEY)), first, DUE).changes
    assert rows_in(mine) == rows_in(halves[0].rows(one.definition.schema))


def test_changes_beside_a_newer_base(tables: Tables) -> None:
    """A plan has seen less than the base has: it gets the changes since, and others the rows of now."""
    tables.sql(f"CREATE TABLE {NAMES}")
    one = tables.manager.table("names")
    tables.read_up_to(1)
    for n in range(1, 4):
        tables.manager.put(one, [(k, "x", n) for k in range(3)], replaces=True)
    assert one.base.seq == 3 and [change.seq for change in one.changes] == [2, 3]
    for _ in range(2):
        shared = TaskTables().shared(str(tables.root), told(one, 1), *scan_of(plan_of(BY_KEY)), (0, 256), DUE).changes
        assert sorted(zip(*(shared.column(name).to_pylist() for name in (COUNT, "k", "n")), strict=True)) == [
            *((-1, k, 1) for k in range(3)),
            *((1, k, 3) for k in range(3)),
        ]
        assert tables.rows("names") == [(k, "x", 3) for k in range(3)]
        tables.reopen()
        one = tables.manager.table("names")


def test_a_worker_leaves_a_base_that_is_gone(tables: Tables) -> None:
    tables.sql(f"CREATE TABLE {NAMES}")
    one, worker, root = tables.manager.table("names"), TaskTables(), str(tables.root)
    for n in range(3):
        tables.manager.put(one, [(k, "x", n) for k in range(10)], replaces=True)
        assert len(list((tables.root / "tables" / "1").iterdir())) == 1, "the base before is dropped by the commit"
        found = worker.whole(root, told(one, None)).rows
        assert len(found.levels) == 1 and set(found.rows(one.definition.schema).column("n").to_pylist()) == {n}


def test_a_large_table_is_not_in_memory(tmp_path: Path) -> None:
    tables = Tables(tmp_path, broadcast_bytes=1 << 20)
    tables.sql(f"CREATE TABLE {NAMES}")
    keys = np.arange(100_000, dtype=np.int32)
    rows = pa.table({"k": keys, "name": [f"the name of row {k}" for k in keys.tolist()], "n": keys % 5})
    tables.manager.put(tables.manager.table("names"), rows.cast(table(NAMES).schema), replaces=True)
    size, before = tables.manager.table("names").version.rows.row_bytes, pa.total_allocated_bytes()
    assert size > 2 << 20
    for _ in range(2):
        one = tables.manager.table("names")
        found = one.version.rows.find([pa.array([7, 99_999, 100_000], pa.int32())], 3)
        assert one.version.rows.take(found[:2], one.definition.schema).column("k").to_pylist() == [7, 99_999]
        assert found[2] == -1
        tables.reopen()
        assert pa.total_allocated_bytes() - before < size // 10
    tables.catalog.close()


def test_layout_follows_the_size(tmp_path: Path) -> None:
    tables = Tables(tmp_path, broadcast_bytes=500)
    tables.sql(f"CREATE TABLE {NAMES}")
    one = tables.manager.table("names")
    tables.manager.put(one, [(1, "x", 1)], replaces=True)
    assert one.base == TableBase()
    tables.manager.put(one, [(k, "x", 1) for k in range(100)], replaces=True)
    assert one.base.is_bucketed and one.base.seq == 2
    tables.manager.remove(one, list(range(2, 100)))
    for n in range(40):
        tables.manager.put(one, [(1, "y", n)], replaces=True)
    assert not one.base.is_bucketed and one.base.seq > 20, "it is small, and has many changes"
    assert tables.rows("names") == [(0, "x", 1), (1, "y", 39)]
    tables.catalog.close()


def note(text: str, definition: str, is_bucketed: bool) -> str:
    declared = table(definition)
    plan = plan_of(text, tables={declared.name: declared})
    one = StoredTable(1, declared, TableVersion.first(declared), TableBase(1, "x", 1, is_bucketed))
    (use,) = table_uses(plan, {declared.name: one})
    return table_note(plan, use)


LATER = "later (k INT PRIMARY KEY, name STRING, n INT) NON RETROACTIVE"


@pytest.mark.parametrize(
    ("text", "definition", "says"),
    [
        (BY_KEY, NAMES, "at first a task reads its buckets, by k, and then changes"),
        (BY_NUMBER, NAMES, "its rows are shared by n, not by the key (k)"),
        (
            "SELECT x, name FROM s [RANGE 6] JOIN later ON s.k = later.k",
            LATER,
            "rows are found by k in the mapped file",
        ),
        ("SELECT x, name FROM s [RANGE 6] JOIN later ON x = n", LATER, "the join is not on all of the key (k)"),
    ],
)
def test_what_explain_says(text: str, definition: str, says: str) -> None:
    assert says in note(text, definition, is_bucketed=True)
    assert note(text, definition, is_bucketed=False).startswith("broadcast: ")
