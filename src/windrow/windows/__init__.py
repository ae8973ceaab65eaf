"""Windows, extents, window ids, panes and punctuations: pure functions."""

from windrow.windows.cuts import Cuts, CutSchedule, may_share
from windrow.windows.frontier import Frontier
from windrow.windows.sliding import Points, SlidingWindow, due_windows

__all__ = ["CutSchedule", "Cuts", "Frontier", "Points", "SlidingWindow", "due_windows", "may_share"]
