"""The planner's measured costs, limits and margins.

`python benchmarks/constants.py <part>` measures the costs of a part again and prints them beside the values here. The
planner needs only the order of the ways, and that rarely depends on the machine: one table serves all.
"""

from __future__ import annotations


class MeasuredCost(float):
    """A measured cost: value, unit, the operation it is for, and the benchmark part that measures it."""

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


# One pass over the panes, from the youngest to the oldest.
WALK_CALL_NS = MeasuredCost(12_000, "walk", "merge a chunk or take an answer: NumPy calls, for any number of groups")
WALK_SLOT_NS = MeasuredCost(1.2, "walk", "merge a chunk: per value of a group")
TAKEN_NS = MeasuredCost(2.0, "walk", "take an answer: per value of a group")
SKETCH_NS = MeasuredCost(5_000, "sketches", "merge two sketches (KLL 3 µs, HLL 3 to 15, full frequent items 30)")

# Tables over panes.
TABLE_COPIED_NS = MeasuredCost(2.0, "tables", "copy a value of a pane into a table")
TABLE_LEVEL_NS = MeasuredCost(1.0, "tables", "merge a value of a pane on one level of a table")
TABLE_TAKEN_NS = MeasuredCost(1.5, "tables", "read a value of an answer: two reads of a table")
TABLE_LOOKUP_NS = MeasuredCost(40_000, "tables", "look up the windows of one query: NumPy calls")

# A tree of intervals over the cells of each group.
TREE_BUILT_NS = MeasuredCost(20, "tree", "put a value of a cell into the tree")
TREE_STEP_NS = MeasuredCost(8, "tree", "one step for a value of an answer; a level has two")
TREE_ROW_NS = MeasuredCost(100, "tree", "find a row of an answer")

# An index over closed panes: its upkeep, and the expected cost of a probing.
INDEX_CALL_NS = MeasuredCost(700, "index", "merge two cells of an index: NumPy calls")
INDEX_SLOT_NS = MeasuredCost(0.6, "index", "merge two cells of an index: per value of a group")
INDEX_COPIED_NS = MeasuredCost(2.5, "index", "copy a value of a closed pane into an index")
LANDMARK_CALL_NS = MeasuredCost(20_000, "index", "extend a landmark interval by a pane, with its share of a scan")
LANDMARK_SLOT_NS = MeasuredCost(20, "index", "extend a landmark interval: per value of a group")

# Lookups in an index that exists.
PART_NS = MeasuredCost(30_000, "index", "look up one part of an index: NumPy calls")
SUBTRACTED_NS = MeasuredCost(2.0, "index", "subtract a value of an answer")
INDEX_MERGED_NS = MeasuredCost(3.0, "index", "merge a value of an answer on one level")

# Holistic aggregates: rolled up from counters, or selected from sorted base intervals.
LOOKED_NS = MeasuredCost(20, "holistic", "look up a value's slot in a window")
ROLLED_NS = MeasuredCost(100, "holistic", "roll up a counter for one holistic aggregate")
MERGED_NS = MeasuredCost(15, "holistic", "merge a state for another aggregate")
READ_NS = MeasuredCost(70, "holistic", "read a cell before sorting")
SORTED_NS = MeasuredCost(60, "holistic", "sort an element")
LEVEL_NS = MeasuredCost(10, "holistic", "merge an element on one more level")
SELECT_NS = MeasuredCost(35, "holistic", "select an element: per halving of a sorted array")
BELOW_NS = MeasuredCost(8, "holistic", "count elements below a bound: per halving of a sorted array")
SELECTING_NS = MeasuredCost(3e6, "holistic", "fixed cost of selection: some hundred NumPy calls")

# HAVING through a SubStream Filter, or by a pass over all groups.
FEED_NS = {
    "COUNT": MeasuredCost(330, "having", "feed a cell to CI-COUNT, with its share of merging runs"),
    "SUM": MeasuredCost(430, "having", "feed a cell to CI-SUM in coarse units"),
    "MAX": MeasuredCost(80, "having", "feed a cell to MAX by pane"),
    "MIN": MeasuredCost(80, "having", "feed a cell to MIN by pane"),
}
FINE_SUM_NS = MeasuredCost(1_500, "having", "feed a cell to CI-SUM in units of one")
LOOK_NS = MeasuredCost(100_000, "having", "search a filter, without the cost of the groups it finds")
NARROWED_NS = MeasuredCost(30_000, "having", "look up a window for some groups instead of all")
FOUND_NS = MeasuredCost(60, "having", "sort a found group, pair it with its window, add it to the rows")
GATHER_NS = MeasuredCost(30, "having", "gather a cell of a found group")
GATHERED_NS = MeasuredCost(30, "having", "gather a cell of a found group: per state read")
GATHERING_NS = MeasuredCost(1_000_000, "having", "fixed cost of gathering over a dozen chunks")
PASS_SLOT_NS = MeasuredCost(14, "having", "copy a group's slot in a window of a pass, and test its presence")
PASS_COLUMN_NS = MeasuredCost(2.5, "having", "copy a slot of a pass: per state")
PASS_WALK_NS = MeasuredCost(1.0, "having", "walk a state of a cell in a pass")
FINISH_NS = MeasuredCost(1.0, "having", "compare a row with a bound")


def measured_costs() -> dict[str, MeasuredCost]:
    """Every measured cost by name."""
    own = {name: cost for name, cost in globals().items() if isinstance(cost, MeasuredCost)}
    return own | {f"FEED_NS[{kind}]": cost for kind, cost in FEED_NS.items()}


# Limits.
TABLE_BYTES = 128 << 20
"""The most bytes for tables over panes."""

MOST_SORTED_BYTES = 256 << 20
"""The most bytes for sorted base intervals."""

USUAL_LEVELS = 4
"""Filters were measured with this many levels of each size; their cost grows in proportion above it."""

NO_THOUGHT_NS = 1e7
"""A roll-up that costs less is done without measuring the alternative."""

# Margins, because costs are estimates and a change has a cost of its own.
SLOWER = 0.7
"""Another kind of index replaces the present one only if its cost is below this fraction of the present cost."""

STAY = 0.75
"""A filter is adopted or dropped only if the change costs less than this fraction of the present way."""

REMEMBERED = 0.8
"""The factor by which past rates fade at each tick: about the last five ticks dominate."""
