"""The twelve rules of 001_3bbbc8a20ffc7252.txt, 8.3 and 8.4, each on its example in the text."""

from __future__ import annotations

import itertools
import random

import pytest

from windrow.optimizer.covers import (
    Candidate,
    is_cover,
    is_disjoint_cover,
    is_subcover,
    is_supercover,
    relevant,
)
from windrow.optimizer.predicates import TRUE, Predicate, predicate_of
from windrow.optimizer.shapes import Asked, Shape, SynopsisKind
from windrow.optimizer.sharing import SHARING_RULES, relevant_shapes, rule
from windrow.types import SqlType

COLUMNS = (("protocol", SqlType("STRING")), ("user", SqlType("STRING")), ("length", SqlType("INT")))
SUM, COUNT, MAX = "sum(length)", "count(length)", "max(length)"
S = 60


def p(text: str) -> Predicate:
    return predicate_of(text, COLUMNS)


TCP, UDP, USER = p("`protocol` = 'TCP'"), p("`protocol` = 'UDP'"), p("`user` = 'U'")
EITHER = p("`protocol` = 'TCP' OR `protocol` = 'UDP'")
TCP_OR_USER = p("`user` = 'U' OR `protocol` = 'TCP'")


def shape(kind: SynopsisKind, data: str = SUM, predicate: Predicate = TRUE, b: int = 8, g: int = 0) -> Shape:
    return Shape(kind, S, b, frozenset(data.split()), g, predicate)


def asked(data: str, *windows: int, predicate: Predicate = TRUE, **more: bool) -> Asked:
    return Asked(frozenset(data.split()), tuple(n * S for n in windows), predicate, **more)  # type: ignore[arg-type]


RUNNING, INTERVAL, BASIC = SynopsisKind.RUNNING, SynopsisKind.INTERVAL, SynopsisKind.BASIC_INTERVAL
BIJ, IJ, RJ = SynopsisKind.BIJ, SynopsisKind.IJ, SynopsisKind.RJ


def test_the_table_is_that_of_the_text() -> None:
    names = ["SS1", "CS1", "CS2", "SS2", "CS3", "SS3", "CS4", "CS5", "SS4", "CS6", "CS7", "CS8"]
    assert [one.name for one in SHARING_RULES] == names
    assert {one.section for one in SHARING_RULES if one.name in ("SS3", "CS4", "CS5")} == {"8.3.2"}
    assert rule("SS3").applies == {BIJ, IJ, RJ} == rule("CS4").applies | rule("CS5").applies


