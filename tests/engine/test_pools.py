"""Pools of Spark's fair scheduler: which jobs run in which, and that micro-batches and ticks get free cores first."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from windrow.dataplane.jobs import INGEST, SNAPSHOTS, TICKS, JobGroup, in_pool, stay_in_pool

from .conftest import Open
from .helpers import put, wait_until

POOL = "spark.scheduler.pool"


def pools_used(spark: Any) -> set[str]:
    """The pools of the last stages, by Spark's own records."""
    jvm, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
    listed = (
        spark.sparkContext._jsc.sc()
        .statusStore()
        .stageList(None, False, False, gateway.new_array(jvm.double, 0), jvm.java.util.ArrayList())
    )
    return {listed.apply(i).schedulingPool() for i in range(listed.size())}


@pytest.fixture
def last_stages(spark: Any) -> Iterator[None]:
    """The thread's own pool is what it was."""
    before = spark.sparkContext.getLocalProperty(POOL)
    yield
    assert spark.sparkContext.getLocalProperty(POOL) == before


def test_least_shares(spark: Any) -> None:
    pools = {}
    for name in (INGEST, TICKS, SNAPSHOTS):
        pools[name] = spark.sparkContext._jsc.sc().getPoolForName(name).get()
    assert [pools[name].minShare() > 1000 for name in (INGEST, TICKS, SNAPSHOTS)] == [True, True, False]


@pytest.mark.slow
def test_jobs_carry_their_pools(open_state: Open, spark: Any, last_stages: None) -> None:
    wr = open_state()
    wr.sql("SET plan_home = 'spark'")
    wr.sql("CREATE STREAM s (t BIGINT, x INT) FROM memory TIMESTAMP BY t TICK 10 PUNCTUATE ORDERED RETAIN 1000")
    wr.query("c", "SELECT x, COUNT(*) AS n FROM s [RANGE 20] GROUP BY x")
    put(wr, *((t, t % 3) for t in range(41)))
    wr.sql("SET ask_home = 'spark'")
    assert wr.sql("SELECT COUNT(*) AS n FROM s [RANGE 30]").rows() == [{"n": 30}]
    wait_until(lambda: {INGEST, TICKS, SNAPSHOTS} <= pools_used(spark))


def test_a_pool_ends_with_its_block(spark: Any, last_stages: None) -> None:
    @in_pool(INGEST)
    def inner() -> str:
        return str(spark.sparkContext.getLocalProperty(POOL))

    with in_pool(SNAPSHOTS):
        assert (inner(), spark.sparkContext.getLocalProperty(POOL)) == (INGEST, SNAPSHOTS)


def test_a_thread_stays_in_its_pool(spark: Any, last_stages: None) -> None:
    seen: list[str] = []

    def run() -> None:
        for _ in range(2):
            stay_in_pool(TICKS)
            seen.append(spark.sparkContext.getLocalProperty(POOL))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [TICKS, TICKS]


@pytest.mark.slow
def test_tasks_of_a_micro_batch_go_before_those_of_a_one_time_query(spark: Any, tmp_path: Path) -> None:
    context, group = spark.sparkContext, JobGroup()

    def begun(name: str) -> list[float]:
        return sorted(float(file.read_text()) for file in tmp_path.glob(f"{name}-*") if file.read_text())

    def work(name: str, tasks: int, seconds: float) -> None:
        folder = str(tmp_path)

        def task(number: int) -> None:
            Path(folder, f"{name}-{number}").write_text(str(time.time()))
            time.sleep(seconds)

        context.parallelize(range(tasks), tasks).foreach(task)

    def ask() -> None:
        group.join(SNAPSHOTS)
        try:
            work("asked", 300, 0.2)
        except Exception as error:
            ended.append(error)

    ended: list[Exception] = []
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    wait_until(lambda: len(begun("asked")) >= 3)
    with in_pool(INGEST):
        work("batch", 8, 0.2)
    batch = begun("batch")
    between = [at for at in begun("asked") if batch[1] < at < batch[-1]]
    assert len(between) <= 1, "tasks of the question began while those of the micro-batch waited"
    group.end()
    thread.join(30)
    assert len(ended) == 1 and len(begun("asked")) < 300
