"""Worked examples of Golab's dissertation, sections 3.2–3.5, with the corrections of the documents' list of misprints."""

from __future__ import annotations

import pytest
from support.plan_builder import Maker, join, keep, outer, plan, semi

from windrow.patterns import UpdatePattern, annotate, why
from windrow.plan.algebra.nodes import Distinct, Lifetime, Node, OutputRows, OutputWindow, Streaming, TopRows, ToStream

MONOTONIC, WKS, WK, STR = UpdatePattern


def patterns(node: Node) -> tuple[UpdatePattern, UpdatePattern]:
    found = annotate(node)
    return found.state, found.output


def test_order() -> None:
    assert MONOTONIC < WKS < WK < STR
    assert [str(one) for one in UpdatePattern] == ["MONOTONIC", "WKS", "WK", "STR"]


def test_figure_3_1_selection() -> None:
    assert patterns(keep(Maker().window(), "x = 1")) == (WKS, WKS)


def test_figure_3_1_join() -> None:
    m = Maker()
    assert patterns(join(m.window("s"), m.window("r"))) == (WK, WK)


def test_figure_3_1_distinct() -> None:
    assert patterns(Distinct(Maker().window())) == (WK, WK)


def test_figure_3_1_group_by() -> None:
    m = Maker()
    assert patterns(m.group(m.window(), ("k",), total="SUM x")) == (STR, STR)


@pytest.mark.parametrize(
    "length, internal, output",
    [(5, True, MONOTONIC), (5, False, STR), (None, True, MONOTONIC), (None, False, STR)],
    ids=["internal sliding", "external sliding", "internal unbounded", "external unbounded"],
)
def test_figure_3_2_sum_over_four_windows(length: int | None, internal: bool, output: UpdatePattern) -> None:
    m = Maker()
    assert patterns(m.group(m.window(length=length, internal=internal), total="SUM x")) == (STR, output)


def test_figure_3_3_join_of_internal_windows() -> None:
    m = Maker()
    inner = join(m.window("s", internal=True), m.window("r", internal=True))
    found = annotate(plan(join(inner, m.window("q", internal=True))))
    assert (found.state, found.output) == (WK, MONOTONIC)
    assert (found.at((0,)).state, found.at((0,)).output) == (WK, MONOTONIC)
    assert (found.at((0, 1)).state, found.at((0, 1)).output) == (WKS, MONOTONIC)
    assert found.at((0, 1)).path == (0, 1) and found.at((0, 1)).node == inner.inputs[1]
    assert [one.path for one in found.walk()] == [(0, 0), (0, 1), (0,), (1,), ()]


def test_figure_3_5_selections_and_join() -> None:
    m = Maker()
    found = annotate(join(keep(m.window("s"), "x = 1"), keep(m.window("r"), "x = 2")))
    assert [one.state for one in found.walk()] == [WKS, WKS, WKS, WKS, WK]


def test_section_3_4_sum_of_sums() -> None:
    """SELECT SUM(a) FROM (SELECT SUM(a) FROM s [RANGE 6 SLIDE 6 INTERNAL]) [RANGE 60]"""
    m = Maker()
    inner = m.group(m.window(length=6, internal=True), total="SUM x")
    windowed = OutputWindow(inner, Lifetime(60))
    assert patterns(windowed) == (WKS, WKS)
    assert patterns(m.group(windowed, total="SUM total")) == (STR, STR)


@pytest.mark.parametrize(
    "lengths, internal, expected",
    [
        ((10, 10), (False, False), (WKS, WKS)),
        ((10, 5), (False, False), (WK, WK)),
        ((10, 5), (True, True), (WK, MONOTONIC)),
        ((10, 10), (True, False), (WKS, WK)),
        ((10, None), (False, False), (WK, WK)),
        ((None, None), (False, False), (MONOTONIC, MONOTONIC)),
    ],
)
def test_merge_union(
    lengths: tuple[int, int], internal: tuple[bool, bool], expected: tuple[UpdatePattern, ...]
) -> None:
    m = Maker()
    both = [m.window("s", length, internal=one) for length, one in zip(lengths, internal, strict=True)]
    assert patterns(m.union(*both)) == expected


def test_merge_union_of_selections_and_of_join() -> None:
    m = Maker()
    assert patterns(m.union(keep(m.window(), "x = 1"), m.project(m.window("r"), k="k", x="x", y="y"))) == (WKS, WKS)
    joined = m.project(join(m.window(), m.window("r")), k="k", x="x", y="y")
    assert patterns(m.union(joined, m.window())) == (WK, WK)


