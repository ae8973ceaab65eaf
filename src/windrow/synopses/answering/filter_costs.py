"""Estimated costs of HAVING through a SubStream Filter and by a pass over all groups; the answers are equal.

The constants were measured in the engine with 10,000 to 1,000,000 groups, 1 to 1,000 queries and a third of
the groups in every pane (`benchmarks/substream_having.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from windrow.synopses.answering import costs

COLLECTIVE = ("COUNT", "SUM")
"""The aggregates whose filter has several levels."""


@dataclass(frozen=True)
class FilterWork:
    """The work of one tick for the HAVING queries of one filter.

    `aggregate`: the bounded aggregate, COUNT, SUM, MAX or MIN. `p`: levels of each size. `fine`: the filter counts in
    units of one. `cells`: new cells. `windows`: due windows; they cover `panes` panes on average and at most `longest`,
    and `intervals` of them are different. `looks`: different searches of the filter. `columns`: states read. `share`:
    the fraction of the groups that passes.
    """

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
        """The cost of feeding one cell."""
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
