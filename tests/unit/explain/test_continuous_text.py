"""EXPLAIN of small plans: names that users know, patterns on edges, variants, layouts, rules."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from support.bound_plans import bind
from support.plan_builder import Maker, join, keep, over, plan, semi

from windrow.explain.continuous import explain_plan
from windrow.explain.drawing import COLOURS, DrawnPlan, svg_text
from windrow.explain.mermaid import mermaid_text
from windrow.explain.names import ColumnNames
from windrow.explain.operators import chosen_layout_text
from windrow.explain.tree import ExplainedPlan, bytes_text, count_text, seconds_text
from windrow.operators.layouts.parts import Departures, LayoutUse
from windrow.operators.tables.metering import PlanMeter
from windrow.optimizer.execution import DIRECT, NEGATIVE, executed
from windrow.optimizer.facts import Facts, StreamFacts
from windrow.optimizer.pipeline import OptimizedPlan, optimize
from windrow.patterns import UpdatePattern
from windrow.plan.algebra.nodes import Distinct, Node, OutputWindow, Streaming, TopRows, ToStream
from windrow.plan.algebra.nodes import Lifetime as Life
from windrow.plan.nodes import Order
from windrow.types import number_text


def explained(node: Node, **how: bool) -> ExplainedPlan:
    return explain_plan("q", OptimizedPlan(plan(node), ()), **how)


def lines(node: Node) -> list[str]:
    """The lines of the text without the bars of the tree."""
    return [line.strip("│└├─ ") for line in explained(node).text().splitlines()]


def test_tree_of_a_join() -> None:
    m = Maker()
    text = explained(join(m.window("orders"), m.window("clicks", length=5))).text().splitlines()
    assert text[:5] == [
        "Query q: continuous, a tick every 1, home: driver",
        "└─ WK ─ Join on orders.k = clicks.k",
        "   │  why    a join result expires with the first of its parts, which is known, but not first in, first out",
        "   │  how    hash join on equal keys; new rows of orders probe clicks; new rows of clicks probe orders",
        "   │  reads  earlier rows of orders and clicks from the window stores",
    ]
    assert text[6] == "   ├─ WKS ─ Window orders [RANGE 10]"
    assert "   └─ WKS ─ Window clicks [RANGE 5]" in text
    assert "         keeps  window store: FIFO, tuples of 5" in text


def test_self_join_numbers_its_windows() -> None:
    m = Maker()
    assert "WK ─ Join on s#1.k = s#2.k" in lines(join(m.window("s"), m.window("s")))


def test_only_ambiguous_names_are_qualified() -> None:
    m = Maker()
    both = join(m.window("a", columns=("k", "x")), m.window("b", columns=("k", "y")))
    names = ColumnNames(both)
    assert [names.column(column) for column in both.schema] == ["a.k", "x", "b.k", "y"]
    assert names.expression(over(both, "x + y > 3")) == "x + y > 3"


def test_join_of_joins_names_its_inputs() -> None:
    m = Maker()
    inner = Distinct(join(m.window("a", columns=("k",)), m.window("b", columns=("k",))))
    text = "\n".join(lines(join(inner, m.window("c", columns=("k",)))))
    assert "Join on a.k = c.k" in text
    assert "keeps  rows of (a, b): calendar by expiration" in text
    assert "reads  earlier rows of c from the window stores" in text


def test_group_by_tells_its_aggregates_apart() -> None:
    m = Maker()
    found = lines(m.group(m.window(), ("k",), total="SUM x", most="MAX y"))
    assert "STR ─ GroupBy by k: total, most" in found
    assert "how    total by what came and went; most recomputed for the groups that change" in found
    assert "keeps  groups: newest per key" in found
    assert "keeps  partial aggregates: calendar by expiration" in found


def test_group_by_without_keys() -> None:
    m = Maker()
    assert "STR ─ GroupBy all rows: n" in lines(m.group(m.window(), n="COUNT"))


def test_internal_window_shows_both_patterns() -> None:
    found = lines(Maker().window(internal=True))
    assert "WKS (shown MONOTONIC) ─ Window s [RANGE 10 INTERNAL]" in found


def test_window_with_offset_and_condition() -> None:
    found = lines(Maker().window(length=None, offset=3, predicate="`x` > 1"))
    assert "MONOTONIC ─ Window s [UNBOUNDED OFFSET 3] WHERE x > 1" in found


def test_unary_operators() -> None:
    m = Maker()
    node = keep(m.project(m.window(), twice="x + x"), "twice > 2")
    found = lines(TopRows(node, (Order(over(node, "twice"), True, False),), 3))
    assert {"STR ─ TopRows ORDER BY twice DESC LIMIT 3", "WKS ─ Filter twice > 2"} <= set(found)
    assert "WKS ─ Project x + x AS twice" in found
    assert "keeps  rows shown: newest per key" in found


def test_distinct_union_and_streams() -> None:
    m = Maker()
    union = m.union(m.window("a", columns=("k",)), m.window("b", length=3, columns=("k",)))
    found = lines(OutputWindow(ToStream(Distinct(union), Streaming.ISTREAM), Life(7)))
    heads = [line for line in found if " ─ " in line]
    assert heads[:4] == [
        "WKS ─ Window over the results [RANGE 7]",
        "MONOTONIC ─ ISTREAM what came at every tick",
        "WK ─ Distinct k",
        "WK ─ UnionAll k",
    ]
    assert "keeps  results to be born: FIFO, in order of birth" in found
    assert "why   windows of different lengths are merged, so a later tuple may expire sooner" in found


def test_operators_over_rows_that_are_withdrawn() -> None:
    m = Maker()
    groups = m.group(m.window("a"), ("k",), most="MAX x")
    joined = join(m.window("b"), groups)
    found = lines(m.group(Distinct(joined), ("k",), least="MIN x"))
    assert "keeps  rows of a: by value and end, counted" in found
    assert "how    counts the rows of each value" in found
    calendar = "calendar by expiration, with tombstones, as long as few rows are withdrawn before their end"
    assert f"keeps  live rows: {calendar}" in found
    assert "keeps  live rows: by value and end, counted" in found
    assert "Output: STR, so a row may be withdrawn by '-' before its exp" in explained(joined).more
    assert "Output: STR, so a row that ends is withdrawn by '-'" in explained(groups).more


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (
            LayoutUse(1, 0, Departures(20, 180)),
            "calendar by expiration, with tombstones, since 10% of the rows that left",
        ),
        (LayoutUse(0, 2, Departures(120, 80)), "by value and end, counted, since 60% of the rows that left"),
        (LayoutUse(1, 1, Departures(120, 80)), "by value and end, counted, or in tasks with few: calendar"),
        (LayoutUse(1, 0, Departures(3, 4)), "with tombstones, since fewer than 100 rows have left"),
        (LayoutUse(0, 1), "by value and end, counted, as chosen before"),
    ],
)
def test_layouts_tell_why_they_were_chosen(use: LayoutUse, text: str) -> None:
    assert text in chosen_layout_text(use)


def test_strategies_are_named() -> None:
    m = Maker()
    root = Distinct(m.window("a"))
    negative, direct = (explained(executed(plan(root), how).root) for how in (NEGATIVE, DIRECT))
    assert not any(line.startswith("Execution") for line in explained(root).more)
    assert any(line.startswith("Execution: negative (SET execution)") for line in negative.more)
    assert any(line.startswith("Execution: direct (SET execution)") for line in direct.more)
    found = lines(executed(plan(root), NEGATIVE).root)
    assert "STR ─ NegativeTuples of every row that expires" in found
    assert "keeps  rows of the window: calendar by expiration" in found
    found = lines(executed(plan(root), DIRECT).root)
    assert "keeps  rows of the input: list in order of arrival, scanned for expired rows" in found


def test_output_says_what_a_reader_gets() -> None:
    window = Maker().window()
    assert "Output: WKS, so every row says in exp when it ends, and none is withdrawn" in explained(window).more
    assert any("explicit_expiry is on" in line for line in explained(window, explicit_expiry=True).more)


def test_order_of_the_view() -> None:
    window = Maker().window()
    ordered = replace(plan(window), order=(Order(over(window, "x"), True, False),))
    assert "View: ORDER BY x DESC" in explain_plan("q", OptimizedPlan(ordered, ())).more
    assert not any(line.startswith("View:") for line in explained(window).more)


def test_rules() -> None:
    m = Maker()
    node = m.project(join(m.window("a"), m.window("b")), x="x")
    text = explain_plan("q", optimize(plan(node), off=("merge_joins",))).text()
    assert "  merge_joins         off (SET disabled_rules)" in text
    assert "  push_projections    windows keep" in text
    assert "  push_distinct       nothing to do" in text


# -- costs and candidates ----------------------------------------------------------------------------


FACTS: Facts = {"a": StreamFacts(2.0, {"k": 5.0}), "b": StreamFacts(1.0, {"k": 4.0})}


def verbose(node: Node, facts: Facts = FACTS) -> list[str]:
    text = explain_plan("q", optimize(plan(node), facts), verbose=True).text()
    return text[text.index("Costs") :].splitlines()


def test_costs_of_every_operator() -> None:
    m = Maker()
    assert verbose(join(m.window("a"), m.window("b"))) == [
        "Costs, in rows handled per point (measured of a, b):",
        "      8  the answer: inserting 8",
        "  4,041  Join a ⋈ b: processing 20.6, starting 4,020; gives 8 rows, 40 alive",
        "      1  StreamWindow b: inserting 1; gives 1 rows, 10 alive",
        "      2  StreamWindow a: inserting 2; gives 2 rows, 20 alive",
        "  4,052  in all",
        "Candidates: this plan alone; no rule that chooses by cost had a choice",
    ]


def test_candidates_of_a_negation_join() -> None:
    m = Maker()
    node = semi(join(m.window("a"), m.window("b")), m.window("c"), is_anti=True)
    found = verbose(node)
    assert found[0] == "Costs, in rows handled per point (measured of a, b; assumed of c):"
    assert any("withdrawing" in line and "withdrawn" in line for line in found)
    listed = found[found.index("Candidates, with what they cost per point where the rule chose:") + 1 :]
    assert listed[0].startswith("  place_negation: ")
    assert {re.sub(r"  \((chosen|as given).*", "", line).split(maxsplit=1)[1] for line in listed[1:]} == {
        "(a ⋈ b) ▷ c",
        "(a ▷ c) ⋈ b",
        "a ⋈ (b ▷ c)",
    }
    assert sum("chosen" in line for line in listed[1:]) == 1 == sum("as given" in line for line in listed[1:])


def test_candidates_of_a_join_order() -> None:
    m = Maker()
    facts = {**FACTS, "c": StreamFacts(90.0, {"k": 2.0})}
    found = verbose(join(m.window("c"), m.window("a"), m.window("b")), facts)
    at_join = next(
        i for i, line in enumerate(found) if line.startswith("  order_joins: chosen since it is the cheapest")
    )
    assert len(found[at_join + 1 :]) == 5 and found[at_join + 1].endswith("(chosen)")
    assert any(line.endswith("c ⋈ a ⋈ b  (as given)") for line in found[at_join:])


# -- pictures ----------------------------------------------------------------------------------------


def test_svg_has_a_box_per_operator_in_the_colour_of_its_edge() -> None:
    m = Maker()
    svg = DrawnPlan(explained(join(m.window("a"), m.window("b", predicate="`k` < '<&\"'")))).svg()
    tree = ElementTree.fromstring(svg)
    boxes = [g.find("{*}rect") for g in tree.iter("{http://www.w3.org/2000/svg}g")]
    strokes = [box.get("stroke") for box in boxes if box is not None]
    wks, wk, none = COLOURS[UpdatePattern.WKS][0], COLOURS[UpdatePattern.WK][0], COLOURS[None][0]
    assert sorted(map(str, strokes)) == sorted([none, wk, wks, wks])
    texts = ["".join(text.itertext()) for text in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Join", "on a.k = b.k", "WKS", "WK"} <= set(texts)
    assert "b [RANGE 10] WHERE k < '<&\"'" in texts


def test_svg_boxes_do_not_overlap() -> None:
    m = Maker()
    tree = ElementTree.fromstring(DrawnPlan(explained(join(join(m.window("a"), m.window("b")), m.window("c")))).svg())
    found = [g.find("{*}rect") for g in tree.iter("{http://www.w3.org/2000/svg}g")]
    boxes = [
        tuple(float(box.get(name, 0)) for name in ("x", "y", "width", "height")) for box in found if box is not None
    ]
    width, height = (float(tree.get(name, 0)) for name in ("width", "height"))
    for i, (x, y, w, h) in enumerate(boxes):
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
        for x2, y2, w2, h2 in boxes[i + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_several_plans_in_one_picture() -> None:
    one, other = (explained(Maker().window(stream)) for stream in ("a", "b"))
    assert svg_text([one, other]).count("<svg") == 1
    chart = mermaid_text([one, other])
    assert chart.count("flowchart") == 1 and chart.count("subgraph") == chart.count("\n  end") == 2


def test_mermaid_escapes() -> None:
    chart = mermaid_text([explained(Maker().window(predicate="`k` < '\"'"))])
    assert chart.splitlines()[:4] == [
        "flowchart BT",
        '  n0(["Query q: continuous, a tick every 1, home: driver"])',
        "  n1[\"<b>Window</b><br/>s [RANGE 10] WHERE k #lt; '#quot;'<br/>"
        'window store: FIFO, tuples until they are processed"]:::WKS',
        '  n1 -->|"WKS"| n0',
    ]


# -- numbers -----------------------------------------------------------------------------------------


def test_meter_adds_up() -> None:
    meter = PlanMeter()
    meter.add("0", 3, 100, 0.5)
    meter.add("0", 4, 20, 0.25)
    found = meter.of("0")
    assert (found.calls, found.rows, found.nbytes, found.seconds) == (2, 7, 120, 0.75)
    assert meter.of("0.0").calls == 0


def test_numbers() -> None:
    assert [bytes_text(n) for n in (1, 1023, 2048, 3 << 20)] == ["1 byte", "1,023 bytes", "2.0 KB", "3.0 MB"]
    assert [count_text(n, "row") for n in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]
    assert [seconds_text(s) for s in (0.00012, 0.25, 12.345)] == ["0.12 ms", "250 ms", "12.35 s"]


def test_windows_go_by_the_users_aliases() -> None:
    text = explain_plan(
        "q",
        OptimizedPlan(bind("SELECT x.k FROM s [NOW] AS x JOIN s [NOW] y ON x.k = y.k JOIN u [NOW] z ON z.k = x.k"), ()),
    ).text()
    assert "Window s AS x [RANGE" in text and "Window s AS y [RANGE" in text and "Window u [RANGE" in text
    assert "x.k = y.k" in text and "x.k = u.k" in text and "#" not in text


def test_sub_queries_of_exists_keep_their_names() -> None:
    inner = "SELECT 1 FROM s [RANGE 30 SECONDS] AS b WHERE b.k = last.k AND UPPER(b.name) = last.name"
    query = f"SELECT last.k FROM s [ROWS 1 PARTITION BY k] AS last WHERE NOT EXISTS ({inner})"
    for bound in (bind(query), optimize(bind(query)).plan):
        text = explain_plan("q", OptimizedPlan(bound, ())).text()
        assert "AntiJoin on last.k = b.k AND name = UPPER(name)" in text and "__" not in text
        assert "Window s AS last [ROWS 1 PARTITION BY last.k]" in text and "Window s AS b [RANGE 30 SECONDS]" in text


def test_one_answer_per_window_is_no_operator() -> None:
    window = "[RANGE 1 MINUTE SLIDE 1 MINUTE]"
    inner = f"SELECT k, COUNT(*) AS n FROM s {window} GROUP BY k"
    bound = bind(f"SELECT MAX(g.n) AS m FROM ({inner}) AS g")
    text = explain_plan("q", OptimizedPlan(replace(bound, root=ToStream(bound.root, Streaming.RSTREAM)), ())).text()
    assert "RSTREAM" not in text and "MICROSECOND" not in text and text.count("GroupBy") == 2


def test_numbers_as_people_write_them() -> None:
    shown = [number_text(one) for one in (0, 0.00000869, 0.0123, 1.5, 99.94, 60_000.4)]
    assert shown == ["0", "less than 0.001", "0.0123", "1.5", "99.9", "60,000"]
