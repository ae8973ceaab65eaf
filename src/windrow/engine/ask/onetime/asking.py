"""Answers one-time queries that read windows of streams: binds them, chooses how they are answered, and does it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from sqlglot import exp

from windrow.cql.bounds.guards import check_bounds
from windrow.dataplane.window_frames import PartialJobs, frame_of_rows
from windrow.engine.ask.finished_tables import FinishedTables, TakenTables
from windrow.engine.ask.lookups import HeldLookup
from windrow.engine.ask.onetime.choosing import Chosen, ChosenOverTables, OneTimeQuestion, choose, choose_over_tables
from windrow.engine.ask.onetime.driver_read import DriverRead
from windrow.engine.ask.onetime.pinning import Pinning
from windrow.engine.ask.onetime.sources import asked_sources
from windrow.engine.ask.onetime.spark_read import SparkRead
from windrow.engine.ask.onetime.synopsis_answers import SynopsisAnswers, SynopsisRead
from windrow.engine.ask.onetime.tasked_read import TaskedRead
from windrow.engine.ask.onetime.windowed_read import WindowedRead
from windrow.engine.ask.snapshots import SnapshotFit, is_aggregate
from windrow.engine.isolation.asked import IsolatedAnswer, Terms
from windrow.engine.isolation.coordinator import RESTARTS, Coordinator
from windrow.engine.isolation.instants import committed_upto
from windrow.engine.isolation.interface import PinnedVersion
from windrow.engine.isolation.staleness import staleness_of
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.manager import PlanManager
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.state import StreamState
from windrow.engine.tables.manager import TableManager
from windrow.errors import QueryCancelledError, QueryTimeoutError, ResultLimitError, SpanError, WindrowError
from windrow.operators.tables.kernel import Kernel
from windrow.optimizer.execution import UPA, executed
from windrow.optimizer.pipeline import RULES_ONCE, optimize
from windrow.plan.continuous import bind_once
from windrow.plan.nodes import Finalise
from windrow.result import Staleness
from windrow.schedulers.history import Isolation
from windrow.settings import Settings
from windrow.types import value_of

SYNOPSIS = "synopsis"
"""What a one-time query is answered from (`windrow.result.Asked`), beside what reads say."""

WINDOW = "window"
"""The isolation of an answer that shows the version at its start."""

MOST_TEXTS = 256
"""The most texts whose plans are remembered."""

T = TypeVar("T")


@dataclass(frozen=True)
class Answered:
    """The rows of a one-time query. `window`: as of which instant they are, or which was the last tuple of windows that
    go by arrival. `answered_from`: how they were found. `complete_from`: windows begin before this point, and not all
    tuples below it are there."""

    rows: pa.Table
    window: object = None
    answered_from: str | None = None
    complete_from: object = None
    isolation: str | None = None
    stale_by: Staleness | None = None
    rescans: int = 0
    aborts: int = 0


class AskedState(Protocol):
    """What one-time queries read of an open state directory."""

    @property
    def manager(self) -> QueryManager: ...

    @property
    def plans(self) -> PlanManager: ...

    @property
    def tables(self) -> TableManager: ...

    @property
    def stores(self) -> WindowStores: ...

    @property
    def spark(self) -> Any: ...


class Asking:
    """Answers one-time queries that read windows. Plans are remembered by their texts until the catalog changes."""

    def __init__(
        self,
        state: AskedState,
        finished: FinishedTables,
        synopses: SynopsisAnswers,
        settings: Callable[[], Settings],
        coordinator: Coordinator | None = None,
    ):
        self.synopses = synopses
        self._coordinator = coordinator
        self._state = state
        self._finished = finished
        self._settings = settings
        self._kernel = Kernel(lambda: settings().integer("max_value_bytes"))
        self._pinning = Pinning(
            lambda: state.stores, lambda name: state.manager.stream(name), finished, lambda: state.tables, self._kernel
        )
        self._known: OrderedDict[str, tuple[tuple[object, ...], OneTimeQuestion]] = OrderedDict()
        self._lock = threading.Lock()

    def is_stream(self, name: str) -> bool:
        """Whether a name in FROM without a window means a stream."""
        manager = self._state.manager
        return name.lower() in manager.streams and not manager.has_query(name) and not self._state.plans.has(name)

    def ask(self, select: exp.Expr, text: str, terms: Terms | None = None) -> Answered:
        """The answer to a one-time query, on these terms. None: as of now, in the thread of the caller."""
        return self._answer(self.question(select, text), terms)

    def over_tables(self, select: exp.Expr, text: str, taken: TakenTables, version: PinnedVersion) -> ChosenOverTables:
        """How a query that reads no window is evaluated over a version of the tables that were taken."""
        return choose_over_tables(select, taken, lambda: self.question(select, text).driver, version, self._settings())

    def frame(self, select: exp.Expr, text: str) -> tuple[Any, Callable[[], None]]:
        """A lazy Spark DataFrame over a pinned version, and what releases it. What Spark SQL lacks is evaluated now."""
        question = self.question(select, text)
        read = question.spark
        if isinstance(read, WindrowError):
            if isinstance(question.driver, WindrowError):
                raise read
            return frame_of_rows(self._state.spark, self._answer(question, None).rows), lambda: None
        version = read.pin()
        try:
            return read.frame(version), version.release
        except BaseException:
            version.release()
            raise

    # -- binding -------------------------------------------------------------------------------

    def question(self, select: exp.Expr, text: str) -> OneTimeQuestion:
        """The query, bound; the same for the same text as long as the catalog and the settings stay."""
        now = self._catalog()
        with self._lock:
            known = self._known.get(text)
            if known is not None and len(known[0]) == len(now) and all(map(_is, known[0], now)):
                self._known.move_to_end(text)
                return known[1]
        made = self._bound(select, text)
        with self._lock:
            gone = [self._known.pop(text, None)]
            self._known[text] = (now, made)
            while len(self._known) > MOST_TEXTS:
                gone.append(self._known.popitem(last=False)[1])
        for one in gone:
            if one is not None and isinstance(one[1].aggregate, Finalise):
                self.synopses.forget(one[1].aggregate)
        return made

    def _catalog(self) -> tuple[object, ...]:
        """Objects of which one is replaced when the catalog or a setting changes."""
        manager = self._state.manager
        queries = [stream.queries for stream in manager.streams.values()]
        return (manager.streams, self._state.plans.named, self._state.tables.named, self._settings(), *queries)

    def _bound(self, select: exp.Expr, text: str) -> OneTimeQuestion:
        settings = self._settings()
        check_bounds(select, text, settings.integer("max_value_bytes"))
        aggregate = _tried(lambda: self.synopses.bind(select, text)) if is_aggregate(select) else None
        driver = _tried(lambda: self._driver_read(select, text))
        return OneTimeQuestion(
            select, text, aggregate, driver, lambda: self._spark_read(select, text), self._tasked_read
        )

    def _driver_read(self, select: exp.Expr, text: str) -> DriverRead:
        """The query as a plan. Raises BindError or UnsupportedError."""
        manager = self._state.manager
        sources = asked_sources(select, text, self._finished, self.is_stream)
        plan = bind_once(sources.tree, text, manager.definition, manager.record(), sources.table_of)
        found = optimize(executed(plan, UPA), off=self._settings().rules_off, rules=RULES_ONCE)
        return DriverRead(found, sources, text, self._pinning, self._kernel)

    def _spark_read(self, select: exp.Expr, text: str) -> SparkRead:
        """The query as Spark SQL. Raises BindError or UnsupportedError."""
        sources = asked_sources(select, text, self._finished, self.is_stream)
        return SparkRead(
            select,
            sources,
            text,
            self._pinning,
            self._kernel,
            self._finished,
            self._state.manager.definition,
            self.is_stream,
            lambda: self._state.spark,
            self._settings().integer("max_result_rows"),
        )

    def _tasked_read(self, read: DriverRead) -> DriverRead:
        settings = self._settings()
        most = settings.integer("max_value_bytes"), settings.integer("max_result_rows")
        return TaskedRead(read, PartialJobs(self._state.spark), *most)

    # -- answering -----------------------------------------------------------------------------

    def chosen(self, question: OneTimeQuestion) -> Chosen:
        """How a query is evaluated over windows; the version must be released. Raises if it cannot be."""
        return choose(question, self._settings())

    def explained(self, select: exp.Expr, text: str) -> Chosen | tuple[Finalise, StreamState, SnapshotFit]:
        """How a query would be answered now: over windows, of which nothing is pinned any more, or from a synopsis.
        Raises if it cannot be."""
        question, chosen, why = self.question(select, text), None, None
        try:
            chosen = self.chosen(question)
            chosen.version.release()
        except WindrowError as error:
            why = error
        if question.aggregate is None:
            if chosen is None:
                assert why is not None
                raise why
            return chosen
        try:
            found = self.synopses.fitted(select, text)
        except WindrowError:
            if chosen is None:
                raise
            return chosen
        return found if chosen is None or found[2].end >= _latest(chosen.version) else chosen

    def _answer(self, question: OneTimeQuestion, terms: Terms | None) -> Answered:
        terms = None if terms is None else replace(terms, begun_s=time.monotonic())
        chosen, why = None, None
        try:
            chosen = self.chosen(question)
        except WindrowError as error:
            why = error
        held = None if chosen is None else chosen.version
        try:
            since = None if held is None else _latest(held)
            found = self._from_synopsis(question, since, isinstance(why, SpanError), terms)
            if found is not None:
                return found
            if chosen is None or held is None:
                assert why is not None
                raise why
            read = chosen.read
            if terms is None or self._coordinator is None:
                return _answered(read, held, read.answer((), held))
            pinned, held = held, None
            isolated = self._coordinator.answer(self._coordinator.ask(read, terms, question.text, pinned))
            return self._isolated(_answered(read, isolated.version, isolated.table), isolated, read)
        finally:
            if held is not None:
                held.release()

    def _isolated(self, answered: Answered, found: IsolatedAnswer, read: WindowedRead) -> Answered:
        """The answer, with how fresh it is and what that cost."""
        read_of = [(self._state.manager.stream(one.stream), one.axis) for one in read.windows]
        return replace(
            answered,
            isolation=found.isolation.value,
            stale_by=staleness_of(found.instant, read_of),
            rescans=found.rescans,
            aborts=found.aborts,
        )

    def _from_synopsis(
        self, question: OneTimeQuestion, since: int | None, is_kept: bool, terms: Terms | None
    ) -> Answered | None:
        """The answer of a synopsis, if one fits. If tuples are kept, they are read instead of a synopsis whose window
        ends before `since`. Raises what is wrong if they are not."""
        aggregate = question.aggregate
        if aggregate is None or (isinstance(aggregate, WindrowError) and isinstance(question.driver, DriverRead)):
            return None
        try:
            if isinstance(aggregate, WindrowError):
                raise aggregate
            answered = self._of_synopsis(question, aggregate, since, terms)
        except (QueryCancelledError, QueryTimeoutError, ResultLimitError):
            raise
        except WindrowError:
            if since is None and not is_kept:
                raise
            return None
        if answered is None or since is None:
            return answered
        # Where tuples are kept, too, the columns do not depend on how a question is answered.
        return replace(answered, rows=answered.rows.select([output.name for output in aggregate.outputs]))

    def _of_synopsis(
        self, question: OneTimeQuestion, plan: Finalise, since: int | None, terms: Terms | None
    ) -> Answered | None:
        """The answer of a synopsis; if an update comes while it is computed, it is asked again, as often as a query
        restarts. It is the latest if its window ends where the stream was complete."""
        attribute, stream = plan.scan.attribute, self._state.manager.stream(plan.scan.stream)
        aborts = 0
        while True:
            found = self.synopses.answer(plan, question.select, question.text, since)
            if found is None:
                return None
            try:
                rows = self._looked_up(found.lookup, question.text, terms)
            finally:
                found.lookup.release()
            upto = found.upto if found.lookup.is_done else committed_upto(stream, attribute.column)
            follows = terms is not None and terms.isolation is not Isolation.WINDOW
            if upto == found.upto or not follows or aborts == RESTARTS:
                break
            aborts += 1
        window = found.end - 1 if attribute.is_rows else value_of(found.end, attribute.type)
        isolation = Isolation.LATEST if upto is not None and found.end >= upto else Isolation.WINDOW
        stale_by = staleness_of(found.end, [(stream, attribute.column)])
        return Answered(rows, window, SYNOPSIS, isolation=isolation.value, stale_by=stale_by, aborts=aborts)

    def _looked_up(self, lookup: HeldLookup, text: str, terms: Terms | None) -> pa.Table:
        """The rows of a lookup. One that takes a Spark job has its turn among the one-time queries."""
        if terms is None or lookup.is_done or self._coordinator is None:
            return lookup.rows() if terms is None else terms.check_result(lookup.rows())
        return self._coordinator.answer(self._coordinator.ask(SynopsisRead(lookup), terms, text)).table


def _is(one: object, other: object) -> bool:
    return one is other


def _tried(make: Callable[[], T]) -> T | WindrowError:
    try:
        return make()
    except WindrowError as error:
        return error


def _latest(version: PinnedVersion) -> int:
    """The point at which a window must end so that it is not older than the version."""
    return max(version.numbered.values()) + 1 if version.instant is None else version.instant


def _answered(read: WindowedRead, version: PinnedVersion, rows: pa.Table) -> Answered:
    kind = read.asked.point
    window: object = None
    if version.instant is not None:
        window = value_of(version.instant, kind)
    elif version.numbered:
        window = max(version.numbered.values())
    since = max(((point, i) for i, point in version.complete_from.items()), default=None)
    complete = None if since is None else value_of(since[0], read.asked.windows[since[1]].attribute.type)
    return Answered(rows, window, read.answered_from, complete, WINDOW)
