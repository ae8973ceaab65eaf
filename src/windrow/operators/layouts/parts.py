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


@dataclass(frozen=True)
class StatePart:
    """Rows that an operator added to one of its tables; `path` names both.

    CALENDAR: the rows expire at points lo ≤ x < hi, and the part may be dropped when the plan has ticked at hi − 1 or
    later. FIFO: the rows are born at lo ≤ x < hi, and it may be dropped when the plan has ticked at hi or later. KEYED:
    lo and hi are the ticks of the batch; later parts replace rows of earlier ones, so only compaction drops it.
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
