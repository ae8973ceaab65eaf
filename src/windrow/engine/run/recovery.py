"""Recovery: reads the catalog and rebuilds synopses from blocks."""

from __future__ import annotations

from sqlite3 import Row
from typing import cast

from windrow.catalog.definitions import define_stream
from windrow.cql import parse_one
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.dataplane.blocks import BlockStore
from windrow.engine.intake.trials import Trials
from windrow.engine.progress import QueryProgress, SynopsisProgress
from windrow.engine.queries.query_manager import QueryManager, synopsis_for
from windrow.engine.state import CommittedState, QueryState, StreamState, SynopsisState, UnpublishedStage
from windrow.engine.store.closed_groups import release
from windrow.engine.store.homes import Homes, load_cells
from windrow.engine.store.journal import Journal
from windrow.engine.store.synopsis_entries import schedule_of
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan, style_of_all
from windrow.plan.binder import TypesOf
from windrow.plan.nodes import Finalise
from windrow.synopses import Weight


class Recovery:
    """Rebuilds the state in memory from the catalog and the blocks."""

    def __init__(self, blocks: BlockStore, journal: Journal, manager: QueryManager, homes: Homes):
        self._homes = homes
        self._blocks = blocks
        self._journal = journal
        self._manager = manager

    def recover(self) -> None:
        self._blocks.sweep()
        types = dict[int, tuple[str, str]]()
        trials = Trials(self._journal)
        for number, text in self._journal.entries.streams():
            definition = define_stream(cast(CreateStream, parse_one(text)))
            stream = self._manager.attach(number, definition, self._journal.progress.read(definition))
            types |= self._queries(stream)
            self._synopses(stream)
            trials.recover(stream)
        self._journal.entries.begin_run(types)
        self._outbox()

    def _queries(self, stream: StreamState) -> dict[int, tuple[str, str]]:
        """Add the queries of a stream. Return the types of those for which none are saved."""
        unsaved = {}
        for row in self._journal.entries.queries(stream.name):
            record = self._manager.record()
            query = query_of(row, self._manager, record)
            query.sink = self._manager.open_sink(query.statement, stream, query.plan, begun=row["answer_rows"] > 0)
            if row["types"] is None:
                unsaved[query.id] = record.saved(), query.plan.scan.attribute.type.name
            self._manager.adopt(stream, query)
        return unsaved

    def _synopses(self, stream: StreamState) -> None:
        for row in self._journal.synopses.rows(stream.name):
            first, progress = synopsis_progress(row, stream, self._journal)
            state = SynopsisState(progress, synopsis_for(first, progress.plan.style))
            if row["buckets"] is not None:
                self._homes.recover(stream, state, row["buckets"], weight_of(row), row["groups_seen"])
            else:
                self._load(stream, state)
            self._manager.keep(stream, state)

    def _load(self, stream: StreamState, state: SynopsisState) -> None:
        load_cells(self._blocks, stream, state, state.synopsis)
        release(stream, state)

    def _outbox(self) -> None:
        """Find the committed answers that sinks do not show yet; `Delivery.recover` publishes them."""
        outbox = self._journal.ticks.outbox()
        for stream in self._manager.streams.values():
            by_id = {query.id: query for query in stream.queries.values()}
            staged = [
                UnpublishedStage(by_id[query], entry, number, block)
                for number, query, entry, block in outbox
                if query in by_id
            ]
            stream.install(CommittedState(stream.progress, tuple(staged)))


def query_of(row: Row, manager: QueryManager, types_of: TypesOf) -> QueryState:
    """A query of the catalog, without its sink."""
    text = row["statement"]
    statement = cast(CreateQuery, parse_one(text))
    return QueryState(
        row["id"],
        row["name"],
        statement,
        text,
        manager.bind(statement, text, types_of),
        row["since"],
        progress_of(row),
        row["closed_by"],
        row["synopsis"],
        is_paused=bool(row["paused"]),
    )


def progress_of(row: Row) -> QueryProgress:
    return QueryProgress(row["error"], row["last_end"], bool(row["fresh"]))


def synopsis_progress(row: Row, stream: StreamState, journal: Journal) -> tuple[Finalise, SynopsisProgress]:
    """A synopsis of the catalog without its cells, and the plan of its first query."""
    users = [query for query in stream.queries.values() if query.synopsis == row["id"]]
    active = tuple((query.name, query.plan) for query in users if query.error is None)
    first, schedule = users[0].plan, schedule_of(row["schedule"])
    plan = SynopsisPlan(
        row["id"],
        first.input.cell_keys,
        schedule,
        active,
        first.scan.attribute.column,
        style_of_all([query.plan for query in users], schedule),
        {name: d for name, _ in active if (d := journal.synopses.derivations(stream.queries[name]))},
        first.input.values,
    )
    since = journal.synopses.since(plan.id)
    return first, SynopsisProgress(plan, since, row["kept_from"], row["ranked"], row["complete_from"])


def weight_of(row: Row) -> Weight | None:
    """The bytes of a cell and a group in the driver, of a synopsis in the Spark home."""
    return None if row["cell_bytes"] is None else Weight(row["cell_bytes"], row["group_bytes"])
