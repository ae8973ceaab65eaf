"""The Spark session: Windrow's own, or the user's, which is checked.

Windrow relies on UTC, ANSI mode off, Spark's default reading of texts and types (`_REQUIRED`), Arrow transfer, a
bounded result size and a bounded history of finished jobs. It never changes a user's session; if the session cannot
serve, it is refused with the remedy.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from windrow.dataplane.class_archive import archive_options
from windrow.dataplane.jvm import forget_ended, quieten
from windrow.errors import SessionError, first_line
from windrow.settings import Settings

_TIME_ZONE = "spark.sql.session.timeZone"
_REQUIRED = {
    _TIME_ZONE: ("UTC", "Windows are computed in UTC."),
    "spark.sql.ansi.enabled": (
        "false",
        "A bad cast or a division by zero is NULL in its row, not a failed job.",
    ),
    "spark.sql.parser.escapedStringLiterals": ("false", "A backslash in a text escapes what follows it."),
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP is a moment, not a wall clock's time."),
    "spark.sql.decimalOperations.allowPrecisionLoss": ("true", "The types of decimal answers depend on it."),
    "spark.sql.legacy.literal.pickMinimumPrecision": ("true", "The types of decimal answers depend on it."),
}
# Hadoop's FileContext starts a process (readlink, chmod) some thirty times per micro-batch to write three small files,
# which takes 130 ms. This manager takes 45 ms. Its rename does not fail if the target exists; the lock on the state
# directory keeps a second writer out.
LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# A gathered micro-batch is one result of some 10 MB. Above this bound it would go through the block store and a local
# socket (20 ms).
QUICK_RESULTS = {"spark.task.maxDirectResultSize": "64m"}
# Spark turns a smaller table into rows on the JVM's heap, several times over; larger ones stay Arrow until tasks read
# them. Deposits of 100,000 rows (2.7 MB) took 0.17 s as Arrow and 0.49 s as rows; of 10,000 both took the same.
ARROW_TABLES = {"spark.sql.execution.arrow.localRelationThreshold": "256k"}
# The parallel collector takes 8% less time on two cores than one that works beside the tasks. GCTimeRatio=9 lets the
# heap grow only if collecting takes more than a tenth of the time, not a hundredth: with 2,000,000 groups × 10 panes in
# the Spark home the JVM took 1,235 MB instead of 1,463.
COLLECTOR = "-XX:+UseParallelGC -XX:GCTimeRatio=9"
WITHOUT_MEMORY = ("-XX:+ExitOnOutOfMemoryError", "-XX:+DisplayVMOutputToStderr")
_LOG4J = Path(__file__).parent / "log4j2.properties"
# Hadoop reads a path after "file://" as it is, so a space in it is not escaped.
FAIR_POOLS = {
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": f"file://{Path(__file__).parent.resolve() / 'fair_pools.xml'}",
}
_CHOSEN = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.streaming.ui.retainedQueries": "1",
    "spark.sql.streaming.ui.retainedProgressUpdates": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    **LOCAL_CHECKPOINTS,
    **QUICK_RESULTS,
    **ARROW_TABLES,
    "spark.sql.variable.substitute": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.maxResultSize": "1g",
    **FAIR_POOLS,
    "spark.cleaner.periodicGC.interval": "5min",
}
_JVM_NOTICE = "Using incubator modules"

log = logging.getLogger("windrow")
_owned: dict[int, int] = {}
_guard = threading.Lock()


def open_session(spark: Any | None, master: str | None, settings: Settings) -> SparkSession:
    """A session that can serve: the given one after a check, otherwise Windrow's own, shared within the process."""
    if spark is not None:
        if master is not None:
            raise SessionError("give either a session or a master", remedy="Leave out master=.")
        check_session(spark)
        with _guard:
            if id(spark) in _owned:
                _owned[id(spark)] += 1
        return spark  # type: ignore[no-any-return]
    with _guard:
        if forget_ended():
            _owned.clear()  # all sessions of a process use its one JVM
        active = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        if active is not None and id(active) not in _owned:
            raise SessionError(
                "this process already has a Spark session of its own, whose settings Windrow must not change",
                remedy="Pass it: windrow.open(…, spark=session).",
            )
        session = active or _create(master, settings)
        _owned[id(session)] = _owned.get(id(session), 0) + 1
        return session


def close_session(spark: SparkSession) -> None:
    """Stop Windrow's own session when its last user has closed. A user's session is left alone."""
    with _guard:
        if id(spark) not in _owned:
            return
        _owned[id(spark)] -= 1
        if _owned[id(spark)] == 0:
            del _owned[id(spark)]
            if forget_ended():
                return
            try:
                spark.stop()
            except Exception as error:
                # A signal to the whole process group may end the JVM first; then there is nothing left to stop.
                log.warning("the Spark session had ended before it was stopped: %s", first_line(error))
            if SparkContext._gateway is not None:
                # Drop the functions given to foreachBatch: they hold engines, and the JVM would hold them for ever.
                SparkContext._gateway.gateway_property.pool.clear()


