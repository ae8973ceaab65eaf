"""Tables through the public interface: what needs Spark, reading them beside answers, and other names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import windrow
from engine.conftest import STREAM, Open
from windrow.engine.tables import commits as table_commits
from windrow.errors import CatalogError, ReadOnlyError, SourceError, TableError, UnsupportedError
from windrow.operators.layouts.keyed import Keyed

HOSTS = "CREATE TABLE hosts (ip STRING PRIMARY KEY, site STRING, n INT, at TIMESTAMP)"


def values(result: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in result.rows()), key=repr)


def test_expressions_of_spark(wr: windrow.Windrow) -> None:
    wr.sql(HOSTS)
    wr.sql("INSERT INTO hosts VALUES ('a', soundex('Robert'), 1, '2026-01-01 10:00:00'), ('b', NULL, NULL, NULL)")
    wr.sql("UPDATE hosts SET site = concat(site, '!'), n = bit_count(n + 6) WHERE ip RLIKE '[a-c]'")
    assert wr.table("hosts").rows()[0] | {"at": None} == {"ip": "a", "site": "R163!", "n": 3, "at": None}
    wr.sql("DELETE FROM hosts WHERE soundex(ip) = soundex('b')")
    assert [row["ip"] for row in wr.table("hosts").rows()] == ["a"]
    for text in ("VALUES ('x', NULL, NULL, 'noon')", "VALUES ('x', NULL, soundex('x'), NULL)"):
        with pytest.raises(TableError, match="does not fit column") as caught:
            wr.sql("INSERT INTO hosts " + text)
        assert caught.value.place is not None


def test_rows_of_every_kind(wr: windrow.Windrow) -> None:
    wr.sql(HOSTS)
    table = wr.table("hosts")
    assert table.insert([{"ip": "a", "n": 1}]) == 1
    assert table.upsert(pd.DataFrame({"ip": ["a", "b"], "n": [2.0, None]})) == 2
    assert table.upsert(pa.table({"ip": ["c"], "site": ["Bern"]})) == 1
    assert table.upsert(wr.spark.createDataFrame([("d", 4)], "ip STRING, n INT")) == 1
    assert [(row["ip"], row["n"]) for row in table.rows()] == [("a", 2), ("b", None), ("c", None), ("d", 4)]
    assert table.delete(["a", "zz"]) == 1 and len(table) == 3
    assert list(wr.tables) == ["hosts"] and wr.tables["HOSTS"].arrow().num_rows == 3
    assert table.pandas().shape == (3, 4)
    with pytest.raises(SourceError, match="takes a DataFrame that is not a stream") as caught:
        table.upsert(wr.spark.readStream.format("rate").load())
    assert "FROM STREAM" in (caught.value.remedy or "")
    with pytest.raises(KeyError):
        wr.tables["other"]


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_load(wr: windrow.Windrow, tmp_path: Path, form: str) -> None:
    wr.sql(HOSTS)
    wr.sql("INSERT INTO hosts (ip, site) VALUES ('a', 'old'), ('z', 'kept')")
    frame = wr.spark.createDataFrame([("Bern", "a", 7), (None, "b", None)], "site STRING, ip STRING, n INT")
    frame = frame.selectExpr("site", "ip", "n", "TIMESTAMP'2026-01-01 00:00:00' AS at")
    frame.coalesce(1).write.option("header", "true").format(form).save(str(tmp_path / "files"))
    wr.sql(f"LOAD INTO hosts FROM '{tmp_path / 'files'}' FORMAT {form}")
    found = [(row["ip"], row["site"], row["n"]) for row in wr.table("hosts").rows()]
    assert found == [("a", "Bern", 7), ("b", None, None), ("z", "kept", None)]


def test_load_without_a_header(wr: windrow.Windrow, tmp_path: Path) -> None:
    """Columns are taken in their order; the end of a path says how a file is separated, and options say more."""
    wr.sql(HOSTS)
    (tmp_path / "some.tsv").write_text("a\tBern, CH\t7\t2026-01-01 00:00:00\nb\t-\t\t\n")
    wr.sql(f"LOAD INTO hosts FROM '{tmp_path / 'some.tsv'}' OPTIONS (header 'false', nullValue '-')")
    found = [(row["ip"], row["site"], row["n"], row["at"] is None) for row in wr.table("hosts").rows()]
    assert found == [("a", "Bern, CH", 7, False), ("b", None, None, True)]
    (tmp_path / "few.tsv").write_text("c\tBasel\n")
    with pytest.raises(SourceError, match="have no column 'n'"):
        wr.sql(f"LOAD INTO hosts FROM '{tmp_path / 'few.tsv'}' OPTIONS (header 'false')")


def test_load_refuses_what_does_not_fit(wr: windrow.Windrow, tmp_path: Path) -> None:
    wr.sql(HOSTS)
    (tmp_path / "bad.csv").write_text("ip,site,n,at\na,x,seven,\n")
    (tmp_path / "few.csv").write_text("ip,site\na,x\n")
    with pytest.raises(TableError, match="does not fit column 'n'"):
        wr.sql(f"LOAD INTO hosts FROM '{tmp_path / 'bad.csv'}'")
    with pytest.raises(SourceError, match="have no column 'n'"):
        wr.sql(f"LOAD INTO hosts FROM '{tmp_path / 'few.csv'}'")
    with pytest.raises(SourceError, match="few.cvs, which does not exist") as caught:
        wr.sql(f"LOAD INTO hosts FROM '{tmp_path / 'few.cvs'}' FORMAT csv")
    assert "few.csv" in str(caught.value.remedy) and caught.value.place is not None
    with pytest.raises(TableError, match="'many' does not fit column 'n'"):
        wr.sql("UPDATE hosts SET n = 'many'")
    with pytest.raises(SourceError, match="does not tell its format"):
        wr.sql(f"LOAD INTO hosts FROM '{tmp_path}'")
    assert len(wr.table("hosts")) == 0


def test_tables_beside_answers(wr: windrow.Windrow) -> None:
    wr.sql("CREATE TABLE names (k STRING PRIMARY KEY, name STRING)")
    wr.sql("INSERT INTO names VALUES ('a', 'Anna'), ('b', 'Bert')")
    wr.query("q", "SELECT k, SUM(x) AS total FROM s [RANGE 5 SLIDE 5] GROUP BY k")
    wr.query("v", "SELECT k, x FROM s [RANGE 5]")
    wr.feed("s", [(1, "a", 2), (2, "b", 3), (6, "a", 4)])
    wr.run_available(close=True)
    joined = wr.sql("SELECT name, total FROM answers('q') JOIN names USING (k) ORDER BY window_end, name")
    assert [tuple(row.values()) for row in joined.rows()] == [("Anna", 2), ("Bert", 3), ("Anna", 4)]
    assert values(wr.sql("SELECT name, x FROM v JOIN names ON v.k = names.k")) == [("Anna", 4), ("Bert", 3)]
    wr.sql("INSERT INTO names SELECT concat(k, '2'), CAST(SUM(total) AS STRING) FROM answers('q') GROUP BY k")
    assert values(wr.sql("SELECT * FROM names WHERE k LIKE '%2'")) == [("a2", "6"), ("b2", "3")]


def test_names_are_unique(wr: windrow.Windrow) -> None:
    wr.sql(HOSTS)
    wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 5 SLIDE 5]")
    for text in (
        "CREATE STREAM hosts (t BIGINT) FROM memory",
        "CREATE QUERY hosts AS SELECT COUNT(*) AS n FROM s [RANGE 5 SLIDE 5]",
        "CREATE TABLE s (k INT PRIMARY KEY)",
        "CREATE TABLE Q (k INT PRIMARY KEY)",
        "CREATE TABLE hosts (k INT PRIMARY KEY)",
    ):
        with pytest.raises(CatalogError, match="already"):
            wr.sql(text)
    wr.query("v", "SELECT k FROM s [RANGE 5]")
    for text, says, remedy in (
        ("INSERT INTO s VALUES (1, 'a', 2)", "no table 's': this is the name of a stream", "wr.feed"),
        ("CREATE QUERY z AS SELECT k FROM v [RANGE 5]", "no stream 'v': this is the name of a query", "CREATE STREAM"),
        ("CREATE QUERY z AS SELECT k FROM s [RANGE 5] JOIN hostz ON k = ip", "no stream or table 'hostz'", "'hosts'"),
        ("SELECT * FROM hostss", "no stream or query 'hostss'", "'hosts'"),
        ("INSERT INTO hosts (ip) SELECT k FROM s [RANGE 5]", "no instant of stream 's' is complete", "punctuate"),
    ):
        with pytest.raises(windrow.WindrowError, match=says) as caught:
            wr.sql(text)
        assert remedy in str(caught.value.remedy) and caught.value.place is not None
    with pytest.raises(CatalogError, match="no stream 'hosts': this is the name of a table"):
        wr.feed("hosts", [("a",)])
    assert wr.sql("CREATE TABLE IF NOT EXISTS hosts (k INT PRIMARY KEY)").rows()[0]["result"].endswith("not changed")


def test_a_table_has_no_window(wr: windrow.Windrow) -> None:
    wr.sql(HOSTS)
    with pytest.raises((CatalogError, UnsupportedError)):
        wr.sql("SELECT COUNT(*) AS n FROM hosts [RANGE 5]")


def test_shown(wr: windrow.Windrow) -> None:
    wr.sql(HOSTS + " NON RETROACTIVE")
    wr.sql("INSERT INTO hosts (ip) VALUES ('a')")
    (row,) = wr.sql("SHOW TABLES").rows()
    assert (row["name"], row["key"], row["kind"], row["rows"]) == ("hosts", "ip", "non retroactive", 1)
    assert wr.sql("DESCRIBE hosts").rows()[0] == {"column": "ip", "type": "STRING", "note": "primary key"}
    shown = "\n".join(row["statement"] for row in wr.sql("SHOW CREATE TABLE hosts").rows())
    wr.sql("DROP TABLE hosts")
    wr.sql(shown)
    with pytest.raises(CatalogError, match="there is no table"):
        wr.sql("DROP TABLE nothing")
    wr.sql("DROP TABLE IF EXISTS nothing")


def test_restart_and_read_only(open_state: Open, spark: Any) -> None:
    wr = open_state()
    wr.sql(HOSTS)
    for i in range(50):
        wr.table("hosts").upsert([{"ip": f"h{i % 7}", "n": i}])
    before = wr.table("hosts").rows()
    assert len(list((wr.state_dir / "tables" / "1").iterdir())) < 25, "changes are folded into the base"
    reader = windrow.open(wr.state_dir, spark=spark, read_only=True)
    assert reader.table("hosts").rows() == before
    wr.table("hosts").delete(["h1"])
    assert len(reader.table("hosts")) == 6
    with pytest.raises(ReadOnlyError):
        reader.table("hosts").upsert([{"ip": "x"}])
    with pytest.raises(ReadOnlyError):
        reader.sql("DELETE FROM hosts")
    reader.close()
    wr.close()
    assert [row["ip"] for row in open_state().table("hosts").rows()] == [f"h{i}" for i in range(7) if i != 1]


JOINED = {
    "now": "SELECT s.k, x, name FROM s [RANGE 10] JOIN names ON s.k = names.k",
    "then": "SELECT s.k, x, name FROM s [RANGE 10] JOIN later ON s.k = later.k",
    "silent": "SELECT s.k, x, name FROM s [RANGE 10] JOIN names ON s.k = names.k WHERE x > 100",
}


def with_plans(wr: windrow.Windrow) -> None:
    wr.sql("CREATE TABLE names (k STRING PRIMARY KEY, name STRING)")
    wr.sql("CREATE TABLE later (k STRING PRIMARY KEY, name STRING) NON RETROACTIVE")
    for name in ("names", "later"):
        wr.sql(f"INSERT INTO {name} VALUES ('a', 'Anna'), ('b', 'Bert')")
    for name, select in JOINED.items():
        wr.query(name, select)


def change_tables(wr: windrow.Windrow, name: str) -> None:
    for table in ("names", "later"):
        wr.table(table).upsert([{"k": "a", "name": name}])


def changes_of(wr: windrow.Windrow) -> dict[str, list[tuple[Any, ...]]]:
    return {name: values(wr.queries[name].changes()) for name in JOINED}


@pytest.mark.parametrize(("home", "most"), [("driver", "8 MB"), ("spark", "0 B")])
def test_a_copy_of_the_state_joins_the_same_version(open_state: Open, tmp_path: Path, home: str, most: str) -> None:
    """A copy is what a crash leaves. Queries without a change commit no ticks; a statement commits them with itself."""
    wr = open_state("state", plan_home=home, broadcast_table_bytes=most)
    wr.sql(STREAM)
    with_plans(wr)
    wr.deposit("s", [(1, "a", 1), (2, "b", 2), (5, "c", 5)])
    wr.deposit("s", [(6, "c", 6)])
    change_tables(wr, "Ann")
    shutil.copytree(wr.state_dir, tmp_path / "copy", ignore=shutil.ignore_patterns("lock*"))
    other = open_state("copy", plan_home=home, broadcast_table_bytes=most)
    for one in (wr, other):
        one.deposit("s", [(8, "a", 8), (9, "a", 200)])
        change_tables(one, "An")
        one.deposit("s", [(12, "b", 12)])
        one.end_input("s")
    assert changes_of(wr) == changes_of(other)
    (first,) = [row for row in changes_of(wr)["now"] if row[0] == "-" and row[-1] == "Anna"]
    assert first[1] == 6, "at tick 7, the first that was not committed"
    assert {row[1]: row[-1] for row in changes_of(wr)["then"]} == {1: "Anna", 2: "Bert", 8: "Ann", 9: "An", 12: "Bert"}


@pytest.mark.parametrize("kind", ["", "NON RETROACTIVE"])
def test_ticks_in_spark_do_not_read_the_table_in_the_driver(
    open_state: Open, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Tasks map the blocks of a large table; the driver tells them where these are."""
    wr = open_state(plan_home="spark", broadcast_table_bytes="1 KB")
    wr.sql(STREAM)
    wr.sql(f"CREATE TABLE names (k STRING PRIMARY KEY, name STRING) {kind}")
    wr.table("names").upsert([(f"k{i}", f"name {i}") for i in range(5_000)])
    query = wr.query("q", "SELECT s.k, x, name FROM s [RANGE 10] JOIN names ON s.k = names.k")
    assert wr._engine.tables.table("names").base.is_bucketed

    def read(*_: Any) -> None:
        raise AssertionError("rows of the table were read in the driver")

    with monkeypatch.context() as patch:
        for name in ("rows", "take", "find", "in_order"):
            patch.setattr(Keyed, name, read)
        wr.deposit("s", [(1, "k1", 1), (2, "none", 2), (3, "k4999", 3)])
        wr.deposit("s", [(4, "k2", 4)])
    wr.table("names").upsert([("k1", "new"), ("none", "now")])
    with monkeypatch.context() as patch:
        for name in ("rows", "take", "find", "in_order"):
            patch.setattr(Keyed, name, read)
        wr.deposit("s", [(5, "k1", 5)])
        wr.deposit("s", [(6, "k1", 6)])
    old = [("k1", 1, "name 1")] if kind else [("k1", 1, "new"), ("none", 2, "now")]
    shown = [*old, ("k2", 4, "name 2"), ("k4999", 3, "name 4999"), ("k1", 5, "new")]
    assert values(query.view()) == sorted(shown, key=repr)
    assert wr._engine.plans.query("q").home == "spark"


