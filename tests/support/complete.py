"""Writes the answers into the blocks of `.test` files that hold `????`.

    PYTHONPATH=tests python -m support.complete [--complete] [--oracle] tests/cql/windows/days.test …

Without `--complete` it only says which blocks are not completed. The answers are the engine's, or with
`--oracle` the oracle's. Read what it wrote before you commit it: it is now the truth of the test.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.matrix import Variation
from support.runner import START, Backend, EngineBackend, OracleBackend, Run
from support.test_file import TO_COMPLETE, Compared, TestFile, read_test_file
from windrow.testing import ManualClock


def open_blocks(test: TestFile) -> list[Compared]:
    return [c for c in test.commands if isinstance(c, Compared) and c.rows is None]


def completed_text(test: TestFile, answers: dict[int, list[str]]) -> str:
    """The file's text with the answers in place of `????` under the directives at these lines."""
    lines = test.path.read_text(encoding="utf-8").splitlines()
    written: list[str] = []
    block = 0
    for number, line in enumerate(lines, start=1):
        if number in answers:
            block = number
        if block and line.strip() == TO_COMPLETE:
            written.extend(answers[block])
            block = 0
        else:
            written.append(line)
    return "\n".join(written) + "\n"


def complete(test: TestFile, spark: Any, oracle: bool) -> str:
    clock = ManualClock(START)
    with tempfile.TemporaryDirectory() as state:
        backend: Backend
        if oracle:
            backend = OracleBackend(spark, clock)
        else:
            backend = EngineBackend(spark, clock, Path(state), Variation())
        try:
            run = Run(test, backend, clock, Variation())
            run.run(complete=True)
        finally:
            backend.close()
    return completed_text(test, run.completed)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="complete the ???? blocks of .test files")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--complete", action="store_true", help="write the answers; otherwise only list the blocks")
    parser.add_argument("--oracle", action="store_true", help="take the oracle's answers, not the engine's")
    options = parser.parse_args(arguments)
    tests = [test for test in map(read_test_file, options.files) if open_blocks(test)]
    if not options.complete:
        for test in tests:
            for block in open_blocks(test):
                print(f"{test.path}:{block.line}: {type(block).__name__.lower()} {block.query} is not completed")
        return 1 if tests else 0
    if tests:
        spark = test_session()
        for test in tests:
            test.path.write_text(complete(test, spark, options.oracle), encoding="utf-8")
            print(f"{test.path}: completed")
    return 0


def test_session() -> Any:
    """A small local session with the configuration that Windrow needs."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("windrow-tests")
    for name, value in {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
