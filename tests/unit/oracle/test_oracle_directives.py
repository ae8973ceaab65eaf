"""The test dialect's directives for punctuation patterns, revisions and partitioned answers."""

from __future__ import annotations

from typing import Any

import pytest
from support.matrix import Variation
from support.runner import Mismatch, Run, same_answers
from support.test_file import (
    Cell,
    Net,
    Punctuate,
    Revisions,
    TestFileError,
    parse_test_file,
    split_cells,
)

from windrow.testing import ManualClock


def _punctuate(text: str) -> Punctuate:
    (command,) = parse_test_file(text).commands
    assert isinstance(command, Punctuate)
    return command


@pytest.mark.parametrize(
    ("text", "stream", "column", "upto", "pattern"),
    [
        ("punctuate s @20", "s", None, "@20", ()),
        ("punctuate s 2026-01-01 00:00:05", "s", None, "2026-01-01 00:00:05", ()),
        ("punctuate s.odo 40", "s", "odo", "40", ()),
        ("punctuate s 2026-01-01 00:00:05 k=a", "s", None, "2026-01-01 00:00:05", (("k", Cell("a")),)),
        (
            'punctuate s 10 k="b, c" n=NULL',
            "s",
            None,
            "10",
            (("k", Cell("b, c", quoted=True)), ("n", Cell("NULL"))),
        ),
    ],
)
def test_punctuations_with_patterns(text: str, stream: str, column: str | None, upto: str, pattern: Any) -> None:
    command = _punctuate(text)
    assert (command.stream, command.column, command.upto, command.pattern) == (stream, column, upto, pattern)


def test_bad_pattern() -> None:
    with pytest.raises(TestFileError):
        parse_test_file("punctuate s 10 k=a b")


def test_rows_of_net_and_revisions() -> None:
    net, revisions, open_block = parse_test_file("net q\n0, 5, 1\n\nrevisions q\n+, 0, 0, 5, 1\n\nnet q\n????").commands
    assert isinstance(net, Net) and net.rows == (tuple(split_cells("0, 5, 1")),)
    assert isinstance(revisions, Revisions) and revisions.rows is not None and revisions.rows[0][0] == Cell("+")
    assert isinstance(open_block, Net) and open_block.rows is None


def test_partitions_have_no_order() -> None:
    written = [split_cells(row) for row in ("0, 3, a, 2", "0, 3, a, 1", "0, 3, b, 9")]
    found = [(0, 3, "b", 9), (0, 3, "a", 2), (0, 3, "a", 1)]
    assert same_answers(written, found, ordered=True, apart=[0, 1, 2])
    assert not same_answers(written, found, ordered=True)
    assert not same_answers(written, [found[0], found[2], found[1]], ordered=True, apart=[0, 1, 2])


class _Scripted:
    """A backend with given answers."""

    checks_errors = False

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def sql(self, text: str) -> None:
        """Nothing is run."""

    def answers(self, query: str) -> list[tuple[Any, ...]]:
        return list(self.rows)

    def revisions(self, query: str) -> list[tuple[Any, ...]]:
        return list(self.rows)


_CREATE = """statement ok
CREATE STREAM s (n BIGINT, k STRING) FROM memory TIMESTAMP BY n PUNCTUATE ORDERED

statement ok
CREATE QUERY q AS SELECT k, COUNT(*) AS c FROM s {window} GROUP BY k

"""


def _run(window: str, blocks: str, rows: list[tuple[Any, ...]]) -> None:
    backend: Any = _Scripted()
    backend.rows = rows
    test = parse_test_file(_CREATE.format(window=window) + blocks)
    Run(test, backend, ManualClock(), Variation()).run()


def test_order_of_windows() -> None:
    rows = [(2, 5, "a", 1), (0, 3, "b", 1)]
    blocks = "answers q\n2, 5, a, 1\n0, 3, b, 1"
    _run("[ROWS 3 SLIDE 2 PARTITION BY k]", blocks, rows)
    with pytest.raises(Mismatch, match="not in window order"):
        _run("[RANGE 3 SLIDE 2]", blocks, rows)


def test_revisions_and_net() -> None:
    rows: list[tuple[Any, ...]] = [("+", 0, 0, 5, "a", 1), ("-", 1, 0, 5, "a", 1)]
    _run("[RANGE 5 SLIDE 5]", "revisions q\n+, 0, 0, 5, a, 1\n-, 1, 0, 5, a, 1\n\nrevisions q", rows)
    _run("[RANGE 5 SLIDE 5]", "net q\n0, 5, a, 1\n\nnet q\n0, 5, a, 1", [(0, 5, "a", 1)])
    with pytest.raises(Mismatch):
        _run("[RANGE 5 SLIDE 5]", "revisions q\n+, 0, 0, 5, a, 1", rows)
