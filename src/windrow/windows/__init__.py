"""Windows, extents, window ids, panes and punctuations: pure functions."""

from windrow.windows.contexts import Context, Extents, Points, joined_ranges, ranges
from windrow.windows.cuts import Cuts, CutSchedule, why_not_share
from windrow.windows.ended import Ended, answered_upto
from windrow.windows.frontier import (
    Frontier,
    PerKeyFrontier,
    RowFrontier,
    RowSlackFrontier,
    Seen,
    Silence,
    SlackFrontier,
    SourceFrontier,
    beat,
    heartbeat,
    max_or_none,
)
from windrow.windows.kinds import PaneWindow, Window
from windrow.windows.landmark import LandmarkWindow
from windrow.windows.partitioned import PartitionedWindow
from windrow.windows.slide_by_tuple import SlideByTuple, SlideOver
from windrow.windows.sliding import SlidingWindow, due_windows

__all__ = [
    "Context",
    "CutSchedule",
    "Cuts",
    "Extents",
    "Frontier",
    "LandmarkWindow",
    "PaneWindow",
    "PartitionedWindow",
    "PerKeyFrontier",
    "Points",
    "RowFrontier",
    "RowSlackFrontier",
    "Seen",
    "SlackFrontier",
    "SlideByTuple",
    "SlideOver",
    "SlidingWindow",
    "SourceFrontier",
    "Window",
    "due_windows",
    "max_or_none",
    "Silence",
    "beat",
    "heartbeat",
    "Ended",
    "answered_upto",
    "why_not_share",
    "joined_ranges",
    "ranges",
]
