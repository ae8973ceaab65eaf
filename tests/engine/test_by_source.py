"""PUNCTUATE BY SOURCE and punctuations of groups: kept and released cells, EXPLAIN, and other sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.helpers import answers, blocks_of, state_of
from windrow.errors import BindError, UnsupportedError

pytestmark = pytest.mark.slow

STREAM = "CREATE STREAM s (t INT, k STRING, x INT, punctuation STRING) FROM memory TIMESTAMP BY t PUNCTUATE BY SOURCE"
SUMS = "CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SLIDE 10] GROUP BY k"


def say(*texts: str) -> list[tuple[Any, ...]]:
    return [(None, None, None, text) for text in texts]


def cells_held(wr: Any) -> int:
    """The number of cells in memory."""
    synopsis = next(iter(state_of(wr).synopses.values())).synopsis
    parts = [*synopsis._pending, *(chunk.cells() for chunk in synopsis._chunks)]
    return sum(int((cells.groups != 0).sum()) for cells in parts)


def test_state_is_bounded_with_group_punctuations(open_state: Any) -> None:
    wr = open_state(synopsis_blocks=4, preaggregate="driver", retained_answers=20)
    wr.sql(STREAM)
    wr.sql(SUMS)
    for i in range(24):
        rows = [(10 * i + j, k, 1, None) for k in "abc" for j in range(3)]
        wr.deposit("s", rows + say(*(f"k = '{k}', t < {10 * i + 10}" for k in "abc")))
        assert cells_held(wr) == 0
        assert len(state_of(wr).promises.held) == 3
    assert answers(wr, "q")[-3:] == [(230, 240, k, 3) for k in "abc"]
    assert wr._engine.catalog.value("SELECT count(*) FROM promises") == 3
    assert blocks_of(wr, "synopses") <= 5
    assert blocks_of(wr, "answers") <= 17
    wr.close()
    wr = open_state(synopsis_blocks=4, preaggregate="driver", retained_answers=20)
    assert cells_held(wr) == 0
    wr.deposit("s", say("t < 1000"))
    assert not state_of(wr).promises
    assert wr._engine.catalog.value("SELECT count(*) FROM promises") == 0
    assert wr.queries["q"].metrics()["windows_answered"] == 24


def test_cells_of_a_longer_window_are_kept(open_state: Any) -> None:
    wr = open_state()
    wr.sql(STREAM)
    wr.sql("CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 30 SLIDE 10] GROUP BY k")
    wr.deposit("s", [(10 * i, "a", 1, None) for i in range(6)] + say("k = 'a', t < 40"))
    assert cells_held(wr) == 4  # the panes 20, 30, 40 and 50: the window that ends at 50 begins at 20
    assert answers(wr, "q")[-1] == (10, 40, "a", 3)


def test_explain_and_metrics_show_promises(open_state: Any) -> None:
    wr = open_state()
    wr.sql(STREAM)
    wr.sql(SUMS)
    wr.sql("CREATE QUERY top AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SLIDE 10] GROUP BY k LIMIT 1")
    wr.deposit("s", [(1, "a", 1, None), *say("t < 5", "k = 'a', t < 20", "k = 'b'")])
    text = wr.queries["q"].explain()
    assert "by source" in text and "Frontier: 5" in text
    assert "Promised of t, those furthest behind first (2 alive): k = 'a': 20; k = 'b': for ever" in text
    assert "Groups: answered early where a punctuation closes them" in text
    assert "Groups: answered with their window" in wr.queries["top"].explain()
    assert wr.metrics()["s"]["promised"] == {"t": {"k = 'a'": "20", "k = 'b'": "for ever"}}
    assert wr.metrics()["s"]["frontier"] == "5"


def test_answer_returns_a_whole_window(open_state: Any) -> None:
    wr = open_state()
    wr.sql(STREAM)
    wr.sql(SUMS)
    wr.deposit("s", [(1, "a", 1, None), (11, "a", 2, None), (2, "b", 4, None), *say("k = 'a', t < 20")])
    assert wr.queries["q"].answer().rows() == []
    wr.deposit("s", say("t < 10"))
    assert [(row["window_end"], row["k"], row["total"]) for row in wr.queries["q"].answer().rows()] == [
        (10, "a", 1),
        (10, "b", 4),
    ]


def test_keys_of_early_answers(open_state: Any) -> None:
    wr = open_state()
    wr.sql(STREAM)
    wr.sql(SUMS)
    got: list[tuple[str, int]] = []
    wr.queries["q"].subscribe(lambda answer: got.append((answer.key, answer.table.num_rows)))
    wr.deposit("s", [(1, "a", 1, None), (2, "b", 2, None), (3, "c", 4, None), *say("k = 'a', t < 10")])
    wr.deposit("s", say("k = 'b', t < 10"))
    wr.deposit("s", say("t < 10"))
    assert got == [("q@10/early-1", 1), ("q@10/early-2", 1), ("q@10", 1)]


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_punctuations_in_text_records(open_state: Any, tmp_path: Path, mode: str) -> None:
    """A text source, whose dead letters have their records, through Structured Streaming."""
    wr = open_state(preaggregate=mode)
    folder = tmp_path / "in"
    folder.mkdir()
    wr.sql(
        "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT, says STRING) FROM files OPTIONS"
        f" (path '{folder}', format 'json', punctuation 'says') TIMESTAMP BY ts PUNCTUATE BY SOURCE"
    )
    wr.sql("CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k")
    written = [
        [{"ts": "1970-01-01T00:00:01Z", "k": "a", "x": 1}, {"ts": "1970-01-01T00:00:02Z", "k": "b", "x": 2}],
        [{"says": "k = 'a', ts < '1970-01-01 00:00:10'"}, {"says": "k = ?"}, {"ts": "yesterday", "k": "a"}],
        [{"ts": "1970-01-01T00:00:03Z", "k": "a", "x": 4}, {"ts": "1970-01-01T00:00:03Z", "k": "b", "x": 8}],
        [{"says": "ts < '1970-01-01 00:00:10'"}],
    ]
    for number, records in enumerate(written):
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, records)))
        wr.run_available()
    assert [row[2:] for row in answers(wr, "q")] == [("a", 1), ("b", 10)]
    letters = {row["reason"]: row for row in wr.sql("SELECT * FROM dead_letters('s')").rows()}
    assert set(letters) == {"late", "malformed record", "malformed punctuation: not a pattern"}
    assert letters["late"]["late_by"] == 7_000_000
    assert json.loads(letters["late"]["record"])["x"] == 4
    assert letters["malformed punctuation: not a pattern"]["record"] == "k = ?"


@pytest.mark.parametrize("bounds", [7, 120])
def test_many_keys_at_once(open_state: Any, bounds: int) -> None:
    """One promise per sensor, with few or many bounds, grouped by Spark or the driver: each tuple is judged by its own."""
    wr = open_state(preaggregate="spark")
    wr.sql(STREAM)
    wr.sql(SUMS)
    wr.deposit("s", [(1, f"k{i}", i, None) for i in range(300)])
    wr.deposit("s", say(*(f"k = 'k{i}', t < {10 + i % bounds}" for i in range(0, 300, 2))))
    assert len(answers(wr, "q")) == 150
    for mode, at in (("spark", 12), ("driver", 14)):
        wr.sql(f"SET preaggregate = '{mode}'")
        wr.deposit("s", [(at, f"k{i}", 0, None) for i in range(300)])
        late = wr.metrics()["s"]["dead_letter_reasons"]["late"]
        expected = sum(t < 10 + i % bounds for i in range(0, 300, 2) for t in (12, 14) if t <= at)
        assert late == expected


def test_a_pattern_by_hand(open_state: Any) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM r (t INT, k STRING) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED LATE REVISE")
    with pytest.raises(UnsupportedError, match="LATE REVISE"):
        wr.punctuate("r", 10, k="a")
    wr.sql("CREATE STREAM o (t INT, k STRING) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    for pattern in ({"colour": "red"}, {"k": 5}):
        with pytest.raises(BindError, match="columns of 'o'"):
            wr.punctuate("o", 10, **pattern)
    with pytest.raises(BindError, match="beyond"):
        wr.punctuate("o", 2 * 10**18, k="a")
    wr.punctuate("o", 10, K="a")
    assert wr.metrics()["o"]["promised"] == {"t": {"k = 'a'": "10"}}
