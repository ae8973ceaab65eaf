"""What operations cost, measured here: the scan of a pane, the write of a pane, a decision of a scheduler.

A pane is a file of a window store, mapped. Periodic queries group it by address, in DuckDB with one thread; a pane's share
of merging the groups of all panes is added. One-time queries sum up the packets of ten addresses, by Arrow's functions. The
write of a pane makes its file durable.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from common import SOURCES, source_names

from isolating.workload import KINDS, ONE_TIME, PERCENTILES, TOP_K
from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.stores import POINT, KeptColumn, MappedStoreFile, WindowStoreSpec, write_rows
from windrow.types import SqlType

SIZES = (1, 1_000, 10_000, 100_000, 1_000_000)
MERGED_PANES = 100
CHOSEN = pa.array(source_names()[:: SOURCES // 10])

SRC, LENGTH = KeptColumn("src", SqlType("STRING")), KeptColumn("length", SqlType("INT"))
SPEC = WindowStoreSpec(1, "packets", "ts", (), (SRC, LENGTH))


@dataclass(frozen=True)
class Measurements:
    """Seconds by number of rows, at growing sizes: straight lines between them, in proportion to the rows above the last."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.seconds) or len(self.sizes) < 2 or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError("at least two growing sizes, with a time each")
        if self.seconds[0] <= 0 or list(self.seconds) != sorted(self.seconds):
            raise ValueError("times are positive, and do not fall")

    @classmethod
    def of(cls, sizes: Sequence[int], seconds: Sequence[float]) -> Measurements:
        """More rows count as at least as slow as fewer: what says otherwise is an error of the clock."""
        return cls(tuple(sizes), tuple(accumulate(seconds, max)))

    def at(self, rows: float) -> float:
        if rows >= self.sizes[-1]:
            return self.seconds[-1] * rows / self.sizes[-1]
        i = max(bisect_right(self.sizes, rows), 1)
        low, high = self.sizes[i - 1], self.sizes[i]
        slope = (self.seconds[i] - self.seconds[i - 1]) / (high - low)
        return max(self.seconds[i - 1] + slope * (rows - low), self.seconds[0])


@dataclass(frozen=True)
class Costs:
    """The scan of a pane by kind of query, the write of a pane, and one event of each scheduler."""

    scans: Mapping[str, Measurements]
    write: Measurements
    event_s: Mapping[str, float]


def measured_scans(directory: Path, sizes: Sequence[int] = SIZES, repeats: int = 9) -> dict[str, Measurements]:
    """The scans by kind, and `write`, each the least of some repetitions: other programs may run meanwhile."""
    writer, found = BlockWriter(directory), {kind: list[float]() for kind in (*KINDS, "write")}
    with duckdb.connect(config={"threads": 1}) as connection:
        merging = _merging_s(connection, repeats)
        for rows in sizes:
            pane = _pane(rows)
            found["write"].append(_took(lambda pane=pane: write_rows(writer, SPEC, pane), repeats))
            kept = write_rows(writer, SPEC, pane)
            assert kept is not None
            mapped = MappedStoreFile(directory / kept.ref.path).columns(SPEC.columns)
            connection.register("pane", mapped)
            for kind, amount in ((TOP_K, "count(*)"), (PERCENTILES, f'sum("{LENGTH.id}")')):
                text = f'SELECT "{SRC.id}" AS address, {amount} AS amount FROM pane GROUP BY 1'
                scan = _took(lambda text=text: connection.sql(text).to_arrow_table(), repeats)
                found[kind].append(scan + merging)
            found[ONE_TIME].append(_took(lambda mapped=mapped: _sum_of_some(mapped), repeats))
    return {name: Measurements.of(sizes, seconds) for name, seconds in found.items()}


def _sum_of_some(pane: pa.Table) -> object:
    is_chosen = pc.is_in(pane.column(SRC.id), CHOSEN)
    return pc.sum(pane.column(LENGTH.id).filter(is_chosen)).as_py()


def _pane(rows: int) -> pa.Table:
    random = np.random.default_rng(rows)
    return pa.table(
        {
            POINT: pa.array(np.arange(rows)),
            SRC.id: pa.array(source_names()[random.integers(0, SOURCES, rows)]),
            LENGTH.id: pa.array(random.integers(1, 101, rows).astype(np.int32)),
        }
    )


def _merging_s(connection: duckdb.DuckDBPyConnection, repeats: int) -> float:
    """What a pane adds to the time to merge the groups of all panes and find the ten largest."""
    amounts = np.tile(np.arange(SOURCES), MERGED_PANES)
    partials = pa.table({"address": pa.array(np.tile(source_names(), MERGED_PANES)), "amount": pa.array(amounts)})
    connection.register("partials", partials)
    statement = "SELECT address, sum(amount) FROM partials GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10"
    return _took(lambda: connection.sql(statement).to_arrow_table(), repeats) / MERGED_PANES


def _took(do: Callable[[], object], repeats: int) -> float:
    do()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        do()
        times.append(time.perf_counter() - begin)
    return min(times)


def rate_for(scan: Measurements, seconds: float, pane_s: float, mean_factor: float) -> float:
    """The packets a second at which the scan of a pane takes so long on average, to two digits; at least one."""
    low, high = 1.0, 1e9
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if scan.at(middle * pane_s * mean_factor) < seconds else (low, middle)
    return float(f"{low:.2g}")