def test_a_table_cannot_go_while_it_is_read(wr: windrow.Windrow) -> None:
    wr.sql("SET broadcast_table_bytes = '0 B'")
    with_plans(wr)
    assert "bucketed blocks: " in wr.queries["now"].explain() and "found by k" in wr.queries["then"].explain()
    with pytest.raises(CatalogError, match="read by: now, silent"):
        wr.sql("DROP TABLE names")
    wr.sql("DROP QUERY now")
    wr.sql("DROP QUERY silent")
    wr.sql("DROP TABLE names")
    assert [row["queries"] for row in wr.sql("SHOW TABLES").rows()] == [1]


def test_rows_of_a_table_are_not_written_with_every_merge(open_state: Open) -> None:
    """The view of a window of few ticks is merged again and again; the rows of a table in the state stay as they are."""
    wr = open_state(plan_home="driver")
    wr.sql(STREAM)
    wr.sql("CREATE TABLE names (k STRING PRIMARY KEY, name STRING)")
    wr.sql("INSERT INTO names VALUES ('a', 'Anna')")
    wr.query("now", JOINED["now"])

    def written(kind: str, ticks: range) -> list[int]:
        for tick in ticks:
            wr.deposit("s", [(tick, "a", tick)])
        found = wr._engine.opened.catalog.rows("SELECT DISTINCT seq FROM plan_parts WHERE kind = ?", (kind,))
        return [row["seq"] for row in found]

    state, view = written("state", range(1, 8)), written("view", range(8, 9))
    assert written("state", range(9, 16)) == state and written("view", range(16, 17)) > view
    wr.sql("UPDATE names SET name = 'Ann'")
    (changed,) = written("state", range(17, 26))
    assert changed > state[0]
    wr.close()
    wr = open_state(plan_home="driver")
    wr.deposit("s", [(26, "a", 26)])
    assert values(wr.queries["now"].view()) == [("a", x, "Ann") for x in range(16, 26)]


