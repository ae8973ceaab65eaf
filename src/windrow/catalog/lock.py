"""The lock on a state directory: one process at a time, and none while the JVM of a killed process may still write.

A process holds a `flock` on `<state>/lock`; the kernel releases it when the process dies. The file also names the JVM
of the process: a JVM outlives a `kill -9` of its Python process by a moment in which it may still write, so the next
process waits until that JVM has ended.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import struct
import sys
import time
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import psutil

from windrow.clock import Clock, SystemClock
from windrow.errors import StateError

_LOG = logging.getLogger(__name__)

_POLL_S = 0.05
_RECORD_BYTES = 1024
"""Records have one size and are written by one call, so that a kill never leaves half a record."""


@dataclass(frozen=True)
class ProcessMark:
    """The identity of a process: its pid, which may be reused, and its start time.

    If there is a /proc, `started` is the boot id and the kernel's clock ticks since boot: unlike a wall-clock time
    it does not change when the clock is set.
    """

    pid: int
    started: str

    def __post_init__(self) -> None:
        if self.pid <= 0 or not self.started:
            raise ValueError("a process has a positive pid and a start time")

    @staticmethod
    def of(pid: int) -> ProcessMark | None:
        """The mark of the process that has this pid now; None if there is none or it is a zombie."""
        started = _started(pid)
        return None if started is None else ProcessMark(pid, started)

    def is_alive(self) -> bool:
        return _started(self.pid) == self.started


@dataclass(frozen=True)
class Record:
    """The contents of the lock file: the holder, and a JVM that may still write, with its parent."""

    holder: ProcessMark | None = None
    jvm: ProcessMark | None = None
    jvm_parent: ProcessMark | None = None

    def to_bytes(self) -> bytes:
        text = json.dumps({key: mark for key, mark in asdict(self).items() if mark is not None})
        return text.encode().ljust(_RECORD_BYTES - 1) + b"\n"

    @staticmethod
    def from_bytes(data: bytes) -> Record:
        """Parse the bytes; an empty or unreadable file gives an empty record."""
        try:
            parsed = json.loads(data)
            return Record(*(_mark(parsed.get(key)) for key in ("holder", "jvm", "jvm_parent")))
        except (ValueError, TypeError, AttributeError, KeyError):
            return Record()


class StateLock:
    """The right to use a state directory. Not re-entrant: a second acquire fails, in the same process too.

    An orphaned JVM has `grace_s` to notice that its parent is dead (Spark's does so by its closed standard input). Then
    it gets SIGTERM, and after another `kill_after_s` SIGKILL. A JVM whose parent lives gets no signal.
    """

    def __init__(
        self,
        state_dir: Path | str,
        *,
        grace_s: float = 10.0,
        kill_after_s: float = 5.0,
        clock: Clock | None = None,
    ):
        self.path = Path(state_dir) / "lock"
        self._grace_s = grace_s
        self._kill_after_s = kill_after_s
        self._clock = clock or SystemClock()
        self._fd: int | None = None
        self._held = False
        self._record = Record()

    @property
    def held(self) -> bool:
        return self._held

    def acquire(self, timeout_s: float = 60.0) -> None:
        """Take the directory, and create it if necessary.

        Raises StateError at once if a living process holds it, and after `timeout_s` if the JVM of a dead process does
        not end.
        """
        if self._fd is not None:
            raise self._refusal(os.getpid())
        deadline_s = self._clock.monotonic_s() + timeout_s
        fd = self._open()
        try:
            self._flock(fd, deadline_s)
            left = _read(fd)
            _write(fd, Record(_myself(), left.jvm, left.jvm_parent))
            try:
                self._await_jvm(left, deadline_s)
            except BaseException:
                _write(fd, Record(None, left.jvm, left.jvm_parent))
                raise
            self._record = Record(_myself())
            _write(fd, self._record)
        except BaseException:
            self._close()
            raise
        self._held = True

    def record_jvm(self, pid: int) -> None:
        """Record the JVM of this process: after a kill, the next process waits until that JVM has ended."""
        if self._fd is None or not self._held:
            raise RuntimeError("record_jvm needs the lock: call acquire first")
        jvm = ProcessMark.of(pid)
        if jvm is None:
            raise StateError(f"the JVM, process {pid}, is not running", remedy="Start the session again.")
        self._record = Record(self._record.holder, jvm, self._record.holder)
        _write(self._fd, self._record)

    def release(self) -> None:
        """Release the directory; a second call does nothing.

        The caller has stopped all writers, so the record is cleared: a JVM that lives on with the Spark session does
        not make other processes wait.
        """
        if self._fd is None:
            return
        try:
            _write(self._fd, Record())
        finally:
            self._close()

    def __enter__(self) -> StateLock:
        self.acquire()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _open(self) -> int:
        """Open a file descriptor that child programs do not inherit (for forks see `_forget_in_child`)."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StateError(
                f"the state directory {self.path.parent} cannot be opened: {error.strerror}",
                remedy="Name a directory that this user may write.",
            ) from error
        _OPEN.add(self)
        return self._fd

    def _close(self) -> None:
        """Close the file, which releases the flock; in a forked child the parent keeps its flock."""
        fd, self._fd = self._fd, None
        self._held = False
        _OPEN.discard(self)
        if fd is not None:
            os.close(fd)

    def _flock(self, fd: int, deadline_s: float) -> None:
        """Take the flock, or raise StateError at once if its holder lives.

        If the flock is held but the record names no living process, this waits: the kernel is still removing a killed
        process, or a new holder has not written its record yet.
        """
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                pass
            except OSError as error:
                raise StateError(
                    f"{self.path} cannot be locked: {error.strerror}",
                    remedy="Put the state directory on a file system with file locks.",
                ) from error
            holder = _read(fd).holder
            if holder is not None and holder.is_alive():
                raise self._refusal(holder.pid)
            if self._clock.monotonic_s() >= deadline_s:
                raise self._refusal(None if holder is None else holder.pid)
            time.sleep(_POLL_S)

    def _refusal(self, pid: int | None) -> StateError:
        if pid == os.getpid():
            return StateError(
                f"the state directory {self.path.parent} is open in this process already (pid {pid})",
                remedy="Close it first, or use the one that is open.",
            )
        who = "another process" if pid is None else f"process {pid}"
        return StateError(
            f"the state directory {self.path.parent} is held by {who}",
            remedy="Stop that process, or name another state directory.",
        )

    def _await_jvm(self, left: Record, deadline_s: float) -> None:
        jvm = left.jvm
        if jvm is None or not jvm.is_alive():
            return
        _LOG.warning("waiting for process %d, the JVM of a killed Windrow, to end", jvm.pid)
        term_s = self._clock.monotonic_s() + self._grace_s
        signals = [(term_s, signal.SIGTERM), (term_s + self._kill_after_s, signal.SIGKILL)]
        while jvm.is_alive():
            now_s = self._clock.monotonic_s()
            if now_s >= deadline_s:
                raise StateError(
                    f"process {jvm.pid}, the JVM of a killed Windrow, still uses {self.path.parent}",
                    remedy=f"Wait for it to end, or end it (kill {jvm.pid}); then open the directory again.",
                )
            if signals and now_s >= signals[0][0] and _is_orphan(left):
                _signal(jvm, signals.pop(0)[1])
            time.sleep(_POLL_S)


