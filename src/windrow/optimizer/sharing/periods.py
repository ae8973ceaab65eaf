"""Queries that differ in their period alone: the answers of one are among those of another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from windrow.cql.dialect import CQL
from windrow.plan.nodes import Finalise
from windrow.windows import LandmarkWindow, SlidingWindow


@dataclass(frozen=True)
class PeriodicAnswers:
    """`text`: all that makes up the answers of a query but its period."""

    text: str
    slide: int
    phase: int = 0

    def include(self, other: PeriodicAnswers) -> bool:
        """Whether every answer of the other query is one of this query's."""
        on_time = other.slide % self.slide == 0 and (other.phase - self.phase) % self.slide == 0
        return on_time and self.text == other.text


def periodic_answers(plan: Finalise) -> PeriodicAnswers | None:
    """The answers of a query; None where its period is not one of points.

    Windows that slide by tuples have their period in tuples, and partitioned ones a period for each partition.
    """
    window = plan.window
    if not isinstance(window, (LandmarkWindow, SlidingWindow)):
        return None
    told = (repr(replace(window, slide=1, origin=0)), _text(plan))
    text = hashlib.sha1(repr(told).encode()).hexdigest()
    return PeriodicAnswers(text, window.slide, window.origin % window.slide)


def _text(plan: Finalise) -> object:
    """All that makes up the rows of a window."""
    aggregate = plan.input
    return (
        aggregate.input,
        aggregate.keys,
        aggregate.aggregates,
        [(o.name, o.expression.sql(dialect=CQL), o.type) for o in plan.outputs],
        None if plan.having is None else plan.having.sql(dialect=CQL),
        [(o.expression.sql(dialect=CQL), o.descending, o.nulls_first) for o in plan.order],
        plan.limit,
    )


def leaders(answers: Sequence[PeriodicAnswers | None]) -> list[int | None]:
    """For each query the index of one that has all its answers and follows no other; None: it leads."""
    of_text: dict[str, list[tuple[int, int, PeriodicAnswers]]] = {}
    for i, one in enumerate(answers):
        if one is not None:
            of_text.setdefault(one.text, []).append((one.slide, i, one))
    found: list[int | None] = [None] * len(answers)
    for alike in of_text.values():
        first: list[tuple[int, PeriodicAnswers]] = []
        for _, i, one in sorted(alike, key=lambda told: told[:2]):
            found[i] = next((leader for leader, known in first if known.include(one)), None)
            if found[i] is None:
                first.append((i, one))
    return found
