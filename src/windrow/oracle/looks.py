"""The instants at which each window of a query is answered: when the frontier reaches it, and again at each revision.

A *look* is a window as of an event. It sees the tuples of its extent that had arrived by then. So generous slack,
revisions and groups that a punctuation closes early need no rules of their own; they are looks at other instants. A
*part* is a set of tuples whose windows close independently of others: a partition of a partitioned window, or the
groups that the same punctuations closed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windrow.oracle.admission import Admitted, Arrival, OraclePromise
from windrow.oracle.extents import ByTuple, Extent, Landmark, Sliding, with_empty
from windrow.oracle.frontiers import key_of
from windrow.oracle.shapes import Window
from windrow.types import SqlType, point_of

NEVER = -(1 << 80)
"""The frontier of an axis while nothing is promised."""


@dataclass(frozen=True)
class Counted:
    """A tuple as a query sees it: its point on the query's axis, and its part."""

    point: int
    part: int
    arrival: Arrival


@dataclass(frozen=True)
class Look:
    """A window of a part at an event. `first` is the event of its first answer; `gone`: it is no longer a window."""

    extent: Extent
    part: int
    first: int
    at: int
    gone: bool = False


@dataclass(frozen=True)
class OracleQuery:
    """What decides which windows a query answers, and when.

    It counts tuples from `since` on and answers no window due by `closed_by`, the frontier at its creation. `created`
    is the event of its creation. `group_columns` are its plain GROUP BY columns, if groups may be answered early.
    """

    window: Window
    since: int | None
    closed_by: int | None
    created: int
    group_columns: frozenset[str] = frozenset()
    emit_empty: bool = False


@dataclass
class _Life:
    born: int | None = None
    touched: set[int] = field(default_factory=set)


def axis_frontier(window: Window, state: Admitted) -> int | None:
    """The frontier of the axis now. On row numbers it is the next number."""
    return state.frontiers[window.column] if window.column else len(state.arrivals) + 1


def closing(asker: OracleQuery, state: Admitted, types: Mapping[str, SqlType]) -> list[tuple[OraclePromise, int]]:
    """The punctuations that close groups of the query early, each with the point up to which it closes them."""
    column = asker.window.column
    if column is None or isinstance(asker.window.shape, ByTuple | Landmark):
        return []
    found = []
    for promise in state.promises:
        others = promise.pattern.besides(column)
        bound = promise.pattern.bound(column, types[column])
        if others and bound is not None and {one.column for one in others} <= asker.group_columns:
            found.append((promise, bound))
    return found


def is_open(asker: OracleQuery, row: Mapping[str, Any], state: Admitted, types: Mapping[str, SqlType]) -> bool:
    """Whether a late tuple that comes now would be in an unanswered window of the query."""
    column = asker.window.column
    if column is None:
        return True
    point, frontier = point_of(row[column], types[column]), state.frontiers[column]
    for promise, bound in closing(asker, state, types):
        if promise.pattern.met_by(row) and (frontier is None or bound > frontier):
            frontier = bound
    return (asker.since is None or point >= asker.since) and asker.window.shape.open_beyond(point, frontier)


def counted(asker: OracleQuery, state: Admitted, types: Mapping[str, SqlType]) -> list[Counted]:
    """The tuples that count for the query, in order of arrival."""
    window, since = asker.window, asker.since
    if window.column is not None:
        column, kind = window.column, types[window.column]
        promises = closing(asker, state, types)
        numbers: dict[Any, int] = {frozenset(): 0}
        pairs = [(point_of(one.row[column], kind), one) for one in state.arrivals]
        kept = [(point, one) for point, one in pairs if since is None or point >= since]
        classes = [numbers.setdefault(_closed_by(one, promises, column), len(numbers)) for _, one in kept]
        return [Counted(point, part, one) for (point, one), part in zip(kept, classes, strict=True)]
    arrivals = [one for one in state.arrivals if since is None or one.number >= since]
    if not window.partition:
        return [Counted(one.number, 0, one) for one in arrivals]
    parts: dict[Any, int] = {}
    ranks: dict[int, int] = {}
    found = []
    for one in arrivals:
        part = parts.setdefault(tuple(key_of(one.row[name]) for name in window.partition), len(parts))
        ranks[part] = ranks.get(part, 0) + 1
        found.append(Counted(ranks[part], part, one))
    return found


def _closed_by(arrival: Arrival, promises: Sequence[tuple[OraclePromise, int]], column: str) -> frozenset[int]:
    """The indices of the punctuations that close the tuple's group."""
    return frozenset(
        i
        for i, (promise, _) in enumerate(promises)
        if all(one.met_by(arrival.row[one.column]) for one in promise.pattern.besides(column))
    )


