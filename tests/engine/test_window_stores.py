"""Window stores of a running engine: the rows in a store are the admitted rows, wherever they were written."""

from __future__ import annotations

import random
from typing import Any

import pytest

import windrow
from engine.conftest import Open
from engine.helpers import answers, blocks_of, jobs, state_of
from windrow.dataplane.stores import ARRIVAL, POINT, KeptColumn
from windrow.engine.kept.window_stores import StoreUse
from windrow.errors import CatalogError, ExecutionError
from windrow.types import POINT_MAX, POINT_MIN, SqlType

pytestmark = pytest.mark.slow

MODES = ("driver", "spark")
SLACK = "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 5"
QUERY = "CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SLIDE 5] GROUP BY k ORDER BY k"
K = KeptColumn("k", SqlType("STRING"))
X = KeptColumn("x", SqlType("INT"))
TWICE = KeptColumn("x * 2", SqlType("INT"))
EVEN = KeptColumn("x % 2 = 0", SqlType("BOOLEAN"))
Row = tuple[int | None, str | None, int | None]


def stores_of(wr: windrow.Windrow) -> Any:
    return wr._engine.opened.stores


def need(wr: windrow.Windrow, reader: str, *columns: KeptColumn, stream: str = "s", **more: Any) -> StoreUse:
    state = state_of(wr, stream)
    with state.batch_lock:
        use: StoreUse = stores_of(wr).need(state, reader, more.pop("axis", "t"), columns, **more)
    return use


def rows(wr: windrow.Windrow, use: StoreUse, *columns: KeptColumn) -> list[tuple[Any, ...]]:
    found = stores_of(wr).rows(use, columns, POINT_MIN, POINT_MAX)
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=str)


def put(wr: windrow.Windrow, batch: list[Row], partitions: int = 2, stream: str = "s") -> None:
    wr._engine.inputs.deposit(stream, batch, partitions)


def made_batches(seed: int = 3, count: int = 6) -> list[list[Row]]:
    """Micro-batches with late rows, rows without a point, NULL keys and ties."""
    rng, out = random.Random(seed), []
    for i in range(count):
        batch: list[Row] = []
        for _ in range(30):
            t = None if rng.random() < 0.1 else 4 * i + rng.randrange(-8, 8)
            batch.append((t, rng.choice(["a", "b", "c", None]), rng.randrange(10)))
        out.append(batch)
    return out


def admitted(batches: list[list[Row]], slack: int = 5) -> list[Row]:
    """The rows that a stream with this slack admits."""
    out: list[Row] = []
    greatest: int | None = None
    for batch in batches:
        frontier = None if greatest is None else greatest - slack
        taken = [row for row in batch if row[0] is not None and (frontier is None or row[0] >= frontier)]
        out += taken
        greatest = max([row[0] for row in taken if row[0] is not None] + ([] if greatest is None else [greatest]))
    return out


