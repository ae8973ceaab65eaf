"""The `.test` dialect: reading, errors, and comparing answers."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.complete import completed_text
from support.runner import Mismatch, OracleBackend, Run, Variation, recut, same_answers
from support.test_file import (
    Answers,
    Cell,
    Changes,
    Close,
    DeadLetters,
    Feed,
    Since,
    Statement,
    TestFileError,
    View,
    feed_rows,
    join_cells,
    matches,
    parse_test_file,
    render,
    split_cells,
)

from windrow.types import SqlType

TEXT = """# a comment
recut ok

statement ok
CREATE STREAM s (ts TIMESTAMP, x INT)
  FROM memory

statement error WR210
SELECT 1

feed s
@1, 2
# in between
@2, NULL

feed s
@3, 4

close s

answers q
@0, @10, 3, 6

answers q

answers r
????

dead_letters s
late 2
null 1
"""


def test_read_commands() -> None:
    test = parse_test_file(TEXT)
    assert test.recut_ok
    statement, failing, first, second, close, answers, none, unknown, dead = test.commands
    assert statement == Statement(4, "CREATE STREAM s (ts TIMESTAMP, x INT)\n  FROM memory")
    assert failing == Statement(8, "SELECT 1", "WR210")
    assert first == Feed(11, "s", ("@1, 2", "@2, NULL"))
    assert isinstance(second, Feed) and close == Close(19, "s")
    assert answers == Answers(21, "q", ((Cell("@0"), Cell("@10"), Cell("3"), Cell("6")),))
    assert isinstance(none, Answers) and none.rows == ()
    assert isinstance(unknown, Answers) and unknown.rows is None
    assert isinstance(dead, DeadLetters) and dead.counts == {"late": 2, "null": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sing s", "no such directive"),
        ("statement maybe\nSELECT 1", "statement ok"),
        ("statement ok", "without a statement"),
        ("close s\n@1, 2", "takes no lines"),
        ("advance soon", "advance <n> <unit>"),
        ("dead_letters s\nlate", "<reason> <count>"),
        ("feed s xml\n@1", "CSV or json"),
        ('answers q\n"open, 1', "not a row"),
    ],
)
def test_error_names_the_line(text: str, message: str) -> None:
    with pytest.raises(TestFileError, match=message) as caught:
        parse_test_file("\n\n" + text, Path("x.test"))
    assert "x.test:3" in str(caught.value)


def test_cells() -> None:
    cells = split_cells('a, "b, ""c""", NULL, "NULL", , ""')
    assert [c.text for c in cells] == ["a", 'b, "c"', "NULL", "NULL", "", ""]
    assert [c.quoted for c in cells] == [False, True, False, True, False, True]
    assert split_cells(join_cells(cells)) == cells


def test_rows_are_typed() -> None:
    types = {
        "ts": SqlType("TIMESTAMP"),
        "x": SqlType("INT"),
        "m": SqlType("DECIMAL(5,2)"),
        "k": SqlType("STRING"),
    }
    rows = feed_rows(Feed(1, "s", ("@-0.5, 7, 1.10, NULL", 'never, many, x, "NULL"')), types)
    moment = datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=timezone.utc)
    assert rows[0] == {"ts": moment, "x": 7, "m": Decimal("1.10"), "k": None}
    assert rows[1] == {"ts": "never", "x": "many", "m": "x", "k": "NULL"}
    made = feed_rows(Feed(1, "s", ('{"ts": "1970-01-01 00:00:01", "x": "six"}',), json=True), types)
    assert made == [{"ts": datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc), "x": "six"}]
    with pytest.raises(TestFileError, match="2 fields for 4 columns"):
        feed_rows(Feed(1, "s", ("@1, 2",)), types)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -0.5,
        1e300,
        float("inf"),
        Decimal("1.10"),
        "a b",
        "NULL",
        "",
        "a,b",
        "# no",
        datetime(2026, 1, 1),
    ],
)
def test_rendered_value_matches(value: Any) -> None:
    assert matches(render(value), value)
    assert split_cells(join_cells([render(value)])) == [render(value)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3.0),
        ("3.0", 3),
        ("1.1", Decimal("1.10")),
        ("NULL", "NULL"),
        ("0.100000001", 0.1),
        ("true", "True"),
        ("@1", datetime(1970, 1, 1, 0, 0, 2)),
        ("NaN", 1.0),
        ("4", None),
    ],
)
def test_value_mismatch(text: str, value: Any) -> None:
    assert not matches(Cell(text), value)


