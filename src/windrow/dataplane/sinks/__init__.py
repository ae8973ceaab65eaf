"""Sinks for answers, one per file."""

from windrow.dataplane.sinks.base import AnswerBatch, Sink, StagingSink, check_given
from windrow.dataplane.sinks.checking import check_sink
from windrow.dataplane.sinks.modes import SinkMode, given_mode
from windrow.dataplane.sinks.registry import open_sink, target_of

__all__ = [
    "AnswerBatch",
    "Sink",
    "SinkMode",
    "StagingSink",
    "check_given",
    "check_sink",
    "given_mode",
    "open_sink",
    "target_of",
]
