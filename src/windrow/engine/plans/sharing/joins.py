"""Finds the joins that queries have in common; in the driver home, runs each once and routes its results.

A join over windows keeps nothing itself, since its windows are in the stores. So sharing is decided anew for each batch
of ticks: who is due for the same ticks and reads the same tuples shares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from windrow.dataplane.stores import KeptColumn, PackedFlags, ReadColumn
from windrow.engine.kept.window_stores import StoreUse, WindowStores
from windrow.engine.plans.query import BOOLEAN, ContinuousQuery, kept_columns
from windrow.operators.advance import joined
from windrow.operators.scan import StreamRows, reach, read_window
from windrow.operators.sharing.routing import renamed_columns, routed_outputs
from windrow.operators.state import ROOT, has_internal
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.memo import by_identity
from windrow.operators.tables.metering import PlanMeter
from windrow.operators.ticks import DueTicks
from windrow.optimizer.common_join import CommonJoin, SharableJoin, common_join
from windrow.plan.algebra.nodes import StreamColumn
from windrow.settings import SHARE_JOINS
from windrow.types import POINT_MIN

REMEMBERED = 64
"""So many shared joins are remembered."""


@dataclass(frozen=True)
class Given:
    """The output of a query's join that was processed with those of other queries: the path of the join, and the
    windows below it. Or the query's changes, if it only renames that output."""

    path: str
    output: Edge | pa.Table
    windows: frozenset[int]

    def count(self, meter: PlanMeter, width: float, seconds: float) -> None:
        """Count what the join gave, rows of so many bytes, and what is above it, if that was done with it."""
        if isinstance(self.output, Edge):
            rows = self.output.rows.num_rows
            meter.add(self.path, rows, int(rows * width), seconds)
        else:
            rows = self.output.num_rows
            meter.add_upwards(self.path, rows, int(rows * width), seconds)


@dataclass(frozen=True)
class JoinMember:
    """A query with a join that it may share, and the numbers of the join's windows in the order of its sides."""

    query: ContinuousQuery
    join: SharableJoin
    windows: tuple[int, ...]

    @property
    def path(self) -> str:
        """The path of the join in the query's plan."""
        return "".join((ROOT, *(f".{i}" for i in self.join.path)))

    @property
    def renamed(self) -> tuple[str, ...] | None:
        """The columns of the join that the query's changes have, if it only renames them."""
        return None if self.query.choices.explicit_expiry else renamed_columns(self.query.plan)

    def uses(self) -> list[StoreUse]:
        return [self.query.uses[i] for i in self.windows]


@dataclass(frozen=True)
class JoinGroup:
    """Queries that are due for the same ticks, and the join that serves them."""

    members: tuple[JoinMember, ...]
    common: CommonJoin

    @property
    def has_until(self) -> bool:
        return has_internal(self.members[0].query.plan)

    @property
    def columns(self) -> tuple[tuple[ReadColumn, ...], ...]:
        """The columns that the join reads for each of its windows."""
        return _read_columns(self.common)

    def use(self, i: int) -> StoreUse:
        """What the join reads for its i-th window."""
        first = self.members[0].uses()[i]
        return StoreUse(first.store, first.reader, first.since, kept_columns(self.common.windows[i])[1])


@by_identity
def _read_columns(common: CommonJoin) -> tuple[tuple[ReadColumn, ...], ...]:
    def read(one: StreamColumn) -> ReadColumn:
        flags = common.flags.get(one.column.sql)
        if flags is None:
            return KeptColumn(one.sql, one.column.type)
        return PackedFlags(tuple(KeptColumn(sql, BOOLEAN) for sql in flags))

    return tuple(tuple(map(read, window.columns)) for window in common.windows)


class SharedJoins:
    """Knows which joins queries have in common."""

    def __init__(self) -> None:
        self._commons: dict[tuple[int, ...], tuple[tuple[SharableJoin, ...], CommonJoin]] = {}

    def groups(
        self,
        queries: Sequence[ContinuousQuery],
        due: DueTicks,
        where: Callable[[JoinMember], object] = lambda member: None,
    ) -> list[JoinGroup]:
        """The joins that several of these queries have in common; all are due for these ticks. `where` must be equal,
        too."""
        found = dict[tuple[object, ...], list[JoinMember]]()
        for query in queries:
            query.shares_join_with = ()
            member = _member(query)
            if member is not None:
                found.setdefault((_reads(member, due), where(member)), []).append(member)
        groups = [JoinGroup(tuple(members), self._common(members)) for members in found.values() if len(members) > 1]
        for group in groups:
            names = [member.query.name for member in group.members]
            for i, member in enumerate(group.members):
                member.query.shares_join_with = (*names[:i], *names[i + 1 :])
        return groups

    def _common(self, members: Sequence[JoinMember]) -> CommonJoin:
        """The join of these queries, remembered: they are the same at most ticks. A query that is replaced keeps its
        number and has another join."""
        key, joins = tuple(member.query.id for member in members), tuple(member.join for member in members)
        known = self._commons.get(key)
        if known is None or any(one is not other for one, other in zip(known[0], joins, strict=True)):
            if len(self._commons) >= REMEMBERED:
                self._commons.clear()
            known = self._commons[key] = (joins, common_join(joins))
        return known[1]


class JoinsInDriver:
    """Processes shared joins in this process."""

    def __init__(self, stores: WindowStores, kernel: Kernel):
        self._stores = stores
        self._kernel = kernel
        self._shared = SharedJoins()

    def given(self, queries: Sequence[ContinuousQuery], due: DueTicks) -> dict[int, Given]:
        """The outputs of shared joins, by number of the query. All the queries are due for these ticks."""
        found = dict[int, Given]()
        for group in self._shared.groups(queries, due):
            started = time.perf_counter()
            rows = {i: self._rows(group, i, due) for i in range(len(group.common.windows))}
            edge = joined(group.common.join, rows, due, self._kernel, group.has_until)
            renamed = [member.renamed for member in group.members]
            outputs = routed_outputs(group.common.routes, renamed, edge, due, self._kernel)
            seconds = (time.perf_counter() - started) / len(outputs)
            width = edge.rows.nbytes / max(1, edge.rows.num_rows)
            for member, one in zip(group.members, outputs, strict=True):
                given = Given(member.path, one, frozenset(member.windows))
                given.count(member.query.meter, width, seconds)
                found[member.query.id] = given
        return found

    def _rows(self, group: JoinGroup, i: int, due: DueTicks) -> StreamRows:
        window = group.common.windows[i]
        columns, use = group.columns[i], group.use(i)

        def read(lo: int, hi: int) -> pa.Table:
            return self._stores.rows(use, columns, lo, hi)

        return read_window(window, read, True, due)


def _member(query: ContinuousQuery) -> JoinMember | None:
    if SHARE_JOINS in query.choices.rules_off:
        return None
    found = query.sharable_join
    if found is None:
        return None
    numbers = {id(window): i for i, window in enumerate(query.plan.windows)}
    return JoinMember(query, found, tuple(numbers[id(side.window)] for side in found.sides))


def _reads(member: JoinMember, due: DueTicks) -> tuple[object, ...]:
    """What a join reads of which stores; equal for joins that can be one."""
    stores = []
    for i, use in zip(member.windows, member.uses(), strict=True):
        below = reach(member.query.plan.windows[i])
        lo = POINT_MIN if below is None else due.before - below
        stores.append((use.store, lo if use.since is None else max(lo, use.since)))
    return (*member.join.signature, *stores, has_internal(member.query.plan))
