"""The journal: all commits to the catalog, by kind, and the reads. Each commit is one SQLite transaction.

A commit takes a value and returns a `CommittedState`, which the caller installs in the stream.
"""

from __future__ import annotations

import logging

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockStore
from windrow.engine.state import QueryState, StreamState
from windrow.engine.store.answers_kept import AnswersKept
from windrow.engine.store.block_moves import BlockMoves
from windrow.engine.store.catalog_entries import CatalogEntries, SuspendCommit
from windrow.engine.store.dead_letters import DeadLetters
from windrow.engine.store.deposit_commits import DepositCommits
from windrow.engine.store.progress_rows import ProgressRows
from windrow.engine.store.source_rows import BadFiles
from windrow.engine.store.synopsis_entries import SynopsisEntries
from windrow.engine.store.tick_commits import TickCommits
from windrow.engine.store.waiting_answers import WaitingAnswers
from windrow.logs import log_event


class Journal:
    """The commits of one catalog."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self.progress = ProgressRows(catalog)
        self.dead_letters = DeadLetters(catalog)
        self.bad_files = BadFiles(catalog)
        self.answers = AnswersKept(catalog, blocks)
        self.synopses = SynopsisEntries(catalog, blocks)
        self.entries = CatalogEntries(catalog, self.progress, self.answers, self.synopses)
        self.deposits = DepositCommits(catalog, blocks, self.progress, self.dead_letters)
        self.waiting = WaitingAnswers(catalog, blocks)
        self.ticks = TickCommits(catalog, blocks, self.progress, self.answers)
        self.moves = BlockMoves(catalog, blocks)

    def suspend(self, stream: StreamState, query: QueryState, why: str) -> None:
        """Suspend a query in the catalog and in memory."""
        with stream.lock:
            stream.install(self.entries.suspend(stream, SuspendCommit(query, why)))
        log_event(
            "query_suspended", "query '{query}' is suspended: {error}", logging.ERROR, query=query.name, error=why
        )
