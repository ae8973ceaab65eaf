"""Progress is a value: a commit saves the changes and returns the next value; memory changes when it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from windrow.catalog.definitions import StreamDef, define_stream
from windrow.catalog.store import Catalog
from windrow.cql import parse_one
from windrow.cql.statements import CreateStream
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.ingest.admission import Admission
from windrow.dataplane.ingest.deposit import Deposit
from windrow.engine.progress import start_of
from windrow.engine.state import StreamState
from windrow.engine.store.deposit_commits import DepositCommit, PunctuationCommit
from windrow.engine.store.journal import Journal
from windrow.engine.store.tick_commits import PromiseUpdate, TickCommit
from windrow.plan.nodes import ROW_NUM
from windrow.settings import Settings
from windrow.windows import Ended, Seen
from windrow.windows.lateness import Lateness
from windrow.windows.promises import ALWAYS, Announcement, Promise, Promises

STREAM = "CREATE STREAM s (t BIGINT, k STRING) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 2"


class Bench:
    def __init__(self, root: Path, catalog: Catalog):
        statement = parse_one(STREAM)
        assert isinstance(statement, CreateStream)
        self.definition: StreamDef = define_stream(statement)
        self.journal = Journal(catalog, BlockStore(root, catalog))
        self.journal.entries.add_stream(self.journal.entries.next_id("stream"), self.definition)
        self.stream = StreamState(1, self.definition, root, start_of(self.definition))

    def deposit(self, batch_id: int, least: int, greatest: int, announced: Announcement | None = None) -> None:
        seen = {"t": Seen(greatest), ROW_NUM: Seen(rows=2)}
        deposit = Deposit({}, (), 2, {"t": least}, seen)
        lateness = {"t": self.stream.lateness.get("t", Lateness())}
        admission = Admission((), 0)
        commit = DepositCommit(batch_id, deposit, announced or Announcement(), lateness, (), admission, Settings({}))
        self.stream.install(self.journal.deposits.deposit(self.stream, commit))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        yield Bench(tmp_path, catalog)


def test_saved_progress_equals_installed_progress(bench: Bench) -> None:
    stream, journal = bench.stream, bench.journal
    bench.deposit(0, 3, 10, Announcement(promises=(Promise("t", (), ALWAYS),)))
    bench.deposit(1, 1, 20)
    commit = TickCommit("t", 18, left=PromiseUpdate(stream.promises.answered("t")))
    stream.install(journal.ticks.tick(stream, commit))
    stream.install(journal.deposits.punctuate(stream, PunctuationCommit(Announcement({"t": 40}), {"t": 20})))
    progress = stream.progress
    assert (progress.last_batch, progress.tick_seq, progress.least["t"], progress.ticked["t"]) == (1, 1, 1, 18)
    assert progress.frontiers["t"].value == 40 and progress.ended["t"] == (Ended(18, 20, 40),)
    read = journal.progress.read(bench.definition)
    assert read.promises == progress.promises and read.promises.heard == 1
    for axis, frontier in progress.frontiers.items():
        assert read.frontiers[axis].saved() == frontier.saved()
    assert (read.least, read.ticked, read.ended["t"]) == (progress.least, progress.ticked, progress.ended["t"])
    assert (read.last_batch, read.tick_seq) == (progress.last_batch, progress.tick_seq)


def test_a_commit_changes_nothing_in_memory(bench: Bench) -> None:
    before = bench.stream.progress
    committed = bench.journal.deposits.punctuate(bench.stream, PunctuationCommit(Announcement({"t": 7})))
    assert bench.stream.progress is before and before.frontiers["t"].value is None
    bench.stream.install(committed)
    assert bench.stream.frontiers["t"].value == 7


def test_ticks_resume_at_the_frontier(bench: Bench) -> None:
    assert bench.stream.progress.resumed("t") is bench.stream.progress
    bench.deposit(0, 3, 10)
    assert bench.stream.progress.resumed("t").ticked == {"t": 8}
    assert bench.stream.progress.resumed(ROW_NUM).ticked == {}


def test_tick_without_due_windows_counts(bench: Bench) -> None:
    after = bench.stream.progress.after_tick("t", None, Promises())
    assert (after.ticked, after.tick_seq) == ({}, 1)
