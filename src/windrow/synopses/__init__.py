"""Pre-aggregated state shared by queries: cells, folds and synopses."""

from windrow.synopses.cells.chunks import Cells, States
from windrow.synopses.cells.ranks import Ranks
from windrow.synopses.index.interval import IntervalSynopsis
from windrow.synopses.index.landmark import LandmarkSynopsis
from windrow.synopses.index.running import RunningSynopsis
from windrow.synopses.index.sequence import TupleWindow
from windrow.synopses.kinds.basic_interval import BasicIntervalSynopsis
from windrow.synopses.kinds.buffer import BufferSynopsis
from windrow.synopses.kinds.partitioned import PartitionedSynopsis
from windrow.synopses.kinds.stored import StoredSynopsis
from windrow.synopses.lookups import Lookup, LookupAnswer
from windrow.synopses.synopsis import Ability, DueRequest, Home, OneTimeQuery, Synopsis, Weight

__all__ = [
    "Ability",
    "OneTimeQuery",
    "BasicIntervalSynopsis",
    "BufferSynopsis",
    "Cells",
    "DueRequest",
    "Home",
    "IntervalSynopsis",
    "LandmarkSynopsis",
    "LookupAnswer",
    "Lookup",
    "PartitionedSynopsis",
    "Ranks",
    "RunningSynopsis",
    "States",
    "StoredSynopsis",
    "Synopsis",
    "TupleWindow",
    "Weight",
]
