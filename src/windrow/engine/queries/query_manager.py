"""Creates and drops streams and queries, between micro-batches."""

from __future__ import annotations

import difflib
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlglot import exp

from windrow.catalog.definitions import StreamDef, define_stream
from windrow.cql.bounds.guards import check_bounds
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery, CreateStream, Emit
from windrow.dataplane.answers.revisions import OP, REVISION
from windrow.dataplane.sinks import Sink, StagingSink, check_given, open_sink
from windrow.dataplane.sinks.outputs import remove_output
from windrow.dataplane.sinks.ownership import Claim, OutputOwner
from windrow.dataplane.sources.registry import source_of
from windrow.engine.progress import QueryProgress, StreamProgress, SynopsisProgress, start_of
from windrow.engine.queries.placement import Placement, make_synopsis, place
from windrow.engine.queries.sink_paths import QueryPaths, check_paths, refuse_unreadable
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.store.catalog_entries import DropCommit, QueryCommit, ReplaceCommit
from windrow.engine.store.homes import Homes
from windrow.engine.store.journal import Journal
from windrow.engine.ticks.delivery import sweep
from windrow.errors import BindError, CatalogError, Place, UnsupportedError
from windrow.logs import log_event
from windrow.optimizer.sharing.synopsis_plans import BUFFER, Style, wanted_cuts
from windrow.plan.binder import TypesOf, bind_query, bind_snapshot
from windrow.plan.nodes import Finalise
from windrow.plan.type_record import TypeRecord
from windrow.settings import Settings
from windrow.synopses import BasicIntervalSynopsis, BufferSynopsis, PartitionedSynopsis
from windrow.synopses.holistic.frequent_panes import FrequentSynopsis
from windrow.types import SqlType
from windrow.windows import PartitionedWindow

_NOT_STREAMS = {
    "query": "To read its results as a stream, create it as one: CREATE STREAM name AS SELECT …",
    "table": "Its rows come by INSERT, UPDATE, DELETE and LOAD, or by wr.table(name).upsert(rows).",
}


