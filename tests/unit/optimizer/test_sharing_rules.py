"""The twelve rules of Golab's dissertation, sections 8.3 and 8.4, each on the example given there."""

from __future__ import annotations

import random

import pytest
from sqlglot import exp

from windrow.optimizer.sharing.covers import Candidate, concatenation, relevant
from windrow.optimizer.sharing.periods import PeriodicAnswers, leaders
from windrow.optimizer.sharing.predicates import Predicate, reader_of
from windrow.optimizer.sharing.rules import RULES, computed_together, may_join, rule, verdict_of
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan, style_of, wanted_cuts
from windrow.optimizer.sharing.uses import NEW, Applicant, SynopsisUse
from windrow.optimizer.sharing.verdicts import Verdict
from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.plan.aggregates import decompose
from windrow.plan.nodes import Attribute, Finalise, Key, Output, Scan, Selection, WindowAggregate
from windrow.types import SqlType
from windrow.windows import CutSchedule, SlidingWindow

COLUMNS = (("protocol", SqlType("STRING")), ("user", SqlType("STRING")), ("length", SqlType("INT")))
S = 60
RUNNING, INTERVAL, BASIC = SynopsisKind.RUNNING, SynopsisKind.INTERVAL, SynopsisKind.BASIC_INTERVAL
IS_TCP, IS_UDP, IS_USER = "`protocol` = 'TCP'", "`protocol` = 'UDP'", "`user` = 'U'"


def p(text: str) -> Predicate:
    return reader_of(COLUMNS)(text)


TCP, UDP, USER = p(IS_TCP), p(IS_UDP), p(IS_USER)
EITHER = p(f"{IS_TCP} OR {IS_UDP}")
TCP_OR_USER = p(f"{IS_USER} OR {IS_TCP}")


def query(function: str, n: int = 4, where: str | None = None, slide: int = 1, key: str = "`src`") -> Finalise:
    """An aggregate over windows of n intervals."""
    scan = Selection(Scan("packets", Attribute("ts", SqlType("TIMESTAMP"))), where)
    call = decompose(function, "`length`", SqlType("INT"), where)
    window = SlidingWindow(n * S, slide * S)
    aggregate = WindowAggregate(scan, window, (Key(key, SqlType("STRING")),), (call,))
    return Finalise(aggregate, (Output("a", exp.column("a0"), call.result),))


def used_by(*plans: Finalise, kind: SynopsisKind = BASIC, answers_early: bool = False) -> SynopsisUse:
    """A synopsis with the users q0, q1, …, kept from the start."""
    cuts = wanted_cuts(plans)
    assert cuts is not None
    schedule = CutSchedule.of(cuts)
    named = tuple((f"q{i}", one) for i, one in enumerate(plans))
    plan = SynopsisPlan(1, plans[0].input.keys, schedule, named, "ts", style_of(plans[0].window, schedule))
    since = dict.fromkeys((a.id for a in plan.accumulators), None)
    return SynopsisUse(plan, since, COLUMNS, 4, answers_early, kind=kind)


def new(plan: Finalise) -> Applicant:
    return Applicant(NEW, plan)


def says(name: str, plan: Finalise, use: SynopsisUse) -> Verdict:
    """The verdict of a rule about a new query."""
    return rule(name).decide(new(plan), use)


def test_rule_table() -> None:
    names = ["SS1", "CS1", "CS2", "SS2", "CS3", "SS3", "CS4", "CS5", "SS4", "CS6", "CS7", "CS8"]
    assert [one.name for one in RULES] == names
    assert [one.decide.__name__ for one in RULES] == [name.lower() for name in names]
    assert {one.section for one in RULES if one.name in ("SS3", "CS4", "CS5")} == {"8.3.2"}
    assert all(one.text.endswith((".", ".)")) for one in RULES)


@pytest.mark.parametrize("name", [one.name for one in RULES])
def test_verdicts_of_each_rule(name: str) -> None:
    use, one = used_by(query("SUM"), query("AVG")), new(query("MAX"))
    verdict = verdict_of(name, one, use)
    assert verdict.holds == (not verdict.reason)
    assert verdict_of(name, one, use, {name}) == Verdict(f"the rule {name} is disabled")


def test_ss1_windows_of_any_length_on_the_same_cells() -> None:
    use = used_by(query("SUM", 8))
    assert all(says("SS1", query(function, n), use).holds for function in ("SUM", "MAX") for n in (1, 7, 8, 9))
    assert says("SS1", query("SUM", 4, where=IS_TCP), use).holds
    assert says("SS1", query("SUM", key="`dst`"), use) == Verdict("another GROUP BY")
    alone = Applicant("q0", use.plan.queries[0][1], is_user=True)
    assert rule("SS1").decide(alone, use) == Verdict("no other query uses the synopsis")


