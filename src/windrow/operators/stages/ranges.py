"""State by ranges of buckets: when a plan moves, or its ranges change, each place gets the rows that belong there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from windrow.operators.group_by import CELLS
from windrow.operators.grouping.calls import GROUP
from windrow.operators.layouts.parts import StatePart
from windrow.operators.stages.cutting import Names, buckets_in
from windrow.operators.state import PlanState, compacted, restore
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import Points
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.buckets import BUCKETS

Range = tuple[int, int]
"""The buckets from the first to below the second."""

WHOLE: Range = (0, BUCKETS)
_NONE = np.zeros(0, np.int64)


def ranges_of(count: int) -> tuple[Range, ...]:
    """So many ranges of buckets, as even as can be."""
    bounds = [BUCKETS * i // count for i in range(count + 1)]
    return tuple(zip(bounds, bounds[1:], strict=False))


def is_within(buckets: Points, wanted: Range) -> Mask:
    return np.asarray((buckets >= wanted[0]) & (buckets < wanted[1]))


def restored_range(
    plan: ContinuousPlan,
    cuts: Mapping[str, Names | None],
    sources: Mapping[Range, Sequence[StatePart]],
    wanted: Range,
    ticked: int,
) -> PlanState:
    """The state of a range after the tick, from the parts of disjoint ranges that were made with another cut.

    Groups have numbers, which are unique only within a range: those of several are numbered anew.
    """
    met = {one: parts for one, parts in sources.items() if one[0] < wanted[1] and wanted[0] < one[1]}
    if set(met) <= {wanted}:
        return restore(plan, met.get(wanted, ()), ticked)
    found, next_group = list[StatePart](), dict[str, int]()
    for source, parts in met.items():
        own = compacted(restore(plan, parts, ticked))
        if source[0] < wanted[0] or source[1] > wanted[1]:
            own = _only(own, cuts, source, wanted)
        found += _renumbered(own, next_group)
    return restore(plan, found, ticked)


def _only(
    parts: Sequence[StatePart], cuts: Mapping[str, Names | None], source: Range, wanted: Range
) -> list[StatePart]:
    """The rows of compacted parts of a range that belong in another."""
    groups = dict[str, Points]()
    found = []
    for part in sorted(parts, key=_is_cells):
        if _is_cells(part):
            rows = taken(part.rows, np.isin(longs(part.rows.column(GROUP)), groups.get(part.path, _NONE)))
        else:
            rows = taken(part.rows, is_within(buckets_in(part.rows, cuts[part.path], source), wanted))
            if GROUP in rows.column_names:
                groups[part.path + CELLS] = longs(rows.column(GROUP))
        if rows.num_rows:
            found.append(replace(part, rows=rows))
    return found


def _is_cells(part: StatePart) -> bool:
    return part.path.endswith(CELLS)


def _renumbered(parts: Sequence[StatePart], next_group: dict[str, int]) -> list[StatePart]:
    """Parts whose groups have numbers above those before; keeps the next number by path."""
    found, after = [], dict[str, int]()
    for part in parts:
        if GROUP not in part.rows.column_names:
            found.append(part)
            continue
        path = part.path.removesuffix(CELLS)
        numbers = longs(part.rows.column(GROUP)) + next_group.get(path, 0)
        at = part.rows.schema.get_field_index(GROUP)
        found.append(replace(part, rows=part.rows.set_column(at, GROUP, pa.array(numbers))))
        after[path] = max(after.get(path, 0), int(numbers.max(initial=-1)) + 1)
    next_group.update(after)
    return found
