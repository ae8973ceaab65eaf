"""Derived accumulators (SS4): their bases, and that they equal kept ones."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from windrow.optimizer.sharing.derivations import Derivation, derivations_of, derive, only_signs
from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.aggregates import decompose
from windrow.plan.nodes import Attribute, Key, Scan, Selection, WindowAggregate
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup
from windrow.synopses.answering.deriving import kept_lookups, with_derived
from windrow.synopses.answering.way_costs import Way
from windrow.synopses.cells.cells import fold_of, state_of_rows
from windrow.types import SqlType
from windrow.windows import SlidingWindow

INT, STRING, DECIMAL, DOUBLE = SqlType("INT"), SqlType("STRING"), SqlType("DECIMAL(9,2)"), SqlType("DOUBLE")
COLUMNS = (("p", STRING), ("u", STRING), ("x", INT))
TCP, UDP, USER = "`p` = 'TCP'", "`p` = 'UDP'", "`u` = 'U'"
EITHER, TCP_OR_USER = f"{TCP} OR {UDP}", f"{TCP} OR {USER}"


def acc(kind: Kind, condition: str | None, arg: str | None = "`x`", type_: SqlType | None = INT) -> Accumulator:
    return Accumulator(kind, arg, type_ if arg else None, condition)


def test_added_subtracted_and_maxed() -> None:
    q1, q2, q3 = (acc(Kind.SUM_INT, c) for c in (TCP, UDP, EITHER))
    assert derive(q3, [q1, q2], COLUMNS) == Derivation(q3, (q1, q2))
    assert derive(q1, [q3, q2], COLUMNS) == Derivation(q1, (q3,), (q2,))
    assert derive(q3, [q1], COLUMNS) is None
    q4, q5, q6 = (acc(Kind.GREATEST, c) for c in (TCP, USER, TCP_OR_USER))
    assert derive(q6, [q4, q5], COLUMNS) == Derivation(q6, (q4, q5))
    assert derive(q4, [q6, q5], COLUMNS) is None
    overlapping = [acc(Kind.SUM_INT, c) for c in (TCP, USER)]
    assert derive(acc(Kind.SUM_INT, TCP_OR_USER), overlapping, COLUMNS) is None


def test_no_derivation_from_other_data() -> None:
    q3 = acc(Kind.SUM_INT, EITHER)
    for other in (
        acc(Kind.COUNT, UDP),
        acc(Kind.SUM_INT, UDP, "`y`"),
        acc(Kind.SUM_INT, UDP, "`x`", SqlType("SMALLINT")),
    ):
        assert derive(q3, [acc(Kind.SUM_INT, TCP), other], COLUMNS) is None
    written_otherwise = acc(Kind.SUM_INT, f"{UDP} OR {TCP}")
    assert derive(q3, [written_otherwise], COLUMNS) == Derivation(q3, (written_otherwise,))


def test_doubles_are_added_and_never_subtracted() -> None:
    q1, q2, q3 = (acc(Kind.SUM_DOUBLE, c, "`y`", DOUBLE) for c in (TCP, UDP, EITHER))
    assert derive(q3, [q1, q2], COLUMNS) == Derivation(q3, (q1, q2))
    assert derive(q1, [q3, q2], COLUMNS) is None
    with pytest.raises(ValueError, match="cannot be subtracted"):
        Derivation(q1, (q3,), (q2,))
    with pytest.raises(ValueError, match="of its kind"):
        Derivation(q1, (acc(Kind.COUNT, UDP),))


def test_derived_sketches() -> None:
    for kind in (Kind.HLL, Kind.KLL, Kind.FREQUENT):
        q1, q2, q3 = (acc(kind, c) for c in (TCP, UDP, EITHER))
        found = derive(q3, [q1, q2], COLUMNS)
        assert found == Derivation(q3, (q1, q2)) and "merged from" in str(found)
        assert derive(q1, [q3, q2], COLUMNS) is None
        overlapping = [acc(kind, c) for c in (TCP, USER)]
        assert (derive(acc(kind, TCP_OR_USER), overlapping, COLUMNS) is None) == (kind is not Kind.HLL)


def aggregate(where: str | None, *calls: Any) -> WindowAggregate:
    scan = Selection(Scan("s", Attribute("t", SqlType("BIGINT"))), where)
    return WindowAggregate(scan, SlidingWindow(10, 5), (Key("`p`", STRING),), tuple(calls))


def test_counts_read_for_their_sign() -> None:
    most, total = decompose("MAX", "`x`", INT, TCP_OR_USER), decompose("SUM", "`x`", INT, TCP_OR_USER)
    presence = acc(Kind.COUNT, TCP_OR_USER, None)
    assert only_signs(aggregate(TCP_OR_USER, most)) == {presence, most.part("n")}
    assert only_signs(aggregate(TCP_OR_USER, most, total)) == {presence}, "SUM's count is that of MAX"
    assert only_signs(aggregate(TCP_OR_USER, most, decompose("COUNT", None, None, TCP_OR_USER))) == {most.part("n")}


def test_derivations_of_a_query() -> None:
    query = aggregate(TCP_OR_USER, decompose("MAX", "`x`", INT, TCP_OR_USER))
    kept = [a for c in (TCP, USER) for a in aggregate(c, decompose("MAX", "`x`", INT, c)).accumulators]
    since: dict[str, int | None] = {a.id: None for a in kept}
    found = derivations_of(query, kept, since, COLUMNS)
    assert [d.accumulator for d in found] == list(query.accumulators)
    assert [d.is_sign for d in found] == [True, True, False]
    presence = query.presence
    assert presence not in {
        d.accumulator for d in derivations_of(query, [*kept, presence], {**since, presence.id: None}, COLUMNS)
    }
    later = {**since, presence.id: 50}
    assert presence in {d.accumulator for d in derivations_of(query, [*kept, presence], later, COLUMNS)}
    assert presence not in {
        d.accumulator
        for d in derivations_of(query, [*kept, presence], {**dict.fromkeys(since, 60), presence.id: 50}, COLUMNS)
    }


# -- derived equals kept ---------------------------------------------------------------------------


def rows(rng: random.Random, count: int) -> list[tuple[int, int, str | None, str | None, int | None]]:
    """(pane, group, p, u, x)."""
    return [
        (
            rng.randrange(40) * 5,
            rng.randrange(1, 9),
            rng.choice(["TCP", "UDP", "ICMP", None]),
            rng.choice(["U", "V", None]),
            rng.choice([None, -3, 1, 7, 50]),
        )
        for _ in range(count)
    ]


MEANING = {
    TCP: lambda p, u: p == "TCP",
    UDP: lambda p, u: p == "UDP",
    USER: lambda p, u: u == "U",
    EITHER: lambda p, u: p in ("TCP", "UDP"),
    TCP_OR_USER: lambda p, u: p == "TCP" or u == "U",
}


def state(a: Accumulator, tuples: list[Any]) -> Any:
    """The contribution of each tuple to its cell."""
    fold, out = fold_of(a), fold_of(a).identity(len(tuples))
    assert a.condition is not None
    mine = [
        i for i, (_, _, p, u, x) in enumerate(tuples) if MEANING[a.condition](p, u) and (a.arg is None or x is not None)
    ]
    values = pa.array([tuples[i][4] for i in mine], (a.type or INT).arrow) if a.arg else None
    fold.scatter_into(out, np.array(mine, np.int64), state_of_rows(a, values, len(mine)))
    return out


PAIRS = [(EITHER, (TCP, UDP), ()), (TCP, (EITHER,), (UDP,)), (TCP_OR_USER, (TCP, USER), ())]


@pytest.mark.parametrize("way", [way for way in Way if way is not Way.INDEX])
@pytest.mark.parametrize(("condition", "added", "less"), PAIRS)
@pytest.mark.parametrize("always", [False, True])
def test_derived_accumulator_equals_a_kept_one(
    condition: str, added: tuple[str, ...], less: tuple[str, ...], way: Way, always: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(BasicIntervalSynopsis, "_way", lambda *_: way)
    is_sign = condition == TCP_OR_USER
    presence = acc(Kind.COUNT, condition, None)
    reads = [acc(Kind.GREATEST, condition), acc(Kind.LEAST, condition)]
    if not is_sign:
        reads += [acc(Kind.SUM_INT, condition), acc(Kind.SUM_LONG, condition, "`x`", SqlType("BIGINT"))]
        reads += [acc(Kind.SUM_DECIMAL, condition, "`x`", DECIMAL)]
        reads += [] if less or way is Way.TABLES else [acc(Kind.MOMENTS, condition)]
    if less:
        reads = [a for a in reads if a.kind not in (Kind.GREATEST, Kind.LEAST)]
    for seed in range(6):
        rng = random.Random(seed)
        tuples = [(*t[:1], 1, *t[2:]) for t in rows(rng, 120)] if always else rows(rng, 120)
        bases = [replace(a, condition=c) for a in (presence, *reads) for c in (*added, *less)]
        kept = dict.fromkeys((presence, *reads, *bases))
        synopsis = BasicIntervalSynopsis([] if always else [pa.string()])
        if not always:
            synopsis.groups.ids([pa.array(list("abcdefgh"))])
        panes, groups = (np.array([t[i] for t in tuples], np.int64) for i in (0, 1))
        synopsis.deposit(Cells(panes, groups, {a: state(a, tuples) for a in kept}))
        synopsis.close(1000)
        ends = np.arange(5, 230, 5)
        lookup = Lookup("q", ends - 20, ends, presence, tuple(reads), always)
        derived = {
            "q": tuple(
                Derivation(
                    a,
                    tuple(replace(a, condition=c) for c in added),
                    tuple(replace(a, condition=c) for c in less),
                    is_sign and a.kind is Kind.COUNT,
                )
                for a in (presence, *reads)
            )
        }
        (want,), (got,) = (
            list(synopsis.answer([lookup])),
            list(with_derived(synopsis.answer(kept_lookups([lookup], derived)), [lookup], derived)),
        )
        np.testing.assert_array_equal(got.window, want.window)
        np.testing.assert_array_equal(got.groups, want.groups)
        for a in reads:
            for mine, theirs in zip(got.states[a], want.states[a], strict=True):
                np.testing.assert_allclose(mine.astype(float), theirs.astype(float), atol=1e-9)
        assert ((got.states[presence][0] > 0) == (want.states[presence][0] > 0)).all()
        if not is_sign:
            np.testing.assert_array_equal(got.states[presence][0], want.states[presence][0])
