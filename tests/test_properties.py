"""The engine equals the oracle on random streams, queries and partitions, with restarts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from support.matrix import Variation, sized
from support.runner import START, EngineBackend, OracleBackend
from support.strategies import Scenario, scenarios

from windrow.cql import parse_one
from windrow.oracle import equal_rows
from windrow.oracle.values import sort_key
from windrow.testing import ManualClock

EXAMPLES = sized(10, 60, 300)


def _in_order(rows: list[tuple[Any, ...]], ordered: bool) -> list[tuple[Any, ...]]:
    return rows if ordered else sorted(rows, key=lambda row: (row[1], sort_key(row[2:])))


def _compare(scenario: Scenario, name: str, text: str, engine: EngineBackend, oracle: OracleBackend) -> None:
    select = parse_one(text).select
    ordered = select.args.get("order") is not None
    found, expected = engine.answers(name), oracle.answers(name)
    if not equal_rows(_in_order(found, ordered), _in_order(expected, ordered)):
        shown = [*str(scenario).splitlines(), f"-- {text}", "engine:", *map(str, found)]
        raise AssertionError("\n".join([*shown, "oracle:", *map(str, expected)]))


def _play(scenario: Scenario, engine: EngineBackend, oracle: OracleBackend) -> None:
    queries = list(scenario.queries)
    later = [queries.pop()] if scenario.added_after is not None else []
    for text in [scenario.create_stream, *(text for _, text in queries)]:
        engine.sql(text)
        oracle.sql(text)
    for number, batch in enumerate(scenario.batches):
        engine.deposit("s", [dict(row) for row in batch])
        oracle.deposit("s", [dict(row) for row in batch])
        if scenario.dropped_after == number:
            engine.sql(f"DROP QUERY {queries.pop(0)[0]}")
        if scenario.added_after == number:
            _add_late(*later[0], engine, oracle)
        if scenario.restart_after == number:
            engine.restart()
    assert engine.dead_letters("s") == oracle.dead_letters("s")
    _compare(scenario, *queries[0], engine, oracle)
    engine.end_input("s")
    oracle.end_input("s")
    for name, text in queries + later:
        _compare(scenario, name, text, engine, oracle)


def _add_late(name: str, text: str, engine: EngineBackend, oracle: OracleBackend) -> None:
    """Add a query while the stream runs. Where it begins depends on what it shares, so the oracle takes the engine's
    point."""
    engine.sql(text)
    oracle.sql(text)
    oracle.begin(name, engine.since(name))


@pytest.mark.slow
@pytest.mark.matrix
def test_engine_equals_oracle(spark: Any) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        clock = ManualClock(START)
        evaluation = "selection" if len(scenario.batches) % 2 else "window_ids"
        variation = Variation(partitions=scenario.partitions, preaggregate=scenario.preaggregate, evaluation=evaluation)
        with tempfile.TemporaryDirectory() as directory:
            engine = EngineBackend(spark, clock, Path(directory) / "state", variation)
            try:
                _play(scenario, engine, OracleBackend(spark, clock))
            finally:
                engine.close()

    check()