def test_ss1_or_ss2_off() -> None:
    use, average = used_by(query("SUM")), new(query("AVG", 6))
    assert may_join(average, use).holds and may_join(average, use, {"SS4", "CS2"}).holds
    assert may_join(average, use, {"SS1"}).reason == "the rule SS1 is disabled"
    assert may_join(average, use, {"SS2"}).reason == "the rule SS2 is disabled"
    assert may_join(new(query("AVG", key="`dst`")), use, {"SS1", "SS2"}).reason == "another GROUP BY"


def test_cs1_one_window_length_cs2_any() -> None:
    """A running or interval synopsis is probed once for one length, a basic interval synopsis once for all."""
    for kind in (RUNNING, INTERVAL):
        use = used_by(query("COUNT", 5), kind=kind)
        assert says("CS1", query("SUM", 5), use).holds
        assert says("CS1", query("SUM", 6), use) == Verdict("no other query has a window of this length")
        assert says("CS2", query("SUM", 5), use) == Verdict("the synopsis is not a basic interval synopsis")
    use = used_by(query("COUNT", 5))
    assert says("CS2", query("SUM", 6), use).holds
    assert says("CS1", query("SUM", 5), use) == Verdict("the synopsis is a basic interval synopsis")
    assert rule("CS2").decide(use.user("q0"), use) == Verdict("no other query uses the synopsis")


def test_ss2_and_cs3_avg_from_sum_and_count() -> None:
    use, average = used_by(query("SUM", 6), query("COUNT", 6)), query("AVG", 6)
    assert says("SS2", average, use).holds and says("CS3", average, use).holds
    assert says("SS2", query("AVG", 7), use).holds and not says("CS3", query("AVG", 7), use).holds
    assert not says("SS2", average, used_by(query("COUNT", 6))).holds, "no sum"
    assert not says("SS2", query("AVG", 6, where=IS_TCP), use).holds, "of other tuples"
    assert says("SS2", query("SUM", 6), use) == Verdict("the query has no AVG")
    alone = used_by(average, query("MAX", 6))
    assert not rule("SS2").decide(alone.user("q0"), alone).holds, "its own sum and count"


def test_no_query_joins_windows() -> None:
    use = used_by(query("SUM"))
    assert {says(name, query("SUM"), use).reason for name in ("SS3", "CS4", "CS5")} == {"no query joins windows"}


def test_covers_of_q1_to_q6() -> None:
    assert concatenation([TCP, UDP]) == EITHER and TCP.excludes(UDP), "a disjoint cover"
    assert concatenation([TCP, USER]) == TCP_OR_USER and not TCP.excludes(USER), "a cover that is not disjoint"
    assert TCP.terms < EITHER.terms, "a subcover of Q3, and Q3 is a supercover of Q1"


def test_ss4_q3_adds_q1_and_q2() -> None:
    q1, q2, q3 = (query("SUM", where=one) for one in (IS_TCP, IS_UDP, f"{IS_TCP} OR {IS_UDP}"))
    use, asks = used_by(q1, q2), new(q3)
    assert rule("SS4").decide(asks, use).holds
    assert all(len(one.added) == 2 and not one.subtracted for one in use.derived(asks))
    assert use.derived(asks) is use.derived(asks), "searched for once"
    assert "do not cover" in says("SS4", q3, used_by(q1)).reason, "a subcover is not enough"


def test_ss4_q1_is_q3_less_q2_where_sums_are_subtracted() -> None:
    q1, q2, q3 = (query("SUM", where=one) for one in (IS_TCP, IS_UDP, f"{IS_TCP} OR {IS_UDP}"))
    use, asks = used_by(q3, q2), new(q1)
    assert rule("SS4").decide(asks, use).holds
    assert {(len(one.added), len(one.subtracted)) for one in use.derived(asks)} == {(1, 1)}
    assert not says("SS4", q1, used_by(q3)).holds


def test_ss4_q6_is_the_maximum_of_q4_and_q5() -> None:
    parts, both = (IS_TCP, IS_USER), f"{IS_TCP} OR {IS_USER}"
    assert says("SS4", query("MAX", where=both), used_by(*(query("MAX", where=one) for one in parts))).holds
    overlapping = used_by(*(query("SUM", where=one) for one in parts))
    sums = {one.accumulator for one in overlapping.derived(new(query("SUM", where=both))) if not one.is_sign}
    assert not sums, "overlap would be counted twice"


