"""SHOW SHARING and EXPLAIN: what queries share, by which rules, and where a new query would begin."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, jobs, put

pytestmark = pytest.mark.slow

SUMS = "SELECT k, SUM(x) AS s FROM s [RANGE 20 SLIDE {}] WHERE {} GROUP BY k"
QUERIES = {
    "tcp": SUMS.format(10, "x = 1"),
    "udp": SUMS.format(10, "x = 2"),
    "either": SUMS.format(10, "x = 2 OR x = 1"),
    "slow": SUMS.format(30, "x = 1"),
    "mean": "SELECT k, AVG(x) AS a FROM s [RANGE 20 SLIDE 10] WHERE x = 1 GROUP BY k",
    "mean_long": "SELECT k, AVG(x) AS a FROM s [RANGE 40 SLIDE 10] WHERE x = 1 GROUP BY k",
    "alone": "SELECT COUNT(*) AS n FROM s [RANGE 20 SLIDE 10]",
}


def test_show_sharing(wr: Any) -> None:
    for name, select in QUERIES.items():
        wr.sql(f"CREATE QUERY {name} AS {select}")
    rows = {row["name"]: row for row in wr.sql("SHOW SHARING").rows()}
    assert list(rows) == list(QUERIES) and {row["stream"] for row in rows.values()} == {"s"}
    assert {name: row["rules"] for name, row in rows.items()} == {
        "tcp": "SS1, CS2",
        "udp": "SS1, CS2",
        "either": "SS1, CS2, SS4, CS7",
        "slow": "SS1, CS2, CS8",
        "mean": "SS1, CS2, SS2, CS3",
        "mean_long": "SS1, CS2, SS2",
        "alone": None,
    }
    assert {name: row["shared_with"] for name, row in rows.items()} == {**dict.fromkeys(QUERIES, 5), "alone": 0}
    assert rows["slow"]["answers_of"] == "tcp" and rows["tcp"]["answers_of"] is None
    told = rows["either"]["derived"].split("; ")
    assert told[0] == "count(*): added from (x = 1), (x = 2)" and told[-1] == "sum(x): added from (x = 1), (x = 2)"
    assert {row["home"] for row in rows.values()} == {"driver"}
    wr.sql("SET disabled_rules = 'CS8'")
    assert {row["answers_of"] for row in wr.sql("SHOW SHARING").rows()} == {None}


def test_show_sharing_names_homes(open_state: Any) -> None:
    wr = open_state(synopsis_home="spark")
    wr.sql(STREAM)
    wr.sql(f"CREATE QUERY tcp AS {QUERIES['tcp']}")
    wr.sql("CREATE QUERY each AS SELECT k, COUNT(*) AS n FROM s [ROWS 2 SLIDE 1 PARTITION BY k] GROUP BY k")
    put(wr, (1, "a", 1))
    told = {row["name"]: (row["synopsis"], row["home"]) for row in wr.sql("SHOW SHARING").rows()}
    assert told == {"tcp": (1, "Spark"), "each": (2, "driver")}
    each = wr.queries["each"].explain()
    assert "home: driver (whatever its size: its windows count the rows of each partition)" in each


APART = {
    "base": "SELECT k, SUM(x) AS s FROM s [RANGE 2000 SLIDE 1000] GROUP BY k",
    "odd": "SELECT k, SUM(x) AS s FROM s [RANGE 777 SLIDE 777] GROUP BY k",
    "fine": "SELECT k, SUM(x) AS s FROM s [RANGE 20 SLIDE 1] GROUP BY k",
    "groups": "SELECT k, x, COUNT(*) AS n FROM s [RANGE 20 SLIDE 10] GROUP BY k, x",
    "values_": "SELECT k, MEDIAN(x) AS m FROM s [RANGE 20 SLIDE 10] GROUP BY k",
    "rows_": "SELECT k, COUNT(*) AS n FROM s [ROWS 20 SLIDE 10] GROUP BY k",
    "tuples": "SELECT k, COUNT(*) AS n FROM s [RANGE 20 SLIDE 1 ROW] GROUP BY k",
    "order_": "SELECT x, k, COUNT(*) AS n FROM s [RANGE 20 SLIDE 10] GROUP BY x, k",
}


def test_reasons_for_not_sharing(wr: Any) -> None:
    for name, select in APART.items():
        wr.sql(f"CREATE QUERY {name} AS {select}")
    rows = {row["name"]: row["apart_from"] for row in wr.sql("SHOW SHARING").rows()}
    assert rows["base"] == (
        "2: window edges that hardly ever meet; 3: together more than 4 times the window edges there were (cut_factor); "
        "4, 8: another GROUP BY; 5: other columns whose values are counted; 6: another window attribute; "
        "7: another kind of window"
    )
    assert "4: the same GROUP BY in another order" in rows["order_"]
    assert f"apart from synopsis {rows['base']}" in wr.queries["base"].explain()
    new = str(wr.sql("EXPLAIN SELECT k, QUANTILE(t, 0.5) AS m FROM s [RANGE 20 SLIDE 10] GROUP BY k"))
    assert "of its own" in new and "apart from synopsis 1, 2, 3, 5, 7: other columns whose values" in new
    wr.sql("SET disabled_rules = 'SS1'")
    wr.sql(f"CREATE QUERY again AS {APART['base']}")
    wr.sql("SET disabled_rules = ''")
    rows = {row["name"]: row["apart_from"] for row in wr.sql("SHOW SHARING").rows()}
    assert "9: queries or settings were different when it was created" in rows["base"]


def test_single_query_has_no_reasons(wr: Any) -> None:
    wr.sql(f"CREATE QUERY base AS {APART['base']}")
    wr.sql(f"CREATE QUERY longer AS {APART['base'].replace('2000', '4000')}")
    assert [row["apart_from"] for row in wr.sql("SHOW SHARING").rows()] == [None, None]
    assert "apart from" not in wr.queries["base"].explain()


def test_explain_of_a_new_query(open_state: Any) -> None:
    wr = open_state(disabled_rules="SS1")
    wr.sql(STREAM)
    wr.sql(f"CREATE QUERY either AS {QUERIES['either']}")
    assert "of its own" in str(wr.sql(f"EXPLAIN {QUERIES['tcp']}"))
    wr.sql("SET disabled_rules = ''")
    wr.sql(f"CREATE QUERY tcp AS {QUERIES['tcp']}")
    put(wr, *((t, "a", t % 3) for t in range(45)))
    told = wr.sql(f"EXPLAIN {QUERIES['udp']}").rows()
    lines = [row["plan"].strip() for row in told]
    assert any("shared with 2 other queries (SS1, CS2)" in line for line in lines)
    assert "SS4, CS7: sum(x): added from (x = 2 OR x = 1) less (x = 1)" in lines
    assert "Windows: windows that end before 40 are partial" in lines
    wr.sql(f"CREATE QUERY udp AS {QUERIES['udp']}")
    made = [row["plan"].strip() for row in wr.sql("EXPLAIN QUERY udp").rows()]
    assert [line for line in made if line.startswith(("SS4", "Windows", "Synopsis"))] == [
        line for line in lines if line.startswith(("SS4", "Windows", "Synopsis"))
    ]
    slow = [row["plan"].strip() for row in wr.sql(f"EXPLAIN {QUERIES['slow']}").rows()]
    assert "CS8: the answers of tcp" in slow
    assert not any(line.startswith("SS4") for line in slow)
    other = [row["plan"].strip() for row in wr.sql(f"EXPLAIN {QUERIES['alone']}").rows()]
    assert "Windows: windows that end before 70 are partial" in other


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_different_groupings_share_the_scan(open_state: Any, spark: Any, mode: str) -> None:
    """A micro-batch is one Spark job for any number of queries, synopses and derivations."""
    wr = open_state(preaggregate=mode)
    wr.sql(STREAM)
    for name, select in QUERIES.items():
        wr.query(name, select)
    for n, keys in enumerate(("k, x", "x % 2", "x, x % 2", "upper(k)")):
        for m, where in enumerate(("x = 1", "x = 2", "x = 1 OR x = 2")):
            wr.query(
                f"by{n}_{m}", f"SELECT {keys}, COUNT(*) AS n FROM s [RANGE 20 SLIDE 10] WHERE {where} GROUP BY {keys}"
            )
    for t in range(0, 60, 15):
        before = jobs(spark)
        put(wr, *((u, "ab"[u % 2], u % 4) for u in range(t, t + 15)))
        assert jobs(spark) - before == 1
    assert len(wr._engine.manager.stream("s").synopses) == 6
    assert wr.metrics()["s"]["preaggregated_by"][mode] == 4
    counts = {name: sum(row[-1] for row in answers(wr, name)) for name in ("by1_0", "by1_1", "by1_2")}
    assert counts["by1_2"] == counts["by1_0"] + counts["by1_1"] > 0
