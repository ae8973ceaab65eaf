"""SHOW LATENESS counts late tuples, including dropped ones, with both ways of grouping and across a restart."""

from __future__ import annotations

from typing import Any

import pytest

from windrow.errors import CatalogError

pytestmark = pytest.mark.slow

STREAM = "CREATE STREAM s (t BIGINT, k STRING) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 50"


def shown(wr: Any) -> list[str]:
    return [row["lateness"] for row in wr.sql("SHOW LATENESS s").rows()]


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_show_lateness(open_state: Any, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(STREAM)
    wr.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 1 SLIDE 1] GROUP BY k")
    assert shown(wr) == ["stream 's' has not had a tuple yet"]
    wr.deposit("s", [(1000, "a")])
    (line,) = shown(wr)
    assert line.startswith("s by t: 1 tuples. All came in one micro-batch"), "no share that would look like a result"
    wr.deposit("s", [(1001 + i, "a") for i in range(96)] + [(997, "b"), (960, "b"), (100, "b")])
    wr.close()
    wr = open_state(preaggregate=mode)
    lines = shown(wr)
    assert lines[0].startswith("s by t: 100 tuples")
    counts = {
        line.split("  ")[1].strip(): int(line.split()[-4 if "█" in line else -3].replace(",", ""))
        for line in lines[1:-1]
    }
    assert counts == {"in time": 97, "up to 1": 0, "up to 10": 1, "up to 100": 1, "up to 1,000": 1}
    assert lines[-1] == "slack that keeps 99 %: 43, 99.9 %: 900, all: 900", "40 is in the bucket up to 43"
    assert wr.metrics()["s"]["late"] == 1
    with pytest.raises(CatalogError, match="no stream 'nope'"):
        wr.sql("SHOW LATENESS nope")