def progress(wr: windrow.Windrow, stream: str = "s") -> tuple[Any, ...]:
    """Everything of a stream's progress that does not depend on how it is read."""
    state = state_of(wr, stream)
    totals = wr._engine.catalog.row("SELECT admitted, late, dead FROM streams WHERE name = ?", (stream,))
    letters = wr._engine.catalog.rows("SELECT reason, record, point FROM dead_letters ORDER BY reason, record, point")
    return dict(state.frontiers), dict(state.least), tuple(totals), sorted(tuple(row) for row in letters)


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("queried", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_rows_are_the_admitted_rows(open_state: Open, mode: str, queried: bool, partitions: int) -> None:
    batches, plain = made_batches(), open_state("plain")
    wr = open_state("kept", preaggregate=mode)
    for one in (plain, wr):
        one.sql(SLACK)
    plain.sql(QUERY)
    if queried:
        wr.sql(QUERY)
    use = need(wr, "r", K, X, TWICE, keys=[K])
    even = need(wr, "even", X, predicate=EVEN, keys=[K])
    for batch in batches:
        put(wr, batch, partitions)
        put(plain, batch, partitions)
    expected = admitted(batches)
    assert 0 < len(expected) < sum(map(len, batches))
    assert rows(wr, use, K, X, TWICE) == sorted([(t, k, x, 2 * x) for t, k, x in expected], key=str)
    assert rows(wr, even, X) == sorted([(t, x) for t, _, x in expected if x % 2 == 0], key=str)
    assert progress(wr) == progress(plain)
    if queried:
        assert answers(wr, "q") == answers(plain, "q")
    assert state_of(wr).metrics.preaggregated_by[mode] == len(batches)


@pytest.mark.parametrize("queried", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_order_of_arrival(open_state: Open, mode: str, queried: bool) -> None:
    """Stored tuples have the numbers of admitted tuples, also in a micro-batch of several partitions."""
    wr = open_state("kept", preaggregate=mode)
    wr.sql(SLACK)
    if queried:
        wr.sql(QUERY)
    batches = made_batches()
    put(wr, batches[0])
    use = need(wr, "r", ARRIVAL, X, keys=[K])
    for batch in batches[1:]:
        put(wr, batch, partitions=3)
    expected = admitted(batches)
    seen = len(admitted(batches[:1]))
    numbered = [(t, number, x) for number, (t, _, x) in enumerate(expected, 1) if number > seen]
    since = use.since or 0
    assert rows(wr, use, ARRIVAL, X) == sorted([row for row in numbered if row[0] >= since], key=str)
    assert state_of(wr).metrics.preaggregated_by[mode] == len(batches)


@pytest.mark.parametrize("mode", MODES)
def test_lateness(open_state: Open, mode: str) -> None:
    """Without synopses, lateness is as exact in Spark as in the driver: to the bucket."""
    batches, plain, wr = made_batches(), open_state("plain"), open_state("kept", preaggregate=mode)
    for one in (plain, wr):
        one.sql(SLACK)
        for batch in batches:
            if one is wr and not state_of(wr).readers:
                need(wr, "r", X)
            put(one, batch)
    assert state_of(wr).lateness["t"].counts == state_of(plain).lateness["t"].counts


STREAMS = {
    "per key": "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE PER k",
    "slack in rows": "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 9 ROWS",
    "ordered": "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", STREAMS)
def test_progress_without_queries(open_state: Open, policy: str, mode: str) -> None:
    plain, wr = open_state("plain"), open_state("kept", preaggregate=mode)
    for one in (plain, wr):
        one.sql(STREAMS[policy])
    plain.sql(QUERY)
    use = need(wr, "r", X)
    for batch in made_batches(5):
        put(plain, batch)
        put(wr, batch)
    assert progress(wr) == progress(plain)
    assert len(rows(wr, use, X)) == progress(plain)[2][0]


@pytest.mark.parametrize("mode", MODES)
def test_two_axes(open_state: Open, mode: str) -> None:
    plain, wr = open_state("plain"), open_state("kept", preaggregate=mode)
    for one in (plain, wr):
        one.sql(
            "CREATE STREAM s (t BIGINT, k STRING, u BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE PER k"
            " PUNCTUATE ON u WITH SLACK 3 ROWS"
        )
    plain.sql("CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 5 WATTR u]")
    by_t, by_u = need(wr, "t", K), need(wr, "u", K, axis="u")
    rng = random.Random(8)
    for i in range(5):
        batch = [(5 * i + rng.randrange(5), rng.choice("ab"), 3 * i + rng.randrange(6)) for _ in range(20)]
        put(plain, batch)
        put(wr, batch)
    assert progress(wr) == progress(plain)
    assert len(rows(wr, by_t, K)) == len(rows(wr, by_u, K)) == progress(plain)[2][0]
    assert {row[0] for row in rows(wr, by_t, K)} != {row[0] for row in rows(wr, by_u, K)}


@pytest.mark.parametrize("queried", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_one_job_per_micro_batch(spark: Any, open_state: Open, mode: str, queried: bool) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(SLACK)
    if queried:
        wr.sql(QUERY)
    plain, before = 0, jobs(spark)
    if queried:
        put(wr, [(1, "a", 1)])
        plain = jobs(spark) - before
    need(wr, "r", X)
    before = jobs(spark)
    put(wr, [(2, "a", 1), (3, "b", 2)])
    assert jobs(spark) - before == (plain or 1)


@pytest.mark.parametrize("mode", MODES)
def test_types(open_state: Open, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(
        "CREATE STREAM s (ts TIMESTAMP, d DECIMAL(10,2), f DOUBLE, day DATE, b BOOLEAN, n TIMESTAMP_NTZ)"
        " FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED"
    )
    kinds = {
        "ts": "TIMESTAMP",
        "d": "DECIMAL(10,2)",
        "f": "DOUBLE",
        "day": "DATE",
        "b": "BOOLEAN",
        "n": "TIMESTAMP_NTZ",
    }
    columns = [KeptColumn(name, SqlType(kind)) for name, kind in kinds.items()]
    extra = [KeptColumn("CAST(NULL AS STRING)", SqlType("STRING")), KeptColumn("concat('a', b)", SqlType("STRING"))]
    use = need(wr, "r", *columns, *extra, axis="ts", keys=columns)
    batch = [
        {
            "ts": "2026-01-01 00:00:01",
            "d": "1.50",
            "f": 0.5,
            "day": "2026-02-03",
            "b": True,
            "n": "2026-01-01 00:00:02",
        },
        {"ts": "2026-01-01 00:00:02", "d": None, "f": None, "day": None, "b": None, "n": None},
    ]
    wr.deposit("s", batch)
    found = stores_of(wr).rows(use, [*columns, *extra], POINT_MIN, POINT_MAX)
    assert found.schema.types[1:] == [column.type.arrow for column in (*columns, *extra)]
    first, second = sorted(found.to_pylist(), key=lambda row: row[POINT])
    assert [str(value) for value in first.values()][1:] == [
        "2026-01-01 00:00:01+00:00", "1.50", "0.5", "2026-02-03", "True", "2026-01-01 00:00:02", "None", "atrue"
    ]  # fmt: skip
    assert list(second.values())[2:] == [None] * 7


@pytest.mark.parametrize("mode", MODES)
def test_restart_and_later_readers(open_state: Open, mode: str) -> None:
    batches, wr = made_batches(), open_state(preaggregate=mode)
    wr.sql(SLACK)
    use = need(wr, "r", K, X)
    for batch in batches[:3]:
        put(wr, batch)
    wr.close()
    wr = open_state(preaggregate=mode)
    assert stores_of(wr).use("r") == use and state_of(wr).readers == {"r"}
    later = need(wr, "late", TWICE)
    greatest = max(row[0] or 0 for row in admitted(batches[:3]))
    assert later.since == greatest + 1
    for batch in batches[3:]:
        put(wr, batch)
    expected = admitted(batches)
    assert rows(wr, use, K, X) == sorted(expected, key=str)
    assert rows(wr, later, TWICE) == sorted([(t, 2 * x) for t, _, x in expected if t > greatest], key=str)


@pytest.mark.parametrize("mode", MODES)
def test_merge_and_expiry(open_state: Open, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(SLACK)
    use = need(wr, "r", X, span=400)
    for point in range(40):
        put(wr, [(point, "a", point), (point + 1, "b", point)])
    before = rows(wr, use, X)
    assert len(before) == 80 and blocks_of(wr, "stores/") < 20
    with wr._engine.catalog.transaction():
        stores_of(wr).keep_from({"r": 20})
    put(wr, [(41, "a", 41)])
    expected = sorted([*(row for row in before if row[0] >= 20), (41, 41)], key=str)
    assert [row for row in rows(wr, use, X) if row[0] >= 20] == expected
    with wr._engine.catalog.transaction():
        stores_of(wr).keep_from({"r": 100})
    assert stores_of(wr).nbytes == 0 and blocks_of(wr, "stores/") == 0
    assert not list((wr._engine.opened.state_dir / "stores").rglob("*.arrow"))


@pytest.mark.parametrize("mode", MODES)
def test_only_a_reader_runs_a_fed_stream(open_state: Open, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(SLACK)
    wr.feed("s", [(1, "a", 1), (2, "b", 2)])
    use = need(wr, "r", X)
    wr.run_available()
    wr.feed("s", [(9, "a", 3), (None, "b", 4), (-9, "b", 5)])
    wr.run_available()
    assert rows(wr, use, X) == [(1, 1), (2, 2), (9, 3)]
    assert wr._engine.catalog.value("SELECT dead FROM streams") == 2
    with pytest.raises(CatalogError, match="read by: r"):
        wr.sql("DROP STREAM s")
    with state_of(wr).batch_lock:
        stores_of(wr).drop("r")
    assert blocks_of(wr, "stores/") == 0
    wr.sql("DROP STREAM s")


@pytest.mark.parametrize("mode", MODES)
def test_large_values_are_null(open_state: Open, mode: str) -> None:
    wr = open_state(preaggregate=mode, max_value_bytes="1 KB")
    wr.sql(SLACK)
    long = KeptColumn("repeat(k, x)", SqlType("STRING"))
    use = need(wr, "r", long)
    put(wr, [(1, "a", 3), (2, "a", 9999)])
    assert rows(wr, use, long) == [(1, "aaa"), (2, None)]


@pytest.mark.parametrize("mode", MODES)
def test_reader_that_fails_is_suspended(open_state: Open, mode: str) -> None:
    wr, told = open_state(preaggregate=mode), list[str]()
    wr.sql(SLACK)
    wr.sql(QUERY)
    stores_of(wr).on_failure = lambda reader, why: told.append(reader)
    use = need(wr, "good", X)
    need(wr, "bad", KeptColumn("IF(x = 3, CAST(raise_error('no threes') AS INT), x)", SqlType("INT")))
    put(wr, [(1, "a", 2)])
    put(wr, [(2, "a", 3)])
    assert told == ["bad"] and state_of(wr).readers == {"good"}
    assert rows(wr, use, X) == [(1, 2), (2, 3)] and wr.queries["q"] is not None


def test_broken_source_blames_no_reader(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    wr = open_state(preaggregate="spark")
    wr.sql(SLACK)
    need(wr, "r", X)
    put(wr, [(1, "a", 2)])

    def fail(_: Any) -> Any:
        raise RuntimeError("no disk")

    monkeypatch.setattr("windrow.engine.intake.deposits.ingest.run", fail)
    with pytest.raises(ExecutionError):
        put(wr, [(2, "a", 3)])
    assert state_of(wr).readers == {"r"}


QUERIES = {
    "rows": ["CREATE QUERY q AS SELECT SUM(x) AS n FROM s [ROWS 4 SLIDE 2]"],
    "partitioned": ["CREATE QUERY q AS SELECT k, MAX(x) AS m FROM s [ROWS 3 SLIDE 1 PARTITION BY k]"],
    "packed": [
        f"CREATE QUERY q{'' if i == 0 else i} AS SELECT k || '{i}' AS kk, x + {i} AS y, t % {i + 2} AS z, COUNT(*) AS n"
        f" FROM s [RANGE 10 SLIDE 5] GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        for i in range(20)
    ],
    "sketch": ["CREATE QUERY q AS SELECT APPROX_COUNT_DISTINCT(x) AS n, COUNT(*) AS c FROM s [RANGE 10 SLIDE 5]"],
    "sets": [QUERY, "CREATE QUERY r AS SELECT AVG(x) AS a FROM s [RANGE 4 SLIDE 2] WHERE k <> 'a'"],
}


@pytest.mark.parametrize("kind", QUERIES)
def test_all_groupings_in_spark(open_state: Open, kind: str) -> None:
    """Rows that are kept on the way are grouped as they would be without."""
    batches, plain, wr = (
        made_batches(11, 4),
        open_state("plain", preaggregate="spark"),
        open_state("kept", preaggregate="spark"),
    )
    for one in (plain, wr):
        one.sql(SLACK)
        for text in QUERIES[kind]:
            one.sql(text)
    use = need(wr, "r", K, X)
    for batch in batches:
        put(plain, batch)
        put(wr, batch)
    assert rows(wr, use, K, X) == sorted(admitted(batches), key=str)
    for query in wr.queries:
        found = sorted(answers(wr, query), key=str)
        assert found and found == sorted(answers(plain, query), key=str)
    assert progress(wr) == progress(plain)


def test_synopses_in_the_spark_home(open_state: Open) -> None:
    batches, plain = made_batches(), open_state("plain")
    wr = open_state("kept", preaggregate="spark", synopsis_home="spark")
    for one in (plain, wr):
        one.sql(SLACK)
        one.sql(QUERY)
    use = need(wr, "r", K, X)
    for batch in batches:
        put(plain, batch)
        put(wr, batch)
    assert rows(wr, use, K, X) == sorted(admitted(batches), key=str)
    assert answers(wr, "q") == answers(plain, "q") and progress(wr) == progress(plain)


@pytest.mark.parametrize("mode", MODES)
def test_empty_micro_batch(open_state: Open, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(SLACK)
    use = need(wr, "r", X)
    put(wr, [])
    put(wr, [(None, "a", 1)])
    put(wr, [(1, "a", 1)])
    assert rows(wr, use, X) == [(1, 1)] and blocks_of(wr, "stores/") == 1


@pytest.mark.parametrize("mode", MODES)
def test_read_only(open_state: Open, tmp_path: Any, spark: Any, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(SLACK)
    need(wr, "r", X)
    put(wr, [(1, "a", 1)])
    with windrow.open(wr._engine.opened.state_dir, spark=spark, read_only=True) as reading:
        assert state_of(reading).readers == {"r"} and "idle" not in str(reading.sql("SHOW STREAMS").rows())


def test_mixed_modes(open_state: Open) -> None:
    """A stream whose micro-batches are gathered and grouped in turn."""
    batches, wr = made_batches(), open_state()
    wr.sql(SLACK)
    wr.sql(QUERY)
    use = need(wr, "r", K, X)
    for i, batch in enumerate(batches):
        wr.sql(f"SET preaggregate = '{MODES[i % 2]}'")
        put(wr, batch)
    assert rows(wr, use, K, X) == sorted(admitted(batches), key=str)
    assert state_of(wr).metrics.preaggregated_by == {"driver": 3, "spark": 3}
