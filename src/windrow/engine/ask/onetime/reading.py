"""How a one-time query reads a window: from which store, which of its columns, and what is computed of them.

A store keeps what plans need, or, for RETAIN, all columns. What it does not keep is computed of plain columns by
generated SQL, where that gives Spark's results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from windrow.cql.select_text import parse_expression
from windrow.dataplane.stores import ARRIVAL, KeptColumn, WindowSource
from windrow.engine.kept.store_entries import WindowStore
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.state import StreamState
from windrow.errors import WindrowError
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.rows import normal, numbered, taken
from windrow.plan.algebra.nodes import columns_in
from windrow.synopses.cells.arrays import place_in_run
from windrow.types import POINT_MIN, SqlType


@dataclass(frozen=True)
class WindowWish:
    """What a window needs of its stream: these columns of the tuples for which the predicate is true, as long ago as
    `reach` points (None: all that are kept) behind the instant. `called` is how the user calls it."""

    stream: StreamState
    axis: str
    columns: tuple[KeptColumn, ...]
    predicate: KeptColumn | None
    reach: int | None
    called: str

    @property
    def wanted(self) -> tuple[KeptColumn, ...]:
        return tuple(dict.fromkeys((*self.columns, *(() if self.predicate is None else (self.predicate,)))))


@dataclass(frozen=True)
class NoSource:
    """Why no store has a window. `by_spark`: one has its plain columns, and an expression that only Spark computes is
    all that is missing."""

    why: str
    by_spark: bool = False
    nearness: int = 0
    """How near the store is to having the window: the reason of the nearest is told."""


def window_source(stores: WindowStores, wish: WindowWish, kernel: Kernel) -> WindowSource | NoSource:
    """The store that has a window from the earliest point on. One that computes nothing is better, other things being
    equal."""
    there = [one for one in stores.stores if one.stream.lower() == wish.stream.name.lower() and one.live]
    if not there:
        return NoSource(f"no tuples of stream '{wish.stream.name}' are kept")
    on_axis = [one for one in there if one.axis == wish.axis]
    if not on_axis:
        kept = ", ".join(sorted({one.axis for one in there}))
        return NoSource(f"tuples of stream '{wish.stream.name}' are kept by {kept}, and the window is on {wish.axis}")
    found, lacking = list[tuple[int, int, WindowSource]](), list[NoSource]()
    for store in on_axis:
        source = _source(store, wish, kernel)
        if isinstance(source, NoSource):
            lacking.append(source)
        else:
            found.append((POINT_MIN if source.since is None else source.since, len(source.trees), source))
    if found:
        return min(found, key=lambda one: one[:2])[2]
    return max(lacking, key=lambda one: (one.by_spark, one.nearness))


def _source(store: WindowStore, wish: WindowWish, kernel: Kernel) -> WindowSource | NoSource:
    absent = [one for one in wish.wanted if one not in store.columns]
    trees, plain = dict[KeptColumn, exp.Expr](), dict[str, KeptColumn]()
    is_whole = None in store.selections
    name = wish.stream.name
    if absent:
        known = _plain_columns(store)
        for one in absent:
            tree = _tree(one)
            names = () if tree is None else sorted(columns_in(tree))
            missing = [column for column in names if column not in known]
            if one == ARRIVAL or missing or tree is None:
                what = "the order of arrival" if one == ARRIVAL else ", ".join(missing or [one.sql])
                return NoSource(f"what is kept of stream '{name}' lacks {what}")
            trees[one] = _typed_tree(one.sql, tuple((column, known[column].type) for column in names))
            plain |= {column: known[column] for column in names}
        lacking = _lacking(trees, {column: one.type for column, one in plain.items()}, kernel)
        if lacking is not None:
            return NoSource(lacking, by_spark=is_whole)
    kept_if = wish.predicate if wish.predicate is not None and wish.predicate not in trees else None
    if not is_whole and kept_if not in store.selections:
        return NoSource(f"of stream '{name}' only tuples that standing queries select are kept", nearness=1)
    if not _reaches(store, wish):
        return NoSource(f"tuples of stream '{name}' are not kept as long as this window needs them", nearness=2)
    read = tuple(dict.fromkeys([one for one in wish.columns if one not in trees] + list(plain.values())))
    since = store.complete_from([*read, *(() if kept_if is None else (kept_if,))], kept_if, None)
    test = wish.predicate if wish.predicate in trees else None
    return WindowSource(store.id, wish.columns, read, trees, plain, kept_if, test, since)


def _reaches(store: WindowStore, wish: WindowWish) -> bool:
    """Whether the store keeps tuples as long as the window needs them. One that is younger than the window will, and is
    asked, too: the answer says from when on it is complete."""
    if wish.reach is None or store.kept_from is None:
        return True
    spans = [reader.span for reader in store.live]
    if any(reader.needs_from is None for reader in store.live):
        return True  # somebody needs all tuples
    longest = max((span for span in spans if span is not None), default=0)
    return longest >= wish.reach


def _plain_columns(store: WindowStore) -> dict[str, KeptColumn]:
    """The columns of the stream itself that a store keeps, by their names."""
    found = ((_tree(one), one) for one in store.columns if one != ARRIVAL)
    return {tree.name: one for tree, one in found if isinstance(tree, exp.Column)}


def _lacking(trees: Mapping[KeptColumn, exp.Expr], types: Mapping[str, SqlType], kernel: Kernel) -> str | None:
    """Which of these expressions only Spark computes; None if there is none."""
    for column, tree in trees.items():
        try:
            kernel.final(tree, types)
        except WindrowError:
            return f"only Spark computes {column.sql}"
    return None


def _tree(column: KeptColumn) -> exp.Expr | None:
    return _parsed(column.sql)


@lru_cache(maxsize=4096)
def _parsed(sql: str) -> exp.Expr | None:
    try:
        return parse_expression(sql)
    except WindrowError:
        return None


@lru_cache(maxsize=4096)
def _typed_tree(sql: str, types: tuple[tuple[str, SqlType], ...]) -> exp.Expr:
    """The same tree for the same text over columns of the same types: what a kernel generates of a tree depends on
    these types, and is remembered by the tree's identity."""
    return parse_expression(sql)


