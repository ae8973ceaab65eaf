"""Pre-aggregation: the driver and Spark make the same cells, which agree with brute force."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.brute_force import EXACT, expected, same

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.cql.statements import ColumnDef, CreateStream, Policy
from windrow.dataplane.ingest.deposit import DeadLetter
from windrow.dataplane.ingest.gathering import deposit_of_rows, gathered_columns, plain_texts
from windrow.dataplane.ingest.grouping import Grouping
from windrow.dataplane.ingest.grouping_sets import deposit_of_groups, set_ids
from windrow.plan.accumulators import Accumulator, AggregateCall, Kind
from windrow.plan.aggregates import decompose
from windrow.plan.nodes import ROW_NUM, Key
from windrow.synopses import Cells
from windrow.synopses.cells.cells import partial_sql
from windrow.synopses.cells.groups import NOBODY, Groups
from windrow.synopses.cells.merging import fold_cells
from windrow.synopses.results.values import result_of
from windrow.types import SqlType
from windrow.windows import Cuts, CutSchedule

some = settings(max_examples=25, deadline=None)

INT, BIGINT, DOUBLE, STRING = SqlType("INT"), SqlType("BIGINT"), SqlType("DOUBLE"), SqlType("STRING")
MONEY, WIDE, WIDEST = SqlType("DECIMAL(12,2)"), SqlType("DECIMAL(20,3)"), SqlType("DECIMAL(38,10)")
STREAM = StreamDef(
    CreateStream("s", (ColumnDef("t", "BIGINT"),), "memory"),
    (("t", BIGINT),),
    "t",
    (Punctuated("t", BIGINT, Policy.ORDERED),),
)
COLUMNS = {"i": INT, "b": BIGINT, "d": DOUBLE, "m": MONEY, "w": WIDE, "z": WIDEST, "k": STRING}
DEAD = "late"


def scaled(unscaled: int, scale: int) -> Decimal:
    """The exact sum; the default context would round to 28 digits."""
    return EXACT.scaleb(Decimal(unscaled), -scale)


@dataclass(frozen=True)
class Record:
    """A tuple with `values` by column, admitted unless it has a reason."""

    t: int
    values: dict[str, Any]
    reason: str | None = None


records = st.builds(
    Record,
    st.integers(-40, 40),
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-50, 50),
            "b": st.none() | st.sampled_from([(1 << 63) - 1, -(1 << 63), 1, -1]),
            "d": st.none() | st.sampled_from([0.25, -1.5, 3.0, math.nan, math.inf, -math.inf]),
            "m": st.none() | st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-2)),
            "w": st.none() | st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-3)),
            "z": st.none() | st.sampled_from([10**38 - 1, 1 - 10**38, 5 * 10**37, 7, -7]).map(lambda n: scaled(n, 10)),
            "k": st.none() | st.sampled_from(["a", "b", "c"]),
        }
    ),
    st.sampled_from([None, None, None, DEAD]),
)

# -- Spark's part, evaluated in Python: the few expressions in these plans ------------------------------------


def value_of(sql: str, record: Record) -> Any:
    """Evaluate an expression of a test's plan over a record, with SQL's nulls."""
    both = re.fullmatch(r"\((.*?)\) (AND|OR) \((.*)\)", sql)
    if both:
        left, right = value_of(both[1], record), value_of(both[3], record)
        return left and right if both[2] == "AND" else left or right
    if re.fullmatch(r"\([^()]*\)", sql):
        return value_of(sql[1:-1], record)
    for pattern, test in _TESTS:
        found = re.fullmatch(pattern, sql)
        if found:
            value = record.values[found[1]]
            return None if value is None else test(value)
    return record.values[sql]


_TESTS: list[tuple[str, Callable[[Any], bool]]] = [
    (r"(\w) > 0", lambda v: v > 0),
    (r"(\w) < 0", lambda v: v < 0),
    (r"isnan\((\w)\)", math.isnan),
    (r"abs\(CAST\((\w) AS DOUBLE\)\) < double\('Infinity'\)", math.isfinite),
    (r"CAST\((\w) AS DOUBLE\) = double\('Infinity'\)", lambda v: v == math.inf),
    (r"CAST\((\w) AS DOUBLE\) = double\('-Infinity'\)", lambda v: v == -math.inf),
]


def qualifying(accumulator: Accumulator, members: Sequence[Record]) -> list[Any]:
    meets = [r for r in members if accumulator.condition is None or value_of(accumulator.condition, r)]
    if accumulator.arg is None:
        return [1] * len(meets)
    return [v for v in (value_of(accumulator.arg, r) for r in meets) if v is not None]


def partials(accumulator: Accumulator, members: Sequence[Record]) -> list[Any]:
    """The results of `partial_sql` over one group."""
    values = qualifying(accumulator, members)
    kind = accumulator.kind
    if kind is Kind.COUNT:
        return [len(values)]
    if kind is Kind.SUM_DECIMAL:
        assert accumulator.type is not None
        scale = accumulator.type.decimal[1]
        exact = [int(EXACT.scaleb(v, scale)) for v in values]
        if accumulator.type.decimal[0] <= 28:
            return [scaled(sum(exact), scale) if values else None, len(values)]
        upper = [abs(v) // 10**19 * (1 if v >= 0 else -1) for v in exact]
        rest = [v - u * 10**19 for v, u in zip(exact, upper, strict=True)]
        return [Decimal(sum(upper)), scaled(sum(rest), scale)] if values else [None, None]
    if kind is Kind.SUM_LONG:
        return [sum(v >> 32 for v in values), sum(v & 0xFFFFFFFF for v in values)] if values else [None, None]
    if kind is Kind.MOMENTS:
        exact = [Fraction(v) for v in values]
        mean = sum(exact) / len(exact) if exact else None
        variance = sum((v - mean) ** 2 for v in exact) / len(exact) if mean is not None else None
        return [len(values), None if mean is None else float(mean), None if variance is None else float(variance)]
    if not values:
        return [None]
    if kind in (Kind.LEAST, Kind.GREATEST):
        pick = min if kind is Kind.LEAST else max
        return [pick(values, key=lambda v: (v != v, v) if isinstance(v, float) else v)]
    return [sum(values)]


def partial_types(accumulator: Accumulator) -> list[pa.DataType]:
    kind, type_ = accumulator.kind, accumulator.type
    if kind is Kind.SUM_DECIMAL:
        assert type_ is not None
        if type_.decimal[0] > 28:
            return [pa.decimal128(30, 0), pa.decimal128(30, type_.decimal[1])]
        return [pa.decimal128(type_.decimal[0] + 10, type_.decimal[1]), pa.int64()]
    if kind is Kind.MOMENTS:
        return [pa.int64(), pa.float64(), pa.float64()]
    if kind is Kind.SUM_DOUBLE:
        return [pa.float64()]
    if kind in (Kind.LEAST, Kind.GREATEST):
        assert type_ is not None
        return [type_.arrow]
    return [pa.int64()] * len(partial_sql(accumulator))


def gathered_table(made: Sequence[Record], groupings: Sequence[Grouping]) -> pa.Table:
    """The table that a job of `gather_columns` returns."""
    columns: dict[str, Any] = {
        "__reason": pa.array([r.reason for r in made], pa.string()),
        "__record": pa.array([None if r.reason is None else f"record {r.t}" for r in made], pa.string()),
        "__t0": pa.array([r.t for r in made], pa.int64()),
    }
    names = gathered_columns(groupings)
    for sql, name in (*names.values.items(), *names.conditions.items()):
        values = [None if r.reason else value_of(sql, r) for r in made]
        kind = COLUMNS[sql].arrow if sql in names.values else pa.bool_()
        values = values if sql in names.values else list(map(bool, values))
        columns[name] = pa.chunked_array([pa.array(values[:2], kind), pa.array(values[2:], kind)])
    return pa.table(columns)


def grouped_table(made: Sequence[Record], groupings: Sequence[Grouping]) -> pa.Table:
    """The table that `grouped` returns: a row per grouping, pane and group, and the dead letters in each set."""
    ids, rows = set_ids(groupings), []
    every = list(dict.fromkeys(a for g in groupings for a in g.accumulators))
    for g, grouping in enumerate(groupings):
        by_name: dict[Any, list[Record]] = {}
        for r in made:
            by_name.setdefault(group_name(r, grouping), []).append(r)
        for (dead, pane, qualifies, key), members in by_name.items():
            row: dict[str, Any] = {"__reason": dead[0], "__record": dead[1], "__dead_t": dead[2], "__set": ids[g]}
            row |= {f"__pane{g}": pane, f"__q{g}": qualifies, "__n": len(members)}
            row |= {"__least__t0": min(r.t for r in members), "__greatest__t0": max(r.t for r in members)}
            row |= {f"__k{g}_{i}": value for i, value in enumerate(key)}
            alive = [] if dead[0] else members
            row |= {f"p_{a.id}_{i}": v for a in every for i, v in enumerate(partials(a, alive))}
            rows.append(row)
    schema = [("__reason", pa.string()), ("__record", pa.string()), ("__dead_t", pa.int64()), ("__set", pa.int64())]
    schema += [("__n", pa.int64()), ("__least__t0", pa.int64()), ("__greatest__t0", pa.int64())]
    for g, grouping in enumerate(groupings):
        schema += [(f"__pane{g}", pa.int64()), (f"__q{g}", pa.bool_())]
        schema += [(f"__k{g}_{i}", key.type.arrow) for i, key in enumerate(grouping.keys)]
    schema += [(f"p_{a.id}_{i}", kind) for a in every for i, kind in enumerate(partial_types(a))]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))


def group_name(r: Record, grouping: Grouping) -> Any:
    if r.reason is not None:
        return (r.reason, f"record {r.t}", r.t), None, None, (None,) * len(grouping.keys)
    pane = int(grouping.schedule.pane_starts(np.array([r.t]))[0])
    qualifies = None if grouping.qualifies is None else bool(value_of(grouping.qualifies, r))
    key = tuple(None if qualifies is False else value_of(k.sql, r) for k in grouping.keys)
    return (None, None, None), pane, qualifies, key


# -- the plans of the tests ------------------------------------------------------------------------------------

CALLS: tuple[AggregateCall, ...] = (
    decompose("COUNT", None, None, None),
    decompose("SUM", "i", INT, None),
    decompose("AVG", "b", BIGINT, None),
    decompose("SUM", "b", BIGINT, "i > 0"),
    decompose("SUM", "d", DOUBLE, None),
    decompose("MIN", "d", DOUBLE, "i > 0"),
    decompose("STDDEV", "i", INT, None),
    decompose("VARIANCE", "d", DOUBLE, None),
    decompose("SUM", "m", MONEY, None),
    decompose("MIN", "m", MONEY, None),
    decompose("AVG", "w", WIDE, None),
    decompose("MAX", "w", WIDE, None),
    decompose("SUM", "z", WIDEST, None),
    decompose("AVG", "z", WIDEST, "i > 0"),
    decompose("MIN", "z", WIDEST, None),
    decompose("MAX", "k", STRING, None),
)


def grouping(synopsis: int, keys: str, width: int, qualifies: str | None) -> Grouping:
    schedule = CutSchedule.of(Cuts.of([(width, 0)])).moved(Cuts.of([(3, 1)]), 10)
    parts = tuple(dict.fromkeys(part for call in CALLS for _, part in call.parts))
    return Grouping(synopsis, tuple(Key(k, COLUMNS[k]) for k in keys), schedule, qualifies, parts, "t")


PLANS = {
    "ungrouped": (grouping(4, "", 10, None),),
    "ungrouped, some qualify": (grouping(4, "", 10, "i > 0"),),
    "by one key": (grouping(4, "k", 10, None),),
    "by two keys, some qualify": (grouping(4, "ki", 5, "(i > 0) OR (b < 0)"),),
    "three synopses": (grouping(4, "k", 10, "i > 0"), grouping(9, "", 7, None), grouping(2, "ik", 10, None)),
}


def brute_force(made: Sequence[Record], grouping: Grouping) -> dict[Any, list[Any]]:
    by_cell: dict[Any, list[Record]] = {}
    for r in made:
        if r.reason is None:
            _, pane, qualifies, key = group_name(r, grouping)
            by_cell.setdefault((pane, "nobody" if qualifies is False else key), []).append(r)
    return {
        name: [expected(c, dict(c.parts)["n"].type or INT, qualifying(c.part("n"), members)) for c in CALLS]
        for name, members in by_cell.items()
    }


def assert_equal(found: dict[Any, list[Any]], wanted: dict[Any, list[Any]]) -> None:
    assert found.keys() == wanted.keys()
    for name, row in wanted.items():
        for call, mine, right in zip(CALLS, found[name], row, strict=True):
            assert same(mine, right), (name, call.function, call.parts[0][1].arg, mine, right)


def contents(cells: Cells, groups: Groups) -> dict[Any, list[Any]]:
    """(pane, key) → results; each cell occurs once in a deposit."""
    assert len(fold_cells([cells], None)) == len(cells)
    keys = list(zip(*(c.to_pylist() for c in groups.key_columns(cells.groups)), strict=True)) or [()] * len(cells)
    results = zip(*(result_of(call, dict(cells.states)).to_pylist() for call in CALLS), strict=True)
    ids = cells.groups.tolist()
    names = [(p, "nobody" if i == NOBODY else k) for p, i, k in zip(cells.panes.tolist(), ids, keys, strict=True)]
    return dict(zip(names, map(list, results), strict=True))


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
@pytest.mark.parametrize(
    ("make", "table"), [(deposit_of_rows, gathered_table), (deposit_of_groups, grouped_table)], ids=["driver", "spark"]
)
@some
@given(st.lists(records, max_size=12))
def test_deposit_against_brute_force(plan: tuple[Grouping, ...], make: Any, table: Any, made: list[Record]) -> None:
    groups = [Groups([key.type.arrow for key in g.keys]) for g in plan]
    for g, known in zip(plan, groups, strict=True):
        parts = [make(table(half, plan), STREAM, plan, groups) for half in (made[::2], made[1::2])]
        cells = [part.cells[g.synopsis] for part in parts if g.synopsis in part.cells]
        if cells:
            assert_equal(contents(fold_cells(cells, None), known), brute_force(made, g))
    deposit = make(table(made, plan), STREAM, plan, groups)
    alive = [r.t for r in made if r.reason is None]
    assert deposit.admitted == len(alive)
    assert deposit.least == ({"t": min(alive)} if alive else {})
    assert (deposit.seen["t"].greatest if "t" in deposit.seen else None) == (max(alive) if alive else None)
    dead = {}
    for letter in deposit.dead:
        name = (letter.reason, letter.record, letter.point)
        dead[name] = dead.get(name, 0) + letter.count
    wanted_dead: dict[Any, int] = {}
    for r in made:
        if r.reason is not None:
            name = (r.reason, f"record {r.t}", r.t)
            wanted_dead[name] = wanted_dead.get(name, 0) + 1
    assert dead == wanted_dead
    for g, known in zip(plan, groups, strict=True):
        if alive:
            assert_equal(contents(deposit.cells[g.synopsis], known), brute_force(made, g))
    assert deposit.cell_count == sum(len(cells) for cells in deposit.cells.values())


@pytest.mark.parametrize(
    ("make", "table"), [(deposit_of_rows, gathered_table), (deposit_of_groups, grouped_table)], ids=["driver", "spark"]
)
def test_deposit_without_a_query(make: Any, table: Any) -> None:
    made = [Record(5, dict.fromkeys(COLUMNS)), Record(7, dict.fromkeys(COLUMNS), DEAD)]
    if make is deposit_of_groups:
        deposit = make(_no_groupings(made), STREAM, [], [])
    else:
        deposit = make(table(made, []), STREAM, [], [])
    assert (deposit.cells, deposit.admitted, deposit.least) == ({}, 1, {"t": 5})
    assert deposit.seen["t"].greatest == 5 and deposit.seen[ROW_NUM].rows == 1
    assert deposit.dead == (DeadLetter(DEAD, "record 7", 7, 1),)


def _no_groupings(made: Sequence[Record]) -> pa.Table:
    rows = [
        {
            "__reason": r.reason,
            "__record": f"record {r.t}" if r.reason else None,
            "__dead_t": r.t if r.reason else None,
            "__n": 1,
            "__least__t0": r.t,
            "__greatest__t0": r.t,
        }
        for r in made
    ]
    return pa.Table.from_pylist(rows)


def test_group_ids_are_kept() -> None:
    plan = PLANS["by one key"]
    groups = [Groups([pa.string()])]
    blank = dict.fromkeys(COLUMNS)
    first = deposit_of_rows(
        gathered_table([Record(0, {**blank, "k": "a"}), Record(0, {**blank, "k": "b"})], plan), STREAM, plan, groups
    )
    second = deposit_of_groups(grouped_table([Record(0, {**blank, "k": "b"})], plan), STREAM, plan, groups)
    assert first.cells[4].groups.tolist() == [1, 2] and second.cells[4].groups.tolist() == [2]


def test_value_and_condition_of_the_same_text() -> None:
    count = Accumulator(Kind.COUNT, "f", SqlType("BOOLEAN"), "f")
    columns = gathered_columns([Grouping(1, (), CutSchedule.of(Cuts.of([(1, 0)])), "f", (count,), "t")])
    assert columns.select() == ["f AS __v0", "coalesce(f, false) AS __if0"]


def test_only_texts_that_are_gathered_as_they_came_are_plain() -> None:
    stream = replace(STREAM, columns=(("t", BIGINT), ("Host", STRING), ("port", STRING)))
    cuts, host, port = CutSchedule.of(Cuts.of([(1, 0)])), Key("`Host`", STRING), Key("port", STRING)
    by_both = Grouping(1, (host, port), cuts, None, (), "t")
    assert plain_texts(stream, [by_both], (), None) == ["__v0", "__v1"]
    assert plain_texts(stream, [replace(by_both, keys=(host,))], (), None) is None
    assert plain_texts(stream, [replace(by_both, qualifies="upper(host) = 'A'")], (), None) is None
    assert plain_texts(stream, [by_both], ("octet_length(port) > 9",), None) is None
    lower = Grouping(2, (Key("lower(Host)", STRING),), cuts, None, (), "t")
    assert plain_texts(stream, [by_both, lower], (), None) is None


def test_every_nth_row() -> None:
    literal = Accumulator(Kind.COUNT, None, None, "k = '__row'")
    marked = Accumulator(Kind.COUNT, None, None, "pmod(__row, 2L) = 0", every_n=2)
    cuts = CutSchedule.of(Cuts.of([(10, 0)]))
    plain, numbered = Grouping(1, (), cuts, None, (literal,), "t"), Grouping(2, (), cuts, None, (marked,), "t")
    assert not plain.needs_order and numbered.needs_order
    assert list(gathered_columns([plain, numbered]).conditions) == ["k = '__row'"]
    table = {"__reason": pa.nulls(3, pa.string()), "__t0": [1, 2, 3], "__if0": [True, False, True]}
    deposit = deposit_of_rows(pa.table(table), STREAM, (plain,), [Groups([])])
    assert deposit.cells[1].states[literal][0].tolist() == [2]


def test_grouping_by_sorting() -> None:
    """If marking every (pane, group) slot would take more memory than the rows, the rows are sorted instead."""
    count = decompose("COUNT", None, None, None)
    plan = (Grouping(1, (Key("b", BIGINT),), CutSchedule.of(Cuts.of([(1, 0)])), None, (count.part("n"),), "t"),)
    rows = 3000
    made = [Record(i * 1000, {"b": i}) for i in range(rows)] * 2
    deposit = deposit_of_rows(gathered_table(made, plan), STREAM, plan, [Groups([pa.int64()])])
    assert deposit.cells[1].panes.tolist() == [i * 1000 for i in range(rows)]
    assert deposit.cells[1].states[count.part("n")][0].tolist() == [2] * rows
