"""Views, changes and answers of continuous queries in SELECT, in order, and in a read-only state directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windrow
import windrow.engine.plans.query as plan_query
from engine.conftest import Open
from engine.plan_streams import JOIN, A, B, play, rows
from windrow.errors import BindError, CatalogError, ReadOnlyError, StateError, UnsupportedError

PERIODIC = "SELECT a.k, x, y FROM a [RANGE 10 SLIDE 5] JOIN b [RANGE 10 SLIDE 5] ON a.k = b.k ORDER BY x DESC, y"


@pytest.fixture
def ab(open_state: Open) -> windrow.Windrow:
    opened = open_state()
    opened.sql(f"{A}; {B}")
    opened.query("j", f"{JOIN} ORDER BY x DESC")
    opened.query("g", "SELECT k, COUNT(*) AS n FROM a [RANGE 10] GROUP BY k ORDER BY n DESC, k DESC LIMIT 2")
    opened.query("p", PERIODIC)
    return opened


def test_view_names_its_tick(ab: windrow.Windrow) -> None:
    assert ab.queries["j"].view().window is None and len(ab.sql("SELECT * FROM j")) == 0
    play(ab, 1)
    assert ab.queries["j"].view().window == 3 == ab.sql("SELECT k FROM j WHERE y > 0").window
    assert ab.queries["j"].view()[:1].window == 3
    play(ab, 3)
    assert ab.queries["p"].answer().window == ab.queries["p"].view().window == 15


def test_the_latest_answer_may_be_empty(ab: windrow.Windrow) -> None:
    ab.deposit("a", [(1, "u", 1), (20, "w", 2)])
    ab.deposit("b", [(3, "u", 10), (20, "z", 0)])
    p = ab.queries["p"]
    assert rows(p.answers())[-1][1] == 10 and p.answer().window == 10
    ab.deposit("a", [(40, "w", 2)])
    ab.deposit("b", [(40, "z", 0)])
    assert rows(p.answer()) == rows(p.view()) == rows(ab.sql("SELECT * FROM p")) == []
    assert p.answer().window == p.view().window == 30
    assert rows(p.answers())[-1][1] == 10


def test_order_by_orders_the_view(ab: windrow.Windrow) -> None:
    ab.deposit("a", [(1, "u", 1), (2, "u", 3), (3, "u", None), (4, "w", 2)])
    ab.deposit("b", [(3, "u", 10), (4, "z", 0)])
    assert rows(ab.queries["j"].view()) == [("u", 3, 10), ("u", 1, 10), ("u", None, 10)]
    assert rows(ab.queries["g"].view()) == [("u", 3)]
    ab.deposit("a", [(5, "v", 0), (6, "v", 0), (7, "v", 0), (8, "x", 0)])
    assert rows(ab.queries["g"].view()) == [("v", 3), ("u", 3)]


def test_select_from_views_changes_and_answers(ab: windrow.Windrow) -> None:
    ab.sql("CREATE QUERY s AS SELECT k, SUM(x) AS total FROM a [RANGE 5 SLIDE 5] GROUP BY k")
    play(ab, 2)
    j = ab.queries["j"]
    assert rows(ab.sql("SELECT * FROM j")) == rows(j.view())
    assert rows(ab.sql("SELECT * FROM changes('j')")) == rows(j.changes())
    counted = ab.sql("SELECT op, COUNT(*) AS n FROM changes('j') GROUP BY op")
    assert rows(counted) == [("+", len(j.changes()))]
    assert rows(ab.sql("SELECT * FROM answers('p')")) == rows(ab.queries["p"].answers()) != []
    joined = ab.sql("SELECT v.k, v.y, s.total FROM j AS v JOIN answers('s') AS s ON v.k = s.k ORDER BY 1, 2")
    expected = [(k, y, t) for k, _, y in rows(j.view()) for _, _, _, g, t in rows(ab.queries["s"].answers()) if g == k]
    assert rows(joined) == sorted(expected)
    assert "the view of query j as of tick" in "\n".join(ab.sql("EXPLAIN SELECT k FROM j")["plan"])


def test_names_that_select_refuses(ab: windrow.Windrow) -> None:
    with pytest.raises(UnsupportedError, match="is continuous") as caught:
        ab.sql("SELECT * FROM answers('j')")
    assert "view()" in str(caught.value) and "changes()" in str(caught.value)
    with pytest.raises(UnsupportedError, match="has no changes"):
        ab.sql("SELECT * FROM changes('p')")
    with pytest.raises(CatalogError, match="no continuous query"):
        ab.sql("SELECT * FROM changes('nobody')")


def test_last_and_since_of_answers(ab: windrow.Windrow) -> None:
    play(ab)
    p = ab.queries["p"]
    ends = sorted({row[1] for row in rows(p.answers())})
    assert len(ends) >= 3
    assert {row[1] for row in rows(p.answers(last=1))} == {ends[-1]}
    assert {row[1] for row in rows(p.answers(since=ends[1]))} == set(ends[1:])
    assert {row[1] for row in rows(p.answers(last=2, since=ends[-1]))} == {ends[-1]}
    assert rows(p.answers()) == sorted(rows(p.answers()), key=lambda row: (row[1], -row[4], row[5]))


def test_select_list_with_the_names_of_lifetimes(ab: windrow.Windrow) -> None:
    q = ab.query("q", "SELECT x AS ts, k AS op, x AS exp, k AS tick FROM a [RANGE 4]")
    play(ab, 1)
    assert q.changes().columns == ["_op", "_ts", "_exp", "ts", "op", "exp", "tick"]
    assert rows(q.changes()) == [("+", 1, 5, 1, "u", 1, "u")] and rows(q.view()) == [(1, "u", 1, "u")]


def test_show_create_query(ab: windrow.Windrow) -> None:
    assert "JOIN b [RANGE 5]" in "\n".join(ab.sql("SHOW CREATE QUERY j")["statement"])


def read(wr: Any) -> list[Any]:
    j, p = wr.queries["j"], wr.queries["p"]
    found = [j.changes(), j.view(), p.answers(), p.answers(last=1), p.answer(), wr.sql("SELECT * FROM j")]
    found += [wr.sql("SELECT * FROM changes('j')"), wr.queries["g"].view()]
    return [*map(rows, found), j.view().window, list(wr.queries)]


def test_read_only(ab: windrow.Windrow) -> None:
    play(ab, 2)
    with windrow.open(ab.state_dir, read_only=True) as reader:
        assert read(reader) == read(ab)
        shown = rows(reader.sql("SHOW QUERIES"))
        assert [row[0] for row in shown] == ["j", "g", "p"]
        ab.deposit("a", [(20, "u", 5)])
        ab.deposit("b", [(21, "u", 50)])
        assert read(reader) == read(ab)
        with pytest.raises(ReadOnlyError):
            reader.sql("DROP QUERY j")
        with pytest.raises(ReadOnlyError):
            reader.queries["j"].subscribe(print)


def test_read_only_of_a_closed_state(open_state: Open, tmp_path: Path) -> None:
    wr = open_state()
    wr.sql(f"{A}; {B}")
    wr.query("j", f"{JOIN} ORDER BY x DESC")
    play(wr)
    query = wr.queries["j"]
    expected, window = rows(query.view()), query.view().window
    with pytest.raises(BindError, match="a subscriber is a function"):
        query.subscribe(None)  # type: ignore[arg-type]
    wr.close()
    with pytest.raises(StateError, match="is closed"):
        query.view()
    with windrow.open(tmp_path / "state", read_only=True) as reader:
        view = reader.queries["j"].view()
        assert rows(view) == expected and view.window <= window


@pytest.mark.parametrize("home", ["driver", pytest.param("spark", marks=pytest.mark.slow)])
def test_large_view_by_expiration(home: str, open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge writes only what has come since the last one; parts go whole when they have expired."""
    monkeypatch.setattr(plan_query, "REWRITTEN_ROWS", 0)
    wr = open_state(plan_home=home, retained_changes="0")
    wr.sql(f"{A}; {B}")
    changes: list[tuple[Any, ...]] = []
    wr.query("j", JOIN).subscribe(lambda batch: changes.extend(rows(batch.table)))
    query, commits = wr._engine.plans.query("j"), wr._engine.opened.plan_commits
    most = 0
    for i in range(12 if home == "driver" else 6):
        wr.deposit("a", [(2 * i, "u", i), (2 * i + 1, "v", i)])
        wr.deposit("b", [(2 * i, "u", -i), (2 * i + 1, "v", -i)])
        tick = query.progress.ticked
        alive = [change[3:] for change in changes if change[1] < tick <= change[2]]
        assert sorted(rows(wr.queries["j"].view())) == sorted(alive)
        ends = [part.hi for part in commits.parts(query.id, "view")]
        assert all(end >= tick for end in ends[:-1])  # the last merge may have found nothing
        assert [part.ends for part in query.version.merged] == ends
        most = max(most, len(ends))
    assert most > 2
    expected = sorted(alive)
    wr.close()
    wr = open_state(plan_home=home, retained_changes="0")
    assert sorted(rows(wr.queries["j"].view())) == expected != []
    for t in (1000, 2000, 3000):
        wr.deposit("a", [(t, None, 0)])
        wr.deposit("b", [(t, None, 0)])
    assert not wr.queries["j"].view().arrow().num_rows
    assert sum(part.rows for part in wr._engine.opened.plan_commits.parts(query.id, "view")) == 0
