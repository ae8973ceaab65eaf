"""Marks the queries whose expressions are being tried, so that a query that ends the JVM does so only once.

The mark is a small file in the directory of the stream. It is written before the first micro-batch in which a query
takes part since the state directory was opened, and removed after that micro-batch was committed. If the file is there
when the state directory is opened:

- The JVM ended while one new query was tried: that query is suspended.
- Otherwise it is not known which query did it, or whether any did: the next micro-batch tries each query alone first,
  and marks it. If the JVM ends then, too, that query is suspended when the state directory is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from windrow.durable import sync
from windrow.engine.state import QueryState, StreamState
from windrow.engine.store.journal import Journal

FILE = "being_tried.json"
WHY = "the Spark JVM ended when this query was first tried; its expressions may need more memory than the JVM has"


@dataclass(frozen=True)
class TrialMark:
    """The ids of the queries being tried: `new` ones, those `known` from before, or one `alone`. `ended`: the JVM ended
    meanwhile."""

    new: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    alone: int | None = None
    ended: bool = False


class Trials:
    """Writes and reads the marks of streams."""

    def __init__(self, journal: Journal):
        self._journal = journal
        self._marks: dict[int, TrialMark] = {}

    def begin(self, stream: StreamState, queries: Sequence[QueryState]) -> None:
        """Mark queries before they are tried together."""
        new = tuple(query.id for query in queries if query.is_new)
        known = tuple(query.id for query in queries if not query.is_new)
        self._write(stream, TrialMark(new, known))

    def begin_alone(self, stream: StreamState, query: QueryState) -> None:
        """Mark the one of the suspects that is tried next."""
        others = tuple(number for number in stream.suspects if number != query.id)
        self._write(stream, TrialMark(known=others, alone=query.id))

    def jvm_ended(self, stream: StreamState) -> None:
        """Keep the mark, and note that the JVM ended."""
        if stream.id in self._marks:
            self._write(stream, replace(self._marks[stream.id], ended=True))

    def end(self, stream: StreamState, passed: Sequence[QueryState] = ()) -> None:
        """Remove the mark; these queries have passed."""
        for query in passed:
            query.tried = True
        if self._marks.pop(stream.id, None) is not None:
            (stream.directory / FILE).unlink(missing_ok=True)
        if passed:
            stream.suspects.clear()

    def recover(self, stream: StreamState) -> None:
        """Suspend the query that ended the JVM, or remember the suspects."""
        path = stream.directory / FILE
        try:
            read = json.loads(path.read_text())
            mark = TrialMark(tuple(read["new"]), tuple(read["known"]), read["alone"], read["ended"])
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError):  # half written when the process ended: nothing was tried yet
            path.unlink(missing_ok=True)
            return
        guilty = mark.alone
        if guilty is None and mark.ended and len(mark.new) == 1:
            guilty = mark.new[0]
        for query in stream.active:
            if query.id == guilty:
                self._journal.suspend(stream, query, WHY)
        if guilty is None or mark.alone is not None:
            stream.suspects = {*mark.new, *mark.known} - {guilty}
        if stream.suspects:
            self._write(stream, TrialMark(known=tuple(stream.suspects)))
        else:
            path.unlink(missing_ok=True)

    def _write(self, stream: StreamState, mark: TrialMark) -> None:
        stream.directory.mkdir(parents=True, exist_ok=True)
        path = stream.directory / FILE
        with open(path, "w", encoding="utf-8") as file:
            json.dump(asdict(mark), file)
            file.flush()
            os.fsync(file.fileno())
        if stream.id not in self._marks:
            sync(stream.directory)
        self._marks[stream.id] = mark