@pytest.mark.parametrize("kind", [RUNNING, INTERVAL, BASIC])
def test_ss1_windows_of_up_to_b_intervals(kind: SynopsisKind) -> None:
    holds = rule("SS1").holds
    assert holds([shape(kind)], [asked(SUM, 1), asked(SUM, 7), asked(SUM, 8)])
    assert not holds([shape(kind)], [asked(SUM, 9)])
    assert not holds([shape(kind)], [Asked(frozenset({SUM}), (S // 2,))])
    assert not holds([shape(kind)], [asked(MAX, 2)])
    assert not holds([shape(kind)], [asked(SUM, 2, predicate=TCP)])


def test_cs1_count_distinct_and_top_k_on_one_window_cs2_on_any() -> None:
    """Both need the frequency counters of the interval; a running or interval synopsis is probed once for one length."""
    distinct, top = asked("counters(src)", 5), asked("counters(src)", 5)
    for kind in (RUNNING, INTERVAL):
        counters = shape(kind, "counters(src)")
        assert rule("CS1").holds([counters], [distinct, top])
        assert not rule("CS1").holds([counters], [distinct, asked("counters(src)", 6)])
        assert not rule("CS2").holds([counters], [distinct, top])
    basic = shape(BASIC, "counters(src)")
    assert rule("CS2").holds([basic], [distinct, asked("counters(src)", 6)])
    assert not rule("CS1").holds([basic], [distinct, top])


def test_ss2_and_cs3_avg_from_sum_and_count() -> None:
    sums, counts = shape(RUNNING, SUM, b=8), shape(RUNNING, COUNT, b=6)
    average = asked(f"{SUM} {COUNT}", 6)
    assert rule("SS2").holds([sums, counts], [average])
    assert not rule("SS2").holds([sums, counts], [asked(f"{SUM} {COUNT}", 7)]), "n ≤ b1, b2"
    shifted = Shape(RUNNING, S, 8, frozenset({COUNT}), phase=S // 2)
    assert not rule("SS2").holds([sums, shifted], [average]), "not updated at the same times"
    assert not rule("SS2").holds([sums, Shape(RUNNING, 2 * S, 8, frozenset({COUNT}))], [average])
    assert rule("CS3").holds([sums, counts], [asked(SUM, 6), asked(COUNT, 6), average])
    assert not rule("CS3").holds([sums, counts], [asked(SUM, 5), asked(COUNT, 6), average])
    assert not rule("CS3").holds([sums, counts], [asked(SUM, 6), average])


@pytest.mark.parametrize("kind", [BIJ, IJ, RJ])
def test_ss3_joins_of_windows(kind: SynopsisKind) -> None:
    """b = 8: a (7s, 7s)-join is read from any; a (7s, 8s)-join only where the oldest intervals are generalized."""
    holds = rule("SS3").holds
    plain, generalized = shape(kind), shape(kind, g=2)
    assert all(holds([plain], [asked(SUM, n, n)]) for n in range(1, 9))
    assert not holds([plain], [asked(SUM, 7, 8)]) and not holds([plain], [asked(SUM, 9, 9)])
    found = {pair for pair in itertools.product(range(1, 10), repeat=2) if holds([generalized], [asked(SUM, *pair)])}
    same = {(n, n) for n in range(1, 9)}
    assert found == same | set(itertools.product((6, 7, 8), repeat=2))
    assert not rule("SS1").holds([generalized], [asked(SUM, 7, 7)]) and not holds([generalized], [asked(SUM, 7)])


def test_cs4_and_cs5_joins_computed_together() -> None:
    for kind in (IJ, RJ):
        assert rule("CS4").holds([shape(kind, g=2)], [asked(SUM, 7, 8), asked(SUM, 7, 8)])
        assert not rule("CS4").holds([shape(kind, g=2)], [asked(SUM, 7, 8), asked(SUM, 8, 7)])
        assert not rule("CS5").holds([shape(kind, g=2)], [asked(SUM, 7, 8)])
    assert rule("CS5").holds([shape(BIJ, g=2)], [asked(SUM, 7, 8), asked(SUM, 8, 7), asked(SUM, 3, 3)])
    assert not rule("CS5").holds([shape(BIJ, g=1)], [asked(SUM, 6, 8)])
    with pytest.raises(ValueError, match="g is from 0"):
        shape(BIJ, g=8)


def test_the_definitions_on_q1_to_q6() -> None:
    assert is_cover(EITHER, [TCP, UDP]) and is_disjoint_cover(EITHER, [TCP, UDP])
    assert is_subcover(EITHER, [TCP]) and not is_cover(EITHER, [TCP])
    assert is_cover(TCP_OR_USER, [TCP, USER]) and not is_disjoint_cover(TCP_OR_USER, [TCP, USER])
    assert is_supercover(TCP, [EITHER]) and is_supercover(UDP, [EITHER])
    assert EITHER.is_disjoint and not TCP_OR_USER.is_disjoint
    assert not is_cover(TCP, []) and not is_subcover(TCP, [])


def test_ss4_q3_adds_q1_and_q2() -> None:
    q1, q2 = shape(BASIC, SUM, TCP), shape(BASIC, SUM, UDP)
    q3 = asked(SUM, 4, predicate=EITHER)
    found = relevant_shapes([q1, q2], q3)
    assert found is not None and set(found.added) == {q1, q2} and not found.subtracted
    assert rule("SS4").holds([q1, q2], [q3])
    assert not rule("SS4").holds([q1], [q3]), "a subcover is not enough"
    assert not rule("SS4").holds([q1, shape(BASIC, SUM, UDP, b=3)], [q3]), "one is too short"


def test_ss4_q1_is_q3_less_q2_where_sums_are_subtracted() -> None:
    q3, q2 = shape(BASIC, SUM, EITHER), shape(BASIC, SUM, UDP)
    found = relevant_shapes([q3, q2], asked(SUM, 4, predicate=TCP, is_subtractable=True))
    assert found is not None and found.added == (q3,) and found.subtracted == (q2,)
    assert relevant_shapes([q3, q2], asked(SUM, 4, predicate=TCP)) is None
    assert relevant_shapes([q3], asked(SUM, 4, predicate=TCP, is_subtractable=True)) is None


def test_ss4_q6_is_the_maximum_of_q4_and_q5() -> None:
    q4, q5 = shape(BASIC, MAX, TCP), shape(BASIC, MAX, USER)
    assert rule("SS4").holds([q4, q5], [asked(MAX, 4, predicate=TCP_OR_USER, is_sensitive=False)])
    assert not rule("SS4").holds([q4, q5], [asked(MAX, 4, predicate=TCP_OR_USER)]), "overlap would be counted twice"


def test_cs6_needs_the_same_windows_cs7_does_not() -> None:
    """Q4 and Q5 over 10s, Q6 over 8s: with basic intervals the maximum over 8s is saved along the way (8.4)."""
    queries = [
        asked(MAX, 10, predicate=TCP, is_sensitive=False),
        asked(MAX, 10, predicate=USER, is_sensitive=False),
        asked(MAX, 8, predicate=TCP_OR_USER, is_sensitive=False),
    ]
    for kind in (RUNNING, INTERVAL):
        shapes = [shape(kind, MAX, one, b=10) for one in (TCP, USER)]
        assert not rule("CS6").holds(shapes, queries)
        assert rule("CS6").holds(shapes, [*queries[:2], asked(MAX, 10, predicate=TCP_OR_USER, is_sensitive=False)])
        assert not rule("CS7").holds(shapes, queries)
    shapes = [shape(BASIC, MAX, one, b=10) for one in (TCP, USER)]
    assert rule("CS7").holds(shapes, queries) and not rule("CS6").holds(shapes, queries)


def test_cs8_a_longer_period_shares_the_answers() -> None:
    def query(slide: int, phase: int = 0, text: str = "SELECT", window: int = 10) -> Asked:
        return Asked(frozenset({SUM}), (window,), slide=slide, phase=phase, text=text)

    holds = rule("CS8").holds
    assert holds([], [query(2), query(6)]) and holds([], [query(5), query(2), query(4)])
    assert not holds([], [query(6), query(2)]) and not holds([], [query(4), query(6)])
    assert not holds([], [query(2), query(6, phase=1)]) and holds([], [query(2, phase=4), query(6, phase=2)])
    assert not holds([], [query(2), query(6, text="another")]) and not holds([], [query(2), query(6, window=20)])


def test_relevant_sets_hold_the_right_tuples() -> None:
    """Random predicates over two attributes with NULLs: what is added, less what is subtracted, is the query's."""
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
