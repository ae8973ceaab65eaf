"""What is measured of a test (Golab's dissertation, section 7.5.1 and Figure 7.7).

Staleness is the time from the end of the window that an answer shows to the answer: an update counts from when its pane
is complete, not from when a scheduler commits it, else serial execution would be fresher the longer it holds updates back.
`one_time_since_commit_s` counts from the commit. Response time is from when a query was asked. Throughput counts the transactions
answered before the end of the test, the means all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from isolating.simulation import Answered, Outcome


@dataclass(frozen=True)
class Metrics:
    """Of a test, or the means of several. None: there was nothing to measure."""

    aborted_share: float | None
    staleness_s: float | None
    inter_execution_s: float | None
    throughput: float | None
    response_s: float | None
    one_time_staleness_s: float | None
    one_time_since_commit_s: float | None


def metrics_of(outcome: Outcome) -> Metrics:
    periodic = [one for one in outcome.answers if one.group is not None]
    one_time = [one for one in outcome.answers if one.group is None]
    window_s = outcome.workload.setting.window_s
    in_time = sum(one.at_s <= window_s for one in outcome.answers)
    return Metrics(
        aborted_share=outcome.aborts / (outcome.aborts + len(outcome.answers)),
        staleness_s=_mean(one.at_s - one.instant_s for one in periodic),
        inter_execution_s=_mean(_gaps(periodic)),
        throughput=in_time / window_s,
        response_s=_mean(one.at_s - one.asked_s for one in one_time),
        one_time_staleness_s=_mean(one.at_s - one.instant_s for one in one_time),
        one_time_since_commit_s=_mean(one.at_s - one.committed_s for one in one_time),
    )


def mean_of(trials: Sequence[Metrics]) -> Metrics:
    """The mean of each measure over the trials that have it."""
    names = [one.name for one in fields(Metrics)]
    return Metrics(**{name: _mean(v for one in trials if (v := getattr(one, name)) is not None) for name in names})


def _gaps(periodic: Iterable[Answered]) -> list[float]:
    """The times between the answers of each group."""
    by_group: dict[int | None, list[float]] = defaultdict(list)
    for one in periodic:
        by_group[one.group].append(one.at_s)
    return [after - before for times in by_group.values() for before, after in zip(times, times[1:], strict=False)]


def _mean(numbers: Iterable[float]) -> float | None:
    found = list(numbers)
    return sum(found) / len(found) if found else None
