"""The settings about how synopses are looked up, brought to those of a stream; and for EXPLAIN what they choose."""

from __future__ import annotations

from windrow.engine.state import StreamState
from windrow.settings import Settings
from windrow.synopses import Ability, Synopsis
from windrow.synopses.index.indexing import Indexing


def apply_choice(stream: StreamState, settings: Settings) -> None:
    """Tell every synopsis which kind it is to be, and what its index may take: what the others leave then."""
    kind, most = settings.text("synopsis"), settings.integer("index_bytes")
    readable = [state.synopsis.readable for state in stream.synopses.values()]
    held = [synopsis.indexer for synopsis in readable if synopsis is not None]
    for state in stream.synopses.values():
        state.holistic.asked = settings.text("holistic")
        if state.holistic.decisions:
            state.holistic.keep({name for name, _ in state.plan.queries})
    asked = Indexing.of(kind, most, tuple(held))
    for indexer in held:
        indexer.asked = asked


def choice_lines(shown: Synopsis, settings: Settings) -> list[str]:
    """The kind that is there, what it goes by, and what every kind would cost; or why there is none."""
    why, synopsis = shown.cannot(Ability.INDEX), shown.readable
    if why is not None or synopsis is None:
        return [f"        no index: {why}"]
    indexer, asked = synopsis.indexer, settings.text("synopsis")
    index = f", index of {indexer.nbytes:,} bytes" if indexer.index is not None else ""
    by = "by cost" if asked == "auto" else f"SET synopsis = '{asked}'"
    if not indexer.rates.probings and not indexer.rates.walks:
        return [f"        choice: {indexer.kind.value} ({by}); not probed yet"]
    if indexer.is_bare:
        return [f"        choice: {indexer.kind.value}; texts and sketches are merged in a walk, no index has them"]
    load, estimates = indexer.estimates(synopsis.closed_panes.size, synopsis.groups.count)
    walks = indexer.rates.walks / max(indexer.rates.closed, 1.0)
    if indexer.index is None and asked == "auto" and load.probings < 0.001 <= walks:
        of = "probings, each of so many windows that a walk is quickest"
        return [f"        choice: {indexer.kind.value} ({by}); per closed pane {walks:.3g} {of}"]
    beside = f", {walks:.3g} that walk in any case" if walks >= 0.001 else ""
    costs = ", ".join(f"{one.kind.value} {_time(one.total)}" for one in estimates)
    asked_for = f"{load.probings:.3g} probings of {load.together:.3g} windows, estimated: {costs}{beside}"
    return [f"        choice: {indexer.kind.value}{index} ({by}); per closed pane {asked_for}"]


def _time(ns: float) -> str:
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= unit:
            return f"{ns / unit:.3g} {name}"
    return f"{ns:.3g} ns"
