"""Queries that differ only in their period: one query's answers include the other's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from windrow.cql.dialect import CQL
from windrow.plan.nodes import Finalise
from windrow.windows import LandmarkWindow, SlidingWindow


@dataclass(frozen=True)
class PeriodicAnswers:
    """The answers of a query, for comparison. `text` identifies everything but the period."""

    text: str
    slide: int
    phase: int = 0

    def include(self, other: PeriodicAnswers) -> bool:
        """Whether this query gives every answer of the other."""
        on_time = other.slide % self.slide == 0 and (other.phase - self.phase) % self.slide == 0
        return on_time and self.text == other.text


def periodic_answers(plan: Finalise) -> PeriodicAnswers | None:
    """The periodic answers of a query; None if its period is not in points.

    The period of a window that slides by tuple is in tuples; partitioned windows have one per partition.
    """
    window = plan.window
    if not isinstance(window, (LandmarkWindow, SlidingWindow)):
        return None
    identity = (repr(replace(window, slide=1, origin=0)), _text(plan))
    text = hashlib.sha1(repr(identity).encode()).hexdigest()
    return PeriodicAnswers(text, window.slide, window.origin % window.slide)


def _text(plan: Finalise) -> object:
    """Everything that determines the rows of a window."""
    aggregate = plan.input
    return (
        aggregate.input,
        aggregate.keys,
        aggregate.aggregates,
        [(o.name, _sql(o.expression), o.type) for o in plan.outputs],
        None if plan.having is None else _sql(plan.having),
        [(_sql(o.expression), o.descending, o.nulls_first) for o in plan.order],
        plan.limit,
    )


def _sql(tree: exp.Expr) -> object:
    """What identifies an expression. Most are columns, for which SQL need not be generated: that takes 0.1 ms."""
    return (tree.name,) if isinstance(tree, exp.Column) else tree.sql(dialect=CQL)


def leaders(answers: Sequence[PeriodicAnswers | None]) -> list[int | None]:
    """For each query the index of a leader that gives all its answers; None for a leader."""
    of_text: dict[str, list[tuple[int, int, PeriodicAnswers]]] = {}
    for i, one in enumerate(answers):
        if one is not None:
            of_text.setdefault(one.text, []).append((one.slide, i, one))
    found: list[int | None] = [None] * len(answers)
    for alike in of_text.values():
        first: list[tuple[int, PeriodicAnswers]] = []
        for _, i, one in sorted(alike, key=lambda entry: entry[:2]):
            found[i] = next((leader for leader, known in first if known.include(one)), None)
            if found[i] is None:
                first.append((i, one))
    return found
