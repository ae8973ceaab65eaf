"""Tables without Spark: changes against a dict, their commits, and what restoring them gives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.catalog.relations import define_table
from windrow.catalog.store import Catalog
from windrow.cql import parse_one
from windrow.cql.statements import CreateTable, DeleteRows, InsertRows, UpdateRows
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.kernels.plan_tables import StoredRelation
from windrow.engine.plans.spark_plans import stored_relation
from windrow.engine.tables import commits as table_commits
from windrow.engine.tables.commits import TableCommits
from windrow.engine.tables.evaluating import RowExpressions
from windrow.engine.tables.manager import TableManager
from windrow.engine.tables.uses import TableUse
from windrow.errors import BindError, CatalogError, TableError, WindrowError
from windrow.operators.tables.kernel import Kernel

CREATE = "CREATE TABLE t (k STRING PRIMARY KEY, n INT, d DECIMAL(6,2), at TIMESTAMP)"


def no_spark() -> Any:
    raise AssertionError("this needs no Spark")


class Tables:
    """A state directory with tables, which can be opened again."""

    def __init__(self, root: Path, broadcast_bytes: int = 8 << 20):
        self.root = root
        self.broadcast_bytes = broadcast_bytes
        self._open()

    def _open(self) -> None:
        self.catalog = Catalog(self.root / "catalog.sqlite")
        self.blocks = BlockStore(self.root, self.catalog)
        commits = TableCommits(self.catalog, self.blocks, lambda: self.broadcast_bytes)
        self.manager = TableManager(commits, RowExpressions(Kernel(), no_spark, lambda: 1 << 20), no_spark)
        self.manager.recover()

    def reopen(self) -> None:
        self.catalog.close()
        self._open()
        self.blocks.sweep()

    def sql(self, text: str) -> int:
        statement = parse_one(text)
        if isinstance(statement, CreateTable):
            self.manager.create(statement)
            return 0
        if isinstance(statement, InsertRows):
            return self.manager.insert(statement, text, None)[0]
        if isinstance(statement, UpdateRows):
            return self.manager.update(statement, text)
        return self.manager.delete(cast(DeleteRows, statement), text)

    def read_up_to(self, seq: int) -> None:
        """A plan reads table 1, and has seen its changes up to this one."""
        with self.catalog.transaction() as tx:
            tx.execute("INSERT INTO plans (name, id, statement, saved) VALUES ('p', 1, '', '')")
            tx.execute("INSERT INTO plan_relations (plan, relation, seq) VALUES (1, 1, ?)", (seq,))

    def rows(self, name: str = "t") -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.manager.table(name).rows.to_pylist()]


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    found = Tables(tmp_path)
    yield found
    found.catalog.close()


def test_statements(tables: Tables) -> None:
    tables.sql(CREATE)
    assert tables.sql("INSERT INTO t (k, n) VALUES ('b', 2), ('a', 1 + 2)") == 2
    assert [row[:2] for row in tables.rows()] == [("a", 3), ("b", 2)]
    assert tables.sql("UPDATE t SET n = n * 10, d = n / 4 WHERE n > 2") == 1
    assert [(k, n, str(d)) for k, n, d, _ in tables.rows()] == [("a", 30, "0.75"), ("b", 2, "None")]
    assert tables.sql("UPDATE t SET at = '2026-01-01 00:00:00'") == 2
    assert str(tables.rows()[0][3]) == "2026-01-01 00:00:00+00:00"
    assert tables.sql("DELETE FROM t WHERE k = 'b' AND n = 2") == 1
    assert tables.sql("DELETE FROM t WHERE k = 'b'") == 0
    assert [row[0] for row in tables.rows()] == ["a"]
    assert tables.manager.table("t").version.seq == 4, "a statement that changes nothing is not a change"


def test_insert_of_a_script_that_is_run_again(tables: Tables) -> None:
    tables.sql(CREATE)

    def insert(rows: str) -> tuple[int, int]:
        text = f"INSERT INTO t (k, n) VALUES {rows}"
        return tables.manager.insert(replace(cast(InsertRows, parse_one(text)), is_repeatable=True), text, None)

    assert insert("('a', 1), ('b', NULL)") == (2, 0)
    assert insert("('b', NULL), ('c', 3), ('a', 1)") == (1, 2)
    assert insert("('a', 1)") == (0, 1)
    assert tables.manager.table("t").version.seq == 2, "rows that are there are no change"
    before = tables.rows()
    for other in ("('a', 1), ('b', 2)", "('d', 4), ('a', NULL)"):
        with pytest.raises(TableError, match="exists already") as caught:
            insert(other)
        assert "LOAD" in str(caught.value.remedy)
    assert tables.rows() == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("INSERT INTO t (k) VALUES ('a')", "the key k = a of table 't' exists already"),
        ("INSERT INTO t (k) VALUES ('x'), ('x')", "the key k = x of table 't' is given twice"),
        ("INSERT INTO t (n) VALUES (1)", "cannot be NULL"),
        ("INSERT INTO t (k, n) VALUES ('x', 1.5)", "1.5 does not fit column 'n'"),
        ("INSERT INTO t (k, n) VALUES ('x', '7.5')", "'7.5' does not fit column 'n'"),
        ("INSERT INTO t (k, n) VALUES ('x', 3000000000)", "does not fit column 'n' of table 't', which is INT"),
        ("INSERT INTO t (k, d) VALUES ('x', 1.234)", "does not fit column 'd'"),
        ("INSERT INTO t (k, d) VALUES ('x', 12345)", "does not fit column 'd'"),
        ("INSERT INTO t (k, n) VALUES ('x')", "a row has 1 values, and 2 columns are filled"),
        ("INSERT INTO t (k, z) VALUES ('x', 1)", "'z' is not a column of table 't'"),
        ("INSERT INTO t (k) VALUES (n)", "'n' is a name"),
        ("UPDATE t SET k = 'x'", "would be that of two rows"),
        ("UPDATE t SET k = 'b' WHERE k = 'a'", "the key k = b of table 't' exists already"),
        ("UPDATE t SET k = NULL WHERE k = 'a'", "cannot be NULL"),
        ("UPDATE t SET n = z", "'z' is not a column"),
        ("UPDATE t SET n = s.n", "'s' is not the table that changes"),
        ("UPDATE t SET n = COUNT(*)", "an aggregate cannot stand here"),
        ("UPDATE t SET n = reflect('a', 'b')", "reflect"),
        ("UPDATE t SET n = n WHERE n", "WHERE needs a condition"),
        ("DELETE FROM u", "there is no table 'u'"),
    ],
)
def test_refused_statements_change_nothing(tables: Tables, text: str, says: str) -> None:
    tables.sql(CREATE)
    tables.sql("INSERT INTO t (k, n) VALUES ('a', 1), ('b', 2)")
    before = tables.rows()
    with pytest.raises(WindrowError, match=says) as caught:
        tables.sql(text)
    assert caught.value.remedy
    assert tables.rows() == before
    tables.reopen()
    assert tables.rows() == before


def test_keys_may_be_exchanged(tables: Tables) -> None:
    tables.sql("CREATE TABLE t (k INT PRIMARY KEY, n INT)")
    tables.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    tables.sql("UPDATE t SET k = 3 - k")
    assert tables.rows() == [(1, 20), (2, 10)]


def test_deleted_keys_of_a_non_retroactive_table(tables: Tables) -> None:
    tables.sql(CREATE + " NON RETROACTIVE")
    tables.sql("INSERT INTO t (k) VALUES ('a'), ('b'), ('c')")
    tables.sql("UPDATE t SET n = 1")
    tables.sql("DELETE FROM t WHERE k = 'a'")
    tables.sql("UPDATE t SET k = 'z' WHERE k = 'b'")
    for _ in range(2):
        for text in ("INSERT INTO t (k) VALUES ('a')", "INSERT INTO t (k) VALUES ('b')", "UPDATE t SET k = 'a'"):
            with pytest.raises(TableError, match="was deleted before|that of two rows"):
                tables.sql(text)
        with pytest.raises(TableError, match="was deleted before"):
            tables.manager.put(tables.manager.table("t"), [{"k": "a"}], replaces=True)
        tables.reopen()
    table = tables.manager.table("t")
    tables.manager.drop(table, [])
    tables.sql(CREATE + " NON RETROACTIVE")
    assert tables.sql("INSERT INTO t (k) VALUES ('a')") == 1


def test_keys_of_a_retroactive_table_come_back(tables: Tables) -> None:
    tables.sql(CREATE)
    tables.sql("INSERT INTO t (k) VALUES ('a')")
    tables.sql("DELETE FROM t")
    assert tables.sql("INSERT INTO t (k) VALUES ('a')") == 1


def test_rows_from_python(tables: Tables) -> None:
    tables.sql("CREATE TABLE t (a INT, b STRING, v DOUBLE, PRIMARY KEY (b, a))")
    table = tables.manager.table("t")
    assert tables.manager.put(table, [(1, "x", 0.5), (2, "x", 1.5)], replaces=False) == 2
    assert tables.manager.put(table, pa.table({"b": ["x", "y"], "a": [1, 1]}), replaces=True) == 2
    assert tables.manager.put(table, [{"a": 9, "b": "q"}, {"a": 9, "b": "q", "v": 3}], replaces=True) == 2
    assert tables.rows() == [(9, "q", 3.0), (1, "x", None), (2, "x", 1.5), (1, "y", None)]
    assert tables.manager.remove(table, [{"a": 1, "b": "x"}, {"a": 7, "b": "x"}]) == 1
    assert tables.manager.remove(table, [(2, "x")]) == 1
    assert [row[:2] for row in tables.rows()] == [(9, "q"), (1, "y")]
    for rows in ([{"a": "one", "b": "x"}], [{"c": 1}], [(1, "x")], 5):
        with pytest.raises(TableError):
            tables.manager.put(table, rows, replaces=True)
    with pytest.raises(TableError, match="exists already"):
        tables.manager.put(table, [(9, "q", 1.0)], replaces=False)


def test_definitions(tables: Tables) -> None:
    for text in ("CREATE TABLE t (__a INT PRIMARY KEY)", "CREATE TABLE t (a DOUBLE PRIMARY KEY)"):
        with pytest.raises(BindError):
            define_table(cast(CreateTable, parse_one(text)))
    tables.sql(CREATE)
    with pytest.raises(CatalogError, match="exists already"):
        tables.sql(CREATE)
    tables.sql(CREATE.replace("TABLE", "TABLE IF NOT EXISTS"))
    with pytest.raises(CatalogError, match="read by: q"):
        tables.manager.drop(tables.manager.table("t"), ["q"])


def test_tick_in_spark_does_not_wait_for_a_statement(tables: Tables) -> None:
    """The statement waits for the tick: they would wait for each other."""
    tables.sql(CREATE)
    tables.sql("INSERT INTO t VALUES ('a', 1, 2.5, NULL)")
    table, found = tables.manager.table("t"), list[StoredRelation]()
    use = TableUse("0.1", table, is_whole=False)
    with table.changing:
        tick = threading.Thread(target=lambda: found.append(stored_relation(use, {})), daemon=True)
        tick.start()
        tick.join(10)
        assert [one.seq for one in found] == [1]


def test_drop_removes_its_blocks(tables: Tables) -> None:
    tables.sql(CREATE)
    tables.sql("INSERT INTO t (k) VALUES ('a')")
    folder = tables.root / "tables" / "1"
    assert len(list(folder.iterdir())) == 1
    tables.manager.drop(tables.manager.table("t"), [])
    assert not list(folder.iterdir())


KEYS = st.sampled_from("abcdef")
VALUES = st.one_of(st.none(), st.integers(0, 3))
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.lists(st.tuples(KEYS, VALUES), max_size=4)),
        st.tuples(st.just("delete"), st.lists(KEYS, max_size=3)),
        st.tuples(st.just("reopen"), st.just([])),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(OPERATIONS, st.integers(0, 12), st.sampled_from([0, 60, 8 << 20]), st.booleans())
def test_changes_against_a_dict(
    tmp_path_factory: pytest.TempPathFactory, operations: Any, seen: int, broadcast_bytes: int, is_read: bool
) -> None:
    """Any sequence of changes and restarts, small and large tables, which become one or the other on the way; `since`
    gives what turns the rows as of a change into those of now."""
    few, table_commits.FEW_CHANGES = table_commits.FEW_CHANGES, 3
    tables, known = Tables(tmp_path_factory.mktemp("tables"), broadcast_bytes), dict[str, int | None]()
    try:
        tables.sql("CREATE TABLE t (k STRING PRIMARY KEY, n INT)")
        versions = {0: dict(known)}
        if is_read:
            tables.read_up_to(seen)
        for kind, given_ in operations:
            if kind == "reopen":
                tables.reopen()
                continue
            table = tables.manager.table("t")
            if kind == "upsert":
                tables.manager.put(table, given_, replaces=True)
                known |= dict(given_)
            else:
                tables.manager.remove(table, given_)
                known = {k: n for k, n in known.items() if k not in given_}
            versions[table.version.seq] = dict(known)
            assert tables.rows() == sorted(known.items())
            base = tables.manager.table("t").base
            assert base.is_bucketed or not known or broadcast_bytes > 0
        table = tables.manager.table("t")
        first = min((change.seq for change in table.changes), default=table.version.seq + 1) - 1
        assert first <= seen or not is_read, "what a plan has not seen is kept"
        if first <= seen <= table.version.seq:
            delta = table.since(seen).to_pylist()
            then = set(versions[seen].items())
            gone = {(row["k"], row["n"]) for row in delta if row["__n"] < 0}
            come = {(row["k"], row["n"]) for row in delta if row["__n"] > 0}
            assert gone <= then and not come & then and (then - gone) | come == set(known.items())
    finally:
        table_commits.FEW_CHANGES = few
        tables.catalog.close()