_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")


def java_options(environment: Mapping[str, str]) -> str:
    """The options of Windrow's JVM. A user's own spark.driver.extraJavaOptions come after them, and so win.

    - A JVM does not start with two collectors, so none is set if the environment or spark-defaults.conf names one.
    - -Xss: a streaming query interrupted within a micro-batch matches the Python traceback against a recursive regular
      expression (StreamExecution.isInterruptionException), which overflows the default stack of 1 MB. `stopping.py`
      avoids it in any session; somebody else may stop the query.
    - Out of memory, the JVM exits (see `jvm.py`). Otherwise Spark's dispatcher would die, and jobs would wait for it
      for ever.
    """
    options = [environment.get(name, "") for name in _JAVA_OPTIONS]
    home = environment.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    defaults = Path(environment.get("SPARK_CONF_DIR") or Path(home) / "conf") / "spark-defaults.conf"
    if defaults.is_file():
        options.append(defaults.read_text(errors="replace"))
    collector = "" if re.search(r"-XX:\+Use\w+GC\b", " ".join(options)) else COLLECTOR
    archive = archive_options(" ".join(options))
    logging_to = f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"
    return " ".join(filter(None, ["-Xss16m", collector, archive, *WITHOUT_MEMORY, logging_to]))


def _create(master: str | None, settings: Settings) -> SparkSession:
    megabytes = max(512, settings.integer("driver_memory") >> 20)
    chosen = {**_CHOSEN, **{n: v for n, (v, _) in _REQUIRED.items()}, "spark.driver.memory": f"{megabytes}m"}
    chosen["spark.driver.defaultJavaOptions"] = java_options(os.environ)
    conf = SparkConf().setAppName("windrow").setMaster(master or "local[*]").setAll(list(chosen.items()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        session = _start(conf)
    except Exception as error:
        raise SessionError(
            f"Spark did not start: {first_line(error)}",
            remedy="Check for Java 17 or newer (java -version), and that the master is reachable.",
        ) from error
    session.conf.set("spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism)
    return session


def _start(conf: SparkConf) -> SparkSession:
    """A session on Windrow's own JVM, whose messages go to `sys.stderr`.

    The caller keeps its handler of Ctrl-C: PySpark's would cancel the jobs of running streams, which would then fail
    instead of stopping. (The JVM is started with SIGINT ignored.)
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if is_main else None
    try:
        gateway = None
        if SparkContext._gateway is None:
            stderr = {"stderr": subprocess.PIPE, "encoding": "utf-8", "errors": "replace"}
            gateway = launch_gateway(conf, stderr)  # type: ignore[no-untyped-call]
            lines = gateway.proc.stderr
            threading.Thread(target=_relay, args=(lines,), name="windrow-jvm-stderr", daemon=True).start()
        context = SparkContext(conf=conf, gateway=gateway)
        if gateway is not None:
            quieten(context)
        return SparkSession.builder.getOrCreate()
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


def _relay(lines: IO[str]) -> None:
    """Copy the JVM's standard error, without the notice that every Spark JVM prints first."""
    for line in lines:
        if _JVM_NOTICE not in line:
            sys.stderr.write(line)


def check_session(spark: Any) -> None:
    """Raise SessionError if the session would change answers."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SessionError(
            "Spark Connect sessions have no foreachBatch in this process", remedy="Use a classic session."
        )
    if spark.sparkContext._jsc is None:
        raise SessionError("this Spark session has been stopped", remedy="Give one that runs, or none.")
    for name, (wanted, why) in _REQUIRED.items():
        found = _configured(spark, name)
        fits = _is_utc(spark, found) if name == _TIME_ZONE else found.lower() == wanted.lower()
        if not fits:
            raise SessionError(
                f"the Spark session has {name} = {found}, and Windrow needs {wanted}. {why}",
                remedy=f'Create it with .config("{name}", "{wanted}").',
            )


def _configured(spark: Any, name: str) -> str:
    try:
        return str(spark.conf.get(name))
    except Exception as error:
        raise SessionError(
            f"this Spark session does not answer: {first_line(error)}",
            remedy="Its JVM may have ended. Pass a new session.",
        ) from error


def _is_utc(spark: Any, zone: str) -> bool:
    """Whether a time zone is UTC by its rules, whatever its name: UTC, Etc/UTC, GMT, Zulu, +00:00 and others."""
    jvm = spark.sparkContext._jvm
    return str(jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone).normalized().getId()) == "Z"
