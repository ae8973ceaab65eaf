"""Estimated costs of the four synopses over panes: basic interval, interval, landmark and running.

Golab's dissertation, section 8.3.1. The cost per closed pane is one update plus the probings that come per pane:

    basic interval   keeps a cell per pane; a probing walks from the youngest pane to the oldest, and all windows due
                     together take their answers along the way (CS2): b merges for any number of windows
    interval         also keeps base intervals (B-INT); every window merges log b of them (CS1): q · log b merges
    landmark         also keeps merges from and to landmarks (L-INT), for windows of few widths: two merges a window
    running          also keeps running sums (R-INT), where sums can be subtracted: one subtraction a window

If all merges cost the same, lookups in a basic interval synopsis are as fast as in an interval synopsis once b / log b
windows are asked together. In fact a merge in an index costs less, because its cells are adjacent in memory. Landmark
intervals pay only when lookups are tens of times as many as updates. All costs are in nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.synopses.answering import costs


@dataclass(frozen=True)
class IndexWork:
    """The load on a synopsis of `panes` panes (b) and `groups` groups.

    `subtractable`, `merged`: values per cell that can be subtracted exactly, and that can only be merged. `together`:
    windows per probing. `width`: panes that a probing walks without an index. `probings`: probings per closed pane,
    smoothed. `at_once`: panes that one step of a walk merges (the totals of chunks); 1 is the model of section 8.3.1.
    `written`, `kept`: landmark intervals that a pane extends, and those kept in all; 0 where the widths are too many.
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
        """log b, about the number of base intervals in a window."""
        return max(1, (max(self.panes, 1) - 1).bit_length())


@dataclass(frozen=True)
class IndexEstimate:
    """Nanoseconds per update (closed pane) and per lookup (probing), and bytes beside the cells."""

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
    """Keeps a copy of every value, and as many base intervals."""
    slots = work.groups * work.columns
    merging = work.together * work.levels * _merge(work, work.columns)
    update = slots * (costs.INDEX_COPIED_NS + 2 * costs.WALK_SLOT_NS)
    return _estimate(work, SynopsisKind.INTERVAL, update, merging, 16 * work.panes * slots)


def running(work: IndexWork) -> IndexEstimate:
    """Keeps running sums where sums can be subtracted, and base intervals for the rest."""
    sums, rest = work.groups * work.subtractable, work.groups * work.merged
    merging = work.together * (_merge(work, work.subtractable) + work.levels * _merge(work, work.merged))
    update = _running_update(sums) + rest * (costs.INDEX_COPIED_NS + 2 * costs.WALK_SLOT_NS)
    return _estimate(work, SynopsisKind.RUNNING, update, merging, 8 * work.panes * (sums + 2 * rest))


def landmark(work: IndexWork) -> IndexEstimate:
    """Keeps running sums where sums can be subtracted, and landmark intervals for the rest."""
    sums, rest = work.groups * work.subtractable, work.groups * work.merged
    merging = work.together * (_merge(work, work.subtractable) + 2 * _merge(work, work.merged))
    update = _running_update(sums) + work.written * (costs.LANDMARK_CALL_NS + rest * costs.LANDMARK_SLOT_NS)
    return _estimate(work, SynopsisKind.LANDMARK, update, merging, 8 * (work.panes * sums + work.kept * rest))


def candidates(work: IndexWork) -> tuple[IndexEstimate, ...]:
    """Estimates of the kinds that apply, the basic interval synopsis first.

    Running needs a subtractable value; landmark needs one that is not, and few widths.
    """
    found = [basic_interval(work), interval(work)]
    if work.subtractable:
        found.append(running(work))
    if work.merged and work.written:
        found.append(landmark(work))
    return tuple(found)
