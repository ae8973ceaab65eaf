"""Readers and window updates at the same time: answers are those of the window that they claim, every query has the
isolation that it claims, nothing is lost, and no file and no pin is left over.

A few hundred updates; 2,000 with WINDROW_MATRIX=full, 36,000 with WINDROW_MATRIX=product.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.matrix import sized

from windrow.schedulers.check_history import check_history
from windrow.schedulers.notation import read_history

from .conftest import Open

READERS = 20
UPDATES = sized(200, 2_000, 36_000)
PANE = 100
"""Every micro-batch moves the stream by so many milliseconds."""

STREAM = f"CREATE STREAM s (t BIGINT, k STRING, x BIGINT) FROM memory TIMESTAMP BY t TICK {PANE} PUNCTUATE ORDERED RETAIN 12000"


def rows_of(pane: int) -> list[tuple[int, str, int]]:
    """The rows of a pane: one to seven, from its beginning on."""
    return [(pane * PANE + 7 * i, "ab"[i % 2], pane + i) for i in range(1 + pane % 7)]


class Question:
    """A SELECT, and its answer from all rows of its window."""

    def __init__(self, text: str, length: int, offset: int, answer: Callable[[list[tuple[int, str, int]]], object]):
        self.text = text
        self.length = length
        self.offset = offset
        self.answer = answer

    def expected(self, instant: int) -> object:
        hi = instant - self.offset
        lo = hi - self.length
        panes = range(max(0, lo // PANE), max(0, -(-hi // PANE)))
        return self.answer([row for pane in panes for row in rows_of(pane) if lo <= row[0] < hi])


def by_key(rows: list[tuple[int, str, int]]) -> object:
    keys = sorted({k for _, k, _ in rows})
    return [{"k": key, "s": sum(x for _, k, x in rows if k == key)} for key in keys]


def pairs(rows: list[tuple[int, str, int]]) -> object:
    return [{"n": sum(1 for _, k, x in rows for _, j, y in rows if k == j and x == y)}]


QUESTIONS = [
    Question("SELECT COUNT(*) AS n FROM s [RANGE 10000]", 10000, 0, lambda rows: [{"n": len(rows)}]),
    Question(
        "SELECT COUNT(*) AS n, MAX(x) AS m FROM s [RANGE 250]",
        250,
        0,
        lambda rows: [{"n": len(rows), "m": max(x for _, _, x in rows)}],
    ),
    Question("SELECT k, SUM(x) AS s FROM s [RANGE 5000] GROUP BY k ORDER BY k", 5000, 0, by_key),
    Question("SELECT COUNT(*) AS n FROM s [RANGE 2000 OFFSET 3000]", 2000, 3000, lambda rows: [{"n": len(rows)}]),
    Question(
        "SELECT COUNT(*) AS n FROM s [RANGE 300] AS a JOIN s [RANGE 300] AS b ON a.k = b.k AND a.x = b.x",
        300,
        0,
        pairs,
    ),
]
TERMS = ["", "", "", " ISOLATION 'window'", " ISOLATION 'serial'", " PRIORITY 3"]


class Reader(threading.Thread):
    """Asks again and again until it is told to stop."""

    def __init__(self, wr: Any, seed: int, stop: threading.Event):
        super().__init__(name=f"reader-{seed}", daemon=True)
        self.wr = wr
        self.chosen = random.Random(seed)
        self.stop = stop
        self.asked = 0
        self.wrong: list[object] = []

    def run(self) -> None:
        while not self.stop.is_set():
            question, terms = self.chosen.choice(QUESTIONS), self.chosen.choice(TERMS)
            try:
                found = self.wr.sql(question.text + terms)
            except Exception as error:
                self.wrong.append((question.text, terms, repr(error)))
                return
            self.asked += 1
            if found.rows() != question.expected(found.window) or found.complete_from is not None:
                self.wrong.append((question.text, terms, found.window, found.isolation, found.rows()))
                return


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(4 * 3600)
def test_readers_and_updates(open_state: Open, tmp_path: Path) -> None:
    wr: Any = open_state(max_future="off")
    wr.sql(STREAM)
    first = 130
    wr.deposit("s", [row for pane in range(first) for row in rows_of(pane)])
    stop = threading.Event()
    readers = [Reader(wr, seed, stop) for seed in range(READERS)]
    with wr.record_history(tmp_path / "history.jsonl"):
        for one in readers:
            one.start()
        try:
            for pane in range(first, first + UPDATES):
                wr.deposit("s", rows_of(pane))
                if any(one.wrong for one in readers):
                    break
        finally:
            stop.set()
            for one in readers:
                one.join(60)
    assert [one.wrong for one in readers if one.wrong] == []
    assert min(one.asked for one in readers) > 0
    history = read_history((tmp_path / "history.jsonl").read_text())
    assert check_history(history).violations_of(history.committed_queries) == ()
    assert nothing_is_left(wr)
    last = wr.sql("SELECT COUNT(*) AS n FROM s [RANGE 10000]")
    assert last.window == (first + UPDATES - 1) * PANE
    assert last.rows() == QUESTIONS[0].expected(last.window)
    assert wr.sql("SELECT * FROM dead_letters('s')").rows() == []


def nothing_is_left(wr: Any) -> bool:
    """Whether no file is pinned, waits for a pin, or is on disk though the catalog does not name it."""
    opened = wr._engine.opened
    pins = opened.blocks.pins
    assert (pins.count, pins.waiting) == (0, 0)
    assert wr._engine.coordinator.running == []
    assert opened.manager.stream("s").watchers == {}
    return opened.blocks.sweep() == 0
