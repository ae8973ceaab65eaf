"""ALTER QUERY … PAUSE and RESUME: nothing is missing afterwards, and nothing comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windrow
from engine.conftest import Open
from engine.plan_streams import JOIN, A, B, lines, play, rows
from windrow.errors import CatalogError

SLIDING = "SELECT k, COUNT(*) AS n FROM a [RANGE 10 SLIDE 5] GROUP BY k"


def state(wr: windrow.Windrow, name: str) -> Any:
    return next(row["state"] for row in wr.sql("SHOW QUERIES").rows() if row["name"] == name)


@pytest.mark.parametrize("restart", [False, True])
def test_continuous_query_goes_on_where_it_was(open_state: Open, tmp_path: Path, restart: bool) -> None:
    reference, wr = open_state("reference"), open_state()
    reference.sql(f"{A}; {B}; CREATE QUERY q AS {JOIN}")
    play(reference)
    wr.sql(f"{A}; {B}; CREATE QUERY q AS {JOIN} INTO jsonl OPTIONS (path '{tmp_path}/q')")
    play(wr, 1)
    assert rows(wr.sql("ALTER QUERY q PAUSE")) == [("query q is paused",)]
    assert rows(wr.sql("ALTER QUERY q PAUSE")) == [("query q is paused already",)]
    seen, view = rows(wr.queries["q"].changes()), rows(wr.queries["q"].view())
    for one, other in (([(5, "u", 3), (8, "w", 4)], [(6, "u", 30), (9, "w", 40)]),):
        wr.deposit("a", one)
        wr.deposit("b", other)
    if restart:
        wr.close()
        wr = open_state()
    q = wr.queries["q"]
    assert rows(q.changes()) == seen == lines(tmp_path / "q") and rows(q.view()) == view
    assert state(wr, "q") == "paused: 6 tuples wait for it"
    assert "paused" in str(q.explain()) and q.metrics()["state"] == "paused"
    assert wr.sql("DESCRIBE q").rows()[-1] == {"column": None, "type": None, "note": f"state: {state(wr, 'q')}"}
    assert q.resume() and not q.resume()
    assert state(wr, "q") == "active" and wr.sql("DESCRIBE q").rows()[-1]["column"] == "y"
    wr.deposit("a", [(20, "u", 5)])
    wr.deposit("b", [(21, "u", 50), (24, "x", 0)])
    assert rows(q.changes()) == rows(reference.queries["q"].changes()) == lines(tmp_path / "q")


def test_table_that_changes_meanwhile(open_state: Open, tmp_path: Path) -> None:
    """The changes take effect at the first tick after the pause, also after a restart, once."""
    wr = open_state()
    wr.sql(f"{A}; CREATE TABLE named (k STRING PRIMARY KEY, name STRING)")
    wr.sql("INSERT INTO named VALUES ('u', 'one'), ('v', 'two')")
    join = "SELECT a.k, x, name FROM a [RANGE 10] JOIN named ON a.k = named.k"
    wr.sql(f"CREATE QUERY q AS {join} INTO jsonl OPTIONS (path '{tmp_path}/q')")
    wr.deposit("a", [(1, "u", 1), (2, "v", 2), (3, "w", 3)])
    wr.sql("ALTER QUERY q PAUSE")
    wr.sql("UPDATE named SET name = 'ONE' WHERE k = 'u'; DELETE FROM named WHERE k = 'v'")
    wr.sql("INSERT INTO named VALUES ('w', 'three')")
    wr.deposit("a", [(4, "u", 4), (6, "v", 5)])
    wr.close()
    wr = open_state()
    wr.queries["q"].resume()
    before = [("+", 1, 11, "u", 1, "one"), ("+", 2, 12, "v", 2, "two")]
    after = [("-", 3, 11, "u", 1, "one"), ("-", 3, 12, "v", 2, "two")]
    after += [("+", 3, 11, "u", 1, "ONE"), ("+", 3, 13, "w", 3, "three"), ("+", 4, 14, "u", 4, "ONE")]
    assert rows(wr.queries["q"].changes()) == [*before, *after] == lines(tmp_path / "q")


def test_query_whose_sink_fails(open_state: Open) -> None:
    """It can be paused; what was due then comes once the sink is repaired."""

    class Failing:
        fails, batches = False, list[Any]()

        def write(self, batch: Any) -> None:
            if self.fails:
                raise OSError("no")
            self.batches += rows(batch.table)

    wr, sink = open_state(), Failing()
    wr.sql(A)
    q = wr.query("q", "SELECT k FROM a [RANGE 5]", sink=sink)
    wr.deposit("a", [(1, "u", 1), (2, "v", 2)])
    sink.fails = True
    with pytest.raises(OSError):
        wr.deposit("a", [(3, "w", 1)])
    assert q.pause() and len(sink.batches) == 1
    wr.deposit("a", [(4, "x", 1)])
    sink.fails = False
    wr.deposit("a", [(5, "y", 1)])
    assert len(sink.batches) == 1 and q.resume()
    assert [row[3] for row in sink.batches] == ["u", "v", "w", "x"] == [row[3] for row in rows(q.changes())]


@pytest.mark.parametrize("restart", [False, True])
def test_answers_of_a_periodic_query_wait(open_state: Open, tmp_path: Path, restart: bool) -> None:
    wr = open_state()
    wr.sql(f"{A}; CREATE QUERY p AS {SLIDING} INTO jsonl OPTIONS (path '{tmp_path}/p')")
    wr.sql("CREATE QUERY other AS SELECT COUNT(*) AS n FROM a [RANGE 5 SLIDE 5]")
    wr.deposit("a", [(1, "u", 1), (6, "v", 1)])
    written = lines(tmp_path / "p")
    assert len(written) == 1
    assert wr.queries["p"].pause()
    wr.deposit("a", [(11, "u", 1), (16, "v", 1)])
    assert lines(tmp_path / "p") == written and len(rows(wr.queries["other"].answers())) == 3
    assert state(wr, "p") == "paused: 1 batches of answers wait"
    assert wr.sql("DESCRIBE p")["note"][-1] == "state: paused: 1 batches of answers wait"
    if restart:
        wr.close()
        wr = open_state()
        assert lines(tmp_path / "p") == written and state(wr, "p").startswith("paused")
    wr.queries["p"].resume()
    assert len(lines(tmp_path / "p")) == len(rows(wr.queries["p"].answers())) == 5
    wr.deposit("a", [(21, "u", 1)])
    assert len(lines(tmp_path / "p")) == len(rows(wr.queries["p"].answers())) == 7


def test_subscribers_get_what_waited_in_order(open_state: Open) -> None:
    wr, told = open_state(), list[Any]()
    wr.sql(f"{A}; CREATE QUERY p AS {SLIDING}")
    q = wr.queries["p"]
    q.subscribe(lambda answer: told.append(answer.window_end))
    wr.deposit("a", [(1, "u", 1), (6, "v", 1)])
    q.pause()
    wr.deposit("a", [(11, "u", 1)])
    wr.deposit("a", [(16, "v", 1)])
    assert told == [5]
    q.resume()
    assert told == [5, 10, 15]


def test_join_with_slide(open_state: Open) -> None:
    wr = open_state()
    wr.sql(
        f"{A}; {B}; CREATE QUERY q AS SELECT a.k, x, y FROM a [RANGE 6 SLIDE 3] JOIN b [RANGE 6 SLIDE 3] ON a.k = b.k"
    )
    wr.sql("CREATE QUERY r AS SELECT a.k, x, y FROM a [RANGE 6 SLIDE 3] JOIN b [RANGE 6 SLIDE 3] ON a.k = b.k")
    play(wr, 1)
    wr.sql("ALTER QUERY q PAUSE")
    play(wr)
    assert len(rows(wr.queries["q"].answers())) < len(rows(wr.queries["r"].answers()))
    wr.sql("ALTER QUERY q RESUME")
    assert rows(wr.queries["q"].answers()) == rows(wr.queries["r"].answers()) != []


def test_unknown_query(open_state: Open) -> None:
    wr = open_state()
    wr.sql(f"{A}; CREATE STREAM d AS SELECT k FROM a [UNBOUNDED]")
    for name, message in (("nobody", "there is no query"), ("d", "is a derived stream")):
        with pytest.raises(CatalogError, match=message):
            wr.sql(f"ALTER QUERY {name} PAUSE")
