"""Which synopsis over panes: basic interval, interval, landmark interval or running, by estimated costs
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

from dataclasses import dataclass, field

from windrow.optimizer.synopsis_kinds import SynopsisKind

CALL_NS, SLOT_NS = 12_000.0, 1.2
"""A merge along a walk: some NumPy calls, whatever the number of groups, and each value of a group."""

INDEX_CALL_NS, INDEX_SLOT_NS = 700.0, 0.6
"""A merge of two cells of an index."""

LANDMARK_CALL_NS, LANDMARK_SLOT_NS = 20_000.0, 20.0
"""A landmark interval that a pane adds to, its share of the scan of a block included."""

TAKEN_NS = 2.0
"""A value of an answer, copied out."""

COPIED_NS = 2.5
"""A value of a closed pane, copied into an index."""

SLOWER = 0.7
"""What is there is left only for what costs less than this part of it: costs are estimates, and building is one too."""


@dataclass(frozen=True)
class Workload:
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
class Estimate:
    """Nanoseconds per closed pane and per probing, and bytes beside the cells."""

    kind: SynopsisKind
    update: float
    lookup: float
    nbytes: int
    total: float


def _merge(load: Workload, columns: int) -> float:
    return INDEX_CALL_NS + INDEX_SLOT_NS * load.groups * columns if columns else 0.0


def _taken(load: Workload) -> float:
    return load.together * TAKEN_NS * load.groups * load.columns


def _estimate(load: Workload, kind: SynopsisKind, update: float, merging: float, nbytes: float) -> Estimate:
    lookup = merging + _taken(load)
    return Estimate(kind, update, lookup, int(nbytes), update + load.probings * lookup)


def basic_interval(load: Workload) -> Estimate:
    walked = min(load.width, float(load.panes)) / load.at_once
    merging = walked * (CALL_NS + SLOT_NS * load.groups * load.columns)
    return _estimate(load, SynopsisKind.BASIC_INTERVAL, 0.0, merging, 0)


def interval(load: Workload) -> Estimate:
    """Every value once more, and as many base intervals."""
    slots = load.groups * load.columns
    merging = load.together * load.levels * _merge(load, load.columns)
    update = slots * (COPIED_NS + 2 * SLOT_NS)
    return _estimate(load, SynopsisKind.INTERVAL, update, merging, 16 * load.panes * slots)


def running(load: Workload) -> Estimate:
    """Running sums where sums can be subtracted; base intervals for the rest."""
    sums, rest = load.groups * load.subtractable, load.groups * load.merged
    merging = load.together * (_merge(load, load.subtractable) + load.levels * _merge(load, load.merged))
    update = sums * (COPIED_NS + SLOT_NS) + rest * (COPIED_NS + 2 * SLOT_NS)
    return _estimate(load, SynopsisKind.RUNNING, update, merging, 8 * load.panes * (sums + 2 * rest))


def landmark(load: Workload) -> Estimate:
    """Running sums where sums can be subtracted; landmark intervals for the rest."""
    sums, rest = load.groups * load.subtractable, load.groups * load.merged
    merging = load.together * (_merge(load, load.subtractable) + 2 * _merge(load, load.merged))
    update = sums * (COPIED_NS + SLOT_NS) + load.written * (LANDMARK_CALL_NS + rest * LANDMARK_SLOT_NS)
    return _estimate(load, SynopsisKind.LANDMARK, update, merging, 8 * (load.panes * sums + load.kept * rest))


def candidates(load: Workload) -> tuple[Estimate, ...]:
    """What can be had: running where something subtracts, landmarks where something does not and widths are few."""
    found = [basic_interval(load), interval(load)]
    if load.subtractable:
        found.append(running(load))
    if load.merged and load.written:
        found.append(landmark(load))
    return tuple(found)


def choose(load: Workload, present: SynopsisKind, most_bytes: int) -> Estimate:
    """The cheapest that fits into so many bytes; what is there stays unless another is clearly cheaper."""
    costs = {one.kind: one for one in candidates(load) if one.nbytes <= most_bytes}
    best = min(costs.values(), key=lambda one: one.total)
    kept = costs.get(present, best)
    return best if best.total < SLOWER * kept.total else kept


def forced(kind: SynopsisKind, load: Workload) -> SynopsisKind:
    """What a setting asks for, as far as it can be had: landmark falls to running, and that to interval where nothing
    subtracts."""
    if kind is SynopsisKind.LANDMARK and not (load.merged and load.written):
        kind = SynopsisKind.RUNNING
    return SynopsisKind.INTERVAL if kind is SynopsisKind.RUNNING and not load.subtractable else kind


def gains(load: Workload) -> bool:
    """Whether a probing is quicker with some index than by a walk. One of more than b / log b windows walks in any case
    (8.3.1): it says nothing for or against an index that serves the others."""
    walk, *indexed = candidates(load)
    return any(one.lookup < walk.lookup for one in indexed)


REMEMBERED = 0.8
"""How much of the past counts at each tick: the last five or so weigh most."""


@dataclass
class Rates:
    """What was asked of a synopsis, smoothed: sums that fade with every closing of panes. Probings that walk in any
    case (`gains`) are counted apart, so that a batch now and then does not hide what single lookups cost."""

    closed: float = 0.0
    walks: float = 0.0
    probings: float = 0.0
    windows: float = 0.0
    walked: float = 0.0
    saved: float = field(default=0.0)
    """Nanoseconds that an index would have saved since it was last built or let go of."""

    def walk(self) -> None:
        self.walks += 1

    def probe(self, windows: int, walked: int) -> None:
        self.probings += 1
        self.windows += windows
        self.walked += walked

    def close(self, panes: int) -> None:
        for name in ("closed", "walks", "probings", "windows", "walked"):
            setattr(self, name, REMEMBERED * getattr(self, name))
        self.closed += panes

    def load(
        self, panes: int, groups: int, columns: tuple[int, int], at_once: int, intervals: tuple[int, int]
    ) -> Workload:
        """The work that a synopsis of this size may expect: `columns` that subtract and that are merged, `intervals`
        between landmarks that are written and kept."""
        each = max(self.probings, 1e-9)
        per_pane = self.probings / max(self.closed, 1.0)
        together, width = max(self.windows / each, 1.0), max(self.walked / each, 1.0)
        return Workload(panes, groups, *columns, together, width, per_pane, at_once, *intervals)
