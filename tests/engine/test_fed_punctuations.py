"""`punctuate` on a memory stream is applied after the rows that were fed before it."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conftest import STREAM, Open
from engine.helpers import answers, wait_until

pytestmark = pytest.mark.slow

QUERY = "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]"
BY_KEY = "SELECT k, COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] GROUP BY k"


@pytest.fixture
def slack(open_state: Open) -> Any:
    wr = open_state()
    wr.sql(STREAM.replace("ORDERED", "WITH SLACK 1000"))
    wr.query("q", QUERY)
    return wr


def late(wr: Any) -> int:
    return int(wr.metrics()["s"]["late"])


def story(wr: Any) -> None:
    """1 and 12 are on time; 5 is below the punctuation before it, 25 is not; 22 is below the second one."""
    wr.feed("s", [(1, "a", 1), (12, "a", 1)])
    wr.punctuate("s", 20)
    wr.feed("s", [(5, "a", 1), (25, "a", 1)])
    wr.punctuate("s", 30)
    wr.feed("s", [(22, "a", 1)])


def test_punctuation_follows_fed_rows(slack: Any) -> None:
    story(slack)
    assert slack.metrics()["s"]["frontier"] is None, "nothing has been read"
    slack.run_available()
    assert answers(slack, "q") == [(0, 10, 1), (10, 20, 1), (20, 30, 1)]
    assert late(slack) == 2
    assert slack.metrics()["s"]["frontier"] == "30"
    slack.punctuate("s", 40)
    assert slack.metrics()["s"]["frontier"] == "40", "all rows are read, so it is applied at once"
    slack.feed("s", [(39, "a", 1), (40, "a", 1)])
    slack.run_available()
    assert late(slack) == 3


def test_fed_punctuation_survives_a_restart(slack: Any, open_state: Open) -> None:
    story(slack)
    slack.close()
    again = open_state()
    again.run_available()
    assert answers(again, "q") == [(0, 10, 1), (10, 20, 1), (20, 30, 1)]
    assert late(again) == 2


@pytest.mark.parametrize("step", ["pass_punctuation", "_release"])
def test_crash_while_a_punctuation_is_applied(
    slack: Any, open_state: Open, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Crashes after the commit: before the punctuation is removed, and before the rows behind it are released."""

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    story(slack)
    slack.punctuate("s", 30, k="a")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(f"windrow.dataplane.sources.spool.Spool.{step}", crash)
        slack.run_available()
    slack.close()
    again = open_state()
    again.run_available()
    assert answers(again, "q") == [(0, 10, 1), (10, 20, 1), (20, 30, 1)]
    assert late(again) == 2
    assert not list((again.state_dir / "streams" / "1" / "spool").glob("_*"))


def test_fed_punctuation_on_a_running_stream(slack: Any) -> None:
    slack.start()
    story(slack)
    wait_until(lambda: late(slack) == 2 and slack.metrics()["s"]["admitted"] == 3)
    wait_until(lambda: len(answers(slack, "q")) == 3)
    slack.stop()
    assert answers(slack, "q") == [(0, 10, 1), (10, 20, 1), (20, 30, 1)]


@pytest.mark.parametrize("restart", [False, True])
def test_pattern_follows_fed_rows(slack: Any, open_state: Open, restart: bool) -> None:
    wr = slack
    wr.query("by_key", BY_KEY)
    wr.feed("s", [(1, "s6", 1), (2, 'it\'s, "s7"', 1)])
    wr.punctuate("s", 10, k="s6")
    wr.feed("s", [(3, "s6", 1), (3, 'it\'s, "s7"', 1)])
    wr.punctuate("s", 10, k='it\'s, "s7"')
    if restart:
        wr.close()
        wr = open_state()
    wr.run_available()
    assert answers(wr, "by_key") == [(0, 10, "s6", 1), (0, 10, 'it\'s, "s7"', 2)]
    assert late(wr) == 1


def test_rows_read_long_ago(slack: Any) -> None:
    """Spark compacts its log of files every tenth micro-batch, and leaves the last files in place."""
    for i in range(12):
        slack.feed("s", [(i, "a", 1)])
        slack.run_available()
    assert list((slack.state_dir / "streams" / "1" / "spool").glob("feed-*"))
    slack.punctuate("s", 10)
    assert answers(slack, "q") == [(0, 10, 10)]
