"""Applies the settings about lookups to the synopses of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windrow.settings import Settings
from windrow.synopses.answering.indexing import IndexSetting

if TYPE_CHECKING:
    from windrow.engine.state import StreamState


def apply_choice(stream: StreamState, settings: Settings) -> None:
    """Set the kind of every synopsis, the bytes for all their indexes together, and the way of holistic aggregates."""
    kind, most = settings.text("synopsis"), settings.integer("index_bytes")
    readable = [state.synopsis.readable for state in stream.synopses.values()]
    indexers = [synopsis.indexer for synopsis in readable if synopsis is not None]
    for state in stream.synopses.values():
        state.holistic.setting = settings.text("holistic")
        if state.holistic.decisions:
            state.holistic.keep({name for name, _ in state.plan.queries})
    setting = IndexSetting.of(kind, most, tuple(indexers))
    for indexer in indexers:
        indexer.setting = setting
