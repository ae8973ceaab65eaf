"""What each synopsis over panes costs: basic interval, interval, landmark interval or running
(001_3bbbc8a20ffc7252.txt, 8.3.1).

Per closed pane a synopsis costs one update, and as many probings as there are:

    basic interval   keeps a cell per pane; a probing walks from the youngest pane to the oldest, and all windows due
                     together take their answers along the way (CS2): b merges, however many windows there are
    interval         also keeps base intervals (B-INT); every window merges log b of them (CS1): q · log b
    landmark         also keeps merges from and to landmarks (L-INT), for windows of few widths: two merges a window
    running          also keeps running sums (R-INT), where sums can be subtracted: one subtraction a window

So if all merges cost the same, a basic interval synopsis is as good for lookups as an interval synopsis from b / log b
windows together on. All costs are in nanoseconds, of figures measured: those of the cells of an index lie side by side,
and cost less. Landmark intervals take more from an update than they give to a lookup until these are tens of times as
many; the choice is by the order of costs, which is what they are good for.
"""

from __future__ import annotations

from dataclasses import dataclass

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.synopses.answering import costs


@dataclass(frozen=True)
class IndexWork:
    """What is asked of a synopsis of `panes` panes (b) and so many groups.

    `subtractable` and `merged`: values per cell that can be subtracted exactly, and that can only be merged. A probing
    asks for `together` windows, and walks `width` panes if it walks; `probings` of them come per closed pane, smoothed.
    `at_once`: panes that a basic interval synopsis has merged beforehand (its chunks' totals); 1 is 8.3.1's.
    `written` and `kept`: landmark intervals that a pane adds, and that there are in all; 0: too many widths are asked.
    """

    panes: int
    groups: int
    subtractable: int
    merged: int
    together: float
    width: float
    probings: float
    at_once: int = 1
    written: int = 0
    kept: int = 0

    @property
    def columns(self) -> int:
        return self.subtractable + self.merged

    @property
    def levels(self) -> int:
        """log b: base intervals that a window is made of."""
        return max(1, (max(self.panes, 1) - 1).bit_length())


@dataclass(frozen=True)
class IndexEstimate:
    """Nanoseconds per closed pane and per probing, and bytes beside the cells."""

    kind: SynopsisKind
    update: float
    lookup: float
    nbytes: int
    total: float


def _merge(work: IndexWork, columns: int) -> float:
    return costs.INDEX_CALL_NS + costs.INDEX_SLOT_NS * work.groups * columns if columns else 0.0


def _taken(work: IndexWork) -> float:
    return work.together * costs.TAKEN_NS * work.groups * work.columns


def _running_update(sums: int) -> float:
    return sums * (costs.INDEX_COPIED_NS + costs.WALK_SLOT_NS)


def _estimate(work: IndexWork, kind: SynopsisKind, update: float, merging: float, nbytes: float) -> IndexEstimate:
    lookup = merging + _taken(work)
    return IndexEstimate(kind, update, lookup, int(nbytes), update + work.probings * lookup)


def basic_interval(work: IndexWork) -> IndexEstimate:
    walked = min(work.width, float(work.panes)) / work.at_once
    merging = walked * (costs.WALK_CALL_NS + costs.WALK_SLOT_NS * work.groups * work.columns)
    return _estimate(work, SynopsisKind.BASIC_INTERVAL, 0.0, merging, 0)


def interval(work: IndexWork) -> IndexEstimate:
    """Every value once more, and as many base intervals."""
    slots = work.groups * work.columns
    merging = work.together * work.levels * _merge(work, work.columns)
    update = slots * (costs.INDEX_COPIED_NS + 2 * costs.WALK_SLOT_NS)
    return _estimate(work, SynopsisKind.INTERVAL, update, merging, 16 * work.panes * slots)


def running(work: IndexWork) -> IndexEstimate:
    """Running sums where sums can be subtracted; base intervals for the rest."""
    sums, rest = work.groups * work.subtractable, work.groups * work.merged
    merging = work.together * (_merge(work, work.subtractable) + work.levels * _merge(work, work.merged))
    update = _running_update(sums) + rest * (costs.INDEX_COPIED_NS + 2 * costs.WALK_SLOT_NS)
    return _estimate(work, SynopsisKind.RUNNING, update, merging, 8 * work.panes * (sums + 2 * rest))


def landmark(work: IndexWork) -> IndexEstimate:
    """Running sums where sums can be subtracted; landmark intervals for the rest."""
    sums, rest = work.groups * work.subtractable, work.groups * work.merged
    merging = work.together * (_merge(work, work.subtractable) + 2 * _merge(work, work.merged))
    update = _running_update(sums) + work.written * (costs.LANDMARK_CALL_NS + rest * costs.LANDMARK_SLOT_NS)
    return _estimate(work, SynopsisKind.LANDMARK, update, merging, 8 * (work.panes * sums + work.kept * rest))


def candidates(work: IndexWork) -> tuple[IndexEstimate, ...]:
    """What can be had: running where something subtracts, landmarks where something does not and widths are few."""
    found = [basic_interval(work), interval(work)]
    if work.subtractable:
        found.append(running(work))
    if work.merged and work.written:
        found.append(landmark(work))
    return tuple(found)
