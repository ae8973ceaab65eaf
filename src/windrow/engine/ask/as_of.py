"""As of what a query over the results of standing queries is, and how far these are behind their streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windrow.engine.isolation.staleness import staleness_of
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.state import StreamState
from windrow.plan.nodes import Finalise
from windrow.result import Staleness
from windrow.types import SqlType, value_of
from windrow.windows import PartitionedWindow, SlideByTuple


@dataclass(frozen=True)
class ShownResult:
    """The view or the latest answer of a standing query: its tick or the end of its window, a point of type `kind`;
    None: there is none yet, or partitions have windows of their own. `axes`: the streams that it reads, by name, and
    their window attributes."""

    upto: int | None
    kind: SqlType
    axes: tuple[tuple[str, str], ...]
    includes_end: bool = False

    @classmethod
    def of_plan(cls, query: ContinuousQuery, upto: int | None) -> ShownResult:
        return cls(upto, query.plan.point, tuple((one.stream, one.attribute.column) for one in query.plan.windows))

    @classmethod
    def of_answer(cls, plan: Finalise, end: int | None) -> ShownResult:
        """The latest answer of a query with a synopsis."""
        attribute, window = plan.scan.attribute, plan.window
        axes = ((plan.scan.stream, attribute.column),)
        end = None if isinstance(window, PartitionedWindow) else end
        return cls(end, attribute.type, axes, isinstance(window, SlideByTuple))


def least_window(shown: Sequence[ShownResult]) -> object:
    """The least tick or window end of results; None if one has none, or if they do not compare."""
    points = [one.upto for one in shown if one.upto is not None]
    if not points or len(points) < len(shown) or not _are_alike(shown):
        return None
    return value_of(min(points), shown[0].kind)


def worst_staleness(shown: Sequence[ShownResult], streams: Mapping[str, StreamState]) -> Staleness | None:
    """How far the result is behind that is farthest behind its streams; None if they do not compare, or if of one of
    them nothing is known. `streams`: by name, in lower case."""
    found = list[Staleness]()
    for one in shown if _are_alike(shown) else ():
        axes = [(streams[name.lower()], axis) for name, axis in one.axes if name.lower() in streams]
        behind = staleness_of(None if one.upto is None else one.upto + one.includes_end, axes)
        if behind is None:
            return None
        found.append(behind)
    return max(found, key=lambda one: one.total, default=None)


def _are_alike(shown: Sequence[ShownResult]) -> bool:
    return len({one.kind.is_timestamp for one in shown}) < 2
