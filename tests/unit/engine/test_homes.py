"""The home of a synopsis: stable moves, the remembered number of groups, and failures after a commit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from windrow.catalog.definitions import StreamDef
from windrow.catalog.store import Catalog
from windrow.clock import SystemClock
from windrow.cql.statements import ColumnDef, CreateStream
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.spark_home import SparkHome
from windrow.engine.intake.deposits import Depositor
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.progress import SynopsisProgress, start_of
from windrow.engine.state import StreamState, SynopsisState
from windrow.engine.store.homes import Homes, row_bytes
from windrow.engine.store.journal import Journal
from windrow.engine.store.tick_commits import Expiry, TickCommit
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan, style_of
from windrow.plan.aggregates import decompose
from windrow.plan.nodes import Attribute, Finalise, Key, Output, Scan, Selection, WindowAggregate
from windrow.settings import Settings
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup, OneTimeQuery, StoredSynopsis, Weight
from windrow.types import SqlType
from windrow.windows import CutSchedule, SlidingWindow

LIMIT = 64 << 10
SETTINGS = Settings({}).with_text("driver_synopsis_bytes", "64 KB")
GROUPS = 30


class Tasks:
    """A fake Spark home: no answers, and a given number of groups."""

    def __init__(self, root: Path):
        self.root = str(root)
        self.cores = 2
        self.groups = 0
        self.forgotten: list[str] = []

    def buckets(self, keys: int) -> int:
        return 4

    def answer(self, stored: Any, name: str, queries: Any, asked: Any, rows: int) -> tuple[list[list[Any]], int]:
        return [[] for _ in asked], self.groups

    def forget(self, *names: str) -> None:
        self.forgotten += names


class Bench:
    """A stream with one query grouped by a key, with panes of 2."""

    def __init__(self, root: Path, catalog: Catalog):
        self.catalog, self.blocks, self.tasks = catalog, BlockStore(root, catalog), Tasks(root)
        self.journal = Journal(catalog, self.blocks)
        self.homes = Homes(self.journal, self.blocks, cast(SparkHome, self.tasks))
        definition = StreamDef(
            CreateStream("s", (ColumnDef("t", "BIGINT"),), "memory"), (("t", SqlType("BIGINT")),), "t", ()
        )
        self.stream = StreamState(1, definition, root, start_of(definition))
        window, call = SlidingWindow(4, 2), decompose("COUNT", None, None, None)
        selection = Selection(Scan("s", Attribute("t", SqlType("BIGINT"))), None)
        aggregate = WindowAggregate(selection, window, (Key("k", SqlType("STRING")),), (call,))
        self.plan = Finalise(aggregate, (Output("n", exp.column("a0"), call.result),))
        cuts = CutSchedule.of(window.cuts())
        plan = SynopsisPlan(1, aggregate.keys, cuts, (("q", self.plan),), "t", style_of(window, cuts))
        self.state = SynopsisState(SynopsisProgress(plan, {}), BasicIntervalSynopsis([pa.string()]))
        self.stream.synopses = {1: self.state}
        with catalog.transaction() as tx:
            tx.execute("INSERT INTO streams (name, id, statement) VALUES ('s', 1, '')")
            self.journal.synopses.save("s", self.state.progress)

    def cells(self, synopsis: BasicIntervalSynopsis, keys: list[str], pane: int = 0) -> Cells:
        groups = synopsis.groups.ids([pa.array(keys)])
        ones = {a: (np.ones(len(keys), np.int64),) for a in self.state.plan.accumulators}
        return Cells(np.full(len(keys), pane, np.int64), groups, ones)

    def fill(self, length: int) -> None:
        """Add groups with keys of a given length."""
        synopsis = self.state.synopsis
        assert isinstance(synopsis, BasicIntervalSynopsis)
        synopsis.deposit(self.cells(synopsis, [f"{i:0{length}d}" for i in range(GROUPS)]))

    @property
    def saved(self) -> Any:
        return self.catalog.rows("SELECT * FROM synopses")[0]

    @property
    def home(self) -> StoredSynopsis:
        assert isinstance(self.state.synopsis, StoredSynopsis)
        return self.state.synopsis

    def ask(self, groups: int, *, tick: bool) -> int:
        """The known number of groups after a job that found a given number."""
        self.tasks.groups = groups
        starts, ends = np.array([0]), np.array([4])
        aggregate = self.plan.input
        lookup = Lookup("q" if tick else "", starts, ends, aggregate.presence, aggregate.accumulators, False)
        assert len(list(self.state.ask([lookup], None if tick else OneTimeQuery(self.plan)))) == 1
        return self.home.groups_seen

    def driver_bytes(self, cells: int | None = None) -> float | None:
        """The bytes that the synopsis takes in the driver, or would take with a given number of cells."""
        self.state.synopsis.cells = cells
        return self.state.synopsis.driver_bytes(row_bytes(self.state))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        yield Bench(tmp_path, catalog)


def test_weight_of_long_keys(bench: Bench) -> None:
    bench.fill(2000)
    taken = bench.driver_bytes()
    assert taken is not None and taken > LIMIT
    for _ in range(4):
        bench.homes.settle(bench.stream, SETTINGS)
        assert bench.home.groups_seen == GROUPS
    measured = bench.driver_bytes(GROUPS)
    assert measured is not None and measured >= 0.99 * taken
    bench.home.left_with = Weight(0.0, 0.0)
    by_columns = bench.driver_bytes(GROUPS)
    assert by_columns is not None and by_columns < LIMIT / 4, "by its columns alone it would have moved back"


def test_move_back_when_few_cells_are_left(bench: Bench) -> None:
    bench.fill(2000)
    bench.homes.settle(bench.stream, SETTINGS)
    few = BasicIntervalSynopsis([pa.string()])
    left = bench.homes.write(bench.state, bench.cells(few, ["a", "b"]), few.groups, (1, 2))
    bench.journal.moves.replace_blocks([(left.ref, left.lo, left.hi)], [b.id for b in bench.homes.blocks(bench.state)])
    bench.homes.settle(bench.stream, SETTINGS)
    assert isinstance(bench.state.synopsis, BasicIntervalSynopsis)
    assert bench.tasks.forgotten == ["synopses/1"]
    assert [bench.saved[c] for c in ("buckets", "cell_bytes", "group_bytes", "groups_seen")] == [None] * 4


def test_expired_panes_alone_do_not_move_it_back(bench: Bench) -> None:
    """The bytes of groups, besides their cells, do not shrink with the number of panes."""
    bench.homes.recover(bench.stream, bench.state, 4, Weight(100.0, 2000.0), 1000)
    assert (bench.driver_bytes(1000) or 0) >= 2000.0 * 1000


def test_weight_after_restart(bench: Bench) -> None:
    bench.fill(2000)
    bench.homes.settle(bench.stream, SETTINGS)
    weight, row = bench.home.left_with, bench.saved
    assert weight == Weight(row["cell_bytes"], row["group_bytes"]) and row["groups_seen"] == GROUPS
    generous = Settings({}).with_text("driver_synopsis_bytes", "1 GB")
    bench.homes.recover(bench.stream, bench.state, 4, None, None)
    bench.homes.settle(bench.stream, generous)
    assert bench.home.left_with is None
    bench.homes.recover(bench.stream, bench.state, 4, weight, GROUPS)
    bench.homes.settle(bench.stream, generous)
    assert isinstance(bench.state.synopsis, BasicIntervalSynopsis)


def test_weight_is_not_negative() -> None:
    with pytest.raises(ValueError, match="not negative"):
        Weight(1.0, -1.0)


def test_greatest_number_of_groups_is_remembered(bench: Bench) -> None:
    bench.fill(10)
    bench.homes.to_spark(bench.stream, bench.state)
    assert bench.ask(GROUPS + 5, tick=True) == GROUPS + 5
    assert bench.ask(3, tick=True) == GROUPS + 5
    assert bench.ask(3, tick=False) == bench.ask(900, tick=False) == GROUPS + 5
    bench.journal.ticks.tick(bench.stream, TickCommit("t", None, expired=[Expiry(bench.state, 0, 0)]))
    assert bench.saved["groups_seen"] == GROUPS + 5


def test_number_of_groups_without_a_saved_one(bench: Bench) -> None:
    bench.homes.to_spark(bench.stream, bench.state)
    for keys in (["a", "b", "c"], ["d", "e"]):
        share = BasicIntervalSynopsis([pa.string()])
        block = bench.homes.write(bench.state, bench.cells(share, keys), share.groups, (1, len(keys)))
        bench.journal.moves.replace_blocks([(block.ref, block.lo, block.hi)], [])
    bench.homes.recover(bench.stream, bench.state, 4, None, None)
    assert bench.home.groups_seen == 5
    bench.homes.recover(bench.stream, bench.state, 4, None, 7)
    assert bench.home.groups_seen == 7


def test_memory_moves_with_the_commit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(name: str) -> None:
        if name == "home-moved":
            raise RuntimeError("out of luck")

    monkeypatch.setattr("windrow.engine.store.homes.crash_point", failing)
    bench.fill(10)
    with pytest.raises(RuntimeError, match="out of luck"):
        bench.homes.to_spark(bench.stream, bench.state)
    assert bench.home.buckets == bench.saved["buckets"] == 4


def test_failure_after_the_commit_is_a_warning(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted: list[BaseException] = [RuntimeError("no executor"), KeyboardInterrupt()]

    def failing(*_: Any) -> None:
        if wanted:
            raise wanted.pop(0)

    compacted: list[int] = []
    monkeypatch.setattr(bench.homes, "settle_one", failing)
    no_jvm: Any = None  # called after a failed job
    stores = WindowStores(bench.catalog, bench.blocks)
    depositor = Depositor(bench.journal, bench.blocks, SystemClock(), bench.homes, no_jvm, stores)
    monkeypatch.setattr(
        depositor._compactor, "compact", lambda stream, state, settings: compacted.append(state.plan.id)
    )
    with caplog.at_level(logging.WARNING, "windrow"):
        depositor._tidy(bench.stream, SETTINGS)
    assert "no executor" in caplog.text and compacted == [1]
    with pytest.raises(KeyboardInterrupt):
        depositor._tidy(bench.stream, SETTINGS)
    depositor._tidy(bench.stream, SETTINGS)
    assert compacted == [1, 1]
