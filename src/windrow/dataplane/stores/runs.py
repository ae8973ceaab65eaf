"""Copies of small files that follow one another, in few chunks.

A window of a hundred micro-batches is in as many files, and whoever looks through it pays for every chunk. So runs of
small files are copied together, and runs of such runs. When the oldest files of a run have expired, the others are a
slice of its copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass

import pyarrow as pa

FAN = 4
"""So many neighbours of like length are copied together: a row is copied once per power of this."""

SMALL_ROWS, MOST_ROWS = 1 << 16, 1 << 18
"""Files up to this size are copied, into runs up to that size. Of larger ones a chunk more or less matters little to
who looks through them; an index of keys pays for each. A window in 40 files is read in about seven chunks."""

MOST_QUESTIONS = 8
"""The most questions (columns and buckets) for which copies are held; for others, files are read one by one."""

ReadPart = Callable[[str], pa.Table]
"""Reads the wanted columns of a file."""


@dataclass(frozen=True)
class _Run:
    """The rows of files that follow one another; those of `paths[i]` begin at `starts[i]`."""

    paths: tuple[str, ...]
    starts: tuple[int, ...]
    rows: pa.Table

    @property
    def level(self) -> int:
        """Equal for runs of like length."""
        return (len(self.paths) - 1).bit_length() // (FAN.bit_length() - 1)

    def since(self, member: int) -> _Run:
        """The files from one on."""
        if not member:
            return self
        first = self.starts[member]
        return _Run(self.paths[member:], tuple(one - first for one in self.starts[member:]), self.rows.slice(first))


_Held = dict[str, tuple[_Run, int]]
"""By path, the run of a file, and its place in it."""


class FileRuns:
    """Runs of files by what is asked of them, for at most so many questions. Threads may share one."""

    def __init__(self, most: int = MOST_QUESTIONS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._held: dict[Hashable, _Held] = {}

    def tables(self, asked: Hashable, paths: Sequence[str], read: ReadPart) -> list[pa.Table]:
        """The rows of small files, in their order, in few tables. `read` gives those of one file, the same for every
        call with the same `asked`."""
        held = self._of(asked)
        if held is None:
            return [read(path) for path in paths]
        found, at = list[_Run](), 0
        while at < len(paths):
            run, member = held.get(paths[at], (None, 0))
            if run is None or run.paths[member:] != tuple(paths[at : at + len(run.paths) - member]):
                found.append(_Run((paths[at],), (0,), read(paths[at])))
            else:
                found.append(run.since(member))
            at += len(found[-1].paths)
            self._merge(asked, found)
        return [run.rows for run in found]

    def forget(self, paths: Collection[str]) -> None:
        """Let copies go whose last file is among these."""
        gone = set(paths)
        if not gone:
            return
        with self._lock:
            for asked, held in list(self._held.items()):
                kept = {path: one for path, one in held.items() if one[0].paths[-1] not in gone}
                if kept:
                    self._held[asked] = kept
                else:
                    del self._held[asked]

    def _of(self, asked: Hashable) -> _Held | None:
        """What is held; None: there are copies for too many questions already."""
        with self._lock:
            return self._held.get(asked, None if len(self._held) >= self._most else {})

    def _merge(self, asked: Hashable, runs: list[_Run]) -> None:
        """Replace the last runs by one of them all, while they are of like length."""
        while len(runs) >= FAN and len({run.level for run in runs[-FAN:]}) == 1:
            some = runs[-FAN:]
            if sum(run.rows.num_rows for run in some) > MOST_ROWS:
                return
            runs[-FAN:] = [self._joined(asked, some)]

    def _joined(self, asked: Hashable, runs: Sequence[_Run]) -> _Run:
        starts, rows = list[int](), 0
        for run in runs:
            starts += [rows + start for start in run.starts]
            rows += run.rows.num_rows
        paths = tuple(path for run in runs for path in run.paths)
        made = _Run(paths, tuple(starts), pa.concat_tables([run.rows for run in runs]).combine_chunks())
        with self._lock:
            self._held[asked] = {**self._held.get(asked, {}), **{path: (made, i) for i, path in enumerate(paths)}}
        return made
