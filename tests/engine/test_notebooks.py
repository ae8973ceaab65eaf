"""Handles in a notebook: HTML of queries, plans and the state directory; charts and live answers of running queries."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
import pytest
from matplotlib import pyplot

import windrow
from engine.helpers import put
from windrow.errors import BindError, CatalogError, QuerySuspendedError, StateError
from windrow.result import Plan

pytestmark = pytest.mark.slow
matplotlib.use("Agg")
BY_K = "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] GROUP BY k ORDER BY k"
DECIMALS = "SELECT k, CAST(SUM(x) AS DECIMAL(20,2)) AS exact, TOP_K(x, 2) AS top FROM s [RANGE 10 SLIDE 10] GROUP BY k"


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    pyplot.close("all")


class Text(HTMLParser):
    """The text of a page, its cells and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.cells: list[str] = []
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.tags[-1] != "style":
            self.parts.append(data)
        if self.tags[-1] in ("td", "th"):
            self.cells.append(data)

    def __contains__(self, text: str) -> bool:
        return text in "".join(self.parts)


def shown(thing: Any) -> Text:
    return Text(thing._repr_html_())


def fill(wr: Any) -> None:
    put(wr, (1, "a<b", 1), (2, "c", 2), (11, "c", 3), (21, "c", 4), (31, "c", 5))


# -- HTML --------------------------------------------------------------------------------------------


def test_query(wr: Any) -> None:
    q = wr.query("q", BY_K)
    empty = shown(q)
    assert "query q · [RANGE 10 SLIDE 10] over s · active" in empty and "no answer yet" in empty
    fill(wr)
    page = shown(q)
    assert page.cells == ["k", "total", "n", "c", "4", "1"]
    assert "window 20 .. 30 · 3 windows answered, 4 rows · the streams are stopped: wr.start() runs them" in page
    assert "GROUP BY k" in page and "script" not in page.tags
    assert repr(q) == "<query q>"


def test_query_that_is_gone(wr: Any) -> None:
    q, p = wr.query("q", BY_K), wr.query("p", BY_K)
    wr.sql("DROP QUERY q")
    assert "query q · there is no query 'q'" in shown(q)
    wr.close()
    assert "closed" in shown(p) and "query p" in shown(p)


def test_suspended_query(wr: Any) -> None:
    q = wr.query("q", "SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10] WHERE k RLIKE '('")
    fill(wr)
    assert "suspended: " in shown(q)
    with pytest.raises(QuerySuspendedError):
        q.live(seconds=0)


def test_state_directory(open_state: Any, tmp_path: Path) -> None:
    wr = open_state()
    page = shown(wr)
    assert f"Windrow · {wr.state_dir} · stopped" in page and "no streams yet" in page and "no queries yet" in page
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.query("q", BY_K)
    assert {"s", "q"} <= set(shown(wr).cells) and repr(wr) == f"<windrow {wr.state_dir}: stopped>"
    with windrow.open(wr.state_dir, read_only=True) as reader:
        assert "read-only, a process runs it" in shown(reader) and "q" in shown(reader).cells
        assert "query q" in shown(reader.queries["q"])
    assert "closed" in shown(reader)
    wr.close()
    assert "closed" in shown(wr) and repr(wr).endswith(": closed>")


def test_plans(wr: Any) -> None:
    q = wr.query("q", BY_K)
    plan = q.explain()
    assert isinstance(plan, Plan) and repr(plan) == plan and plan.startswith("Query q: periodic")
    for thing in (plan, wr.sql("EXPLAIN QUERY q"), wr.sql(f"EXPLAIN {BY_K}"), wr.sql("SHOW CREATE QUERY q")):
        page = shown(thing)
        assert "pre" in page.tags and "table" not in page.tags
        assert ("svg" in page.tags) == ("SHOW" not in str(thing) and "CREATE" not in str(thing))
    assert "\n".join(plan.splitlines()) in shown(wr.sql("EXPLAIN QUERY q")).parts


# -- results -----------------------------------------------------------------------------------------


def test_exact_types(wr: Any) -> None:
    q = wr.query("q", DECIMALS)
    for r in (q.answers(), (fill(wr), q.answers())[1]):
        table = r.to_arrow()
        assert pa.Table.from_pandas(r.to_pandas(), preserve_index=False).replace_schema_metadata().equals(table)
        assert r.to_polars().rows(named=True) == r.rows() == list(r)
        assert str(r.to_polars().schema["exact"]) == "Decimal(precision=20, scale=2)"
    assert r[0]["k"] == "a<b" and r["top"][-1] == r[-1]["top"] and len(r[1:3]) == 2


# -- charts ------------------------------------------------------------------------------------------


