"""What tasks know of continuous plans goes by few broadcasts, which are destroyed when no job uses them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from windrow.dataplane import plan_stages
from windrow.dataplane.kernels.stage_messages import ROWS, SharedJoinTask, StagedTask, StageJob
from windrow.dataplane.plan_stages import PlanStages


class Held:
    """A broadcast that notes its end."""

    def __init__(self, value: Any) -> None:
        self.value, self.is_destroyed = value, False

    def destroy(self) -> None:
        self.is_destroyed = True


class Context:
    def __init__(self) -> None:
        self.made: list[Held] = []

    def broadcast(self, value: Any) -> Held:
        self.made.append(Held(value))
        return self.made[-1]


def task(number: int) -> StagedTask:
    return StagedTask("root", number, *cast(Any, (None, SimpleNamespace(levels=1), (), False, 0)))


def join(number: int) -> SharedJoinTask:
    return SharedJoinTask("root", number, *cast(Any, (None, (), (), False, False, 0)))


@pytest.fixture
def made() -> list[Held]:
    return []


@pytest.fixture
def stages(made: list[Held]) -> PlanStages:
    context = Context()
    context.made = made
    return PlanStages(cast(Any, SimpleNamespace(sparkContext=context)))


def seen(picked: Any) -> list[Any]:
    held, places = picked
    return [] if held is None else [held.value[place] for place in places]


def test_plans_of_a_job_are_broadcast_together_and_once(stages: PlanStages, made: list[Held]) -> None:
    tasks = [task(number) for number in range(5)]
    assert seen(stages._broadcast(tasks)) == tasks
    assert seen(stages._broadcast([tasks[3], tasks[1]])) == [tasks[3], tasks[1]], "a job of fewer plans"
    assert seen(stages._broadcast(())) == [] and len(made) == 1
    assert seen(stages._broadcast([*tasks, task(5)]))[:5] == tasks and len(made) == 2
    assert seen(stages._broadcast([task(1)])) != [] and len(made) == 3, "another plan of this number"
    assert not any(one.is_destroyed for one in made)


def test_few_broadcasts_are_held(stages: PlanStages, made: list[Held]) -> None:
    for number in range(plan_stages.MOST_TOLD + 3):
        stages._broadcast([task(number)])
    assert [one.is_destroyed for one in made].count(True) == 3 and all(one.is_destroyed for one in made[:3])


def test_a_broadcast_outlives_the_job_that_uses_it(
    stages: PlanStages, made: list[Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query is dropped while those that were broadcast with it are in a job."""
    tasks, joins = [task(1), task(2)], [join(7)]
    stages._broadcast(tasks)

    def run(*job: Any) -> Any:
        stages.forget(1)
        stages.forget_join(7)
        assert not any(one.is_destroyed for one in made)
        return ROWS.empty_table()

    monkeypatch.setattr(stages._jobs, "run", run)
    ranges = SimpleNamespace(ranges=((0, 256),))
    assert stages.run(tasks[1:], joins, StageJob(cast(Any, (ranges,)))) == [[]]
    assert len(made) == 2 and all(one.is_destroyed for one in made) and not stages._told
    stages._broadcast(tasks)
    stages.forget(2)
    assert all(one.is_destroyed for one in made) and not stages._told
