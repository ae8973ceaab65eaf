"""Pre-aggregated state shared by queries: cells, folds and the synopses made of them."""

from windrow.synopses.basic_interval import BasicIntervalSynopsis
from windrow.synopses.buffer import BufferSynopsis
from windrow.synopses.chunks import Cells, States
from windrow.synopses.interval import IntervalSynopsis
from windrow.synopses.landmark import LandmarkSynopsis
from windrow.synopses.lookups import Looked, Lookup
from windrow.synopses.partitioned import PartitionedSynopsis, Ranks
from windrow.synopses.running import RunningSynopsis
from windrow.synopses.sequence import TupleWindow
from windrow.synopses.stored import StoredSynopsis, Weight

__all__ = [
    "BasicIntervalSynopsis",
    "BufferSynopsis",
    "Cells",
    "IntervalSynopsis",
    "LandmarkSynopsis",
    "Looked",
    "Lookup",
    "PartitionedSynopsis",
    "Ranks",
    "RunningSynopsis",
    "States",
    "StoredSynopsis",
    "TupleWindow",
    "Weight",
]
