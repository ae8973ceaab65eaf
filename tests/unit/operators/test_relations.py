"""Tables in plans, against their definition: random tuples, and random statements between random batches of ticks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bound_plans import stream, types_of
from support.replay import Change, replay

from windrow.catalog.relations import TableDef, define_table
from windrow.cql import parse_expression, parse_one
from windrow.cql.statements import CreateQuery, CreateTable
from windrow.operators.advance import advance
from windrow.operators.changes import in_order, stored
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.parts import StatePart
from windrow.operators.relations.changelog import after_change, netted_change
from windrow.operators.relations.table_scan import TableRows
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
from windrow.reference.window_operators import value_of

LAST = 20
KERNEL = Kernel()
STREAMS = {
    step: {
        name: stream(f"{name} (t BIGINT, k INT, x INT) FROM memory TIMESTAMP BY t TICK {step}")
        for name in ("s", "d", "log")
    }
    for step in (1, 3)
}
Row = tuple[Any, ...]
Names = dict[int, tuple[str, int]]
"""The table: k to (name, n)."""


def table(text: str) -> TableDef:
    return define_table(cast(CreateTable, parse_one(f"CREATE TABLE {text}")))


TABLES = {
    "names": table("names (k INT PRIMARY KEY, name STRING, n INT)"),
    "later": table("later (k INT PRIMARY KEY, name STRING, n INT) NON RETROACTIVE"),
}


def plan_of(
    text: str, rules_off: Sequence[str] = (), tables: Mapping[str, TableDef] = TABLES, step: int = 1
) -> ContinuousPlan:
    statement = cast(CreateQuery, parse_one(f"CREATE QUERY q AS {text}"))
    bound = bind_continuous(
        statement.select,
        text,
        lambda name, place: STREAMS[step][name.lower()],
        types_of,
        lambda name: tables.get(name.lower()),
    )
    return optimize(bound, NOTHING_MEASURED, tuple(rules_off)).plan


class Past(Protocol):
    """What a query by definition may ask: the table at a tick, the table that a tuple of a point sees, and the tuples in
    a window."""

    def version(self, tick: int) -> Names: ...

    def seen(self, ts: int) -> Names: ...

    def alive(self, name: str, tick: int, length: int) -> list[tuple[int, int | None, int]]: ...


@dataclass(frozen=True)
class History:
    """The tuples of both streams, and (the last tick of a batch, the table after it) in order."""

    tuples: dict[str, list[tuple[int, int | None, int]]]
    batches: list[tuple[int, Names]]

    def version(self, tick: int) -> Names:
        """The table at a tick: statements take effect at the first tick of the next batch."""
        before = [known for last, known in self.batches if last < tick]
        return before[-1] if before else {}

    def seen(self, ts: int) -> Names:
        return self.version(ts + 1)

    def alive(self, name: str, tick: int, length: int) -> list[tuple[int, int | None, int]]:
        return [one for one in self.tuples[name] if tick - length <= one[0] < tick]


def retroactive(past: Past, tick: int) -> list[Row]:
    known = past.version(tick)
    return [(k, x, *known[k]) for _, k, x in past.alive("s", tick, 6) if k in known and known[k][1] <= x]


def counted(past: Past, tick: int) -> list[Row]:
    known = past.version(tick)
    found = Counter(known[k][0] for _, k, _ in past.alive("s", tick, 6) if k in known)
    return list(found.items())


def exists(past: Past, tick: int) -> list[Row]:
    known = past.version(tick)
    return [(k, x) for _, k, x in past.alive("s", tick, 6) if k in known and known[k][1] < x]


def missing(past: Past, tick: int) -> list[Row]:
    known = past.version(tick)
    return [(k, x) for _, k, x in past.alive("s", tick, 6) if not (k in known and known[k][1] < x)]


def among(past: Past, tick: int) -> list[Row]:
    numbers = {n for name, n in past.version(tick).values() if name == "a"}
    return [(k, x) for _, k, x in past.alive("s", tick, 6) if x in numbers]


def not_among(past: Past, tick: int) -> list[Row]:
    """Keys are never NULL, so NOT IN is NULL for a NULL in s alone, unless there is no row."""
    known = past.version(tick)
    return [(k, x) for _, k, x in past.alive("s", tick, 6) if not known or (k is not None and k not in known)]


def extended(past: Past, tick: int) -> list[Row]:
    known = past.version(tick)
    return [(k, x, known[k][0] if k in known else None) for _, k, x in past.alive("s", tick, 6)]


def on_both_sides(past: Past, tick: int) -> list[Row]:
    known, found = past.version(tick), past.alive("s", tick, 6)
    alone = [(None, k, name) for k, (name, _) in known.items() if all(k != one[1] for one in found)]
    return [*((x, k if k in known else None, known[k][0] if k in known else None) for _, k, x in found), *alone]


def of_the_table(past: Past, tick: int) -> list[Row]:
    known, found = past.version(tick), past.alive("s", tick, 6)
    return [(name, x) for k, (name, n) in known.items() for x in [x for _, j, x in found if j == k and x > n] or [None]]


def without(past: Past, tick: int) -> list[Row]:
    return [(k,) for k in {k for _, k, _ in past.alive("s", tick, 6)} - set(past.version(tick))]


def later(past: Past, tick: int) -> list[Row]:
    found = []
    for t, k, x in past.alive("s", tick, 6):
        known = past.seen(t)
        found += [(k, x, *known[k])] if k in known and known[k][1] < 3 else []
    return found


def kept(past: Past, tick: int) -> list[Row]:
    found = []
    for t, k, x in past.alive("s", tick, 6):
        known = past.seen(t)
        found.append((k, x, known[k][0] if k in known and known[k][1] <= x else None))
    return found


def by_another_column(past: Past, tick: int) -> list[Row]:
    alive = past.alive("s", tick, 6)
    return [(x, name) for t, _, x in alive for name, n in past.seen(t).values() if n == x]


def of_both(past: Past, tick: int) -> list[Row]:
    """As of the latest part."""
    found = []
    for t, k, x in past.alive("s", tick, 6):
        for u, j, y in past.alive("d", tick, 4):
            known = past.seen(max(t, u))
            found += [(k, x, y, known[k][0])] if k == j and k in known else []
    return found


def enriched(past: Past, tick: int) -> list[tuple[int, int, str, int]]:
    """k, x, name and n of the tuples that met a row."""
    found = [(k, x, past.seen(t)) for t, k, x in past.alive("s", tick, 6) if k is not None]
    return [(k, x, *known[k]) for k, x, known in found if k in known]


def not_followed(past: Past, tick: int) -> list[Row]:
    """The condition reads the table, as of the tuple before it."""
    others = past.alive("d", tick, 4)
    return [(k, x, name) for k, x, name, n in enriched(past, tick) if all(j != k or y >= n for _, j, y in others)]


def not_among_numbers(past: Past, tick: int) -> list[Row]:
    """A tuple that met no row has n NULL, and NOT IN is NULL, unless there is no row."""
    numbers, found = {x for _, _, x in past.alive("d", tick, 4)}, []
    for t, k, x in past.alive("s", tick, 6):
        n = past.seen(t)[k][1] if k in past.seen(t) else None
        found += [(k, x, n)] if not numbers or (n is not None and n not in numbers) else []
    return found


def enriched_and_extended(past: Past, tick: int) -> list[Row]:
    others = past.alive("d", tick, 4)
    return [
        (k, name, y) for k, _, name, _ in enriched(past, tick) for y in [y for _, j, y in others if j == k] or [None]
    ]


def named_otherwise(past: Past, tick: int) -> list[Row]:
    now = {(k, name) for k, (name, _) in past.version(tick).items()}
    return list({(k, name) for k, _, name, _ in enriched(past, tick)} - now)


def then_and_now(past: Past, tick: int) -> list[Row]:
    now = past.version(tick)
    return [(k, name, now[k][0]) for k, _, name, _ in enriched(past, tick) if k in now]


def last_results(past: Past, tick: int) -> list[Row]:
    """Those that were born last, whatever has become of the table."""
    every = [(t, k, past.seen(t)) for t, k, _ in past.alive("s", tick, LAST) if k is not None]
    return [row[1:] for row in sorted((t, k, known[k][0]) for t, k, known in every if k in known)[-3:]]


_ENRICHED = "SELECT s.k, x, name, n FROM s [RANGE 6] JOIN later ON s.k = later.k"
QUERIES: dict[str, Callable[[Past, int], list[Row]]] = {
    "SELECT s.k, x, name, n FROM s [RANGE 6] JOIN names ON s.k = names.k WHERE n <= x": retroactive,
    "SELECT name, COUNT(*) AS c FROM names JOIN s [RANGE 6] USING (k) GROUP BY name": counted,
    "SELECT k, x FROM s [RANGE 6] WHERE EXISTS (SELECT 1 FROM names WHERE names.k = s.k AND n < s.x)": exists,
    "SELECT k, x FROM s [RANGE 6] WHERE NOT EXISTS (SELECT 1 FROM names WHERE names.k = s.k AND n < s.x)": missing,
    "SELECT k, x FROM s [RANGE 6] WHERE x IN (SELECT n FROM names WHERE name = 'a')": among,
    "SELECT k, x FROM s [RANGE 6] WHERE k NOT IN (SELECT k FROM names)": not_among,
    "SELECT s.k, x, name FROM s [RANGE 6] LEFT JOIN names ON s.k = names.k": extended,
    "SELECT x, names.k, name FROM s [RANGE 6] FULL JOIN names ON s.k = names.k": on_both_sides,
    "SELECT name, x FROM names LEFT JOIN s [RANGE 6] ON s.k = names.k AND x > n": of_the_table,
    "SELECT k FROM s [RANGE 6] EXCEPT SELECT k FROM names": without,
    "SELECT s.k, x, name, n FROM s [RANGE 6] JOIN later ON s.k = later.k WHERE n < 3": later,
    "SELECT s.k, x, name FROM s [RANGE 6] LEFT JOIN later ON later.k = s.k AND n <= x": kept,
    "SELECT x, name FROM s [RANGE 6] JOIN later ON x = n": by_another_column,
    "SELECT s.k, s.x, d.x AS y, name FROM later JOIN s [RANGE 6] ON s.k = later.k JOIN d [RANGE 4] ON d.k = later.k": of_both,
    "SELECT s.k, s.x, name FROM s [RANGE 6] JOIN later ON s.k = later.k "
    "WHERE NOT EXISTS (SELECT 1 FROM d [RANGE 4] WHERE d.k = s.k AND d.x < later.n)": not_followed,
    "SELECT s.k, s.x, n FROM s [RANGE 6] LEFT JOIN later ON s.k = later.k WHERE n NOT IN (SELECT x FROM d [RANGE 4])": (
        not_among_numbers
    ),
    f"SELECT e.k, name, d.x AS y FROM ({_ENRICHED}) AS e LEFT JOIN d [RANGE 4] ON d.k = e.k": enriched_and_extended,
    f"SELECT k, name FROM ({_ENRICHED}) AS e EXCEPT SELECT k, name FROM names": named_otherwise,
    f"SELECT e.k, e.name, names.name AS now_ FROM ({_ENRICHED}) AS e JOIN names ON names.k = e.k": then_and_now,
    "SELECT WSTREAM(s.k, name)[ROWS 3] FROM s [RANGE 5] JOIN later ON s.k = later.k": last_results,
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
                i: split(window, tuples(history.tuples[window.stream], window), due)
                for i, window in enumerate(plan.windows)
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


def tuples(found: Sequence[tuple[int, int | None, int]], window: Any) -> pa.Table:
    rows = [{"t": t, "k": k, "x": x} for t, k, x in found]
    rows = [row for row in rows if window.predicate is None or value_of(parse_expression(window.predicate), row)]
    columns = {POINT: pa.array([row["t"] for row in rows], pa.int64())}
    for one in window.columns:
        tree = parse_expression(one.sql)
        columns[one.column.sql] = pa.array([value_of(tree, row) for row in rows], one.column.type.arrow)
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
@settings(max_examples=15, deadline=None)
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
