"""`feed` returns once its rows are on disk: a feeder killed at a random moment loses no acknowledged rows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from windrow.catalog.definitions import define_stream
from windrow.cql import parse_one
from windrow.dataplane.sources.spool import Spool

pytestmark = pytest.mark.crash

STREAM = "CREATE STREAM s (t BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
FEEDER = f"""
import sys
from pathlib import Path
from windrow.catalog.definitions import define_stream
from windrow.cql import parse_one
from windrow.dataplane.sources.spool import Spool
spool = Spool(define_stream(parse_one({STREAM!r})), Path(sys.argv[1]))
for i in range(int(sys.argv[2]), 1 << 30):
    spool.write([(i,)] * 100, now_ms=5)
    print(i, flush=True)
"""


def test_killed_feeder(tmp_path: Path) -> None:
    rng = random.Random(4)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    acknowledged = -1
    for _ in range(3):
        command = [sys.executable, "-c", FEEDER, str(tmp_path / "spool"), str(acknowledged + 10)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as feeder:
            assert feeder.stdout is not None
            lines = [feeder.stdout.readline()]
            time.sleep(rng.uniform(0, 0.3))
            feeder.send_signal(signal.SIGKILL)
            lines += feeder.stdout.readlines()
        acknowledged = int(lines[-1])
        found = [pq.read_table(p).column("t").to_pylist() for p in sorted((tmp_path / "spool").glob("feed-*"))]
        kept = [rows[0] for rows in found]
        assert all(rows == [rows[0]] * 100 for rows in found)
        assert kept == sorted(set(kept)), "a feed occurs twice or out of order"
        assert {int(line) for line in lines} <= set(kept)
        acknowledged = max(kept)
    Spool(define_stream(parse_one(STREAM)), tmp_path / "spool")
    assert not list((tmp_path / "spool").glob(".feed-*"))
