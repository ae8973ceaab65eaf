"""Sinks for answers, one per file."""

from windrow.dataplane.sinks.base import AnswerBatch, Sink, StagingSink, check_given
from windrow.dataplane.sinks.checking import check_sink
from windrow.dataplane.sinks.registry import open_sink, target_of

__all__ = ["AnswerBatch", "Sink", "StagingSink", "check_given", "check_sink", "open_sink", "target_of"]
