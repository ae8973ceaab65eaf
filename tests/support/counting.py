"""Counts the work of the engine's synopses from outside; the source has no counters of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windrow.reference.metering import Meter
from windrow.synopses.having import collective_index, runs
from windrow.synopses.holistic import selection


def count_comparisons(patch: pytest.MonkeyPatch, meter: Meter) -> None:
    """Count the steps of bisection inside an array, over all selections from sorted arrays."""
    up_to = selection._up_to

    def counted(values: Any, low: Any, high: Any, *rest: Any) -> Any:
        meter.add(int(np.ceil(np.log2(np.maximum(high - low, 0) + 1)).sum()))
        return up_to(values, low, high, *rest)

    patch.setattr(selection, "_up_to", counted)


def count_entries(patch: pytest.MonkeyPatch, meter: Meter) -> None:
    """Count the entries that collective indexes store, sort and read."""
    stored, ordered, newer = collective_index._Size.store, runs.Runs._sorted, runs.Runs.newer

    def count_stored(self: Any, entries: Any) -> None:
        meter.add(entries.stamps.size)
        stored(self, entries)

    def count_sorted(self: Any, entries: Any) -> Any:
        found = ordered(self, entries)
        meter.add(found.stamps.size)
        return found

    def count_read(self: Any, since: int) -> Any:
        found = newer(self, since)
        meter.add(self._count + len(self._runs) + found.stamps.size)
        return found

    patch.setattr(collective_index._Size, "store", count_stored)
    patch.setattr(runs.Runs, "_sorted", count_sorted)
    patch.setattr(runs.Runs, "newer", count_read)
