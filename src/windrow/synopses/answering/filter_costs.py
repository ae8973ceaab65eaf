"""What a SubStream Filter and what the pass over all groups costs for HAVING queries; their answers are equal.

The constants were measured in the engine with 10,000 to 1,000,000 groups, 1 to 1,000 queries and a third of
the groups in every pane (`benchmarks/substream_having.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from windrow.synopses.answering import costs

COLLECTIVE = ("COUNT", "SUM")
"""Filters of several levels."""


@dataclass(frozen=True)
class FilterWork:
    """What the HAVING queries of one filter ask, per tick: `cells` are new, `windows` are due, of `panes` each on the
    average and `longest` at most, `intervals` of which differ, with `looks` that differ and `columns` to be read; a
    `share` of the groups passes. `aggregate`: COUNT, SUM, MAX or MIN is bounded; `fine`: units of one are counted; `p`:
    levels of each size."""

    aggregate: str
    p: int
    fine: bool
    groups: int
    cells: int
    windows: int
    intervals: int
    looks: int
    panes: float
    longest: int
    columns: int
    share: float

    @property
    def filter_ns(self) -> float:
        found = self.windows * self.groups * self.share
        gathered = self.panes * (costs.GATHER_NS + costs.GATHERED_NS * self.columns)
        rows = found * (costs.FOUND_NS + costs.FINISH_NS + gathered)
        asking = self.looks * costs.LOOK_NS + self.windows * costs.NARROWED_NS + costs.GATHERING_NS
        return self.cells * self._feed_ns + asking + rows

    @property
    def _feed_ns(self) -> float:
        """A cell fed."""
        if self.aggregate == "SUM" and self.fine:
            feed: float = costs.FINE_SUM_NS
        else:
            feed = costs.FEED_NS[self.aggregate]
        return feed * max(1.0, self.p / costs.USUAL_LEVELS) if self.aggregate in COLLECTIVE else feed

    @property
    def pass_ns(self) -> float:
        walked = self.longest * self.groups * self.columns * costs.PASS_WALK_NS
        slots = self.intervals * self.groups * (costs.PASS_SLOT_NS + costs.PASS_COLUMN_NS * self.columns)
        return walked + slots + self.windows * self.groups * costs.FINISH_NS
