"""ROWS n SLIDE 1: quantiles of thousands of windows over as many values, by selection, equal those from counters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import windrow
from windrow.engine import ticks

TEXT = (
    "SELECT MEDIAN(x) AS m, QUANTILE(x, 0.9) AS q, QUANTILE(x, 0.1) FILTER (WHERE x > 0) AS p FROM s [ROWS 200 SLIDE 1]"
)


@pytest.mark.slow
@pytest.mark.parametrize("selects", [True, False])
def test_windows_that_slide_by_a_row(spark: Any, monkeypatch: pytest.MonkeyPatch, selects: bool) -> None:
    values, used = np.random.default_rng(7).normal(size=2000).round(6), []
    if not selects:
        monkeypatch.setattr(ticks, "selection_pays", lambda *_: False)
    monkeypatch.setattr(ticks, "selected", lambda *args: used.append(1) or real(*args))
    wr = windrow.open(spark=spark)
    try:
        wr.sql("CREATE STREAM s (t BIGINT, x DOUBLE) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        query = wr.query("q", TEXT)
        for part in np.array_split(np.arange(values.size), 2):
            wr.deposit("s", [(int(i), float(values[i])) for i in part])
        found = query.answers().arrow()
    finally:
        wr.close()
    assert bool(used) is selects and found.num_rows == values.size
    for row in (0, 57, 199, 1200, 1999):
        mine = np.sort(values[max(0, row - 199) : row + 1])
        above = mine[mine > 0]
        assert found.column("m")[row].as_py() == pytest.approx(float(np.median(mine)), rel=1e-12)
        assert found.column("q")[row].as_py() == mine[max(1, int(0.9 * mine.size + 1e-9)) - 1]
        assert found.column("p")[row].as_py() == (above[max(1, above.size // 10) - 1] if above.size else None)


real = ticks.selected
