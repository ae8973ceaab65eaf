"""A pickled table keyed by accumulators works in another process, where strings have other hashes."""

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


def test_lookup_in_another_process() -> None:
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
