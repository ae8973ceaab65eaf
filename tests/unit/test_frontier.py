"""Frontiers: slack lowers them, promises raise them, and they never go back."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.windows import Seen, SlackFrontier

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
def test_the_frontier_is_the_greatest_point_less_slack_or_the_greatest_promise(
    slack: int, history: list[tuple[str, int | None]]
) -> None:
    seen = [point for kind, point in history if kind == "batch" and point is not None]
    promised = [point for kind, point in history if kind == "promise" and point is not None]
    wanted = [max(seen) - slack] if seen else []
    wanted += [max(promised)] if promised else []
    assert run(slack, history)[-1].value == (max(wanted) if wanted else None)


@some
@given(st.integers(0, 1000), steps)
def test_the_frontier_never_goes_back(slack: int, history: list[tuple[str, int | None]]) -> None:
    values = [f.value for f in run(slack, history)]
    for before, after in zip(values, values[1:], strict=False):
        assert before is None or (after is not None and after >= before)


@some
@given(st.integers(0, 1000), steps, st.randoms(use_true_random=False))
def test_the_order_of_micro_batches_and_promises_does_not_matter(
    slack: int, history: list[tuple[str, int | None]], random: Random
) -> None:
    shuffled = list(history)
    random.shuffle(shuffled)
    assert run(slack, shuffled)[-1] == run(slack, history)[-1]


def test_nothing_seen_is_no_frontier() -> None:
    assert SlackFrontier(5).value is None
    assert SlackFrontier(5).after(Seen(None)).value is None


def test_ordered_is_slack_zero() -> None:
    assert SlackFrontier(0).after(Seen(42)).value == 42
    assert SlackFrontier(10).after(Seen(42)).value == 32
    assert SlackFrontier(10).after(Seen(42)).after(Seen(40)).value == 32


def test_the_end_of_input_is_a_promise_that_slack_cannot_lower() -> None:
    frontier = SlackFrontier(10).after(Seen(42)).promise(43)
    assert frontier.value == 43
    assert frontier.after(50).value == 43
    assert frontier.after(60).value == 50


def test_slack_is_not_negative() -> None:
    with pytest.raises(ValueError, match="slack"):
        SlackFrontier(-1)
