"""Continuous queries: the engine equals the oracle at every tick, on random plans and streams, with a restart."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from support.continuous_strategies import Event, StandingScenario, standing_scenarios
from support.matrix import Variation, is_full
from support.replay import ReplayMismatch, changes_of, check_replay, same_bag
from support.runner import START, EngineBackend, OracleBackend

from windrow.cql import parse_one
from windrow.oracle.continuous import is_continuous
from windrow.oracle.values import equal_rows
from windrow.settings import SPECS
from windrow.testing import ManualClock

EXAMPLES = 200


def _happen(event: Event, backend: EngineBackend | OracleBackend) -> None:
    if event.kind == "feed":
        backend.deposit(event.stream, [dict(row) for row in event.rows])
    elif event.kind == "close":
        backend.end_input(event.stream)
    else:
        backend.restart()


def _check(scenario: StandingScenario, name: str, text: str, engine: EngineBackend, oracle: OracleBackend) -> None:
    """By replayed changes and by the view; by answers if the query is periodic."""
    select = parse_one(text).select
    ordered = select.args.get("order") is not None
    try:
        if name in scenario.periodic or not is_continuous(select):
            _same(engine.answers(name), oracle.answers(name), ordered)
            return
        plan = oracle.oracle.plan(name)
        check_replay(changes_of(engine.changes(name), plan.attribute), oracle.oracle, name)
        if plan.streaming is None:
            _same(engine.view(name), oracle.view(name), ordered)
    except ReplayMismatch as error:
        raise AssertionError(f"{scenario}\n-- {text}\n{error}") from error


def _same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], ordered: bool) -> None:
    if not (equal_rows(found, expected) if ordered else same_bag(found, expected)):
        raise ReplayMismatch("\n".join(["engine:", *map(str, found), "oracle:", *map(str, expected)]))


def _play(scenario: StandingScenario, engine: EngineBackend, oracle: OracleBackend) -> None:
    for text in [*scenario.streams, *(text for _, text in scenario.queries)]:
        engine.sql(text)
        oracle.sql(text)
    for number, event in enumerate(scenario.events):
        for backend in (engine, oracle):
            _happen(event, backend)
        if number == len(scenario.events) // 2:
            _check(scenario, *scenario.queries[0], engine, oracle)
    for stream in {event.stream for event in scenario.events if event.kind == "feed"}:
        assert engine.dead_letters(stream) == oracle.dead_letters(stream)
    for name, text in scenario.queries:
        _check(scenario, name, text, engine, oracle)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.skipif(not is_full(), reason="minutes long: WINDROW_MATRIX=full runs it (make test-matrix)")
def test_engine_equals_oracle_at_every_tick(spark: Any) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(standing_scenarios())
    def check(scenario: StandingScenario) -> None:
        clock = ManualClock(START)
        home = scenario.home if "plan_home" in SPECS else "auto"
        variation = Variation(partitions=scenario.partitions, rules_off=scenario.rules_off, plan_home=home)
        with tempfile.TemporaryDirectory() as directory:
            engine = EngineBackend(spark, clock, Path(directory) / "state", variation)
            try:
                _play(scenario, engine, OracleBackend(spark, clock))
            finally:
                engine.close()

    check()
