"""Decides which isolation a history has (Golab's dissertation, sections 7.3 and 7.6).

Of what a query has read (and not dropped), each pane *enters* its window with one window update and *leaves* it with
another. So SG(H), the serialization graph over committed transactions, has these edges for a query Q:

    T → Q     Q read a pane that T brought into its window: T is serialized before Q
    Q → T     Q read a pane that T took out of its window, or wrote again: T is serialized after Q
    T → T'    T' takes out of a window like that of Q what T brought into it, or writes again what T wrote

In a circular array of n slots that all queries read, these are the conflicts of the texts, since T_j both brings pane j
and overwrites pane j − n. They hold also for shorter windows, where the pane that leaves is in another slot than the
one written, for panes of any width, and for windows over several sources.

- *Conflict-serializable*: SG(H) has no cycle.
- *Window-serializable* (WS, Theorem 7.1): if T_i is before Q and T_j after it, then i < j. The theorem presumes that
  each query reads every pane of its window once; here it must.
- *Latest-window-serializable* (LWS, Theorem 7.2): WS, and no update that wrote before Q commits is after Q.
- *Commit-order-preserving* (CPS): every edge of SG(H) has the direction of the commits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from windrow.schedulers.history import (
    History,
    Isolation,
    Op,
    Operation,
    SourceBegins,
    TransactionBegins,
)
from windrow.schedulers.panes import Pane, SourceKind, bounds_of, instant_of


@dataclass(frozen=True)
class Violation:
    """Why a history does not have a property, and the query at fault; None if that is no single query."""

    reason: str
    query: str | None = None


@dataclass(frozen=True)
class HistoryCheck:
    """The properties of a history, each as what violates it: nothing, if the history has it."""

    conflict_serializable: tuple[Violation, ...]
    window_serializable: tuple[Violation, ...]
    latest_window_serializable: tuple[Violation, ...]
    commit_order_preserving: tuple[Violation, ...]
    edges: frozenset[tuple[str, str]] = field(repr=False, default=frozenset())

    def violations_of(self, claims: Mapping[str, Isolation | None]) -> tuple[Violation, ...]:
        """What keeps queries from the isolation that they claim; one that claims none should be LWS."""
        weak = {query for query, claim in claims.items() if claim is Isolation.WINDOW}
        strong = (one for one in self.latest_window_serializable if one.query not in weak)
        return (*(one for one in self.window_serializable if one.query in weak), *strong)


def check_history(history: History) -> HistoryCheck:
    """Decide all four properties of a history."""
    run = _Run(history)
    edges = run.edges()
    latest, window = [], []
    for query in run.committed_queries():
        not_window = run.not_window(query)
        window += not_window
        latest += not_window or run.not_latest(query)
    return HistoryCheck(
        _cycles(edges, run.names), tuple(window), tuple(latest), run.out_of_commit_order(edges), frozenset(edges)
    )


@dataclass(frozen=True)
class _Event:
    """What an update does to a read: at which position of the history it wrote, who it is, and to which pane."""

    at: int
    update: str
    pane: Pane


@dataclass
class _Query:
    """A query of the history: its windows, the panes that it read and kept with their positions, its commit."""

    name: str
    begun: TransactionBegins
    began_at: int
    reads: list[tuple[Pane, int]] = field(default_factory=list)
    committed_at: int | None = None
    enters: list[_Event] = field(default_factory=list)
    leaves: list[_Event] = field(default_factory=list)

    def drop(self, pane: Pane) -> None:
        index = next(i for i, (one, _) in enumerate(self.reads) if one == pane)
        del self.reads[index]


@dataclass
class _Steps:
    """A point that only grows: its values, and by which update at which position it got each."""

    values: list[int]
    at: list[int] = field(default_factory=lambda: [-1])
    by: list[str] = field(default_factory=lambda: [""])

    def grow(self, value: int, at: int, by: str) -> None:
        if value > self.values[-1]:
            self.values.append(value)
            self.at.append(at)
            self.by.append(by)

    def passed(self, low: int, high: int, length: int) -> Sequence[str]:
        """The updates that take parts of [low, high) out of a window of a length."""
        return self.by[bisect_right(self.values, low + length) : bisect_left(self.values, high + length) + 1]

    def when_at_least(self, value: int) -> tuple[int, str] | None:
        """The position and the update with which the point reached a value; None if it never does, -1 at first."""
        index = bisect_left(self.values, value)
        return (self.at[index], self.by[index]) if index < len(self.values) else None

    def value_at(self, position: int) -> int:
        return self.values[bisect_right(self.at, position) - 1]


@dataclass(frozen=True, order=True)
class _Write:
    """A write at a position; the update counts as done at `moment`, the position of its first write."""

    at: int
    moment: int
    update: str


@dataclass
class _Source:
    """A source over the whole history."""

    begun: SourceBegins
    upto: _Steps
    last: _Steps
    writes: dict[Pane, list[_Write]] = field(default_factory=dict)
    moments: list[int] = field(default_factory=list)
    panes: list[Pane] = field(default_factory=list)
    widest: int = 0

    def index(self) -> None:
        self.panes = sorted(self.writes)
        self.widest = max((pane.width for pane in self.panes), default=0)

    def writes_over(self, pane: Pane) -> Iterator[_Write]:
        """The writes of parts of a pane, in no order."""
        begin = bisect_left(self.panes, pane.start - self.widest, key=lambda one: one.start)
        for one in self.panes[begin:]:
            if one.start >= pane.end:
                break
            if one.overlaps(pane):
                yield from self.writes[one]


class _Run:
    """A history, taken apart."""

    def __init__(self, history: History):
        self.sources: dict[str, _Source] = {}
        self.queries: dict[str, _Query] = {}
        self.wrote_at: dict[str, int] = {}
        self.commits: dict[str, int] = {}
        self._instants: dict[tuple[tuple[str, ...], int], _Steps] = {}
        for at, entry in enumerate(history.entries):
            self._take(at, entry)
        for source in self.sources.values():
            source.index()
        for query in self.committed_queries():
            for pane, at in query.reads:
                self._place(query, pane, at)
        self.names = {name: f"T{name}" for name in (*self.wrote_at, *self.queries)}

    def committed_queries(self) -> list[_Query]:
        return [query for query in self.queries.values() if query.committed_at is not None]

    # What happened

    def _take(self, at: int, entry: SourceBegins | TransactionBegins | Operation) -> None:
        if isinstance(entry, SourceBegins):
            self.sources[entry.source] = _Source(entry, _Steps([entry.upto]), _Steps([entry.last]))
        elif isinstance(entry, TransactionBegins):
            self.queries[entry.by] = _Query(entry.by, entry, at)
        elif entry.op is Op.WRITE:
            self._write(at, entry)
        elif entry.op is Op.COMMIT:
            self.commits[entry.by] = at
            if entry.by in self.queries:
                self.queries[entry.by].committed_at = at
        elif entry.pane is not None and entry.op is Op.READ:
            self.queries[entry.by].reads.append((entry.pane, at))
        elif entry.pane is not None:
            self.queries[entry.by].drop(entry.pane)

    def _write(self, at: int, entry: Operation) -> None:
        assert entry.pane is not None
        source = self.sources[entry.pane.source]
        moment = self.wrote_at.setdefault(entry.by, at)
        # A new pane of a window is there when the window reaches it, which `upto` says; all else is written over.
        if source.begun.kind is not SourceKind.WINDOW or entry.pane.start < source.last.values[-1]:
            source.writes.setdefault(entry.pane, []).append(_Write(at, moment, entry.by))
        if not source.moments or source.moments[-1] < moment:
            source.moments.append(moment)
        source.last.grow(entry.pane.end, moment, entry.by)
        source.upto.grow(entry.pane.end if entry.upto is None else entry.upto, moment, entry.by)

    def _instant(self, begun: TransactionBegins) -> _Steps:
        """The instants of a query's windows, over the whole history."""
        key = (tuple(sorted(begun.lengths)), begun.tick)
        if key not in self._instants:
            parts = [self.sources[name].upto for name in key[0]]
            if len(parts) == 1 and begun.tick == 1:
                self._instants[key] = parts[0]
            else:
                steps = _Steps([instant_of((part.values[0] for part in parts), begun.tick)])
                moves = {move for part in parts for move in zip(part.at[1:], part.by[1:], strict=True)}
                for at, by in sorted(moves):
                    steps.grow(instant_of((part.value_at(at) for part in parts), begun.tick), at, by)
                self._instants[key] = steps
        return self._instants[key]

    def _place(self, query: _Query, pane: Pane, read_at: int) -> None:
        """Find with which updates a pane that was read enters and leaves the query's window."""
        source = self.sources[pane.source]
        kind = source.begun.kind
        length = query.begun.lengths[pane.source]
        entered, left = None, None
        if kind is SourceKind.WINDOW:
            instants = self._instant(query.begun)
            entered = instants.when_at_least(pane.end)
            left = None if length is None else instants.when_at_least(pane.start + length + 1)
        elif kind is SourceKind.RESULT:
            left = source.upto.when_at_least(pane.start + 1)
        for event, found in ((entered, query.enters), (left, query.leaves)):
            if event is not None and event[0] >= 0:
                found.append(_Event(*event, pane))
        for write in source.writes_over(pane):
            found = query.enters if write.at < read_at else query.leaves
            found.append(_Event(write.moment, write.update, pane))

    # Windows

    def _missing(self, query: _Query, position: int) -> Pane | None:
        """A part of the query's window as of a position that it has not read, or has read twice; None if there is
        none."""
        instant = self._instant(query.begun).value_at(position)
        for name, length in query.begun.lengths.items():
            source = self.sources[name]
            upto, last = source.upto.value_at(position), source.last.value_at(position)
            low, high = bounds_of(source.begun.kind, length, instant, upto)
            at = source.begun.first if low is None else max(low, source.begun.first)
            end = last if high is None else high
            for pane in sorted(pane for pane, _ in query.reads if pane.source == name):
                if pane.start != at:
                    return Pane(name, *sorted((at, pane.start)))
                at = pane.end
            if at < end:
                return Pane(name, at, end)
        return None

    def not_window(self, query: _Query) -> list[Violation]:
        """Why a query did not read a window as of any instant: empty if it did."""
        name = query.name
        unsafe = next((one for one in query.enters if one.update not in self.commits), None)
        if unsafe is not None:
            return [Violation(f"T{name} read {unsafe.pane}, and T{unsafe.update} never commits", name)]
        newest = max(query.enters, key=lambda one: one.at, default=None)
        oldest = min(query.leaves, key=lambda one: one.at, default=None)
        if newest is not None and oldest is not None and newest.at >= oldest.at:
            before, after = f"T{newest.update} → T{name}", f"T{name} → T{oldest.update}"
            which = "the same update" if newest.update == oldest.update else "an earlier update"
            reason = f"{before} (it read {newest.pane}) but {after} (it read {oldest.pane}), {which}"
            return [Violation(reason, name)]
        first = -1 if newest is None else newest.at
        missing = self._missing(query, first)
        if missing is None or any(self._missing(query, at) is None for at in self._moments(query, first, oldest)):
            return []
        return [Violation(f"T{name} did not read {missing} of its window once", name)]

    def _moments(self, query: _Query, first: int, oldest: _Event | None) -> Iterator[int]:
        """The positions at which updates wrote after `first`, before the first pane left and before the commit: what
        expires unread changes the window, too."""
        assert query.committed_at is not None
        end = query.committed_at if oldest is None else min(oldest.at, query.committed_at)
        for name in query.begun.lengths:
            moments = self.sources[name].moments
            yield from moments[bisect_right(moments, first) : bisect_left(moments, end)]

    def not_latest(self, query: _Query) -> list[Violation]:
        """Why a query that is window-serializable did not read the window as of its commit: empty if it did."""
        assert query.committed_at is not None
        oldest = min(query.leaves, key=lambda one: one.at, default=None)
        name = query.name
        if oldest is not None and oldest.at < query.committed_at:
            edge = f"T{name} → T{oldest.update}: it read {oldest.pane}"
            reason = f"{edge}, which T{oldest.update} took out of its window before T{name} committed"
            return [Violation(reason, name)]
        missing = self._missing(query, query.committed_at)
        if missing is None:
            return []
        return [Violation(f"T{name} did not read {missing}, which was in its window before it committed", name)]

    # The graph

    def edges(self) -> dict[tuple[str, str], Pane]:
        """SG(H): its edges between committed transactions, each with a pane that is the reason."""
        found: dict[tuple[str, str], Pane] = {}
        for query in self.committed_queries():
            for event in query.enters:
                if event.update in self.commits:
                    found.setdefault((event.update, query.name), event.pane)
            for event in query.leaves:
                if event.update in self.commits:
                    found.setdefault((query.name, event.update), event.pane)
        for one, other, pane in (*self._moved(), *self._rewritten()):
            if one != other and one in self.commits and other in self.commits:
                found.setdefault((one, other), pane)
        return found

    def _moved(self) -> Iterator[tuple[str, str, Pane]]:
        """Two updates: what one brought into a window of some query, the other takes out."""
        windows = {
            (id(instants := self._instant(query.begun)), name, length): instants
            for query in self.committed_queries()
            for name, length in query.begun.lengths.items()
            if length is not None and self.sources[name].begun.kind is SourceKind.WINDOW
        }
        for (_, name, length), instants in windows.items():
            for at, (low, high) in enumerate(pairwise(instants.values), 1):
                for other in instants.passed(low, high, length):
                    yield instants.by[at], other, Pane(name, low, high)

    def _rewritten(self) -> Iterator[tuple[str, str, Pane]]:
        """Two updates that wrote the same pane."""
        for source in self.sources.values():
            for pane, writes in source.writes.items():
                for one, other in pairwise(write.update for write in sorted(writes)):
                    yield one, other, pane

    def out_of_commit_order(self, edges: Mapping[tuple[str, str], Pane]) -> tuple[Violation, ...]:
        return tuple(
            Violation(
                f"T{one} → T{other} (by {pane}), but T{other} committed before T{one}",
                next((name for name in (one, other) if name in self.queries), None),
            )
            for (one, other), pane in edges.items()
            if self.commits[one] > self.commits[other]
        )


