"""Commits of continuous queries: several plans in one transaction, and how long what they reported is kept."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockStore, store
from windrow.engine.plans import commits
from windrow.engine.plans.commits import ANSWERS, CHANGES, STATE, VIEW, NewPart, PlanCommits, PlanTick
from windrow.engine.plans.ticker import _repeated_upto
from windrow.errors import StateError
from windrow.operators.ticks import DueTicks

KEPT = 100


class Bench:
    """Plans 1, 2 and 3 of a catalog; each tick reports some rows."""

    def __init__(self, root: Path):
        self.root = root
        self.catalog = Catalog(root / "catalog.sqlite")
        self.blocks = BlockStore(root, self.catalog)
        self.commits = PlanCommits(self.catalog, self.blocks)
        self.seq = 0
        self.viewed = 0
        for number in (1, 2, 3):
            self.commits.add(number, f"q{number}", "", "", [], lambda: None)

    def tick(self, rows: dict[int, int], views: bool = True, **more: Any) -> None:
        """Plan by plan, so many changes, and a view of one row."""
        self.seq += 1
        self.viewed = self.seq if views else self.viewed
        ticks, more = [], {"keep": KEPT, "shown_from": self.viewed + 1, **more}
        for plan, count in rows.items():
            parts = [NewPart(CHANGES, pa.table({"n": [self.seq] * count}))]
            parts += [NewPart(VIEW, pa.table({"n": [self.seq]}))] if views else []
            drops = (VIEW,) if views else ()
            ticks.append(PlanTick(plan, self.seq, self.seq, tuple(parts), drops, **more))
        self.commits.tick(ticks)

    def held(self, plan: int, kind: str = CHANGES) -> list[int]:
        """The commits whose rows are kept, a number per row."""
        read = self.commits.reader()
        tables = [read(part) for part in self.commits.parts(plan, kind)]
        return [n for table in tables for n in table.column("n").to_pylist()]

    def on_disk(self) -> int:
        return len(list(self.root.rglob("*.arrow")))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.catalog.close()


def test_plans_of_a_commit_are_in_one_file(bench: Bench) -> None:
    bench.tick({1: 3, 2: 0, 3: 5})
    assert [bench.held(plan) for plan in (1, 2, 3)] == [[1] * 3, [], [1] * 5]
    assert bench.on_disk() == 1
    rows = bench.catalog.rows("SELECT id, ticked, seq, changes FROM plans ORDER BY id")
    assert [tuple(row) for row in rows] == [(1, 1, 1, 3), (2, 1, 1, 0), (3, 1, 1, 5)]


@pytest.mark.parametrize("prepared", [0, 1 << 20])
def test_a_commit_waits_for_its_file(bench: Bench, monkeypatch: pytest.MonkeyPatch, prepared: int) -> None:
    """Whether or not its transaction is prepared meanwhile: a sync that is slow or fails keeps it from committing."""
    synced, sync_all = list[int](), store.sync_all

    def slowly(handles: list[int]) -> None:
        time.sleep(0.1)
        sync_all(handles)
        synced.extend(handles)

    committing = Catalog._commit
    monkeypatch.setattr(commits, "PREPARED_BYTES", prepared)
    monkeypatch.setattr(store, "sync_all", slowly)
    monkeypatch.setattr(Catalog, "_commit", lambda *args: committing(*args) if synced else pytest.fail("too early"))
    bench.tick({1: 3})
    assert synced and bench.held(1) == [1] * 3

    def failing(handles: list[int]) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(store, "sync_all", failing)
    with pytest.raises(StateError, match="no space left"):
        bench.tick({1: 3})
    assert bench.held(1) == [1] * 3 and bench.on_disk() == 1


def test_overflows_add_up(bench: Bench) -> None:
    for _ in range(2):
        bench.tick({1: 1, 2: 1}, overflows=3)
    rows = bench.catalog.rows("SELECT overflows FROM plans ORDER BY id")
    assert [row["overflows"] for row in rows] == [6, 6, 0]


def test_blocks_are_dropped_without_a_look_through_all_parts(bench: Bench) -> None:
    """The database looks for rows that refer to a block when it is dropped."""
    for table in ("plan_parts", "relation_parts"):
        (row,) = bench.catalog.rows(f"EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE block = 1")
        assert f"{table}_by_block" in row["detail"]


def test_the_newest_changes_are_kept_whatever_the_order_of_sizes(bench: Bench) -> None:
    """A commit that asks the catalog only when something may go keeps what one that always asks does."""
    sizes = [60, 60, 1, 1, 1, 1, 120, 5, 5, 90, 30, 0, 200, 1]
    for at, size in enumerate(sizes, 1):
        bench.tick({1: size, 2: 1})
        kept = list(enumerate(sizes[:at], 1))
        while sum(n for _, n in kept) - kept[0][1] >= KEPT:
            kept.pop(0)
        assert bench.held(1) == [seq for seq, n in kept for _ in range(n)], at
    assert bench.held(2) == list(range(1, len(sizes) + 1))


@pytest.mark.parametrize(("keep", "kept"), [(0, [5, 5, 5]), (3, [5, 5, 5]), (4, [4, 5, 5, 5]), (6, [2, 2, 4, 5, 5, 5])])
def test_the_latest_answer_is_kept(bench: Bench, keep: int, kept: list[int]) -> None:
    """Commit 3 and those after commit 5 have answers without rows."""
    for seq, rows in enumerate((2, 2, 0, 1, 3, 0, 0), 1):
        parts = (NewPart(ANSWERS, pa.table({"n": [seq] * rows})),) if rows else ()
        bench.commits.tick([PlanTick(1, seq, seq, parts, keep=keep, shown_from=seq + 1)])
    assert bench.held(1, ANSWERS) == kept


def test_changes_stay_until_the_view_has_them(bench: Bench) -> None:
    bench.tick({1: 1})
    for _ in range(4):
        bench.tick({1: KEPT}, views=False)
    assert len(bench.held(1)) == 1 + 4 * KEPT - 1, "the first commit is in the view, and goes"
    bench.tick({1: 1})
    assert bench.held(1) == [5] * KEPT + [6]


def test_changes_go_when_the_view_is_made_of_later_ones(bench: Bench) -> None:
    """Also if it is not known when they end, and without a merged view."""
    for seq, end in ((1, 3), (2, None), (3, 4), (4, 20)):
        part = NewPart(CHANGES, pa.table({"n": [seq] * KEPT}), lo=seq, hi=end)
        bench.commits.tick([PlanTick(1, seq, seq, (part,), keep=KEPT, shown_from=2 if seq == 4 else 1)])
    assert [part.seq for part in bench.commits.view_parts(1)] == [2, 3, 4], "from the first on that has not expired"
    assert bench.held(1) == [n for n in (2, 3, 4) for _ in range(KEPT)]
    bench.commits.tick([PlanTick(1, 10, 5, (), keep=KEPT, shown_from=4)])
    assert bench.held(1) == [4] * KEPT and [part.seq for part in bench.commits.view_parts(1)] == [4]


def test_the_view_is_made_of_no_earlier_changes(bench: Bench) -> None:
    """Changes of CREATE OR REPLACE whose merged view has expired are kept, but a restart does not read them."""
    for seq in (1, 2):
        part = NewPart(CHANGES, pa.table({"n": [seq]}), lo=seq)
        bench.commits.tick([PlanTick(1, seq, seq, (part,), keep=KEPT, shown_from=2)])
    assert bench.held(1) == [1, 2] and [part.seq for part in bench.commits.view_parts(1)] == [2]


def test_tidied_parts_know_their_ends_and_stay_apart_from_the_merged_view(bench: Bench) -> None:
    for seq in range(1, 6):
        rows = pa.table({"op": ["+"], "tick": [seq]})
        bench.commits.tick([PlanTick(1, seq, seq, (NewPart(CHANGES, rows, lo=10 - seq, hi=10 + seq),))])
    merged = bench.commits.tidied(1, CHANGES, bench.commits.reader(), shown_upto=2)
    assert merged.firsts == (1, 3) and len(merged.replaced) == 5
    assert [(part.seq, part.lo, part.hi) for part in merged.parts] == [(2, 8, 12), (5, 5, 15)]


def test_merged_parts_have_ascending_ticks(bench: Bench) -> None:
    """A '+' of CREATE OR REPLACE and a '-' of the next commit may be of one tick: as one part they would be sorted."""
    for seq, ticks in enumerate([(1, 2), (3,), (4,), (4, 5), (6,)], 1):
        rows = pa.table({"op": ["+"] * len(ticks), "tick": list(ticks)})
        bench.commits.tick([PlanTick(1, ticks[-1], seq, (NewPart(CHANGES, rows),))])
    merged = bench.commits.tidied(1, CHANGES, bench.commits.reader()).parts
    assert [part.table["tick"].to_pylist() for part in merged] == [[1, 2, 3, 4], [4, 5, 6]]
    assert [part.seq for part in merged] == [3, 5]


def _commit_ranges(bench: Bench, seq: int, tick: int, *sizes: int) -> None:
    """A commit of a plan in Spark: a part of so many changes for each range."""
    tables = [pa.table({"op": ["+"] * size, "tick": [tick] * size}) for size in sizes]
    bench.commits.tick([PlanTick(1, tick, seq, tuple(NewPart(CHANGES, table) for table in tables))])


def test_parts_are_merged_by_whole_commits(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view in memory replaces parts by commit, so a merged part must not have some ranges of a commit alone."""
    monkeypatch.setattr(commits, "SMALL_ROWS", 4)
    for seq, sizes in enumerate([(2, 2), (2, 2), (2, 2), (1, 9), (1, 1), (1, 1)], 1):
        _commit_ranges(bench, seq, seq, *sizes)
    merged = bench.commits.tidied(1, CHANGES, bench.commits.reader())
    assert [part.table["tick"].to_pylist() for part in merged.parts] == [[1] * 4 + [2] * 4, [3] * 4, [5, 5, 6, 6]]
    assert [(first, part.seq) for first, part in zip(merged.firsts, merged.parts, strict=True)] == [
        (1, 2),
        (3, 3),
        (5, 6),
    ]