class QueryManager:
    """Owns the streams and their queries.

    They change one at a time: `changing` is taken before any lock of a stream. A dict of streams, queries or synopses
    is never changed, only replaced, so it can be read without a lock.
    """

    def __init__(self, journal: Journal, types_of: TypesOf, state_dir: Path, homes: Homes):
        self._journal = journal
        self._types_of = types_of
        self._state_dir = state_dir
        self._homes = homes
        self.streams: dict[str, StreamState] = {}
        self._named: dict[str, tuple[StreamState, QueryState]] = {}
        self.changing = threading.RLock()
        self.more_paths: Callable[[], Iterable[QueryPaths]] = tuple
        """What continuous queries read and write; their manager sets it."""
        self.other_names: Callable[[], Mapping[str, str]] = dict
        """The names of tables and continuous queries, with 'table' or 'query'; the manager of the latter sets it."""

    # -- names ---------------------------------------------------------------------------------

    def stream(self, name: str, place: Place | None = None) -> StreamState:
        found = self.streams.get(name.lower())
        if found is None:
            self._refuse_other_kind(name, place)
            raise self._unknown("stream", name, (s.name for s in self.streams.values()), place)
        return found

    def definition(self, name: str, place: Place | None = None) -> StreamDef:
        """The stream that a query names in FROM, where a table could stand, too."""
        if name.lower() in self.streams:
            return self.streams[name.lower()].definition
        self._refuse_other_kind(name, place)
        tables = (other for other, kind in self.other_names().items() if kind == "table")
        known = {*(stream.name for stream in self.streams.values()), *tables}
        raise self._unknown("stream or table", name, known, place)

    def kinds(self) -> dict[str, str]:
        """All names in lower case, each with 'stream', 'table' or 'query'."""
        found = {other.lower(): kind for other, kind in self.other_names().items()}
        return found | {query.lower(): "query" for query in self.queries()} | dict.fromkeys(self.streams, "stream")

    def _refuse_other_kind(self, name: str, place: Place | None) -> None:
        """Refuse the name of a table or query where a stream is meant."""
        kind = self.kinds().get(name.lower())
        if kind in _NOT_STREAMS:
            message = f"there is no stream '{name}': this is the name of a {kind}"
            raise CatalogError(message, place=place, remedy=_NOT_STREAMS[kind])

    def queries(self) -> dict[str, tuple[StreamState, QueryState]]:
        return {name: (s, q) for s in self.streams.values() for name, q in s.queries.items()}

    def query(self, name: str, place: Place | None = None) -> tuple[StreamState, QueryState]:
        found = self._named.get(name.lower())
        if found is None:
            raise self._unknown("query", name, self.queries(), place)
        return found

    def unknown_query(self, name: str, more: Iterable[str], place: Place | None = None) -> CatalogError:
        """The error for a name that no query has; `more` are names of continuous queries."""
        return self._unknown("query", name, {*self.queries(), *more}, place)

    def next_query(self) -> int:
        """The next unused number of a query; the commit that uses it reserves it."""
        return self._journal.entries.next_id("query")

    def has_query(self, name: str) -> bool:
        return name.lower() in self._named

    def adopt(self, stream: StreamState, query: QueryState) -> None:
        """Add a query to the stream, and register its name."""
        stream.queries = {**stream.queries, query.name: query}
        self._named[query.name.lower()] = stream, query

    def keep(self, stream: StreamState, state: SynopsisState) -> None:
        """Add a synopsis to the stream, or replace the one with its number."""
        stream.synopses = {**stream.synopses, state.plan.id: state}

    def replace(self, other: QueryManager) -> None:
        """Take over the streams and queries of another manager, which is not used any more."""
        self.streams, self._named = other.streams, other._named

    def unknown_source(self, name: str, place: Place | None) -> CatalogError:
        """The error for a name in FROM that is neither a stream nor a query."""
        known = {*(stream.name for stream in self.streams.values()), *self.queries(), *self.other_names()}
        return self._unknown("stream or query", name, known, place)

    def _unknown(self, kind: str, name: str, known: Iterable[str], place: Place | None = None) -> CatalogError:
        names = sorted(known)
        near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(names) or 'none yet'}."
        return CatalogError(f"there is no {kind} '{name}'", place=place, remedy=hint)

    # -- streams -------------------------------------------------------------------------------

    def create_stream(self, statement: CreateStream, dataframe: Any = None) -> StreamState:
        with self.changing:
            known = self.streams.get(statement.name.lower())
            if known is not None:
                if known.definition.differs_in_leniency(statement):
                    return self._change_leniency(known, statement)
                if statement.if_not_exists:
                    return known
                raise CatalogError(
                    f"stream '{statement.name}' exists already", remedy="DROP STREAM it first, or use IF NOT EXISTS."
                )
            definition = define_stream(replace(statement, if_not_exists=False))
            if dataframe is None:
                source_of(definition)
                refuse_unreadable(definition, self.paths())
            number = self._journal.entries.next_id("stream")
            self._journal.entries.add_stream(number, definition)
            return self.attach(number, definition, start_of(definition), dataframe)

    def _change_leniency(self, stream: StreamState, statement: CreateStream) -> StreamState:
        """Change which columns the source may lack, and whether bad files are skipped; all else of the stream stays."""
        definition = define_stream(replace(statement, name=stream.name, if_not_exists=False))
        source_of(definition)
        with stream.batch_lock, stream.lock:
            self._journal.entries.change_stream(stream.id, definition)
            stream.definition = definition
        return stream

    def attach(
        self, number: int, definition: StreamDef, progress: StreamProgress, dataframe: Any = None
    ) -> StreamState:
        """Add a stream that the catalog has, with its progress."""
        directory = self._state_dir / "streams" / str(number)
        state = StreamState(number, definition, directory, progress, dataframe=dataframe)
        self.streams = {**self.streams, definition.name.lower(): state}
        log_event(
            "stream_opened",
            "stream '{stream}' is open: source {source}, last micro-batch {batch}",
            stream=definition.name,
            source=definition.statement.source,
            batch=progress.last_batch,
        )
        return state

    def drop_stream(self, stream: StreamState) -> None:
        with self.changing, stream.batch_lock, stream.lock:
            if stream.queries or stream.readers:
                names = ", ".join([*stream.queries, *sorted(stream.readers)])
                raise CatalogError(f"stream '{stream.name}' is read by: {names}", remedy="Drop these queries first.")
            self._journal.entries.drop_stream(stream.id)
            self.forget(stream)

    # Derived streams come and go in the transactions of their plans.

    def next_stream(self) -> int:
        """The next unused number of a stream; the commit that uses it reserves it."""
        return self._journal.entries.next_id("stream")

    def save_stream(self, number: int, definition: StreamDef) -> None:
        """Save a stream inside a transaction; `attach` must follow."""
        self._journal.entries.save_stream(number, definition)

    def remove_stream(self, stream: StreamState) -> None:
        """Drop a stream inside a transaction; `forget` must follow."""
        self._journal.entries.remove_stream(stream.id)

    def forget(self, stream: StreamState) -> None:
        """Forget a stream that the catalog does not have any more."""
        self.streams = {name: other for name, other in self.streams.items() if other is not stream}
        shutil.rmtree(stream.directory, ignore_errors=True)
        log_event("stream_dropped", "stream '{stream}' is dropped", stream=stream.name)

    def check_settings(self, settings: Settings) -> None:
        """Raise if a query does not allow these settings."""
        for _, query in self.queries().values():
            _check_frequent(query.plan, settings)

    # -- queries -------------------------------------------------------------------------------

    def bind(self, statement: CreateQuery, text: str, types_of: TypesOf | None = None) -> Finalise:
        """The checked plan of a query; `types_of` answers in place of Spark. Raises for clauses that are not supported
        yet."""
        for present, what in (
            (statement.emit is Emit.LATEST, "EMIT LATEST"),
            (statement.priority is not None, "PRIORITY"),
            (statement.expire_after is not None, "EXPIRE AFTER"),
        ):
            if present:
                raise UnsupportedError(f"this version does not execute {what} yet", remedy="Leave it out.")
        if statement.sink is not None:
            open_sink(statement.name, statement.sink)
        plan = bind_query(statement.select, text, self.definition, types_of or self._types_of)
        revises = self.definition(plan.scan.stream).revises
        taken = [o.name for o in plan.outputs if revises and o.name.lower() in (OP, REVISION)]
        if taken:
            raise BindError(
                f"'{taken[0]}' is a column of every answer over a stream with LATE REVISE",
                remedy="Give this column another name: AS …",
            )
        return plan

    def record(self) -> TypeRecord:
        """Spark's analyser, with its answers noted."""
        return TypeRecord(self._types_of)

    def bind_snapshot(self, select: exp.Expr, text: str) -> Finalise:
        """The checked plan of a one-time query over a window."""
        return bind_snapshot(select, text, self.definition, self._types_of)

    def create_query(
        self,
        statement: CreateQuery,
        text: str,
        settings: Settings,
        catch_up: Callable[[StreamState], None],
        sink: Any = None,
    ) -> QueryState:
        """Create a query. `catch_up` first answers everything due, so that the windows that closed before the query
        do not depend on how far the ticks happen to be."""
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
        if known is not None and statement.or_replace:
            return self._replace_query(*known, replace(statement, or_replace=False), text, settings, catch_up, sink)
        statement = replace(statement, or_replace=False)
        if known is not None:
            return self._known(known[1], statement, if_not_exists, sink)
        check_bounds(statement.select, text, settings.integer("max_value_bytes"))
        record = self.record()
        plan = self.bind(statement, text, record)
        _check_frequent(plan, settings)
        stream = self.stream(plan.scan.stream)
        old_output = list[Path]()
        if statement.sink is not None:
            paths = QueryPaths(statement.name, statement.sink, frozenset({stream.name.lower()}))
            claim, timeout_s = self._claim(statement.name, stream, plan), settings.seconds("sink_timeout")
            old_output = check_paths(paths, claim, self.streams, self.paths(), timeout_s)
        with stream.batch_lock:
            catch_up(stream)
            with stream.lock:
                remove_output(old_output)
                return self._add(stream, statement, text, plan, settings, sink, record.saved())

    def _known(self, known: QueryState, statement: CreateQuery, if_not_exists: bool, sink: Any) -> QueryState:
        """The query that exists already. After a restart, a Python sink may be given to it again."""
        if sink is not None and to_text(known.statement) == to_text(statement):
            known.sink = sink
        elif not if_not_exists:
            raise CatalogError(
                f"query '{statement.name}' exists already",
                remedy="CREATE OR REPLACE QUERY replaces it; or keep it: IF NOT EXISTS, in Python wr.queries[name].",
            )
        return known

    # -- CREATE OR REPLACE, PAUSE, RESUME ------------------------------------------------------

    def _replace_query(
        self,
        stream: StreamState,
        old: QueryState,
        statement: CreateQuery,
        text: str,
        settings: Settings,
        catch_up: Callable[[StreamState], None],
        sink: Any,
    ) -> QueryState:
        """Put a query in the place of the one of its name. Windows due by now are answered by the old one, later ones
        by the new one; the sharing rules place it anew."""
        statement = replace(statement, name=old.name)
        check_bounds(statement.select, text, settings.integer("max_value_bytes"))
        record = self.record()
        plan = self.bind(statement, text, record)
        _check_frequent(plan, settings)
        claims = (self._claim(old.name, stream, old.plan, begun=True), self._claim(old.name, stream, plan, begun=True))
        refuse_replacement(stream, old, statement, plan, claims)
        with stream.batch_lock:
            catch_up(stream)
            refuse_waiting(stream, old)
            with stream.lock:
                new = self._swapped(stream, old, statement, text, plan, settings, record.saved())
        new.sink = sink if sink is not None else old.sink
        log_event("query_replaced", "query '{query}' is replaced", query=new.name)
        return new

    def _swapped(
        self,
        stream: StreamState,
        old: QueryState,
        statement: CreateQuery,
        text: str,
        plan: Finalise,
        settings: Settings,
        types: str,
    ) -> QueryState:
        axis, progress, placement = _placed(stream, plan, settings)
        grown = self._synopsis(_REPLACING, plan, placement)
        others = {one.synopsis for one in stream.queries.values() if one is not old} | {grown.plan.id}
        every = {**stream.synopses, grown.plan.id: grown}
        left = {n: self._without(stream, state, old) for n, state in every.items() if n in others}
        own = left[grown.plan.id]
        named = replace(own.progress, plan=own.plan.renamed(_REPLACING, old.name))
        left[grown.plan.id] = replace(own, progress=named)
        keeps = _columns(old.plan) == _columns(plan)
        reached = QueryProgress(None, old.last_end if keeps else None, bool(stream.promises.on(axis)))
        new = replace(
            old,
            statement=statement,
            text=text,
            plan=plan,
            since=placement.since,
            progress=reached,
            closed_by=progress.ticked.get(axis),
            synopsis=grown.plan.id,
            is_new=True,
            tried=False,
        )
        changed = [state for n, state in left.items() if state is not stream.synopses.get(n)]
        gone = [state for n, state in stream.synopses.items() if n not in left]
        commit = ReplaceCommit(new, changed, gone, placement.derived, progress, types, keeps)
        stream.install(self._journal.entries.replace_query(stream, commit))
        stream.synopses = left
        self.adopt(stream, new)
        for state in gone:
            self._homes.forget(state)
        return new

    def pause(self, query: QueryState, paused: bool) -> None:
        """Deliver no answers of a query from now on, or deliver again. The answers to windows that close meanwhile
        wait."""
        self._journal.entries.pause(query, paused)
        query.is_paused = paused
        log_event(
            "query_paused" if paused else "query_resumed",
            "query '{query}' is " + ("paused" if paused else "resumed"),
            query=query.name,
        )

    def _claim(self, name: str, stream: StreamState, plan: Finalise, begun: bool = False) -> Claim:
        columns = tuple(f"{output.name} {output.type}" for output in plan.outputs)
        if stream.definition.revises:
            columns = (OP, REVISION, *columns)
        return self.claim(name, stream, columns, begun)

    def claim(
        self, name: str, stream: StreamState, columns: tuple[str, ...], begun: bool, mode: str | None = None
    ) -> Claim:
        """The right of a query over a stream to its output."""
        number = self._journal.entries.state_number()
        return Claim(OutputOwner(number, str(self._state_dir), stream.id, name, columns, mode), begun)

    def paths(self) -> list[QueryPaths]:
        """What all standing queries read and write."""
        mine = [QueryPaths(q.name, q.statement.sink, frozenset({s.name.lower()})) for s, q in self.queries().values()]
        return [*mine, *self.more_paths()]

    def open_sink(
        self, statement: CreateQuery, stream: StreamState, plan: Finalise, begun: bool = False
    ) -> Sink | StagingSink | None:
        """The sink that the statement names. `begun`: it has answers in it already."""
        if statement.sink is None:
            return None
        return open_sink(statement.name, statement.sink, self._claim(statement.name, stream, plan, begun))

    def _add(
        self,
        stream: StreamState,
        statement: CreateQuery,
        text: str,
        plan: Finalise,
        settings: Settings,
        sink: Any,
        types: str,
    ) -> QueryState:
        axis, progress, placement = _placed(stream, plan, settings)
        state = self._synopsis(statement.name, plan, placement)
        if sink is None:
            sink = self.open_sink(statement, stream, plan)
        query = QueryState(
            self._journal.entries.next_id("query"),
            statement.name,
            statement,
            text,
            plan,
            placement.since,
            QueryProgress(fresh=bool(stream.promises.on(axis))),
            progress.ticked.get(axis),
            state.plan.id,
            sink,
            is_new=True,
        )
        commit = QueryCommit(query, state, placement.derived, progress, types)
        stream.install(self._journal.entries.add_query(stream, commit))
        self.keep(stream, state)
        self.adopt(stream, query)
        log_event(
            "query_created",
            "query '{query}' over stream '{stream}' is created, in shared state {synopsis}",
            query=query.name,
            stream=stream.name,
            synopsis=state.plan.id,
        )
        return query

    def _synopsis(self, name: str, plan: Finalise, placement: Placement) -> SynopsisState:
        """The synopsis of a new query, including the query."""
        if placement.joined is not None:
            return placement.joining(name, plan)
        own = make_synopsis(self._journal.entries.next_id("synopsis"), name, plan, placement)
        kept: dict[str, int | None] = dict.fromkeys((a.id for a in plan.input.accumulators), placement.start)
        return SynopsisState(SynopsisProgress(own, kept, placement.since), synopsis_for(plan, own.style))

    def drop_query(self, stream: StreamState, query: QueryState) -> None:
        with self.changing, stream.batch_lock, stream.lock:
            others = {other.synopsis for other in stream.queries.values() if other is not query}
            left = {n: self._without(stream, state, query) for n, state in stream.synopses.items() if n in others}
            changed = [state for n, state in left.items() if state is not stream.synopses[n]]
            gone = [state for n, state in stream.synopses.items() if n not in left]
            stream.install(self._journal.entries.drop_query(stream, DropCommit(query, changed, gone)))
            stream.synopses = left
            stream.queries = {name: other for name, other in stream.queries.items() if other is not query}
            del self._named[query.name.lower()]
            sweep(query)
            for state in gone:
                self._homes.forget(state)
        log_event("query_dropped", "query '{query}' is dropped", query=query.name)

    def _without(self, stream: StreamState, state: SynopsisState, query: QueryState) -> SynopsisState:
        """The synopsis without a query and what only it needed; the cuts may become coarser."""
        left = state.plan.without(query.name)
        if left is state.plan:
            return state
        cuts = wanted_cuts(plan for _, plan in left.queries)
        greatest = stream.greatest(state.plan.axis)
        schedule = state.plan.schedule if cuts is None else state.plan.schedule.moved(cuts, greatest)
        return replace(state, progress=state.progress.planned(replace(left, schedule=schedule)))


