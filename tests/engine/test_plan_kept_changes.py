"""A view is made of the changes that are kept anyway; what leaves them is merged, and nothing is lost or shown twice."""

from __future__ import annotations

import random
from typing import Any

import pytest

import windrow
import windrow.engine.plans.commits as plan_commits
import windrow.engine.plans.query as plan_query
import windrow.engine.plans.ticker as plan_ticker
from engine.conftest import Open
from engine.plan_streams import rows
from windrow.engine.plans.query import ContinuousQuery

QUERIES = {
    "joined": "SELECT a.k, a.x, b.x AS y FROM a [RANGE 40] JOIN b [RANGE 20] ON a.k = b.k",
    "both": "SELECT k, x FROM a [RANGE 60] UNION ALL SELECT k, x FROM b [RANGE 4]",
    "seen": "SELECT DISTINCT k FROM a [RANGE 12]",
    "all_": "SELECT k, x FROM b [UNBOUNDED]",
    "counted": "SELECT k, COUNT(*) AS n FROM a [RANGE 20] GROUP BY k",
}
KEPT = ("joined", "both", "seen", "all_")
"""Those that withdraw nothing."""


class Told:
    """All changes that queries have reported, to subscribers."""

    def __init__(self) -> None:
        self.changes: dict[str, list[tuple[Any, ...]]] = {name: [] for name in QUERIES}

    def listen(self, wr: windrow.Windrow) -> None:
        for name, into in self.changes.items():
            wr.queries[name].subscribe(lambda batch, into=into: into.extend(rows(batch.table)))

    def alive(self, name: str, tick: int) -> list[str]:
        """R(tick) by the definition, of a query that withdraws nothing."""
        return sorted(
            str(one[3:]) for one in self.changes[name] if one[1] < tick and (one[2] is None or one[2] >= tick)
        )


