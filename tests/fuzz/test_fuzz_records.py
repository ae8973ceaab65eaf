"""Mutated records are admitted or dead letters, answers equal the oracle's, and the next file is read.

WINDROW_FUZZ_COUNT and WINDROW_FUZZ_SEED choose how many and which, as does `python -m fuzz`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fuzz.record_streams import FORMATS, fuzz_format

SEED = int(os.environ.get("WINDROW_FUZZ_SEED", "1"))
COUNT = int(os.environ.get("WINDROW_FUZZ_COUNT", "10000")) // len(FORMATS)


def check(kind: str, count: int, spark: Any, directory: Path) -> None:
    fate = fuzz_format(kind, SEED, count, spark, directory)
    print(fate)
    assert not fate.wrong, "\n\n".join([str(fate), *fate.wrong[:10]])
    assert fate.records > 0.9 * count, str(fate)


def test_few_records(spark: Any, tmp_path: Path) -> None:
    check("json", 100, spark, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_records(kind: str, spark: Any, tmp_path: Path) -> None:
    check(kind, COUNT, spark, tmp_path)