_REPLACING = "\x00replacing"
"""The name of a query in shared state, beside the one that it replaces."""


def _placed(stream: StreamState, plan: Finalise, settings: Settings) -> tuple[str, StreamProgress, Placement]:
    """The axis of a new query, the progress of its stream with this axis, and where the sharing rules put it."""
    axis = plan.scan.attribute.column
    progress = stream.progress if stream.on_axis(axis) else stream.progress.resumed(axis)
    return axis, progress, place(stream, plan, settings)


def _columns(plan: Finalise) -> list[tuple[str, SqlType]]:
    return [(output.name, output.type) for output in plan.outputs]


def refuse_replacement(
    stream: StreamState, old: QueryState, statement: CreateQuery, plan: Finalise, claims: tuple[Claim, Claim]
) -> None:
    """Raise if a query cannot take the place of an old one."""
    remedy = f"DROP QUERY {old.name}, and create it anew"
    if plan.scan.stream.lower() != stream.name.lower():
        raise CatalogError(
            f"query '{old.name}' reads stream '{stream.name}', and the new one '{plan.scan.stream}'",
            remedy=f"{remedy}.",
        )
    if statement.sink != old.statement.sink:
        raise BindError(
            f"the sink of query '{old.name}' is another one", remedy=f"Write the same INTO as before. Or {remedy}."
        )
    if statement.sink is not None and not claims[1].owner.goes_on(claims[0].owner):
        raise BindError(
            f"the sink of query '{old.name}' cannot go on: it has the columns {', '.join(claims[0].owner.columns)}, "
            f"and the new query gives {', '.join(claims[1].owner.columns)}",
            remedy=f"Give the same columns by the same names. Or {remedy} with another path.",
        )


