"""Accumulators in another process: a table keyed by them is found there too, whatever text hashes to."""

from __future__ import annotations

import pickle
import subprocess
import sys

from windrow.plan.accumulators import Accumulator, Kind
from windrow.types import SqlType

SCRIPT = """
import pickle, sys
from windrow.plan.accumulators import Accumulator, Kind
from windrow.types import SqlType
table = pickle.loads(sys.stdin.buffer.read())
print(table[Accumulator(Kind.LEAST, "x", SqlType("BIGINT"), "y > 1")])
"""


def test_what_is_pickled_is_found_where_text_has_other_hashes() -> None:
    table = {Accumulator(Kind.LEAST, "x", SqlType("BIGINT"), "y > 1"): "found"}
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=pickle.dumps(table),
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        assert done.stdout.decode().strip() == "found"
