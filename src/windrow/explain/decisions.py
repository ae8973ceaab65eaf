"""EXPLAIN of the planner's decisions: the index, the way, selection or roll-up, filter or pass."""

from __future__ import annotations

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.plan.nodes import WindowAggregate
from windrow.settings import Settings
from windrow.synopses import Ability, Synopsis
from windrow.synopses.answering.planner import FilterDecision, HolisticDecision, HolisticWay
from windrow.types import number_text

_SHORT = {HolisticWay.SELECTION: "selection", HolisticWay.ROLL_UP: "rolled up"}


def index_lines(shown: Synopsis, settings: Settings) -> list[str]:
    """The present kind, the reason, and the cost of every kind; or why there is no index."""
    why, synopsis = shown.cannot(Ability.INDEX), shown.readable
    if why is not None or synopsis is None:
        return [f"        no index: {why}"]
    indexer, setting = synopsis.indexer, settings.text("synopsis")
    forced = None if setting == "auto" else SynopsisKind(setting)
    made = indexer.decision(synopsis.closed_panes.size, synopsis.groups.count, forced)
    index = f", index of {indexer.nbytes:,} bytes" if indexer.index is not None else ""
    text = f"        choice: {made.chosen.value}"
    if made.sizes is None:
        return [f"{text} ({made.why}); not probed yet"]
    if indexer.is_bare:
        return [f"{text}; strings and sketches are merged in a walk; an index cannot hold them"]
    walks = indexer.rates.walks / max(indexer.rates.closed, 1.0)
    if indexer.index is None and forced is None and made.sizes.probings < 0.001 <= walks:
        of = "probings, each of so many windows that a walk is quickest"
        return [f"{text} ({made.why}); per closed pane {number_text(walks)} {of}"]
    beside = f", {number_text(walks)} that walk anyway" if walks >= 0.001 else ""
    costs = ", ".join(f"{kind.value} {_time(ns)}" for kind, ns in made.costs)
    probings = f"{number_text(made.sizes.probings)} probings of {number_text(made.sizes.together)} windows"
    expected = f"{probings}, estimated: {costs}{beside}"
    return [f"{text}{index} ({made.why}); per closed pane {expected}"]


def way_lines(shown: Synopsis) -> list[str]:
    """How windows were last answered from cells in the driver; empty if none were."""
    made = None if shown.readable is None else shown.readable.last_way
    if made is None or made.sizes is None:
        return []
    costs = ", ".join(f"{way.value} {_time(ns)}" for way, ns in made.costs)
    windows = f"{made.sizes.windows:,} window{'' if made.sizes.windows == 1 else 's'}"
    return [f"        answered last: {made.chosen.value} ({made.why}); for {windows}, estimated: {costs}"]


def holistic_line(aggregate: WindowAggregate, made: HolisticDecision | None) -> str | None:
    """How holistic aggregates are answered; None for a query without them."""
    if not aggregate.is_holistic:
        return None
    if made is None:
        return "        holistic aggregates: decided when windows are due"
    text = f"        holistic aggregates: {made.chosen.value} ({made.why})"
    if made.sizes is None:
        return text
    works, groups = made.sizes.works, made.sizes.sorting.groups
    windows, others = f"{sum(one.windows for one in works):,} windows", len(works) - 1
    if others:
        windows += f" of this and {others} other quer{'y' if others == 1 else 'ies'}"
    costs = ", ".join(f"{_SHORT[way]} {number_text(ns / 1e6)} ms" for way, ns in made.costs)
    values = f"{works[0].values:,} values in {groups:,} group{'' if groups == 1 else 's'}"
    return f"{text}; for {windows}, {values}, estimated: {costs}"


def filter_decided(made: FilterDecision | None, settings: Settings) -> str:
    """Whether the filter of a HAVING query is used, and why."""
    if made is None:
        return "used" if settings.text("substream_filters") == "on" else "decided when windows are due"
    text = f"{made.chosen.value}, {made.why}"
    if made.sizes is None:
        return text
    (_, with_it), (_, without) = made.costs
    return (
        f"{text}: estimated {number_text(with_it / 1e6)} ms a tick with it, "
        f"{number_text(without / 1e6)} ms without, for "
        f"{made.sizes.windows} windows of {made.sizes.groups} groups, {made.sizes.share:.2%} of which pass"
    )


def _time(ns: float) -> str:
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= unit:
            return f"{number_text(ns / unit)} {name}"
    return f"{number_text(ns)} ns"