def test_cs6_needs_the_same_windows_cs7_does_not() -> None:
    """Q4 and Q5 over 10s, Q6 over 8s: with basic intervals the walk to 10s passes the maximum over 8s (section 8.4)."""
    parts = [query("MAX", 10, where=one) for one in (IS_TCP, IS_USER)]
    shorter, alike = (query("MAX", n, where=f"{IS_TCP} OR {IS_USER}") for n in (8, 10))
    for kind in (RUNNING, INTERVAL):
        use = used_by(*parts, kind=kind)
        assert not says("CS6", shorter, use).holds and says("CS6", alike, use).holds
        assert not says("CS7", alike, use).holds
    use = used_by(*parts)
    assert says("CS7", shorter, use).holds and not says("CS6", alike, use).holds


def test_cs8_a_longer_period_shares_the_answers() -> None:
    fine, coarse = query("SUM", 10, slide=2), query("SUM", 10, slide=6)
    assert says("CS8", coarse, used_by(fine)).holds and not says("CS8", fine, used_by(coarse)).holds
    use = used_by(query("SUM", 10, slide=5), fine, coarse)
    assert use.leader(use.user("q2")) == "q1" == use.leader(new(coarse))
    assert not says("CS8", query("SUM", 20, slide=6), used_by(fine)).holds
    assert not says("CS8", query("MAX", 10, slide=6), used_by(fine)).holds
    assert "answered early" in says("CS8", coarse, used_by(fine, answers_early=True)).reason


def test_leaders_by_period_and_phase() -> None:
    def led(*periods: tuple[int, int]) -> list[int | None]:
        return leaders([PeriodicAnswers("SELECT", slide, phase) for slide, phase in periods])

    assert led((2, 0), (6, 0)) == [None, 0] and led((5, 0), (2, 0), (4, 0)) == [None, None, 1]
    assert led((4, 0), (6, 0)) == [None, None]
    assert led((2, 0), (6, 1)) == [None, None] and led((2, 4), (6, 2)) == [None, 0]
    assert leaders([PeriodicAnswers("a", 2), None, PeriodicAnswers("b", 4)]) == [None, None, None]


def test_computed_together_with_rules_off() -> None:
    use = used_by(query("SUM", 4), query("AVG", 4), query("AVG", 8), query("MAX", 4))
    names = ["q0", "q1", "q2", "q3"]
    for off in ((), ("SS1", "SS4", "CS8"), ("CS1",), ("CS7",)):
        assert computed_together(names, use, off) == [[0, 1, 2, 3]]
    assert computed_together(names, use, {"CS3"}) == [[0, 2, 3], [1]]
    assert computed_together(names, use, {"CS2"}) == [[0], [1], [2], [3]]


def test_relevant_synopses_hold_the_right_tuples() -> None:
    """For random predicates over two attributes with NULLs, added minus subtracted tuples are the query's."""
    rng = random.Random(4)
    tuples = [(a, u) for a in ("TCP", "UDP", "ICMP", None) for u in ("U", "V", None)]
    atoms = [f"`protocol` = '{a}'" for a in ("TCP", "UDP", "ICMP")] + ["`user` = 'U'", "`user` IS NULL"]

    def passes(text: str) -> list[bool]:
        out = []
        for protocol, user in tuples:
            truth = {
                **{f"`protocol` = '{a}'": protocol == a for a in ("TCP", "UDP", "ICMP")},
                "`user` = 'U'": user == "U",
                "`user` IS NULL": user is None,
            }
            out.append(any(all(truth[atom] for atom in term.split(" AND ")) for term in text.split(" OR ")))
        return out

    def predicate() -> str:
        terms = [" AND ".join(rng.sample(atoms, rng.choice([1, 1, 2]))) for _ in range(rng.randrange(1, 4))]
        return " OR ".join(terms)

    found = 0
    for _ in range(600):
        texts, query = [predicate() for _ in range(5)], predicate()
        candidates = [Candidate(p(text), text) for text in texts]
        for sensitive, subtractable in ((True, True), (True, False), (False, False)):
            one = relevant(p(query), candidates, sensitive, subtractable)
            if one is None:
                continue
            found += 1
            added, off = [passes(t) for t in one.added], [passes(t) for t in one.subtracted]
            counts = [sum(col) for col in zip(*added, strict=True)]
            if sensitive:
                less = [sum(col) for col in zip(*off, strict=True)] if off else [0] * len(counts)
                assert [a - b for a, b in zip(counts, less, strict=True)] == [int(x) for x in passes(query)]
            else:
                assert [bool(c) for c in counts] == passes(query)
    assert found > 50
