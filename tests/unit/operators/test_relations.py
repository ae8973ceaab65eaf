"""Tables in plans, against their definition: random tuples, and random statements between random batches of ticks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bound_plans import stream, types_of
from support.replay import Change, replay

from windrow.catalog.relations import TableDef, define_table
from windrow.cql import parse_one
from windrow.cql.statements import CreateQuery, CreateTable
from windrow.operators.advance import advance
from windrow.operators.changes import in_order, stored
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.parts import StatePart
from windrow.operators.relations.table_scan import TableRows, after_change, netted_change
from windrow.operators.scan import POINT, needs_history, split
from windrow.operators.stages.cutting import staged
from windrow.operators.state import PlanState, compacted, restore
from windrow.operators.tables.edges import COUNT
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import NEVER, DueTicks
from windrow.optimizer.facts import NOTHING_MEASURED
from windrow.optimizer.pipeline import optimize
from windrow.plan.algebra.nodes import ContinuousPlan, Node, TableScan
from windrow.plan.continuous import bind_continuous

LAST = 20
KERNEL = Kernel()
STREAMS = {name: stream(f"{name} (t BIGINT, k INT, x INT) FROM memory TIMESTAMP BY t") for name in ("s", "d")}
Row = tuple[Any, ...]
Names = dict[int, tuple[str, int]]
"""The table: k to (name, n)."""


def table(text: str) -> TableDef:
    return define_table(cast(CreateTable, parse_one(f"CREATE TABLE {text}")))


TABLES = {
    "names": table("names (k INT PRIMARY KEY, name STRING, n INT)"),
    "later": table("later (k INT PRIMARY KEY, name STRING, n INT) NON RETROACTIVE"),
}


def plan_of(text: str, rules_off: Sequence[str] = ()) -> ContinuousPlan:
    statement = cast(CreateQuery, parse_one(f"CREATE QUERY q AS {text}"))
    bound = bind_continuous(
        statement.select,
        text,
        lambda name, place: STREAMS[name.lower()],
        types_of,
        lambda name: TABLES.get(name.lower()),
    )
    return optimize(bound, NOTHING_MEASURED, tuple(rules_off)).plan


@dataclass(frozen=True)
class History:
    """The tuples of both streams, and (the last tick of a batch, the table after it) in order."""

    tuples: dict[str, list[tuple[int, int | None, int]]]
    batches: list[tuple[int, Names]]

    def version(self, tick: int) -> Names:
        """The table at a tick: statements take effect at the first tick of the next batch."""
        before = [known for last, known in self.batches if last < tick]
        return before[-1] if before else {}

    def alive(self, name: str, tick: int, length: int) -> list[tuple[int, int | None, int]]:
        return [one for one in self.tuples[name] if tick - length <= one[0] < tick]


def retroactive(history: History, tick: int) -> list[Row]:
    known = history.version(tick)
    return [(k, x, *known[k]) for _, k, x in history.alive("s", tick, 6) if k in known and known[k][1] <= x]


def counted(history: History, tick: int) -> list[Row]:
    known = history.version(tick)
    found = Counter(known[k][0] for _, k, _ in history.alive("s", tick, 6) if k in known)
    return list(found.items())


def later(history: History, tick: int) -> list[Row]:
    found = []
    for t, k, x in history.alive("s", tick, 6):
        known = history.version(t + 1)
        found += [(k, x, *known[k])] if k in known and known[k][1] < 3 else []
    return found


def kept(history: History, tick: int) -> list[Row]:
    found = []
    for t, k, x in history.alive("s", tick, 6):
        known = history.version(t + 1)
        found.append((k, x, known[k][0] if k in known and known[k][1] <= x else None))
    return found


def of_both(history: History, tick: int) -> list[Row]:
    """As of the latest part."""
    found = []
    for t, k, x in history.alive("s", tick, 6):
        for u, j, y in history.alive("d", tick, 4):
            known = history.version(max(t, u) + 1)
            found += [(k, x, y, known[k][0])] if k == j and k in known else []
    return found


QUERIES: dict[str, Callable[[History, int], list[Row]]] = {
    "SELECT s.k, x, name, n FROM s [RANGE 6] JOIN names ON s.k = names.k WHERE n <= x": retroactive,
    "SELECT name, COUNT(*) AS c FROM names JOIN s [RANGE 6] USING (k) GROUP BY name": counted,
    "SELECT s.k, x, name, n FROM s [RANGE 6] JOIN later ON s.k = later.k WHERE n < 3": later,
    "SELECT s.k, x, name FROM s [RANGE 6] LEFT JOIN later ON later.k = s.k AND n <= x": kept,
    "SELECT s.k, s.x, d.x AS y, name FROM later JOIN s [RANGE 6] ON s.k = later.k JOIN d [RANGE 4] ON d.k = later.k": of_both,
}


def keyed(known: Names) -> pa.Table:
    rows = [(k, *values) for k, values in sorted(known.items())]
    schema = TABLES["names"].schema
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def change(before: Names, after: Names) -> pa.Table:
    parts = [(-1, before), (1, after)]
    tables = [keyed(known).append_column(COUNT, pa.array(np.full(len(known), sign))) for sign, known in parts]
    return netted_change(pa.concat_tables(tables))


def scans(node: Node, path: str = "0") -> list[str]:
    found = [path] if isinstance(node, TableScan) else []
    return found + [one for i, below in enumerate(node.inputs) for one in scans(below, f"{path}.{i}")]


def run(plan: ContinuousPlan, history: History, restarts: bool) -> list[Change]:
    """All changes. The state after a batch is restored from its parts, if it `restarts`."""
    state, changes, before = PlanState(), list[Change](), 0
    rows, parts, known, seen = (
        Keyed(("k",)),
        list[StatePart](),
        dict[int, tuple[str, int]](),
        dict[int, tuple[str, int]](),
    )
    for last, after in [*history.batches, (LAST, history.batches[-1][1] if history.batches else {})]:
        if last > before:
            due = DueTicks(before, last, 1)
            inputs = {
                i: split(window, tuples(history, window.stream, window), due) for i, window in enumerate(plan.windows)
            }
            inputs = {i: one if needs_history(plan)[i] else type(one)(one.new) for i, one in inputs.items()}
            given_ = TableRows(change(seen, known), rows)
            relations = dict.fromkeys(scans(plan.root), given_)
            done = advance(plan, state, inputs, due, KERNEL, relations=relations)
            changes += told(stored(in_order([done.changes])))
            parts += done.parts
            state = restore(plan, parts, last) if restarts else done.state
            if restarts and last % 3 == 0:
                parts = compacted(state)
            before, seen = last, known
        rows, known = after_change(rows, change(known, after)), after
    return changes


def tuples(history: History, name: str, window: Any) -> pa.Table:
    found = history.tuples[name]
    columns = {POINT: pa.array([t for t, _, _ in found], pa.int64())}
    values = {"k": [k for _, k, _ in found], "x": [x for _, _, x in found]}
    columns |= {one.column.sql: pa.array(values[one.sql.strip("`")], pa.int32()) for one in window.columns}
    assert window.predicate is None, "these queries have no condition on a stream alone"
    return pa.table(columns)


def told(changes: pa.Table) -> list[Change]:
    found = []
    for op, _, ts, exp, *row in (tuple(one.values()) for one in changes.to_pylist()):
        found.append(Change(op, ts, None if exp in (None, NEVER) else exp, tuple(row)))
    return found


NAMES = st.dictionaries(st.integers(0, 3), st.tuples(st.sampled_from("ab"), st.integers(0, 4)), max_size=4)
TUPLES = st.lists(
    st.tuples(st.integers(0, LAST - 1), st.one_of(st.none(), st.integers(0, 3)), st.integers(0, 4)), max_size=14
)


@pytest.mark.parametrize("text", QUERIES)
@settings(max_examples=40, deadline=None)
@given(
    tuples_=st.fixed_dictionaries({"s": TUPLES, "d": TUPLES}),
    batches=st.lists(st.tuples(st.integers(0, LAST - 1), NAMES), max_size=6),
    restarts=st.booleans(),
    rule=st.sampled_from(["", "push_selections", "push_projections", "merge_joins", "order_joins"]),
)
def test_tables_by_definition(text: str, tuples_: Any, batches: Any, restarts: bool, rule: str) -> None:
    ordered = sorted(batches, key=lambda one: one[0])
    history = History({name: sorted(found, key=lambda one: one[0]) for name, found in tuples_.items()}, ordered)
    plan = plan_of(text, [rule] if rule else [])
    shown = replay(run(plan, history, restarts), range(1, LAST + 1), lambda point: point + 1)
    for tick in range(1, LAST + 1):
        assert Counter(shown[tick]) == Counter(QUERIES[text](history, tick)), tick


def test_where_the_rows_of_a_table_are() -> None:
    """Tasks share a table that a join keeps by the join's key; of one that is NON RETROACTIVE each reads all."""
    shared = staged(plan_of("SELECT s.k, name FROM s [RANGE 6] JOIN names ON s.k = names.k"))
    (names,) = shared.scans.values()
    assert names is not None and len(names) == 1 and not shared.is_single
    whole = staged(plan_of("SELECT s.k, name FROM s [RANGE 6] JOIN later ON s.k = later.k"))
    assert list(whole.scans.values()) == [None]
    crossed = staged(plan_of("SELECT s.k, name FROM s [RANGE 6] CROSS JOIN names"))
    assert list(crossed.scans.values()) == [()] and crossed.is_single
