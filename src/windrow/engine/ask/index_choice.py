"""The settings about how synopses are looked up, brought to the synopses of a stream."""

from __future__ import annotations

from windrow.engine.state import StreamState
from windrow.settings import Settings
from windrow.synopses.answering.indexing import IndexSetting


def apply_choice(stream: StreamState, settings: Settings) -> None:
    """Tell every synopsis which kind it is to be, and what its index may take: what the others leave then."""
    kind, most = settings.text("synopsis"), settings.integer("index_bytes")
    readable = [state.synopsis.readable for state in stream.synopses.values()]
    held = [synopsis.indexer for synopsis in readable if synopsis is not None]
    for state in stream.synopses.values():
        state.holistic.setting = settings.text("holistic")
        if state.holistic.decisions:
            state.holistic.keep({name for name, _ in state.plan.queries})
    setting = IndexSetting.of(kind, most, tuple(held))
    for indexer in held:
        indexer.setting = setting
