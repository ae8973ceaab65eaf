"""EXPLAIN of a continuous query: a tree whose edges show patterns, with what its operators keep and did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windrow.engine.ask.catalog_views import (
    between_ticks,
    completeness_of_plan,
    frontier_text,
    length_text,
    plan_state,
)
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.homes import SPARK
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.state import StreamState
from windrow.explain.costs import verbose_lines
from windrow.explain.names import ColumnNames
from windrow.explain.operators import (
    LIVE_ROWS,
    chosen_layout_text,
    described,
    kept_rows,
    layout_text,
    order_text,
    reads_store,
)
from windrow.explain.table_notes import table_note
from windrow.explain.tree import ExplainedPlan, PlanBox, bytes_text, count_text, seconds_text
from windrow.operators.layouts.choosing import is_chosen
from windrow.operators.scan import needs_history, reach
from windrow.operators.state import OUTPUT, ROOT, empty_tables, has_ends, is_strict
from windrow.optimizer.execution import DIRECT, NEGATIVE, UPA, execution_of
from windrow.optimizer.pipeline import OptimizedPlan, RuleStep
from windrow.patterns import Annotated, UpdatePattern, annotate
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Join,
    Lifetime,
    Node,
    OuterJoin,
    OutputWindow,
    SemiJoin,
    Streaming,
    StreamWindow,
    TableScan,
    ToStream,
    Window,
    WindowExpiry,
)
from windrow.types import number_text, point_text

Note = tuple[str, str]

NAMED = 5
"""So many queries that share a join are named."""

KEPT = "Rules: the plan is the one that was saved with the state; this version of Windrow would choose another"


@dataclass(frozen=True)
class RunningPlan:
    """A query that runs, the stores of its windows, and how to find the streams. `analyze`: show what it did;
    `verbose`: show what it costs, and what was chosen from."""

    query: ContinuousQuery
    stores: WindowStores
    stream_of: Callable[[str], StreamState]
    analyze: bool = False
    verbose: bool = False


def home_text(query: ContinuousQuery | None) -> str:
    """Where the operators of a query run. Every query begins in the driver."""
    return "Spark" if query is not None and query.home == SPARK else "driver"


def explain_continuous(running: RunningPlan) -> ExplainedPlan:
    """The plan of a query that exists, with what was measured since the state directory was opened."""
    query = running.query
    title = f"{'Query' if query.derived is None else 'Stream'} {query.name}"
    return _explained(query.name, title, query.optimized, running, query.choices.explicit_expiry, running.verbose)


def explain_plan(
    name: str, optimized: OptimizedPlan, explicit_expiry: bool = False, is_stream: bool = False, verbose: bool = False
) -> ExplainedPlan:
    """The plan that a query, or a stream made by one, would get. `verbose`: with costs and candidates."""
    return _explained(name, f"{'Stream' if is_stream else 'Query'} {name}", optimized, None, explicit_expiry, verbose)


def _explained(
    name: str, titled: str, optimized: OptimizedPlan, running: RunningPlan | None, explicit: bool, verbose: bool
) -> ExplainedPlan:
    plan = optimized.plan
    query = None if running is None else running.query
    kind = "periodic, a window every" if plan.periodic else "continuous, a tick every"
    title = f"{titled}: {kind} {length_text(plan.step, plan.point)}, home: {home_text(query)}"
    names, annotated = ColumnNames(plan.root), annotate(plan)
    root = _Boxes(plan, names, running).box(annotated, ROOT)
    more = [f"Output: {_output(plan, annotated.output, explicit)}"]
    more += [] if execution_of(plan) == UPA else [f"Execution: {_EXECUTIONS[execution_of(plan)]}"]
    more += [f"View: ORDER BY {order_text(plan.order, names)}"] if plan.order else []
    more += _measured(running) if running is not None else [f"Complete: {_would_be_complete(plan)}"]
    note = between_ticks(plan)
    more += [] if note is None else [f"Note: {note}"]
    is_kept = running is not None and not optimized.trace
    more += [KEPT] if is_kept else ["Rules:", *_rules(optimized.trace)]
    more += verbose_lines(optimized) if verbose else []
    return ExplainedPlan(name, title, root, tuple(more))


class _Boxes:
    """Makes the boxes of a plan. Windows are met from left to right, as in `plan.windows`."""

    def __init__(self, plan: ContinuousPlan, names: ColumnNames, running: RunningPlan | None):
        self._plan = plan
        self._names = names
        self._running = running
        self._tables = empty_tables(plan)
        self._sizes = {} if running is None else running.query.version.state.sizes
        self._layouts = {} if running is None else running.query.version.state.layouts
        self._home = home_text(None if running is None else running.query)
        self._has_ticked = running is not None and running.query.progress.ticked is not None
        self._history = needs_history(plan)
        self._windows = 0

    def box(self, one: Annotated, path: str) -> PlanBox:
        for _ in range(self._hidden(one.node, path)):
            one, path = one.inputs[0], f"{path}.0"
        operator, text, how = described(one.node, self._names, self._plan.point)
        inputs = tuple(self.box(below, f"{path}.{i}") for i, below in enumerate(one.inputs))
        home = "Spark" if isinstance(one.node, Window) else self._home
        notes = [("why", one.why), ("how", how), *self._keeps(one, path), *self._shared(path), *self._ran(one, path)]
        notes.append(("home", home))
        return PlanBox(operator, text, tuple(notes), inputs, one.state, one.output, self._rate(path))

    def _hidden(self, node: Node, path: str) -> int:
        """How many operators from here on the user never wrote: those that make an answer of each window (SLIDE)."""
        if not self._plan.periodic:
            return 0
        if path == ROOT and isinstance(node, ToStream) and node.kind is Streaming.RSTREAM and not node.restores:
            return 1
        if isinstance(node, WindowExpiry):
            return 3 if self._hidden(node.input, f"{path}.0") == 2 else 0
        is_made = isinstance(node, OutputWindow) and node.lifetime == Lifetime(1) and isinstance(node.input, ToStream)
        return 2 if is_made else 0

    # -- state -----------------------------------------------------------------------------------

    def _keeps(self, one: Annotated, path: str) -> list[Note]:
        store = [("keeps", self._store(one))] if isinstance(one.node, Window) else self._tables_read(one.node, path)
        if isinstance(one.node, Join | SemiJoin | OuterJoin):
            return self._joined(one.node, path)
        mine = [p for p in self._tables if p == path or (p.startswith(f"{path}/") and not p.endswith("/old"))]
        strict = any(is_strict(below) for below in one.node.inputs)
        kept = [(p, kept_rows(one.node, p[len(path) + 1 :])) for p in mine]
        return [*store, *(("keeps", self._table(p, what, strict and what == LIVE_ROWS)) for p, what in kept)]

    def _tables_read(self, node: Node, path: str) -> list[Note]:
        uses = () if self._running is None or not isinstance(node, TableScan) else self._running.query.tables
        return [("reads", table_note(self._plan, use)) for use in uses if use.path == path]

    def _joined(self, node: Join | SemiJoin | OuterJoin, path: str) -> list[Note]:
        """Where a join has the earlier rows of its inputs."""
        sources = [(i, self._names.source(one), reads_store(node, i)) for i, one in enumerate(node.inputs)]
        reused = node.reused if isinstance(node, Join) else ()
        own = [
            ("keeps", self._table(f"{path}.{i}/old", f"rows of {name}", is_strict(node.inputs[i])))
            for i, name, is_stored in sources
            if not is_stored and i not in reused
        ]
        own += [("reads", f"earlier rows of {sources[i][1]} from the state of DISTINCT below") for i in reused]
        stored = [name for _, name, is_stored in sources if is_stored]
        if stored:
            own.append(("reads", f"earlier rows of {' and '.join(stored)} from the window stores"))
        others = () if self._running is None else self._running.query.shares_join_with
        if others and len(stored) == len(sources):
            own.append(("shared", f"it ran once with that of {_some(others)}"))
        return own

    def _shared(self, path: str) -> list[Note]:
        """A note on the queries that share everything from this node downwards."""
        others = None if self._running is None else self._running.query.shares_subplans.get(path)
        if not others:
            return []
        return [("shared", f"from here downwards it ran once for {_some(others)}, too; its state is kept once")]

    def _table(self, path: str, what: str, is_withdrawn: bool) -> str:
        table = self._tables.get(path)
        if table is None:
            layout = ""
        elif is_chosen(table):
            layout = f": {chosen_layout_text(self._layouts.get(path))}"
        else:
            layout = f": {layout_text(table.layout, is_withdrawn)}"
        if not self._has_ticked:
            return f"{what}{layout}"
        rows, nbytes = self._sizes.get(path, (0, 0))
        return f"{what}{layout}; {count_text(rows, 'row')}, {bytes_text(nbytes)}"

    def _store(self, one: Annotated) -> str:
        at, self._windows = self._windows, self._windows + 1
        length = reach(self._plan.windows[at], self._history[at])
        if length is None:
            kept = "all tuples"
        else:
            kept = f"tuples of {length_text(length, self._plan.point)}" if length else "tuples until they are processed"
        text = f"window store: FIFO, {kept}"
        if self._running is None or not self._has_ticked:
            return text
        use = self._running.query.uses[at]
        (rows, nbytes), sharers = self._running.stores.size(use), self._running.stores.sharers(use)
        shared = f", shared by {sharers} windows" if sharers > 1 else ""
        return f"{text}; {count_text(rows, 'row')}, {bytes_text(nbytes)} on disk{shared}"

    # -- what was measured -----------------------------------------------------------------------

    def _rate(self, path: str) -> str | None:
        if self._running is None or not self._running.query.meter.points:
            return None
        meter, is_time = self._running.query.meter, self._plan.point.is_timestamp
        if self._running.query.shares_join_with and not meter.of(path).calls:
            return None
        rate = meter.of(path).rows / (meter.points / 1e6 if is_time else meter.points)
        return f"{number_text(rate)} rows per {'second' if is_time else 'point'}"

    def _ran(self, one: Annotated, path: str) -> list[Note]:
        if self._running is None or not self._running.analyze:
            return []
        meter, others = self._running.query.meter, self._running.query.shares_join_with
        if others and isinstance(one.node, StreamWindow) and not meter.of(path).calls:
            return [("ran", "read once for all queries of the shared join, and not counted for each")]
        own, below = meter.of(path), [meter.of(f"{path}.{i}") for i in range(len(one.inputs))]
        is_known = any(other.calls for other in below)
        taken = f"{count_text(sum(other.rows for other in below), 'row')} in, " if is_known else ""
        given = f"{count_text(own.rows, 'row')} out ({bytes_text(own.nbytes)})"
        batches = "1 batch" if own.calls == 1 else f"{own.calls:,} batches"
        shared = ", its part of the time of the shared join" if others and below and not is_known else ""
        return [("ran", f"{batches}, {taken}{given}, {seconds_text(own.seconds)}{shared}")]


def _output(plan: ContinuousPlan, pattern: UpdatePattern, explicit: bool) -> str:
    if plan.periodic:
        return "the whole answer of every window"
    if explicit and pattern is not UpdatePattern.MONOTONIC:
        return f"{pattern}; explicit_expiry is on, so a row that expires is also withdrawn by '-'"
    if pattern is UpdatePattern.STR and has_ends(plan.root):
        return f"{pattern}, so a row may be withdrawn by '-' before its exp"
    return f"{pattern}, {_OUTPUTS[pattern]}"


_EXECUTIONS = {
    NEGATIVE: "negative (SET execution): every row that expires is withdrawn by a negative tuple, and state is by key",
    DIRECT: "direct (SET execution): there are no negative tuples, and operators scan lists for expired rows",
}

_OUTPUTS = {
    UpdatePattern.MONOTONIC: "so rows are only added, and stay",
    UpdatePattern.WKS: "so every row says in exp when it ends, and none is withdrawn",
    UpdatePattern.WK: "so every row says in exp when it ends, and none is withdrawn",
    UpdatePattern.STR: "so a row that ends is withdrawn by '-'",
}


def _would_be_complete(plan: ContinuousPlan) -> str:
    reaches = [reach(window) for window in plan.windows]
    if any(one is None for one in reaches):
        return "of tuples that come after the query was created, and of those that are kept then"
    longest = length_text(max(one or 0 for one in reaches), plan.point)
    return f"{longest} after the query was created, or sooner if other queries keep the tuples that it needs"


def _measured(running: RunningPlan) -> list[str]:
    query, kind = running.query, running.query.plan.point
    ticked = query.progress.ticked
    frontiers = {name: frontier_text(running.stream_of(name)) for name in query.read_streams}
    shown = ", ".join(f"{name} {point or 'nothing seen yet'}" for name, point in frontiers.items())
    up_to = "has not ticked yet" if ticked is None else f"ticked up to {point_text(ticked, kind)}"
    lines = [f"Ticks: {up_to}; frontiers: {shown}{_held_back(running)}"]
    lines.append(f"Complete: {completeness_of_plan(query)}")
    lines.append(f"Home: {home_text(query)}, since {query.home_reason}")
    lines.append(f"State: {_state(running)}")
    if query.chosen_again is not None:
        lines.append(f"Chosen again: {query.chosen_again}")
    if running.analyze:
        meter, metrics = query.meter, query.metrics
        lines.append(
            f"Since opening: {count_text(metrics.ticks, 'tick')}, batches: {meter.batches:,}, "
            f"changes: {metrics.rows:,}; "
            f"reading {seconds_text(meter.read_s)}, operators {seconds_text(meter.advance_s)}, "
            f"commits {seconds_text(meter.commit_s)}"
        )
    return lines


def _held_back(running: RunningPlan) -> str:
    """Which stream the next tick waits for, if there are several."""
    query = running.query
    if len(query.read_streams) < 2:
        return ""
    progress = {name: running.stream_of(name).progress for name in query.read_streams}
    axes = {table.feed.stream: table.feed.axis for table in query.fed_tables if table.feed is not None}
    axes |= {window.stream: window.attribute.column for window in query.plan.windows}
    waiting = {name: one.frontiers[axes[name]].value for name, one in progress.items() if not one.input_ended}
    if not waiting:
        return ""
    unseen = [name for name, point in waiting.items() if point is None]
    if unseen:
        return f"; waits for {', '.join(unseen)}"
    points = {name: point for name, point in waiting.items() if point is not None}
    return f"; waits for {min(points, key=lambda name: points[name])}"


def _state(running: RunningPlan) -> str:
    query = running.query
    if query.error is not None:
        return f"suspended: {query.error}"
    if query.is_paused:
        return plan_state(query, running.stores)
    rows = sum(count for count, _ in query.version.state.sizes.values())
    text = f"active; operators keep {count_text(rows, 'row')}, {bytes_text(query.version.state.nbytes)}"
    expiring = query.version.state.sizes.get(OUTPUT)
    return text if expiring is None else f"{text}, of these {expiring[0]:,} for explicit_expiry"


def _rules(trace: tuple[RuleStep, ...]) -> list[str]:
    width = max(len(step.rule) for step in trace) if trace else 0
    return [f"  {step.rule.ljust(width)}  {_step(step)}" for step in trace]


def _step(step: RuleStep) -> str:
    if step.is_off:
        return "off (SET disabled_rules)"
    return step.reason or "nothing to do"


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
