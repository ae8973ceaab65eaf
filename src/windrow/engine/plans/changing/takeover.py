"""What a plan has when it takes the place of a query's: state that is carried over, state that is built anew from what
the window stores keep, and the readers of these stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa

from windrow.engine.kept.window_stores import MovedReader, StoreUse, WindowStores
from windrow.engine.plans.commits import PlanCommits
from windrow.engine.plans.homes import DRIVER, has_view, restored
from windrow.engine.plans.query import ContinuousQuery, kept_columns, wanted_rows
from windrow.engine.state import StreamState
from windrow.engine.tables.uses import seen_from
from windrow.operators.carrying.carrying import CarriedState, RebuiltState, carry, rebuild
from windrow.operators.carrying.matching import nodes_by_path
from windrow.operators.changes import changes_schema, stored
from windrow.operators.scan import births_end, needs_history, reach, stored_schema, table_of
from windrow.operators.state import PlanState
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.rows import longs
from windrow.operators.ticks import NEVER
from windrow.operators.view import merged_view
from windrow.plan.algebra.nodes import ContinuousPlan, NrrJoin, ToStream
from windrow.types import POINT_MIN
from windrow.windows.frontier import max_or_none


@dataclass(frozen=True)
class PlanTakeover:
    """A new plan as of the last tick of the query whose plan it replaces; `ticked` None: it has not ticked.

    `covered`: of a periodic plan, the tick from which on its windows hold no tuple so far.
    """

    plan: ContinuousPlan
    ticked: int | None
    carried: CarriedState
    rebuilt: RebuiltState
    readers: tuple[MovedReader, ...]
    covered: int | None = None

    @property
    def state(self) -> PlanState:
        return self.rebuilt.state


def answer_of(query: ContinuousQuery) -> pa.Table | None:
    """The answer of a query as of its last tick, as stored changes; None if none is kept."""
    ticked = query.progress.ticked
    if ticked is None or not has_view(query):
        return None
    return merged_view((no_changes(query.plan), *query.version.changes), ticked)


def no_changes(plan: ContinuousPlan) -> pa.Table:
    """Stored changes of a plan, of which there are none."""
    return stored(changes_schema(plan.schema).empty_table())


class Takeovers:
    """Prepares plans that take the place of others. The catalog stays as it is, except that stores may get columns that
    can be computed. The caller holds the query's `ticking` and the `batch_lock` of all streams."""

    def __init__(
        self, commits: PlanCommits, stores: WindowStores, stream_of: Callable[[str], StreamState], kernel: Kernel
    ):
        self._commits = commits
        self._stores = stores
        self._stream_of = stream_of
        self._kernel = kernel

    def prepared(self, query: ContinuousQuery, new: ContinuousQuery, ticked: int | None) -> PlanTakeover:
        """The new query's plan as of a tick of its own: the old one's last tick, or the last before that (None: the old
        one has not ticked)."""
        plan = new.plan
        for i, window in enumerate(plan.windows):
            self._stores.compute(wanted_rows(plan, i, self._stream_of(window.stream)), self._kernel)
        if ticked is None:
            found = self._readers(query, new, CarriedState(), None)
            assert found is not None
            return PlanTakeover(plan, None, CarriedState(), RebuiltState(PlanState(), None), tuple(r for r, _ in found))
        carried = self._carried(query, new, ticked)
        found = self._readers(query, new, carried, ticked)
        if found is None:  # a store of its own lacks what is carried over
            carried = CarriedState()
            found = self._readers(query, new, carried, ticked)
        assert found is not None
        readers = [one for one, _ in found]
        rows = {i: self._rows(plan, i, use, ticked) for i, (_, use) in enumerate(found) if i not in carried.windows}
        relations, explicit = {use.path: use.rows_at(ticked) for use in new.tables}, new.choices.explicit_expiry
        made = rebuild(plan, carried, rows, ticked, self._kernel, explicit, relations)
        covered = self._covered(query, plan, carried, rows, ticked) if plan.periodic else None
        return PlanTakeover(plan, ticked, carried, made, tuple(readers), covered)

    # -- state ---------------------------------------------------------------------------------

    def _carried(self, query: ContinuousQuery, new: ContinuousQuery, ticked: int) -> CarriedState:
        has_lost = any(self._stores.is_suspended(use.reader) for use in query.uses)
        if has_lost or ticked != query.progress.ticked or not query.has_own_state:
            return CarriedState()
        state = query.version.state
        if query.home != DRIVER:
            state = restored(query, self._commits, ticked)
        changed = query.effects_at(ticked) != query.progress.effects
        found = carry(query.plan, cast(PlanState, state), new.plan, ticked, answer_of(query), changed)
        return CarriedState() if _meets_unknown(new, found) else found

    def _rows(self, plan: ContinuousPlan, i: int, source: StoreUse | None, ticked: int) -> pa.Table:
        """The stored tuples of a window up to the tick."""
        window = plan.windows[i]
        schema, length, (columns, predicate) = stored_schema(window), reach(window), kept_columns(window)
        if source is None:
            return schema.empty_table()
        lo = POINT_MIN if length is None else ticked - length
        found = self._stores.rows(replace(source, predicate=predicate), columns, lo, ticked - window.lifetime.offset)
        return found.rename_columns(schema.names).cast(schema)

    def _covered(
        self,
        query: ContinuousQuery,
        plan: ContinuousPlan,
        carried: CarriedState,
        rows: Mapping[int, pa.Table],
        ticked: int,
    ) -> int | None:
        """The tick from which on no window holds a tuple of those so far."""
        found = [query.progress.covered] if carried.windows and query.progress.covered is not None else []
        for i, table in rows.items():
            lifetime = plan.windows[i].lifetime
            ends = births_end(longs(table.column("__t")) + lifetime.offset, lifetime)
            if ends.size:
                last = int(np.max(ends))
                found.append(
                    last if last == NEVER else (last - plan.origin) // plan.step * plan.step + plan.origin + plan.step
                )
        return max(found, default=None)

    # -- readers of stores ---------------------------------------------------------------------

    def _readers(
        self, query: ContinuousQuery, new: ContinuousQuery, carried: CarriedState, ticked: int | None
    ) -> list[tuple[MovedReader, StoreUse | None]] | None:
        """What the windows read from now on, and where the tuples are that came before. None: a window that is carried
        over would miss tuples that have come already."""
        found, plan = list[tuple[MovedReader, StoreUse | None]](), new.plan
        seen = seen_from(plan, new.read_tables)
        for i, window in enumerate(plan.windows):
            wanted = wanted_rows(plan, i, self._stream_of(window.stream))
            below = reach(window, needs_history(plan)[i])
            needs_from = None if below is None or ticked is None else ticked - below
            own, best = self._stores.own_source(wanted), self._stores.best_source(wanted)
            read = best if own is None else own
            since = self._stores.fresh(wanted) if read is None else read.since
            has_all = since is None or (needs_from is not None and since <= needs_from)
            if i in carried.windows and not has_all:
                return None
            if i in carried.windows:
                since = ticked if i in carried.lacking else query.uses[carried.windows[i]].since
            elif has_all and best is not None:  # its own store has all that later ticks read, another more of the past
                read, since = best, best.since
            if i not in carried.windows:
                since = max_or_none(since, seen[i])
                read = None if read is None else replace(read, since=max_or_none(read.since, seen[i]))
            found.append((MovedReader(wanted, needs_from, best if own is None else None, since), read))
        return found


def _meets_unknown(new: ContinuousQuery, carried: CarriedState) -> bool:
    """Whether rows that are carried over would be joined anew with a table that is NON RETROACTIVE, of which not all
    versions are kept that they would have to meet."""
    unknown = {table.name.lower() for table in new.read_tables if table.base.known_from > POINT_MIN}
    for path, node in nodes_by_path(new.plan.root):
        scan = table_of(node.table) if isinstance(node, NrrJoin) else None
        is_carried = carried.is_whole or any(f"{path}.".startswith(f"{one}.") for one in carried.outputs)
        if scan is not None and scan.table.lower() in unknown and not is_carried:
            return True
    return False


def is_stream(plan: ContinuousPlan) -> bool:
    """Whether a plan reports a stream (ISTREAM, DSTREAM, RSTREAM), whose rows nobody takes back."""
    return isinstance(plan.root, ToStream)