def refuse_waiting(stream: StreamState, query: QueryState) -> None:
    """Raise if answers of a query wait to be delivered."""
    if query.is_paused or any(item.query is query for item in stream.unpublished):
        raise CatalogError(
            f"answers of query '{query.name}' wait to be delivered",
            remedy=f"ALTER QUERY {query.name} RESUME, or repair its sink; then replace it.",
        )


def _check_frequent(plan: Finalise, settings: Settings) -> None:
    if plan.input.frequent is not None and settings.text("slack_meaning") == "generous":
        raise UnsupportedError(
            "FREQUENT_ITEMS needs complete parts of the stream, and slack_meaning = 'generous' counts later tuples",
            remedy="Keep slack_meaning as it is, or use TOP_K, which is exact.",
        )


def synopsis_for(plan: Finalise, style: Style) -> BasicIntervalSynopsis | PartitionedSynopsis:
    """An empty synopsis for the window of a query."""
    types = [key.type.arrow for key in plan.input.cell_keys]
    if isinstance(plan.window, PartitionedWindow):
        return PartitionedSynopsis(types, plan.input.partition, plan.window, plan.input.counts[0])
    if plan.input.frequent is not None:
        return FrequentSynopsis(types, plan.input)
    return BufferSynopsis(types) if style == BUFFER else BasicIntervalSynopsis(types)
