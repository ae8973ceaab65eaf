"""Runs a join once for the queries that have it in common, and routes its results to them.

A join over windows keeps nothing itself, since its windows are in the stores. So sharing is decided anew for each batch
of ticks: who is due for the same ticks and reads the same tuples shares.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.kept.window_stores import StoreUse, WindowStores
from windrow.engine.plans.query import ContinuousQuery, kept_columns
from windrow.operators.advance import joined
from windrow.operators.scan import StreamRows, reach, read_window
from windrow.operators.state import ROOT, has_internal
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel, types_of
from windrow.operators.ticks import EXP, TS, UNTIL, DueTicks
from windrow.optimizer.common_join import CommonJoin, JoinRoute, SharableJoin, common_join
from windrow.settings import SHARE_JOINS
from windrow.types import POINT_MIN

REMEMBERED = 64
"""So many shared joins are remembered."""


@dataclass(frozen=True)
class Given:
    """The output of a query's join that was processed with those of other queries: the path of the join, and the
    windows below it."""

    path: str
    edge: Edge
    windows: frozenset[int]


@dataclass(frozen=True)
class _Member:
    """A query with a join that it may share, and the numbers of the join's windows in the order of its sides."""

    query: ContinuousQuery
    join: SharableJoin
    windows: tuple[int, ...]

    def uses(self) -> list[StoreUse]:
        return [self.query.uses[i] for i in self.windows]


class SharedJoins:
    """Processes the joins that queries have in common."""

    def __init__(self, stores: WindowStores, kernel: Kernel):
        self._stores = stores
        self._kernel = kernel
        self._commons: dict[tuple[int, ...], CommonJoin] = {}

    def given(self, queries: Sequence[ContinuousQuery], due: DueTicks) -> dict[int, Given]:
        """The outputs of shared joins, by number of the query. All the queries are due for these ticks."""
        groups = dict[tuple[object, ...], list[_Member]]()
        for query in queries:
            query.shares_join_with = ()
            member = _member(query)
            if member is not None:
                groups.setdefault(_reads(member, due), []).append(member)
        found = dict[int, Given]()
        for members in groups.values():
            if len(members) > 1:
                found |= self._shared(members, due)
        return found

    def _shared(self, members: Sequence[_Member], due: DueTicks) -> dict[int, Given]:
        started = time.perf_counter()
        common = self._common(members)
        rows = {i: self._rows(common, members, i, due) for i in range(len(common.windows))}
        edge = joined(common.join, rows, due, self._kernel, has_internal(members[0].query.plan))
        routed = self._routed(common.routes, edge)
        seconds, found = (time.perf_counter() - started) / len(members), dict[int, Given]()
        for member, one in zip(members, routed, strict=True):
            path = "".join((ROOT, *(f".{i}" for i in member.join.path)))
            member.query.meter.add(path, one.rows.num_rows, one.rows.get_total_buffer_size(), seconds)
            found[member.query.id] = Given(path, one, frozenset(member.windows))
            member.query.shares_join_with = tuple(other.query.name for other in members if other is not member)
        return found

    def _common(self, members: Sequence[_Member]) -> CommonJoin:
        """The join of these queries, remembered: they are the same at most ticks."""
        key = tuple(member.query.id for member in members)
        if key not in self._commons:
            if len(self._commons) >= REMEMBERED:
                self._commons.clear()
            self._commons[key] = common_join([member.join for member in members])
        return self._commons[key]

    def _rows(self, common: CommonJoin, members: Sequence[_Member], i: int, due: DueTicks) -> StreamRows:
        window, first = common.windows[i], members[0].uses()[i]
        columns, predicate = kept_columns(window)
        use = StoreUse(first.store, first.reader, first.since, predicate)

        def read(lo: int, hi: int) -> pa.Table:
            return self._stores.rows(use, columns, lo, hi)

        return read_window(window, read, True, due)

    def _routed(self, routes: Sequence[JoinRoute], edge: Edge) -> list[Edge]:
        """What each route takes of the results. All their conditions are computed together."""
        tested = [route.predicate for route in routes if route.predicate is not None]
        passing = iter(self._kernel.evaluate(tested, types_of(edge.schema), edge.rows) if edge.rows.num_rows else ())
        ends = [name for name in (TS, EXP, UNTIL) if name in edge.rows.column_names]
        found = []
        for route in routes:
            rows = edge.rows.select([*ends, *(shared.sql for _, shared in route.columns)])
            rows = rows.rename_columns([*ends, *(own.sql for own, _ in route.columns)])
            if route.predicate is not None and rows.num_rows:
                rows = rows.filter(pc.fill_null(next(passing), False))
            found.append(Edge(rows, tuple(own for own, _ in route.columns)))
        return found


def _member(query: ContinuousQuery) -> _Member | None:
    if SHARE_JOINS in query.choices.rules_off:
        return None
    found = query.sharable_join
    if found is None:
        return None
    numbers = {id(window): i for i, window in enumerate(query.plan.windows)}
    return _Member(query, found, tuple(numbers[id(side.window)] for side in found.sides))


def _reads(member: _Member, due: DueTicks) -> tuple[object, ...]:
    """What a join reads of which stores; equal for joins that can be one."""
    stores = []
    for i, use in zip(member.windows, member.uses(), strict=True):
        below = reach(member.query.plan.windows[i])
        lo = POINT_MIN if below is None else due.before - below
        stores.append((use.store, lo if use.since is None else max(lo, use.since)))
    return (*member.join.signature, *stores, has_internal(member.query.plan))
