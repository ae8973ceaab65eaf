"""Where to group a micro-batch: a pure state machine over what earlier ones measured (DESIGN 1.1).

Spark's group-by pays when it reduces; gathering the few needed columns pays when it does not, or when the
micro-batch is so small that a second stage costs more than the rows do.
"""

from __future__ import annotations

from dataclasses import dataclass

POOR_REDUCTION = 0.3
"""Cells per row above which Spark's group-by is slower than gathering (measured: 0.45 s, 0.25 s at 0.63)."""

SMALL_ROWS = 20_000
"""Below this a shuffle stage costs more than moving the rows (measured: 0.1 s and 0.04 s)."""

MANY_SETS = 8
"""Above this many synopses Spark's group-by, with a grouping set for each, is slower than gathering once."""

MANY_PARTIALS = 64
"""Above this many (synopses × partial aggregates) too: in Spark's group-by every row carries all of them once for every
synopsis (measured on two busy cores, 100,000 rows: 0.95 s and 0.90 s at 5 × 8, 3.7 s and 2.2 s at 6 × 20, 2.6 s and
0.9 s at 6 × 400)."""

UNKNOWN_SWELL = 4
"""How much larger than Spark's estimate (of compressed files) a first gather is taken to be, to be safe."""

MOST_COUNT_BYTES = 4 << 20
"""Counts of partitions above this are not given to a Spark job with every micro-batch: some 200,000 partitions
(measured on two very busy cores: sending and sorting them takes 1 s for 2 MB, 4 s for 11 MB)."""


def asked(setting: str, count_bytes: int, sketched: bool = False) -> str:
    """What the setting comes to where tuples are ranked: from too many partitions' counts, in the driver. Sketches are
    made by Spark alone, whatever the setting."""
    if sketched:
        return "spark"
    return "driver" if count_bytes > MOST_COUNT_BYTES else setting


@dataclass(frozen=True)
class Chooser:
    """What is known: the last micro-batch's `reduction` (cells per row), `rows` and `row_bytes` when gathered.

    `swell`: bytes gathered per byte that Spark had estimated.
    """

    reduction: float | None = None
    rows: int | None = None
    row_bytes: float | None = None
    swell: float = 1.0

    def choose(
        self,
        setting: str,
        estimate_bytes: int | None,
        limit_bytes: int,
        sets: int = 1,
        ordered: bool = False,
        partials: int = 1,
        stored: bool = False,
    ) -> str:
        """'spark' or 'driver'. A gather that may exceed the limit is left to Spark, whatever the setting.

        `sets`: how many synopses there are; in Spark every row is grouped once for each of them, with all `partials`,
        the partial aggregates. `ordered`: row
        numbers or ranks are to be found out; Spark then sorts before it groups, and was never the faster (measured on
        two busy cores, ranks in 1,000 partitions: 0.85 s and 0.38 s for 200,000 rows, 2.4 s and 1.0 s for a million).
        `stored`: a synopsis is in the Spark home; the tasks of a group-by then keep its cells away from the driver.
        """
        if setting == "spark":
            return "spark"
        expected = self._expected(estimate_bytes)
        if expected is not None and expected > limit_bytes:
            return "spark"
        if setting == "driver":
            return "driver"
        if self.reduction is None or self.rows is None:
            known = expected is not None and expected * UNKNOWN_SWELL <= limit_bytes
            return "driver" if known else "spark"
        wide = sets > MANY_SETS or sets * partials > MANY_PARTIALS
        poor = ordered or wide or self.rows < SMALL_ROWS or (self.reduction > POOR_REDUCTION and not stored)
        return "driver" if poor else "spark"

    def _expected(self, estimate_bytes: int | None) -> float | None:
        if estimate_bytes is not None:
            return estimate_bytes * self.swell
        if self.rows is not None and self.row_bytes is not None:
            return self.rows * self.row_bytes
        return None

    def after(self, rows: int, cells: int, gathered_bytes: int | None, estimate_bytes: int | None) -> Chooser:
        """What the micro-batch that just ran teaches."""
        if rows == 0:
            return self
        row_bytes, swell = self.row_bytes, self.swell
        if gathered_bytes is not None:
            row_bytes = gathered_bytes / rows
            swell = gathered_bytes / estimate_bytes if estimate_bytes else swell
        return Chooser(cells / rows, rows, row_bytes, swell)
