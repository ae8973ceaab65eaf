"""If executors of a cluster, or Python workers, are killed during jobs, the answers are those of an undisturbed run, in
both homes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.short_lived_jvm import ROUGH

import windrow
from crash import executors
from crash.child import TESTS, TIMEOUT_S, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.crash]


def answers(wr: windrow.Windrow) -> dict[str, list[tuple[Any, ...]]]:
    """The answers of every query; of the continuous one, its changes in their order."""
    continuous = {name: query for name, query in wr.queries.items() if query.is_continuous}
    found = {name: rows_of(query.changes().arrow()) for name, query in continuous.items()}
    others = {name: query for name, query in wr.queries.items() if name not in continuous}
    return {**found, **{name: sorted(rows_of(query.answers().arrow())) for name, query in others.items()}}


@pytest.fixture(scope="module")
def expected(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    directory = tmp_path_factory.mktemp("undisturbed")
    with windrow.open(directory, spark=spark, settings=executors.SETTINGS) as wr:
        for statement in executors.STATEMENTS:
            wr.sql(statement)
        for number in range(executors.BATCHES):
            executors.take(wr, number)
        wr.end_input("s")
        return answers(wr)


def test_killed_executors_change_no_answer(
    spark: Any, tmp_path: Path, expected: dict[str, list[tuple[Any, ...]]]
) -> None:
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": path, "JDK_JAVA_OPTIONS": ROUGH}
    command = [sys.executable, str(TESTS / "crash" / "executors.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    kills = json.loads((tmp_path / "kills.json").read_text())
    assert kills == {"driver": 1, "spark": 4}
    for home in executors.HOMES:
        with windrow.open(tmp_path / home, spark=spark) as wr:
            assert answers(wr) == expected and len(expected["sums"]) >= 1500 and len(expected["pairs"]) > 200
