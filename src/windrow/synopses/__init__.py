"""Pre-aggregated state shared by queries: cells, folds and the synopses made of them."""

from windrow.synopses.basic_interval import BasicIntervalSynopsis
from windrow.synopses.buffer import BufferSynopsis
from windrow.synopses.chunks import Cells, States
from windrow.synopses.lookups import Looked, Lookup
from windrow.synopses.partitioned import PartitionedSynopsis, Ranks

__all__ = [
    "BasicIntervalSynopsis",
    "BufferSynopsis",
    "Cells",
    "Looked",
    "Lookup",
    "PartitionedSynopsis",
    "Ranks",
    "States",
]
