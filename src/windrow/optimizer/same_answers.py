"""Queries that are the same but for their period: the answers of one are among those of another.

Rule CS8 of 001_3bbbc8a20ffc7252.txt, 8.4.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from windrow.cql.dialect import CQL
from windrow.optimizer.shapes import Asked
from windrow.optimizer.sharing import shares_answers
from windrow.plan.nodes import Finalise
from windrow.windows import LandmarkWindow, SlidingWindow

SHARE_ANSWERS = "share_answers"


def as_asked(plan: Finalise) -> Asked | None:
    """A query as rule CS8 sees it; None where its answers are not had from another's.

    Windows that slide by tuples have their period in tuples, and partitioned ones a period for each partition.
    """
    window = plan.window
    if isinstance(window, LandmarkWindow):
        length, plain = 1, repr(replace(window, slide=1, origin=0))
    elif isinstance(window, SlidingWindow):
        length, plain = window.range, repr(replace(window, slide=1, origin=0))
    else:
        return None
    told = (plain, _text(plan))
    text = hashlib.sha1(repr(told).encode()).hexdigest()
    return Asked(frozenset(), (length,), slide=window.slide, phase=window.origin % window.slide, text=text)


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


def leaders(asked: list[Asked | None]) -> list[int | None]:
    """Of each query the index of one whose answers have all of its own, and which has none itself; by rule CS8."""
    of_text: dict[str, list[tuple[int, int, Asked]]] = {}
    for i, one in enumerate(asked):
        if one is not None:
            of_text.setdefault(one.text, []).append((one.slide, i, one))
    found: list[int | None] = [None] * len(asked)
    for alike in of_text.values():
        first: list[tuple[int, Asked]] = []
        for _, i, one in sorted(alike, key=lambda told: told[:2]):
            found[i] = next((leader for leader, known in first if shares_answers(known, one)), None)
            if found[i] is None:
                first.append((i, one))
    return found