def test_doubles_match_to_nine_digits() -> None:
    assert matches(Cell("0.3"), 0.1 + 0.2)
    assert matches(Cell("NaN"), float("nan"))
    assert matches(Cell("0.0"), -0.0)


def test_row_order() -> None:
    written = [(Cell("1"), Cell("2")), (Cell("1"), Cell("3"))]
    assert same_answers(written, [(1, 3), (1, 2)], ordered=False)
    assert not same_answers(written, [(1, 3), (1, 2)], ordered=True)
    assert not same_answers(written, [(1, 2), (1, 2)], ordered=False)
    assert not same_answers(written, [(1, 2)], ordered=False)


def test_recut_adjacent_feeds() -> None:
    test = parse_test_file(TEXT)
    sizes = {n: [len(c.lines) for c in recut(test, n) if isinstance(c, Feed)] for n in (None, 0, 1, 2)}
    assert sizes == {None: [2, 1], 0: [3], 1: [1, 1, 1], 2: [2, 1]}
    fixed = parse_test_file(TEXT.replace("recut ok\n", ""))
    assert [len(c.lines) for c in recut(fixed, 1) if isinstance(c, Feed)] == [2, 1]
    kinds = [type(c).__name__ for c in recut(test, 0)]
    assert kinds.index("Feed") > kinds.index("Statement") and kinds.index("Close") > kinds.index("Feed")


def test_complete_replaces_question_marks(tmp_path: Path) -> None:
    path = tmp_path / "x.test"
    path.write_text("answers q\n????\n\nanswers r\n????\n")
    assert (
        completed_text(parse_test_file(path.read_text(), path), {1: ["1, 2"], 4: []})
        == "answers q\n1, 2\n\nanswers r\n"
    )


class _Fixed(OracleBackend):
    """A backend that returns the given answers."""

    def __init__(self, answers: list[list[tuple[Any, ...]]]):
        self._given = iter(answers)

    def sql(self, text: str) -> None:
        """Everything is accepted."""

    def answers(self, query: str) -> list[tuple[Any, ...]]:
        return next(self._given)


SCRIPT = """statement ok
CREATE QUERY q AS SELECT SUM(x) AS a FROM s [RANGE 10 SLIDE 10]

answers q
0, 10, 1

answers q
10, 20, 2
"""


def _run(*answers: list[tuple[Any, ...]]) -> None:
    Run(parse_test_file(SCRIPT), _Fixed(list(answers)), None, Variation()).run()  # type: ignore[arg-type]


def test_answers_block_holds_new_rows_only() -> None:
    _run([(0, 10, 1)], [(0, 10, 1), (10, 20, 2)])


@pytest.mark.parametrize(
    "answers",
    [
        ([(0, 10, 2)], []),
        ([(0, 10, 1)], [(0, 10, 7), (10, 20, 2)]),
        ([(0, 10, 1)], [(0, 10, 1), (0, 10, 1), (10, 20, 2)]),
        ([(0, 10, 1)], [(0, 10, 1), (10, 20, 2), (5, 15, 2)]),
        ([(0, 10, 1)], [(0, 10, 1)]),
    ],
    ids=["wrong", "changed", "repeated", "out of order", "missing"],
)
def test_wrong_answers_fail(answers: tuple[list[tuple[Any, ...]], ...]) -> None:
    with pytest.raises(Mismatch):
        _run(*answers)


def test_changes_and_views() -> None:
    text = "changes q\n+, @1, NULL, a, 2\n-, @2, NULL, a, 2\n\nview q\na, 2\n\nview q\n????\n\nchanges q\n"
    changes, view, open_view, nothing = parse_test_file(text).commands
    assert isinstance(changes, Changes) and changes.rows is not None
    assert [[cell.text for cell in row] for row in changes.rows] == [
        ["+", "@1", "NULL", "a", "2"],
        ["-", "@2", "NULL", "a", "2"],
    ]
    assert view == View(5, "q", ((Cell("a"), Cell("2")),))
    assert isinstance(open_view, View) and open_view.rows is None
    assert isinstance(nothing, Changes) and nothing.rows == ()


def test_points_of_several_streams() -> None:
    one, each = parse_test_file("since q @5\n\nsince q a=@5 b=all\n").commands
    assert isinstance(one, Since) and one.points == {}
    assert isinstance(each, Since) and each.points == {"a": "@5", "b": "all"}
