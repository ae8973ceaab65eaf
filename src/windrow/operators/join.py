"""Multi-way window join (Golab's dissertation, section 5.2).

    R₁ ⋈ … ⋈ Rₙ = {r₁ ∘ … ∘ rₙ with lifetime [max ts, min exp) : keys equal, condition true, max ts < min exp}

A result is new if one of its parts is. Each is made once, from its first new part i: the new rows of input i meet the
old rows of the inputs before it, and the old and new rows of those behind it. Inputs are probed in the plan's order. As
in Algorithm 3, lifetimes are part of the condition (with a.ts < b.exp, since they are half-open).

Old rows of an input that reads a window through selections and projections alone come from the window's store, where
those with the keys of a tick are looked up (`tables/key_index.py`); those of an input that is δ* may come from the
state of that (`Join.reused`); those of other inputs are the join's own state, a calendar by exp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.operators.distinct import distinct_schema
from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.row_list import RowList
from windrow.operators.layouts.steps import TickBatch
from windrow.operators.projection import project
from windrow.operators.scan import scan
from windrow.operators.selection import select
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel, naive, types_of
from windrow.operators.tables.pairing import JoinSide, key_numbers, new_results, probing_order
from windrow.operators.tables.prefilter import maybe_among, picked
from windrow.operators.tables.rows import flat, longs, normal, taken
from windrow.operators.ticks import EXP, TS, UNTIL, Points
from windrow.plan.algebra.nodes import Distinct, Filter, Join, Node, PlanColumn, Project, StreamWindow, columns_in

KEY = "__k"
_STANDS = "__stands"
"""Whether a row of a table is none that another one replaced."""


@dataclass(frozen=True)
class Stored:
    """The old rows of an input that reads a window: stored tuples, which become lifetimes once the keys have met."""

    node: Node
    rows: pa.Table

    def met(self, keys: Sequence[exp.Expr], wanted: Sequence[pa.Array], batch: TickBatch) -> Edge:
        rows, computed = self.rows, []
        for key, values in zip(keys, wanted, strict=True):
            column = column_below(self.node, key)
            if column is None:
                computed.append((key, values))
            elif rows is self.rows:
                rows = picked(rows, batch.kernel.indexes.among(self.node, column, rows.column(column), values))
            else:
                rows = picked(rows, maybe_among(rows.column(column), values))
        edge = through(self.node, scan(_window(self.node), rows, batch.has_until), batch.kernel)
        return _met(edge, computed, batch)


@dataclass(frozen=True)
class Kept:
    """The old rows of an input in the join's own state."""

    schema: tuple[PlanColumn, ...]
    rows: Calendar | RowList

    def met(self, keys: Sequence[exp.Expr], wanted: Sequence[pa.Array], batch: TickBatch) -> Edge:
        rows = self.rows.rows(batch.due.before, lifetime_schema(self.schema, batch.has_until))
        return _met(Edge(rows, self.schema), list(zip(keys, wanted, strict=True)), batch)


@dataclass(frozen=True)
class Reused:
    """The old rows of an input that is δ*, in the state of that. Their births are not known; a new result takes its own
    from a part that is new."""

    node: Node
    distinct: Distinct
    state: Keyed

    def met(self, keys: Sequence[exp.Expr], wanted: Sequence[pa.Array], batch: TickBatch) -> Edge:
        found = [(column_below(self.node, key), values) for key, values in zip(keys, wanted, strict=True)]
        computed = [(key, values) for key, (name, values) in zip(keys, found, strict=True) if name is None]
        rows = self._rows([(name, values) for name, values in found if name is not None])
        births = pa.array(np.full(rows.num_rows, batch.due.before - 1))
        ends = {UNTIL: rows.column(EXP)} if batch.has_until else {}
        columns = {column.sql: rows.column(column.sql) for column in self.distinct.schema}
        edge = Edge(pa.table({TS: births, EXP: rows.column(EXP), **ends, **columns}), self.distinct.schema)
        return _met(through(self.node, edge, batch.kernel), computed, batch)

    def _rows(self, wanted: Sequence[tuple[str, pa.Array]]) -> pa.Table:
        """The rows with wanted values: looked up where these are all that they have, or else looked through."""
        schema, names = distinct_schema(self.distinct), [column.sql for column in self.distinct.schema]
        if [name for name, _ in wanted] == names and len(names) == 1:
            values = pc.unique(wanted[0][1])
            at = self.state.find([values], len(values))
            return self.state.take(at[at >= 0], schema)
        rows = self.state.flagged(_STANDS, schema)
        for name, values in wanted:
            rows = taken(rows, maybe_among(rows.column(name), values))
        return taken(rows, np.asarray(flat(rows.column(_STANDS))))