def opened(open_state: Open, told: Told, is_new: bool, **settings: Any) -> windrow.Windrow:
    wr = open_state(**settings)
    if is_new:
        for name in ("a", "b"):
            wr.sql(f"CREATE STREAM {name} (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        for name, text in QUERIES.items():
            wr.sql(f"CREATE QUERY {name} AS {text}")
    told.listen(wr)
    return wr


def deposit(wr: windrow.Windrow, rng: random.Random, since: int, upto: int) -> None:
    for name in ("a", "b"):
        times = sorted(rng.randrange(since, upto) for _ in range(rng.randrange(5)))
        wr.deposit(name, [*((t, rng.choice("pqrs"), rng.randrange(4)) for t in times), (upto, None, 9)])


def on_record(wr: windrow.Windrow, query: ContinuousQuery) -> list[tuple[int, int]]:
    """The changes that the catalog has for the view, by commit."""
    parts = wr._engine.opened.plan_commits.view_parts(query.id)
    return [(part.seq, part.rows) for part in parts if part.kind == "changes"]


def check(wr: windrow.Windrow, told: Told, keep: int) -> None:
    for name in KEPT:
        query = wr._engine.plans.query(name)
        tick, version, commits = query.progress.ticked, query.version, wr._engine.opened.plan_commits
        if tick is None:
            continue
        assert sorted(map(str, rows(wr.queries[name].view()))) == told.alive(name, tick), (name, tick)
        since = [(part.seq, part.rows) for part in version.since]
        known = on_record(wr, query)
        assert since[len(since) - len(known) :] == known, (name, tick)
        kept = [part.rows for part in commits.parts(query.id, "changes")]
        most = max(len(told.changes[name]) - 1, 0)
        assert sum(kept) >= min(keep, most), "the newest changes are kept"


@pytest.mark.parametrize(
    ("keep", "most", "home"),
    [
        (10**6, 500, "driver"),
        (60, 8, "driver"),
        pytest.param(10**6, 8, "driver", marks=pytest.mark.slow),
        pytest.param(7, 500, "driver", marks=pytest.mark.slow),
        pytest.param(60, 500, "spark", marks=pytest.mark.slow),
    ],
)
def test_view_of_kept_changes(
    open_state: Open, monkeypatch: pytest.MonkeyPatch, keep: int, most: int, home: str
) -> None:
    """Views are right at every tick, while changes leave those that are kept, are tidied, and after restarts."""
    monkeypatch.setattr(plan_query, "MOST_SINCE", most)
    rng, told, since = random.Random(keep + most), Told(), 0
    settings = {"plan_home": home, "retained_changes": keep}
    wr = opened(open_state, told, True, **settings)
    for count in range(60 if home == "driver" else 25):
        upto = since + rng.choice([1] * 9 + [2, 6, 30])
        deposit(wr, rng, since, upto)
        since = upto
        check(wr, told, keep)
        if count % 25 == 20:
            wr.close()
            wr = opened(open_state, told, False, **settings)
            check(wr, told, keep)
    with windrow.open(wr.state_dir, read_only=True) as reader:
        for name in QUERIES:
            assert rows(reader.queries[name].view()) == rows(wr.queries[name].view())
    for name in ("a", "b"):
        wr.punctuate(name, since + 500)
        wr.punctuate(name, since + 600)
    check(wr, told, keep)
    for name in ("joined", "both", "seen"):
        version = wr._engine.plans.query(name).version
        assert not any(part.rows for part in version.merged)
        assert keep < 100 or not version.since, "what has expired as a whole is not held"


def test_parts_of_ranges_are_merged_by_whole_commits(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit in Spark has a part of changes for each range; the view has all of them when small parts become one."""
    monkeypatch.setattr(plan_commits, "SMALL_ROWS", 5)
    monkeypatch.setattr(plan_ticker, "MERGED_PARTS", 4)
    wr = open_state(plan_home="spark")
    wr.sql("CREATE STREAM a (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.sql("CREATE QUERY seen AS SELECT DISTINCT k, x FROM a [RANGE 1000]")
    query, commits = wr._engine.plans.query("seen"), wr._engine.opened.plan_commits
    ranges, merges = 0, 0
    for tick in range(14):
        wr.deposit("a", [(tick, f"k{k}", tick) for k in range(4)])
        parts = commits.parts(query.id, "changes")
        ranges = max(ranges, sum(part.seq == query.progress.seq for part in parts))
        merges += query.unmerged == 0
        assert len(rows(wr.queries["seen"].view())) == 4 * tick, tick
        assert [(part.seq, part.rows) for part in query.version.since] == on_record(wr, query), tick
    assert ranges > 1 and merges > 1, "a commit has several parts, and parts were merged"


def test_kept_changes_are_not_written_again(open_state: Open) -> None:
    """Neither at the ticks at which rows expire, nor when parts are merged; and parts stay few."""
    wr, rng = open_state(retained_changes=10**6), random.Random(1)
    for name in ("a", "b"):
        wr.sql(f"CREATE STREAM {name} (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    for name in ("joined", "both"):
        wr.sql(f"CREATE QUERY {name} AS {QUERIES[name]}")
    for tick in range(1, 50):
        deposit(wr, rng, tick - 1, tick)
    kinds = wr._engine.catalog.rows("SELECT kind, count(*) AS n FROM plan_parts GROUP BY kind")
    found = {row["kind"]: row["n"] for row in kinds}
    assert found.keys() == {"changes"} and found["changes"] <= 2 * 21
    for name in ("joined", "both"):
        assert 0 < len(wr._engine.plans.query(name).version.since) <= 21


def test_changes_go_after_a_query_was_replaced(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """CREATE OR REPLACE withdraws rows, and its merged view expires; later changes are still kept only as far as
    `retained_changes` says."""
    monkeypatch.setattr(plan_commits, "SMALL_ROWS", 1)
    wr, keep = open_state(retained_changes=20), 20
    wr.sql("CREATE STREAM a (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.sql("CREATE QUERY q AS SELECT k, x FROM a [RANGE 6]")
    wr.deposit("a", [(tick, k, tick) for tick in range(4) for k in "pq"])
    wr.sql("CREATE OR REPLACE QUERY q AS SELECT k, x FROM a [RANGE 6] WHERE x > 1")
    for tick in range(4, 30):
        wr.deposit("a", [(tick, "p", tick), (tick, "q", tick)])
        if tick > 10:  # the rows of the replaced query have expired
            assert sorted(rows(wr.queries["q"].view())) == [(k, x) for k in "pq" for x in range(tick - 6, tick)]
    query, commits = wr._engine.plans.query("q"), wr._engine.opened.plan_commits
    assert sum(part.rows for part in commits.parts(query.id, "changes")) == keep
