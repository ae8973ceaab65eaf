"""The instants that one-time queries show: up to where streams and views are complete, floored to their ticks."""

from __future__ import annotations

from windrow.catalog.definitions import StreamDef
from windrow.cql.window_clause import Unit
from windrow.engine.state import StreamState
from windrow.plan.nodes import ROW_NUM
from windrow.types import UNITS_US

NOTHING = -(10**18)
"""The instant of a stream or view of which nothing is complete yet; also where the first pane of a stream begins."""


def tick_of(definition: StreamDef, axis: str) -> int:
    """The TICK of a stream on an axis: by default a second, or 1 of an integer attribute."""
    if axis == ROW_NUM:
        return 1
    tick, is_time = definition.statement.tick, definition.type_of(axis).is_timestamp
    if tick is None or tick.unit is not (Unit.TIME if is_time else Unit.VALUES):
        return UNITS_US["SECOND"] if is_time else 1
    return tick.amount


def committed_upto(stream: StreamState, axis: str) -> int | None:
    """The tick below which a stream is complete on an axis, by its last commit; None if nothing is complete yet.

    It is the frontier, floored to TICK. When the input has ended it is the first tick above the greatest point, so that
    every tuple is below it.
    """
    progress, tick = stream.progress, tick_of(stream.definition, axis)
    frontier = progress.frontiers[axis]
    found = None if frontier.value is None else frontier.value - frontier.value % tick
    if progress.input_ended and frontier.greatest is not None:
        above = frontier.greatest - frontier.greatest % tick + tick
        found = above if found is None else max(found, above)
    return found
