"""What the operators of a plan did so far: a few counters per operator, two time stamps per operator and batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class OperatorCounts:
    """What an operator gave in all its batches. `nbytes` are those of the buffers that its rows are in. `seconds` are
    its own, without those of its inputs; those of several tasks are added up."""

    calls: int = 0
    rows: int = 0
    nbytes: int = 0
    seconds: float = 0.0


@dataclass
class PlanMeter:
    """Counters of a plan since the state directory was opened, by path as in `PlanState`.

    `points` is how much of the window attribute was ticked through. One thread adds at a time, and any may read.
    """

    batches: int = 0
    points: int = 0
    read_s: float = 0.0
    advance_s: float = 0.0
    commit_s: float = 0.0
    counts: dict[str, OperatorCounts] = field(default_factory=dict)

    def add(self, path: str, rows: int, nbytes: int, seconds: float) -> None:
        """A call of the operator at a path, and what it gave."""
        found = self.counts.get(path)
        if found is None:
            found = self.counts[path] = OperatorCounts()
        found.calls += 1
        found.rows += rows
        found.nbytes += nbytes
        found.seconds += seconds

    def add_upwards(self, path: str, rows: int, nbytes: int, seconds: float) -> None:
        """A call of the operator at a path, and of those above it, which give the same rows and take no time."""
        names = path.split(".")
        for depth in range(1, len(names)):
            self.add(".".join(names[:depth]), rows, nbytes, 0.0)
        self.add(path, rows, nbytes, seconds)

    def add_tasks(self, tasks: Iterable[Mapping[str, Sequence[float]]]) -> None:
        """One call of every operator, in several tasks: the rows, bytes and seconds of each, by path."""
        found = dict[str, OperatorCounts]()
        for counts in tasks:
            for path, (rows, nbytes, seconds) in counts.items():
                one = found.setdefault(path, OperatorCounts())
                one.rows, one.nbytes, one.seconds = (
                    one.rows + int(rows),
                    one.nbytes + int(nbytes),
                    one.seconds + seconds,
                )
        for path, one in found.items():
            self.add(path, one.rows, one.nbytes, one.seconds)

    def add_batch(self, points: int, read_s: float, advance_s: float) -> None:
        """A batch of ticks that moved the plan by so many points."""
        self.batches += 1
        self.points += points
        self.read_s += read_s
        self.advance_s += advance_s

    def of(self, path: str) -> OperatorCounts:
        return self.counts.get(path, OperatorCounts())
