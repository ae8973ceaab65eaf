"""Pre-aggregated state shared by queries: cells, folds and the synopses made of them."""

from windrow.synopses.basic_interval import BasicIntervalSynopsis, Looked, Lookup
from windrow.synopses.chunks import Cells, States

__all__ = ["BasicIntervalSynopsis", "Cells", "Looked", "Lookup", "States"]