def holder_of(state_dir: Path) -> int | None:
    """The process that has a state directory open, this one or another; None if there is none."""
    try:
        fd = os.open(state_dir / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        holder = _read(fd).holder
    except OSError:
        return None
    finally:
        os.close(fd)
    return holder.pid if holder is not None and holder.is_alive() else None


def _is_orphan(record: Record) -> bool:
    return record.jvm_parent is not None and not record.jvm_parent.is_alive()


def _signal(mark: ProcessMark, number: signal.Signals) -> None:
    """Signal the process, unless its pid was reused (psutil checks again)."""
    try:
        process = psutil.Process(mark.pid)
        if mark.is_alive():
            _LOG.warning("sending %s to process %d, an orphaned JVM", number.name, mark.pid)
            process.send_signal(number)
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied:
        _LOG.warning("process %d, an orphaned JVM, belongs to another user", mark.pid)


def _myself() -> ProcessMark:
    mark = ProcessMark.of(os.getpid())
    assert mark is not None, "a running process sees itself"
    return mark


def _mark(parsed: dict[str, Any] | None) -> ProcessMark | None:
    return None if parsed is None else ProcessMark(int(parsed["pid"]), str(parsed["started"]))


def _read(fd: int) -> Record:
    return Record.from_bytes(os.pread(fd, _RECORD_BYTES, 0))


def _write(fd: int, record: Record) -> None:
    try:
        os.pwrite(fd, record.to_bytes(), 0)
    except OSError as error:
        raise StateError(
            f"the lock file cannot be written: {error.strerror}",
            remedy="Free space on the file system of the state directory.",
        ) from error


def _started(pid: int) -> str | None:
    """The start time of the process with this pid, as text to compare; None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _started_without_proc(pid)
    # The second field, the program's name in parentheses, may itself contain blanks and parentheses.
    fields = stat.rpartition(")")[2].split()
    state, ticks = fields[0], fields[19]
    return None if state in "ZX" else f"{_boot()}:{ticks}"


def _started_without_proc(pid: int) -> str | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None


def _boot() -> str:
    """The id of this boot, as ticks restart at each boot; empty if the kernel has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class OwnerState(Enum):
    """What has become of the process that opened a state directory last."""

    RUNNING = "running"
    STOPPED = "stopped"
    DIED = "died"


@dataclass(frozen=True)
class Owner:
    """Who has a state directory open, or had it: `pid` is None if nobody has and nobody died with it."""

    state: OwnerState
    pid: int | None = None

    def __str__(self) -> str:
        who = {
            OwnerState.RUNNING: f"process {self.pid}",
            OwnerState.DIED: f"process {self.pid} ended without closing it",
        }
        return f"{self.state.value}, {who[self.state]}" if self.state in who else self.state.value


def owner_of(state_dir: Path | str) -> Owner:
    """The owner of a state directory, read without taking the lock."""
    try:
        with open(Path(state_dir) / "lock", "rb") as file:
            holder = Record.from_bytes(file.read(_RECORD_BYTES)).holder
    except FileNotFoundError:
        holder = None
    except OSError as error:
        raise StateError(
            f"the lock file of {state_dir} cannot be read: {error.strerror}", remedy="Give this user read access."
        ) from error
    if holder is None:
        return Owner(OwnerState.STOPPED)
    lives = holder.is_alive() or _is_used_elsewhere(Path(state_dir) / "catalog.sqlite-shm")
    return Owner(OwnerState.RUNNING if lives else OwnerState.DIED, holder.pid)


_USED_BYTE = 128
"""SQLite holds a lock on this byte of the file while a connection is open."""


def _is_used_elsewhere(shared: Path) -> bool:
    """Whether a process has the catalog open that this one may not see, as in another container."""
    if sys.platform != "linux":
        return False
    question = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, _USED_BYTE, 1, 0)
    try:
        with open(shared, "rb") as file:
            answer = fcntl.fcntl(file, fcntl.F_GETLK, question)
    except OSError:
        return False
    return bool(struct.unpack("hhqqi0q", answer)[0] != fcntl.F_UNLCK)


def is_open_here(state_dir: Path | str) -> bool:
    """Whether this process has the state directory open."""
    place = os.path.realpath(state_dir)
    return any(lock.held and os.path.realpath(lock.path.parent) == place for lock in list(_OPEN))


_OPEN: set[StateLock] = set()


def _forget_in_child() -> None:
    """Close the locks in a forked child: an open copy would keep the flock after a kill of the parent."""
    for lock in list(_OPEN):
        lock._close()


os.register_at_fork(after_in_child=_forget_in_child)