def test_ascending_ticks_cut_before_the_first_range_of_a_commit(bench: Bench) -> None:
    for seq, ticks in enumerate([(1, 1), (2, 2), (3, 2), (4, 5)], 1):
        parts = tuple(NewPart(CHANGES, pa.table({"op": ["+"], "tick": [tick]})) for tick in ticks)
        bench.commits.tick([PlanTick(1, max(ticks), seq, parts)])
    merged = bench.commits.tidied(1, CHANGES, bench.commits.reader())
    assert [part.table["tick"].to_pylist() for part in merged.parts] == [[1, 1, 2, 2], [3, 2, 4, 5]]
    assert merged.firsts == (1, 3)


def test_a_commit_that_fails_changes_nothing(bench: Bench) -> None:
    bench.tick({1: KEPT})

    def fail() -> None:
        raise KeyError("no")

    for _ in range(2):
        with pytest.raises(KeyError):
            table = pa.table({"n": [9] * KEPT})
            parts = (NewPart(CHANGES, table), NewPart(VIEW, table))
            bench.commits.tick([PlanTick(1, 9, 9, parts, (VIEW,), keep=KEPT)], fail)
        assert bench.held(1) == [1] * KEPT
    bench.tick({1: KEPT})
    assert bench.held(1) == [2] * KEPT


