"""Continuous queries: the engine equals the oracle at every tick, on random plans and streams, by any strategy, while
tables change and queries are replaced and rest. The same tuples in other micro-batches, in another order within the
slack, on other partitions, in the other home, and with a restart elsewhere give the same changes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support.continuous_strategies import Event, StandingScenario, Telling, standing_scenarios
from support.matrix import Variation, is_full, sized
from support.replay import ReplayMismatch, changes_of, check_replay, replay, same_bag
from support.runner import START, EngineBackend, OracleBackend

from windrow.cql import parse_one
from windrow.engine.tables import commits as table_commits
from windrow.errors import CatalogError, StateError, UnsupportedError
from windrow.oracle.continuous import is_continuous
from windrow.oracle.values import equal_rows
from windrow.testing import ManualClock

EXAMPLES = sized(3, 30, 200)
"""An example takes about ten seconds, most of them for the oracle and for the Spark jobs of ticks."""

Rows = list[tuple[Any, ...]]


class World:
    """The engine and the oracle in one telling."""

    def __init__(self, spark: Any, scenario: StandingScenario, told: Telling, directory: Path):
        self.told, self._periodic = told, scenario.periodic
        self.queries = dict(scenario.queries[: told.queries])
        clock = ManualClock(START)
        variation = Variation(
            partitions=told.partitions, rules_off=told.rules_off, plan_home=told.home, execution=told.execution
        )
        self.engine, self.oracle = EngineBackend(spark, clock, directory, variation), OracleBackend(spark, clock)
        self._resting = set[str]()
        for text in [*scenario.streams, *self.queries.values()]:
            self.engine.sql(text)
            self.oracle.sql(text)

    def play(self) -> None:
        """Let everything happen. After each event, views are of the last due tick and what the changes give."""
        for event in self.told.events:
            if event.kind == "replace":
                self._replace(event)
                continue
            for backend in (self.engine, self.oracle):
                _happen(event, backend)
            self._resting ^= {event.query} if event.kind in ("pause", "resume") else set()
            for name in self.queries.keys() - self._resting:
                if not self.is_periodic(name) and event.stream in self.oracle.oracle.plan(name).streams:
                    self._check_view(name)
        wr = self.engine.engine
        for stream in sorted({event.stream for event in self.told.events if event.stream}):
            wr._engine.ticks.catch_up(wr._engine.manager.stream(stream))  # as a run does after a restart
            assert self.engine.dead_letters(stream) == self.oracle.dead_letters(stream)

    def _replace(self, event: Event) -> None:
        """Replace a query. One that may not be, or that does not see all tuples then, is of no more interest."""
        try:
            self.engine.sql(event.text)
        except (CatalogError, StateError, UnsupportedError):
            return
        if self.engine.since(event.query) is not None or "nrr" in event.text:
            del self.queries[event.query]
            return
        self.queries[event.query] = event.text
        self.oracle.sql(event.text)
        self.oracle.begin(event.query, None)

    def is_periodic(self, name: str) -> bool:
        return name in self._periodic or not is_continuous(parse_one(self.queries[name]).select)

    def changes(self, name: str) -> Rows:
        """All its changes; its answers if it is periodic."""
        return self.engine.answers(name) if self.is_periodic(name) else self.engine.changes(name)

    def _check_view(self, name: str) -> None:
        plan, due = self.oracle.oracle.plan(name), self.oracle.oracle.due(name)
        ticked = self.engine.engine._engine.plans.query(name).progress.ticked
        if ticked != (None if due is None else due.last):
            raise ReplayMismatch(f"{name} has ticked up to {ticked}; due are {due}")
        if due is not None and plan.streaming is None:
            changes = changes_of(self.engine.changes(name), plan.attribute)
            _same(self.engine.view(name), replay(changes, [due.last], plan.first_above)[due.last], False)

    def check(self, name: str) -> None:
        """Compare with the oracle: by replayed changes and by the view; by answers if the query is periodic."""
        ordered = parse_one(self.queries[name]).select.args.get("order") is not None
        if self.is_periodic(name):
            _same(self.engine.answers(name), self.oracle.answers(name), ordered)
            return
        plan = self.oracle.oracle.plan(name)
        check_replay(changes_of(self.engine.changes(name), plan.attribute), self.oracle.oracle, name)
        if plan.streaming is None:
            _same(self.engine.view(name), self.oracle.view(name), ordered)


def _happen(event: Event, backend: EngineBackend | OracleBackend) -> None:
    if event.kind == "feed":
        backend.deposit(event.stream, [dict(row) for row in event.rows])
    elif event.kind == "punctuate":
        backend.punctuate(event.stream, event.upto, None, {})
    elif event.kind == "close":
        backend.end_input(event.stream)
    elif event.text:
        backend.sql(event.text)
    else:
        backend.restart()


def _same(found: Rows, expected: Rows, ordered: bool) -> None:
    if not (equal_rows(found, expected) if ordered else same_bag(found, expected)):
        raise ReplayMismatch("\n".join(["engine:", *map(str, found), "expected:", *map(str, expected)]))


def differences(spark: Any, scenario: StandingScenario, directory: Path) -> Iterator[str]:
    """What differs: by query, from the oracle in the first telling, and between the tellings."""
    first: dict[str, Rows] = {}
    for i, told in enumerate(scenario.tellings):
        world = World(spark, scenario, told, directory / str(i))
        try:
            world.play()
            for name, text in world.queries.items():
                try:
                    if i and scenario.is_timeless:
                        _same(world.changes(name), first[name], ordered=True)
                    else:
                        first[name] = world.changes(name)
                        world.check(name)
                except ReplayMismatch as error:
                    yield f"{text}\n{error}"
        except ReplayMismatch as error:
            yield str(error)
        finally:
            world.engine.close()


@pytest.mark.slow
@pytest.mark.matrix
def test_engine_equals_oracle_at_every_tick(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_commits, "FEW_CHANGES", 2)  # so that changes are folded into tables

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, *([Phase.shrink] if is_full() else [])],
        suppress_health_check=list(HealthCheck),
    )
    @given(standing_scenarios())
    def check(scenario: StandingScenario) -> None:
        with tempfile.TemporaryDirectory() as directory:
            found = list(differences(spark, scenario, Path(directory)))
        assert not found, "\n\n".join([str(scenario), *found])

    check()
