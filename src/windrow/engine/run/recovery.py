"""Recovery: reads the catalog, rebuilds synopses from blocks, and publishes committed answers to sinks."""

from __future__ import annotations

import logging
from typing import cast

from windrow.catalog.definitions import define_stream
from windrow.cql import parse_one
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.sinks import StagingSink, open_sink
from windrow.engine.intake.trials import Trials
from windrow.engine.progress import QueryProgress, SynopsisProgress
from windrow.engine.queries.query_manager import QueryManager, synopsis_for
from windrow.engine.state import CommittedState, QueryState, StreamState, SynopsisState, UnpublishedStage
from windrow.engine.store.closed_groups import release
from windrow.engine.store.homes import Homes, load_cells
from windrow.engine.store.journal import Journal
from windrow.engine.store.synopsis_entries import schedule_of
from windrow.engine.ticks.delivery import sweep
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan, style_of_all
from windrow.synopses import Weight

log = logging.getLogger("windrow")


class Recovery:
    """Rebuilds the state in memory from the catalog and the blocks."""

    def __init__(self, blocks: BlockStore, journal: Journal, manager: QueryManager, homes: Homes):
        self._homes = homes
        self._blocks = blocks
        self._journal = journal
        self._manager = manager

    def recover(self) -> None:
        self._blocks.sweep()
        trials = Trials(self._journal)
        for number, text in self._journal.entries.streams():
            definition = define_stream(cast(CreateStream, parse_one(text)))
            stream = self._manager.attach(number, definition, self._journal.progress.read(definition))
            self._queries(stream)
            self._synopses(stream)
            trials.recover(stream)
        self._sinks()

    def _queries(self, stream: StreamState) -> None:
        for row in self._journal.entries.queries(stream.name):
            text = row["statement"]
            statement = cast(CreateQuery, parse_one(text))
            query = QueryState(
                row["id"],
                row["name"],
                statement,
                text,
                self._manager.bind(statement, text),
                row["since"],
                QueryProgress(row["error"], row["last_end"], bool(row["fresh"])),
                row["closed_by"],
                row["synopsis"],
                open_sink(row["name"], statement.sink) if statement.sink else None,
            )
            self._manager.adopt(stream, query)

    def _synopses(self, stream: StreamState) -> None:
        for row in self._journal.synopses.rows(stream.name):
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
                {name: d for name, _ in active if (d := self._journal.synopses.derivations(stream.queries[name]))},
                first.input.values,
            )
            since = self._journal.synopses.since(plan.id)
            progress = SynopsisProgress(plan, since, row["kept_from"], row["ranked"], row["complete_from"])
            state = SynopsisState(progress, synopsis_for(first, plan.style))
            if row["buckets"] is not None:
                weight = None if row["cell_bytes"] is None else Weight(row["cell_bytes"], row["group_bytes"])
                self._homes.recover(stream, state, row["buckets"], weight, row["groups_seen"])
            else:
                self._load(stream, state)
            self._manager.keep(stream, state)

    def _load(self, stream: StreamState, state: SynopsisState) -> None:
        load_cells(self._blocks, stream, state, state.synopsis)
        release(stream, state)

    def _sinks(self) -> None:
        """Publish committed stages that are not published yet, and remove stages that no commit names.

        A stage that a sink refuses stays in the outbox; it is published before the sink stages anything more. A path
        that cannot be written must not prevent opening, or its query could not even be dropped.
        """
        outbox = self._journal.ticks.outbox()
        for stream in self._manager.streams.values():
            by_id = {query.id: query for query in stream.queries.values()}
            staged = [
                UnpublishedStage(by_id[query], entry, number) for number, query, entry in outbox if query in by_id
            ]
            stream.install(CommittedState(stream.progress, tuple(staged)))
            waiting, published = set[int](), set[int]()
            for item in staged:
                if item.query.id in waiting or not self._published(item.query, item.entry):
                    waiting.add(item.query.id)
                else:
                    published.add(item.outbox)
            if published:
                stream.install(self._journal.ticks.published(stream, published))
            for query in by_id.values():
                if query.id not in waiting:
                    sweep(query)

    def _published(self, query: QueryState, entry: str) -> bool:
        if query.sink is None:
            return False  # a Python sink, which is given again after opening
        try:
            cast(StagingSink, query.sink).publish(entry)
        except Exception as error:
            log.error("answers wait to be published: %s", error)
            return False
        return True
