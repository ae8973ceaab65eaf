"""Streams and queries come and go: checked, given a synopsis, and committed, between micro-batches."""

from __future__ import annotations

import difflib
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlglot import exp

from windrow.catalog.definitions import StreamDef, define_stream
from windrow.catalog.store import Catalog
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery, CreateStream, Emit
from windrow.dataplane.answers.revisions import OP, REVISION
from windrow.dataplane.sinks import check_given, check_path, open_sink, target_of
from windrow.dataplane.sources.registry import source_of
from windrow.engine.queries.placement import Placement, made, place
from windrow.engine.state import QueryState, StreamState, SynopsisState, frontiers_of
from windrow.engine.store.homes import Homes
from windrow.engine.store.journal import Journal
from windrow.engine.ticks.delivery import sweep
from windrow.errors import BindError, CatalogError, Place, UnsupportedError
from windrow.optimizer.sharing.synopsis_plans import BUFFER, Style, wanted_cuts
from windrow.plan.binder import TypesOf, bind_query, bind_snapshot
from windrow.plan.nodes import ROW_NUM, Finalise
from windrow.settings import Settings
from windrow.synopses import BasicIntervalSynopsis, BufferSynopsis, PartitionedSynopsis
from windrow.synopses.kinds.frequent_panes import FrequentSynopsis
from windrow.windows import PartitionedWindow


