"""More groupings than Spark's GROUPING SETS allow: Spark and the driver give the same answers, in one job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from engine.conftest import STREAM, Open
from engine.helpers import answers, jobs, put, state_of
from windrow.dataplane.ingest import job as ingest
from windrow.dataplane.ingest.grouping_sets import is_packed
from windrow.errors import ExecutionError

pytestmark = pytest.mark.slow

GROUPINGS, EXPRESSIONS = 200, 100
ROWS = [(t, "abc"[t % 3], None if t % 11 == 0 else (t * 7) % 23) for t in range(60)]
LATER = [(t, "abc"[t % 3], t % 5) for t in range(60, 70)]


def key_of(g: int) -> tuple[str, Callable[[Any], Any]]:
    """One of 100 grouping expressions, half integers and half strings, in SQL and in Python."""
    e = g % EXPRESSIONS
    if e % 2:
        return f"(x + {e}) % {3 + e % 5}", lambda row: None if row[2] is None else (row[2] + e) % (3 + e % 5)
    return f"concat(k, '{e}')", lambda row: f"{row[1]}{e}"


def length_of(g: int) -> int:
    """The first 100 queries have windows of 20, the others of 30, so expressions recur but groupings do not."""
    return 20 if g < EXPRESSIONS else 30


def query_of(g: int, more: str = "") -> str:
    where = f" WHERE x > {g % 4}" if g % 3 == 0 else ""
    asked = f"COUNT(*) AS n, SUM(x + {g}) AS total, MIN(k) FILTER (WHERE x > 5) AS least{more}"
    length = length_of(g)
    return (
        f"SELECT {key_of(g)[0]} AS key, {asked} FROM s [RANGE {length} SLIDE {length}]{where} GROUP BY {key_of(g)[0]}"
    )


def qualifies(g: int, row: Any) -> bool:
    return g % 3 != 0 or row[2] is not None and row[2] > g % 4


def expected(g: int, rows: list[Any]) -> set[Any]:
    """The answers of the windows that end by 60, by definition."""
    length, key = length_of(g), key_of(g)[1]
    found: dict[Any, list[Any]] = {}
    for row in rows:
        if qualifies(g, row):
            found.setdefault((row[0] // length * length, key(row)), []).append(row)
    out = set()
    for (start, group), members in found.items():
        xs = [x for _, _, x in members if x is not None]
        least = min((k for _, k, x in members if x is not None and x > 5), default=None)
        total = sum(x + g for x in xs) if xs else None
        out.add((start, start + length, group, len(members), total, least))
    return {row for row in out if row[1] <= 60}


@pytest.mark.parametrize(
    "settings", [{"preaggregate": "spark"}, {"preaggregate": "driver"}, {"preaggregate": "auto", "gather_bytes": 1}]
)
def test_200_groupings_over_100_expressions(open_state: Open, spark: Any, settings: dict[str, Any]) -> None:
    wr = open_state(**settings)
    wr.sql(STREAM)
    for g in range(GROUPINGS):
        wr.query(f"q{g}", query_of(g))
    groupings = state_of(wr).groupings()
    assert len(groupings) >= EXPRESSIONS and is_packed(groupings)
    before = jobs(spark)
    put(wr, *ROWS, *LATER)
    assert jobs(spark) == before + 1
    for g in range(GROUPINGS):
        found = answers(wr, f"q{g}")
        assert len(found) == len(set(found)) and set(found) == expected(g, ROWS), g


def test_sketches_beside_many_groupings(open_state: Open) -> None:
    pytest.importorskip("datasketches")
    wr = open_state()
    wr.sql(STREAM)
    for g in range(40):
        wr.query(f"q{g}", query_of(g, ", APPROX_COUNT_DISTINCT(x) AS d" if g % 10 == 1 else ""))
    assert is_packed(state_of(wr).groupings())
    put(wr, *ROWS, *LATER)
    for g in range(40):
        found = answers(wr, f"q{g}")
        assert {row[:6] for row in found} == expected(g, ROWS), g
        for start, end, group, *_, distinct in found if g % 10 == 1 else ():
            mine = [row for row in ROWS if start <= row[0] < end and qualifies(g, row)]
            xs = {row[2] for row in mine if key_of(g)[1](row) == group} - {None}
            assert distinct == len(xs)


def test_groupings_with_ranks_dead_letters_and_keys(open_state: Open) -> None:
    """Ranks, dead letters and per-key progress are the same with and without Spark's group-by."""
    told = []
    for mode in ("spark", "driver"):
        wr = open_state(mode, preaggregate=mode)
        wr.sql(STREAM.replace("PUNCTUATE ORDERED", "PUNCTUATE PER k"))
        for g in range(30):
            wr.query(f"q{g}", query_of(g))
        wr.query("ranked", "SELECT k, COUNT(*) AS n, SUM(x) AS total FROM s [ROWS 4 SLIDE 2 PARTITION BY k] GROUP BY k")
        assert is_packed(state_of(wr).groupings(), 1)
        put(wr, *ROWS, *LATER)
        put(wr, (5, "a", 1), (None, "b", 2), (80, "a", 3), (81, "b", 4), (82, "c", 5))
        found = {name: sorted(answers(wr, name), key=repr) for name in ("ranked", *(f"q{g}" for g in range(30)))}
        told.append((found, wr.metrics()["s"]["admitted"], wr.metrics()["s"]["dead_letters"]))
    assert told[0] == told[1]
    assert told[0][0]["ranked"]


def test_job_refused_by_spark(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.query("q", query_of(1))
    grouped = ingest.grouped

    def refused(df: Any, stream: Any, groupings: Any, *args: Any) -> Any:
        if groupings[0].synopsis:  # the trial of a query alone has no synopsis
            raise AnalysisException("[TOO_MUCH] of it")
        return grouped(df, stream, groupings, *args)

    monkeypatch.setattr(ingest, "grouped", refused)
    wr.sql("SET preaggregate = 'spark'")
    with pytest.raises(ExecutionError, match="TOO_MUCH") as told:
        put(wr, *ROWS)
    assert "refuses the job" in str(told.value) and "Fix the source" not in str(told.value)
