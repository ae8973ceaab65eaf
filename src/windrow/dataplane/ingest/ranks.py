"""Ranks in a partition, computed by Spark in the one job of a micro-batch (Li et al., SIGMOD 2005, sections 4 and 5).

The backward context of a partitioned window is a count per partition. The job gets it as a relation, added to the
micro-batch by UNION ALL: one row per known partition, placed before all tuples of the partition and weighted by its
count so far. An admitted tuple has weight 1. The rank of a tuple is the running sum in order of arrival.

Why not a join: a broadcast is a Spark job of its own, and a null-safe join has other keys than the window's partition,
so the rows would be exchanged twice. Why not literals: generated code would be compiled anew for each micro-batch. The
new counts come out with the cells, each of which has its greatest rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from windrow.dataplane.frames import whole
from windrow.dataplane.ingest.arrival import PLACE
from windrow.plan.nodes import RANK_COLUMN, Key


@dataclass(frozen=True)
class Ranking:
    """Ranks to compute. `known` has the partitions seen so far as `p0…`, and their `count`."""

    column: str
    partition: tuple[Key, ...]
    known: pa.Table


def rank_column(g: int) -> str:
    """The rank column of the g-th grouping. Groupings of one partition may begin to count at different times."""
    return f"{RANK_COLUMN}{g}"


def nothing_known(partition: Sequence[Key]) -> pa.Table:
    """The counts of a window that has no tuple yet."""
    columns = [(f"p{i}", key.type.arrow) for i, key in enumerate(partition)]
    return pa.schema([*columns, ("count", pa.int64())]).empty_table()


def ranked(rows: DataFrame, rankings: Sequence[Ranking]) -> DataFrame:
    """Placed rows with a rank column per ranking, for admitted rows. Rankings of one partition share a sort."""
    partitions = list(dict.fromkeys(ranking.partition for ranking in rankings))
    names = {keys: [f"__p{j}_{i}" for i in range(len(keys))] for j, keys in enumerate(partitions)}
    named = [(key, name) for keys in partitions for key, name in zip(keys, names[keys], strict=True)]
    tuples = rows.selectExpr("*", *(f"{key.sql} AS {name}" for key, name in named))
    counts = rows.sparkSession.createDataFrame(whole(_context(rankings, names))).selectExpr(
        *(f"CAST({name} AS {key.type.name}) AS {name}" for key, name in named), *(_before(r.column) for r in rankings)
    )
    sums = [f"{_rank_sql(ranking.column, names[ranking.partition])} AS {ranking.column}" for ranking in rankings]
    both = tuples.unionByName(counts, allowMissingColumns=True)
    return both.selectExpr("*", *sums).where(f"{PLACE} IS NOT NULL")


def _context(rankings: Sequence[Ranking], names: Mapping[tuple[Key, ...], Sequence[str]]) -> pa.Table:
    """The counts of all partitions of all rankings in one relation; null in the columns of other rankings."""
    parts = [r.known.rename_columns([*names[r.partition], _before(r.column)]) for r in rankings]
    return pa.concat_tables(parts, promote_options="default").combine_chunks()


def _before(column: str) -> str:
    return f"{column}_before"


def _rank_sql(column: str, names: Sequence[str]) -> str:
    """A NULL place marks the row of a count; NULLs sort first."""
    weight = f"CASE WHEN {PLACE} IS NULL THEN {_before(column)} WHEN __reason IS NULL THEN 1L ELSE 0L END"
    over = f"PARTITION BY {', '.join(names)} ORDER BY {PLACE} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    return f"sum({weight}) OVER ({over})"
