"""Multi-way join of which an input is strict: its results are withdrawn with their parts.

    R₁ ⋈ … ⋈ Rₙ = {r₁ ∘ … ∘ rₙ in [max ENTER, min LEAVE) with EXP = min EXP : keys equal, condition true,
                   max ENTER < min LEAVE}, as often as the product of the COUNTs of its parts

A result comes at max ENTER, if that is a due tick. It is withdrawn at min LEAVE, if that is a due tick before its EXP;
else it goes without a word. So only combinations with a *touched* part matter: one that comes, or is withdrawn, at a
due tick. Each is made once, from its first touched part i: the touched rows of input i meet the others of the inputs
before it, and all rows of those behind it.

A strict input's rows are the join's own state. Those of other inputs come from where the join of lifetimes has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.operators.join import Kept, Reused, Stored
from windrow.operators.layouts.live import ENTER, INTERVAL, LEAVE, intervals, is_touched
from windrow.operators.layouts.parts import StatePart
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.tables.edges import COUNT, STRICT, TICK, Edge, as_strict, strict_schema
from windrow.operators.tables.kernel import Kernel, naive, types_of
from windrow.operators.tables.pairing import JoinSide, key_numbers, touched_results
from windrow.operators.tables.prefilter import maybe_among, picked
from windrow.operators.tables.rows import appended, longs, normal, taken
from windrow.operators.ticks import EXP, TS, DueTicks
from windrow.plan.algebra.nodes import Join, PlanColumn, columns_in
from windrow.synopses.cells.arrays import Mask


@dataclass(frozen=True)
class Alive:
    """The rows of a strict input that were alive before the batch: the join's own state, and its path."""

    path: str
    state: StateTable


def strict_join(
    node: Join, new: Sequence[Edge], old: Sequence[Stored | Kept | Reused | Alive], batch: TickBatch
) -> Outcome:
    """The results that come or are withdrawn at the due ticks."""
    kernel, count = batch.kernel, len(new)
    keys = [[key[i] for key in node.keys] for i in range(count)]
    new = [_with_keys(edge, keys[i], kernel) for i, edge in enumerate(new)]
    own = [_keys(edge.rows, edge.schema, keys[i], kernel) for i, edge in enumerate(new)]
    changing = [i for i in range(count) if new[i].rows.num_rows]
    tables: dict[str, StateTable] = {}
    parts: list[StatePart] = []
    sides: list[pa.Table] = []
    for i, (edge, before) in enumerate(zip(new, old, strict=True)):
        others = [j for j in changing if j != i]
        wanted = _Wanted(keys[i], [own[j] for j in (changing if edge.is_strict else others)], edge.schema, kernel)
        if isinstance(before, Alive):
            found = intervals(edge, before.path, before.state, batch.due, wanted.among)
            tables |= found.tables
            parts += found.parts
            sides.append(found.rows)
        else:
            met = before.met(keys[i], wanted.values, batch).rows if others else edge.rows.slice(0, 0)
            sides.append(_lifetimes(met, edge, batch.due))
    return Outcome(_joined(node, sides, batch) if changing else _nothing(node), tables, tuple(parts))


def _nothing(node: Join) -> Edge:
    return Edge(strict_schema(node.schema).empty_table(), node.schema, is_strict=True)


def _with_keys(edge: Edge, keys: Sequence[exp.Expr], kernel: Kernel) -> Edge:
    """Without the rows that meet none, as a key is NULL."""
    found = _keys(edge.rows, edge.schema, keys, kernel)
    if not any(key.null_count for key in found):
        return edge
    whole = np.logical_and.reduce([np.asarray(key.is_valid()) for key in found])
    return Edge(taken(edge.rows, whole), edge.schema, edge.is_strict)


def _keys(rows: pa.Table, schema: Sequence[PlanColumn], keys: Sequence[exp.Expr], kernel: Kernel) -> list[pa.Array]:
    return [normal(column) for column in kernel.evaluate(keys, types_of(schema), rows)]


@dataclass(frozen=True)
class _Wanted:
    """The keys of rows that come or go, of which an input's own rows are met."""

    keys: Sequence[exp.Expr]
    changing: Sequence[Sequence[pa.Array]]
    schema: tuple[PlanColumn, ...]
    kernel: Kernel

    @property
    def values(self) -> list[pa.Array]:
        """By key, what rows have there."""
        return [pc.unique(pa.chunked_array([own[k] for own in self.changing])) for k in range(len(self.keys))]

    def among(self, rows: pa.Table) -> pa.Table:
        """The rows whose keys may be wanted."""
        if not self.changing:
            return rows.slice(0, 0)
        for key, values in zip(self.keys, self.values, strict=True):
            (column,) = self.kernel.evaluate([key], types_of(self.schema), rows)
            rows = picked(rows, maybe_among(column, values))
        return rows


def _lifetimes(old: pa.Table, new: Edge, due: DueTicks) -> pa.Table:
    """Lifetimes as intervals."""
    both = pa.concat_tables([old.select(new.rows.column_names), new.rows])
    rows = as_strict(Edge(both, new.schema), due).rows
    enter, leave = np.maximum(longs(rows.column(TICK)), due.before), due.first_above(longs(rows.column(EXP)))
    return appended(rows, **{ENTER: enter, LEAVE: leave}).select([*INTERVAL, *new.names])


