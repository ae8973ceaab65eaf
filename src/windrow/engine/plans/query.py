"""A continuous query in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from windrow.cql.statements import CreateDerivedStream, CreateQuery
from windrow.dataplane.sinks import Sink, SinkMode, StagingSink
from windrow.dataplane.stores import ARRIVAL, KeptColumn
from windrow.engine.kept.window_stores import StoreUse, WantedRows
from windrow.engine.lags import LagRing
from windrow.engine.metrics import PlanMetrics
from windrow.engine.plans.commits import PlanPart
from windrow.engine.plans.due import TickGrid
from windrow.engine.plans.planning import PlanChoices
from windrow.engine.state import StreamState
from windrow.engine.tables.stored import StoredTable
from windrow.engine.tables.uses import Effects, TableUse
from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.parts import Layout, LayoutUse
from windrow.operators.scan import needs_history, reach
from windrow.operators.stages.cutting import node_at, staged, windows_below
from windrow.operators.state import ROOT, empty_tables, is_strict
from windrow.operators.tables.metering import PlanMeter
from windrow.operators.ticks import NEVER, DueTicks
from windrow.optimizer.common_join import SharableJoin, sharable_join
from windrow.optimizer.common_subplan import SharableSubPlan, sharable_subplans
from windrow.optimizer.facts import Facts
from windrow.optimizer.pipeline import OptimizedPlan
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    GroupBy,
    Lifetime,
    Node,
    OutputRows,
    OutputWindow,
    RowsWindow,
    Streaming,
    ToStream,
    Window,
    walk,
)
from windrow.types import SqlType

REWRITTEN_ROWS = 200_000
"""A view of at most so many rows is written anew as a whole when it is merged."""

MOST_VIEW_PARTS = 1_000
"""A view of as many parts is, too, by intervals of expiration."""

MOST_SINCE = 500
"""A view is merged when there are more parts of changes since: a part may be a file of its own, which stays mapped."""

Subscriber = Callable[[Any], None]
BOOLEAN = SqlType("BOOLEAN")


@dataclass(frozen=True)
class PlanProgress:
    """How far a plan has ticked: `ticked` is its last tick (None: none yet), `seq` counts its commits. `error`: why the
    query is suspended. `covered`, of a periodic plan: the tick from which on its windows hold no tuple so far."""

    ticked: int | None = None
    seq: int = 0
    error: str | None = None
    covered: int | None = None
    effects: Effects = field(default_factory=dict)
    """By table, the last change that is in effect."""

    def covering(self, stop: int | None) -> PlanProgress:
        """The progress when windows hold tuples below the tick `stop`."""
        if stop is None:
            return self
        return replace(self, covered=stop if self.covered is None else max(stop, self.covered))


class HomeState(Protocol):
    """The state of a plan's operators, in the driver or as Spark tasks have it."""

    @property
    def nbytes(self) -> int: ...

    @property
    def sizes(self) -> Mapping[str, tuple[int, int]]:
        """Rows and bytes by path."""

    @property
    def layouts(self) -> Mapping[str, LayoutUse]:
        """By path, how rows are kept whose layout depends on what leaves."""

    def skipped_to(self, ticked: int) -> HomeState:
        """The state after ticks at which nothing is there."""


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A part of what a view is made of, as changes: the commit whose changes it has, or up to which it has them; when
    its first row is gone, and when its last row ends (POINT_MAX if that is not known)."""

    table: pa.Table
    seq: int
    goes: int
    ends: int
    rows: int

    @classmethod
    def of(cls, table: pa.Table, part: PlanPart) -> ShownPart:
        return cls(table, part.seq, part.goes, part.ends, part.rows)


@dataclass(frozen=True)
class PlanVersion:
    """What readers see, replaced as a whole: a progress, and the state and the view that belong to it.

    `merged` are the parts of the merged view; `since` are the changes since, from the first on that has not expired as
    a whole. Most of them map files.
    """

    progress: PlanProgress
    state: HomeState
    merged: tuple[ShownPart, ...] = ()
    since: tuple[ShownPart, ...] = ()
    shown: list[pa.Table] = field(default_factory=list, init=False, compare=False, repr=False)
    """The view as users see it, once somebody has read this version: others need not fold the changes again."""

    @property
    def changes(self) -> tuple[pa.Table, ...]:
        """All that the view is made of."""
        return tuple(part.table for part in (*self.merged, *self.since))

    @property
    def merged_upto(self) -> int:
        """The commit up to which the merged view has all changes; 0 if there is no merged view."""
        return max((part.seq for part in self.merged), default=0)

    def left_upto(self, keep: int, most: int | None = None) -> int:
        """The last commit whose changes are not among the newest `keep` changes since the view was merged, or not in
        the newest `most` parts (MOST_SINCE); 0 if there is none. Changes that are kept anyway need not be merged."""
        most = MOST_SINCE if most is None else most
        if len(self.since) <= most and self._since_rows <= keep:
            return 0
        rows = 0
        for count, part in enumerate(reversed(self.since), 1):
            rows += part.rows
            if rows > keep or count > most:
                return part.seq
        return 0

    @cached_property
    def _since_rows(self) -> int:
        return sum(part.rows for part in self.since)

    def goes_first(self, keep: int) -> int:
        """When the first row is gone of all that the view is made of, apart from the newest `keep` changes, which stay
        on record in any case; NEVER if none goes."""
        return min((self._left_first(keep), *(part.goes for part in self.merged)))

    def stays_first(self, ticked: int, keep: int) -> int:
        """The same of what a commit of this tick does not drop as a whole."""
        return min(self._left_first(keep), self.merged_first(ticked))

    def merged_first(self, ticked: int) -> int:
        """The same of the parts of the merged view alone."""
        return min((part.goes for part in self.merged if part.ends >= ticked), default=NEVER)

    def _left_first(self, keep: int) -> int:
        left = self.left_upto(keep)
        return min((part.goes for part in self.since if part.seq <= left), default=NEVER) if left else NEVER


@dataclass(frozen=True)
class ViewMerge:
    """What a merge writes of a view: the changes up to a commit (`upto`), those of the batch itself if `with_new`;
    together with the merged view if `is_rewritten`; by intervals of expiration of this width, if there is one."""

    upto: int
    with_new: bool
    is_rewritten: bool
    width: int | None

    def taken(self, version: PlanVersion) -> tuple[pa.Table, ...]:
        """The parts of a version that it writes anew."""
        merged = version.merged if self.is_rewritten else ()
        return tuple(part.table for part in (*merged, *version.since) if part.seq <= self.upto)


@dataclass
class ContinuousQuery:
    """A continuous query. `uses` has the store of each window of its plan, and from which point on it sees tuples."""

    id: int
    name: str
    statement: CreateQuery
    text: str
    optimized: OptimizedPlan
    choices: PlanChoices
    uses: tuple[StoreUse, ...]
    version: PlanVersion
    mode: SinkMode | None = None
    """What the sink gets; None: answers to windows, or there is none."""
    tables: tuple[TableUse, ...] = ()
    """The tables that it reads."""
    derived: CreateDerivedStream | None = None
    """The statement of the stream that its output is (CREATE STREAM … AS); None for a query."""
    sink: Sink | StagingSink | None = None
    late_call: Any = None
    """The call of its sink or subscribers that did not end in time and may still run."""
    subscribers: list[Subscriber] = field(default_factory=list)
    metrics: PlanMetrics = field(default_factory=PlanMetrics)
    meter: PlanMeter = field(default_factory=PlanMeter)
    unshown: tuple[tuple[int, str], ...] = ()
    """Committed stages that the sink may not show yet: their outbox entries and the stages."""
    merged_at: int | None = None
    """The tick at which state and view were merged last."""
    unmerged: int = 0
    """How many commits have written parts since."""
    has_new_state: bool = True
    """Whether one of them has written state, as far as is known."""
    committed: int | None = None
    """The last tick that a commit saved; `progress.ticked` may be ahead of it by ticks without a change."""
    home: str = "driver"
    """Where its state is: 'driver' or 'spark'; only a commit changes it."""
    home_reason: str = "it has not ticked yet"
    must_merge: bool = False
    """Its next batch merges state and view: tasks know no ranges of it yet, or it is not known when that was done."""
    is_dropped: bool = False
    is_paused: bool = False
    """It does not tick (ALTER QUERY … PAUSE); its streams keep what it needs."""
    saved: str = ""
    """What the catalog had of it beside its text, if it was read there."""
    halted: str | None = None
    """Why it is suspended in this version alone, which cannot go on from what is on disk; the catalog does not know."""
    has_own_state: bool = True
    """Whether what is on disk is of its plan. If not, nothing of it may be carried over."""
    weighed: Facts | None = None
    """The facts by which its plan was chosen again last, if that gave the same plan."""
    weighed_at: int | None = None
    """The tick at which facts were measured anew last."""
    chosen_again: str | None = None
    """Why its plan was chosen again, since the state directory was opened."""
    shares_join_with: tuple[str, ...] = ()
    """The queries that its join was processed for, too, at its last tick."""
    shares_subplans: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By path, the sub-plans that were processed for other queries, too, at its last tick, and for which."""
    lags: LagRing = field(default_factory=LagRing)
    """How far it was behind the frontiers of its streams when it ticked."""
    watchers: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What is called after every batch of ticks, by who asked for it: the one-time queries that read its view."""
    ticking: threading.RLock = field(default_factory=threading.RLock)
    """Held while it ticks, and while it is dropped."""

    def tell_watchers(self) -> None:
        """Tell those who read its view that there may be another version."""
        for tell in list(self.watchers.values()):
            tell()

    @property
    def plan(self) -> ContinuousPlan:
        return self.optimized.plan

    def effects_after(self, due: DueTicks) -> dict[int, int]:
        """By table, what is in effect after a batch."""
        return {use.table.id: use.effect(due) for use in self.tables}

    @property
    def unread_bytes(self) -> int:
        """The bytes of the rows of tables that it will keep and has not read yet."""
        return sum(use.unread_bytes(self.progress.effects) for use in self.tables)

    @property
    def read_tables(self) -> tuple[StoredTable, ...]:
        """The tables that it reads, each once."""
        return tuple({use.table.id: use.table for use in self.tables}.values())

    @property
    def fed_tables(self) -> tuple[StoredTable, ...]:
        """The tables that it reads and that streams feed."""
        return tuple(table for table in self.read_tables if table.feed is not None)

    def effects_at(self, ticked: int) -> dict[int, int]:
        """By table, what is in effect after a tick, if all changes so far are."""
        return {use.table.id: use.effect_at(ticked) for use in self.tables}

    @property
    def read_streams(self) -> tuple[str, ...]:
        """The streams of its windows, and those that feed its tables."""
        fed = [table.feed.stream for table in self.fed_tables if table.feed is not None]
        return tuple({name.lower(): name for name in (*fed, *self.plan.streams)}.values())

    @property
    def retention(self) -> str:
        """The setting that says how many of the rows are kept that it has reported."""
        return "retained_answers" if self.plan.periodic else "retained_changes"

    @property
    def progress(self) -> PlanProgress:
        return self.version.progress

    @property
    def error(self) -> str | None:
        return self.halted or self.progress.error

    @property
    def view_width(self) -> int | None:
        """The width of the intervals of expiration by which a large view is kept in parts, which are dropped whole.
        None: the view is small, or rows are withdrawn from it, and it is one part."""
        if self.is_withdrawn:
            return None
        version = self.version
        rows = sum(part.rows for part in (*version.merged, *version.since))
        return (self.twentieth or self.plan.step) if rows > REWRITTEN_ROWS else None

    def view_merge(self, ticked: int, keep: int) -> ViewMerge | None:
        """What a merge at this tick writes of the view, if the newest `keep` changes stay on record; None: nothing.

        The whole view is written anew, rather than what has come since the last merge, if it is one part, or has too
        many, or has one in which rows expired an interval ago and others have not. A merge takes all but
        the newest half of what may stay, so that the next tick need not merge again."""
        if self.plan.periodic or self.derived is not None:
            return None
        keep, width, version = self.unmerged_rows(keep), self.view_width, self.version
        first = version.merged_first(ticked)
        is_many = len(version.merged) + len(version.since) >= MOST_VIEW_PARTS
        is_rewritten = width is None or is_many or first < ticked - width
        if not keep:
            return ViewMerge(self.progress.seq + 1, True, is_rewritten, width)
        if version.left_upto(keep):
            return ViewMerge(version.left_upto(keep // 2, MOST_SINCE // 2), False, is_rewritten, width)
        if first < ticked - (self.twentieth or self.plan.step):
            return ViewMerge(version.merged_upto, False, True, width)
        return None

    def unmerged_rows(self, keep: int) -> int:
        """How many of the newest changes need not be in the merged view, since they are kept anyway. 0 if rows are
        withdrawn, which every reader would look for, or if the sink is shown the view at every tick."""
        return 0 if self.is_withdrawn or self.mode is SinkMode.VIEW else keep

    @cached_property
    def is_withdrawn(self) -> bool:
        """Whether rows of its answer are withdrawn by a '-'."""
        return self.choices.explicit_expiry or is_strict(self.plan.root)

    @cached_property
    def repeating(self) -> tuple[str, ...]:
        """The paths of the operators that make every live row anew at every tick (RSTREAM, also within SLIDE)."""
        return tuple(_repeating(self.plan.root, ROOT))

    @cached_property
    def twentieth(self) -> int | None:
        """The twentieth of its shortest window, of a stream or a sub-query, at least a tick; None: nothing expires."""
        windows = (one.lifetime.range for one in walk(self.plan.root) if isinstance(one, Window | OutputWindow))
        ranges = [length for length in windows if length is not None]
        return max(min(ranges) // 20, self.plan.step) if ranges else None

    @cached_property
    def _lasting(self) -> frozenset[str]:
        """The paths of state that has rows of tables alone, by key, which stay until a change of the table."""
        kept = [path for path, one in empty_tables(self.plan).items() if one.layout is Layout.KEYED]
        inputs = {path: path.removesuffix("/old") for path in kept if path.endswith("/old")}
        return frozenset(path for path, one in inputs.items() if not windows_below(node_at(self.plan.root, one)))

    @property
    def keeps_expiring(self) -> bool:
        """Whether its state has rows that expire."""
        return any(size for path, (_, size) in self.version.state.sizes.items() if path not in self._lasting)

    @property
    def holds_rows(self) -> bool:
        """Whether its state or its view has rows, which may have expired."""
        return self.keeps_expiring or any(part.rows for part in (*self.version.merged, *self.version.since))

    @cached_property
    def keeps_lists(self) -> bool:
        """Whether state is kept in lists, whose parts have rows that expire at different times."""
        return any(table.layout is Layout.LIST for table in empty_tables(self.plan).values())

    @cached_property
    def intervals(self) -> frozenset[int]:
        """The widths of the intervals of its calendars, whose parts are dropped whole."""
        tables = empty_tables(self.plan).values()
        return frozenset(table.width for table in tables if isinstance(table, Calendar))

    @cached_property
    def grid(self) -> TickGrid:
        return TickGrid(self.plan.step, self.plan.origin)

    @cached_property
    def streams(self) -> frozenset[str]:
        """The names of its streams, in lower case."""
        return frozenset(name.lower() for name in self.plan.streams)

    @cached_property
    def axes(self) -> frozenset[tuple[str, str]]:
        """The streams and columns whose frontiers it waits for."""
        return frozenset((window.stream.lower(), window.attribute.column) for window in self.plan.windows)

    @cached_property
    def sharable_join(self) -> SharableJoin | None:
        """The join that it may share with other queries."""
        return sharable_join(self.plan.root)

    @cached_property
    def sharable_subplans(self) -> tuple[SharableSubPlan, ...]:
        """The sub-plans with state that it may share, each before those that are in it."""
        return sharable_subplans(self.plan)

    @cached_property
    def history(self) -> tuple[bool, ...]:
        """For each window, whether a tick reads tuples of earlier ticks."""
        return needs_history(self.plan)

    @cached_property
    def columns(self) -> tuple[tuple[KeptColumn, ...], ...]:
        """For each window, the columns of its store."""
        return tuple(kept_columns(window)[0] for window in self.plan.windows)


def _repeating(node: Node, path: str) -> Iterator[str]:
    if isinstance(node, ToStream) and node.kind is Streaming.RSTREAM:
        yield path
    for i, one in enumerate(node.inputs):
        yield from _repeating(one, f"{path}.{i}")


def kept_columns(window: Window) -> tuple[tuple[KeptColumn, ...], KeptColumn | None]:
    """What a window store keeps for a window: its columns in order, and its predicate. A count-based window also needs
    the order of arrival."""
    columns = tuple(KeptColumn(one.sql, one.column.type) for one in window.columns)
    columns = (ARRIVAL, *columns) if isinstance(window, RowsWindow) else columns
    return columns, None if window.predicate is None else KeptColumn(window.predicate, BOOLEAN)


def counts_windows(plan: ContinuousPlan) -> bool:
    """Whether an answer has rows although no tuple qualifies: an aggregate without GROUP BY has. Then a tuple that does
    not qualify is kept, too: a window that holds it is answered."""
    return plan.periodic and any(isinstance(one, GroupBy) and not one.keys for one in walk(plan.root))


def counts_ticks(plan: ContinuousPlan) -> bool:
    """Whether a window holds what an aggregate without GROUP BY gives at every tick, with or without tuples: then no
    tick can be left out."""
    streams = (one.input for one in walk(plan.root) if isinstance(one, OutputWindow | OutputRows) and not _is_now(one))
    return any(isinstance(below, GroupBy) and not below.keys for one in streams for below in walk(one))


def _is_now(node: OutputWindow | OutputRows) -> bool:
    """Whether it holds the rows of one tick alone."""
    return isinstance(node, OutputWindow) and node.lifetime == Lifetime(1)


def bucketed_by(plan: ContinuousPlan, i: int) -> tuple[KeptColumn, ...]:
    """The columns that the store of window i is bucketed by, so that Spark tasks read their ranges of it."""
    columns = {one.column.sql: KeptColumn(one.sql, one.column.type) for one in plan.windows[i].columns}
    return tuple(columns[name] for name in staged(plan).window_keys[i] or ())


def wanted_rows(plan: ContinuousPlan, i: int, stream: StreamState) -> WantedRows:
    """What window i of a plan needs of its stream."""
    window, history = plan.windows[i], needs_history(plan)[i]
    columns, predicate = kept_columns(window)
    if predicate is not None and counts_windows(plan):
        columns, predicate = (*columns, predicate), None
    return WantedRows(stream, window.attribute.column, columns, predicate, bucketed_by(plan, i), reach(window, history))