def last_rows(rows: pa.Table, came: int, size: int, partition: Sequence[str]) -> tuple[pa.Table, int]:
    """The last `size` tuples in the order of arrival, of each combination of values of `partition`, when `came` tuples
    had come; and the number of the first from which on all tuples are there."""
    numbers = rows.column(ARRIVAL.id).to_numpy()
    rows = rows.filter(pa.array(numbers <= came))
    numbers = rows.column(ARRIVAL.id).to_numpy()
    first = _first_without_gap(np.sort(numbers), came)
    rows = rows.filter(pa.array(numbers >= first))
    numbers = rows.column(ARRIVAL.id).to_numpy()
    ids, _ = numbered([normal(rows.column(name)) for name in partition], rows.num_rows)
    order = np.lexsort((-numbers, ids))
    last = order[place_in_run(ids[order]) < size]
    return taken(rows, np.sort(last)), first


def may_lack_rows(found: pa.Table, first: int, came: int, size: int, partition: Sequence[str]) -> bool:
    """Whether `last_rows` may lack some: fewer than `size` are there, and tuples before `first` have gone. A partition
    of which no tuple is left cannot be seen."""
    if not partition:
        return bool(found.num_rows < min(size, came))
    if first <= 1:
        return False
    ids, _ = numbered([normal(found.column(name)) for name in partition], found.num_rows)
    return not found.num_rows or int(np.bincount(ids).min()) < size


def _first_without_gap(numbers: npt.NDArray[np.int64], came: int) -> int:
    """The least number from which on ascending numbers have no gap up to `came`."""
    if not numbers.size or numbers[-1] != came:
        return came + 1
    gaps = np.flatnonzero(np.diff(numbers) != 1)
    return int(numbers[gaps[-1] + 1]) if gaps.size else int(numbers[0])
