"""The table of costs that the planner goes by, and its limits and margins.

A cost was measured by the command that stands with it: `python benchmarks/constants.py <part>` prints it as measured
anew, beside the value here. Costs matter only where two ways differ by much, so they are one table for all machines.
"""

from __future__ import annotations


class MeasuredCost(float):
    """A measured cost: a number, its unit, what it is the cost of, and the part of the benchmark that measures it."""

    unit: str
    what: str
    part: str

    def __new__(cls, value: float, part: str, what: str, unit: str = "ns") -> MeasuredCost:
        made = super().__new__(cls, value)
        made.unit, made.what, made.part = unit, what, part
        return made

    @property
    def command(self) -> str:
        return f"python benchmarks/constants.py {self.part}"


# A walk over panes, from the youngest to the oldest.
WALK_CALL_NS = MeasuredCost(12_000, "walk", "a merge of a chunk, or an answer taken: NumPy calls, whatever the groups")
WALK_SLOT_NS = MeasuredCost(1.2, "walk", "a merge of a chunk: each value of a group")
TAKEN_NS = MeasuredCost(2.0, "walk", "an answer taken: each value of a group")
SKETCH_NS = MeasuredCost(5_000, "sketches", "two sketches merged (3 µs KLL, 3 to 15 HLL, 30 full frequent items)")

# Tables over panes.
TABLE_COPIED_NS = MeasuredCost(2.0, "tables", "a value of a pane copied into a table")
TABLE_LEVEL_NS = MeasuredCost(1.0, "tables", "a value of a pane merged on one level of a table")
TABLE_TAKEN_NS = MeasuredCost(1.5, "tables", "a value of an answer, from two looks into a table")
TABLE_LOOKUP_NS = MeasuredCost(40_000, "tables", "the windows of one query looked up: NumPy calls")

# A tree of intervals over the cells of each group.
TREE_BUILT_NS = MeasuredCost(20, "tree", "a value of a cell put into the tree")
TREE_STEP_NS = MeasuredCost(8, "tree", "a value of an answer, for each step; there are two a level")
TREE_ROW_NS = MeasuredCost(100, "tree", "a row of an answer found")

# An index over closed panes: what it costs to keep up, and what a probing is expected to cost.
INDEX_CALL_NS = MeasuredCost(700, "index", "two cells of an index merged: NumPy calls")
INDEX_SLOT_NS = MeasuredCost(0.6, "index", "two cells of an index merged: each value of a group")
INDEX_COPIED_NS = MeasuredCost(2.5, "index", "a value of a closed pane copied into an index")
LANDMARK_CALL_NS = MeasuredCost(20_000, "index", "a landmark interval that a pane adds to, with its share of a scan")
LANDMARK_SLOT_NS = MeasuredCost(20, "index", "the same, each value of a group")

# An index that is there: what these windows take.
PART_NS = MeasuredCost(30_000, "index", "a lookup of one part of an index: NumPy calls")
SUBTRACTED_NS = MeasuredCost(2.0, "index", "a value of an answer subtracted")
INDEX_MERGED_NS = MeasuredCost(3.0, "index", "a value of an answer merged on one level")

# Holistic aggregates: rolled up from counters, or selected from sorted base intervals.
LOOKED_NS = MeasuredCost(20, "holistic", "a window's slot of a value, looked up")
ROLLED_NS = MeasuredCost(100, "holistic", "a counter that is there, rolled up for one holistic aggregate")
MERGED_NS = MeasuredCost(15, "holistic", "a state that is there, for another aggregate")
READ_NS = MeasuredCost(70, "holistic", "a cell read before it is sorted")
SORTED_NS = MeasuredCost(60, "holistic", "an element sorted")
LEVEL_NS = MeasuredCost(10, "holistic", "an element merged on one more level")
SELECT_NS = MeasuredCost(35, "holistic", "an element selected, for each halving of a sorted array")
BELOW_NS = MeasuredCost(8, "holistic", "elements below a bound counted, for each halving of a sorted array")
SELECTING_NS = MeasuredCost(3e6, "holistic", "selecting at all: some hundred NumPy calls")

# HAVING: a SubStream Filter, or a pass over all groups.
FEED_NS = {
    "COUNT": MeasuredCost(330, "having", "a cell fed to CI-COUNT, its share of merging runs included"),
    "SUM": MeasuredCost(430, "having", "a cell fed to CI-SUM that counts in coarse units"),
    "MAX": MeasuredCost(80, "having", "a cell fed to MAX by pane"),
    "MIN": MeasuredCost(80, "having", "a cell fed to MIN by pane"),
}
FINE_SUM_NS = MeasuredCost(1_500, "having", "a cell fed to CI-SUM that counts in units of one")
LOOK_NS = MeasuredCost(100_000, "having", "a look into a filter, what it finds apart")
NARROWED_NS = MeasuredCost(30_000, "having", "a window that is looked up for some groups instead of all")
FOUND_NS = MeasuredCost(60, "having", "a group found: sorted, paired with its window, taken into the rows")
GATHER_NS = MeasuredCost(30, "having", "a cell of a group that was found")
GATHERED_NS = MeasuredCost(30, "having", "each state of such a cell that is read")
GATHERING_NS = MeasuredCost(1_000_000, "having", "gathering at all, over a dozen chunks")
PASS_SLOT_NS = MeasuredCost(14, "having", "a group's slot in a window of a pass, copied and seen to be there")
PASS_COLUMN_NS = MeasuredCost(2.5, "having", "each state of such a slot")
PASS_WALK_NS = MeasuredCost(1.0, "having", "a state of a cell of a pane that a pass walks")
FINISH_NS = MeasuredCost(1.0, "having", "a row that a bound is compared with")


def table() -> dict[str, MeasuredCost]:
    """Every measured cost by name."""
    own = {name: cost for name, cost in globals().items() if isinstance(cost, MeasuredCost)}
    return own | {f"FEED_NS[{kind}]": cost for kind, cost in FEED_NS.items()}


# Limits.
TABLE_BYTES = 128 << 20
"""The most that tables over panes may take."""

MOST_SORTED_BYTES = 256 << 20
"""The most that sorted base intervals may take."""

USUAL_LEVELS = 4
"""The levels of each size that filters were measured with: more are more work."""

NO_THOUGHT_NS = 1e7
"""What rolls up in less than this is not worth measuring."""

# Margins: costs are estimates, and a change costs something too.
SLOWER = 0.7
"""An index is exchanged for another kind only if that costs less than this part of it."""

STAY = 0.75
"""A filter is taken up, or given up, only if that costs less than this part of what is done now."""

REMEMBERED = 0.8
"""How much of the past counts at each tick: the last five or so weigh most."""
