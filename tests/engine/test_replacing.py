"""CREATE OR REPLACE QUERY: what stays, what is reported of the difference, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import windrow
from engine.conftest import Open
from engine.plan_streams import JOIN, MICRO_BATCHES, A, B, lines, play, rows
from windrow.errors import BindError, CatalogError, StateError, UnsupportedError

GROUPS = "SELECT k, COUNT(*) AS n, SUM(x) AS total FROM a [RANGE 10] GROUP BY k"
SLIDING_JOIN = "SELECT a.k FROM a [RANGE 10 SLIDE 5] JOIN b [RANGE 10 SLIDE 5] ON a.k = b.k"


@pytest.fixture
def ab(open_state: Open) -> windrow.Windrow:
    """An open state directory with the streams a and b."""
    opened = open_state()
    opened.sql(f"{A}; {B}")
    return opened


def replay(changes: list[tuple[Any, ...]]) -> Counter[Any]:
    """The rows that came and were not withdrawn, by values and end."""
    found = Counter[Any]()
    for op, _, exp, *values in changes:
        found[(exp, *values)] += 1 if op == "+" else -1
    assert min(found.values(), default=0) >= 0, "nothing is withdrawn that is not there"
    return +found


@pytest.mark.parametrize("home", ["driver", "spark"])
def test_state_of_groups_is_kept(open_state: Open, home: str) -> None:
    """No tuple of the window is kept for a group-by, yet the new answer is complete at once."""
    ab = open_state(plan_home=home)
    ab.sql(A)
    told = []
    q = ab.query("q", GROUPS)
    q.subscribe(lambda batch: told.append(rows(batch.table)))
    ab.deposit("a", [(1, "u", 1), (2, "v", 2), (3, "u", 3), (5, "u", 0)])
    told.clear()
    outcome = ab.sql(f"CREATE OR REPLACE QUERY q AS {GROUPS} HAVING n > 1")
    assert rows(outcome)[0][0] == "query q: every answer is complete"
    assert rows(q.view()) == [("u", 2, 4)] and told == [[("-", 5, None, "v", 1, 2)]]
    ab.deposit("a", [(6, "v", 5), (12, "w", 0)])
    assert sorted(rows(q.view())) == [("u", 2, 3), ("v", 2, 7)]
    assert replay(rows(q.changes())) == Counter({(None, "u", 2, 3): 1, (None, "v", 2, 7): 1})
    ab.close()
    with open_state(plan_home=home) as again:
        again.deposit("a", [(16, "w", 0)])
        assert rows(again.queries["q"].view()) == []
        assert "HAVING" in str(rows(again.sql("SHOW CREATE QUERY q")))


def test_tuples_of_a_join_are_kept(ab: windrow.Windrow) -> None:
    q, _ = ab.query("q", JOIN), ab.query("keeps", JOIN)
    ab.deposit("a", [(1, "u", 1), (3, "v", 2), (5, "u", 3)])
    ab.deposit("b", [(2, "u", 10), (4, "v", 20), (5, "z", 0)])
    assert rows(q.view()) == [("u", 1, 10), ("v", 2, 20)]
    told = []
    q.subscribe(lambda batch: told.append(rows(batch.table)))
    again = ab.query("q", f"{JOIN} WHERE x + y < 20", replace=True)
    assert told == [[("-", 5, 9, "v", 2, 20)]] and rows(q.view()) == rows(again.view()) == [("u", 1, 10)]
    told.clear()
    ab.query("q", f"{JOIN} WHERE x * 2 > 3 AND y > 5", replace=True)
    assert told == [[("-", 5, 7, "u", 1, 10), ("+", 4, 9, "v", 2, 20)]], "what the conditions need of tuples is kept"
    ab.query(
        "q", "SELECT a.k, COUNT(*) AS n FROM a [RANGE 10] JOIN b [RANGE 5] ON a.k = b.k GROUP BY a.k", replace=True
    )
    assert sorted(rows(again.view())) == [("u", 1), ("v", 1)]
    ab.deposit("a", [(6, "v", 5)])
    ab.deposit("b", [(6, "u", 30)])
    assert sorted(rows(q.view())) == [("u", 2), ("v", 1)]
    assert ab.queries["q"].metrics()["state"] == "active"


def test_other_columns(ab: windrow.Windrow) -> None:
    """What goes has the old columns, what comes the new ones; the retained changes begin anew."""
    q, told = ab.query("q", GROUPS), list[Any]()
    ab.deposit("a", [(1, "u", 1), (2, "v", 2), (3, "u", 3)])
    q.subscribe(lambda batch: told.append((batch.key, rows(batch.table))))
    ab.query("q", f"SELECT COUNT(*) AS groups, MAX(n) AS most, MAX(total) AS best FROM ({GROUPS})", replace=True)
    assert [key for key, _ in told] == ["q@2-", "q@2"]
    assert sorted(told[0][1]) == [("-", 3, None, "u", 1, 1), ("-", 3, None, "v", 1, 2)]
    assert [row[0] for row in rows(q.changes())] == ["+"] * len(told[1][1])
    ab.deposit("a", [(4, "w", 3), (5, "w", 3)])
    assert rows(q.view()) == [(3, 2, 4)], "the tuples of the old groups are gone, but not the groups"


def test_window_that_was_not_kept_is_complete_later(ab: windrow.Windrow) -> None:
    q = ab.query("q", GROUPS)
    ab.deposit("a", [(1, "u", 1), (2, "v", 2), (5, "u", 3)])
    outcome = ab.sql(
        "CREATE OR REPLACE QUERY q AS SELECT k, COUNT(*) AS n, SUM(x) AS total FROM a [RANGE 20] GROUP BY k"
    )
    assert rows(outcome)[0][0] == "query q: answers before 25 are partial"
    ab.deposit("a", [(25, "u", 1)])
    assert rows(q.view()) == [("u", 1, 3)]
    assert "answers before 25 are partial" in str(ab.sql("SHOW QUERIES"))


def test_rows_that_were_kept_stay(ab: windrow.Windrow, open_state: Open) -> None:
    """A count-based window of another size begins with the rows that the old one had, and fills up."""
    q, told = ab.query("q", "SELECT k, x FROM a [ROWS 2]"), list[Any]()
    ab.deposit("a", [(1, "u", 1), (2, "v", 2), (3, "w", 3), (4, "u", 4), (5, "z", 0)])
    q.subscribe(lambda batch: told.append(rows(batch.table)))
    outcome = ab.sql("CREATE OR REPLACE QUERY q AS SELECT k, x FROM a [ROWS 4]")
    assert rows(outcome)[0][0] == "query q: it sees tuples from 5 on"
    assert not any(told) and sorted(rows(q.view())) == [("u", 4), ("w", 3)]
    ab.deposit("a", [(6, "v", 6), (7, "v", 7)])
    assert sorted(rows(q.view())) == [("u", 4), ("v", 6), ("w", 3), ("z", 0)]
    ab.deposit("a", [(8, "v", 8)])
    assert sorted(rows(q.view())) == [("u", 4), ("v", 6), ("v", 7), ("z", 0)]
    told.clear()
    ab.sql("CREATE OR REPLACE QUERY q AS SELECT k, x FROM a [ROWS 3]")
    assert told == [[("-", 8, None, "u", 4)]]
    ab.close()
    with open_state() as again:
        again.deposit("a", [(9, "w", 9)])
        assert sorted(rows(again.queries["q"].view())) == [("v", 6), ("v", 7), ("v", 8)]


def test_fewer_rows_are_complete_at_once(ab: windrow.Windrow) -> None:
    ab.query("q", "SELECT k, COUNT(*) AS n FROM a [ROWS 3] GROUP BY k")
    ab.deposit("a", [(1, "u", 1), (2, "v", 2), (3, "w", 3), (4, "u", 4), (5, "z", 0)])
    outcome = ab.sql("CREATE OR REPLACE QUERY q AS SELECT k, COUNT(*) AS n FROM a [ROWS 2] GROUP BY k")
    assert rows(outcome)[0][0] == "query q: every answer is complete"
    assert sorted(rows(ab.queries["q"].view())) == [("u", 1), ("w", 1)]


def test_sinks_get_the_difference_once(ab: windrow.Windrow, tmp_path: Path) -> None:
    changes, view = (f"INTO jsonl OPTIONS (path '{tmp_path}/{name}', mode '{name}')" for name in ("changes", "view"))
    ab.sql(f"CREATE QUERY c AS {GROUPS} {changes}; CREATE QUERY v AS {GROUPS} ORDER BY k {view}")
    ab.deposit("a", [(1, "u", 1), (2, "v", 2), (3, "u", 3), (4, "w", 0)])
    ab.sql(f"CREATE OR REPLACE QUERY c AS {GROUPS} HAVING n > 1 {changes}")
    ab.sql(f"CREATE OR REPLACE QUERY v AS {GROUPS} HAVING n > 1 ORDER BY k {view}")
    assert lines(tmp_path / "changes") == rows(ab.queries["c"].changes())
    assert lines(tmp_path / "view") == rows(ab.queries["v"].view()) == [("u", 2, 4)]
    ab.deposit("a", [(5, "w", 1), (6, "z", 0)])
    assert lines(tmp_path / "changes") == rows(ab.queries["c"].changes())
    assert lines(tmp_path / "view") == [("u", 2, 4), ("w", 2, 1)]


def test_what_a_sink_cannot_follow(ab: windrow.Windrow, tmp_path: Path) -> None:
    into = f"INTO jsonl OPTIONS (path '{tmp_path}/q')"
    ab.sql(f"CREATE QUERY q AS {GROUPS} {into}")
    for text, message in (
        (GROUPS, "the sink of query 'q' is another one"),
        (f"SELECT k, COUNT(*) AS n FROM a [RANGE 10] GROUP BY k {into}", "cannot go on"),
    ):
        with pytest.raises(BindError, match=message) as caught:
            ab.sql(f"CREATE OR REPLACE QUERY q AS {text}")
        assert "DROP QUERY q" in str(caught.value)
    grown = f"INTO jsonl OPTIONS (path '{tmp_path}/g')"
    ab.sql(f"CREATE QUERY g AS SELECT k, x FROM a [UNBOUNDED] {grown}")
    with pytest.raises(BindError, match="only appends"):
        ab.sql(f"CREATE OR REPLACE QUERY g AS SELECT k, x FROM a [UNBOUNDED] WHERE x > 1 {grown}")


def test_refused(ab: windrow.Windrow) -> None:
    ab.sql(f"CREATE QUERY q AS {GROUPS}; CREATE STREAM d AS SELECT k, x FROM a [UNBOUNDED]")
    ab.sql("CREATE QUERY p AS SELECT k, COUNT(*) AS n FROM a [RANGE 10 SLIDE 5] GROUP BY k")
    ab.sql(f"CREATE QUERY j AS {SLIDING_JOIN}; SET execution = 'negative'; CREATE QUERY n AS {GROUPS}")
    ab.sql("SET execution = 'direct'; CREATE QUERY l AS SELECT k, x FROM a [RANGE 10]; SET execution = 'upa'")
    ab.sql("CREATE STREAM c (t BIGINT, k STRING) FROM memory TIMESTAMP BY t TICK 3 PUNCTUATE ORDERED")
    ab.deposit("a", [(1, "u", 1), (5, "u", 3)])
    cases = (
        ("q", "SELECT k, COUNT(*) AS n FROM a [RANGE 10 SLIDE 5] GROUP BY k", CatalogError, "is continuous, and"),
        ("p", GROUPS, CatalogError, "answers windows"),
        ("p", "SELECT k, COUNT(*) AS n FROM b [RANGE 10 SLIDE 5] GROUP BY k", CatalogError, "reads stream 'a'"),
        ("d", GROUPS, CatalogError, "is a derived stream"),
        ("q", JOIN, StateError, "stream 'b' of the new one has no tuple yet"),
        ("q", "SELECT nothing FROM a [RANGE 5]", BindError, "nothing"),
        ("p", SLIDING_JOIN, CatalogError, "answers windows as another kind of query does"),
        (
            "j",
            "SELECT k, COUNT(*) AS n FROM a [RANGE 10 SLIDE 5] GROUP BY k",
            CatalogError,
            "another kind of query does",
        ),
        ("n", GROUPS, UnsupportedError, "only state of execution = 'upa' is carried over"),
        ("l", "SELECT k, x FROM a [RANGE 7]", UnsupportedError, "only state of execution = 'upa' is carried over"),
        ("q", "SELECT k FROM c [RANGE 10]", StateError, "has ticked at 5, which is no tick of the new one"),
    )
    for name, text, kind, message in cases:
        with pytest.raises(kind, match=message):
            ab.sql(f"CREATE OR REPLACE QUERY {name} AS {text}")
    ab.sql("SET execution = 'negative'")
    with pytest.raises(UnsupportedError, match="only state of execution = 'upa'"):
        ab.sql(f"CREATE OR REPLACE QUERY q AS {GROUPS}")
    ab.sql("SET execution = 'upa'")
    assert rows(ab.queries["q"].view()) == [("u", 1, 1)], "the old query is as it was"
    ab.sql("CREATE OR REPLACE QUERY fresh AS SELECT k FROM a [RANGE 3]")
    assert "fresh" in ab.queries
    ab.sql("ALTER QUERY q PAUSE")
    with pytest.raises(CatalogError, match="is paused"):
        ab.sql(f"CREATE OR REPLACE QUERY q AS {GROUPS}")


def test_suspended_query_is_repaired(ab: windrow.Windrow) -> None:
    ab.sql(f"CREATE QUERY q AS {GROUPS}")
    ab.deposit("a", [(1, "u", 1), (2, "v", 2)])
    query = ab._engine.plans.query("q")
    ab._engine.plan_ticker.suspend(query, "a test")
    ab.deposit("a", [(3, "u", 4)])
    ab.sql(f"CREATE OR REPLACE QUERY q AS {GROUPS}")
    assert sorted(rows(ab.queries["q"].view())) == [("u", 1, 1), ("v", 1, 2)]


def test_join_with_slide(ab: windrow.Windrow) -> None:
    """The windows after the last one answered are those of a query that was there from the beginning."""
    old = "SELECT a.k, x, y FROM a [RANGE 6 SLIDE 3] JOIN b [RANGE 6 SLIDE 3] ON a.k = b.k"
    new = f"{old} WHERE x + y > 12"
    ab.sql(f"CREATE QUERY q AS {old}; CREATE QUERY r AS {new}")
    play(ab, 1)
    before = rows(ab.queries["q"].answers())
    ab.sql(f"CREATE OR REPLACE QUERY q AS {new}")
    for one, other in MICRO_BATCHES[1:]:
        ab.deposit("a", one)
        ab.deposit("b", other)
    found, always = (rows(ab.queries[name].answers()) for name in ("q", "r"))
    assert found == [*before, *(row for row in always if row[1] > 3)] and len(found) > len(before)


def test_stream_of_results_goes_on(ab: windrow.Windrow) -> None:
    """What ISTREAM has reported stays; the new one reports what comes after."""
    ab.sql(f"CREATE QUERY q AS SELECT ISTREAM(a.k, x, y) {JOIN[JOIN.index('FROM') :]}")
    play(ab, 1)
    before = rows(ab.queries["q"].changes())
    ab.sql(f"CREATE OR REPLACE QUERY q AS SELECT ISTREAM(a.k, x, y) {JOIN[JOIN.index('FROM') :]} WHERE x + y > 12")
    assert rows(ab.queries["q"].changes()) == before == [("+", 2, None, "u", 1, 10)]
    for one, other in MICRO_BATCHES[1:]:
        ab.deposit("a", one)
        ab.deposit("b", other)
    assert rows(ab.queries["q"].changes())[:2] == [*before, ("+", 4, None, "v", 2, 20)]


# -- periodic queries ------------------------------------------------------------------------------

SLIDING = "SELECT k, COUNT(*) AS n FROM a [RANGE 10 SLIDE 5]"


def test_periodic_query_answers_the_next_windows(ab: windrow.Windrow, open_state: Open) -> None:
    q, told = ab.query("p", f"{SLIDING} GROUP BY k"), list[Any]()
    q.subscribe(lambda answer: told.append((answer.window_end, rows(answer.table))))
    ab.deposit("a", [(1, "u", 1), (2, "v", 0), (6, "u", 0)])
    ab.query("p", f"{SLIDING} WHERE x > 0 GROUP BY k", replace=True)
    ab.deposit("a", [(11, "u", 3), (12, "v", 3), (13, "v", 0), (16, "u", 1)])
    ends = [(5, False, "u", 1), (5, False, "v", 1), (15, False, "u", 1), (15, False, "v", 1)]
    assert [row[1:] for row in rows(q.answers())] == ends
    assert [end for end, _ in told] == [5, 15]
    ab.query("p", "SELECT SUM(x) AS total FROM a [RANGE 5 SLIDE 5]", replace=True)
    assert rows(q.answers()) == []
    ab.deposit("a", [(21, "u", 1), (26, "u", 9)])
    assert [row[1:] for row in rows(q.answers())] == [(25, False, 1)]
    ab.close()
    with open_state() as again:
        again.deposit("a", [(31, "u", 0)])
        assert [row[1:] for row in rows(again.queries["p"].answers())] == [(25, False, 1), (30, False, 9)]


def test_periodic_query_keeps_the_cells_that_it_can_use(ab: windrow.Windrow) -> None:
    """The new query takes the counts of the old one, which is alone with them, and is complete at once."""
    ab.sql("CREATE QUERY p AS SELECT k, COUNT(*) AS n, SUM(x) AS total FROM a [RANGE 10 SLIDE 5] GROUP BY k")
    ab.deposit("a", [(1, "u", 1), (2, "v", 0), (6, "u", 0)])
    told = rows(ab.sql(f"CREATE OR REPLACE QUERY p AS {SLIDING} GROUP BY k"))[0][0]
    assert told == "query p: windows that end before 5 are partial", "5 is answered already"
    ab.deposit("a", [(11, "u", 1)])
    assert [row[1:] for row in rows(ab.queries["p"].answer())] == [(10, False, "u", 2), (10, False, "v", 1)]
    assert len(ab._engine.manager.stream("a").synopses) == 1
