"""The engine: it connects the parts of an open state directory."""

from __future__ import annotations

import os
import weakref
from contextlib import ExitStack
from typing import Any

from windrow.catalog.lock import Owner, OwnerState
from windrow.catalog.store import Catalog
from windrow.clock import Clock
from windrow.dataplane.jvm import Jvm
from windrow.engine.ask.plan_tables import PlanTables
from windrow.engine.ask.reads import AnswerReader
from windrow.engine.isolation.coordinator import Coordinator
from windrow.engine.isolation.open_sources import OpenSources
from windrow.engine.plans.changing.query_changes import QueryChanges
from windrow.engine.plans.changing.reoptimizing import Reoptimizer
from windrow.engine.plans.changing.swapping import PlanSwaps
from windrow.engine.plans.changing.takeover import Takeovers
from windrow.engine.plans.manager import PlanManager
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.plans.reading import PlanReads
from windrow.engine.plans.ticker import PlanTicker
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.run.beginning import BegunState
from windrow.engine.run.derived_streams import DerivedStreams
from windrow.engine.run.inputs import Inputs
from windrow.engine.run.opening import OpenState
from windrow.engine.run.running import RunningStreams
from windrow.engine.run.statements import Statements
from windrow.engine.run.stream_ticks import StreamTicks
from windrow.engine.run.stream_time import StreamTime
from windrow.engine.run.table_statements import TableStatements
from windrow.engine.state import StreamState
from windrow.engine.tables.feeding import TableFeeder
from windrow.engine.tables.manager import TableManager
from windrow.engine.ticks.delivery import Delivery
from windrow.engine.ticks.ticker import Ticker
from windrow.operators.tables.kernel import Kernel
from windrow.settings import Settings


