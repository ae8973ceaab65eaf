"""What one synopsis and the stream's progress need from a micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from windrow.catalog.definitions import StreamDef
from windrow.cql.bounds.guards import bounded_sql
from windrow.cql.names import quote_name
from windrow.cql.statements import Policy
from windrow.dataplane.ingest.admission import Admission, advances_sql, point_columns
from windrow.dataplane.ingest.ranks import rank_column
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import RANK_COLUMN, ROW_COLUMN, ROW_NUM, Key
from windrow.synopses.cells.cells import partial_sql
from windrow.synopses.cells.sketches import is_sketch
from windrow.windows import CutSchedule


@dataclass(frozen=True)
class Grouping:
    """What one synopsis needs of a micro-batch. `qualifies` None: it needs every tuple.

    `axis` is the column that panes are cut on, or ROW_NUM. The first `partition` keys are those of a partitioned
    window: its panes are cut on the rank in the partition, which goes on from earlier micro-batches, so every tuple
    counts.
    """

    synopsis: int
    keys: tuple[Key, ...]
    schedule: CutSchedule
    qualifies: str | None
    accumulators: tuple[Accumulator, ...]
    axis: str
    partition: int = 0
    max_value_bytes: int | None = None
    """The bound on the values that its expressions make; None: no bound."""

    def __post_init__(self) -> None:
        if self.partition and self.qualifies is not None:
            raise ValueError("a partitioned window counts every tuple")

    def bounded(self, sql: str) -> str:
        """An expression as Spark evaluates it: with guards around calls that may make large values."""
        return sql if self.max_value_bytes is None else bounded_sql(sql, self.max_value_bytes)

    def bounded_accumulator(self, a: Accumulator) -> Accumulator:
        arg, condition = (None if sql is None else self.bounded(sql) for sql in (a.arg, a.condition))
        return a if (arg, condition) == (a.arg, a.condition) else replace(a, arg=arg, condition=condition)

    @property
    def needs_order(self) -> bool:
        """Whether the order of arrival counts, be it for row numbers or for ranks."""
        return self.axis == ROW_NUM or self._marks_rows

    @property
    def needs_rows(self) -> bool:
        """Whether a group-by needs row numbers."""
        return self.axis == ROW_NUM and not self.partition or self._marks_rows

    @property
    def _marks_rows(self) -> bool:
        return any(a.every_n is not None for a in self.accumulators)

    @property
    def is_sketched(self) -> bool:
        """Whether only Spark can pre-aggregate for it."""
        return any(is_sketch(a) for a in self.accumulators)

    def partials(self, g: int) -> list[tuple[str, Accumulator]]:
        """(prefix of column names, accumulator) of the g-th grouping of a group-by, which has its own ranks."""
        own = (replace(a, arg=rank_column(g)) if a.arg == RANK_COLUMN else a for a in self.accumulators)
        return [(f"p_{a.id}", a) for a in own]

    def axis_column(self, stream: StreamDef, g: int) -> str:
        """The column that the panes of the g-th grouping are cut on."""
        if self.partition:
            return rank_column(g)
        return ROW_COLUMN if self.axis == ROW_NUM else point_columns(stream)[self.axis]


def partial_columns(groupings: Sequence[Grouping], sets: Sequence[int] = ()) -> list[tuple[str, str]]:
    """(name, Spark aggregate) of every distinct accumulator of the groupings. With the `__set` of each grouping,
    sketches are made only in the sets that keep them."""
    kept: dict[tuple[str, Accumulator], list[int]] = {}
    for g, grouping in enumerate(groupings):
        for partial in grouping.partials(g):
            kept.setdefault(partial, []).append(g)
    found = []
    for (name, a), used_by in kept.items():
        a = groupings[used_by[0]].bounded_accumulator(a)
        if sets and is_sketch(a):
            within = f"__set IN ({', '.join(f'{sets[g]}L' for g in used_by)})"
            a = replace(a, condition=within if a.condition is None else f"({within}) AND ({a.condition})")
        found += [(f"{name}_{i}", sql) for i, sql in enumerate(partial_sql(a))]
    return found


def progress_columns(stream: StreamDef, admission: Admission | None = None) -> list[tuple[str, str]]:
    """(name, expression) of what PER key and SLACK in rows must see of every tuple: its key, or its point."""
    found = []
    names = point_columns(stream)
    advances = {} if admission is None else advances_sql(stream, admission)
    for i, punctuated in enumerate(stream.punctuated):
        if punctuated.policy is Policy.PER_KEY and punctuated.key is not None:
            found.append((f"__seen{i}", f"CAST({quote_name(punctuated.key)} AS STRING)"))
        elif punctuated.slack_rows is not None:
            t, test = names[punctuated.column], advances.get(punctuated.column)
            found.append((f"__seen{i}", f"CASE WHEN {test} THEN {t} END" if test else t))
    return found
