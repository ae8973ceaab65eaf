"""Pre-aggregated state shared by queries: cells, folds and the synopses made of them."""

from windrow.synopses.basic_interval import BasicIntervalSynopsis
from windrow.synopses.buffer import BufferSynopsis
from windrow.synopses.chunks import Cells, States
from windrow.synopses.extremes import ExtremesFilter
from windrow.synopses.frequency import FrequencySynopsis
from windrow.synopses.frequent import FrequentItemsSynopsis
from windrow.synopses.interval import IntervalSynopsis
from windrow.synopses.landmark import LandmarkSynopsis
from windrow.synopses.lookups import Looked, Lookup
from windrow.synopses.partitioned import PartitionedSynopsis, Ranks
from windrow.synopses.quantile import QuantileSynopsis
from windrow.synopses.running import RunningSynopsis
from windrow.synopses.sequence import SequenceSynopsis, TupleWindow
from windrow.synopses.stored import StoredSynopsis, Weight
from windrow.synopses.substream_filters import SubstreamFilter
from windrow.synopses.time_based import TimeBased, TimeWindow

__all__ = [
    "BasicIntervalSynopsis",
    "BufferSynopsis",
    "Cells",
    "ExtremesFilter",
    "FrequencySynopsis",
    "FrequentItemsSynopsis",
    "IntervalSynopsis",
    "LandmarkSynopsis",
    "Looked",
    "Lookup",
    "PartitionedSynopsis",
    "QuantileSynopsis",
    "Ranks",
    "RunningSynopsis",
    "SequenceSynopsis",
    "States",
    "StoredSynopsis",
    "SubstreamFilter",
    "TimeBased",
    "TimeWindow",
    "TupleWindow",
    "Weight",
]