class Engine:
    """Carries out the calls of the API.

    `opened` owns the lock, the catalog, the blocks, the Spark session, the settings and the streams.
    `inputs` takes rows; `time` applies punctuations, heartbeats and the end of the input.
    `running` runs streams, `statements` changes the catalog, `table_statements` tables, `reads` reads answers.
    The engine itself owns the ticks, and closes everything in order.
    """

    def __init__(self, begun: BegunState, clock: Clock):
        self.opened = opened = OpenState(begun, clock)
        delivery = Delivery(opened.journal, opened.blocks, lambda: opened.settings)
        delivery.recover(opened.manager.streams.values())
        self.ticker = Ticker(opened.journal, delivery, lambda: opened.settings)
        self.plan_ticker = PlanTicker(
            opened.journal,
            opened.plan_commits,
            opened.stores,
            opened.manager.stream,
            lambda: opened.settings,
            opened.plan_homes,
            opened.plans.all,
        )
        self.plan_ticker.recover(opened.plans.all())
        self.plan_reads = PlanReads(opened.plan_commits, refuse_closed=opened.lifecycle.refuse_closed)
        opened.stores.on_failure = self._suspend_reader
        self.feeder = TableFeeder(
            opened.tables.commits,
            opened.stores,
            opened.manager.stream,
            opened.journal.dead_letters,
            lambda: opened.settings,
            opened.plans.idle,
        )
        self.plan_ticker.feed = self.feeder.feed
        self.ticks = StreamTicks(self._tick_stream, self._tick_plan, opened.plans.readers, opened.plans.into)
        self.inputs = Inputs(opened, self.ticks)
        self.time = StreamTime(opened, self.ticks, self.inputs)
        derived = DerivedStreams(opened, self.ticks, self.inputs, self.time)
        self.plan_ticker.follow = derived.follow
        derived.recover()
        self.running = RunningStreams(opened, self.ticks, self.inputs, self.time)
        swaps = self._swaps()
        self._reoptimizer = Reoptimizer(opened.manager, opened.plans, swaps, lambda: opened.settings)
        changes = QueryChanges(
            opened.manager,
            opened.plans,
            opened.plan_commits,
            swaps,
            lambda query: self.ticks.settle(query),
            self.feeder.feed,
        )
        self.statements = Statements(opened, self.ticks, self.inputs, self.running, self.ticker.finisher, changes)
        self.coordinator = Coordinator(
            OpenSources(opened.manager.stream, opened.plans.query),
            lambda: opened.settings.integer("serial_hold") / 1e6,
        )
        opened.stores.is_held = self.coordinator.is_held
        self.reads = AnswerReader(
            opened.journal,
            opened.blocks,
            opened.manager,
            self.ticker.finisher,
            opened,
            lambda: opened.settings,
            opened.lifecycle.refuse_closed,
            PlanTables(lambda: opened.plans, self.plan_reads),
            lambda: opened.tables,
            opened,
            coordinator=self.coordinator,
        )
        self.table_statements = TableStatements(
            opened, self.ticks, lambda select, text: self.reads.ask(select, text).rows, self.running.start_new
        )
        # A script may end without close(); DuckDB complains at exit about a connection that is still open. The process
        # holds `running` while streams run, so they can still answer when nobody holds the engine.
        self._finalizer: weakref.finalize[[], Any] = weakref.finalize(self.running, self.ticker.close)

    is_read_only = False

    def _tick_plan(self, query: ContinuousQuery) -> int:
        done = self.plan_ticker.tick(query)
        self._reoptimizer.after_ticks(query)  # it may have ticked with others before
        return done

    def _swaps(self) -> PlanSwaps:
        opened = self.opened
        kernel, stores, commits = Kernel(opened.settings.integer("max_value_bytes")), opened.stores, opened.plan_commits
        takeovers = Takeovers(commits, stores, opened.plan_homes, opened.manager.stream, kernel)
        tables, delivery = opened.tables.commits, self.plan_ticker.delivery
        return PlanSwaps(commits, stores, tables, delivery, takeovers, lambda: opened.settings, kernel)

    @property
    def owner(self) -> Owner:
        """Who has the state directory open."""
        return Owner(OwnerState.RUNNING, os.getpid())

    def refuse_live(self, what: str) -> None:
        """Raise ReadOnlyError if the state in memory is that of another process."""

    @property
    def manager(self) -> QueryManager:
        return self.opened.manager

    @property
    def plans(self) -> PlanManager:
        return self.opened.plans

    @property
    def tables(self) -> TableManager:
        return self.opened.tables

    def _suspend_reader(self, reader: str, why: str) -> None:
        """Suspend the continuous queries for which Spark cannot compute what they read."""
        for query in self.plans.of_reader(reader):
            self.plan_ticker.suspend(query, why)

    def _tick_stream(self, stream: StreamState) -> None:
        """Answer what is due of a stream, bring the tables up to it that it feeds, and let old tuples go."""
        self.ticker.tick(stream)
        for table in self.tables.fed_by(stream.name):
            self.feeder.feed(table)
        self.opened.retention.follow(stream)

    @property
    def catalog(self) -> Catalog:
        return self.opened.catalog

    @property
    def settings(self) -> Settings:
        return self.opened.settings

    @property
    def jvm(self) -> Jvm:
        return self.opened.jvm

    def close(self) -> None:
        """Stop, and release everything even if a step fails. A second call returns when the first is done."""
        lifecycle = self.opened.lifecycle
        self.ticks.refuse_inside("close the state directory")
        if not lifecycle.begin_closing():
            return
        with ExitStack() as last_first:
            last_first.callback(lifecycle.closed)
            last_first.callback(self.opened.close)
            last_first.callback(self._finalizer)
            last_first.callback(self.ticks.close)
            last_first.callback(self._await_others)
            last_first.callback(self.running.stop_all)
            self.coordinator.close()

    def _await_others(self) -> None:
        """Wait for the calls of other threads that began before closing; later calls are refused."""
        self.inputs.close()
        with self.manager.changing:
            for stream in self.manager.streams.values():
                with stream.batch_lock:
                    pass