LOG = "CREATE STREAM log (t BIGINT, k STRING, op STRING, name STRING) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"


def test_fed_by_a_stream(open_state: Open, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_commits, "FEW_CHANGES", 3)
    wr = open_state()
    wr.sql(STREAM)
    wr.sql(LOG)
    wr.query("reader", "SELECT k FROM log [RANGE 5]")
    wr.feed("log", [(1, "z", "u", "read before the table")])
    wr.run_available()
    wr.sql("CREATE TABLE names (k STRING PRIMARY KEY, name STRING) FROM STREAM log DELETE WHEN op = 'd'")
    for i in range(2, 60, 6):
        wr.feed("log", [(j, f"k{j % 5}", "u", f"n{j}") for j in range(i, i + 6)])
        wr.run_available()
    wr.feed("log", [(62, "k0", "d", None), (63, "k1", "u", "last")])
    wr.run_available()
    expected = [("k1", "n61"), ("k2", "n57"), ("k3", "n58"), ("k4", "n59")]
    assert values(wr.sql("SELECT * FROM names")) == expected
    assert len(list((wr.state_dir / "tables" / "1").iterdir())) < 8, "changes are folded into the base"
    assert wr.sql("SHOW TABLES").rows()[0]["kind"] == "retroactive, fed by stream log"
    # A query that comes later joins what the table has.
    query = wr.query("q", "SELECT x, name FROM s [RANGE 10] JOIN names ON s.k = names.k")
    wr.feed("s", [(58, "k3", 3), (62, "k1", 1), (63, "k2", 2)])
    wr.run_available()
    assert values(query.view()) == [(1, "n61"), (3, "n58")]
    reader = windrow.open(wr.state_dir, spark=spark, read_only=True)
    assert values(reader.sql("SELECT * FROM names")) == expected
    with pytest.raises(CatalogError, match="read by: reader, q, table names"):
        wr.sql("DROP STREAM log")
    with pytest.raises(TableError, match="fed by stream 'log'"):
        wr.table("names").upsert([("a", "b")])
    wr.sql("DROP QUERY q; DROP TABLE names; DROP QUERY reader; DROP STREAM log")


