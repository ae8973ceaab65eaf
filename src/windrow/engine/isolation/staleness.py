"""How far an answer is behind what was deposited, and why: disorder that may come, and what it does not show."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from windrow.engine.state import StreamState
from windrow.plan.nodes import ROW_NUM
from windrow.result import Staleness


def staleness_of(instant: int | None, read: Iterable[tuple[StreamState, str]]) -> Staleness | None:
    """How far an answer as of an instant is behind the streams and axes that it reads: the worst of them. None if it
    reads none of which anything is known."""
    found = [] if instant is None else [one for stream, axis in read if (one := _behind(instant, stream, axis))]
    return max(found, key=lambda one: one.total, default=None)


def _behind(instant: int, stream: StreamState, axis: str) -> Staleness | None:
    frontier = stream.progress.frontiers[axis]
    if frontier.value is None or axis == ROW_NUM:
        return None
    newest = frontier.value if frontier.greatest is None else max(frontier.greatest, frontier.value)
    # When the input has ended, the instant is above all tuples.
    slack, behind = newest - frontier.value, max(0, frontier.value - instant)
    slack = min(slack, max(0, newest - instant))
    if not stream.definition.type_of(axis).is_timestamp:
        return Staleness(stream.name, slack + behind, slack, behind)
    lengths = (timedelta(microseconds=length) for length in (slack + behind, slack, behind))
    return Staleness(stream.name, *lengths)
