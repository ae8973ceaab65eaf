"""Approximate aggregates: Spark makes sketches and the driver merges them, with restarts, compaction and corrections."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.conftest import STREAM, Open
from engine.helpers import answers, blocks_of, put, state_of
from windrow.synopses.cells.sketches import LG_K, LG_MAP

pytest.importorskip("datasketches")

Row = tuple[Any, ...]
SELECT = (
    "SELECT k, COUNT(*) AS n, APPROX_COUNT_DISTINCT(x) AS d, APPROX_QUANTILE(x, 0.5) AS m, "
    "APPROX_QUANTILE(x, 0.9) FILTER (WHERE x > 10) AS q, APPROX_TOP_K(x, 3) AS top"
)


def element(values: Sequence[int], phi: float) -> float | None:
    return float(sorted(values)[max(1, math.floor(phi * len(values))) - 1]) if values else None


def exact(rows: Sequence[Row], start: int, end: int, k: str) -> Row:
    """The answer of SELECT to one window, by definition."""
    xs = [x for t, key, x in rows if key == k and start <= t < end]
    top = sorted(Counter(xs).items(), key=lambda one: (-one[1], one[0]))[:3]
    listed = [{"item": item, "count": count} for item, count in top]
    large = [x for x in xs if x > 10]
    return (start, end, k, len(xs), len(set(xs)), element(xs, 0.5), element(large, 0.9), listed)


def drawn(count: int, most: int, seed: int = 1) -> list[Row]:
    xs = np.random.default_rng(seed).integers(0, most, count).tolist()
    return [(i, "ab"[i % 2], x) for i, x in enumerate(xs)]


def by_window(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row[1], row[2]))


@pytest.mark.parametrize("home", ["driver", "spark"])
def test_small_windows_are_exact(open_state: Open, home: str) -> None:
    """With compaction and a restart. Spark groups even if the setting asks for gathering."""
    settings = {"preaggregate": "driver", "synopsis_blocks": 4, "synopsis_home": home}
    wr = open_state(**settings)
    wr.sql(STREAM)
    wr.sql(f"CREATE QUERY q AS {SELECT} FROM s [RANGE 60 SLIDE 20] GROUP BY k")
    wr.sql("CREATE QUERY all_of_it AS SELECT APPROX_COUNT_DISTINCT(k) AS d FROM s [RANGE 60 SLIDE 20]")
    rows = drawn(80, 25)
    for first in range(0, 60, 12):
        put(wr, *rows[first : first + 12])
    assert home == "spark" or (blocks_of(wr, "synopses") <= 2 * 5 and state_of(wr).metrics.compactions > 0)
    wr.close()
    wr = open_state(**settings)
    put(wr, *rows[60:])
    wr.end_input("s")
    windows = [(end - 60, end) for end in range(20, 140, 20)]
    expected = [exact(rows, start, end, k) for start, end in windows for k in "ab"]
    assert by_window(answers(wr, "q")) == [row for row in expected if row[3]]
    assert answers(wr, "all_of_it") == [(start, end, 2) for start, end in windows]
    assert state_of(wr).metrics.preaggregated_by["driver"] == 0


def test_explain_shows_error_bounds(wr: Any) -> None:
    wr.sql(f"CREATE QUERY q AS {SELECT} FROM s [RANGE 30 SLIDE 10] GROUP BY k")
    wr.sql("CREATE QUERY plain AS SELECT MAX(x) AS x FROM s [RANGE 30 SLIDE 10]")
    said = wr.queries["q"].explain()
    for words in ("a1: HLL, lg k 12: standard error 1.6 %", "a2: KLL, k 200: rank error 1.33 %", "0.17% of the rows"):
        assert words in said
    for query in ("q", "plain"):
        assert "Pre-aggregation: spark, for sketches are made there" in wr.queries[query].explain()
    wr.sql("DROP QUERY q")
    assert "Pre-aggregation: driver;" in wr.queries["plain"].explain()


def test_late_tuples_correct_approximate_answers(open_state: Open) -> None:
    wr = open_state()
    wr.sql(f"{STREAM} LATE REVISE")
    wr.sql(f"CREATE QUERY q AS {SELECT} FROM s [RANGE 20 SLIDE 10] GROUP BY k")
    rows, late = drawn(40, 30), [(5, "a", 7), (5, "a", 99), (12, "b", 7)]
    put(wr, *rows)
    put(wr, *late)
    wr.end_input("s")
    windows = [(end - 20, end) for end in range(10, 60, 10)]
    expected = [exact(rows + late, start, end, k) for start, end in windows for k in "ab"]
    assert by_window(answers(wr, "q")) == [row for row in expected if row[3]]


def test_large_windows_are_within_error_bounds(open_state: Open) -> None:
    """Three micro-batches of 20,000 rows, with more different values than any of the sketches keeps."""
    wr = open_state()
    wr.sql(STREAM)
    wr.sql(f"CREATE QUERY q AS {SELECT} FROM s [RANGE 60000 SLIDE 60000] GROUP BY k")
    draw = np.random.default_rng(5)
    xs = np.where(draw.random(60_000) < 0.3, draw.integers(0, 5, 60_000), draw.integers(0, 50_000, 60_000))
    for first in range(0, 60_000, 20_000):
        t = np.arange(first, first + 20_000)
        k = np.where(t % 2 == 0, "a", "b")
        wr.deposit("s", pa.table({"t": t, "k": k, "x": xs[t].astype(np.int32)}))
    wr.end_input("s")
    for _, _, k, n, d, m, q, top in answers(wr, "q"):
        mine = np.sort(xs[0 if k == "a" else 1 :: 2])
        counts, large = Counter(mine.tolist()), mine[mine > 10]
        assert n == mine.size
        assert abs(d / len(counts) - 1) < 4 * 1.04 / math.sqrt(1 << LG_K)
        for value, values, phi in ((m, mine, 0.5), (q, large, 0.9)):
            low, high = (np.searchsorted(values, value, side) / values.size for side in ("left", "right"))
            assert low - 2 * 0.0133 < phi < high + 2 * 0.0133
        assert {row["item"] for row in top} <= set(range(5))
        assert all(0 <= row["count"] - counts[row["item"]] <= 3.5 / (1 << LG_MAP) * n for row in top)
    assert len(answers(wr, "q")) == 2


def test_explain_without_index_costs(wr: Any) -> None:
    wr.sql("CREATE QUERY q AS SELECT APPROX_COUNT_DISTINCT(k) AS n FROM s [RANGE 20 SLIDE 10] GROUP BY k")
    put(wr, *((t, "ab"[t % 2], t) for t in range(50)))
    line = next(one for one in wr.queries["q"].explain().splitlines() if "choice:" in one)
    assert " ns" not in line and "merged in a walk; an index cannot hold them" in line
