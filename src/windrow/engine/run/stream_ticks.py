"""The ticks that follow when a stream's frontier moves: of its periodic queries, and of continuous queries over it.

The two have threads of their own, so a slow continuous query does not delay the answers of periodic ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.run.tick_loop import TickLoop
from windrow.engine.state import StreamState

log = logging.getLogger("windrow")


class StreamTicks:
    """Submits streams and their readers to two loops. `readers`: the continuous queries over a stream. `into`: the
    derived stream of a continuous query; what is said of a stream goes for the streams that derive from it."""

    def __init__(
        self,
        tick_stream: Callable[[StreamState], object],
        tick_plan: Callable[[ContinuousQuery], object],
        readers: Callable[[StreamState], Iterable[ContinuousQuery]],
        into: Callable[[ContinuousQuery], StreamState | None] = lambda query: None,
    ):
        self._streams = TickLoop(tick_stream)
        self._plans = TickLoop(tick_plan, "windrow-plans", holds_back=False)
        self._readers = readers
        self._into = into

    def _derived(self, query: ContinuousQuery) -> list[StreamState]:
        stream = self._into(query)
        return [] if stream is None else [stream]

    def refuse_inside(self, what: str) -> None:
        """Raise if called inside a tick, as subscribers are: the call would wait for the tick itself."""
        self._streams.refuse_inside(what)
        self._plans.refuse_inside(what)

    def submit(self, stream: StreamState) -> None:
        """Queue the ticks of a stream; waits while an earlier submission of it has not begun. A continuous query whose
        last tick failed is tried again."""
        for query, error in self._plans.retry_all(self._readers(stream)):
            log.error("query '%s' tries to tick again after: %s", query.name, error)
        self._streams.submit(stream)

    def give_way(self, stream: StreamState) -> None:
        """Let quick ticks of continuous queries over a stream go first. What the JVM has left to do after a micro-batch
        would take the cores from them, and keep their answers waiting twice as long."""
        self._plans.give_way(self._readers(stream))

    def drain(self, stream: StreamState) -> None:
        """Wait until no tick of the stream or of a continuous query over it is queued or running. Raises the error of a
        failed one."""
        self._streams.drain(stream)
        for query in self._readers(stream):
            self._plans.drain(query)
            for derived in self._derived(query):
                self.drain(derived)

    def catch_up(self, stream: StreamState) -> None:
        """Process everything due now, and wait for it."""
        self.submit(stream)
        self.drain(stream)

    def catch_up_stream(self, stream: StreamState) -> None:
        """Answer the windows of periodic queries that are due now, and wait for it."""
        self._streams.catch_up(stream)

    def failures(self, stream: StreamState) -> int:
        """The number of ticks that have failed in a row: of the stream, or of the continuous query that failed most."""
        found = [self._streams.failures(stream)]
        for query in self._readers(stream):
            found += [self._plans.failures(query), *map(self.failures, self._derived(query))]
        return max(found)

    def error(self, stream: StreamState) -> BaseException | None:
        """The error of a failed tick that has not been raised yet."""
        found = [self._streams.error(stream)]
        for query in self._readers(stream):
            found += [self._plans.error(query), *map(self.error, self._derived(query))]
        return next((error for error in found if error is not None), None)

    def retry(self, stream: StreamState) -> BaseException | None:
        """Submit again after a failure; return the error that is thereby dropped."""
        error = self.error(stream)
        self._streams.retry(stream)
        for query in self._readers(stream):
            self._plans.retry(query)
            for derived in self._derived(query):
                self.retry(derived)
        return error

    def settle(self, query: ContinuousQuery) -> None:
        """Process all ticks of one continuous query that are due now, and wait for it."""
        self._plans.catch_up(query)
        for derived in self._derived(query):
            self.drain(derived)

    @property
    def is_alive(self) -> bool:
        """Whether a thread of ticks runs."""
        return self._streams.is_alive or self._plans.is_alive

    def close(self) -> None:
        """Finish the running ticks, and end the threads."""
        self._streams.close()
        self._plans.close()
