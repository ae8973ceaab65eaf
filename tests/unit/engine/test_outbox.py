"""The outbox: a sink or subscriber that blocks delays nobody else, and gets every answer in order when it works again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from windrow.catalog.definitions import define_stream
from windrow.catalog.store import Catalog
from windrow.cql import parse_one
from windrow.cql.statements import CreateStream
from windrow.dataplane.blocks import BlockStore
from windrow.engine.progress import start_of
from windrow.engine.state import CommittedState, QueryState, StreamState, UnpublishedStage
from windrow.engine.store.journal import Journal
from windrow.engine.ticks.delivery import Delivery
from windrow.engine.ticks.query_answers import QueryAnswers
from windrow.settings import Settings
from windrow.types import SqlType

SOON_S = 30.0
STREAM = "CREATE STREAM s (t BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
PLAN = SimpleNamespace(
    outputs=(),
    scan=SimpleNamespace(attribute=SimpleNamespace(type=SqlType("BIGINT"), column="t")),
    window=SimpleNamespace(start_of=lambda end: end - 10),
)


class Plain:
    """A sink with `write`, which waits for the gate if there is one."""

    def __init__(self, gate: threading.Event | None = None):
        self.gate = gate
        self.keys: list[str] = []

    def write(self, batch: Any) -> None:
        assert self.gate is None or self.gate.wait(SOON_S)
        self.keys.append(batch.key)


class Staged:
    """A staging sink that waits for the gate in one of its methods."""

    def __init__(self, gate: threading.Event, where: str):
        self.gate, self.where = gate, where
        self.stages: dict[str, list[int]] = {}
        self.ends: list[int] = []

    def stage(self, batch: Any, seq: int) -> str:
        assert self.where != "stage" or self.gate.wait(SOON_S)
        self.stages[str(seq)] = batch.table.column("window_end").to_pylist()
        return str(seq)

    def publish(self, entry: str) -> None:
        assert self.where != "publish" or self.gate.wait(SOON_S)
        self.ends += self.stages.pop(entry, [])

    def sweep(self) -> None: ...


class Bench:
    """A stream with queries in a state directory, whose windows a test answers by hand."""

    def __init__(self, directory: Path, **sinks: Any):
        self.catalog = Catalog(directory / "catalog.sqlite")
        blocks = BlockStore(directory, self.catalog)
        self.journal = Journal(self.catalog, blocks)
        definition = define_stream(cast(CreateStream, parse_one(STREAM)))
        if not self.journal.entries.streams():
            self.journal.entries.add_stream(1, definition)
        self.stream = StreamState(1, definition, directory / "s", start_of(definition))
        self.stream.queries = {
            name: QueryState(number, name, cast(Any, None), "", cast(Any, PLAN), None, sink=sink)
            for number, (name, sink) in enumerate(sinks.items(), start=1)
        }
        self.settings = Settings().with_text("sink_timeout", "100 milliseconds")
        self.delivery = Delivery(self.journal, blocks, lambda: self.settings)

    def reopen(self) -> None:
        by_id = {query.id: query for query in self.stream.queries.values()}
        staged = [UnpublishedStage(by_id[q], entry, n, block) for n, q, entry, block in self.journal.ticks.outbox()]
        self.stream.install(CommittedState(self.stream.progress, tuple(staged)))
        self.delivery.recover([self.stream])

    def tick(self, end: int) -> None:
        """Answer the windows that end at `end` - 5, without rows, and at `end`, with one."""
        columns = {"window_start": [end - 10], "window_end": [end], "is_revision": [False]}
        ends, rows = np.array([end - 5, end], np.int64), pa.table(columns)
        with self.stream.lock:
            self.delivery.publish(self.stream)
            delivered = [
                QueryAnswers(query, ends, np.array([1], np.int64), rows, 0) for query in self.stream.queries.values()
            ]
            self.delivery.commit(self.stream, "t", end, delivered, [], self.settings)
            self.delivery.publish(self.stream)

    def waits(self) -> list[str]:
        """The queries whose delivery is suspended."""
        return [query.name for query in self.stream.queries.values() if query.delivery_error is not None]

    def catch_up(self) -> None:
        deadline_s = time.monotonic() + SOON_S
        while self.waits() and time.monotonic() < deadline_s:
            time.sleep(0.02)
            with self.stream.lock:
                self.delivery.publish(self.stream)
        assert not self.waits() and not self.stream.unpublished


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def test_others_go_on_and_nothing_is_lost(tmp_path: Path, gate: threading.Event) -> None:
    stuck, good, staging, publishing = Plain(gate), Plain(), Staged(gate, "stage"), Staged(gate, "publish")
    bench = Bench(tmp_path, stuck=stuck, staging=staging, publishing=publishing, heard=None, good=good)
    heard: list[str] = []

    def subscriber(answer: Any) -> None:
        assert gate.wait(SOON_S)
        heard.append(answer.key)

    bench.stream.queries["heard"].subscribers.append(subscriber)
    for end in (10, 20, 30):
        bench.tick(end)
    assert bench.waits() == ["stuck", "staging", "publishing", "heard"]
    assert good.keys == ["good@5..10", "good@15..20", "good@25..30"]
    assert not stuck.keys and not staging.ends and not publishing.ends and not heard
    gate.set()
    bench.catch_up()
    bench.tick(40)
    assert stuck.keys == [key.replace("good", "stuck") for key in good.keys], "in order, and none twice"
    assert staging.ends == publishing.ends == [10, 20, 30, 40]
    assert heard == [f"heard@{end}" for end in range(5, 45, 5)], "also windows without rows"
    assert not list((tmp_path / "undelivered").iterdir())


def test_reopening(tmp_path: Path, gate: threading.Event) -> None:
    """A sink gets what waited. What waited for subscribers is gone with them."""
    before = Bench(tmp_path, q=Plain(gate), heard=None)
    before.stream.queries["heard"].batch_subscribers.append(lambda batch: gate.wait(SOON_S))
    before.tick(10)
    before.tick(20)
    before.catalog.close()
    sink = Plain()
    after = Bench(tmp_path, q=None, heard=None)
    after.reopen()
    assert [item.query.name for item in after.stream.unpublished] == ["q", "q"]
    after.tick(30)
    after.stream.queries["q"].sink = sink
    after.tick(40)
    assert sink.keys == ["q@5..10", "q@15..20", "q@35..40"], "the third window came while there was no sink"
    assert not after.stream.unpublished


def test_error_after_blocking_keeps_answers_waiting(tmp_path: Path, gate: threading.Event) -> None:
    class Broken(Plain):
        is_broken = True

        def write(self, batch: Any) -> None:
            assert gate.wait(SOON_S)
            if self.is_broken:
                raise OSError("away")
            super().write(batch)

    sink = Broken()
    bench = Bench(tmp_path, q=sink)
    bench.tick(10)
    gate.set()
    time.sleep(0.1)
    bench.tick(20)
    query = bench.stream.queries["q"]
    assert query.delivery_error == "away" and query.metrics.sink_timeouts == 1
    sink.is_broken = False
    bench.catch_up()
    assert sink.keys == ["q@5..10", "q@15..20"]


def test_timeout_off(tmp_path: Path, gate: threading.Event) -> None:
    bench, sink = Bench(tmp_path), Plain(gate)
    bench.settings = bench.settings.with_text("sink_timeout", "off")
    bench.stream.queries = {"q": QueryState(1, "q", cast(Any, None), "", cast(Any, PLAN), None, sink=sink)}
    threading.Timer(0.3, gate.set).start()
    bench.tick(10)
    assert sink.keys == ["q@5..10"] and not bench.waits()