def test_fed_by_a_derived_stream(wr: windrow.Windrow) -> None:
    wr.sql("CREATE STREAM most AS SELECT k, x AS top FROM s [UNBOUNDED] WHERE x > 4")
    wr.sql("CREATE TABLE tops (k STRING PRIMARY KEY, top INT) NON RETROACTIVE FROM STREAM most")
    query = wr.query("q", "SELECT s.k, x, top FROM s [RANGE 10] LEFT JOIN tops ON s.k = tops.k")
    wr.feed("s", [(1, "a", 1), (2, "a", 7), (3, "a", 2), (4, "b", 9), (5, "b", 1)])
    wr.run_available(close=True)
    assert values(query.view()) == [("a", 1, None), ("a", 2, 7), ("a", 7, 7), ("b", 1, 9), ("b", 9, 9)]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("(k STRING PRIMARY KEY, other STRING) FROM STREAM log", "which has no column 'other'"),
        ("(k INT PRIMARY KEY) FROM STREAM log", "column 'k' is INT in table 't', and STRING in stream 'log'"),
        ("(k STRING PRIMARY KEY) FROM STREAM nothing", "there is no stream 'nothing'"),
        ("(k STRING PRIMARY KEY) FROM STREAM log DELETE WHEN what = 1", "what"),
        ("(k STRING PRIMARY KEY) FROM STREAM log DELETE WHEN COUNT(*) > 1", "aggregate"),
        ("(k STRING PRIMARY KEY) FROM STREAM log DELETE WHEN k", "DELETE WHEN needs a condition, and 'k' is STRING"),
    ],
)
def test_refused_feeds(wr: windrow.Windrow, table: str, says: str) -> None:
    wr.sql(LOG)
    with pytest.raises(windrow.WindrowError, match=says):
        wr.sql(f"CREATE TABLE t {table}")
    assert not list(wr.tables)


