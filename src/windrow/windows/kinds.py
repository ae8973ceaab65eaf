"""The types of all kinds of windows."""

from __future__ import annotations

from windrow.windows.landmark import LandmarkWindow
from windrow.windows.partitioned import PartitionedWindow
from windrow.windows.slide_by_tuple import SlideByTuple
from windrow.windows.sliding import SlidingWindow

PaneWindow = SlidingWindow | LandmarkWindow | SlideByTuple
"""Windows that lie on one axis of the whole stream."""

Window = PaneWindow | PartitionedWindow
