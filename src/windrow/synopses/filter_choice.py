"""Whether a SubStream Filter or the pass over all groups answers HAVING queries at less cost; their answers are equal.

The figures are nanoseconds, measured with 10,000 to 1,000,000 groups on a busy machine; they matter only where the two
differ by much. What follows: a filter pays where the windows that differ are more than some 70 times the part of the
groups that a pane has cells of. With a third of all groups in every pane that is 25 windows, with a hundredth one.
"""

from __future__ import annotations

from dataclasses import dataclass

FEED_NS = 900.0
"""A cell fed to a collective index (530 to 2,000), its share of merging runs included; to MAX or MIN a third of it."""

LOOK_NS = 50_000.0
"""A look into a filter, what it finds apart."""

FOUND_NS = 60.0
"""A group found: sorted, paired with its window, and taken into the rows."""

GATHER_NS = 60.0
"""One state of one pane of such a group."""

GATHERING_NS = 1_000_000.0
"""Gathering at all, over a dozen chunks."""

PASS_NS = 13.0
"""A group's slot in a window, for each column: merged, copied, and seen to be there (12 to 23)."""

WALK_NS = 2.0
"""A cell of a pane that a pass walks (1.5 to 4)."""

FINISH_NS = 3.0
"""A row that a bound is compared with (1 to 5)."""

STAY = 0.75
"""A change must promise to cost less than this part of what is used now."""


@dataclass(frozen=True)
class FilterWork:
    """What the HAVING queries of one filter ask, per tick: `cells` are new, `windows` are due, of `panes` each on the
    average and `longest` at most, `intervals` of which differ, with `looks` that differ and `columns` to be read; a
    `share` of the groups passes."""

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
        rows = found * (FOUND_NS + FINISH_NS + GATHER_NS * self.panes * self.columns)
        return self.cells * FEED_NS + self.looks * LOOK_NS + GATHERING_NS + rows

    @property
    def pass_ns(self) -> float:
        walked = self.longest * self.groups * self.columns
        slots = self.intervals * self.groups * self.columns
        return walked * WALK_NS + slots * PASS_NS + self.windows * self.groups * FINISH_NS

    def pays(self, used: bool) -> bool:
        """Whether the filter is to be used; `used`: it is now."""
        return self.filter_ns * STAY < self.pass_ns if used else self.filter_ns < self.pass_ns * STAY
