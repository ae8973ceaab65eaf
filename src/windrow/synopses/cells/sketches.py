"""Sketches as states of cells: Spark's DataSketches aggregates make them per pane, and they are merged here.

A state is a column of sketches, None where no value was counted. A sketch in a column never changes: a merge makes a
new one, so columns may share sketches. HLL and KLL stay serialised, as Spark returns them and blocks keep them (0.3 µs
to read, 3 µs to merge, measured). A frequent-items sketch is an object, because a full one takes 84 µs to read. Merging
costs per cell and window, never per row.

HLL merges to the same registers in any order and grouping. KLL and frequent items do so only until they drop something;
from then on answers depend on the order of merging, within the bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.sketched import HAS_SKETCHES
from windrow.synopses.cells.arrays import run_starts
from windrow.synopses.cells.folds import Array, State
from windrow.types import SqlType

ds: Any = import_module("datasketches") if HAS_SKETCHES else None
"""The package; if it is missing, the binder refuses queries that need it."""

LG_K = 12
"""HLL has 2^12 registers: a standard error of 1.04/√4096."""

KLL_K = 200
"""KLL keeps the first 200 values; beyond, a rank is off by at most 1.33 % of the count, 99 times in 100."""

LG_MAP = 11
MOST_ITEMS = (1 << LG_MAP) * 3 // 4
"""A frequent-items sketch counts up to this many different items exactly. Then it drops rare ones, and a count is too
high by at most 3.5/2048 of all rows."""


class Sketch(Protocol):
    """One family of sketches: how the elements of a column are read, written and merged."""

    bound: str

    def load(self, data: bytes) -> Any:
        """The element of a serialised sketch; None if it is empty."""
        ...

    def dump(self, element: Any) -> bytes: ...

    def merged(self, elements: Sequence[Any]) -> Any:
        """A new element merged from two or more, which do not change."""
        ...


class _Hll:
    bound = f"HLL, lg k {LG_K}: standard error 1.6 %, exact to some 380 values"

    def load(self, data: bytes) -> bytes | None:
        return None if ds.hll_sketch.deserialize(data).is_empty() else data

    def dump(self, element: bytes) -> bytes:
        return element

    def merged(self, elements: Sequence[bytes]) -> bytes:
        union = ds.hll_union(LG_K)
        for element in elements:
            union.update(ds.hll_sketch.deserialize(element))
        return bytes(union.get_result(ds.tgt_hll_type.HLL_8).serialize_compact())


class _Kll:
    bound = f"KLL, k {KLL_K}: rank error 1.33 % (99 of 100 times), exact to {KLL_K} values"

    def load(self, data: bytes) -> bytes | None:
        return None if ds.kll_doubles_sketch.deserialize(data).is_empty() else data

    def dump(self, element: bytes) -> bytes:
        return element

    def merged(self, elements: Sequence[bytes]) -> bytes:
        first = ds.kll_doubles_sketch.deserialize(elements[0])
        for element in elements[1:]:
            first.merge(ds.kll_doubles_sketch.deserialize(element))
        return bytes(first.serialize())


class _Frequent:
    bound = (
        f"frequent items, {1 << LG_MAP:,} counters: counts at most {3.5 / (1 << LG_MAP):.2%} of the rows too high, "
        f"exact to {MOST_ITEMS:,} different items"
    )

    def load(self, data: bytes) -> Any:
        sketch = ds.frequent_strings_sketch.deserialize(data)
        return None if sketch.is_empty() else sketch

    def dump(self, element: Any) -> bytes:
        return bytes(element.serialize())

    def merged(self, elements: Sequence[Any]) -> Any:
        whole = ds.frequent_strings_sketch(LG_MAP)
        for element in elements:
            whole.merge(element)
        return whole


SKETCHES: dict[Kind, Sketch] = {Kind.HLL: _Hll(), Kind.KLL: _Kll(), Kind.FREQUENT: _Frequent()}


@dataclass(frozen=True)
class SketchFold:
    """The fold of one family of sketches."""

    kind: Kind
    dtypes: tuple[np.dtype[Any], ...] = (np.dtype(object),)

    def __post_init__(self) -> None:
        if self.kind not in SKETCHES:
            raise ValueError(f"{self.kind} is not a sketch")

    def identity(self, shape: int | tuple[int, ...]) -> State:
        return (np.full(shape, None, object),)

    def reduce(self, state: Sequence[Array]) -> State:
        column = state[0]
        flat = column.reshape(column.shape[0], -1)
        out = np.full(flat.shape[1], None, object)
        held = present(flat)
        count = held.sum(axis=0)
        once = np.flatnonzero(count == 1)
        out[once] = flat[held[:, once].argmax(axis=0), once]
        for slot in np.flatnonzero(count > 1).tolist():
            out[slot] = SKETCHES[self.kind].merged(flat[held[:, slot], slot].tolist())
        return (out.reshape(column.shape[1:])[()],)  # for one axis the sketch itself, as ufuncs return it

    def merge_into(self, into: Sequence[Array], state: Sequence[Array]) -> None:
        target, column = into[0], state[0]
        come = present(column)
        both = come & present(target)
        merged = SKETCHES[self.kind].merged
        together = [merged(pair) for pair in zip(target[both].tolist(), column[both].tolist(), strict=True)]
        target[come & ~both] = column[come & ~both]
        target[both] = objects(together)

    def scatter_into(self, into: Sequence[Array], at: Array, state: Sequence[Array]) -> None:
        come = np.flatnonzero(present(state[0]))
        if not come.size:
            return
        at, column = at[come], state[0][come]
        order = np.argsort(at, kind="stable")
        at, column = at[order], column[order]
        begins = run_starts(at)
        slots, target = at[begins], into[0]
        alone = np.diff(np.append(begins, at.size)) == 1
        alone &= ~present(target[slots])
        target[slots[alone]] = column[begins[alone]]
        ends = np.append(begins[1:], at.size)
        for slot, first, last in zip(*(edge[~alone].tolist() for edge in (slots, begins, ends)), strict=True):
            held = column[first:last].tolist()
            before = target[slot]
            target[slot] = SKETCHES[self.kind].merged(held if before is None else [before, *held])


_NOTHING = np.array(None, object)


def present(column: Array) -> Array:
    """Which elements of a column are sketches."""
    return np.asarray(np.not_equal(column, _NOTHING), dtype=bool)


def objects(values: Iterable[object]) -> Array:
    """A one-dimensional column of objects, even if they are sequences."""
    found = list(values)
    out = np.empty(len(found), object)
    out[:] = found
    return out


SAMPLED = 64


def held_bytes(column: Array) -> int:
    """Bytes of a column with its objects, estimated from about 64 evenly spaced ones."""
    if not column.dtype.hasobject or not column.size:
        return column.nbytes
    sizes = [_size(element) for element in column.flat[:: max(1, column.size // SAMPLED)]]
    return column.nbytes + sum(sizes) * column.size // len(sizes)


def _size(element: Any) -> int:
    """Bytes of one element; a frequent-items sketch is not in Python's memory."""
    if element is None:
        return 0
    serialised_size = getattr(element, "get_serialized_size_bytes", None)
    return int(sys.getsizeof(element) if serialised_size is None else serialised_size())


