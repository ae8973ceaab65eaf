"""The histogram of lateness: its buckets, and the slack read from it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.windows.lateness import Lateness, bucket_of, most_in

some = settings(max_examples=200, deadline=None)
latenesses = st.integers(-5, 10**18)


@some
@given(latenesses)
def test_buckets(late: int) -> None:
    bucket = int(bucket_of(np.array([late]))[0])
    assert most_in(bucket) >= max(late, 0)
    assert bucket == 0 or most_in(bucket - 1) < late
    assert most_in(bucket) <= max(late, 0) * 9 / 8 + 1


@some
@given(st.lists(latenesses, min_size=1, max_size=50), st.sampled_from([0.5, 0.99, 0.999, 1.0]))
def test_slack_for_share(late: list[int], share: float) -> None:
    histogram = Lateness()
    for one in late:
        histogram = histogram.after(np.array([one]), np.array([1]))
    assert histogram == Lateness().after(np.array(late), np.ones(len(late), np.int64))
    slack = histogram.slack_for(share)
    assert sum(x <= slack for x in late) >= share * len(late)
    needed = sorted(max(x, 0) for x in late)[max(0, int(np.ceil(share * len(late))) - 1)]
    assert needed <= slack <= needed * 9 / 8 + 1


def test_slack_for_all_tuples() -> None:
    histogram = Lateness().after(np.array([0, 1_000_003]), np.array([10, 1]))
    assert histogram.slack_for(1.0) == 1_000_003 and histogram.total == 11
    assert histogram.slack_for(0.9) == 0


@pytest.mark.parametrize("late", [7, 8, 15, 16, 17, 31, 32, 33, 1 << 40, (1 << 40) + 1])
def test_bucket_edges(late: int) -> None:
    low, high = bucket_of(np.array([late - 1, late])).tolist()
    assert high - low in (0, 1)
