"""Whether a SubStream Filter or the pass over all groups answers HAVING queries at less cost; their answers are equal.

The figures are nanoseconds, measured in the engine with 10,000 to 1,000,000 groups, 1 to 1,000 queries and a third of
the groups in every pane (`benchmarks/substream_having.py`); they matter only where the two differ by much.
"""

from __future__ import annotations

from dataclasses import dataclass

from windrow.synopses.having.filter_tests import FilterKind

FEED_NS = {FilterKind.COUNT: 330.0, FilterKind.SUM: 430.0, FilterKind.MAX: 80.0, FilterKind.MIN: 80.0}
"""A cell fed to a filter, its share of merging runs included."""

FINE_SUM_NS = 1_500.0
"""The same for CI-SUM that does not count in coarse units (`units.py`)."""

USUAL_LEVELS = 4
"""As many of each size as these were measured with, or fewer: more are more work."""

LOOK_NS = 100_000.0
"""A look into a filter, what it finds apart."""

NARROWED_NS = 30_000.0
"""A window that is looked up for some groups instead of all."""

FOUND_NS = 60.0
"""A group found: sorted, paired with its window, and taken into the rows."""

GATHER_NS, GATHERED_NS = 30.0, 30.0
"""A cell of such a group, and each of its states that is read."""

GATHERING_NS = 1_000_000.0
"""Gathering at all, over a dozen chunks."""

SLOT_NS, COLUMN_NS = 14.0, 2.5
"""A group's slot in a window of a pass, copied and seen to be there, and each of its states."""

WALK_NS = 1.0
"""A state of a cell of a pane that a pass walks."""

FINISH_NS = 1.0
"""A row that a bound is compared with."""

STAY = 0.75
"""A change must promise to cost less than this part of what is used now."""


@dataclass(frozen=True)
class FilterWork:
    """What the HAVING queries of one filter ask, per tick: `cells` are new, `windows` are due, of `panes` each on the
    average and `longest` at most, `intervals` of which differ, with `looks` that differ and `columns` to be read; a
    `share` of the groups passes. `fine`: units of one are counted; `p`: levels of each size."""

    kind: FilterKind
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
        feed = FINE_SUM_NS if self.fine and self.kind is FilterKind.SUM else FEED_NS[self.kind]
        feed *= max(1.0, self.p / USUAL_LEVELS) if self.kind.is_collective else 1.0
        found = self.windows * self.groups * self.share
        rows = found * (FOUND_NS + FINISH_NS + self.panes * (GATHER_NS + GATHERED_NS * self.columns))
        return self.cells * feed + self.looks * LOOK_NS + self.windows * NARROWED_NS + GATHERING_NS + rows

    @property
    def pass_ns(self) -> float:
        walked = self.longest * self.groups * self.columns * WALK_NS
        slots = self.intervals * self.groups * (SLOT_NS + COLUMN_NS * self.columns)
        return walked + slots + self.windows * self.groups * FINISH_NS

    def pays(self, used: bool) -> bool:
        """Whether the filter is to be used; `used`: it is now."""
        return self.filter_ns * STAY < self.pass_ns if used else self.filter_ns < self.pass_ns * STAY
