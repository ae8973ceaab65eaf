"""Opening a state directory: the catalog read back, synopses rebuilt from blocks, sinks brought up to the commit."""

from __future__ import annotations

import json
import logging
from typing import cast

from windrow.catalog.definitions import define_stream
from windrow.catalog.store import Catalog
from windrow.cql import parse_one
from windrow.cql.patterns import parse_pattern
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.sinks import StagingSink, open_sink
from windrow.engine.queries.query_manager import QueryManager, synopsis_for
from windrow.engine.state import QueryState, StreamState, SynopsisState, Unpublished
from windrow.engine.store.homes import Homes, load_cells
from windrow.engine.store.journal import Journal, schedule_of
from windrow.engine.ticks.delivery import sweep
from windrow.engine.ticks.early import release
from windrow.optimizer.synopsis_plans import SynopsisPlan, style_of_all
from windrow.synopses import Weight
from windrow.windows import Silence
from windrow.windows.ended import restored_ends
from windrow.windows.lateness import Lateness
from windrow.windows.promises import Promise, Promises

log = logging.getLogger("windrow")


class Recovery:
    """Rebuilds everything that lives in memory from what was committed."""

    def __init__(self, catalog: Catalog, blocks: BlockStore, journal: Journal, manager: QueryManager, homes: Homes):
        self._homes = homes
        self._catalog = catalog
        self._blocks = blocks
        self._journal = journal
        self._manager = manager

    def recover(self) -> None:
        self._blocks.sweep()
        for row in self._catalog.rows("SELECT * FROM streams ORDER BY id"):
            statement = cast(CreateStream, parse_one(row["statement"]))
            stream = self._manager.attach(row["id"], define_stream(statement))
            stream.last_batch, stream.tick_seq = row["last_batch"], row["tick_seq"]
            self._axes(stream)
            self._promises(stream, row["heard"])
            self._queries(stream)
            self._synopses(stream)
        self._sinks()

    def _axes(self, stream: StreamState) -> None:
        for row in self._catalog.rows("SELECT * FROM axes WHERE stream = ?", (stream.name,)):
            axis = row["axis"] or stream.definition.attribute
            if axis not in stream.frontiers:
                continue
            saved = json.loads(row["frontier"])
            stream.frontiers[axis] = stream.frontiers[axis].restored(saved)
            stream.ended[axis] = restored_ends(saved)
            stream.silences[axis] = Silence(saved.get("silent", 0))
            if row["lateness"] is not None:
                stream.lateness[axis] = Lateness.restored(json.loads(row["lateness"]))
            for held, value in ((stream.least, row["least"]), (stream.ticked, row["ticked"])):
                if value is not None:
                    held[axis] = value

    def _promises(self, stream: StreamState, heard: int) -> None:
        types, held = dict(stream.definition.columns), {}
        for row in self._catalog.rows("SELECT * FROM promises WHERE stream = ? ORDER BY rowid", (stream.name,)):
            conditions = parse_pattern(row["conditions"], types) if row["conditions"] else ()
            promise = Promise(row["axis"], conditions, row["bound"], row["given"])
            held[promise.key] = promise
        stream.promises = Promises(held, heard)

    def _queries(self, stream: StreamState) -> None:
        for row in self._catalog.rows("SELECT * FROM queries WHERE stream = ? ORDER BY id", (stream.name,)):
            text = row["statement"]
            statement = cast(CreateQuery, parse_one(text))
            plan = self._manager.bind(statement, text)
            query = QueryState(
                row["id"], row["name"], statement, text, plan, row["since"], row["error"], row["last_end"]
            )
            query.closed_by, query.fresh = row["closed_by"], bool(row["fresh"])
            query.synopsis = row["synopsis"]
            query.sink = open_sink(query.name, statement.sink) if statement.sink else None
            self._manager.adopt(stream, query)

    def _synopses(self, stream: StreamState) -> None:
        for row in self._catalog.rows("SELECT * FROM synopses WHERE stream = ? ORDER BY id", (stream.name,)):
            users = self._catalog.rows("SELECT name, error FROM queries WHERE synopsis = ? ORDER BY id", (row["id"],))
            plans = [(u["name"], stream.queries[u["name"]].plan) for u in users]
            active = tuple(entry for entry, user in zip(plans, users, strict=True) if user["error"] is None)
            first = plans[0][1]
            schedule = schedule_of(row["schedule"])
            plan = SynopsisPlan(
                row["id"],
                first.input.cell_keys,
                schedule,
                active,
                first.scan.attribute.column,
                style_of_all([plan for _, plan in plans], schedule),
                {name: d for name, _ in active if (d := self._journal.derivations(stream.queries[name]))},
                first.input.values,
            )
            since = self._catalog.rows(
                "SELECT accumulator, since FROM synopsis_accumulators WHERE synopsis = ?", (row["id"],)
            )
            state = SynopsisState(
                plan,
                synopsis_for(first, plan.style),
                {s["accumulator"]: s["since"] for s in since},
                row["kept_from"],
                row["ranked"],
                row["complete_from"],
            )
            if row["buckets"] is not None:
                weight = None if row["cell_bytes"] is None else Weight(row["cell_bytes"], row["group_bytes"])
                self._homes.recover(stream, state, row["buckets"], weight, row["groups_seen"])
            else:
                self._load(stream, state)
            stream.synopses[plan.id] = state

    def _load(self, stream: StreamState, state: SynopsisState) -> None:
        load_cells(self._blocks, stream, state, state.synopsis)
        release(stream, state)

    def _sinks(self) -> None:
        """Publish what was committed and not yet published; then remove stages that no commit names.

        What a sink refuses stays in the outbox, and is published before it stages anything more: a path that
        cannot be written must not keep the state from being opened, or its query could not even be dropped.
        """
        by_id = {query.id: (stream, query) for stream, query in self._manager.queries().values()}
        published: list[int] = []
        for row in self._catalog.rows("SELECT * FROM outbox ORDER BY id"):
            stream, query = by_id[row["query"]]
            if any(item.query is query for item in stream.unpublished) or not self._published(query, row["entry"]):
                stream.unpublished.append(Unpublished(query, row["entry"], row["id"]))
            else:
                published.append(row["id"])
        if published:
            self._journal.published(published)
        for stream, query in by_id.values():
            if not any(item.query is query for item in stream.unpublished):
                sweep(query)

    def _published(self, query: QueryState, entry: str) -> bool:
        if query.sink is None:
            return False  # a sink from Python, that is given again after the opening
        try:
            cast(StagingSink, query.sink).publish(entry)
        except Exception as error:
            log.error("answers wait to be published: %s", error)
            return False
        return True
