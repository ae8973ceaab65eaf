"""What is known of streams that have run: their rates, and from their window stores the values of columns and the
selectivity of conditions. The rule that orders joins reads it when a query is created."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.stores import KeptColumn
from windrow.engine.kept.store_entries import WindowStore
from windrow.engine.kept.window_stores import StoreUse, WindowStores
from windrow.engine.state import StreamState
from windrow.operators.tables.rows import flat, hashed
from windrow.optimizer.facts import Facts, StreamFacts, sampled
from windrow.optimizer.samples import MOST_VALUES, ValueSample
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.buckets import Words
from windrow.types import POINT_MAX, POINT_MIN

MOST_SAMPLES, MOST_CONDITIONS = 24, 4
"""About so many samples are kept of a stream, and of each column those of the tuples that pass so many conditions. They
are saved with every query."""

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
    found = StreamFacts(rate)
    for store in stores.stores:
        if store.stream.lower() == stream.name.lower() and None in store.selections:
            found = _looked_at(store, stores, found)
    return found


def _looked_at(store: WindowStore, stores: WindowStores, known: StreamFacts) -> StreamFacts:
    """With what the newest rows of a store show that keeps all tuples."""
    kept = (*store.columns.values(), store.selections[None])
    since = max((point for point in kept if point is not None), default=POINT_MIN)
    columns = tuple(store.columns)
    rows = _newest(stores, StoreUse(store.id, "", None), columns, since)
    if rows.num_rows < LEAST_TUPLES:
        return known
    values = dict(zip((column.sql for column in columns), rows.columns[1:], strict=True))
    return looked_at(values, known)


def looked_at(values: Mapping[str, pa.ChunkedArray], known: StreamFacts) -> StreamFacts:
    """What is known, and what columns of tuples show: distinct values, selectivities of those that are conditions, and
    samples, also of the tuples that pass one."""
    passing = {sql: column for sql, column in values.items() if pa.types.is_boolean(column.type)}
    plain = {sql: column for sql, column in values.items() if sql not in passing}
    masks = {sql: np.asarray(flat(pc.fill_null(column, False))) for sql, column in passing.items()}
    distinct = {sql: float(pc.count_distinct(column).as_py()) for sql, column in plain.items()}
    samples = dict(known.samples)
    for sql, column in plain.items():
        if len(samples) < MOST_SAMPLES and not pa.types.is_nested(column.type):
            found = value_samples(column, distinct[sql], dict(islice(masks.items(), MOST_CONDITIONS)))
            samples |= {sampled(sql, predicate): sample for predicate, sample in found.items()}
    shares = {sql: float(mask.mean()) for sql, mask in masks.items() if mask.size}
    return replace(
        known,
        distinct={**known.distinct, **distinct},
        selectivity={**known.selectivity, **shares},
        samples=samples,
    )


def value_samples(
    column: pa.ChunkedArray, distinct: float, passing: Mapping[str, Mask]
) -> dict[str | None, ValueSample]:
    """The values with the smallest hashes, of all tuples and of those that pass each condition. NULL, which equals
    nothing, is left out. Only so many tuples are sorted as a sample of about this many distinct values needs."""
    values = flat(column)
    words, valid = hashed([values], len(values)), np.asarray(values.is_valid())
    bound = min(1.0, 4 * MOST_VALUES / max(distinct, 1.0))
    near = valid if bound == 1.0 else valid & (words < np.uint64(bound * 2.0**64))
    found: dict[str | None, ValueSample | None] = {None: _value_sample(words[near], bound, len(values))}
    for predicate, mask in passing.items():
        found[predicate] = _value_sample(words[near & mask], bound, int(mask.sum()))
    return {predicate: sample for predicate, sample in found.items() if sample is not None}


def _value_sample(words: Words, bound: float, rows: int) -> ValueSample | None:
    """The sample of so many tuples, given the hashes below a bound; None if there are no tuples."""
    hashes, counts = np.unique(words, return_counts=True)
    if hashes.size > MOST_VALUES:
        bound = float(hashes[MOST_VALUES]) / 2.0**64
    found = zip(hashes[:MOST_VALUES].tolist(), counts.tolist(), strict=False)
    return ValueSample(dict(found), bound, rows) if rows else None


def _newest(stores: WindowStores, use: StoreUse, columns: tuple[KeptColumn, ...], since: int) -> pa.Table:
    """The rows of the newest files, as many as a sample needs, and those that lie among them."""
    count, low = 0, POINT_MAX
    for file in sorted(stores.files(use), key=lambda one: one.hi, reverse=True):
        if count >= SAMPLE_ROWS or file.hi < since:
            break
        count, low = count + file.rows, min(low, file.lo)
    return stores.rows(use, columns, max(low, since), POINT_MAX)
