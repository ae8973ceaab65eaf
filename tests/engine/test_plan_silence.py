"""When streams fall silent and time passes, nothing is left of continuous queries: neither on disk nor in memory."""

from __future__ import annotations

from typing import Any

import pytest

import windrow
from engine.conftest import Open

pytestmark = pytest.mark.slow

STREAMS = [
    f"CREATE STREAM {name} (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
    for name in ("a", "b")
]
QUERIES = {
    "joined": "SELECT a.k, a.x, b.x AS y FROM a [RANGE 40] JOIN b [RANGE 20] ON a.k = b.k",
    "grouped": "SELECT a.k, COUNT(*) AS n, MEDIAN(b.x) AS m FROM a [RANGE 40] JOIN b [RANGE 20] ON a.k = b.k GROUP BY a.k",
    "first": "SELECT k, x FROM a [RANGE 30 OFFSET 5] ORDER BY x DESC LIMIT 3",
    "came": "SELECT DISTINCT k FROM (SELECT ISTREAM(k, x) FROM a [RANGE 9]) [RANGE 12 OFFSET 3] AS i",
    "plain": "SELECT k, x FROM a [RANGE 40]",
    "outer_": "SELECT a.k, a.x, b.x AS y FROM a [RANGE 40] FULL JOIN b [RANGE 20] ON a.k = b.k AND a.x < b.x",
    "missing": "SELECT k, x FROM a [RANGE 40] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 9] WHERE b.k = a.k AND b.x < a.x)",
    "rest": "SELECT k, x FROM a [RANGE 30] EXCEPT ALL SELECT k, x FROM b [RANGE 12 OFFSET 1]",
    "strict": "SELECT m.k, n FROM a [RANGE 40] AS m JOIN (SELECT k, COUNT(*) AS n FROM b [RANGE 20] GROUP BY k) AS g "
    "ON m.k = g.k",
}
SPAN, END = 40, 160
"""The longest window, and the last tuple."""


def on_disk(wr: windrow.Windrow, folder: str) -> int:
    return sum(file.stat().st_size for file in (wr._engine.opened.state_dir / folder).rglob("*") if file.is_file())


def in_memory(wr: windrow.Windrow) -> dict[str, int]:
    """The rows that views hold, and the bytes of operators, by query."""
    found = {}
    for name in QUERIES:
        version = wr._engine.plans.query(name).version
        found[name] = version.state.nbytes + sum(part.num_rows for part in version.changes)
    return found


def kept_rows(wr: windrow.Windrow) -> dict[str, int]:
    """The rows in the files of plans, by what they are."""
    rows = wr._engine.catalog.rows("SELECT kind, sum(rows) AS n FROM plan_parts GROUP BY kind")
    return {row["kind"]: row["n"] for row in rows}


def files(wr: windrow.Windrow) -> list[Any]:
    """The files of window stores."""
    uses = [use for name in QUERIES for use in wr._engine.plans.query(name).uses]
    return [file for use in uses for file in wr._engine.opened.stores.files(use)]


def tuples(wr: windrow.Windrow) -> int:
    return sum(file.rows for file in files(wr))


def pass_time(wr: windrow.Windrow, upto: int) -> None:
    for name in ("a", "b"):
        wr.punctuate(name, upto)


def test_silence_leaves_nothing(open_state: Open) -> None:
    """One micro-batch is four windows long, so its file is expired in part when the streams fall silent."""
    for home in ("driver", "spark"):
        wr = open_state(home, plan_home=home, retained_changes=0)
        for text in [*STREAMS, *(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items())]:
            wr.sql(text)
        for name in ("a", "b"):
            wr.deposit(name, [(t, "pqrs"[t % 4], t % 7) for t in range(END + 1)])
        assert all(in_memory(wr).values()) and all(kept_rows(wr).values())
        full = tuples(wr)
        pass_time(wr, END + 10)
        least = END + 10 - SPAN - SPAN // 20
        assert all(file.lo >= least for file in files(wr)) and 0 < tuples(wr) < full / 2
        pass_time(wr, 10_000)
        pass_time(wr, 10_000 + SPAN)  # what went at the tick before is merged a twentieth later
        assert not any(in_memory(wr).values()), (home, in_memory(wr))
        assert not any(kept_rows(wr).values()), (home, kept_rows(wr))
        assert tuples(wr) == on_disk(wr, "stores") == 0
        assert on_disk(wr, "plans") < 2_000 * len(QUERIES)  # the files of views without a row
        assert not any(count for count, _ in wr._engine.plans.query("strict").version.state.sizes.values())
        wr.close()
        wr = open_state(home, plan_home=home)
        assert not any(in_memory(wr).values())
        wr.close()


def test_expired_rows_of_a_view_are_dropped_in_silence(open_state: Open) -> None:
    """A twentieth of the window after their end at the latest, and a tick; also where '-' withdraws rows. What a table
    has is all that stays."""
    wr = open_state(retained_changes=0)
    for text in [*STREAMS, "CREATE TABLE named (k STRING PRIMARY KEY, name STRING)"]:
        wr.sql(text)
    wr.sql("INSERT INTO named VALUES ('p', 'one'), ('q', 'two')")
    wr.sql("CREATE QUERY plain AS SELECT k, x FROM a [RANGE 40]")
    wr.sql("CREATE QUERY names AS SELECT a.k, name FROM a [RANGE 40] LEFT JOIN named ON a.k = named.k")
    wr.sql("CREATE QUERY windowed AS SELECT k FROM (SELECT ISTREAM(k, x) FROM a [UNBOUNDED]) [RANGE 40] AS i")
    wr.deposit("a", [(t, "pqr"[t % 3], t) for t in range(101)])
    wr.punctuate("a", 103)
    for upto in range(105, 150, 2):
        wr.punctuate("a", upto)
        for name in ("plain", "names", "windowed"):
            parts = wr._engine.opened.plan_commits.view_parts(wr._engine.plans.query(name).id)
            shown = [end for part in parts for end in wr._engine.opened.plan_commits.read(part)["exp"].to_pylist()]
            assert all(end >= upto - 40 // 20 - 1 for end in shown), (name, upto)
    states = {name: wr._engine.plans.query(name).version.state.sizes for name in ("plain", "names")}
    assert not states["plain"] and sum(rows for rows, _ in states["names"].values()) == 2


def test_indexes_of_keys_go_with_their_windows(open_state: Open) -> None:
    wr = open_state(plan_home="driver", retained_changes=0)
    for text in [*STREAMS, "CREATE QUERY joined AS SELECT a.k, b.x FROM a [RANGE 40] JOIN b [RANGE 40] ON a.k = b.k"]:
        wr.sql(text)
    for name in ("a", "b"):
        wr.deposit(name, [(t % 20, f"{name}{t}", t) for t in sorted(range(20_000), key=lambda t: t % 20)])
    for t in range(21, 25):
        for name in ("a", "b"):
            wr.deposit(name, [(t, "both", t)])
    indexes = wr._engine.plan_ticker._homes["driver"]._kernel.indexes
    assert indexes.nbytes > 40_000
    pass_time(wr, 1_000)
    pass_time(wr, 1_001)
    assert indexes.nbytes == 0
