"""A program in a pseudo-terminal: type keys, and wait for what the screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CTRL_C, CTRL_D, TAB, ENTER, UP = "\x03", "\x04", "\t", "\r", "\x1b[A"
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78]|\][^\x07]*\x07)")


class Terminal:
    """`python -m …` on a terminal of 30 lines of 100 characters."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]):
        self.seen = ""
        self._at = 0
        self._rest = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            given = {
                "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
                "TERM": "xterm",
                "PROMPT_TOOLKIT_NO_CPR": "1",
                **environment,
            }
            os.execve(sys.executable, [sys.executable, "-m", *arguments], {**os.environ, **given})
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def wait_for(self, pattern: str, seconds: float = 120) -> str:
        """Wait until the pattern appears after the last match; return the text up to its end."""
        until = time.monotonic() + seconds
        while (match := re.search(pattern, self.seen[self._at :])) is None:
            assert time.monotonic() < until, f"no {pattern!r} after:\n{self.seen[self._at :]}\n--- all:\n{self.seen}"
            assert self._read(), f"it ended without {pattern!r} after:\n{self.seen[self._at :]}"
        start, self._at = self._at, self._at + match.end()
        return self.seen[start : self._at]

    def _read(self) -> bool:
        """Read what there is; return False at the end."""
        if not select.select([self._fd], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux: the other side is closed
            return False
        self.seen = ESCAPES.sub("", self.seen + data.decode(errors="replace"))
        return bool(data)

    def ended(self, seconds: float = 60) -> int:
        """The exit code, once the program has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"it did not end:\n{self.seen}")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)