def _joined(node: Join, sides: Sequence[pa.Table], batch: TickBatch) -> Edge:
    sides = [side.combine_chunks() for side in sides]
    touched = [is_touched(side, batch.due) for side in sides]
    if node.keys and node.condition is None:
        return _changes(node, sides, _met_by_keys(node, sides, touched, batch.kernel), batch.due)
    asked = columns_in(node.condition) if node.condition is not None else frozenset()
    probed = {}
    for i, (side, one) in enumerate(zip(sides, node.inputs, strict=True)):
        keys = _keys(side, one.schema, [key[i] for key in node.keys], batch.kernel)
        columns = {name: naive(side.column(name)) for name in side.column_names if name in INTERVAL or name in asked}
        columns |= {f"k{k}": naive(key) for k, key in enumerate(keys)}
        probed[f"s{i}"] = pa.table(columns | {"r": np.arange(side.num_rows), "touched": touched[i]})
    found = batch.kernel.query(_sql(node, [i for i, some in enumerate(touched) if some.any()], batch.kernel), **probed)
    return _changes(node, sides, found, batch.due)


def _met_by_keys(node: Join, sides: Sequence[pa.Table], touched: Sequence[Mask], kernel: Kernel) -> pa.Table:
    """What the statement gives, without it: where keys are all that is asked, they are matched in NumPy."""
    keys = [
        _keys(side, one.schema, [key[i] for key in node.keys], kernel)
        for i, (side, one) in enumerate(zip(sides, node.inputs, strict=True))
    ]
    columns = [{name: longs(side.column(name)) for name in INTERVAL} for side in sides]
    met = touched_results(
        [
            JoinSide(numbers, of[ENTER], (of[LEAVE], of[EXP]), 0)
            for numbers, of in zip(key_numbers(keys), columns, strict=True)
        ],
        touched,
    )
    births, counts = ([of[name][rows] for of, rows in zip(columns, met.rows, strict=True)] for name in (TS, COUNT))
    found = {
        ENTER: met.births,
        LEAVE: met.ends[0],
        TS: np.maximum.reduce(births),
        EXP: met.ends[1],
        COUNT: np.multiply.reduce(counts),
    }
    return pa.table(found | {f"r{i}": rows for i, rows in enumerate(met.rows)})


def _sql(node: Join, touched: Sequence[int], kernel: Kernel) -> str:
    """One SELECT per input with touched rows."""
    every = range(len(node.inputs))

    def over(function: str, name: str) -> str:
        return f"{function}({', '.join(f's{i}.{name}' for i in every)}) AS {name}"

    shown = [f"s{i}.r AS r{i}" for i in every]
    shown += [over("greatest", ENTER), over("least", LEAVE), over("greatest", TS), over("least", EXP)]
    shown.append(f"{' * '.join(f's{i}.{COUNT}' for i in every)} AS {COUNT}")
    condition = [f"({kernel.final(node.condition, types_of(node.schema)).sql})"] if node.condition is not None else []
    parts = []
    for i in touched:
        probing = [i, *(j for j in every if j != i)]
        tests = [f"s{i}.touched", *(f"NOT s{j}.touched" for j in range(i))]
        for at, j in enumerate(probing[1:], 1):
            tests += [f"s{i}.k{k} = s{j}.k{k}" for k in range(len(node.keys))]
            for met in probing[:at]:
                tests += [f"s{met}.{ENTER} < s{j}.{LEAVE}", f"s{j}.{ENTER} < s{met}.{LEAVE}"]
        where = " AND ".join([*tests, *condition])
        parts.append(f"SELECT {', '.join(shown)} FROM {', '.join(f's{j}' for j in probing)} WHERE {where}")
    if not parts:  # what comes and goes within the batch lives between two ticks
        parts = [f"SELECT {', '.join(shown)} FROM {', '.join(f's{i}' for i in every)} WHERE false"]
    return " UNION ALL ".join(parts)


def _changes(node: Join, sides: Sequence[pa.Table], found: pa.Table, due: DueTicks) -> Edge:
    """Combinations as strict changes."""
    enter, leave, ts, ends, counts = (longs(found.column(name)) for name in INTERVAL)
    came = np.flatnonzero(enter > due.before)
    went = np.flatnonzero((leave <= due.upto) & (leave < due.first_above(ends)))
    at = np.concatenate([came, went])
    numbers = {
        TICK: np.concatenate([enter[came], leave[went]]),
        COUNT: np.concatenate([counts[came], -counts[went]]),
        TS: np.concatenate([ts[came], leave[went] - 1]),
        EXP: ends[at],
    }
    columns = {name: pa.array(numbers[name]) for name in STRICT}
    for i, (side, one) in enumerate(zip(sides, node.inputs, strict=True)):
        rows = taken(side, longs(found.column(f"r{i}"))[at])
        columns |= {column.sql: rows.column(column.sql) for column in one.schema}
    return Edge(pa.table(columns), node.schema, is_strict=True)
