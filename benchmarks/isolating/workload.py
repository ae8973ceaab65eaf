"""The workload of Golab's dissertation, section 7.5.1, drawn by a seed: the same for all schedulers.

From the text: a window of n panes of t seconds, which slides n times. The rate of each pane differs from the steady rate
by a factor of up to ten. Periodic queries in groups of five share a scan; each group is of one kind, top k or percentiles,
and reads the longest of its five windows, which are of one to n panes. One-time queries are urgent, over one to n panes,
and come at random times.

Where the text leaves a choice: the factor of a pane is 10^u with u uniform in [-1, 1]; the gaps between one-time queries
are exponential.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

QUERIES_PER_GROUP = 5
MOST_DEVIATION = 10.0

TOP_K, PERCENTILES, ONE_TIME = "top k", "percentiles", "one-time"
KINDS = (TOP_K, PERCENTILES, ONE_TIME)


@dataclass(frozen=True)
class Setting:
    """One point of a figure. `one_time_every_s` None: no one-time queries."""

    pane_s: float
    panes: int
    queries: int
    rate: float
    one_time_every_s: float | None = None

    def __post_init__(self) -> None:
        if self.pane_s <= 0 or self.panes <= 0 or self.rate <= 0:
            raise ValueError("a setting has panes of positive length, and a positive rate")
        if self.queries <= 0 or self.queries % QUERIES_PER_GROUP:
            raise ValueError(f"periodic queries come in groups of {QUERIES_PER_GROUP}")
        if self.one_time_every_s is not None and self.one_time_every_s <= 0:
            raise ValueError("one-time queries have a positive time between them")

    def __str__(self) -> str:
        beside = "" if self.one_time_every_s is None else ", and one-time queries"
        return f"t = {self.pane_s:g} s, n = {self.panes}, {self.queries} periodic queries{beside}"

    @property
    def window_s(self) -> float:
        """The length of the window, which is also that of the test."""
        return self.panes * self.pane_s


@dataclass(frozen=True)
class Asked:
    """A query that is asked: what it is, and how many panes its window has."""

    kind: str
    panes: int
    at_s: float = 0.0


@dataclass(frozen=True)
class Workload:
    """What happens in a test. `rows[i]` is the number of tuples of pane i − n: panes below 0 are there at the beginning,
    pane i ≥ 0 is complete at (i + 1)·t."""

    setting: Setting
    rows: tuple[int, ...]
    groups: tuple[Asked, ...]
    one_time: tuple[Asked, ...]

    @classmethod
    def drawn(cls, setting: Setting, seed: int) -> Workload:
        random = Random(f"workload {seed}")
        n = setting.panes
        steady = setting.rate * setting.pane_s
        rows = tuple(max(1, round(steady * MOST_DEVIATION ** random.uniform(-1, 1))) for _ in range(2 * n))
        groups = tuple(
            Asked(random.choice((TOP_K, PERCENTILES)), max(random.randint(1, n) for _ in range(QUERIES_PER_GROUP)))
            for _ in range(setting.queries // QUERIES_PER_GROUP)
        )
        return cls(setting, rows, groups, tuple(_one_time(setting, random)))


def _one_time(setting: Setting, random: Random) -> list[Asked]:
    found: list[Asked] = []
    if setting.one_time_every_s is not None:
        at_s = random.expovariate(1 / setting.one_time_every_s)
        while at_s < setting.window_s:
            found.append(Asked(ONE_TIME, random.randint(1, setting.panes), at_s))
            at_s += random.expovariate(1 / setting.one_time_every_s)
    return found