def is_sketch(accumulator: Accumulator) -> bool:
    """Whether its states are sketches, which only Spark can make."""
    return accumulator.kind in SKETCHES


def sketch_sql(accumulator: Accumulator) -> str:
    """The Spark aggregate that returns the serialised sketch of a cell."""
    assert accumulator.arg is not None and accumulator.type is not None
    arg, kind = f"({accumulator.arg})", accumulator.kind
    where = f" FILTER (WHERE {accumulator.condition})" if accumulator.condition else ""
    if kind is Kind.HLL:
        return f"hll_sketch_agg({_whole(arg, accumulator.type)}, {LG_K}){where}"
    if kind is Kind.KLL:
        return f"kll_sketch_agg_double(CAST({arg} AS DOUBLE), {KLL_K}){where}"
    return f"(approx_top_k_accumulate({_text(arg, accumulator.type)}, {MOST_ITEMS}){where}).sketch"


def _whole(arg: str, type_: SqlType) -> str:
    """The value as a BIGINT, because Spark's HLL takes no DOUBLE, DECIMAL or time and skips empty strings. Other types
    than integers are hashed by xxhash64, which has one hash for 0.0 and -0.0."""
    if type_.is_integer:
        return f"CAST({arg} AS BIGINT)"
    return f"CASE WHEN {arg} IS NOT NULL THEN xxhash64({arg}) END"


def _text(arg: str, type_: SqlType) -> str:
    """The value as a STRING that `results/approximate.py` reads back, so that all items have one type."""
    if type_.is_float:
        return f"CAST(CAST({arg} AS DOUBLE) + 0D AS STRING)"
    if type_.name == "DATE":
        return f"CAST(unix_date({arg}) AS STRING)"
    if type_.is_timestamp:
        return f"CAST(unix_micros(CAST({arg} AS TIMESTAMP)) AS STRING)"
    if type_.name == "BINARY":
        return f"hex({arg})"
    return f"CAST({arg} AS STRING)"


def sketches_of(accumulator: Accumulator, column: pa.Array) -> State:
    """The states of cells from serialised sketches, from Spark or from a block."""
    load = SKETCHES[accumulator.kind].load
    return (objects(None if data is None else load(data) for data in column.to_pylist()),)


def serialised(accumulator: Accumulator, state: State) -> pa.Array:
    """The inverse of `sketches_of`; null where no value was counted."""
    dump = SKETCHES[accumulator.kind].dump
    return pa.array((None if element is None else dump(element) for element in state[0].tolist()), pa.binary())