def lifetime_schema(schema: Sequence[PlanColumn], has_until: bool) -> pa.Schema:
    """The columns of lifetimes with these columns."""
    head = [TS, EXP, *([UNTIL] if has_until else [])]
    return pa.schema([*((name, pa.int64()) for name in head), *((c.sql, c.type.arrow) for c in schema)])


def join(node: Join, new: Sequence[Edge], old: Sequence[Stored | Kept | Reused], batch: TickBatch) -> Edge:
    """The new results of all due ticks."""
    if not any(edge.rows.num_rows for edge in new):
        return Edge(lifetime_schema(node.schema, batch.has_until).empty_table(), node.schema)
    kernel = batch.kernel
    keys = [[key[i] for key in node.keys] for i in range(len(new))]
    own = [_keys(edge, keys[i], kernel) for i, edge in enumerate(new)]
    sides = []
    for i, (edge, before) in enumerate(zip(new, old, strict=True)):
        others = [j for j in range(len(new)) if j != i and new[j].rows.num_rows]
        wanted = [_joint([own[j][k] for j in others]) for k in range(len(node.keys))]
        met = before.met(keys[i], wanted, batch) if others else Edge(edge.rows.slice(0, 0), edge.schema)
        sides.append(_Side.of(met, edge, keys[i], own[i], kernel))
    ends = [EXP, *([UNTIL] if batch.has_until else [])]
    if node.keys and node.condition is None:
        found = _met_by_keys(sides, ends)
    else:
        tables = {f"s{i}": side.probed(node) for i, side in enumerate(sides)}
        found = kernel.query(_sql(node, new, kernel), **tables)
    columns = {name: found.column(name) for name in (TS, *ends)}
    for i, side in enumerate(sides):
        parts = taken(side.rows.select(side.names), longs(found.column(f"r{i}")))
        columns |= {name: parts.column(name) for name in side.names}
    return Edge(pa.table(columns), node.schema)


@dataclass(frozen=True)
class _Side:
    """The rows of an input that take part: old ones whose keys are met, then the new ones."""

    rows: pa.Table
    names: list[str]
    keys: list[pa.Array]
    old: int

    @staticmethod
    def of(old: Edge, new: Edge, keys: Sequence[exp.Expr], own: Sequence[pa.Array], kernel: Kernel) -> _Side:
        rows = pa.concat_tables([old.rows.select(new.rows.column_names), new.rows]).combine_chunks()
        theirs = _keys(old, keys, kernel)
        return _Side(
            rows,
            new.names,
            [pa.concat_arrays([one, other]) for one, other in zip(theirs, own, strict=True)],
            old.rows.num_rows,
        )

    def keyed(self, numbers: Points, ends: Sequence[str]) -> JoinSide:
        """The rows with the numbers of their keys."""
        found = {name: longs(self.rows.column(name)) for name in (TS, *ends)}
        return JoinSide(numbers, found[TS], tuple(found[name] for name in ends), self.old)

    def probed(self, node: Join) -> pa.Table:
        """The table that the statement reads: lifetimes, keys, the columns of the condition, row numbers."""
        asked = columns_in(node.condition) if node.condition is not None else frozenset()
        number = np.arange(self.rows.num_rows)
        columns = {name: naive(self.rows.column(name)) for name in self.rows.column_names if name.startswith("__")}
        columns |= {name: naive(self.rows.column(name)) for name in self.names if name in asked}
        columns |= {f"{KEY}{k}": naive(key) for k, key in enumerate(self.keys)}
        return pa.table(columns | {"r": number, "is_new": number >= self.old})


