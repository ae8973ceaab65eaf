"""Ranks in a partition, counted on by Spark in the one job of a micro-batch (003_7281f3198fa2d2a0.txt, 4 and 5).

The backward context of a partitioned window is a count per partition. It is given to the job as a relation and added
to the micro-batch by UNION ALL: a row per known partition, that stands before all tuples of its partition and weighs
what has come of it so far; an admitted tuple weighs 1. The rank of a tuple is the running sum in order of arrival.

Not as a join: a broadcast is a Spark job of its own, and the keys of a null-safe join are not those that the window is
partitioned by, which would exchange the rows twice. Not as literals: generated code would be compiled anew for each
micro-batch. The new counts come out with the cells, each of which knows its greatest rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from windrow.dataplane.ingest.arrival import PLACE
from windrow.plan.nodes import RANK_COLUMN, Key


@dataclass(frozen=True)
class Ranking:
    """Ranks to be found out. `known`: the partitions that tuples have come of, as `p0…`, and their `count`."""

    column: str
    partition: tuple[Key, ...]
    known: pa.Table


def rank_column(g: int) -> str:
    """The ranks of the g-th grouping: two of one partition may have begun to count at different times."""
    return f"{RANK_COLUMN}{g}"


def nothing_known(partition: Sequence[Key]) -> pa.Table:
    """The counts of a window that no tuple has come to."""
    columns = [(f"p{i}", key.type.arrow) for i, key in enumerate(partition)]
    return pa.schema([*columns, ("count", pa.int64())]).empty_table()


def ranked(rows: DataFrame, rankings: Sequence[Ranking]) -> DataFrame:
    """Placed rows with the rank of those that are admitted, for each ranking. Those of one partition share a sort."""
    partitions = list(dict.fromkeys(ranking.partition for ranking in rankings))
    names = {keys: [f"__p{j}_{i}" for i in range(len(keys))] for j, keys in enumerate(partitions)}
    named = [(key, name) for keys in partitions for key, name in zip(keys, names[keys], strict=True)]
    tuples = rows.selectExpr("*", *(f"{key.sql} AS {name}" for key, name in named))
    counts = rows.sparkSession.createDataFrame(_context(rankings, names)).selectExpr(
        *(f"CAST({name} AS {key.type.name}) AS {name}" for key, name in named), *(_before(r.column) for r in rankings)
    )
    sums = [f"{_rank_sql(ranking.column, names[ranking.partition])} AS {ranking.column}" for ranking in rankings]
    both = tuples.unionByName(counts, allowMissingColumns=True)
    return both.selectExpr("*", *sums).where(f"{PLACE} IS NOT NULL")


def _context(rankings: Sequence[Ranking], names: Mapping[tuple[Key, ...], Sequence[str]]) -> pa.Table:
    """What has come of each partition of each ranking, in one relation: null where it is of another."""
    parts = [r.known.rename_columns([*names[r.partition], _before(r.column)]) for r in rankings]
    return pa.concat_tables(parts, promote_options="default").combine_chunks()


def _before(column: str) -> str:
    return f"{column}_before"


def _rank_sql(column: str, names: Sequence[str]) -> str:
    """A place that is NULL is that of a count; NULLs stand first."""
    weight = f"CASE WHEN {PLACE} IS NULL THEN {_before(column)} WHEN __reason IS NULL THEN 1L ELSE 0L END"
    over = f"PARTITION BY {', '.join(names)} ORDER BY {PLACE} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    return f"sum({weight}) OVER ({over})"
