"""Window stores in the catalog: who reads what since when, which rows expire, and which files are merged."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from windrow.catalog.definitions import define_stream
from windrow.catalog.store import Catalog
from windrow.cql import parse_one
from windrow.cql.statements import CreateStream
from windrow.dataplane.blocks import BlockStore, BlockWriter
from windrow.dataplane.blocks.store import BlockRow
from windrow.dataplane.kernels import Keeper
from windrow.dataplane.stores import POINT, KeptColumn, Selected
from windrow.engine.kept import rewrites as rewriting
from windrow.engine.kept.rewrites import rewrites
from windrow.engine.kept.window_stores import StoreUse, WindowStores
from windrow.engine.progress import start_of
from windrow.engine.state import StreamState
from windrow.types import POINT_MAX, POINT_MIN, SqlType
from windrow.windows import Seen
from windrow.windows.promises import Announcement

STREAM = "CREATE STREAM s (t BIGINT, x BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 1000"
X = KeptColumn("x", SqlType("BIGINT"))
Y = KeptColumn("x * 2", SqlType("BIGINT"))
EVEN = KeptColumn("x % 2 = 0", SqlType("BOOLEAN"))
LOW = KeptColumn("x % 10 < 3", SqlType("BOOLEAN"))


class Bench:
    """A stream of points, each micro-batch deposited as the engine does, without Spark."""

    def __init__(self, root: Path):
        self.root = root
        self.catalog = Catalog(root / "catalog.sqlite")
        self.blocks = BlockStore(root, self.catalog)
        self.stores = WindowStores(self.catalog, self.blocks)
        definition = define_stream(cast(CreateStream, parse_one(STREAM)))
        self.stream = StreamState(1, definition, root, start_of(definition))
        self.stores.recover([self.stream])
        if not self.catalog.rows("SELECT * FROM streams"):
            with self.catalog.transaction() as tx:
                tx.execute("INSERT INTO streams (name, id, statement) VALUES ('s', 1, '')")

    def need(self, reader: str, *columns: KeptColumn, predicate: KeptColumn | None = None, **more: int) -> StoreUse:
        return self.stores.need(self.stream, reader, "t", columns, predicate, (X,), **more)

    def deposit(self, *points: int, tidy: bool = True) -> None:
        request = self.stores.keeping(self.stream, 1000)
        if request is not None:
            values = {
                X.sql: pa.array(points, pa.int64()),
                Y.sql: pa.array([2 * t for t in points], pa.int64()),
                EVEN.sql: pa.array([t % 2 == 0 for t in points]),
                LOW.sql: pa.array([t % 10 < 3 for t in points]),
            }
            rows = pa.table({"__t0": values["x"], "__reason": pa.nulls(len(points), pa.string()), **values})
            keeper = Keeper(request, {one: one.sql for one in request.columns}, BlockWriter(Path(request.root)))
            keeper.add(rows)
            files = keeper.written()
            with self.catalog.transaction():
                for file in files:
                    self.blocks.add(file.ref, file.lo, file.hi)
            self.stores.deposited(files)
        after = self.stream.progress.after_deposit(
            self.stream.last_batch + 1, {"t": Seen(max(points))}, {"t": min(points)}, Announcement(), {}, True
        )
        self.stream.progress = after
        if tidy:
            self.stores.tidy(self.stream)

    def points(self, use: StoreUse, lo: int = POINT_MIN, hi: int = POINT_MAX) -> list[int]:
        found = self.stores.rows(use, [X], lo, hi)
        assert found.column(POINT).to_pylist() == found.column(X.id).to_pylist()
        return sorted(found.column(POINT).to_pylist())

    def keep_from(self, reader: str, point: int) -> None:
        with self.catalog.transaction():
            self.stores.keep_from({reader: point})

    def on_disk(self) -> int:
        return len(list(self.root.rglob("*.arrow")))

    def reopened(self) -> Bench:
        self.catalog.close()
        other = Bench(self.root)
        other.stream.progress = self.stream.progress
        return other


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.catalog.close()


# -- since when -------------------------------------------------------------------------------------


def test_new_stream(bench: Bench) -> None:
    use = bench.need("q", X)
    assert use.since is None and bench.stream.readers == {"q"} and bench.stream.is_read
    bench.deposit(3, 1)
    bench.deposit(7)
    assert bench.points(use) == [1, 3, 7] and bench.points(use, 3, 7) == [3]
    assert bench.stores.greatest(bench.stream, "t") == 7


def test_stream_with_rows(bench: Bench) -> None:
    bench.deposit(3, 8)
    use = bench.need("q", X)
    assert use.since == 9
    bench.deposit(5, 12)
    assert bench.points(use) == [12]


def test_same_columns_share_the_past(bench: Bench) -> None:
    first = bench.need("a", X, Y)
    bench.deposit(3, 8)
    second = bench.need("b", X)
    assert second.since is None and second.store == first.store
    assert bench.points(second) == [3, 8]


def test_missing_column(bench: Bench) -> None:
    bench.need("a", X)
    bench.deposit(3, 8)
    second, third = bench.need("b", Y), bench.need("c", X)
    assert (second.since, third.since) == (9, None)
    bench.deposit(6, 10)
    assert bench.need("d", Y).since == 9
    found = bench.stores.rows(second, [Y], 0, 100)
    assert found.column(1).to_pylist() == [20]


def test_column_kept_again(bench: Bench) -> None:
    bench.need("a", X)
    bench.need("b", Y)
    bench.deposit(3)
    bench.stores.drop("b")
    bench.deposit(4)
    assert bench.need("b", Y).since == 5


def test_rows_excluded_by_others(bench: Bench) -> None:
    even = bench.need("even", X, predicate=EVEN)
    bench.deposit(1, 2, 3, 4)
    low, everything, again = (
        bench.need("low", X, predicate=LOW), bench.need("all", X), bench.need("again", X, predicate=EVEN)
    )  # fmt: skip
    assert (even.since, low.since, everything.since, again.since) == (None, 5, 5, None)
    bench.deposit(5, 6, 11, 12)
    assert bench.points(even) == bench.points(again) == [2, 4, 6, 12]
    assert bench.points(low) == [11, 12] and bench.points(everything) == [5, 6, 11, 12]
    bench.stores.drop("all")
    assert bench.need("low2", X, predicate=LOW).since == 5
    bench.deposit(13, 15, 21)
    assert bench.points(low) == [11, 12, 21] and bench.points(even) == [2, 4, 6, 12]


def test_predicate_over_all_rows(bench: Bench) -> None:
    bench.need("all", X, LOW)
    bench.deposit(1, 2, 8)
    low = bench.need("low", X, predicate=LOW)
    assert low.since is None and bench.points(low) == [1, 2]
    assert bench.need("even", X, predicate=EVEN).since == 9  # its column was not kept


def test_two_needs_in_one_transaction(bench: Bench) -> None:
    with bench.catalog.transaction():
        left, right = bench.need("q/0", X), bench.need("q/1", Y)
    assert left.store == right.store and bench.stream.readers == {"q/0", "q/1"}


def test_rolled_back_need(bench: Bench) -> None:
    with pytest.raises(KeyError), bench.catalog.transaction():
        bench.need("q", X)
        raise KeyError
    assert not bench.stream.readers and bench.stores.keeping(bench.stream, 10) is None


def test_other_keys_other_store(bench: Bench) -> None:
    first = bench.need("a", X)
    second = bench.stores.need(bench.stream, "b", "t", [X])
    assert first.store != second.store
    with pytest.raises(ValueError):
        bench.stores.need(bench.stream, "a", "t", [X])
    bench.deposit(1, 2)
    assert bench.points(first) == bench.points(second) == [1, 2]
    bench.stores.drop("a")
    assert bench.points(second) == [1, 2] and bench.on_disk() == 1


def test_restart(bench: Bench) -> None:
    use = bench.need("q", X, predicate=EVEN, span=100)
    bench.deposit(1, 2, 3, 4)
    bench.keep_from("q", 3)
    other = bench.reopened()
    assert other.stores.use("q") == use and other.stores.use("none") is None
    assert other.stream.readers == {"q"} and other.points(use, 3) == [4]
    (store,) = other.stores.stores
    assert (store.kept_from, store.span) == (3, 100)
    assert other.need("r", X, predicate=EVEN).since == 3


def test_suspended_reader(bench: Bench) -> None:
    told = []
    bench.stores.on_failure = lambda reader, why: told.append((reader, why))
    use = bench.need("a", X)
    bench.need("b", Y)
    bench.deposit(1)
    bench.stores.suspend("b", "no such thing")
    assert told == [("b", "no such thing")] and bench.stream.readers == {"a"}
    bench.deposit(2)
    assert bench.points(use) == [1, 2] and bench.stores.stores[0].spec.columns == (X,)
    bench.stores.suspend("a", "no")
    assert bench.stores.keeping(bench.stream, 10) is None


# -- expiry -----------------------------------------------------------------------------------------


def test_expired_files_are_dropped(bench: Bench) -> None:
    use, other = bench.need("a", X), bench.need("b", X)
    for point in range(0, 40, 10):
        bench.deposit(point, point + 9, tidy=False)
    bench.keep_from("a", 25)
    assert bench.on_disk() == 4
    held = bench.stores.rows(other, [X], 0, 40)
    bench.keep_from("b", 21)
    assert bench.on_disk() == 2 and bench.stores.nbytes > 0
    assert bench.points(use) == [20, 29, 30, 39]
    assert held.num_rows == 8 and held.column(1).to_pylist()[0] == 0  # it is mapped
    bench.keep_from("a", 20)  # never back
    assert bench.need("c", X).since == 21
    bench.stores.drop("c")
    bench.stores.drop("b")
    assert bench.stores.stores[0].kept_from == 25


def test_questions_take_no_copies_from_ticks(bench: Bench) -> None:
    use = bench.need("a", X, Y, EVEN)
    for point in range(20):
        bench.deposit(point, tidy=False)
    files, release = bench.stores.pin({use.store: (POINT_MIN, POINT_MAX)})
    asked = [[X], [Y], [EVEN], [X, Y], [Y, X], [X, EVEN], [EVEN, X], [Y, EVEN], [EVEN, Y]]
    assert all(files[use.store].rows(columns, Selected()).num_rows == 20 for columns in asked)
    assert bench.stores.rows(use, [X], POINT_MIN, POINT_MAX).column(0).num_chunks < 20
    release()
    bench.keep_from("a", 30)
    assert not bench.stores._asked.paths, "mappings of expired files are released"


def test_rows_of_a_stream_that_is_held_do_not_expire(bench: Bench) -> None:
    bench.need("a", X)
    for point in (0, 10, 20):
        bench.deposit(point, point + 9, tidy=False)
    held = {"s"}
    bench.stores.is_held = held.__contains__
    bench.keep_from("a", 15)
    assert (bench.on_disk(), bench.stores.stores[0].kept_from) == (3, None)
    held.clear()
    bench.keep_from("a", 15)
    assert (bench.on_disk(), bench.stores.stores[0].kept_from) == (2, 15)


def test_new_reader_that_needs_less(bench: Bench) -> None:
    bench.deposit(1)
    with bench.catalog.transaction():
        use = bench.need("a", X)
        bench.stores.keep_from({"a": 10})
        bench.stores.keep_from({"nobody": 10})
    assert bench.stores.stores[0].kept_from == 10 and bench.stores.stores[0].needed_from == 10
    bench.deposit(9)
    assert bench.on_disk() == 0
    bench.deposit(10, 11)
    assert bench.points(use) == [10, 11]


def test_rolled_back_expiry(bench: Bench) -> None:
    use = bench.need("a", X)
    bench.deposit(1, 2)
    with pytest.raises(KeyError), bench.catalog.transaction():
        bench.stores.keep_from({"a": 10})
        raise KeyError
    assert bench.points(use) == [1, 2] and bench.stores.stores[0].kept_from is None


def test_all_state_goes(bench: Bench) -> None:
    use = bench.need("a", X)
    for point in range(5):
        bench.deposit(point)
    bench.keep_from("a", 5)
    assert bench.on_disk() == 0 and bench.stores.nbytes == 0 and bench.points(use) == []
    bench.stores.drop("a")
    bench.stores.drop("a")
    assert not bench.stores.stores and not bench.stream.readers


def test_dropped_store_has_no_files(bench: Bench) -> None:
    bench.need("a", X)
    bench.deposit(1)
    bench.stores.drop("a")
    assert bench.on_disk() == 0 and bench.catalog.rows("SELECT * FROM blocks") == []


@pytest.mark.parametrize("span", [None, 1000])
def test_nothing_outlives_its_need_by_a_twentieth(bench: Bench, span: int | None) -> None:
    """Micro-batches of any width, some late; the rows are right at every step, and files few."""
    rng, use, now, all_points = random.Random(4), bench.need("a", X), 0, list[int]()
    if span is not None:
        use = bench.need("a", X, span=span)
    most = 0
    for _ in range(300):
        width = rng.choice([1, 3, 30, 400])
        points = [now + rng.randrange(-100, width) for _ in range(rng.randrange(1, 20))]
        now += width // 2
        bench.deposit(*points, tidy=False)
        all_points += points
        bench.keep_from("a", now - 1000)
        bench.stores.tidy(bench.stream)
        files = bench.stores.files(use)
        greatest = bench.stores.greatest(bench.stream, "t") or 0
        allowed = max(1000, greatest - (now - 1000)) // 20 + 1
        assert all(file.lo >= now - 1000 - allowed for file in files)
        assert bench.points(use, now - 1000) == sorted(point for point in all_points if point >= now - 1000)
        most = max(most, len(files))
    assert most < 150
    bench.keep_from("a", now + 10_000)
    assert bench.on_disk() == 0


def test_silent_stream_is_cut_by_ticks(bench: Bench) -> None:
    """One wide file, and no micro-batch after it: ticks alone move on."""
    use = bench.need("a", X, span=400)
    bench.deposit(*range(401))
    for ticked in range(400, 820, 10):
        bench.keep_from("a", ticked - 400)
        assert bench.stores.tidy_silent(bench.stream) <= 1
        assert all(file.lo >= ticked - 400 - 20 for file in bench.stores.files(use))
        assert bench.points(use, ticked - 400) == list(range(ticked - 400, 401))
    assert bench.on_disk() == 0


def test_running_stream_is_not_cut_by_ticks(bench: Bench) -> None:
    bench.need("a", X, span=400)
    bench.deposit(*range(401))
    bench.deposit(500)
    bench.keep_from("a", 100)
    assert bench.stores.tidy_silent(bench.stream) == 0 and bench.on_disk() == 2
    bench.keep_from("a", 130)
    assert bench.stores.tidy_silent(bench.stream) == 1


# -- merging ----------------------------------------------------------------------------------------


def test_merging_changes_no_rows(bench: Bench) -> None:
    use, even = bench.need("a", X), bench.need("b", X, predicate=EVEN)
    for point in range(100):
        bench.deposit(point, point - 3)
    expected = sorted([*range(100), *range(-3, 97)])
    assert len(bench.stores.files(use)) <= 2 * rewriting.FAN and bench.on_disk() == len(bench.stores.files(use))
    assert bench.points(use) == expected and bench.points(even) == [t for t in expected if t % 2 == 0]
    buckets = [bench.stores.rows(use, [X], 0, 50, range(at, at + 32)) for at in range(0, 256, 32)]
    assert sorted(t for part in buckets for t in part.column(POINT).to_pylist()) == [t for t in expected if 0 <= t < 50]


def test_reading_while_files_are_merged(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    use = bench.need("a", X)
    for point in range(7):
        bench.deposit(point)
    stale = bench.stores._named(use.store)
    bench.deposit(7)
    assert len(bench.stores.files(use)) == 1
    bench.stores._files[use.store] = stale
    assert bench.points(use) == list(range(8))


def test_file_that_expires_while_it_is_merged(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    use = bench.need("a", X)
    for point in range(8):
        bench.deposit(point, tidy=False)
    merge = rewriting.rewrites
    plans = merge(bench.stores._named(use.store), None, None, 7)

    def late(name: str) -> None:
        if name == "store-merge-written":
            bench.keep_from("a", 2)

    monkeypatch.setattr("windrow.engine.kept.window_stores.crash_point", late)
    assert not bench.stores._rewrite(bench.stores.stores[0], plans[0])
    assert bench.points(use) == [2, 3, 4, 5, 6, 7] and bench.on_disk() == 6


def block(number: int, lo: int, hi: int, size: int = 1000) -> BlockRow:
    return BlockRow(number, f"stores/1/{number}", "stores/1", lo, hi, 1, size, 1)


def test_few_files_stay() -> None:
    assert rewrites([block(i, i, i) for i in range(rewriting.FAN - 1)], 400, None, 9) == []
    assert rewrites([], None, None, None) == []


def test_large_files_stay() -> None:
    large = [block(i, i, i, rewriting.LARGE_BYTES) for i in range(99)]
    assert rewrites(large, None, None, None) == rewrites(large, 4000, None, 99) == []


def test_files_of_a_pane() -> None:
    files = [block(i, 10 * i, 10 * i + 9) for i in range(8)]
    (one, two) = rewrites(files, 1600, None, 100)
    assert [file.id for file in one.files] == [0, 1, 2, 3] and [file.id for file in two.files] == [4, 5, 6, 7]
    assert one.bounds == (POINT_MIN, POINT_MAX)
    assert rewrites(files, 1600, None, 79) == [one]  # the other pane is not over


def test_expired_part_is_cut_off() -> None:
    (one,) = rewrites([block(1, 0, 399), block(2, 360, 420)], 400, 20, 420)
    assert one.files[0].id == 1 and one.bounds[0] == 20 and one.bounds[-1] == 400
    assert all(b - a <= 20 for a, b in zip(one.bounds, one.bounds[1:], strict=False))
    assert rewrites([block(1, 0, 399)], 400, 19, 420) == []


def test_pieces_are_few() -> None:
    (one,) = rewrites([block(1, 0, 10**9)], 400, 20, 10**9)
    assert len(one.bounds) <= rewriting.MOST_PIECES + 2


def test_many_wide_files() -> None:
    files = [block(i, i, i + 100) for i in range(rewriting.WIDE_FILES)]
    assert rewrites(files[1:], 400, None, 200) == []
    (one,) = rewrites(files, 400, None, 200)
    assert len(one.files) == rewriting.WIDE_FILES and one.bounds[:3] == (0, 10, 20) and one.bounds[-1] == 164


# -- the list of files -------------------------------------------------------------------------------


def test_lists_follow_commits_without_being_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    use = bench.need("q", X)
    bench.deposit(1, 2, tidy=False)
    assert bench.points(use) == [1, 2]
    named, asked = BlockStore.named, list[str | None]()

    def noted(self: BlockStore, owner: str | None = None) -> list[BlockRow]:
        asked.append(owner)
        return named(self, owner)

    monkeypatch.setattr(BlockStore, "named", noted)
    for t in range(3, 9):
        bench.deposit(t, tidy=False)
        assert bench.points(use) == list(range(1, t + 1))
    assert asked == []
    bench.keep_from("q", 6)
    assert bench.points(use) == [6, 7, 8] and len(asked) == 1, "only the commit itself has looked"


def test_lists_are_right_whatever_happens_together(bench: Bench) -> None:
    """A file is never listed twice, nor missed, if others read and expire while it is deposited."""
    use, stop = bench.need("q", X), threading.Event()

    def read() -> None:
        while not stop.is_set():
            bench.stores.look_again([use])
            found = bench.points(use)
            assert len(found) == len(set(found))

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for t in range(40):
                bench.deposit(t, tidy=False)
                if t % 7 == 6:
                    bench.keep_from("q", t - 3)
                listed = [f"{bench.root}/{row.path}" for row in bench.blocks.named(f"stores/{use.store}")]
                assert [file.path for file in bench.stores.files(use)] == listed
        finally:
            stop.set()
        for one in readers:
            one.result()
