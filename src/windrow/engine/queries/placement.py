"""Placement of a new query: the synopsis it joins or gets, what it derives, and from which point it sees tuples.

Placement changes nothing, so EXPLAIN can call it for a query that does not exist yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from windrow.engine.state import StreamState, SynopsisState
from windrow.optimizer.sharing.derivations import Derivation, read_of
from windrow.optimizer.sharing.rules import choose_synopsis, verdict_of
from windrow.optimizer.sharing.synopsis_plans import BUFFER, Style, SynopsisPlan, schedule_for, style_for
from windrow.optimizer.sharing.uses import NEW, Applicant
from windrow.plan.nodes import Finalise
from windrow.settings import Settings
from windrow.types import POINT_MIN
from windrow.windows import Cuts, CutSchedule, LandmarkWindow, PartitionedWindow, SlideByTuple


@dataclass(frozen=True)
class Placement:
    """The place of a query. `joined`: the synopsis it joins (None: it gets its own). `since`: the point from which it
    sees all tuples (None: all); `start`: the point from which new accumulators are kept for it."""

    joined: SynopsisState | None
    style: Style
    schedule: CutSchedule
    since: int | None
    start: int | None
    derived: tuple[Derivation, ...] = ()

    def joining(self, name: str, plan: Finalise) -> SynopsisState:
        """The joined synopsis with the query."""
        assert self.joined is not None
        state, chosen = self.joined, self.joined.plan
        grown = chosen.grown(name, plan, self.schedule, self.derived)
        needed = dict.fromkeys((a.id for a in read_of(plan.input, self.derived)), self.start)
        return replace(state, progress=replace(state.progress, plan=grown, since={**needed, **state.since}))


def place(stream: StreamState, plan: Finalise, settings: Settings) -> Placement:
    """The place of a new query, by the sharing rules."""
    greatest, off = stream.greatest(plan.scan.attribute.column), settings.rules_off
    by_cuts = isinstance(plan.window, (PartitionedWindow, SlideByTuple)) or plan.input.frequent is not None
    buffered = settings.text("window_evaluation") == "buffer" and not by_cuts
    if buffered:
        return _alone(plan, greatest, buffered)
    query, cut_factor = Applicant(NEW, plan), settings.integer("cut_factor")
    uses = (stream.use_of(state.plan, state.since, cut_factor) for state in stream.synopses.values())
    chosen = choose_synopsis(query, uses, off)
    if chosen is None:
        return _alone(plan, greatest, buffered)
    derived = chosen.derived(query) if verdict_of("SS4", query, chosen, off).holds else ()
    return _joined(plan, stream.synopses[chosen.plan.id], greatest, derived)


def _alone(plan: Finalise, greatest: int | None, buffered: bool) -> Placement:
    since = None if greatest is None else plan.window.cuts().above(greatest)
    if isinstance(plan.window, PartitionedWindow):
        since = None  # rows are counted from the creation of the query, so every window is complete
    schedule = schedule_for(plan.window, buffered)
    return Placement(None, BUFFER if buffered else style_for(plan, schedule), schedule, since, since)


def _joined(plan: Finalise, state: SynopsisState, greatest: int | None, derived: tuple[Derivation, ...]) -> Placement:
    mine, schedule = plan.window.cuts(), state.plan.schedule
    start = None if greatest is None else schedule.first_free(greatest)
    needed = [a.id for a in read_of(plan.input, derived)]
    since = start if any(a not in state.since for a in needed) else _complete_from(state, mine, needed, start)
    if isinstance(plan.window, LandmarkWindow) and since is not None and since > plan.window.start:
        since = start  # answered panes are merged into one, which cannot be split
    moved = schedule.moved(schedule.current.union(mine), greatest)
    return Placement(state, state.plan.style, moved, since, start, derived)


def _complete_from(state: SynopsisState, mine: Cuts, needed: Iterable[str], start: int | None) -> int | None:
    """The point from which the kept cells serve a new query, or `start` if they do not."""
    cut_since = state.plan.schedule.holds_since(mine)
    if cut_since is None or start is None:
        return start
    points = [cut_since, state.kept_from, state.complete_from, *(state.since[a] for a in needed)]
    since = max(POINT_MIN if point is None else point for point in points)
    return None if since == POINT_MIN else min(since, start)


def make_synopsis(number: int, name: str, plan: Finalise, placement: Placement) -> SynopsisPlan:
    """The plan of a new synopsis for the query."""
    axis = plan.scan.attribute.column
    keys, values = plan.input.cell_keys, plan.input.values
    return SynopsisPlan(number, keys, placement.schedule, ((name, plan),), axis, placement.style, values=values)
