"""One-time queries: at random instants, random SELECTs over windows and tables equal the oracle at the instant that the
answer claims, in the driver and in Spark."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support.continuous_strategies import Event, StandingScenario, standing_scenarios
from support.matrix import Variation, is_full, sized
from support.replay import same_bag
from support.runner import START, EngineBackend, OracleBackend
from test_continuous_properties import _happen

from windrow.cql import parse_one
from windrow.errors import SpanError, UnsupportedError
from windrow.oracle.values import equal_rows
from windrow.testing import ManualClock
from windrow.types import SqlType, point_of

EXAMPLES = sized(3, 30, 200)
"""An example takes some seconds, most of them for the oracle."""

HAPPENS = ("feed", "punctuate", "close", "change", "restart")
MOMENTS = 4
"""At so many moments every text is asked."""


def questions(scenario: StandingScenario) -> list[str]:
    """The SELECTs of a scenario; those with SLIDE are of standing queries."""
    made = [text for name, text in scenario.queries if name not in scenario.periodic]
    return [text.partition(" AS ")[2] for text in made]


def retaining(text: str) -> str:
    """CREATE STREAM with RETAIN, longer than any test."""
    if not text.startswith("CREATE STREAM"):
        return text
    return f"{text} RETAIN {'100000' if 'ts BIGINT' in text or 'ts INT' in text else '1 HOUR'}"


def differences(spark: Any, scenario: StandingScenario, directory: Path) -> list[str]:
    """The texts whose answers are not the oracle's, and when."""
    clock, found = ManualClock(START), list[str]()
    asked = scenario.tellings[1].home  # the second telling says where
    told = scenario.tellings[0]
    engine = EngineBackend(spark, clock, directory, Variation(partitions=told.partitions, asked=asked))
    oracle = OracleBackend(spark, clock)
    try:
        for text in map(retaining, scenario.streams):
            engine.sql(text)
            oracle.sql(text)
        events = [event for event in told.events if event.kind in HAPPENS]
        moments = {len(events) * (i + 1) // MOMENTS - 1 for i in range(MOMENTS)}
        for i, event in enumerate(events):
            for backend in (engine, oracle):
                _happen(event, backend)
            for text in questions(scenario) if i in moments else ():
                found += _asked(engine, oracle, text, event)
    finally:
        engine.close()
    return found


def _asked(engine: EngineBackend, oracle: OracleBackend, text: str, event: Event) -> list[str]:
    try:
        window, rows = engine.ask(text, None)
    except (UnsupportedError, SpanError):
        return []  # of a standing query, or nothing is complete yet
    is_time = not isinstance(window, int)
    instant = point_of(window, SqlType("TIMESTAMP")) if is_time else window
    _, expected = oracle.oracle.ask(text, instant)
    ordered = parse_one(text).select.args.get("order") is not None
    if equal_rows(rows, expected) if ordered else same_bag(rows, expected):
        return []
    return ["\n".join([f"{text}\nas of {window}, after {event}", *map(str, rows), "expected:", *map(str, expected)])]


@pytest.mark.matrix
@pytest.mark.slow
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not is_full(),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate] + ([Phase.shrink] if is_full() else []),
)
@given(scenario=standing_scenarios())
def test_random_questions(spark: Any, scenario: StandingScenario) -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = differences(spark, scenario, Path(directory))
    assert not found, f"{scenario}\n\n" + "\n\n".join(found)
