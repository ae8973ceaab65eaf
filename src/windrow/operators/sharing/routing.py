"""Routes the results of a join that several plans have in common to them.

What each plan takes is found by the flags that are set, not by asking every result for every plan; then all that is
taken is copied at once, and every plan has its slice of it. A plan that only renames what its join gives gets its
changes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.operators.changes import HEAD, report, stored_names
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel, types_of
from windrow.operators.tables.memo import by_identity
from windrow.operators.tables.rows import flat, longs, taken
from windrow.operators.ticks import EXP, TS, UNTIL, DueTicks, Points
from windrow.optimizer.common_join import Flag, JoinRoute
from windrow.plan.algebra.nodes import ContinuousPlan, Join, Node, Project

FlagRows = dict[tuple[str, int], Points]
"""By column and bit, the rows in which a flag is set."""


def routed_outputs(
    routes: Sequence[JoinRoute], renamed: Sequence[Sequence[str] | None], edge: Edge, due: DueTicks, kernel: Kernel
) -> list[Edge | pa.Table]:
    """For each route the output of its join; or its changes, where `renamed` says which columns of the join they have
    (`renamed_columns`)."""
    both = list(zip(routes, renamed, strict=True))
    below = [route for route, names in both if names is None]
    whole = [(route, names) for route, names in both if names is not None]
    edges = iter(routed(below, edge, kernel) if below else ())
    changes = iter(routed_changes(whole, edge, due, kernel) if whole else ())
    return [next(edges) if names is None else next(changes) for names in renamed]


def routed(routes: Sequence[JoinRoute], edge: Edge, kernel: Kernel) -> list[Edge]:
    """What each route takes of the results, by the names of its own columns. All their conditions are computed
    together."""
    ends = [name for name in (TS, EXP, UNTIL) if name in edge.rows.column_names]
    shared = dict.fromkeys(name for route in routes for name in route.names.values())
    slices = _slices(edge.rows.select([*ends, *shared]), _taken(routes, edge, kernel))
    found = []
    for route, rows in zip(routes, slices, strict=True):
        mine = rows.select([*ends, *route.names.values()]).rename_columns([*ends, *route.names])
        found.append(Edge(mine, tuple(own for own, _ in route.columns)))
    return found


def routed_changes(
    routes: Sequence[tuple[JoinRoute, Sequence[str]]], edge: Edge, due: DueTicks, kernel: Kernel
) -> list[pa.Table]:
    """The changes of plans that only rename what their joins give: each has its route, and which columns of its join
    its output is (`renamed_columns`). They are in the form in which changes are kept."""
    seen = Edge(taken(edge.rows, edge.seen(due)[1]), edge.schema)
    shown = {route.names[name] for route, names in routes for name in names}
    columns = tuple(column for column in seen.schema if column.sql in shown)
    ends = [name for name in (TS, EXP, UNTIL) if name in seen.rows.column_names]
    slim = seen.rows.select([*ends, *(column.sql for column in columns)])  # without flags
    at = {column.sql: len(HEAD) + i for i, column in enumerate(columns)}

    def changes(rows: pa.Table) -> pa.Table:
        return report(Edge(rows, columns), due).changes

    found = []
    slices = _slices(slim, _taken([route for route, _ in routes], seen, kernel), changes)
    for (route, names), rows in zip(routes, slices, strict=True):
        mine = rows.select([*range(len(HEAD)), *(at[route.names[name]] for name in names)])
        found.append(mine.rename_columns(stored_names(len(names))))
    return found


@by_identity
def renamed_columns(plan: ContinuousPlan) -> tuple[str, ...] | None:
    """The column of the plan's join that each column of its output is; None if the plan does more than rename them."""
    found = _renamed(plan.root)
    return None if found is None else tuple(found[column.sql] for column in plan.schema)


def _renamed(node: Node) -> dict[str, str] | None:
    if isinstance(node, Join):
        return {column.sql: column.sql for column in node.schema}
    below = _renamed(node.input) if isinstance(node, Project) else None
    if below is None or not isinstance(node, Project):
        return None
    types = types_of(node.input.schema)
    found = dict[str, str]()
    for one in node.columns:
        of = one.expression
        if not isinstance(of, exp.Column) or types[of.name] != one.column.type:
            return None
        found[one.column.sql] = below[of.name]
    return found


def _slices(
    rows: pa.Table, takes: Sequence[Points | None], made: Callable[[pa.Table], pa.Table] = lambda rows: rows
) -> Iterator[pa.Table]:
    """What each of several takes of the rows (None: all), all of it copied at once. `made` gives one row per row, in
    order."""
    selective = [some for some in takes if some is not None]
    whole = made(rows) if len(selective) < len(takes) else None
    copied, at = made(rows.take(pa.array(np.concatenate(selective)))) if selective else rows, 0
    for some in takes:
        if some is None:
            yield whole
        else:
            yield copied.slice(at, some.size)
            at += some.size


def _taken(routes: Sequence[JoinRoute], edge: Edge, kernel: Kernel) -> list[Points | None]:
    """The results that each route takes; None: all."""
    rows = edge.rows
    if not rows.num_rows:
        return [None] * len(routes)
    flagged = FlagRows()
    words = {name: longs(rows.column(name)) for name in {one.column.sql for route in routes for one in route.flags}}
    for name, word in words.items():
        flagged |= {(name, bit): some for bit, some in enumerate(_set_bits(word))}
    tested = list(dict.fromkeys(route.predicate for route in routes if route.predicate is not None))
    values = kernel.evaluate(tested, types_of(edge.schema), rows) if tested else ()
    passing = {one: _is_true(value) for one, value in zip(tested, values, strict=True)}
    found = list[Points | None]()
    for route in routes:
        mine = None
        if route.flags:
            first, *others = route.flags
            mine = flagged[first.column.sql, first.bit]
            for flag in others:
                mine = mine[_has(words[flag.column.sql][mine], flag)]
        if route.predicate is not None:
            true = passing[route.predicate]
            mine = np.flatnonzero(true) if mine is None else mine[true[mine]]
        found.append(mine)
    return found


def _set_bits(words: Points) -> list[Points]:
    """For each of the 64 bits, the rows in which it is set. Few are, so bytes without any are left out first."""
    octets = words.astype("<i8", copy=False).view(np.uint8)
    held = np.flatnonzero(octets != 0)
    bits = np.flatnonzero(np.unpackbits(octets[held], bitorder="little").view(bool))
    at = held[bits >> 3]
    number = ((at & 7) << 3 | bits & 7).astype(np.uint8)
    order = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number, minlength=64))
    return np.split(at[order] >> 3, ends[:-1])


def _has(words: Points, flag: Flag) -> np.ndarray:
    return np.asarray(words >> flag.bit & 1, bool)


def _is_true(values: pa.ChunkedArray) -> np.ndarray:
    """Whether a condition is true; NULL counts as false."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values), bool)
    return np.asarray(flat(pc.fill_null(values, False)).to_numpy(zero_copy_only=False))