def _cycles(edges: Mapping[tuple[str, str], Pane], names: Mapping[str, str]) -> tuple[Violation, ...]:
    """One cycle of the graph, if it has any."""
    following: dict[str, list[str]] = {}
    for one, other in edges:
        following.setdefault(one, []).append(other)
    done: set[str] = set()
    for start in following:
        cycle = _cycle_from(start, following, done)
        if cycle:
            steps = [
                f"{names[one]} → {names[other]} (by {edges[one, other]})" for one, other in pairwise((*cycle, cycle[0]))
            ]
            return (Violation(f"a cycle: {', '.join(steps)}"),)
    return ()


def _cycle_from(start: str, following: Mapping[str, Sequence[str]], done: set[str]) -> list[str]:
    """A cycle among the nodes that can be reached from one: without recursion, since graphs are long."""
    path: list[str] = []
    on_path: set[str] = set()
    ahead: list[tuple[str, bool]] = [(start, False)]
    while ahead:
        node, is_left = ahead.pop()
        if is_left:
            path.pop()
            on_path.discard(node)
            done.add(node)
        elif node in on_path:
            return path[path.index(node) :]
        elif node not in done:
            path.append(node)
            on_path.add(node)
            ahead.append((node, True))
            ahead += [(other, False) for other in following.get(node, ())]
    return []