class QueryManager:
    """Owns the streams and their queries.

    They change one at a time: `changing` is taken before any lock of a stream. A dict of streams, queries or synopses
    is never changed, only replaced, so whoever reads one sees it whole without a lock.
    """

    def __init__(self, catalog: Catalog, journal: Journal, types_of: TypesOf, state_dir: Path, homes: Homes):
        self._catalog = catalog
        self._journal = journal
        self._types_of = types_of
        self._state_dir = state_dir
        self._homes = homes
        self.streams: dict[str, StreamState] = {}
        self._named: dict[str, tuple[StreamState, QueryState]] = {}
        self.changing = threading.RLock()

    # -- names ---------------------------------------------------------------------------------

    def stream(self, name: str, place: Place | None = None) -> StreamState:
        found = self.streams.get(name.lower())
        if found is None:
            raise self._unknown("stream", name, (s.name for s in self.streams.values()), place)
        return found

    def definition(self, name: str, place: Place | None = None) -> StreamDef:
        return self.stream(name, place).definition

    def queries(self) -> dict[str, tuple[StreamState, QueryState]]:
        return {name: (s, q) for s in self.streams.values() for name, q in s.queries.items()}

    def query(self, name: str) -> tuple[StreamState, QueryState]:
        found = self._named.get(name.lower())
        if found is None:
            raise self._unknown("query", name, self.queries())
        return found

    def adopt(self, stream: StreamState, query: QueryState) -> None:
        """The query is one of the stream's from now on, and known by its name."""
        stream.queries = {**stream.queries, query.name: query}
        self._named[query.name.lower()] = stream, query

    def _unknown(self, kind: str, name: str, known: Iterable[str], place: Place | None = None) -> CatalogError:
        names = sorted(known)
        near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(names) or 'none yet'}."
        return CatalogError(f"there is no {kind} '{name}'", place=place, remedy=hint)

    # -- streams -------------------------------------------------------------------------------

    def create_stream(self, statement: CreateStream, dataframe: Any = None) -> StreamState:
        with self.changing:
            if statement.name.lower() in self.streams:
                if statement.if_not_exists:
                    return self.streams[statement.name.lower()]
                raise CatalogError(
                    f"stream '{statement.name}' exists already", remedy="DROP STREAM it first, or use IF NOT EXISTS."
                )
            definition = define_stream(replace(statement, if_not_exists=False))
            if dataframe is None:
                source_of(definition)
            with self._catalog.transaction() as tx:
                number = self._journal.next_id("stream")
                tx.execute(
                    "INSERT INTO streams (name, id, statement) VALUES (?, ?, ?)",
                    (definition.name, number, to_text(definition.statement)),
                )
            return self.attach(number, definition, dataframe)

    def attach(self, number: int, definition: StreamDef, dataframe: Any = None) -> StreamState:
        """A stream state in memory; its progress is filled in by recovery."""
        directory = self._state_dir / "streams" / str(number)
        state = StreamState(number, definition, directory, frontiers_of(definition), dataframe=dataframe)
        self.streams = {**self.streams, definition.name.lower(): state}
        return state

    def drop_stream(self, stream: StreamState) -> None:
        with self.changing, stream.batch_lock, stream.lock:
            if stream.queries:
                names = ", ".join(stream.queries)
                raise CatalogError(f"stream '{stream.name}' is read by: {names}", remedy="Drop these queries first.")
            with self._catalog.transaction() as tx:
                tx.execute("DELETE FROM streams WHERE id = ?", (stream.id,))
            self.streams = {name: other for name, other in self.streams.items() if other is not stream}
            shutil.rmtree(stream.directory, ignore_errors=True)

    def check_settings(self, settings: Settings) -> None:
        """Refuse settings that a query cannot live with."""
        for _, query in self.queries().values():
            _check_frequent(query.plan, settings)

    # -- queries -------------------------------------------------------------------------------

    def bind(self, statement: CreateQuery, text: str) -> Finalise:
        """The checked plan of a query; refuses clauses that this version does not carry out."""
        for present, what in (
            (statement.emit is Emit.LATEST, "EMIT LATEST"),
            (statement.priority is not None, "PRIORITY"),
            (statement.expire_after is not None, "EXPIRE AFTER"),
        ):
            if present:
                raise UnsupportedError(f"this version does not carry out {what} yet", remedy="Leave it out.")
        if statement.sink is not None:
            open_sink(statement.name, statement.sink)
        plan = bind_query(statement.select, text, self.definition, self._types_of)
        revises = self.definition(plan.scan.stream).revises
        taken = [o.name for o in plan.outputs if revises and o.name.lower() in (OP, REVISION)]
        if taken:
            raise BindError(
                f"'{taken[0]}' is a column that answers over a stream with LATE REVISE have anyway",
                remedy="Give this one another name: AS …",
            )
        return plan

    def bind_snapshot(self, select: exp.Expr, text: str) -> Finalise:
        """The checked plan of a one-time question over a window."""
        return bind_snapshot(select, text, self.definition, self._types_of)

    def create_query(
        self,
        statement: CreateQuery,
        text: str,
        settings: Settings,
        catch_up: Callable[[StreamState], None],
        sink: Any = None,
    ) -> QueryState:
        """`catch_up` has everything that is due answered first, so that no window which closed before the query
        was there depends on how far the ticks happen to be."""
        if sink is not None:
            check_given(sink)
        with self.changing:
            return self._create_query(statement, text, settings, catch_up, sink)

    def _create_query(
        self,
        statement: CreateQuery,
        text: str,
        settings: Settings,
        catch_up: Callable[[StreamState], None],
        sink: Any,
    ) -> QueryState:
        known = self._named.get(statement.name.lower())
        statement, if_not_exists = replace(statement, if_not_exists=False), statement.if_not_exists
        if known is not None:
            return self._known(known[1], statement, if_not_exists, sink)
        plan = self.bind(statement, text)
        _check_frequent(plan, settings)
        self._check_sink(statement)
        stream = self.stream(plan.scan.stream)
        with stream.batch_lock:
            catch_up(stream)
            with stream.lock:
                return self._add(stream, statement, text, plan, settings, sink)

    def _known(self, known: QueryState, statement: CreateQuery, if_not_exists: bool, sink: Any) -> QueryState:
        """A query that exists: a sink in Python may be given to it again, as after a restart."""
        if sink is not None and to_text(known.statement) == to_text(statement):
            known.sink = sink
        elif not if_not_exists:
            raise CatalogError(
                f"query '{statement.name}' exists already",
                remedy="DROP QUERY it first; or keep it: IF NOT EXISTS, in Python wr.queries[name].",
            )
        return known

    def _check_sink(self, statement: CreateQuery) -> None:
        """The files can be written, and by no other query: two would write over each other's answers."""
        if statement.sink is None:
            return
        check_path(statement.name, statement.sink)
        mine = target_of(statement.name, statement.sink)
        for _, query in self.queries().values():
            theirs = query.statement.sink
            if mine is not None and theirs is not None and target_of(query.name, theirs) == mine:
                raise BindError(
                    f"query '{query.name}' writes to the same files", remedy="Give this query a path of its own."
                )

    def _add(
        self,
        stream: StreamState,
        statement: CreateQuery,
        text: str,
        plan: Finalise,
        settings: Settings,
        sink: Any,
    ) -> QueryState:
        with self._catalog.transaction() as tx:
            ticked = self._caught_up(stream, plan.scan.attribute.column)
            closed_by = ticked.get(plan.scan.attribute.column)
            state, placement = self._place(stream, statement.name, plan, settings)
            since = placement.since
            fresh = bool(stream.promises.on(plan.scan.attribute.column)) if stream.promises else False
            before = stream.synopses.get(state.plan.id)
            if before is None or (before.plan.schedule, before.since) != (state.plan.schedule, state.since):
                self._journal.save_synopsis(stream, state)
            number = self._journal.next_id("query")
            tx.execute(
                "INSERT INTO queries (name, id, statement, stream, synopsis, since, closed_by, fresh)"
                " VALUES (?,?,?,?,?,?,?,?)",
                (statement.name, number, to_text(statement), stream.name, state.plan.id, since, closed_by, fresh),
            )
            self._journal.save_derivations(number, placement.derived)
        query = QueryState(number, statement.name, statement, text, plan, since, closed_by=closed_by, fresh=fresh)
        if sink is None and statement.sink is not None:
            sink = open_sink(statement.name, statement.sink)
        query.sink, query.synopsis = sink, state.plan.id
        stream.ticked = ticked
        stream.synopses = {**stream.synopses, state.plan.id: state}
        self.adopt(stream, query)
        return query

    def _caught_up(self, stream: StreamState, axis: str) -> dict[str, int]:
        """Inside a transaction: how far ticks have gone. Where an axis had no query they had stopped, and go on from
        the frontier."""
        frontier = stream.frontiers[axis].value
        if axis == ROW_NUM or frontier is None or stream.on_axis(axis):
            return stream.ticked
        self._journal.save_ticked(stream, axis, frontier)
        return {**stream.ticked, axis: frontier}

    def _place(
        self, stream: StreamState, name: str, plan: Finalise, settings: Settings
    ) -> tuple[SynopsisState, Placement]:
        """The synopsis of a new query, with it."""
        placement = place(stream, plan, settings)
        if placement.joined is not None:
            return placement.joining(name, plan), placement
        own = made(self._journal.next_id("synopsis"), name, plan, placement)
        kept: dict[str, int | None] = dict.fromkeys((a.id for a in plan.input.accumulators), placement.start)
        return SynopsisState(own, synopsis_for(plan, own.style), kept, placement.since), placement

    def drop_query(self, stream: StreamState, query: QueryState) -> None:
        with self.changing, stream.batch_lock, stream.lock:
            with self._catalog.transaction():
                self._journal.drop_query(query)
                left: dict[int, SynopsisState] = {}
                for number, old in stream.synopses.items():
                    state = self._without(stream, old, query)
                    if self._journal.is_used(state):
                        left[number] = state
                        if state is not old:
                            self._journal.save_synopsis(stream, state)
                    else:
                        self._journal.drop_synopsis(state)
            gone = [state for number, state in stream.synopses.items() if number not in left]
            stream.synopses = left
            stream.unpublished = [item for item in stream.unpublished if item.query is not query]
            stream.queries = {name: other for name, other in stream.queries.items() if other is not query}
            del self._named[query.name.lower()]
            sweep(query)
            for state in gone:
                self._homes.forget(state)

    def _without(self, stream: StreamState, state: SynopsisState, query: QueryState) -> SynopsisState:
        """The synopsis without a query: what no one needs any more is released, the cuts may coarsen."""
        left = state.plan.without(query.name)
        if left is state.plan:
            return state
        cuts = wanted_cuts(plan for _, plan in left.queries)
        greatest = stream.greatest(state.plan.axis)
        schedule = state.plan.schedule if cuts is None else state.plan.schedule.moved(cuts, greatest)
        plan = replace(left, schedule=schedule)
        wanted = {a.id for a in plan.accumulators}
        return replace(state, plan=plan, since={a: s for a, s in state.since.items() if a in wanted})


def _check_frequent(plan: Finalise, settings: Settings) -> None:
    if plan.input.frequent is not None and settings.text("slack_meaning") == "generous":
        raise UnsupportedError(
            "FREQUENT_ITEMS takes in whole panes, and slack_meaning = 'generous' lets tuples come after them",
            remedy="Keep slack_meaning as it is, or use TOP_K, which is exact.",
        )


def synopsis_for(plan: Finalise, style: Style) -> BasicIntervalSynopsis | PartitionedSynopsis:
    """An empty synopsis for a query's kind of window."""
    types = [key.type.arrow for key in plan.input.cell_keys]
    if isinstance(plan.window, PartitionedWindow):
        return PartitionedSynopsis(types, plan.input.partition, plan.window, plan.input.counts[0])
    if plan.input.frequent is not None:
        return FrequentSynopsis(types, plan.input)
    return BufferSynopsis(types) if style == BUFFER else BasicIntervalSynopsis(types)
