"""What transactions read and write: panes of sources, as half-open intervals.

A *source* is what a query scans: the panes of a stream, the parts of a materialised sub-result by expiration time, or
those of a strict view. A query over panes reads intervals, not slots of a circular array: widths may vary, and a window
may begin inside a pane. `SourcePanes` is a source as its window updates have left it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class SourceKind(str, Enum):
    """How the content of a source changes: the update patterns of Golab's dissertation, chapter 3.

    WINDOW (WKS): panes of the window attribute; an update adds the newest, and the oldest leave by age.
    RESULT (WK): intervals of expiration time; an update drops the earliest and inserts into any (section 7.4.3).
    STRICT (STR): parts that may change anywhere: an update replaces them all.
    """

    WINDOW = "window"
    RESULT = "result"
    STRICT = "strict"


@dataclass(frozen=True, order=True)
class Pane:
    """The interval [start, end) of a source: a pane, or the part of a pane that lies in a query's window."""

    source: str
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise ValueError(f"a pane is [start, end) with start < end, not [{self.start}, {self.end})")

    @property
    def width(self) -> int:
        return self.end - self.start

    def within(self, low: int | None, high: int | None) -> Pane | None:
        """The part of the pane in [low, high), None if there is none; a bound of None does not bound."""
        start = self.start if low is None else max(self.start, low)
        end = self.end if high is None else min(self.end, high)
        if start >= end:
            return None
        return self if (start, end) == (self.start, self.end) else Pane(self.source, start, end)

    def overlaps(self, other: Pane) -> bool:
        return self.source == other.source and self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        return f"{self.source}[{self.start}, {self.end})"


@dataclass(frozen=True)
class WindowUpdate:
    """The transaction T_j: it writes `panes` of a source, and the source is then complete below `upto`.

    WINDOW: the panes follow the newest one, up to `upto`. RESULT: those with insertions, perhaps none; new ones follow
    the last, and what ends at or below `upto` expires. STRICT: all parts. Of a window, what ends at or below
    `kept_from` is forgotten: nobody asks for it again.
    """

    name: str
    source: str
    panes: tuple[Pane, ...]
    upto: int
    kept_from: int | None = None

    def __post_init__(self) -> None:
        if any(pane.source != self.source for pane in self.panes):
            raise ValueError(f"update {self.name} of {self.source} writes panes of another source")
        if any(one.end > other.start for one, other in zip(self.panes, self.panes[1:], strict=False)):
            raise ValueError(f"the panes of update {self.name} are not disjoint and in order")


class SourcePanes:
    """The panes of one source, in order and without gaps, and the point `upto` below which it is complete."""

    def __init__(self, source: str, panes: Iterable[Pane], upto: int, kind: SourceKind = SourceKind.WINDOW):
        self.source = source
        self.kind = kind
        self.upto = upto
        self.panes: list[Pane] = sorted(panes)
        _refuse_gaps(self.panes)
        if kind is SourceKind.WINDOW and self.panes and self.panes[-1].end != upto:
            raise ValueError(f"the panes of {source} end at {self.panes[-1].end}, not at {upto}")

    @property
    def first(self) -> int:
        return self.panes[0].start if self.panes else self.upto

    @property
    def last(self) -> int:
        """Where its panes end; what a sub-result may get next begins there, or where it is complete."""
        end = self.panes[-1].end if self.panes else self.upto
        return end if self.kind is SourceKind.STRICT else max(end, self.upto)

    def between(self, low: int | None, high: int | None) -> list[Pane]:
        """The panes that overlap [low, high), each cut to it."""
        begin = 0 if low is None else bisect_right(self.panes, low, key=lambda pane: pane.end)
        end = len(self.panes) if high is None else bisect_left(self.panes, high, key=lambda pane: pane.start)
        found = (pane.within(low, high) for pane in self.panes[begin:end])
        return [pane for pane in found if pane is not None]

    def refuse(self, update: WindowUpdate, waiting: Sequence[WindowUpdate] = ()) -> None:
        """Raise a ValueError if the update does not fit this source after the updates that wait."""
        upto = waiting[-1].upto if waiting else self.upto
        last = max((self.last, upto, *(one.panes[-1].end for one in waiting if one.panes)))
        if update.upto < upto:
            raise ValueError(f"update {update.name} would move {self.source} back from {upto} to {update.upto}")
        if update.upto == upto and not update.panes:
            raise ValueError(f"update {update.name} of {self.source} changes nothing")
        if self.kind is SourceKind.STRICT:
            _refuse_gaps(update.panes)
            if not update.panes or (update.panes[0].start, update.panes[-1].end) != (self.first, self.last):
                raise ValueError(f"update {update.name} does not replace all parts of {self.source}")
            return
        new = [pane for pane in update.panes if pane.end > last]
        _refuse_gaps(new)
        if new and new[0].start != last:
            raise ValueError(f"update {update.name} begins at {new[0].start}, but {self.source} ends at {last}")
        if self.kind is SourceKind.WINDOW and (new != list(update.panes) or not new or new[-1].end != update.upto):
            raise ValueError(f"the panes of update {update.name} do not lead from {last} to {update.upto}")

    def apply(self, update: WindowUpdate) -> tuple[Pane, ...]:
        """Become what the update makes of it; the panes that it writes. One that only lets a sub-result expire writes
        what expires."""
        self.refuse(update)
        written = update.panes or (Pane(self.source, self.upto, update.upto),)
        if self.kind is SourceKind.STRICT:
            self.panes = list(update.panes)
        else:
            last = self.last
            self.panes += [pane for pane in update.panes if pane.end > last]
            gone = update.upto if self.kind is SourceKind.RESULT else update.kept_from
            if gone is not None:
                del self.panes[: bisect_right(self.panes, gone, key=lambda pane: pane.end)]
        self.upto = update.upto
        return written


def _refuse_gaps(panes: Sequence[Pane]) -> None:
    for one, other in zip(panes, panes[1:], strict=False):
        if one.end != other.start:
            raise ValueError(f"{one} and {other} are not adjacent")


def instant_of(uptos: Iterable[int], tick: int) -> int:
    """The instant τ of a query over several sources: up to it they are all complete, floored to the largest TICK."""
    least = min(uptos)
    return least - least % tick


def bounds_of(kind: SourceKind, length: int | None, instant: int, upto: int) -> tuple[int | None, int | None]:
    """[low, high) of a query's window over a source; None does not bound.

    Windows are read as of τ, sub-results and views as of their own last tick.
    """
    if kind is SourceKind.STRICT:
        return None, None
    if kind is SourceKind.RESULT:
        return upto, None
    return (None if length is None else instant - length), instant


Lengths = Mapping[str, int | None]
"""The length of a query's window over each source; None is the whole of it (always so for RESULT and STRICT)."""
