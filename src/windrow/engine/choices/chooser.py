"""Where to group a micro-batch, in Spark or in the driver: a pure function of the measurements of earlier ones.

Spark's group-by pays if it reduces the rows. Gathering the few needed columns pays if it does not, or if the
micro-batch is so small that a second stage costs more than moving its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

POOR_REDUCTION = 0.3
"""Cells per row above which Spark's group-by is slower than gathering (measured at 0.63: 0.45 s and 0.25 s)."""

SMALL_ROWS = 20_000
"""Rows below which a shuffle stage costs more than moving the rows (measured: 0.1 s and 0.04 s)."""

MANY_SETS = 8
"""Synopses above which Spark's group-by, with one grouping set each, is slower than gathering once."""

MANY_PARTIALS = 64
"""Synopses × partial aggregates above which Spark's group-by is slower: it carries all partials of every row once per
synopsis (measured on two busy cores, 100,000 rows: 0.95 s and 0.90 s at 5 × 8, 3.7 s and 2.2 s at 6 × 20, 2.6 s and
0.9 s at 6 × 400)."""

UNKNOWN_SWELL = 4
"""Factor by which a first gather may exceed Spark's estimate, which is of compressed files."""

MOST_COUNT_BYTES = 4 << 20
"""Bytes of partition counts, some 200,000 partitions, above which they are not sent to a Spark job with every
micro-batch (measured on two very busy cores: sending and sorting them takes 1 s for 2 MB, 4 s for 11 MB)."""


def possible_setting(setting: str, count_bytes: int, sketched: bool = False) -> str:
    """The setting `preaggregate` as far as it can be followed: only Spark makes sketches, and only the driver ranks
    tuples in very many partitions."""
    if sketched:
        return "spark"
    return "driver" if count_bytes > MOST_COUNT_BYTES else setting


@dataclass(frozen=True)
class GroupingChoice:
    """The measurements of the last micro-batch: `reduction` (cells per row), `rows`, and `row_bytes` if gathered.

    `swell` is gathered bytes per byte that Spark estimated.
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

        `sets` is the number of synopses; Spark groups every row once for each, with all `partials`, the partial
        aggregates. `ordered`: row numbers or ranks are needed; Spark then sorts before it groups, and was never faster
        (measured on two busy cores, ranks in 1,000 partitions: 0.85 s and 0.38 s for 200,000 rows, 2.4 s and 1.0 s for
        a million). `stored`: a synopsis is in the Spark home, and the tasks of a group-by write its cells themselves.
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

    def after(self, rows: int, cells: int, gathered_bytes: int | None, estimate_bytes: int | None) -> GroupingChoice:
        """The chooser after a micro-batch, with its measurements."""
        if rows == 0:
            return self
        row_bytes, swell = self.row_bytes, self.swell
        if gathered_bytes is not None:
            row_bytes = gathered_bytes / rows
            swell = gathered_bytes / estimate_bytes if estimate_bytes else swell
        return GroupingChoice(cells / rows, rows, row_bytes, swell)
