"""Settings, streams and queries in the catalog: commits that add, drop and suspend them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from sqlite3 import Row

from windrow.catalog.definitions import StreamDef
from windrow.catalog.saved_settings import saved_settings
from windrow.catalog.store import Catalog
from windrow.cql.printer import to_text
from windrow.crash import crash_point
from windrow.engine.progress import StreamProgress, SynopsisProgress
from windrow.engine.state import CommittedState, QueryState, StreamState, SynopsisState
from windrow.engine.store.answers_kept import AnswersKept
from windrow.engine.store.progress_rows import ProgressRows
from windrow.engine.store.synopsis_entries import SynopsisEntries
from windrow.optimizer.sharing.derivations import Derivation


@dataclass(frozen=True)
class QueryCommit:
    """A new query, its synopsis with the query, and the new progress of the stream."""

    query: QueryState
    synopsis: SynopsisState
    derived: tuple[Derivation, ...]
    progress: StreamProgress
    types: str
    """What Spark's analyser said about the query (`TypeRecord`)."""


@dataclass(frozen=True)
class DropCommit:
    """A query to drop, the synopses that change, and those that are dropped with it (`gone`)."""

    query: QueryState
    changed: Sequence[SynopsisState]
    gone: Sequence[SynopsisState]


@dataclass(frozen=True)
class ReplaceCommit:
    """A query that takes the place of the one of its number, the synopses that are new or change, and those that are
    dropped (`gone`). `keeps_answers`: the retained answers have the same columns, and stay."""

    query: QueryState
    changed: Sequence[SynopsisState]
    gone: Sequence[SynopsisState]
    derived: tuple[Derivation, ...]
    progress: StreamProgress
    types: str
    keeps_answers: bool


@dataclass(frozen=True)
class SuspendCommit:
    """A query to suspend, and why."""

    query: QueryState
    why: str