def test_replaced_and_expired_parts_of_several_plans_go(bench: Bench) -> None:
    def tick(seq: int, drops: tuple[str, ...]) -> None:
        table = pa.table({"n": [seq]})
        parts = (NewPart(STATE, table, "0", "CALENDAR", 0, 10 * seq), NewPart(STATE, table, "1", "KEYED", 0, 0))
        bench.commits.tick([PlanTick(plan, 6 * seq, seq, parts, drops if plan == 1 else ()) for plan in (1, 2)])

    tick(1, ())
    tick(2, ())
    assert bench.held(1, STATE) == bench.held(2, STATE) == [1, 2, 2], "what ended below tick 12, but is not KEYED"
    tick(3, (STATE,))
    assert bench.held(1, STATE) == [3, 3] and bench.held(2, STATE) == [1, 2, 2, 3, 3]
    for plan in (1, 2):
        bench.commits.drop(plan, lambda: None)
    assert bench.on_disk() == 0 and bench.catalog.rows("SELECT * FROM blocks") == []


def test_rows_made_anew_at_every_tick_bound_a_batch() -> None:
    """Ten rows are alive, and each tick brings five: so n ticks make at most n * (10 + 5 n) rows."""
    lifetime = SimpleNamespace(offset=0)
    windows = [SimpleNamespace(lifetime=lifetime)]
    state = SimpleNamespace(sizes={"0": (10, 80), "0.0/old": (1000, 8000)})
    query = SimpleNamespace(
        repeating=("0",), plan=SimpleNamespace(windows=windows), uses=[None], version=SimpleNamespace(state=state)
    )
    files = [SimpleNamespace(lo=t, hi=t, rows=5) for t in range(1000)]
    stores, due = SimpleNamespace(files=lambda use: files), DueTicks(0, 100, 1)

    def upto(limit: int) -> int:
        return _repeated_upto(cast(Any, query), cast(Any, stores), due, limit).upto

    assert [upto(limit) for limit in (1, 15, 39, 40, 74, 75, 60_000)] == [1, 1, 1, 2, 2, 3, 100]