@pytest.mark.parametrize(
    "lengths, internal, expected",
    [
        ((10, 10), (False, True), (WK, WK)),  # printed as weakest: corrected
        ((10, None), (False, False), (WK, WK)),
        ((10, None), (True, False), (WK, MONOTONIC)),
        ((None, None), (False, False), (MONOTONIC, MONOTONIC)),
    ],
)
def test_join(lengths: tuple[int, int], internal: tuple[bool, bool], expected: tuple[UpdatePattern, ...]) -> None:
    m = Maker()
    both = [m.window("s", length, internal=one) for length, one in zip(lengths, internal, strict=True)]
    assert patterns(join(*both)) == expected


def test_distinct_over_other_patterns() -> None:
    m = Maker()
    assert patterns(Distinct(join(m.window(), m.window("r")))) == (WK, WK)
    assert patterns(Distinct(m.window(length=None))) == (MONOTONIC, MONOTONIC)
    assert patterns(Distinct(m.window(internal=True))) == (WK, WK)
    assert patterns(m.group(Distinct(m.window(internal=True)), total="SUM x")) == (STR, STR)


def test_limit_is_strict_even_over_internal_windows() -> None:
    assert patterns(TopRows(Maker().window(internal=True), (), 3)) == (STR, STR)


@pytest.mark.parametrize("kind", Streaming)
def test_relation_to_stream(kind: Streaming) -> None:
    m = Maker()
    assert patterns(ToStream(m.group(m.window(), total="SUM x"), kind)) == (MONOTONIC, MONOTONIC)


def test_last_results_are_strict_and_of_what_only_grows() -> None:
    m = Maker()
    grows = join(m.window("s", internal=True), m.window("r", internal=True))
    assert patterns(OutputRows(grows, 3)) == (STR, STR) and "later ones come" in why(OutputRows(grows, 3))
    restored = ToStream(m.window(), Streaming.RSTREAM, restores=True)
    assert patterns(restored) == (MONOTONIC, MONOTONIC) and why(restored).startswith("RSTREAM RESTORE")
    with pytest.raises(ValueError, match="WKS"):
        annotate(OutputRows(m.window(), 3))


def test_strict_input_makes_join_strict() -> None:
    m = Maker()
    assert patterns(join(m.group(m.window(), ("k",), n="COUNT"), m.window("r"))) == (STR, STR)


@pytest.mark.parametrize("is_anti, told", [(True, "a matching row comes"), (False, "its last match goes")])
def test_negation(is_anti: bool, told: str) -> None:
    m = Maker()
    node = semi(m.window("s"), m.window("r"), is_anti=is_anti)
    assert patterns(node) == (STR, STR) and told in why(node)


def test_other_rows_that_are_withdrawn() -> None:
    m = Maker()
    assert patterns(outer(m.window("s"), m.window("r"))) == (STR, STR)
    assert patterns(m.set_operation(m.window("s"), m.window("r"))) == (STR, STR)
    assert patterns(m.rows_window()) == (STR, STR)
    assert patterns(join(m.rows_window(), m.window("r"))) == (STR, STR)
    assert patterns(m.union(m.rows_window(), m.window("r"))) == (STR, STR)


def test_window_over_output() -> None:
    m = Maker()
    joined = join(m.window(internal=True), m.window("r", internal=True))
    assert patterns(OutputWindow(joined, Lifetime(7))) == (WKS, WKS)
    assert patterns(OutputWindow(joined, Lifetime(None))) == (MONOTONIC, MONOTONIC)
    assert patterns(m.union(OutputWindow(joined, Lifetime(7)), OutputWindow(joined, Lifetime(7)))) == (WKS, WKS)


def test_window_over_output_that_is_not_monotonic() -> None:
    m = Maker()
    joined = join(m.window(), m.window("r"))
    with pytest.raises(ValueError, match="an output that is WK: .*first of its parts"):
        annotate(OutputWindow(joined, Lifetime(7)))


def test_why_names_the_rule() -> None:
    m = Maker()
    assert "different lengths" in why(m.union(m.window(length=3), m.window(length=4)))
    assert why(Distinct(m.window())).startswith("a value of DISTINCT is renewed")
    assert "stream" not in why(m.window("packets")) and "packets" in why(m.window("packets"))