class CatalogEntries:
    """Reads and writes the tables `settings`, `counters`, `streams` and `queries`."""

    def __init__(self, catalog: Catalog, rows: ProgressRows, answers: AnswersKept, synopses: SynopsisEntries):
        self._catalog = catalog
        self._rows = rows
        self._answers = answers
        self._synopses = synopses

    def begin_run(self, types: Mapping[int, tuple[str, str]]) -> None:
        """Reset the counters of the last run, but not the time of its last commit; and save the types of queries by id,
        with the type of the window attribute, where an older version saved none. Usually there is nothing to do, and
        then nothing is committed."""
        counted = "SELECT EXISTS (SELECT 1 FROM streams WHERE json_extract(metrics, '$.counters') <> '{}')"
        if not types and not self._catalog.value(counted):
            return
        with self._catalog.transaction() as tx:
            tx.execute(
                "UPDATE streams SET metrics = json_object('at_s', json_extract(metrics, '$.at_s'),"
                " 'counters', json('{}'), 'sizes', NULL) WHERE metrics IS NOT NULL"
            )
            tx.execute(
                "UPDATE queries SET run_windows = 0, run_rows = 0, delivered_s = NULL, callback_errors = 0,"
                " callback_error = NULL"
            )
            tx.executemany(
                "UPDATE queries SET types = ?, axis_type = ? WHERE id = ?",
                [(*saved, number) for number, saved in types.items()],
            )

    # -- numbers -------------------------------------------------------------------------------

    def next_id(self, name: str) -> int:
        """The next unused number of a stream, synopsis or query; the commit that uses it reserves it."""
        return int(self._catalog.value("SELECT value FROM counters WHERE name = ?", (name,)) or 0) + 1

    def _take(self, name: str, number: int) -> None:
        self._catalog.execute(
            "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, number)
        )

    def state_number(self) -> int:
        """The number that tells this state directory from others; drawn when it is first asked for."""
        found = self._catalog.value("SELECT value FROM counters WHERE name = 'state'")
        if found is not None:
            return int(found)
        drawn = secrets.randbits(62)
        with self._catalog.transaction():
            self._take("state", drawn)
        return drawn

    # -- settings ------------------------------------------------------------------------------

    def settings(self) -> dict[str, str]:
        """The stored settings, as text."""
        return saved_settings(self._catalog)

    def save_setting(self, name: str, text: str) -> None:
        with self._catalog.transaction() as tx:
            tx.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, text))

    # -- streams -------------------------------------------------------------------------------

    def add_stream(self, number: int, definition: StreamDef) -> None:
        with self._catalog.transaction():
            self.save_stream(number, definition)

    def save_stream(self, number: int, definition: StreamDef) -> None:
        """Save a new stream, inside a transaction."""
        self._take("stream", number)
        self._catalog.execute(
            "INSERT INTO streams (name, id, statement) VALUES (?, ?, ?)",
            (definition.name, number, to_text(definition.statement)),
        )

    def change_stream(self, number: int, definition: StreamDef) -> None:
        """Replace the statement of a stream."""
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE streams SET statement = ? WHERE id = ?", (to_text(definition.statement), number))

    def drop_stream(self, number: int) -> None:
        with self._catalog.transaction():
            self.remove_stream(number)

    def remove_stream(self, number: int) -> None:
        """Drop a stream, inside a transaction."""
        self._catalog.execute("DELETE FROM streams WHERE id = ?", (number,))

    def streams(self) -> list[tuple[int, str]]:
        """The number and the statement of every stream."""
        return [(row["id"], row["statement"]) for row in self.stream_rows()]

    def stream_rows(self) -> list[Row]:
        return self._catalog.rows("SELECT * FROM streams ORDER BY id")

    def stream_totals(self, number: int) -> Row | None:
        """The numbers of admitted, late and dead tuples; None if there is no such stream."""
        return self._catalog.row("SELECT admitted, late, dead FROM streams WHERE id = ?", (number,))

    # -- queries -------------------------------------------------------------------------------

    def add_query(self, stream: StreamState, commit: QueryCommit) -> CommittedState:
        """Save a new query, and its synopsis if it is new or changed."""
        query, after = commit.query, commit.synopsis.progress
        known = stream.synopses.get(query.synopsis)
        with self._catalog.transaction() as tx:
            self._rows.save(stream.name, stream.progress, commit.progress)
            if known is None:
                self._take("synopsis", query.synopsis)
            if known is None or (known.plan.schedule, known.since) != (after.plan.schedule, after.since):
                self._synopses.save(stream.name, after)
            self._take("query", query.id)
            tx.execute(
                "INSERT INTO queries (name, id, statement, stream, synopsis, since, closed_by, fresh, types, axis_type)"
                " VALUES (?,?,?,?,?,?,?,?,?,?)",
                (
                    query.name,
                    query.id,
                    to_text(query.statement),
                    stream.name,
                    query.synopsis,
                    query.since,
                    query.closed_by,
                    query.fresh,
                    commit.types,
                    query.plan.scan.attribute.type.name,
                ),
            )
            self._synopses.save_derivations(query.id, commit.derived)
        return CommittedState(commit.progress, stream.unpublished)

    def drop_query(self, stream: StreamState, commit: DropCommit) -> CommittedState:
        """Drop a query, its answers, and what only it needed."""
        query = commit.query
        with self._catalog.transaction() as tx:
            self._answers.drop(query.id)
            for table, column in (("revisions", "query"), ("queries", "id")):
                tx.execute(f"DELETE FROM {table} WHERE {column} = ?", (query.id,))
            for state in commit.changed:
                self._synopses.save(stream.name, state.progress)
            for state in commit.gone:
                self._synopses.drop(state)
        return CommittedState(stream.progress, tuple(item for item in stream.unpublished if item.query is not query))

    def replace_query(self, stream: StreamState, commit: ReplaceCommit) -> CommittedState:
        """Put a query in the place of the one of its number. What only the old one needed goes."""
        query, changed = commit.query, commit.changed
        with self._catalog.transaction() as tx:
            if not commit.keeps_answers:
                self._answers.drop(query.id)
            self._rows.save(stream.name, stream.progress, commit.progress)
            if query.synopsis not in stream.synopses:
                self._take("synopsis", query.synopsis)
            for state in changed:
                self._synopses.save(stream.name, state.progress)
            tx.execute("DELETE FROM revisions WHERE query = ?", (query.id,))
            tx.execute("DELETE FROM derivations WHERE query = ?", (query.id,))
            tx.execute(
                "UPDATE queries SET statement = ?, synopsis = ?, since = ?, closed_by = ?, fresh = ?, types = ?,"
                " axis_type = ?, error = NULL, last_end = ? WHERE id = ?",
                (
                    *(to_text(query.statement), query.synopsis, query.since, query.closed_by, query.fresh),
                    *(commit.types, query.plan.scan.attribute.type.name, query.last_end, query.id),
                ),
            )
            self._synopses.save_derivations(query.id, commit.derived)
            for state in commit.gone:
                self._synopses.drop(state)
            crash_point("query-replacing")
        return CommittedState(commit.progress, stream.unpublished)

    def pause(self, query: QueryState, paused: bool) -> None:
        """A query delivers no answers, or delivers again."""
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE queries SET paused = ? WHERE id = ?", (int(paused), query.id))

    def suspend(self, stream: StreamState, commit: SuspendCommit) -> CommittedState:
        """Suspend a query; what only it needed is no longer kept."""
        query, changed = commit.query, list[tuple[SynopsisState, SynopsisProgress]]()
        for state in stream.synopses.values():
            left = state.progress.without(query.name)
            if left is not state.progress:
                changed.append((state, left))
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE queries SET error = ? WHERE id = ?", (commit.why, query.id))
            for _, left in changed:
                self._synopses.save(stream.name, left)
        suspended = replace(query.progress, error=commit.why)
        return CommittedState(stream.progress, stream.unpublished, tuple(changed), ((query, suspended),))

    def queries(self, stream: str) -> list[Row]:
        """The queries of a stream."""
        return self._catalog.rows("SELECT * FROM queries WHERE stream = ? ORDER BY id", (stream,))

    def query_totals(self, number: int) -> Row | None:
        """The numbers of answered windows, rows and overflows; None if there is no such query."""
        return self._catalog.row("SELECT answers, answer_rows, overflows FROM queries WHERE id = ?", (number,))