def _met_by_keys(sides: Sequence[_Side], ends: Sequence[str]) -> pa.Table:
    """What the statement gives, without it: where keys are all that is asked, they are matched in NumPy."""
    numbers = key_numbers([side.keys for side in sides])
    met = new_results([side.keyed(own, ends) for side, own in zip(sides, numbers, strict=True)])
    lifetimes = dict(zip((TS, *ends), (met.births, *met.ends), strict=True))
    return pa.table(lifetimes | {f"r{i}": rows for i, rows in enumerate(met.rows)})


def _sql(node: Join, new: Sequence[Edge], kernel: Kernel) -> str:
    """One SELECT per input that has new rows."""
    count = len(node.inputs)
    ends = [EXP, *([UNTIL] if UNTIL in new[0].rows.column_names else [])]
    shown = [f"s{i}.r AS r{i}" for i in range(count)]
    shown += [f"greatest({', '.join(f's{i}.{TS}' for i in range(count))}) AS {TS}"]
    shown += [f"least({', '.join(f's{i}.{end}' for i in range(count))}) AS {end}" for end in ends]
    condition = kernel.final(node.condition, types_of(node.schema)).sql if node.condition is not None else None
    parts = []
    for i, edge in enumerate(new):
        if not edge.rows.num_rows:
            continue
        probing = probing_order(i, count)
        tests = [f"s{i}.is_new", *(f"NOT s{j}.is_new" for j in range(i))]
        for at, j in enumerate(probing[1:], 1):
            tests += [f"s{i}.{KEY}{k} = s{j}.{KEY}{k}" for k in range(len(node.keys))]
            for met in probing[:at]:
                tests += [f"s{met}.{TS} < s{j}.{EXP}", f"s{j}.{TS} < s{met}.{EXP}"]
        tests += [f"({condition})"] if condition is not None else []
        parts.append(
            f"SELECT {', '.join(shown)} FROM {', '.join(f's{j}' for j in probing)} WHERE {' AND '.join(tests)}"
        )
    return " UNION ALL ".join(parts)


def _keys(edge: Edge, keys: Sequence[exp.Expr], kernel: Kernel) -> list[pa.Array]:
    return [normal(column) for column in kernel.evaluate(keys, types_of(edge.schema), edge.rows)]


def _joint(columns: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(columns) if columns else pa.array([])


def _met(edge: Edge, wanted: Sequence[tuple[exp.Expr, pa.Array]], batch: TickBatch) -> Edge:
    """The rows whose keys may be among those wanted. Some may have expired, and then meet no new row."""
    rows = edge.rows
    for key, values in wanted:
        (column,) = batch.kernel.evaluate([key], types_of(edge.schema), rows)
        rows = picked(rows, maybe_among(column, values))
    return Edge(rows, edge.schema)


def _window(node: Node) -> StreamWindow:
    while isinstance(node, Filter | Project):
        node = node.input
    assert isinstance(node, StreamWindow)
    return node


def through(node: Node, edge: Edge, kernel: Kernel) -> Edge:
    """The rows of a window or table through the selections and projections above it."""
    if isinstance(node, Filter):
        return select(node, through(node.input, edge, kernel), kernel)
    if isinstance(node, Project):
        return project(node, through(node.input, edge, kernel), kernel)
    return edge


def column_below(node: Node, key: exp.Expr) -> str | None:
    """The column of the window or table below that a key is; None if it is computed."""
    while isinstance(node, Filter | Project) and isinstance(key, exp.Column):
        if isinstance(node, Project):
            key = next(one.expression for one in node.columns if one.column.sql == key.name)
        node = node.input
    return key.name if isinstance(key, exp.Column) else None
