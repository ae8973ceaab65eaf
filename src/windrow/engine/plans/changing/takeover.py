"""What a plan has when it takes the place of a query's: state that is carried over, state that is built anew from what
the window stores keep, and the readers of these stores.

The driver does that, and the state of a query that Spark runs comes there. If it is too large, Spark builds all of the
new state, if that can be made of the tuples that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa

from windrow.dataplane.blocks import BlockRef
from windrow.engine.kept.window_stores import MovedReader, StoreUse, WindowStores
from windrow.engine.plans.commits import STATE, PlanCommits, WrittenBlock
from windrow.engine.plans.homes import DRIVER, SPARK, PlanBatch, PlanHomes, has_view, restored
from windrow.engine.plans.query import ContinuousQuery, HomeState, kept_columns, wanted_rows
from windrow.engine.state import StreamState
from windrow.engine.tables.uses import seen_from
from windrow.operators.carrying.carrying import CarriedState, RebuiltState, carry, rebuild
from windrow.operators.carrying.matching import nodes_by_path
from windrow.operators.changes import changes_schema, stored
from windrow.operators.scan import births_end, needs_history, reach, stored_schema, table_of
from windrow.operators.state import PlanState
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.rows import longs
from windrow.operators.ticks import NEVER, DueTicks
from windrow.operators.view import merged_view
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    NrrJoin,
    OutputRows,
    OutputWindow,
    RowsWindow,
    ToStream,
    Window,
    walk,
)
from windrow.types import POINT_MIN
from windrow.windows.frontier import max_or_none


@dataclass(frozen=True)
class PlanTakeover:
    """A new plan as of the last tick of the query whose plan it replaces; `ticked` None: it has not ticked.

    `covered`: of a periodic plan, the tick from which on its windows hold no tuple so far. `built`: its state as Spark
    has made and written it; otherwise it is `rebuilt`.
    """

    plan: ContinuousPlan
    ticked: int | None
    carried: CarriedState
    rebuilt: RebuiltState
    readers: tuple[MovedReader, ...]
    covered: int | None = None
    built: PlanBatch | None = None

    @property
    def state(self) -> HomeState:
        return self.rebuilt.state if self.built is None else self.built.state

    @property
    def home(self) -> str:
        return DRIVER if self.built is None else SPARK

    @property
    def blocks(self) -> tuple[WrittenBlock, ...]:
        """The state that Spark has written."""
        found = () if self.built is None else self.built.blocks
        kept = ((one.ref, tuple(part for part in one.parts if part.kind == STATE)) for one in found)
        return tuple(WrittenBlock(ref, parts) for ref, parts in kept if parts)

    @property
    def unneeded(self) -> tuple[BlockRef, ...]:
        """The files that Spark has written and that have no state: the answer is written with the difference."""
        needed = {one.ref.path for one in self.blocks}
        return () if self.built is None else tuple(one.ref for one in self.built.blocks if one.ref.path not in needed)


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
        self,
        commits: PlanCommits,
        stores: WindowStores,
        homes: PlanHomes,
        stream_of: Callable[[str], StreamState],
        kernel: Kernel,
    ):
        self._commits = commits
        self._stores = stores
        self._homes = homes
        self._stream_of = stream_of
        self._kernel = kernel

    def prepared(self, query: ContinuousQuery, new: ContinuousQuery, ticked: int | None) -> PlanTakeover:
        """The new query's plan as of a tick of its own: the old one's last tick, or the last before that (None: the old
        one has not ticked)."""
        plan, built = new.plan, self.built(query, new, ticked)
        if built is not None:
            return built
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

    def fits_driver(self, query: ContinuousQuery) -> bool:
        """Whether the state of a query, and what its windows read, may come to the driver."""
        return query.home == DRIVER or self._homes.fits_driver(query)

    # -- state that Spark builds ---------------------------------------------------------------

    def built(self, query: ContinuousQuery, new: ContinuousQuery, ticked: int | None) -> PlanTakeover | None:
        """As `prepared`, built by Spark; None: the driver can do it, or the answer depends on more than the tuples that
        are kept."""
        plan = new.plan
        for i, window in enumerate(plan.windows):
            self._stores.compute(wanted_rows(plan, i, self._stream_of(window.stream)), self._kernel)
        if ticked is None or self.fits_driver(query) or not _is_of_live_tuples(plan):
            return None
        longest, uses, readers = 0, list[StoreUse](), list[MovedReader]()
        for i, window in enumerate(plan.windows):
            wanted, length = wanted_rows(plan, i, self._stream_of(window.stream)), reach(window)
            own, below = self._stores.own_source(wanted), reach(window, needs_history(plan)[i])
            if own is None or length is None or below is None or not _has_live(own.since, window, ticked):
                return None
            uses.append(own)
            readers.append(MovedReader(wanted, ticked - below, None, None))
            longest = max(longest, length)
        new.uses = tuple(uses)
        new.version = replace(new.version, progress=replace(new.progress, seq=query.progress.seq))
        begin = new.grid.floor(ticked - longest) - plan.step
        done = self._homes.built(new, DueTicks(begin, ticked, plan.step, plan.origin), SPARK)
        if done is None:
            return None
        carried = CarriedState(rebuilt=tuple({path.partition("/")[0] for path in done.state.sizes}))
        return PlanTakeover(
            plan, ticked, carried, RebuiltState(PlanState(), done.changes()), tuple(readers), built=done
        )

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
        seen, is_live = seen_from(plan, new.read_tables), _is_of_live_tuples(plan)
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
                since = None if is_live and _has_live(since, window, ticked) else since
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


def _has_live(since: int | None, window: Window, ticked: int | None) -> bool:
    """Whether all tuples that are in a window at a tick are among those from a point on (None: among all)."""
    length = reach(window)
    return since is None or (length is not None and ticked is not None and since <= ticked - length)


def _is_of_live_tuples(plan: ContinuousPlan) -> bool:
    """Whether the answer at a tick is made of the tuples in its windows then, and of tables as they are."""
    if plan.periodic:
        return False
    for node in walk(plan.root):
        if isinstance(node, ToStream | OutputWindow | OutputRows | NrrJoin | RowsWindow):
            return False
        if isinstance(node, Window) and (node.lifetime.internal or node.lifetime.since is not None):
            return False
    return True


def is_stream(plan: ContinuousPlan) -> bool:
    """Whether a plan reports a stream (ISTREAM, DSTREAM, RSTREAM), whose rows nobody takes back."""
    return isinstance(plan.root, ToStream)
