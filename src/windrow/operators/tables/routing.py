"""Routes the results of a join that several plans have in common to them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel, types_of
from windrow.operators.ticks import EXP, TS, UNTIL
from windrow.optimizer.common_join import JoinRoute


def routed(routes: Sequence[JoinRoute], edge: Edge, kernel: Kernel) -> list[Edge]:
    """What each route takes of the results, by the names of its own columns. All their conditions are computed
    together."""
    tested = [route.predicate for route in routes if route.predicate is not None]
    passing = iter(kernel.evaluate(tested, types_of(edge.schema), edge.rows) if edge.rows.num_rows else ())
    ends = [name for name in (TS, EXP, UNTIL) if name in edge.rows.column_names]
    found = []
    for route in routes:
        rows = edge.rows.select([*ends, *(shared.sql for _, shared in route.columns)])
        rows = rows.rename_columns([*ends, *(own.sql for own, _ in route.columns)])
        if route.predicate is not None and rows.num_rows:
            rows = rows.filter(pc.fill_null(next(passing), False))
        found.append(Edge(rows, tuple(own for own, _ in route.columns)))
    return found