def test_plot(wr: Any) -> None:
    q = wr.query("q", BY_K)
    assert [text.get_text() for text in q.plot().texts] == ["no answers"]
    fill(wr)
    ax = q.plot("total")
    found = {line.get_label(): list(line.get_ydata()) for line in ax.get_lines()}
    np.testing.assert_equal(found, {"c": [2, 3, 4], "a<b": [1, float("nan"), float("nan")]})
    assert list(ax.get_lines()[0].get_xdata()) == [10, 20, 30]
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("q", "window end (t)", "total")
    assert len(q.plot().get_lines()) == 4
    (line,) = q.plot("n", last=1, kind="points", ax=ax, groups=1).get_lines()[2:]
    assert list(line.get_xdata()) == [30] and line.get_label() == "q · c"
    assert list(q.plot("n", since=20, groups=1).get_lines()[0].get_xdata()) == [20, 30]
    with pytest.raises(BindError, match="column 'k' of query 'q' is no number"):
        q.plot("k")


def test_plot_groups_by_expressions_and_numbers(wr: Any) -> None:
    """A number that is computed from group keys tells groups apart; it is not drawn."""
    q = wr.query(
        "q", "SELECT x % 2 AS odd, UPPER(k) AS name, COUNT(*) + 0 AS n FROM s [RANGE 10 SLIDE 10] GROUP BY x % 2, k"
    )
    fill(wr)
    labels = [line.get_label() for line in q.plot().get_lines()]
    assert sorted(labels) == ["0, C", "1, A<B", "1, C"]


def test_plot_partitions(wr: Any) -> None:
    q = wr.query("q", "SELECT k, SUM(x) AS total FROM s [ROWS 2 SLIDE 1 PARTITION BY k] GROUP BY k")
    fill(wr)
    found = {line.get_label(): list(line.get_xdata()) for line in q.plot().get_lines()}
    assert found == {"a<b": [2], "c": [2, 3, 4, 5]}


def test_plot_from_outside(wr: Any) -> None:
    wr.query("q", BY_K)
    fill(wr)
    with windrow.open(wr.state_dir, read_only=True) as reader:
        assert len(reader.queries["q"].plot("n").get_lines()) == 2


# -- live --------------------------------------------------------------------------------------------


def test_live(wr: Any, capsys: pytest.CaptureFixture[str]) -> None:
    q = wr.query("q", BY_K)
    feeder = threading.Timer(0.3, fill, [wr])
    feeder.start()
    try:
        q.live(every=0.05, count=1, seconds=60)
    finally:
        feeder.join()
    out = capsys.readouterr().out
    assert out.index("no answer yet") < out.index("window 20 .. 30 · 3 windows answered, 4 rows")
    assert out.splitlines()[-1].split() == ["c", "|", "4", "|", "1"]


def test_live_stops_by_interrupt(wr: Any, capsys: pytest.CaptureFixture[str]) -> None:
    q = wr.query("q", BY_K)
    fill(wr)
    before = set(threading.enumerate())
    killer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    killer.start()
    q.live()
    killer.join()
    assert set(threading.enumerate()) - {killer} <= before
    assert capsys.readouterr().out.count("window 20 .. 30") == 1
    assert q.answer().rows() == [
        {"window_start": 20, "window_end": 30, "is_revision": False, "k": "c", "total": 4, "n": 1}
    ]


def test_live_of_a_query_that_goes(wr: Any) -> None:
    q = wr.query("q", BY_K)
    dropper = threading.Timer(0.2, wr.sql, ["DROP QUERY q"])
    dropper.start()
    with pytest.raises(CatalogError, match="there is no query 'q'"):
        q.live(seconds=60)
    dropper.join()
    p = wr.query("p", BY_K)
    wr.close()
    with pytest.raises(StateError, match="closed"):
        p.live(seconds=60)


def test_live_from_outside(wr: Any, capsys: pytest.CaptureFixture[str]) -> None:
    wr.query("q", BY_K)
    fill(wr)
    with windrow.open(wr.state_dir, read_only=True) as reader:
        reader.queries["q"].live(count=0)
    out = capsys.readouterr().out
    assert "window 20 .. 30 · 3 windows answered, 4 rows\n" in out


# -- queries that run as plans -------------------------------------------------------------------------


def test_live_view_of_a_continuous_query(wr: Any, capsys: Any) -> None:
    q = wr.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 100] GROUP BY k")
    q.live(count=0)
    fill(wr)
    q.live(count=0)
    stopped = "the streams are stopped: wr.start() runs them"
    assert capsys.readouterr().out.splitlines() == [
        f"q · no tick yet · 0 changes · {stopped}",
        "k | n",
        "--+--",
        f"q · as of 31 · 6 changes · {stopped}",
        "k   | n",
        "----+--",
        "a<b | 1",
        "c   | 3",
    ]


def test_live_answer_of_a_join(wr: Any, capsys: Any) -> None:
    window = "[RANGE 10 SLIDE 10]"
    q = wr.query("q", f"SELECT a.k, a.x FROM s {window} AS a JOIN s {window} AS b ON a.x = b.x")
    fill(wr)
    q.live(count=0)
    assert capsys.readouterr().out.splitlines()[0].startswith("q · window up to 30 · 4 rows answered · ")
