"""Ranks in a partition: the driver and Spark continue them from the same counts per partition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.cql.statements import ColumnDef, CreateStream, Policy
from windrow.dataplane.ingest.gathering import deposit_of_rows, gathered_columns
from windrow.dataplane.ingest.grouping import Grouping, partial_columns
from windrow.dataplane.ingest.grouping_sets import deposit_of_groups, set_ids
from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.nodes import RANK_COLUMN, ROW_NUM, Key
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups
from windrow.synopses.kinds.partitioned import Ranks
from windrow.types import SqlType
from windrow.windows import Cuts, CutSchedule

some = settings(max_examples=40, deadline=None)

BIGINT, STRING = SqlType("BIGINT"), SqlType("STRING")
STREAM = StreamDef(
    CreateStream("s", (ColumnDef("t", "BIGINT"),), "memory"),
    (("t", BIGINT),),
    "t",
    (Punctuated("t", BIGINT, Policy.ORDERED),),
)
RANK = Accumulator(Kind.GREATEST, RANK_COLUMN, BIGINT, None)
COUNT = Accumulator(Kind.COUNT, None, None, None)
Row = tuple[str | None, str | None]
rows_of_two_keys = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["x", None])), min_size=1, max_size=12
)


def grouping(number: int, partition: int) -> Grouping:
    keys = (Key("k", STRING), Key("g", STRING))
    return Grouping(number, keys, CutSchedule.of(Cuts.of([(2, 1)])), None, (COUNT, RANK), ROW_NUM, partition)


PLAN = (grouping(3, 1), grouping(5, 2))


def gathered_table(rows: list[Row]) -> pa.Table:
    columns = {"__reason": pa.nulls(len(rows), pa.string()), "__record": pa.nulls(len(rows), pa.string())}
    columns["__t0"] = pa.array([7] * len(rows), pa.int64())
    names = gathered_columns(PLAN).values
    for i, key in enumerate(("k", "g")):
        columns[names[key]] = pa.array([row[i] for row in rows], pa.string())
    return pa.table(columns)


def grouped_table(rows: list[Row], counts: list[dict[Any, int]]) -> pa.Table:
    """The table that `grouped` returns, with the ranks of each grouping."""
    made: list[dict[str, Any]] = []
    for g, plan in enumerate(PLAN):
        cells: dict[Any, list[int]] = {}
        for row in rows:
            part = row[: plan.partition]
            counts[g][part] = rank = counts[g].get(part, 0) + 1
            cells.setdefault(((rank - 1) // 2 * 2 + 1, *row), []).append(rank)
        for (pane, k, group), ranks in cells.items():
            common = {"__set": set_ids(PLAN)[g], "__n": len(ranks), "__least__t0": 7, "__greatest__t0": 7}
            named = {f"__pane{g}": pane, f"__k{g}_0": k, f"__k{g}_1": group}
            values = {name: max(ranks) if sql.startswith("max") else len(ranks) for name, sql in partial_columns(PLAN)}
            made.append({**common, **named, **values})
    texts = ["__reason", "__record", "__k0_0", "__k0_1", "__k1_0", "__k1_1"]
    numbers = ["__dead_t", "__set", "__n", "__least__t0", "__greatest__t0", "__pane0", "__pane1"]
    schema = [(name, pa.string()) for name in texts] + [(name, pa.int64()) for name in numbers]
    schema += [(name, pa.int64()) for name, _ in partial_columns(PLAN)]
    return pa.Table.from_pylist(made, schema=pa.schema(schema))


def contents(cells: Cells, groups: Groups) -> dict[Any, tuple[int, int]]:
    keys = zip(*(column.to_pylist() for column in groups.key_columns(cells.groups)), strict=True)
    values = zip(cells.states[COUNT][0].tolist(), cells.states[RANK][0].tolist(), strict=True)
    return dict(zip(zip(cells.panes.tolist(), keys, strict=True), values, strict=True))


@some
@given(st.lists(rows_of_two_keys, min_size=1, max_size=3))
def test_ranks_in_driver_and_spark(batches: list[list[Row]]) -> None:
    mine, theirs = ([Groups([pa.string()] * 2) for _ in PLAN] for _ in range(2))
    ranks = {plan.synopsis: Ranks(Groups([pa.string()] * plan.partition)) for plan in PLAN}
    counts: list[dict[Any, int]] = [{}, {}]
    for batch in batches:
        by_driver = deposit_of_rows(gathered_table(batch), STREAM, PLAN, mine, ranks=ranks)
        by_spark = deposit_of_groups(grouped_table(batch, counts), STREAM, PLAN, theirs)
        for g, plan in enumerate(PLAN):
            one = contents(by_driver.cells[plan.synopsis], mine[g])
            assert one == contents(by_spark.cells[plan.synopsis], theirs[g])
            parts = [key[: plan.partition] for _, key in one]
            columns = [pa.array([part[i] for part in parts], pa.string()) for i in range(plan.partition)]
            kept = ranks[plan.synopsis]
            kept.raise_to(kept.partitions.ids(columns), np.array([rank for _, rank in one.values()]))
            assert known(kept) == counts[g]


def known(ranks: Ranks) -> dict[Any, int]:
    table = ranks.known()
    *keys, counts = (column.to_pylist() for column in table.columns)
    return dict(zip(zip(*keys, strict=True), counts, strict=True))


def test_known_counts_include_null() -> None:
    ranks = Ranks(Groups([pa.string(), pa.float64()]))
    assert ranks.known().num_rows == 0
    keys = [pa.array(["a", None, "a", "b"]), pa.array([math.nan, None, math.nan, -0.0])]
    assert ranks.number(keys, np.arange(4)).tolist() == [1, 1, 2, 1]
    assert ranks.known().num_rows == 0, "numbered, but not yet deposited"
    ranks.raise_to(np.array([1, 2]), np.array([2, 1]))
    table = ranks.known()
    assert table.column_names == ["p0", "p1", "count"] and table.column("p0").type == pa.string()
    assert table.column("p0").to_pylist() == ["a", None] and table.column("count").to_pylist() == [2, 1]
    assert 0 < table.nbytes <= ranks.nbytes


def test_partitioned_grouping_counts_every_tuple() -> None:
    with pytest.raises(ValueError, match="counts every tuple"):
        Grouping(1, (Key("k", STRING),), CutSchedule.of(Cuts.of([(1, 0)])), "x > 0", (), ROW_NUM, 1)
    assert not PLAN[0].needs_rows and PLAN[0].needs_order
