"""Retained answers as tables: those of a query, of a range of window ends, or of the latest window.

This needs the catalog and the blocks only, so it also serves a process that merely reads a state directory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from numbers import Integral
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.answers.finishing import answer_schema
from windrow.dataplane.answers.revisions import OP, net_answers, revised_schema
from windrow.dataplane.blocks import BlockStore
from windrow.engine.ask.lookup_args import end_of, length_of
from windrow.engine.store.answers_kept import AnswersKept, ListedAnswers
from windrow.errors import BindError, CatalogError, StateError
from windrow.plan.nodes import Finalise
from windrow.windows import PartitionedWindow

T = TypeVar("T")

WINDOW_END = "window_end"


@dataclass(frozen=True)
class AnsweredQuery:
    """What reading a query's answers needs to know of the query."""

    id: int
    name: str
    plan: Finalise
    revises: bool
    """Whether its stream has LATE REVISE."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its answers."""
        return answer_schema(self.plan.outputs, self.plan.scan.attribute.type)

    @property
    def delivered(self) -> pa.Schema:
        """The columns of its answers as they are stored."""
        return revised_schema(self.schema) if self.revises else self.schema

    @property
    def is_time(self) -> bool:
        return self.plan.scan.attribute.type.is_timestamp

    @property
    def is_partitioned(self) -> bool:
        """Whether partitions count their own rows, so that window ends of different partitions do not compare."""
        return isinstance(self.plan.window, PartitionedWindow)


@dataclass(frozen=True)
class Ends:
    """A range of window ends, both included; None is open."""

    low: int | None = None
    high: int | None = None

    @property
    def is_open(self) -> bool:
        return self.low is None and self.high is None

    def and_(self, other: Ends) -> Ends:
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return Ends(max(lows, default=None), min(highs, default=None))


ALL = Ends()


@dataclass(frozen=True)
class AnswerScan:
    """Which of a query's answers are read: a range of window ends, perhaps only the latest window, some columns."""

    query: AnsweredQuery
    ends: Ends = ALL
    is_latest: bool = False
    columns: tuple[str, ...] | None = field(default=None)
    """None: all columns."""


