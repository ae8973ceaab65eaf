"""What is known of streams that have run: their rates, and from their window stores the values of columns and the
selectivity of conditions. The rule that orders joins reads it when a query is created."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.stores import KeptColumn
from windrow.engine.kept.store_entries import WindowStore
from windrow.engine.kept.window_stores import StoreUse, WindowStores
from windrow.engine.state import StreamState
from windrow.optimizer.facts import Facts, StreamFacts
from windrow.types import POINT_MAX, POINT_MIN

LEAST_TUPLES = 100
"""Of fewer tuples nothing is concluded."""

SAMPLE_ROWS = 100_000
"""About so many of the newest stored tuples are looked at."""


def measured_facts(streams: Iterable[StreamState], stores: WindowStores) -> Facts:
    """What is known of these streams; of one with few tuples nothing."""
    return {stream.name: _facts(stream, stores) for stream in streams if stream.numbered >= LEAST_TUPLES}


def _facts(stream: StreamState, stores: WindowStores) -> StreamFacts:
    axis = stream.definition.attribute
    if axis is None:
        return StreamFacts()
    least, greatest = stream.progress.least.get(axis), stream.greatest(axis)
    rate = None
    if least is not None and greatest is not None and greatest > least:
        rate = stream.numbered / (greatest - least)
    distinct, selectivity = dict[str, float](), dict[str, float]()
    for store in stores.stores:
        if store.stream.lower() == stream.name.lower() and None in store.selections:
            _look_at(store, stores, distinct, selectivity)
    return StreamFacts(rate, distinct, selectivity)


def _look_at(
    store: WindowStore, stores: WindowStores, distinct: dict[str, float], selectivity: dict[str, float]
) -> None:
    """Add what the newest rows of a store show that keeps all tuples."""
    kept = (*store.columns.values(), store.selections[None])
    since = max((point for point in kept if point is not None), default=POINT_MIN)
    columns = tuple(store.columns)
    rows = _newest(stores, StoreUse(store.id, "", None), columns, since)
    if rows.num_rows < LEAST_TUPLES:
        return
    for column, values in zip(columns, rows.columns[1:], strict=True):
        if not pa.types.is_boolean(values.type):
            distinct[column.sql] = float(pc.count_distinct(values).as_py())
        else:
            selectivity[column.sql] = float(pc.sum(values).as_py() or 0) / rows.num_rows


def _newest(stores: WindowStores, use: StoreUse, columns: tuple[KeptColumn, ...], since: int) -> pa.Table:
    """The rows of the newest files, as many as a sample needs, and those that lie among them."""
    count, low = 0, POINT_MAX
    for file in sorted(stores.files(use), key=lambda one: one.hi, reverse=True):
        if count >= SAMPLE_ROWS or file.hi < since:
            break
        count, low = count + file.rows, min(low, file.lo)
    return stores.rows(use, columns, max(low, since), POINT_MAX)
