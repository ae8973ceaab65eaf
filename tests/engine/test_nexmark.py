"""The NEXMark source through Structured Streaming, and the queries of examples/nexmark against the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.replay import changes_of, check_replay, same_bag

import windrow
from engine.helpers import answers, wait_until
from windrow.catalog.definitions import define_stream
from windrow.cql import parse
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.dataplane.nexmark.events import BID, Events, columns_of
from windrow.dataplane.sources.nexmark import options_of
from windrow.engine.run.inputs import Inputs
from windrow.errors import ExecutionError
from windrow.oracle import Oracle

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
EVENTS, FEWER = "events '3000'", "events '2100'"
EVERY = 7
"""The oracle looks at every row at every instant: 2,000 rows at 2,000 instants. So only some of both are compared."""

SCRIPTS = {
    path.stem: path.read_text(encoding="utf-8").replace(EVENTS, FEWER)
    for path in (ROOT / "examples/nexmark").glob("*.cql")
}
BIDS = """
CREATE STREAM bid (auction BIGINT, price BIGINT, date_time TIMESTAMP, extra STRING)
  FROM nexmark OPTIONS (rate '50', events '500', seed '3', maxEventsPerTrigger '120')
  TIMESTAMP BY date_time PUNCTUATE ORDERED
"""


def events_of(statement: CreateStream) -> pa.Table:
    """All events of a stream, made without Spark."""
    stream = define_stream(statement)
    options = options_of(stream)
    assert options.events is not None
    events, names = Events(options.sequence, options.kind.numbers(0, options.events)), [n for n, _ in stream.columns]
    return pa.table(columns_of(events, options.kind, names), names=names)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture(scope="module")
def both(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[windrow.Windrow, Oracle]]:
    """All scripts in one state and in the oracle, run to the end of their input."""
    wr, oracle = windrow.open(tmp_path_factory.mktemp("nexmark") / "state", spark=spark), Oracle(spark)
    streams = dict[str, CreateStream]()
    for text in SCRIPTS.values():
        wr.sql(text)
        for statement in parse(text):
            if isinstance(statement, CreateStream) and streams.setdefault(statement.name, statement) is statement:
                oracle.sql(to_text(statement))
            elif isinstance(statement, CreateQuery):
                oracle.sql(to_text(statement))
    wr.run_available(close=True)
    for name, statement in streams.items():
        oracle.deposit(name, events_of(statement).to_pylist())
        oracle.end_input(name)
    yield wr, oracle
    wr.close()


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_example_equals_oracle(name: str, both: tuple[windrow.Windrow, Oracle]) -> None:
    wr, oracle = both
    query = wr.queries[name]
    if query.is_continuous:
        changes = changes_of(rows_of(query.changes().arrow()), oracle.plan(name).attribute)
        assert changes
        check_replay(changes, oracle, name, lambda some, others: Counter(some) == Counter(others), every=EVERY)
    else:
        found = answers(wr, name)
        assert found
        assert same_bag(found, oracle.answers(name).rows)


def test_every_script_is_named(both: tuple[windrow.Windrow, Oracle]) -> None:
    assert sorted(both[0].queries) == sorted(SCRIPTS)
    readme = (ROOT / "examples/nexmark/README.md").read_text(encoding="utf-8")
    assert [name for name in SCRIPTS if f"[{name}]({name}.cql)" not in readme] == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_restart(when: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that failed in its third micro-batch, before or after the commit, goes on with the next event."""
    process = Inputs.process

    def failing(self: Inputs, stream: Any, df: Any, batch_id: int, *others: Any) -> None:
        if batch_id == 2 and when == "before":
            raise RuntimeError("the power is gone")
        process(self, stream, df, batch_id, *others)
        if batch_id == 2:
            raise RuntimeError("the power is gone")

    with windrow.open(tmp_path / "state", spark=spark) as wr, monkeypatch.context() as patched:
        wr.sql(BIDS)
        wr.query("q", "SELECT * FROM bid [RANGE 1 SECOND INTERNAL]")
        wr.query("rows", "SELECT COUNT(*) AS n, SUM(price) AS total FROM bid [ROWS 100 SLIDE 100]")
        patched.setattr(Inputs, "process", failing)
        with pytest.raises(ExecutionError, match="the power is gone"):
            wr.run_available()
        assert wr.metrics()["bid"]["rows"] == BID.before(240 if when == "before" else 360)
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.run_available()
        wr.run_available(close=True)
        expected = events_of(parse(BIDS)[0])
        found = wr.queries["q"].view().arrow()
        assert same_bag(rows_of(found), rows_of(expected))
        prices = expected.column("price").to_pylist()
        sums = [(100, sum(prices[at : at + 100])) for at in range(0, 400, 100)]
        assert [row[2:] for row in answers(wr, "rows")][:4] == sums


def test_endless_stream(spark: Any, tmp_path: Path) -> None:
    """It waits for the clock: nothing is available, and under `start` events come at the rate. A restart goes on."""
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql("""
            CREATE STREAM bid (price BIGINT, date_time TIMESTAMP) FROM nexmark OPTIONS (rate '1000')
            TIMESTAMP BY date_time PUNCTUATE ORDERED
        """)
        wr.query("q", "SELECT COUNT(*) AS n FROM bid [RANGE 1 SECOND SLIDE 1 SECOND]")
        wr.run_available()
        assert wr.metrics()["bid"]["rows"] == 0
        wr.start()
        wait_until(lambda: len(answers(wr, "q")) > 0)
        wr.stop()
        before = len(answers(wr, "q"))
        wr.start()
        wait_until(lambda: len(answers(wr, "q")) > before)
        wr.stop()
        assert {n for _, _, n in answers(wr, "q")} == {920}