class KeptAnswers:
    """Reads retained answers. A tick may retire parts meanwhile; then they are listed again.

    `refresh` is called before answers are listed: a reader in another process then copies the catalog anew.
    """

    def __init__(self, answers: AnswersKept, blocks: BlockStore, refresh: Callable[[], object] = lambda: None):
        self._answers = answers
        self._blocks = blocks
        self._refresh = refresh

    def listed(self, queries: Collection[AnsweredQuery]) -> dict[int, ListedAnswers]:
        """The answers of these queries as of one commit. Raises CatalogError if one was dropped."""
        self._refresh()
        found = self._answers.listed([query.id for query in queries])
        for query in queries:
            if query.id not in found:
                raise CatalogError(f"there is no query '{query.name}'", remedy="It was dropped just now.")
        return found

    def consistent(self, queries: Collection[AnsweredQuery], read: Callable[[Mapping[int, ListedAnswers]], T]) -> T:
        """What `read` makes of the queries' answers as of one commit."""
        listed = self.listed(queries)
        while True:
            try:
                return read(listed)
            except StateError:
                # A tick may have retired a part after it was listed; a part that is still listed is damaged.
                again = self.listed(queries)
                if again == listed:
                    raise
                listed = again

    def delivered(self, query: AnsweredQuery) -> pa.Table:
        """Everything that was delivered and is retained, in order."""
        return self.consistent([query], lambda listed: self._delivered(AnswerScan(query), listed[query.id]))

    def table(self, scan: AnswerScan) -> pa.Table:
        """The rows of a scan as of now."""
        return self.consistent([scan.query], lambda listed: self.scan(scan, listed[scan.query.id]))

    def scan(self, scan: AnswerScan, listed: ListedAnswers) -> pa.Table:
        """The rows of a scan in window order. With LATE REVISE, corrections are applied."""
        table = self._delivered(scan, listed)
        if OP in table.column_names:
            table = net_answers(table, scan.query.plan)
        return table if scan.columns is None else table.select(list(scan.columns))

    def _delivered(self, scan: AnswerScan, listed: ListedAnswers) -> pa.Table:
        query, ends, parts = scan.query, scan.ends, listed.parts
        # Withdrawn rows are matched by all their columns.
        columns = None if scan.columns is None or query.revises else list(scan.columns)
        if scan.is_latest:
            parts, ends = _latest(query, listed, ends)
        schema = query.delivered if columns is None else pa.schema([query.delivered.field(n) for n in columns])
        tables = [self._part(part, ends, columns) for part in parts]
        return pa.concat_tables([schema.empty_table(), *tables])

    def _part(self, part: tuple[str, int, int, int], ends: Ends, columns: list[str] | None) -> pa.Table:
        """A part's rows. The file is mapped: columns that nobody asks for are not read."""
        table = self._blocks.read_part(*part[:3])
        wanted = table if columns is None else table.select(columns)
        return wanted if ends.is_open else wanted.filter(within(table.column(WINDOW_END), ends))

    def answers(self, query: AnsweredQuery, last: object, since: object) -> pa.Table:
        """Retained answers in window order: the last windows with rows, or those that end from `since` on, or both."""
        attribute = query.plan.scan.attribute
        ends = ALL if since is None else Ends(low=end_of(since, attribute))
        count = window_count(query.name, query.is_time, query.is_partitioned, last)
        if last is None or count is not None:
            return last_windows(self.table(AnswerScan(query, ends)), count)
        length = length_of(last, attribute)

        def read(listed: Mapping[int, ListedAnswers]) -> pa.Table:
            of_query = listed[query.id]
            late = ALL if of_query.last_end is None else Ends(low=of_query.last_end - length + 1)
            return self.scan(AnswerScan(query, ends.and_(late)), of_query)

        return self.consistent([query], read)


def _latest(
    query: AnsweredQuery, listed: ListedAnswers, ends: Ends
) -> tuple[tuple[tuple[str, int, int, int], ...], Ends]:
    """The parts that hold the latest answer, and the range of its window end."""
    if listed.last_end is None:
        return (), ends
    if query.is_partitioned:  # partitions advance independently: the rows answered last
        return listed.parts[-1:], ends
    return listed.parts, ends.and_(Ends(listed.last_end, listed.last_end))


def within(ends: pa.ChunkedArray, wanted: Ends) -> pa.ChunkedArray:
    """Which window ends are in a range that is not open."""
    points = ends.cast(pa.int64())
    masks = []
    if wanted.low is not None:
        masks.append(pc.greater_equal(points, wanted.low))
    if wanted.high is not None:
        masks.append(pc.less_equal(points, wanted.high))
    return masks[0] if len(masks) == 1 else pc.and_(*masks)


def window_count(name: str, is_time: bool, is_partitioned: bool, last: object) -> int | None:
    """How many windows of a query `last` asks for; None if it is a length of time, or nothing."""
    if last is None or (is_time and isinstance(last, (str, timedelta))):
        return None
    if is_partitioned:
        raise BindError(
            f"query '{name}' has no last windows: each partition counts its own rows",
            remedy="Use since=, which applies to each partition, or SQL: ROW_NUMBER() OVER (PARTITION BY …).",
        )
    if not isinstance(last, Integral) or isinstance(last, bool) or last < 1:
        takes = ' or a length such as "1 hour"' if is_time else ""
        raise BindError(
            f"last={last!r} is not a number of windows{takes}", remedy=f"Give a whole number from 1 on{takes}."
        )
    return int(last)


def last_windows(table: pa.Table, count: int | None) -> pa.Table:
    """The rows of the last `count` windows that have rows; all if it is None."""
    if count is None:
        return table
    points = np.asarray(table.column(WINDOW_END).cast(pa.int64()).combine_chunks())
    kept = np.unique(points)[-count:]
    return table if not kept.size else table.filter(pa.array(points >= kept[0]))
