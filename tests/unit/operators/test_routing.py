"""What plans take of the results of a join that they have in common."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from support.plan_builder import Maker, join, plan, tree

from windrow.operators.changes import in_order, report, stored
from windrow.operators.sharing.routing import renamed_columns, routed, routed_changes
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import EXP, TS, DueTicks
from windrow.optimizer.common_join import Flag, JoinRoute
from windrow.plan.algebra.nodes import PlanColumn
from windrow.types import SqlType

BIGINT = SqlType("BIGINT")
X, Y, FLAGS, MORE = (PlanColumn(i, name, BIGINT) for i, name in enumerate(("x", "y", "flags", "more")))
SCHEMA = (X, Y, FLAGS, MORE)
OWN = (PlanColumn(10, "b", BIGINT), PlanColumn(11, "a", BIGINT))
KERNEL, DUE = Kernel(), DueTicks(0, 8, 2)


def results(rows: int, seed: int) -> Edge:
    draw = np.random.default_rng(seed)
    born = draw.integers(0, 8, rows)
    sparse = draw.integers(0, 1 << 62, rows) & draw.integers(0, 1 << 62, rows) & draw.integers(0, 1 << 62, rows)
    columns = {TS: born, EXP: born + draw.integers(1, 5, rows), X.sql: draw.integers(0, 9, rows)}
    columns |= {Y.sql: draw.integers(0, 9, rows), FLAGS.sql: sparse, MORE.sql: draw.integers(0, 4, rows)}
    return Edge(pa.table(columns), SCHEMA)


def routes(seed: int) -> list[JoinRoute]:
    draw, found = Random(seed), []
    for _ in range(20):
        flags = [Flag(FLAGS, draw.randrange(63))] if draw.random() < 0.7 else []
        flags += [Flag(MORE, draw.randrange(2))] if draw.random() < 0.4 else []
        condition = draw.choice([None, None, tree(f"{X.sql} < {Y.sql}"), tree(f"{X.sql} = 3")])
        found.append(JoinRoute((), tuple(flags), condition, ((OWN[0], Y), (OWN[1], X))))
    return found


def passing(route: JoinRoute, edge: Edge) -> pa.Table:
    """What a route takes, asked row by row."""
    tests = {f"{X.sql} < {Y.sql}": lambda row: row[X.sql] < row[Y.sql], f"{X.sql} = 3": lambda row: row[X.sql] == 3}
    test = None if route.predicate is None else tests[route.predicate.sql()]
    found = []
    for row in edge.rows.to_pylist():
        is_set = all(row[flag.column.sql] >> flag.bit & 1 for flag in route.flags)
        if is_set and (test is None or test(row)):
            found.append({TS: row[TS], EXP: row[EXP], OWN[0].sql: row[Y.sql], OWN[1].sql: row[X.sql]})
    return pa.Table.from_pylist(found, pa.schema([(name, pa.int64()) for name in (TS, EXP, *(c.sql for c in OWN))]))


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_each_route_takes_its_results(rows: int) -> None:
    edge, asked = results(rows, rows), routes(rows)
    for route, found in zip(asked, routed(asked, edge, KERNEL), strict=True):
        assert found.schema == OWN and found.rows.equals(passing(route, edge))


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_changes_at_once_are_those_of_what_is_taken(rows: int) -> None:
    edge, asked = results(rows, rows), routes(rows)
    found = routed_changes([(route, [OWN[1].sql]) for route in asked], edge, DUE, KERNEL)
    for route, changes in zip(asked, found, strict=True):
        alone = report(Edge(passing(route, edge).drop_columns([OWN[0].sql]), OWN[1:]), DUE).changes
        assert in_order([changes]).equals(in_order([stored(alone)]))


def test_a_plan_that_only_renames() -> None:
    m = Maker()
    both = join(m.window("s"), m.window("r"))
    assert renamed_columns(plan(both)) == tuple(column.sql for column in both.schema)
    inner = m.project(both, x="x", k="k")
    x, k = (one.expression.name for one in inner.columns)
    assert renamed_columns(plan(m.project(inner, a="k", b="x", c="k"))) == (k, x, k)
    assert renamed_columns(plan(m.project(both, z="x + 1"))) is None
    assert renamed_columns(plan(m.window("s"))) is None
