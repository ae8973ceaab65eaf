"""Opens a state directory that `beginning` has begun to open: recovers the streams, the queries and the tables."""

from __future__ import annotations

from contextlib import ExitStack

from windrow.clock import Clock
from windrow.dataplane.analysing import Analyser
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.jvm import Jvm
from windrow.dataplane.plan_stages import PlanStages
from windrow.dataplane.session import close_session
from windrow.dataplane.spark_home import SparkHome
from windrow.engine.kept.retention import Retention
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.commits import PlanCommits
from windrow.engine.plans.homes import DRIVER, SPARK, DriverHome, PlanHomes
from windrow.engine.plans.manager import PlanManager
from windrow.engine.plans.spark_plans import SparkPlans
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.run.beginning import BegunState
from windrow.engine.run.lifecycle import Lifecycle
from windrow.engine.run.recovery import Recovery
from windrow.engine.store.homes import Homes
from windrow.engine.store.journal import Journal
from windrow.engine.tables.commits import TableCommits
from windrow.engine.tables.evaluating import RowExpressions
from windrow.engine.tables.manager import TableManager
from windrow.logs import log_event
from windrow.operators.tables.kernel import Kernel


class OpenState:
    """Owns the lock, the catalog, the blocks, the Spark session, the settings, the streams with their queries, the
    tables, and the window stores.

    The other parts of the engine share it. Only SET replaces `settings`.
    """

    def __init__(self, begun: BegunState, clock: Clock):
        """Takes over what was begun, and ends it if the rest fails."""
        self.state_dir = state_dir = begun.state_dir
        self.clock = clock
        self.lifecycle = Lifecycle()
        with ExitStack() as undo:
            undo.callback(begun.abandon)
            self.catalog, self.settings, lock = begun.catalog, begun.settings, begun.lock
            self.blocks = BlockStore(state_dir, self.catalog)
            self.journal = Journal(self.catalog, self.blocks)
            self.spark = begun.spark()
            self.jvm = Jvm(self.spark)
            lock.record_jvm(self.jvm.pid)
            self.homes = Homes(self.journal, self.blocks, SparkHome(self.spark, state_dir, self._max_value_bytes))
            self.manager = QueryManager(
                self.journal, Analyser(self.spark, self._max_value_bytes), state_dir, self.homes
            )
            self.stores = WindowStores(self.catalog, self.blocks)
            with self.jvm.watched():
                Recovery(self.blocks, self.journal, self.manager, self.homes).recover()
            self.stores.recover(self.manager.streams.values())
            self.retention = Retention(self.catalog, self.stores)
            self.retention.recover(self.manager.streams.values())
            self.tables = self._tables()
            self.tables.recover()
            self.plan_commits = PlanCommits(self.catalog, self.blocks)
            self.plans = PlanManager(self.manager, self.plan_commits, self.stores, self.tables)
            self.plan_homes = self._plan_homes()
            with self.jvm.watched():
                self.plans.recover()
            undo.pop_all()
        self._lock = lock
        log_event(
            "state_opened",
            "state {state} is open: {streams} streams, {queries} queries",
            state=str(state_dir),
            streams=len(self.manager.streams),
            queries=len(self.manager.queries()) + len(self.plans.all()),
        )

    def _plan_homes(self) -> PlanHomes:
        settings, root = (lambda: self.settings), str(self.state_dir.resolve())
        stages = PlanStages(self.spark)
        spark = SparkPlans(stages, self.plan_commits, self.stores, root, settings, self.jvm.watched)
        self.plans.on_drop = spark.forget
        driver = DriverHome(self.plan_commits, self.stores, settings)
        return PlanHomes({DRIVER: driver, SPARK: spark}, self.stores, settings)

    def _tables(self) -> TableManager:
        kernel = Kernel(self.settings.integer("max_value_bytes"))
        expressions = RowExpressions(kernel, lambda: self.spark, self._max_value_bytes)
        commits = TableCommits(self.catalog, self.blocks, lambda: self.settings.integer("broadcast_table_bytes"))
        return TableManager(commits, expressions, lambda: self.spark)

    def _max_value_bytes(self) -> int:
        return self.settings.integer("max_value_bytes")

    def close(self) -> None:
        """Release the catalog, the session and the lock, even if a step fails."""
        with ExitStack() as last_first:
            last_first.callback(self._lock.release)
            last_first.callback(close_session, self.spark)
            last_first.callback(self.catalog.close)
        log_event("state_closed", "state {state} is closed", state=str(self.state_dir))
