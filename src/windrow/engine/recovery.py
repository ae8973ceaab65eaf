"""Opening a state directory: the catalog read back, synopses rebuilt from blocks, sinks brought up to the commit."""

from __future__ import annotations

import logging
from typing import cast

import numpy as np

from windrow.catalog.definitions import define_stream
from windrow.catalog.store import Catalog
from windrow.cql import parse_one
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.sinks import Sink, open_sink
from windrow.engine.journal import Journal, schedule_of
from windrow.engine.query_manager import QueryManager
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.optimizer.sharing import SynopsisPlan
from windrow.synopses import BasicIntervalSynopsis
from windrow.synopses.blocks import from_block
from windrow.windows import Frontier

log = logging.getLogger("windrow")


class Recovery:
    """Rebuilds everything that lives in memory from what was committed."""

    def __init__(self, catalog: Catalog, blocks: BlockStore, journal: Journal, manager: QueryManager):
        self._catalog = catalog
        self._blocks = blocks
        self._journal = journal
        self._manager = manager

    def recover(self) -> None:
        self._blocks.sweep()
        for row in self._catalog.rows("SELECT * FROM streams ORDER BY id"):
            statement = cast(CreateStream, parse_one(row["statement"]))
            stream = self._manager.attach(row["id"], define_stream(statement))
            stream.last_batch, stream.least = row["last_batch"], row["least"]
            stream.ticked, stream.tick_seq = row["ticked"], row["tick_seq"]
            stream.frontier = Frontier(stream.definition.slack or 0, row["greatest"], row["promised"])
            self._queries(stream)
            self._synopses(stream)
        self._sinks()

    def _queries(self, stream: StreamState) -> None:
        for row in self._catalog.rows("SELECT * FROM queries WHERE stream = ? ORDER BY id", (stream.name,)):
            text = row["statement"]
            statement = cast(CreateQuery, parse_one(text))
            plan = self._manager.bind(statement, text)
            query = QueryState(
                row["id"], row["name"], statement, text, plan, row["since"], row["error"], row["last_end"]
            )
            query.sink = open_sink(query.name, statement.sink) if statement.sink else None
            stream.queries[query.name] = query

    def _synopses(self, stream: StreamState) -> None:
        for row in self._catalog.rows("SELECT * FROM synopses WHERE stream = ? ORDER BY id", (stream.name,)):
            users = self._catalog.rows("SELECT name, error FROM queries WHERE synopsis = ? ORDER BY id", (row["id"],))
            plans = [(u["name"], stream.queries[u["name"]].plan) for u in users]
            active = tuple(entry for entry, user in zip(plans, users, strict=True) if user["error"] is None)
            keys = plans[0][1].input.keys
            plan = SynopsisPlan(row["id"], keys, schedule_of(row["schedule"]), active)
            since = self._catalog.rows(
                "SELECT accumulator, since FROM synopsis_accumulators WHERE synopsis = ?", (row["id"],)
            )
            state = SynopsisState(
                plan,
                BasicIntervalSynopsis([key.type.arrow for key in keys]),
                {s["accumulator"]: s["since"] for s in since},
                row["kept_from"],
            )
            self._load(stream, state)
            stream.synopses[plan.id] = state

    def _load(self, stream: StreamState, state: SynopsisState) -> None:
        for block in self._blocks.named(state.owner):
            cells = from_block(self._blocks.read(block.path), state.plan.accumulators, state.synopsis.groups)
            if state.kept_from is not None:
                cells = cells.where(cells.panes >= state.kept_from)
            state.synopsis.deposit(cells)
        if stream.ticked is not None:
            state.synopsis.close(int(state.plan.schedule.pane_starts(np.array([stream.ticked]))[0]))

    def _sinks(self) -> None:
        """Publish what was committed and not yet published; then remove stages that no commit names."""
        by_id = {query.id: query for _, query in self._manager.queries().values()}
        rows = self._catalog.rows("SELECT * FROM outbox ORDER BY id")
        for row in rows:
            query = by_id.get(row["query"])
            if query is not None and query.sink is not None and not isinstance(query.sink, Sink):
                query.sink.publish(row["entry"])
        if rows:
            self._journal.published([row["id"] for row in rows])
        for query in by_id.values():
            if query.sink is not None and not isinstance(query.sink, Sink):
                query.sink.sweep()