class Looks:
    """All looks of a query."""

    def __init__(self, asker: OracleQuery, state: Admitted, types: Mapping[str, SqlType]):
        self.asker, self.state, self.types = asker, state, types
        self.tuples = counted(asker, state, types)
        self._parts: dict[int, list[Counted]] = {}
        for one in self.tuples:
            self._parts.setdefault(one.part, []).append(one)
        ended = [i for i, instant in enumerate(state.instants) if instant.ended]
        self._ended = ended[0] if ended else len(state.instants)

    def all(self) -> list[Look]:
        """All looks, window by window, those of a window in order of time."""
        return [look for part, tuples in self._parts.items() for look in self._of_part(part, tuples)]

    def _of_part(self, part: int, tuples: list[Counted]) -> list[Look]:
        reached = self._reached(tuples)
        shape = self.asker.window.shape
        if isinstance(shape, ByTuple) and shape.by_rank and any(_revises(one) for one in tuples):
            return self._by_changing_rank(shape, part, tuples, reached)
        looks = []
        for extent, life in self._lives(tuples, reached).items():
            first = self._first(extent, life.born, reached)
            if first is not None:
                looks += [
                    Look(extent, part, first, at) for at in sorted({first, *(e for e in life.touched if e > first)})
                ]
        return looks

    def _first(self, extent: Extent, born: int | None, reached: list[int]) -> int | None:
        """The event of the window's first answer; None if it is not answered yet."""
        if born is None or (self.asker.closed_by is not None and extent.due <= self.asker.closed_by):
            return None
        event = max(born, self.asker.created, min(bisect_left(reached, extent.due), self._ended))
        return event if event < len(reached) else None

    def _reached(self, tuples: list[Counted]) -> list[int]:
        """The frontier of the part's axis after each event."""
        window, instants = self.asker.window, self.state.instants
        if window.partition:
            return [1 + sum(one.arrival.event <= i for one in tuples) for i in range(len(instants))]
        if window.column is None:
            return [1 + instant.count for instant in instants]
        plain = [NEVER if (f := instant.frontiers[window.column]) is None else f for instant in instants]
        promises = closing(self.asker, self.state, self.types)
        closers = [promises[i] for i in _closed_by(tuples[0].arrival, promises, window.column)]
        return [max([f, *(bound for promise, bound in closers if promise.event <= i)]) for i, f in enumerate(plain)]

    def _lives(self, tuples: list[Counted], reached: list[int]) -> dict[Extent, _Life]:
        """The windows of the part that hold a tuple, each with the event that began it and those that revised it."""
        shape = self.asker.window.shape
        if isinstance(shape, Sliding):
            return self._of_sliding(shape, tuples, reached)
        if isinstance(shape, Landmark):
            held = [one for one in tuples if shape.begin is None or one.point >= shape.begin]
            extents = self._of_landmark(shape, held, reached)
            return {extent: _life(extent, held, reached, lambda one: True) for extent in extents}
        lasting = [(one.point, one.arrival.number) for one in tuples if one.arrival.lasting or not shape.by_rank]
        extents = [shape.ending(value) for value in shape.values(lasting)]
        return {extent: _life(extent, tuples, reached, _names(shape, extent)) for extent in extents}

    def _of_sliding(self, shape: Sliding, tuples: list[Counted], reached: list[int]) -> dict[Extent, _Life]:
        lives: dict[Extent, _Life] = {}
        held: dict[int, list[Extent]] = {}
        for one in tuples:
            for extent in held.setdefault(one.point, shape.holding(one.point)):
                _note(lives.setdefault(extent, _Life()), extent, one, reached)
        if self.asker.emit_empty:
            begun = min(one.arrival.event for one in tuples)
            for extent in with_empty(lives, shape, None if reached[-1] == NEVER else reached[-1]):
                lives.setdefault(extent, _Life(begun))
        return lives

    def _of_landmark(self, shape: Landmark, held: list[Counted], reached: list[int]) -> list[Extent]:
        """The extents from the first tuple to the frontier, or at the end of the input to the first end above all."""
        if not held:
            return []
        greatest = max(one.point for one in self.tuples)
        last = max(greatest, reached[-1] - shape.slide)
        return shape.between(min(one.point for one in held), last)

    def _by_changing_rank(self, shape: ByTuple, part: int, tuples: list[Counted], reached: list[int]) -> list[Look]:
        """A late tuple changes ranks, so windows come and go. This checks every event."""
        current: dict[int, tuple[int, bool]] = {}
        looks = []
        for at in range(self.asker.created, len(reached)):
            known = [one for one in tuples if one.arrival.event <= at and one.arrival.lasting]
            values = shape.values((one.point, one.arrival.number) for one in known)
            due = {v for v in values if self._first(shape.ending(v), 0, reached[: at + 1]) is not None}
            late = [one.point for one in known if one.arrival.event == at and _revises(one)]
            for value in sorted(due | current.keys()):
                extent, here = shape.ending(value), value in due
                first, was = current.get(value, (at, not here))
                if here is not was or (here and any(extent.holds(point) for point in late)):
                    looks.append(Look(extent, part, first, at, gone=not here))
                current[value] = (first, here)
        return looks


def _revises(one: Counted) -> bool:
    return one.arrival.late and one.arrival.lasting


def _names(shape: ByTuple, extent: Extent) -> Callable[[Counted], bool]:
    """A test whether a tuple names the window: the n-th by number, or by rank any lasting tuple of its value."""
    if shape.by_rank:
        return lambda one: one.point == extent.end and one.arrival.lasting
    return lambda one: one.point == extent.end and one.arrival.number % shape.every == 0


def _life(extent: Extent, tuples: list[Counted], reached: list[int], begins: Callable[[Counted], bool]) -> _Life:
    life = _Life()
    for one in tuples:
        if extent.holds(one.point):
            _note(life, extent, one, reached, begins(one))
    return life


def _note(life: _Life, extent: Extent, one: Counted, reached: list[int], begins: bool = True) -> None:
    """Record a tuple. One that counts only in open windows begins none that was due before it."""
    event = one.arrival.event
    passed = not one.arrival.lasting and event > 0 and reached[event - 1] >= extent.due
    if begins and not passed:
        life.born = event if life.born is None else min(life.born, event)
    if _revises(one):
        life.touched.add(event)
