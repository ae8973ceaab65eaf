"""Which sub-plans a query may share with others in a batch of ticks, and who shared which.

The state of a sub-plan belongs to every query that has it, by reference: in memory they have the same tables, in the
catalog the same parts of blocks, which count their users. So a query that is dropped, suspended or held back by its
sink takes nothing from the others, and nothing is ever handed over. Queries share from the batch on at which their
states are the same: those created together from the first, others once their states have become equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windrow.engine.plans.query import ContinuousQuery
from windrow.operators.scan import reach
from windrow.operators.sharing.subplans import SubPlan
from windrow.operators.state import ROOT, has_internal
from windrow.operators.ticks import DueTicks
from windrow.settings import SHARE_SUBPLANS
from windrow.types import POINT_MIN


def subplans_of(query: ContinuousQuery, due: DueTicks) -> list[SubPlan]:
    """The sub-plans that a query may share, each before those that are in it. They read the same tuples if they see
    those from the same points on: what a store keeps of a stream does not depend on its buckets."""
    if SHARE_SUBPLANS in query.choices.rules_off:
        return []
    found, is_internal = [], has_internal(query.plan)
    for one in query.sharable_subplans:
        key = (one.key, is_internal, *(_seen_from(query, i, due) for i in one.windows))
        found.append(SubPlan(ROOT + "".join(f".{i}" for i in one.place), key, frozenset(one.windows)))
    return found


def _seen_from(query: ContinuousQuery, i: int, due: DueTicks) -> int:
    """The point from which on window i reads tuples for these ticks."""
    below, since = reach(query.plan.windows[i], query.history[i]), query.uses[i].since
    lo = POINT_MIN if below is None else due.before - below
    return lo if since is None else max(lo, since)


TakenBy = tuple[int, str, int, str]
"""A query, the path of a sub-plan that it took, the query that processed that, and the path there."""


def note_sharers(queries: Sequence[ContinuousQuery], taken: Iterable[TakenBy]) -> None:
    """Note for EXPLAIN who shares what."""
    names = {query.id: query.name for query in queries}
    groups = dict[tuple[int, str], list[tuple[int, str]]]()
    for number, path, by, its_path in taken:
        groups.setdefault((by, its_path), [(by, its_path)]).append((number, path))
    for query in queries:
        mine = dict[str, tuple[str, ...]]()
        for members in groups.values():
            for number, path in members:
                if number == query.id:
                    mine[path] = tuple(names[other] for other, _ in members if other != number)
        query.shares_subplans = mine
