"""Sharing of a synopsis: the same grouping, and cuts that meet, with any predicate, RANGE and SLIDE (rule SS1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from windrow.catalog.definitions import StreamDef
from windrow.cql import parse_one
from windrow.cql.statements import ColumnDef, CreateQuery, CreateStream
from windrow.engine.ask.catalog_views import completeness
from windrow.engine.progress import QueryProgress, SynopsisProgress, start_of
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.optimizer.sharing.rules import choose_synopsis
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan, style_of, wanted_cuts
from windrow.optimizer.sharing.uses import NEW, Applicant, SynopsisUse
from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.aggregates import decompose
from windrow.plan.nodes import (
    Attribute,
    Finalise,
    Key,
    Order,
    Output,
    Scan,
    Selection,
    WindowAggregate,
    internal_columns,
)
from windrow.synopses import BasicIntervalSynopsis
from windrow.types import SqlType
from windrow.windows import Cuts, CutSchedule, SlidingWindow

S, MS = 1_000_000, 1_000
INT, STRING = SqlType("INT"), SqlType("STRING")
SRC, DST = Key("src", STRING), Key("dst", STRING)


def plan(
    range_us: int, slide_us: int, keys: tuple[Key, ...] = (SRC,), where: str | None = None, function: str = "SUM"
) -> Finalise:
    scan = Selection(Scan("packets", Attribute("ts", SqlType("TIMESTAMP"))), where)
    call = decompose(function, "length", INT, where)
    aggregate = WindowAggregate(scan, SlidingWindow(range_us, slide_us), keys, (call,))
    return Finalise(aggregate, (Output("a", exp.column("a0"), call.result),))


def synopsis(number: int, *plans: Finalise) -> SynopsisPlan:
    cuts = wanted_cuts(plans)
    assert cuts is not None
    named = tuple((f"q{i}", p) for i, p in enumerate(plans))
    return SynopsisPlan(
        number,
        plans[0].input.keys,
        CutSchedule.of(cuts),
        named,
        "ts",
        style_of(plans[0].window, CutSchedule.of(plans[0].window.cuts())),
    )


def joined(new: Finalise, present: Sequence[SynopsisPlan], cut_factor: int = 4, off: str = "") -> SynopsisPlan | None:
    """The synopsis that a new query joins, by the rules."""
    uses = [SynopsisUse(one, {}, (), cut_factor) for one in present]
    chosen = choose_synopsis(Applicant(NEW, new), uses, off.split())
    return None if chosen is None else chosen.plan


def test_same_grouping_shares() -> None:
    present = synopsis(1, plan(60 * S, S))
    for other in (plan(30 * S, 10 * S), plan(99 * S, 7 * S), plan(60 * S, S, where="length > 0", function="MAX")):
        assert joined(other, [present], 4) is present


def test_other_grouping_does_not_share() -> None:
    present = synopsis(1, plan(60 * S, S))
    for keys in ((), (DST,), (SRC, DST), (Key("src", INT),)):
        assert joined(plan(60 * S, S, keys), [present], 4) is None
    assert joined(plan(60 * S, S), [], 4) is None


def test_the_order_of_keys_is_part_of_a_grouping() -> None:
    present = synopsis(1, plan(60 * S, S, (SRC, DST)))
    assert joined(plan(60 * S, S, (DST, SRC)), [present], 4) is None


def test_incommensurate_cuts() -> None:
    seconds, odd = synopsis(1, plan(60 * S, S)), synopsis(2, plan(333 * MS, 333 * MS))
    assert joined(plan(3 * 333 * MS, 333 * MS), [seconds, odd], 4) is odd
    assert joined(plan(10 * S, S), [odd, seconds], 4) is seconds


def test_cut_factor() -> None:
    present = synopsis(1, plan(600 * S, 60 * S))
    finer = plan(10 * S, S)
    assert joined(finer, [present], 4) is None
    assert joined(finer, [present], 60) is present


def test_first_suitable_synopsis_is_joined() -> None:
    first, second = synopsis(1, plan(60 * S, 2 * S)), synopsis(2, plan(60 * S, S))
    assert joined(plan(10 * S, S), [first, second], 4) is first
    assert joined(plan(10 * S, S), [second, first], 4) is second


def test_disabled_rule_prevents_joining() -> None:
    sums, greatest = synopsis(1, plan(60 * S, S)), synopsis(2, plan(60 * S, S, function="MAX"))
    average = plan(60 * S, S, function="AVG")
    assert joined(average, [sums]) is sums and joined(average, [sums, greatest], off="SS1") is None
    assert joined(average, [sums, greatest], off="SS2") is greatest, "where it shares no sums and counts"
    assert joined(plan(30 * S, S), [sums], off="SS2") is sums, "it has no AVG"
    for off in ("SS3", "SS4", "CS1 CS2 CS3 CS4 CS5 CS6 CS7 CS8"):
        assert joined(average, [sums], off=off) is sums


def test_wanted_cuts_hold_every_window_edge() -> None:
    plans = [plan(60 * S, S), plan(90 * S, 7 * S), plan(500 * MS, 500 * MS)]
    cuts = wanted_cuts(plans)
    assert cuts is not None and all(cuts.holds(p.window.cuts()) for p in plans)
    assert wanted_cuts([]) is None


def test_accumulators_are_kept_once() -> None:
    plans = (plan(60 * S, S), plan(30 * S, S, function="AVG"), plan(30 * S, S, where="p"))
    shared = synopsis(1, *plans)
    every = Accumulator(Kind.COUNT, None, None, None)
    assert shared.accumulators[0] == every == plans[0].input.presence
    assert len(shared.accumulators) == len(set(shared.accumulators)) == 6


@pytest.mark.parametrize(
    ("predicates", "qualifies"),
    [
        ([None], None),
        (["a > 0", None], None),
        (["a > 0"], "(a > 0)"),
        (["a > 0", "b OR c", "a > 0"], "(a > 0) OR (b OR c)"),
    ],
)
def test_qualifying_tuples(predicates: list[str | None], qualifies: str | None) -> None:
    shared = synopsis(1, *(plan(60 * S, S, where=p) for p in predicates))
    assert shared.qualifies == qualifies


def test_a_synopsis_without_queries_takes_everything() -> None:
    empty = SynopsisPlan(1, (SRC,), CutSchedule.of(Cuts.of([(S, 0)])), (), "ts", ("SlidingWindow", 0))
    assert empty.qualifies is None and empty.accumulators == ()


# -- a new query of a running stream: from which point it is complete -----------------------------------------


def running(since: int | None, range_us: int = 10 * S, slide_us: int = 4 * S) -> QueryState:
    statement = parse_one("CREATE QUERY q AS SELECT COUNT(*) AS n FROM packets [RANGE 10 SECONDS SLIDE 4 SECONDS]")
    assert isinstance(statement, CreateQuery)
    return QueryState(1, "q", statement, "", plan(range_us, slide_us), since)


@settings(max_examples=60, deadline=None)
@given(st.integers(-100, 100), st.integers(1, 20), st.integers(1, 20))
def test_first_complete_window(since: int, range_us: int, slide_us: int) -> None:
    end = SlidingWindow(range_us, slide_us).first_complete(since)
    assert end is not None and end % slide_us == 0
    assert end - range_us >= since > end - slide_us - range_us


def test_first_query_is_complete() -> None:
    assert completeness(running(None)) == "every window is complete"
    assert completeness(running(30 * S)) == "windows that end before 1970-01-01 00:00:40 are partial"


def test_suspended_query_and_unused_synopsis() -> None:
    statement = CreateStream("packets", (ColumnDef("ts", "TIMESTAMP"),), "memory")
    definition = StreamDef(statement, (("ts", SqlType("TIMESTAMP")),), "ts", ())
    stream = StreamState(1, definition, Path("nowhere"), start_of(definition))
    fine, broken = running(None), running(None)
    broken.progress = QueryProgress(error="it failed")
    stream.queries = {"fine": fine, "broken": broken}
    assert stream.active == [fine] and stream.name == "packets"
    used = SynopsisState(SynopsisProgress(synopsis(1, plan(60 * S, S)), {}), BasicIntervalSynopsis([pa.string()]))
    alone = SynopsisProgress(replace(used.plan, id=2, queries=()), {})
    unused = SynopsisState(alone, BasicIntervalSynopsis([pa.string()]))
    stream.synopses = {1: used, 2: unused}
    assert [g.synopsis for g in stream.groupings()] == [1]
    assert used.grouping().accumulators == used.plan.accumulators and used.owner == "synopses/1"


# -- nodes refuse illegal values --------------------------------------------------------------------------------


def test_nodes_refuse_illegal_values() -> None:
    with pytest.raises(ValueError, match="cannot be a window attribute"):
        Attribute("name", STRING)
    legal = plan(60 * S, S)
    with pytest.raises(ValueError, match="at least one output"):
        Finalise(legal.input, ())
    with pytest.raises(ValueError, match="not negative"):
        Finalise(legal.input, legal.outputs, limit=-1)


def test_a_plain_select_list_leaves_nothing_to_compute() -> None:
    legal = plan(60 * S, S)
    assert legal.is_plain and legal.window == SlidingWindow(60 * S, S) and legal.scan.stream == "packets"
    column = exp.column("a0")
    for finalise in (
        Finalise(legal.input, legal.outputs, having=column),
        Finalise(legal.input, legal.outputs, order=(Order(column, False, True),)),
        Finalise(legal.input, legal.outputs, limit=0),
        Finalise(legal.input, (Output("x", exp.Add(this=column, expression=column), INT),)),
    ):
        assert not finalise.is_plain


def test_internal_columns_are_keys_then_aggregates() -> None:
    names = internal_columns(plan(60 * S, S, (SRC, DST)).input)
    assert names == [("k0", STRING), ("k1", STRING), ("a0", SqlType("BIGINT"))]
