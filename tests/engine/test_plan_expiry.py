"""Nothing that continuous queries keep outlives its expiry by more than a twentieth of the window and a tick.

Measured at every tick of random runs: with ticks one by one and many together, in silence, and across restarts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support.matrix import is_full

import windrow
import windrow.engine.plans.query as plan_query
from engine.conftest import Open
from windrow.engine.plans.query import ContinuousQuery
from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import GONE, Keyed
from windrow.operators.layouts.parts import StatePart
from windrow.operators.layouts.row_list import RowList
from windrow.operators.layouts.steps import StateTable
from windrow.operators.state import PlanState, empty_tables

QUERIES = {
    "weakest": "SELECT k, x FROM a [RANGE 100]",
    "weak": "SELECT a.k, a.x, b.x AS y FROM a [RANGE 100] JOIN b [RANGE 60] ON a.k = b.k",
    "short": "SELECT a.k, a.x, b.x AS y FROM a [RANGE 8] JOIN b [RANGE 100] ON a.k = b.k",
    "seen": "SELECT DISTINCT k FROM a [RANGE 60]",
    "missing": "SELECT k, x FROM a [RANGE 100] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 60] WHERE b.k = a.k AND b.x < a.x)",
    "rest": "SELECT k, x FROM a [RANGE 100] EXCEPT ALL SELECT k, x FROM b [RANGE 60]",
    "counted": "SELECT k, COUNT(*) AS n FROM a [RANGE 100] GROUP BY k",
    "nested": "SELECT m.k, x FROM a [RANGE 100] AS m JOIN (SELECT DISTINCT k FROM b [RANGE 60]) AS d ON m.k = d.k",
}
OTHERS = {
    "outer_": "SELECT a.k, a.x, b.x AS y FROM a [RANGE 100] FULL JOIN b [RANGE 60] ON a.k = b.k AND a.x < b.x",
    "named": "SELECT a.k, a.x, name FROM a [RANGE 100] JOIN names ON a.k = names.k",
    "restored": "SELECT ISTREAM RESTORE(a.k, b.x) FROM a [RANGE 100] JOIN b [RANGE 60] ON a.k = b.k",
}
BY_STRATEGY = {
    "direct": {"listed": "SELECT DISTINCT a.k, b.x FROM a [RANGE 100] JOIN b [RANGE 60] ON a.k = b.k"},
    "negative": {
        "signed": "SELECT a.k, a.x, b.x AS y FROM a [RANGE 100] JOIN b [RANGE 60] ON a.k = b.k",
        "without": "SELECT k, x FROM a [RANGE 100] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 60] WHERE b.k = a.k)",
    },
}
IN_SPARK = {"direct": BY_STRATEGY["direct"], "upa": QUERIES}
IN_DRIVER = {**BY_STRATEGY, "upa": {**QUERIES, **OTHERS}}
SHORTEST = {"weakest": 100, "short": 8, "counted": 100, "named": 100}
"""The shortest windows of queries, of the others 60."""


def created(wr: windrow.Windrow, step: int, by_strategy: dict[str, dict[str, str]]) -> None:
    for name in ("a", "b"):
        columns = "(t BIGINT, k STRING, x INT)"
        wr.sql(f"CREATE STREAM {name} {columns} FROM memory TIMESTAMP BY t TICK {step} PUNCTUATE ORDERED")
    wr.sql("CREATE TABLE names (k STRING PRIMARY KEY, name STRING) NON RETROACTIVE")
    wr.sql("INSERT INTO names VALUES ('p', 'one'), ('q', 'two')")
    for execution, queries in by_strategy.items():
        wr.sql(f"SET execution = '{execution}'")
        for name, text in queries.items():
            wr.sql(f"CREATE QUERY {name} AS {text}")


def gone(changes: pa.Table) -> Iterator[int]:
    """When rows of views are gone: at their end, or at the tick at which they are withdrawn."""
    for op, tick, end in zip(*(changes.column(name).to_pylist() for name in ("op", "tick", "exp")), strict=True):
        ends = ([] if end is None else [end]) + ([tick] if op == "-" else [])
        yield from [min(ends)] if ends else []


def replaced(parts: list[StatePart], keys: tuple[str, ...]) -> Iterator[int]:
    """When rows of state by key, which are on record, were replaced by others or removed."""
    newest = dict[tuple[object, ...], int]()
    for part in reversed(parts):
        rows = part.rows.to_pylist()
        found = [tuple(row[key] for key in keys) for row in rows]
        yield from (newest[key] for key in found if key in newest)
        yield from (part.hi for row in rows if row[GONE])
        newest |= dict.fromkeys(found, part.hi)


def points(table: pa.Table, by: str) -> Iterator[int]:
    yield from table.column(by).to_pylist()


def blocks(table: StateTable) -> Iterator[pa.Table]:
    if isinstance(table, Calendar):
        yield from table.recent
        for some in table.intervals.values():
            yield from some
    elif isinstance(table, RowList):
        yield from table.blocks


def check(wr: windrow.Windrow, step: int) -> None:
    """All that is on record, and in memory."""
    for name in wr.queries:
        query = wr._engine.plans.query(name)
        tick = query.progress.ticked
        if tick is None:
            continue
        most = SHORTEST.get(name, 60) / 20 + step
        for what, ends in (*views(wr, query), *states(wr, query)):
            assert min(ends, default=tick) + most >= tick, (name, what, tick)


def views(wr: windrow.Windrow, query: ContinuousQuery) -> Iterator[tuple[str, Iterator[int]]]:
    commits = wr._engine.opened.plan_commits
    for part in commits.view_parts(query.id):
        yield f"{part.kind} on disk", gone(commits.read(part))
    for table in query.version.changes:
        yield "view in memory", gone(table)


def states(wr: windrow.Windrow, query: ContinuousQuery) -> Iterator[tuple[str, Iterator[int]]]:
    """In the queries above, every calendar is over the shortest window."""
    commits, tables = wr._engine.opened.plan_commits, empty_tables(query.plan)
    by_key = dict[tuple[object, ...], list[StatePart]]()
    for part in commits.parts(query.id, "state"):
        read, table = commits.state_part(part), tables[part.operator or ""]
        if part.layout == "KEYED":
            by_key.setdefault((part.operator, part.buckets), []).append(read)
        else:
            assert isinstance(table, Calendar | RowList)
            yield f"{part.operator} on disk", points(read.rows, table.by)
    for (operator, _), parts in by_key.items():
        keyed = tables[str(operator)]
        if isinstance(keyed, Keyed):  # not what began as a calendar
            yield f"{operator} by key on disk", replaced(parts, keyed.keys)
    state = query.version.state
    for path, table in state.tables.items() if isinstance(state, PlanState) else ():
        for block in blocks(table):
            assert isinstance(table, Calendar | RowList)
            yield f"{path} in memory", points(block, table.by)


def batches(rng: random.Random, count: int, step: int) -> Iterator[tuple[int, bool]]:
    """Points up to which time passes, and whether tuples come: mostly tick by tick, at times many ticks, at times in
    silence."""
    upto, silent = 0, 0
    for _ in range(count):
        silent = silent - 1 if silent else rng.choice([0] * 25 + [10, 40])
        upto += step * rng.choice([1] * 12 + [2, 3, 9, 70])
        yield upto, not silent


def deposit(wr: windrow.Windrow, rng: random.Random, since: int, upto: int) -> None:
    """Tuples between two points, and one that brings the stream up to the second."""
    for name in ("a", "b"):
        times = sorted(rng.randrange(since, upto) for _ in range(rng.randrange(4)))
        wr.deposit(name, [*((t, rng.choice("pqrs"), rng.randrange(4)) for t in times), (upto, None, 9)])


def run(open_state: Open, seed: int, count: int, step: int, home: str) -> None:
    rng, since = random.Random(seed), 0
    options = {"plan_home": home, "retained_changes": 0}
    wr = open_state(**options)
    created(wr, step, IN_SPARK if home == "spark" else IN_DRIVER)
    for upto, is_loud in batches(rng, count, step):
        if is_loud:
            deposit(wr, rng, since, upto)
        else:
            for name in ("a", "b"):
                wr.punctuate(name, upto)
        since = upto
        check(wr, step)
        if rng.random() < 0.02:
            wr.close()
            wr = open_state(**options)
    for name in ("a", "b"):
        wr.punctuate(name, since + 1000)
    check(wr, step)
    assert not any(part.num_rows for name in QUERIES for part in wr._engine.plans.query(name).version.changes)


@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("rewritten", [200_000, 0])
def test_nothing_outlives_its_expiry(
    open_state: Open, monkeypatch: pytest.MonkeyPatch, rewritten: int, step: int
) -> None:
    """Views of one part, and views that are kept by intervals of expiration."""
    monkeypatch.setattr(plan_query, "REWRITTEN_ROWS", rewritten)
    run(open_state, seed=step + rewritten, count=60, step=step, home="driver")


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4) if is_full() else (1,))
def test_nothing_outlives_its_expiry_in_other_runs(
    open_state: Open, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Views become large, and small again."""
    monkeypatch.setattr(plan_query, "REWRITTEN_ROWS", 40)
    monkeypatch.setattr(plan_query, "MOST_VIEW_PARTS", 30)
    run(open_state, seed, count=250 if is_full() else 120, step=1, home="driver")


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("rewritten", [200_000, 0] if is_full() else [0])
def test_nothing_outlives_its_expiry_in_spark(
    open_state: Open, monkeypatch: pytest.MonkeyPatch, rewritten: int
) -> None:
    monkeypatch.setattr(plan_query, "REWRITTEN_ROWS", rewritten)
    run(open_state, seed=7, count=30, step=2, home="spark")