def test_units_of_a_fed_table(wr: windrow.Windrow) -> None:
    wr.sql("CREATE STREAM log (ts TIMESTAMP, k STRING) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    wr.sql("CREATE TABLE t (k STRING PRIMARY KEY) FROM STREAM log")
    with pytest.raises(windrow.WindrowError, match="changes by the TIMESTAMP of stream 'log'"):
        wr.query("q", "SELECT s.k FROM s [RANGE 5] JOIN t ON s.k = t.k")


def test_shop_example(open_state: Open) -> None:
    root = Path(__file__).resolve().parents[2]
    wr = open_state()
    wr.sql(
        (root / "examples/shop/app.cql").read_text(encoding="utf-8").replace("examples/shop", f"{root}/examples/shop")
    )
    wr.run_available(close=True)
    assert values(wr.queries["sold"].view()) == [
        (1, "Bern", 30),
        (2, "Basel", 8),
        (3, "Zug", 12),
        (4, "Bern", 12),
        (5, "Basel", 36),
    ]
    assert values(wr.queries["at_the_last_price"].view()) == [(1, "hay", 36), (3, "hay", 12), (4, "hay", 12)]
    assert values(wr.queries["abandoned"].view()) == [(3, "eve")]
    assert [row["till"] for row in wr.queries["silent"].view().rows()] == ["b"]
