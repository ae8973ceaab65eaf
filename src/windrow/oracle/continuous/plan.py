"""A continuous query as the oracle sees it: its text, its ticks, and what its windows mean.

A tuple at point t is in a window at tick b iff b − range ≤ t + offset < b. A plan ticks at the largest TICK of its
streams; with SLIDE at the SLIDE, and is then answered window by window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from windrow.cql.statements import CreateStream, Late
from windrow.cql.window_clause import Unit, WindowClause, WindowKind
from windrow.errors import UnsupportedError
from windrow.oracle.admission import types_of
from windrow.oracle.continuous.reading import all_sources, restores, streaming_of, windows_on_streams
from windrow.oracle.continuous.wstream import spelled_out
from windrow.oracle.shapes import axis_of
from windrow.types import SqlType, moment_of, point_of

FindStream = Callable[[str], CreateStream]


@dataclass(frozen=True)
class WindowMeaning:
    """`range` None: tuples stay for ever. `since`: tuples below it do not count. `internal`: results stay for ever.
    `rows`: only the last so many are in the window, of each combination of values of `partition`."""

    range: int | None
    offset: int = 0
    since: int | None = None
    internal: bool = False
    rows: int | None = None
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class StandingPlan:
    """`attribute` is the type of all its window attributes. `created` counts the events before it was created."""

    query: exp.Expr
    streams: tuple[str, ...]
    attribute: SqlType
    step: int
    origin: int
    periodic: bool
    created: int = 0
    since: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def streaming(self) -> str | None:
        return streaming_of(self.query)

    @property
    def restores(self) -> bool:
        """Whether results that come and go between two ticks count somewhere in the query."""
        return restores(self.query)

    def first_above(self, point: int) -> int:
        """The first tick above a point."""
        return (point - self.origin) // self.step * self.step + self.origin + self.step

    def floor(self, point: int) -> int:
        """The last tick at or below a point."""
        return self.first_above(point) - self.step

    def meaning(self, clause: WindowClause) -> WindowMeaning:
        offset = clause.offset.amount if clause.offset else 0
        if clause.rattr or clause.sattr or (clause.slide is not None and clause.slide.unit is Unit.ROWS):
            raise UnsupportedError("the oracle evaluates no windows that slide by rows in continuous queries")
        if clause.kind is WindowKind.ROWS:
            assert clause.range is not None
            return WindowMeaning(None, internal=clause.internal, rows=clause.range.amount, partition=clause.pattr)
        if clause.kind is WindowKind.NOW:
            return WindowMeaning(1 if clause.slide else self.step, offset, internal=clause.internal)
        if clause.kind is WindowKind.RANGE and clause.range is not None and clause.range.unit is not Unit.ROWS:
            return WindowMeaning(clause.range.amount, offset, internal=clause.internal)
        since = None if clause.since is None else written_point(clause.since, self.attribute)
        return WindowMeaning(None, offset, since, clause.internal)

    def effective(self, windows: Sequence[WindowClause]) -> WindowMeaning:
        """The meaning of windows around each other, innermost first: the last one's, born by the offsets of all."""
        meanings = [self.meaning(one) for one in windows]
        return replace(meanings[-1], offset=sum(one.offset for one in meanings))

    def window_start(self, end: int) -> int | None:
        """The earliest start of its windows that end at `end`; None: a window has no start."""
        meanings = [self.effective(windows) for _, windows in windows_on_streams(self.query)]
        starts = [one.since if one.range is None else end - one.range - one.offset for one in meanings]
        found = [start for start in starts if start is not None]
        return min(found) if len(found) == len(starts) else None


def standing_plan(query: exp.Expr, find: FindStream, created: int = 0) -> StandingPlan:
    """What the oracle evaluates for a continuous query; `find` gives a stream by its name."""
    query = spelled_out(query)
    windows = [one for one in all_sources(query) if one.window is not None]
    read = [(one.stream, one.window) for one in windows if one.stream is not None and one.window is not None]
    statements = {name.lower(): find(name) for name, _ in read}
    if any(one.late is Late.REVISE for one in statements.values()):
        raise UnsupportedError("the oracle evaluates no continuous queries over LATE REVISE streams")
    types = [types_of(statements[name.lower()]) for name, _ in read]
    kinds = [kind[axis_of(window, statements[name.lower()])] for (name, window), kind in zip(read, types, strict=True)]
    if len({kind.is_timestamp for kind in kinds}) != 1:
        raise UnsupportedError("the window attributes of a query are all times or all integers")
    slides = {one.window.slide for one in windows if one.window and one.window.slide}
    origins = {one.window.origin for one in windows if one.window and one.window.origin is not None}
    if len(slides) > 1 or len(origins) > 1:
        raise UnsupportedError("SLIDE and ORIGIN are the same on all windows of a query")
    ticks = [tick_of(one, kinds[0]) for one in statements.values()]
    step = next(iter(slides)).amount if slides else max(ticks)
    if not slides and any(step % tick for tick in ticks):
        raise UnsupportedError("the largest TICK is a multiple of the others")
    origin = written_point(next(iter(origins)), kinds[0]) if origins else 0
    plan = StandingPlan(query, tuple(statements), kinds[0], step, origin, bool(slides), created)
    for one in windows:
        assert one.window is not None
        plan.meaning(one.window)
    return plan


def tick_of(stream: CreateStream, attribute: SqlType) -> int:
    """Its TICK: a second by default, or 1 for integers."""
    if stream.tick is not None:
        return stream.tick.amount
    return 1_000_000 if attribute.is_timestamp else 1


def written_point(written: str | int, kind: SqlType) -> int:
    return written if isinstance(written, int) else point_of(moment_of(written), kind)
