"""Mutated statements succeed or raise a WindrowError, and accepted queries answer as the oracle does.

WINDROW_FUZZ_COUNT and WINDROW_FUZZ_SEED choose how many and which, as does `python -m fuzz`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import windrow
from fuzz.answers import Compared, compare, is_comparable
from fuzz.corpus import corpus
from fuzz.statements import Tally, Target, fuzz, statement

SEED = int(os.environ.get("WINDROW_FUZZ_SEED", "1"))
COUNT = int(os.environ.get("WINDROW_FUZZ_COUNT", "3000"))
FEW = 200
COMPARED = 40


def check(tally: Tally) -> None:
    assert not tally.findings, "\n\n".join(map(str, tally.findings))
    assert tally.share_bound > 0.6, str(tally)
    assert len(tally.accepted) > tally.tried / 4, str(tally)


def test_corpus() -> None:
    found = corpus()
    assert len(found.queries) > 200 and len(found.texts) > 100


def test_statements_are_repeatable() -> None:
    assert [statement(SEED, number) for number in range(20)] == [statement(SEED, number) for number in range(20)]
    assert statement(SEED, 0) != statement(SEED + 1, 0)


def test_few_statements(spark: Any, tmp_path: Path) -> None:
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        check(fuzz(Target(wr), SEED, range(FEW)))


@pytest.mark.slow
def test_statements_and_their_answers(spark: Any, tmp_path: Path) -> None:
    with windrow.open(tmp_path / "tried", spark=spark) as wr:
        tally = fuzz(Target(wr), SEED, range(COUNT))
    print(tally)
    check(tally)
    queries = [(number, query) for number, query in tally.accepted if is_comparable(query)]
    step = max(1, len(queries) // COMPARED)
    compared: Compared = compare(queries[::step][:COMPARED], SEED, spark, tmp_path, "driver")
    print(compared)
    assert not compared.different, "\n\n".join(compared.different)
    assert compared.equal >= 0.9 * min(COMPARED, len(queries)), str(compared)
