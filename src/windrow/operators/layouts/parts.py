"""The durable form of state: parts that are appended, and replaced by fewer when they are compacted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa


class Layout(Enum):
    """How the rows of a part are kept, and when they may be dropped."""

    FIFO = "by birth"
    CALENDAR = "by expiration"
    KEYED = "newest per key"
    LIST = "as they came"


@dataclass(frozen=True)
class Departures:
    """How many rows have left a table: withdrawn before their end, and at their end."""

    withdrawn: int = 0
    expired: int = 0

    def __add__(self, other: Departures) -> Departures:
        return Departures(self.withdrawn + other.withdrawn, self.expired + other.expired)

    @property
    def count(self) -> int:
        return self.withdrawn + self.expired

    @property
    def share(self) -> float:
        """The part of them that were withdrawn; 0 if none has left."""
        return self.withdrawn / self.count if self.count else 0.0

    @property
    def halved(self) -> Departures:
        """What still counts when newer ones are to weigh more."""
        return Departures(self.withdrawn // 2, self.expired // 2)


@dataclass(frozen=True)
class LayoutUse:
    """How rows that may be withdrawn before their end are kept: in how many calendars and in how many tables by value
    (several where tasks have a range each), and what has left them."""

    calendars: int = 0
    tables: int = 0
    departures: Departures = Departures()

    def __add__(self, other: LayoutUse) -> LayoutUse:
        both = (self.calendars + other.calendars, self.tables + other.tables)
        return LayoutUse(*both, self.departures + other.departures)


@dataclass(frozen=True)
class StatePart:
    """Rows that an operator added to one of its tables; `path` names both.

    CALENDAR and LIST: the rows expire at points lo ≤ x < hi, and the part may be dropped when the plan has ticked at
    hi − 1 or later. FIFO: the rows are born at lo ≤ x < hi, and it may be dropped when the plan has ticked at hi or
    later. KEYED: lo and hi are the ticks of the batch; later parts replace rows of earlier ones, so only compaction
    drops it.
    """

    path: str
    layout: Layout
    rows: pa.Table
    lo: int
    hi: int

    def is_expired(self, ticked: int) -> bool:
        """Whether nothing in it is needed after this tick."""
        if self.layout is Layout.KEYED:
            return False
        return ticked >= (self.hi if self.layout is Layout.FIFO else self.hi - 1)
