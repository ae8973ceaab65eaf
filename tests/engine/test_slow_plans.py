"""A slow continuous query does not delay the answers of periodic ones."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import windrow
from engine.helpers import answers, wait_until

SOON_S = 60.0


def test_periodic_answers_come_while_a_plan_ticks(wr: windrow.Windrow, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.query("p", "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    slow = wr.query("slow", "SELECT x FROM s [RANGE 100]")
    home, begun, gate = wr._engine.opened.plan_homes["driver"], threading.Event(), threading.Event()
    advance = home.advance

    def slowly(*args: Any) -> Any:
        begun.set()
        assert gate.wait(SOON_S)
        return advance(*args)

    monkeypatch.setattr(home, "advance", slowly)
    wr.start()
    try:
        wr.feed("s", [(1, "u", 1), (5, "u", 2)])
        assert begun.wait(SOON_S)
        for closed, t in enumerate((11, 21, 31), 1):
            wr.feed("s", [(t, "u", t)])
            wait_until(lambda closed=closed: len(answers(wr, "p")) == closed)
        assert len(slow.view()) == 0, "its first tick has not ended"
    finally:
        gate.set()
    wr.stop()
    assert sorted(row["x"] for row in slow.view()) == [1, 2, 11, 21]
