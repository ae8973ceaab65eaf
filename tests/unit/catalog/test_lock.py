"""The lock on a state directory: one process at a time, and none while the JVM of a killed process runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from windrow.catalog.lock import ProcessMark, Record, StateLock
from windrow.errors import StateError

HOLDER = """
import subprocess, sys, time
from windrow.catalog.lock import StateLock
lock = StateLock(sys.argv[1])
lock.acquire()
pid = 0
if len(sys.argv) > 2:
    jvm = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdout=subprocess.PIPE)
    jvm.stdout.readline()
    lock.record_jvm(jvm.pid)
    pid = jvm.pid
print(pid, flush=True)
time.sleep(60)
"""

ENDS_BY_ITSELF = "import time; print(flush=True); time.sleep(0.8)"
STAYS = "import time; print(flush=True); time.sleep(60)"
IGNORES_TERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + STAYS


class Holder:
    """A separate process that holds the lock and recorded a child, which runs the given program, as its JVM."""

    def __init__(self, state: Path, jvm_program: str | None = None):
        program = [] if jvm_program is None else [jvm_program]
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(state), *program], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.jvm_pid = int(self.process.stdout.readline())
        self.jvm = ProcessMark.of(self.jvm_pid) if self.jvm_pid else None

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def clean_up(self) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        if self.jvm is not None and self.jvm.is_alive():
            os.kill(self.jvm.pid, signal.SIGKILL)


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[object]:
    holders: list[Holder] = []

    def start(jvm_program: str | None = None) -> Holder:
        holders.append(Holder(tmp_path, jvm_program))
        return holders[-1]

    yield start
    for holder in holders:
        holder.clean_up()


def contents(state: Path) -> dict[str, dict[str, object]]:
    return json.loads((state / "lock").read_text())


def test_second_acquire_in_one_process(tmp_path: Path) -> None:
    with StateLock(tmp_path) as first:
        assert first.held
        for second in (first, StateLock(tmp_path), StateLock(tmp_path / ".." / tmp_path.name)):
            with pytest.raises(StateError, match=rf"in this process already \(pid {os.getpid()}\)"):
                second.acquire()
        assert first.held
    assert not first.held
    with StateLock(tmp_path):
        pass


def test_contents(tmp_path: Path) -> None:
    me = ProcessMark.of(os.getpid())
    lock = StateLock(tmp_path / "new" / "state")
    lock.acquire()
    state = tmp_path / "new" / "state"
    assert me is not None
    assert contents(state) == {"holder": {"pid": me.pid, "started": me.started}}
    lock.record_jvm(os.getppid())
    recorded = contents(state)
    assert recorded["jvm"]["pid"] == os.getppid()
    assert recorded["jvm_parent"] == recorded["holder"]
    lock.release()
    lock.release()
    assert contents(state) == {}


def test_living_jvm_after_release(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    lock.acquire()
    lock.record_jvm(os.getppid())
    lock.release()
    other = StateLock(tmp_path)
    other.acquire(timeout_s=0)
    assert "jvm" not in contents(tmp_path)
    other.release()


def test_bad_record_jvm(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    with pytest.raises(RuntimeError, match="acquire first"):
        lock.record_jvm(os.getppid())
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with lock, pytest.raises(StateError, match=f"process {gone.pid}, is not running"):
        lock.record_jvm(gone.pid)


def test_living_holder(tmp_path: Path, hold) -> None:
    holder = hold()
    began_s = time.monotonic()
    with pytest.raises(StateError, match=f"held by process {holder.pid}") as caught:
        StateLock(tmp_path).acquire(timeout_s=30)
    assert time.monotonic() - began_s < 2
    assert caught.value.remedy


@pytest.mark.crash
def test_killed_holder(tmp_path: Path, hold) -> None:
    holder = hold()
    holder.kill()
    with StateLock(tmp_path) as lock:
        assert lock.held
        assert contents(tmp_path)["holder"]["pid"] == os.getpid()


@pytest.mark.crash
def test_wait_for_jvm_of_killed_holder(tmp_path: Path, hold) -> None:
    holder = hold(ENDS_BY_ITSELF)
    holder.kill()
    assert holder.jvm.is_alive()
    lock = StateLock(tmp_path)
    with pytest.raises(StateError, match=f"process {holder.jvm_pid}, the JVM of a killed Windrow"):
        lock.acquire(timeout_s=0.1)
    assert not lock.held
    lock.acquire(timeout_s=10)
    assert not holder.jvm.is_alive()
    assert "jvm" not in contents(tmp_path)
    lock.release()


@pytest.mark.crash
@pytest.mark.parametrize("program", [STAYS, IGNORES_TERM], ids=["heeds SIGTERM", "ignores SIGTERM"])
def test_orphaned_jvm_is_killed_after_grace(tmp_path: Path, hold, program: str) -> None:
    holder = hold(program)
    holder.kill()
    lock = StateLock(tmp_path, grace_s=0.3, kill_after_s=0.2)
    began_s = time.monotonic()
    lock.acquire(timeout_s=10)
    waited_s = time.monotonic() - began_s
    assert not holder.jvm.is_alive()
    assert waited_s >= (0.3 if program is STAYS else 0.5)
    lock.release()


def test_jvm_with_living_parent_gets_no_signal(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", STAYS], stdout=subprocess.PIPE)
    try:
        jvm, me = ProcessMark.of(child.pid), ProcessMark.of(os.getpid())
        (tmp_path / "lock").write_bytes(Record(None, jvm, me).to_bytes())
        with pytest.raises(StateError, match=f"kill {child.pid}"):
            StateLock(tmp_path, grace_s=0, kill_after_s=0).acquire(timeout_s=0.3)
        assert child.poll() is None
        assert contents(tmp_path)["jvm"]["pid"] == child.pid
    finally:
        child.kill()
        child.communicate()


def test_reused_pid(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", STAYS], stdout=subprocess.PIPE)
    try:
        earlier = ProcessMark(child.pid, "another boot:1")
        dead = ProcessMark(os.getpid(), "another boot:1")
        (tmp_path / "lock").write_bytes(Record(dead, earlier, dead).to_bytes())
        lock = StateLock(tmp_path, grace_s=0, kill_after_s=0)
        lock.acquire(timeout_s=0)
        lock.release()
        assert child.poll() is None
    finally:
        child.kill()
        child.communicate()


def test_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = ProcessMark.of(child.pid)
    assert mark is not None and mark.is_alive()
    child.kill()
    deadline_s = time.monotonic() + 5
    while mark.is_alive() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not mark.is_alive()
    assert child.wait() == -signal.SIGKILL
    assert child.stdin is not None
    child.stdin.close()


def test_children_do_not_hold_the_lock(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    lock.acquire()
    program = subprocess.Popen([sys.executable, "-c", STAYS], stdout=subprocess.PIPE, close_fds=False)
    assert program.stdout is not None
    program.stdout.readline()
    forked = os.fork()
    if forked == 0:
        time.sleep(60)
        os._exit(0)
    try:
        with pytest.raises(StateError, match="already"):
            StateLock(tmp_path).acquire()
        lock.release()
        with StateLock(tmp_path) as again:
            assert again.held
    finally:
        program.kill()
        program.communicate()
        os.kill(forked, signal.SIGKILL)
        os.waitpid(forked, 0)


def test_forked_child_cannot_release(tmp_path: Path) -> None:
    with StateLock(tmp_path) as lock:
        child = os.fork()
        if child == 0:
            lock.release()
            os._exit(0 if not lock.held else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert lock.held
        assert contents(tmp_path)["holder"]["pid"] == os.getpid()
        with pytest.raises(StateError, match="already"):
            StateLock(tmp_path).acquire(timeout_s=0)


@pytest.mark.parametrize("junk", [b"", b"{", b"[1, 2]", b'{"jvm": {"pid": -1, "started": "x"}}', b"\0" * 100])
def test_unreadable_contents(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "lock").write_bytes(junk)
    with StateLock(tmp_path):
        assert contents(tmp_path)["holder"]["pid"] == os.getpid()


def test_directory_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot be opened"):
        StateLock(tmp_path / "file" / "state").acquire()
