"""Sinks: where answers go, one per file."""

from windrow.dataplane.sinks.base import AnswerBatch, Sink, StagingSink
from windrow.dataplane.sinks.registry import open_sink, target_of

__all__ = ["AnswerBatch", "Sink", "StagingSink", "open_sink", "target_of"]
