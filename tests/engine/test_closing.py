"""However a process closes Windrow on a Spark session of its own, nothing prints a stack trace."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BEGIN = """
import atexit, logging, os, signal, sys, threading, time
from pyspark.sql import SparkSession, functions
import windrow

logging.basicConfig(level=logging.WARNING)

def session():
    builder = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "Etc/UTC")
    return builder.config("spark.sql.ansi.enabled", "false").config("spark.ui.enabled", "false").getOrCreate()

spark = session()

def opened():
    wr = windrow.open(spark=spark)
    # Each micro-batch takes some time, so that it is under way at any moment.
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    nap = functions.expr("java_method('java.lang.Thread', 'sleep', 20L)")
    wr.stream("s", rows.select("timestamp", functions.coalesce(nap, functions.lit("x")).alias("nap")), timestamp="timestamp")
    wr.query("q", "SELECT nap, COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY nap")
    wr.start()
    return wr

def until_busy(wr):
    stream = wr._engine.manager.stream("s")
    while not stream.batch_lock._is_owned() and stream.batch_lock.acquire(blocking=False):
        stream.batch_lock.release()
        time.sleep(0.01)
"""

ORDERS = """
opened().close()                            # while the query begins

wr = opened()
until_busy(wr)
wr.close()                                  # within a micro-batch

try:
    with opened() as wr:
        until_busy(wr)
        raise KeyError
except KeyError:
    pass

wr = opened()
until_busy(wr)
wr.stop()
wr.start()
until_busy(wr)
wr.close()

wr = opened()
wr.stop()
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        wr.run_available()
        time.sleep(0.01)
except KeyboardInterrupt:
    wr.close()

spark.stop()
spark = session()
wr = opened()
atexit.register(wr.close)
opened()                                    # never closed, and not held
until_busy(wr)
"""


def test_closing_prints_no_stack_trace() -> None:
    run = subprocess.run([sys.executable, "-c", BEGIN + ORDERS], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert not re.search(r"^\s+at |Exception|Traceback|Error|ERROR|leaked", run.stderr, re.M), run.stderr
