"""Starts, kills and reads back the child processes of the crash tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from support.short_lived_jvm import ROUGH

import windrow
from crash import workload
from windrow.crash import CRASH_AT, CRASH_GROUP
from windrow.dataplane.sources import source_log

TESTS = Path(__file__).resolve().parent.parent
TIMEOUT_S = 500


def make_root(
    root: Path,
    batches: Sequence[pa.Table],
    statements: Sequence[str],
    subscribed: Sequence[str] = (),
    readers: Sequence[tuple[str, str]] = (),
    **settings: Any,
) -> Path:
    """Create a directory for a workload; `{root}` in the statements becomes its path. Each batch is a file of `in/`.
    `readers`: the names of readers of window stores over `s`, and the string column that each reads."""
    (root / "in").mkdir(parents=True)
    for number, batch in enumerate(batches):
        file = root / "in" / f"{number:05d}.parquet"
        pq.write_table(batch, file)
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    texts = [statement.replace("{root}", str(root)) for statement in statements]
    setup = {"statements": texts, "subscribed": list(subscribed), "readers": list(readers), "settings": settings}
    (root / "setup.json").write_text(json.dumps(setup))
    return root


def change_settings(root: Path, **settings: Any) -> None:
    """Let the next children of a workload run with other settings, too."""
    setup = workload.setup_of(root)
    setup["settings"] |= settings
    (root / "setup.json").write_text(json.dumps(setup))


def change_statements(root: Path, statements: Sequence[str]) -> None:
    """Let the next children of a workload begin with other statements."""
    setup = workload.setup_of(root) | {"statements": [one.replace("{root}", str(root)) for one in statements]}
    (root / "setup.json").write_text(json.dumps(setup))


@contextmanager
def child(root: Path, crash_at: str | None = None, group: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A child in its own session; none of its processes is left when the block ends."""
    environment = {k: v for k, v in os.environ.items() if k not in (CRASH_AT, CRASH_GROUP)}
    path = [str(TESTS.parent / "src"), str(TESTS), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    environment["JDK_JAVA_OPTIONS"] = ROUGH
    if crash_at is not None:
        environment |= {CRASH_AT: crash_at, CRASH_GROUP: "1" if group else "0"}
    (root / "ready").unlink(missing_ok=True)
    with open(root / "child.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(TESTS / "crash" / "workload.py"), str(root)],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                kill(process, group=True)


def kill(process: subprocess.Popen[bytes], group: bool) -> None:
    """Send SIGKILL to the child alone (its JVM must notice by itself), or to its whole group."""
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        os.kill(process.pid, signal.SIGKILL)
    process.wait(60)


def run_to_crash(root: Path, crash_at: str, group: bool) -> None:
    with child(root, crash_at, group) as process:
        code = process.wait(TIMEOUT_S)
    assert code == -signal.SIGKILL, f"{crash_at} was not passed (exit {code}):\n{tail(root)}"
    assert not (root / "done").exists()
    _wait_for_group(process.pid)
    forget_unplanned(root)


def _wait_for_group(group: int) -> None:
    """Wait until the JVM of a killed child has ended, too."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while any(_belongs(process, group) for process in psutil.process_iter()):
        assert time.monotonic() < deadline_s, "the JVM of a killed child does not end"
        time.sleep(0.05)


def _belongs(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def forget_unplanned(root: Path) -> None:
    """Make the kill of a child a moment earlier if it fell between two writes of Spark.

    Spark logs the files of its next micro-batch first and plans the micro-batch afterwards. After a kill in between,
    the next micro-batch has these files and those of the one after it. That is correct, but other tuples are late
    than in an uninterrupted run, which the tests compare with.
    """
    for checkpoint in (root / "state" / "streams").glob("*/checkpoint"):
        planned = [int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*")]
        upto = source_log.position(checkpoint, max(planned)) if planned else None
        for file in (checkpoint / "sources" / "0").glob("[0-9]*"):
            if int(file.name.removesuffix(".compact")) > (-1 if upto is None else upto):
                file.unlink()
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def run_to_end(root: Path) -> None:
    with child(root) as process:
        code = process.wait(TIMEOUT_S)
    assert code == 0, f"exit {code}:\n{tail(root)}"
    assert (root / "done").exists()


def wait_for(process: subprocess.Popen[bytes], reached: Any) -> bool:
    """Wait until `reached()` or until the child has ended. Return whether it still runs."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while process.poll() is None and not reached():
        assert time.monotonic() < deadline_s, "the child makes no progress"
        time.sleep(0.02)
    return process.poll() is None


def tail(root: Path) -> str:
    return (root / "child.log").read_text(errors="replace")[-3000:]


@dataclass(frozen=True)
class Outcome:
    """All that a workload left behind, with rows as tuples in the order of the files."""

    answers: dict[str, list[tuple[Any, ...]]]
    counted: dict[str, tuple[int, int]]
    stream: dict[str, Any]


def outcome(root: Path, spark: Any, stream: str = "s") -> Outcome:
    """Read the outcome with a session of the parent, which also tests that the directory opens again."""
    with windrow.open(root / "state", spark=spark) as wr:
        answers = {name: rows_of(query.answers().arrow()) for name, query in wr.queries.items()}
        metrics = {name: query.metrics() for name, query in wr.queries.items()}
        counted = {name: (m["windows_answered"], m["answer_rows"]) for name, m in metrics.items()}
        names = ("admitted", "late", "dead_letters", "dead_letter_reasons", "frontier")
        progress = {name: wr.metrics()[stream][name] for name in names}
        letters = wr.sql(f"SELECT * FROM dead_letters('{stream}')").arrow().drop_columns(["batch"])
        progress["letters"] = sorted(map(str, rows_of(letters)))
    return Outcome(answers, counted, progress)


def run_uninterrupted(root: Path, spark: Any) -> None:
    """Run the workload in this process, with the session of the tests."""
    with windrow.open(root / "state", spark=spark, settings=workload.setup_of(root)["settings"]) as wr:
        workload.prepare(wr, root)
        wr.run_available(close=True)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def parquet_rows(directory: Path) -> list[tuple[Any, ...]]:
    """Every row of the sink's files, in the order of their names, which is that of the tick batches."""
    files = sorted(directory.glob("*.parquet"))
    return [row for file in files for row in rows_of(pq.read_table(file))]


def callbacks(root: Path) -> dict[str, list[Any]]:
    """The rows delivered under each key; a repeated key must carry the same rows."""
    found: dict[str, list[Any]] = {}
    for line in (root / "callbacks.log").read_text(encoding="utf-8").splitlines():
        try:
            delivery = json.loads(line)
        except ValueError:
            continue  # the last line of a killed child may be incomplete
        assert found.setdefault(delivery["key"], delivery["rows"]) == delivery["rows"], (
            f"{delivery['key']} came with other rows"
        )
    return found
