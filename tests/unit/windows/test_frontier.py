"""Frontiers: slack lowers them, promises raise them, and they never fall."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.windows import (
    PerKeyFrontier,
    RowFrontier,
    RowSlackFrontier,
    Seen,
    Silence,
    SlackFrontier,
    SourceFrontier,
    beat,
    heartbeat,
)

some = settings(max_examples=60, deadline=None)

points = st.integers(-(10**18), 10**18)
steps = st.lists(
    st.one_of(st.tuples(st.just("batch"), st.none() | points), st.tuples(st.just("promise"), points)), max_size=12
)


def run(slack: int, history: list[tuple[str, int | None]]) -> list[SlackFrontier]:
    frontiers = [SlackFrontier(slack)]
    for kind, point in history:
        last = frontiers[-1]
        if kind == "batch":
            frontiers.append(last.after(Seen(point)))
        else:
            assert point is not None
            frontiers.append(last.promise(point))
    return frontiers


@some
@given(st.integers(0, 1000), steps)
def test_slack_frontier_value(slack: int, history: list[tuple[str, int | None]]) -> None:
    seen = [point for kind, point in history if kind == "batch" and point is not None]
    promised = [point for kind, point in history if kind == "promise" and point is not None]
    wanted = [max(seen) - slack] if seen else []
    wanted += [max(promised)] if promised else []
    assert run(slack, history)[-1].value == (max(wanted) if wanted else None)


@some
@given(st.integers(0, 1000), steps)
def test_frontier_never_falls(slack: int, history: list[tuple[str, int | None]]) -> None:
    values = [f.value for f in run(slack, history)]
    for before, after in zip(values, values[1:], strict=False):
        assert before is None or (after is not None and after >= before)


@some
@given(st.integers(0, 1000), steps, st.randoms(use_true_random=False))
def test_order_of_batches_and_promises(slack: int, history: list[tuple[str, int | None]], random: Random) -> None:
    shuffled = list(history)
    random.shuffle(shuffled)
    assert run(slack, shuffled)[-1] == run(slack, history)[-1]


def test_no_frontier_before_first_tuple() -> None:
    assert SlackFrontier(5).value is None
    assert SlackFrontier(5).after(Seen(None)).value is None


def test_ordered() -> None:
    assert SlackFrontier(0).after(Seen(42)).value == 42
    assert SlackFrontier(10).after(Seen(42)).value == 32
    assert SlackFrontier(10).after(Seen(42)).after(Seen(40)).value == 32


def test_slack_does_not_lower_end_of_input() -> None:
    frontier = SlackFrontier(10).after(Seen(42)).promise(43)
    assert frontier.value == 43
    assert frontier.after(Seen(50)).value == 43
    assert frontier.after(Seen(60)).value == 50


def test_negative_slack() -> None:
    with pytest.raises(ValueError, match="slack"):
        SlackFrontier(-1)


# -- the other policies ------------------------------------------------------------------------------------------

batches = st.lists(st.lists(st.tuples(st.integers(-50, 50), st.sampled_from(["a", "b", None])), max_size=6), max_size=8)


def seen(batch: list[tuple[int, str | None]]) -> Seen:
    points = sorted((t for t, _ in batch), reverse=True)
    by_key = {key: max(t for t, k in batch if k == key) for key in {k for _, k in batch}}
    return Seen(points[0] if points else None, tuple(points), by_key, len(batch))


@some
@given(st.integers(0, 5), batches)
def test_row_slack_matches_bsort(rows: int, fed: list[list[tuple[int, str | None]]]) -> None:
    """The frontier is the greatest point that has left a sorting buffer of `rows` tuples."""
    frontier, buffer, left = RowSlackFrontier(rows), [], None
    for batch in fed:
        frontier = frontier.after(seen(batch))
        for t, _ in batch:
            buffer = sorted([*buffer, t])
            if len(buffer) > rows:
                least = buffer.pop(0)
                left = least if left is None else max(left, least)
    assert frontier.value == left
    assert RowSlackFrontier(rows).restored(json.loads(json.dumps(frontier.saved()))) == frontier


@some
@given(st.none() | st.integers(0, 40), batches)
def test_per_key(idle: int | None, fed: list[list[tuple[int, str | None]]]) -> None:
    frontier = PerKeyFrontier(idle)
    live: dict[str | None, int] = {}
    top, reached = None, None
    for batch in fed:
        frontier = frontier.after(seen(batch))
        for t, key in batch:
            live[key] = max(t, live.get(key, t))
            top = t if top is None else max(top, t)
        if batch and top is not None:
            live = {key: t for key, t in live.items() if idle is None or top - t <= idle}
            least = min(live.values())
            reached = least if reached is None else max(reached, least)
        assert frontier.value == reached and dict(frontier.keys) == live
    assert PerKeyFrontier(idle).restored(json.loads(json.dumps(frontier.saved()))) == frontier


def test_row_and_source_frontiers() -> None:
    rows = RowFrontier().after(Seen(rows=3)).after(Seen(rows=2))
    assert rows.value == 6 and rows.greatest == 5 and RowFrontier().value is None
    assert rows.promise(9).value == 9 and RowFrontier().restored(rows.saved()) == rows
    source = SourceFrontier().after(Seen(50))
    assert source.value is None and source.greatest == 50 and source.promise(40).value == 40
    assert SourceFrontier().restored(source.promise(40).saved()) == source.promise(40)
    with pytest.raises(ValueError, match="not negative"):
        RowSlackFrontier(-1)


def test_heartbeat_setting() -> None:
    second = 1_000_000
    assert heartbeat(100 * second, 99 * second, 5 * second, 10) is None, "it was heard a second ago"
    assert heartbeat(100 * second, 95 * second, 5 * second, 10) == 95 * second
    assert heartbeat(100 * second + 7, 95 * second, 5 * second, 10) == 95 * second, "in whole seconds"
    assert heartbeat(100 * second, 90 * second, 5 * second, 95 * second) is None, "it is there already"
    assert heartbeat(100 * second, 90 * second, 5 * second, None) is None, "nothing was ever seen"


def test_silence() -> None:
    silence = Silence(0, 10.0)
    assert silence.in_steps(12.9, 1_000_000).counted == 2_000_000
    assert silence.in_steps(12.9, 1_000_000).in_steps(13.0, 1_000_000).counted == 3_000_000
    assert silence.in_steps(10.9, 1_000_000).counted == 0
    stopped = silence.in_steps(12.5, 1_000_000)
    assert stopped.paused(1000.0).in_steps(1001.0, 1_000_000).counted == 3_000_000


def test_beat() -> None:
    silence, nothing = Silence(30), Silence(0)
    seen = Seen(100, (100, 90), {"a": 100, "b": 50})
    assert beat(SlackFrontier(20).after(seen), 20, silence) == 110
    assert beat(SlackFrontier(20).after(seen), 20, nothing) is None, "it has only just become silent"
    assert beat(SlackFrontier(20).after(seen).promise(110), 20, silence) is None, "it is there already"
    assert beat(SlackFrontier(20), 20, silence) is None, "there is no point to go on from"
    assert beat(SlackFrontier(20).promise(5), 20, silence) is None, "a punctuation is no tuple"
    assert beat(RowSlackFrontier(1).after(seen), 0, silence) == 130
    assert beat(PerKeyFrontier(None).after(seen), 0, silence) == 130, "from the greatest of all sub-streams"
    assert beat(SourceFrontier().after(seen), 0, silence) == 130
    assert beat(SourceFrontier().after(seen).promise(200), 0, silence) is None
