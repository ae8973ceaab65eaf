"""The worked histories of both texts, and what the checker says about others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from windrow.errors import HistoryError
from windrow.schedulers.check_history import HistoryCheck, check_history
from windrow.schedulers.history import History, Isolation, Op, Operation, SourceBegins, TransactionBegins
from windrow.schedulers.notation import compact, from_json_lines, parse_history, read_history, to_json
from windrow.schedulers.panes import Pane, SourceKind

# Golab's dissertation, sections 7.3.1, 7.4.2 and 7.6; the report has other H_c and H_d.
DISSERTATION = {
    "a": "rQ1[0] w5[0] c5 w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1",
    "b": "rQ1[0] w5[0] c5 rQ1[1] w6[1] c6 rQ1[2] rQ1[3] rQ1[4] cQ1",
    "c": "w5[0] c5 rQ1[0] rQ1[1] rQ1[2] rQ1[3] w6[1] c6 rQ1[4] cQ1",
    "d": "w5[0] c5 rQ1[0] w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1",
    "e": "rQ1[4] w5[0] c5 rQ1[0] rQ1[3] rQ1[2] w6[1] c6 rQ1[1] cQ1",
    "f": "rQ1[0] w5[0] c5 rQ1[1] rQ1[2] rQ1[3] w6[1] c6 rQ1[4] cQ1",
    "g": "rQ1[0] w5[0] w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1 c5",
    "h": "rQ1[0] rQ1[1] rQ1[2] rQ1[3] w9[4] rQ1[4] cQ1 c9",
}
REPORT = {
    "a": DISSERTATION["a"],
    "b": DISSERTATION["b"],
    "c": "rQ1[4] w5[0] c5 rQ1[3] rQ1[2] rQ1[1] w6[1] c6 rQ1[0] cQ1",
    "d": "rQ1[4] w5[0] c5 rQ1[0] rQ1[3] rQ1[2] w6[1] c6 rQ1[1] cQ1",
}
BEFORE, AFTER = {"b": "", "c": "5", "d": "56"}, {"b": "56", "c": "6", "d": ""}  # Figure 7.4


def checked(text: str) -> HistoryCheck:
    return check_history(parse_history(text))


def levels(check: HistoryCheck) -> str:
    """The properties that a history has, as letters: Conflict-serializable, Window, Latest, commit Order."""
    found = zip(
        "CWLO",
        (
            check.conflict_serializable,
            check.window_serializable,
            check.latest_window_serializable,
            check.commit_order_preserving,
        ),
        strict=True,
    )
    return "".join(letter for letter, violations in found if not violations)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a", "C"), ("b", "CW"), ("c", "CW"), ("d", "CWLO"), ("e", "CWLO"), ("f", "CW"), ("g", "CO"), ("h", "CWL")],
)
def test_histories_of_the_dissertation(name: str, expected: str) -> None:
    assert levels(checked(DISSERTATION[name])) == expected


@pytest.mark.parametrize(("name", "expected"), [("a", "C"), ("b", "CW"), ("c", "CW"), ("d", "CWLO")])
def test_histories_of_the_report(name: str, expected: str) -> None:
    assert levels(checked(REPORT[name])) == expected


@pytest.mark.parametrize("texts", [DISSERTATION, REPORT], ids=["dissertation", "report"])
@pytest.mark.parametrize("name", "bcd")
def test_serialization_graphs_of_figure_7_4(texts: dict[str, str], name: str) -> None:
    before, after = {(one, "Q1") for one in BEFORE[name]}, {("Q1", one) for one in AFTER[name]}
    assert checked(texts[name]).edges == before | after


def test_graph_of_h_a() -> None:
    assert checked(DISSERTATION["a"]).edges == {("Q1", "5"), ("6", "Q1")}


def test_reasons_name_the_edges() -> None:
    window = checked(DISSERTATION["a"]).window_serializable
    assert [(one.query, one.reason) for one in window] == [
        ("Q1", "T6 → TQ1 (it read [6, 7)) but TQ1 → T5 (it read [0, 1)), an earlier update")
    ]
    (latest,) = checked(DISSERTATION["c"]).latest_window_serializable
    assert latest.reason == "TQ1 → T6: it read [1, 2), which T6 took out of its window before TQ1 committed"
    (order,) = checked(DISSERTATION["h"]).commit_order_preserving
    assert order.reason == "T9 → TQ1 (by [9, 10)), but TQ1 committed before T9"


def test_unrepeatable_read_is_a_cycle() -> None:
    check = checked("rQ1[0] w5[0] c5 rQ1[0] rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1")
    assert levels(check) == ""
    assert check.conflict_serializable[0].reason == "a cycle: T5 → TQ1 (by [5, 6)), TQ1 → T5 (by [0, 1))"


def test_dropped_pane_no_longer_counts() -> None:
    assert levels(checked("rQ1[0] w5[0] c5 dQ1[0] rQ1[0] rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1")) == "CWLO"


def test_cycle_through_another_query() -> None:
    """Each edge alone is harmless: Q1 is not WS, and only Q2, which is, closes the cycle."""
    text = "rQ1[0] w3[0] c3 rQ2[0] rQ2[1] rQ2[2] cQ2 w4[1] c4 rQ1[1] rQ1[2] cQ1"
    check = checked(text)
    assert levels(check) == ""
    assert {one.query for one in check.window_serializable} == {"Q1"}
    assert "TQ2" in check.conflict_serializable[0].reason


def test_cycle_through_updates_of_one_slot() -> None:
    """T3 and T5 write the same slot, and only that closes the cycle."""
    text = "n=2 rQ1[1] w3[1] c3 w4[0] c4 rQ2[0] w5[1] c5 w6[0] c6 rQ1[0] rQ2[1] cQ2 cQ1"
    check = checked(text)
    assert ("3", "5") in check.edges
    assert check.conflict_serializable[0].reason.count("→") == 5


def test_shorter_window_is_left_by_another_slot() -> None:
    """T5 writes slot 0 and takes slot 2 out of a window of three: the same-slot conflicts of the texts miss that."""
    text = "n=5 bQ1[3] rQ1[2] w5[0] c5 rQ1[3] rQ1[4] cQ1"
    assert levels(checked(text)) == "CW"
    assert checked(text).edges == {("Q1", "5")}
    assert levels(checked("n=5 bQ1[3] rQ1[4] w5[0] c5 rQ1[0] rQ1[3] cQ1")) == "CWLO"


def test_query_that_leaves_a_pane_out() -> None:
    check = checked("n=3 rQ1[0] rQ1[2] cQ1")
    assert check.window_serializable[0].reason == "TQ1 did not read [1, 2) of its window once"
    assert levels(check) == "CO"


def test_query_that_misses_the_arrival() -> None:
    """While a window fills up nothing leaves it, and yet the query must see what came."""
    text = "s[0:2] bQ1[5] rQ1[0:1] rQ1[1:2] w2[2:3] c2 {} cQ1"
    assert levels(checked(text.format("rQ1[2:3]"))) == "CWLO"
    check = checked(text.format(""))
    assert levels(check) == "CWO"
    reason = check.latest_window_serializable[0].reason
    assert reason == "TQ1 did not read [2, 3), which was in its window before it committed"


def test_panes_of_unequal_width() -> None:
    good = "s[0:60] bQ1[60] rQ1[20:60] w7[60:75] c7 rQ1[60:75] rQ1[15:20] cQ1"
    assert levels(checked(good)) == "CWLO"
    assert levels(checked(good.replace("rQ1[15:20]", "rQ1[10:20]"))) != "CWLO"


def test_several_sources_as_of_the_slower_one() -> None:
    text = "s[A 0:4] s[B 0:4] bQ1[A 2, B 2] rQ1[A 2:4] w1[A 4:5] c1 rQ1[B 2:4] {} cQ1"
    assert levels(checked(text.format(""))) == "CWLO"
    assert levels(checked(text.format("w2[B 4:5] c2"))) == "CW"
    assert levels(checked(text.format("w2[B 4:5] c2 dQ1[A 2:4] dQ1[B 2:4] rQ1[A 3:5] rQ1[B 3:5]"))) == "CWLO"


def test_different_instants_of_two_sources() -> None:
    check = checked("s[A 0:4] s[B 0:4] bQ1[A 2, B 2] rQ1[A 2:4] w1[A 4:5] c1 w2[B 4:5] c2 rQ1[B 3:5] cQ1")
    assert check.window_serializable and check.conflict_serializable


def sub_result(*later: Operation) -> HistoryCheck:
    """A query scans a sub-result with parts [5, 7) by expiration while T6 inserts into both and drops what expires."""
    first = Operation(Op.READ, "Q1", Pane("v", 6, 8))
    writes = [Operation(Op.WRITE, "6", pane, upto=6) for pane in (Pane("v", 6, 8), Pane("v", 8, 9))]
    return check_history(
        History.of(
            [
                SourceBegins("v", 5, 8, 5, SourceKind.RESULT),
                TransactionBegins("Q1", {"v": None}),
                first,
                *writes,
                Operation(Op.COMMIT, "6"),
                *later,
                Operation(Op.COMMIT, "Q1"),
            ]
        )
    )


def test_insertion_into_a_part_that_was_read() -> None:
    """Section 7.4.3: the tuples must be passed to the query; here that is a drop and a read of the new version."""
    arrived = Operation(Op.READ, "Q1", Pane("v", 8, 9))
    passed_on = [Operation(op, "Q1", Pane("v", 6, 8)) for op in (Op.DROP, Op.READ)]
    assert levels(sub_result(*passed_on, arrived)) == "CWLO"
    check = sub_result(arrived)
    assert not levels(check)
    assert check.window_serializable[0].reason.endswith("the same update")


def test_claims_are_checked_for_each_query() -> None:
    reads = " ".join(f"rQ1[{i}]" for i in (0, 1, 2))
    check = checked(f"{reads} w3[0] c3 rQ2[0] rQ2[1] rQ2[2] cQ1 cQ2")
    assert check.violations_of({"Q1": Isolation.WINDOW, "Q2": None}) == ()
    assert [one.query for one in check.violations_of({"Q1": Isolation.LATEST, "Q2": None})] == ["Q1"]


def test_read_from_an_update_that_never_commits() -> None:
    check = checked("rQ1[1] w2[0] rQ1[0] cQ1")
    assert check.window_serializable[0].reason == "TQ1 read [2, 3), and T2 never commits"


def test_aborted_queries_do_not_count() -> None:
    assert levels(checked("rQ1[0] w5[0] c5 rQ1[1] w6[1] c6 aQ1")) == "CWLO"


# -- texts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*DISSERTATION.values(), *REPORT.values(), "n=5 bQ1[3] rQ1[4] w5[0] c5 aQ1"])
def test_texts_and_back(text: str) -> None:
    history = parse_history(text)
    assert parse_history(compact(history)) == history
    lines = [to_json(entry) for entry in history.entries]
    assert from_json_lines(lines) == history == read_history("\n".join(lines))


def test_notation_of_several_sources() -> None:
    history = parse_history("r1[B0] w2[B1] c2 r1[A0] c1  # two sources")
    assert {entry.source for entry in history.entries if isinstance(entry, SourceBegins)} == {"A", "B"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rQ1[0] x5[0]", "'x5[0]' is no operation"),
        ("rQ1[0] w5", "'w5' names no pane"),
        ("rQ1[0] r[1]", "'r' names no transaction"),
        ("rQ1[0] cQ1[0]", "'c' takes no pane"),
        ("rQ1[zero]", "[zero] is no slot"),
        ("n=2 rQ1[2]", "there is no slot 2"),
        ("w5[0] c5 w6[2] c6 rQ1[1]", "the oldest pane, which is in slot 1"),
        ("w6[0] c6 w5[1] c5", "in order of their numbers"),
        ("rQ1[0] cQ1 rQ1[1]", "has ended already"),
        ("rQ1[0] wQ1[1]", "reads and writes"),
        ("w5[0] r5[1]", "reads and writes"),
        ("w5[0] a5", "those do not abort"),
        ("cQ1", "has not begun"),
        ("dQ1[0]", "has read nothing"),
        ("", "there is no operation"),
        ("n=5 s[0:5]", "write one of them"),
        ("s[0:5] rQ1[0:1]", "has not begun"),
        ("s[0:5] bQ1[0]", "positive length"),
        ("s[0:5] bQ1[2] rQ1[5:6]", "there is no such pane yet"),
        ("s[0:5] w1[6:7]", "leaves a gap"),
        ("s[0:5] w1[5:5]", "start < end"),
    ],
)
def test_malformed_texts(text: str, message: str) -> None:
    with pytest.raises(HistoryError) as error:
        parse_history(text)
    assert message in str(error.value)


def test_malformed_text_shows_its_place() -> None:
    with pytest.raises(HistoryError) as error:
        parse_history("rQ1[0]\n  w5[0] what c5")
    assert error.value.place is not None
    assert (error.value.place.line, error.value.place.column, error.value.place.length) == (2, 9, 4)


GOOD_LINE = '{"op": "s", "source": "", "first": 0, "last": 5, "upto": 5}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: { is no entry"),
        ("[1]", "line 2"),
        ('{"by": "Q1"}', "'op' is missing"),
        ('{"op": "z", "by": "Q1"}', "'z'"),
        ('{"op": "r", "by": "Q1"}', "'r' needs pane"),
        ('{"op": "r", "by": "Q1", "source": "", "start": 0}', "'end' is missing"),
        ('{"op": "r", "by": 1, "source": "", "start": 0, "end": 1}', "not a text"),
        ('{"op": "r", "by": "Q1", "source": "", "start": 0, "end": true}', "not an integer"),
        ('{"op": "r", "by": "Q1", "source": "", "start": 0, "end": 1}', "line 2: Q1 has not begun"),
        ('{"op": "b", "by": "Q1", "lengths": {"x": 1}}', "line 2: source 'x' is unknown"),
        ('{"op": "b", "by": "Q1", "lengths": []}', "line 2"),
        ('{"op": "c", "by": "Q1", "isolation": "best"}', "'best'"),
    ],
)
def test_malformed_lines(line: str, message: str) -> None:
    with pytest.raises(HistoryError) as error:
        read_history(f"{GOOD_LINE}\n{line}")
    assert message in str(error.value)


# -- the page ----------------------------------------------------------------------------------------


def test_page_has_the_histories_of_the_texts() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/internals/isolation.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| H_(\w) \| `([^`]+)`", page, re.M)) | dict(re.findall(r"^H_(\w) +(r.+)$", page, re.M))
    assert shown == DISSERTATION


def test_examples_of_the_page() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/internals/isolation.md").read_text(encoding="utf-8")
    (intervals,) = re.findall(r"^s\[.+$", page, re.M)
    assert levels(checked(intervals)) == "CWLO"
    lines = "\n".join(re.findall(r"^\{.+$", page, re.M))
    assert levels(check_history(read_history(lines))) == "CWLO"
