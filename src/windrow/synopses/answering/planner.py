"""The planner chooses among ways that give the same answers.

It makes four decisions, each a pure function of measured sizes:

    plan_way         one pass over the panes, tables over panes, a tree, or the index
    plan_index       which index over closed panes a synopsis keeps, or none
    plan_selection   holistic aggregates selected from sorted base intervals, or rolled up from counters
    plan_filter      HAVING through a SubStream Filter, or by a pass over all groups

`*_costs.py` estimate the costs from the constants in `costs.py`. Callers keep the state that lasts from tick to tick. A
decision is one record, which EXPLAIN prints.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.nodes import WindowAggregate
from windrow.synopses.answering import costs
from windrow.synopses.answering.filter_costs import FilterWork
from windrow.synopses.answering.index_costs import IndexEstimate, IndexWork, candidates
from windrow.synopses.answering.pane_tables import can_be_tabled
from windrow.synopses.answering.selection_costs import SelectionBatch, SelectionWork
from windrow.synopses.answering.way_costs import Way, WindowWork
from windrow.synopses.cells.cells import fold_of

Choice = TypeVar("Choice", bound=Enum)
Sizes = TypeVar("Sizes")

BY_COST, FORCED = "by cost", "forced"

SELECTED = ("MEDIAN", "QUANTILE", COUNT_DISTINCT)
"""The holistic aggregates that sorted base intervals can answer; TOP_K needs the counters of all values."""


class HolisticWay(Enum):
    """How the holistic aggregates of a query are answered."""

    SELECTION = "selection from base intervals"
    ROLL_UP = "rolled up from counters"


class HavingWay(Enum):
    """Whether HAVING over many groups is answered through its filter."""

    FILTER = "used"
    PASS = "not used"


@dataclass(frozen=True)
class Decision(Generic[Choice, Sizes]):
    """A choice, the reason, the sizes it was made from, and the estimated nanoseconds of each alternative."""

    chosen: Choice
    why: str = BY_COST
    sizes: Sizes | None = None
    costs: tuple[tuple[Choice, float], ...] = ()


WayDecision = Decision[Way, WindowWork]
IndexDecision = Decision[SynopsisKind, IndexWork]
HolisticDecision = Decision[HolisticWay, SelectionBatch]
FilterDecision = Decision[HavingWay, FilterWork]


def plan_way(work: WindowWork, indexed: float | None) -> WayDecision:
    """The cheapest way; `indexed`: the cost by the index, None where no index has all that is read."""
    totals = work.scans()
    if indexed is not None:
        totals[Way.INDEX] = indexed
    return Decision(min(totals, key=lambda way: totals[way]), BY_COST, work, tuple(totals.items()))


def plan_index(work: IndexWork, present: SynopsisKind, most_bytes: int, forced: SynopsisKind | None) -> IndexDecision:
    """The kind that a setting forces, or the nearest that applies; else the cheapest that fits into `most_bytes`.

    The present kind stays unless another is clearly cheaper.
    """
    if forced is not None:
        return Decision(_applicable(forced, work), FORCED, work)
    totals = {one.kind: one.total for one in candidates(work) if one.nbytes <= most_bytes}
    best = min(totals, key=lambda kind: totals[kind])
    kept = present if present in totals else best
    chosen = best if totals[best] < costs.SLOWER * totals[kept] else kept
    return Decision(chosen, BY_COST, work, tuple(totals.items()))


def _applicable(kind: SynopsisKind, work: IndexWork) -> SynopsisKind:
    """Landmark falls back to running where it does not apply, and running to interval where nothing subtracts."""
    if kind is SynopsisKind.LANDMARK and not (work.merged and work.written):
        kind = SynopsisKind.RUNNING
    return SynopsisKind.INTERVAL if kind is SynopsisKind.RUNNING and not work.subtractable else kind


def gains_from_index(probing: IndexWork) -> bool:
    """Whether some index answers a probing faster than a walk.

    A probing of more than b / log b windows walks anyway (`index_costs.py`), so it does not count for or against an
    index that serves other probings.
    """
    walk, *indexed = candidates(probing)
    return any(one.lookup < walk.lookup for one in indexed)


def quickest_index(probing: IndexWork) -> IndexEstimate:
    """The index that answers a probing fastest."""
    return min(candidates(probing)[1:], key=lambda one: one.lookup)


def repays_building(saved: float, panes: int, best: IndexEstimate) -> bool:
    """Whether walking has cost `saved` ns extra, at least what building takes; so one lookup alone builds no index."""
    return saved >= panes * best.update


def why_not_selected(aggregate: WindowAggregate, revises: bool, derived: bool, promised: bool) -> str | None:
    """The reason why a query's holistic aggregates must be rolled up; None where they may be selected."""
    if derived:
        return "some of its counters are derived from other accumulators"
    if promised and aggregate.keys:
        return "groups may be answered before their window ends"
    other = next((c.function for c in aggregate.aggregates if c.values and c.function not in SELECTED), None)
    if other is not None:
        return f"{other} needs the counters of all values"
    plain = [part for call in aggregate.aggregates if not call.values for _, part in call.parts]
    if revises and not can_be_tabled(fold_of(a) for a in plain):
        return "answers may be corrected, so sums of doubles must keep their order"
    return None


def rolled_up(why: str) -> HolisticDecision:
    """A roll-up without a comparison of costs."""
    return Decision(HolisticWay.ROLL_UP, why)


def roll_up_at_once(windows: int, values: int) -> str | None:
    """The reason to roll up so few windows and values without measuring; None where measuring pays."""
    few = windows * values * (costs.LOOKED_NS + costs.ROLLED_NS) < costs.NO_THOUGHT_NS
    return "few windows of few values" if few else None


def gaining(works: Sequence[SelectionWork]) -> dict[int, SelectionWork]:
    """The queries, by position, whose selection costs less than their roll-up, not counting the sorting."""
    return {i: work for i, work in enumerate(works) if work.looked_ns < work.rolled_ns}


def plan_selection(
    works: Sequence[SelectionWork], gain: Collection[int], together: SelectionBatch | None
) -> list[HolisticDecision]:
    """The cheaper way for each query of those that are answered together.

    `gain`: the positions of the queries that gain by selection; `together`: their joint work, with one sorting for all.
    """
    whole = None
    if together is not None:
        whole = _holistic(HolisticWay.SELECTION if together.pays else HolisticWay.ROLL_UP, together)
    return [
        whole if whole is not None and i in gain else _holistic(HolisticWay.ROLL_UP, SelectionBatch.alone(work))
        for i, work in enumerate(works)
    ]


def _holistic(way: HolisticWay, sizes: SelectionBatch) -> HolisticDecision:
    both = (HolisticWay.SELECTION, sizes.selected_ns), (HolisticWay.ROLL_UP, sizes.rolled_ns)
    return Decision(way, BY_COST, sizes, both)


def forced_selection(sizes: SelectionBatch | None) -> HolisticDecision:
    """Selection, unless sorting would exceed the limit of memory."""
    if sizes is None or sizes.sorting.nbytes <= costs.MOST_SORTED_BYTES:
        return Decision(HolisticWay.SELECTION, FORCED)
    return rolled_up(f"sorting would take more than {costs.MOST_SORTED_BYTES >> 20} MB")


def plan_filter(work: FilterWork | None, used: bool, forced: bool, refused: str | None) -> FilterDecision:
    """Whether to use a filter.

    `work` is None while the share of passing groups is unknown. `used`: the filter exists now. `refused`: the reason
    why there may be no filter.
    """
    both = () if work is None else ((HavingWay.FILTER, work.filter_ns), (HavingWay.PASS, work.pass_ns))
    if forced:
        return Decision(HavingWay.FILTER, FORCED, work, both)
    if refused is not None:
        return Decision(HavingWay.PASS, refused)
    if work is None:
        return Decision(HavingWay.PASS, "not measured yet")
    if used:
        pays = work.filter_ns * costs.STAY < work.pass_ns
    else:
        pays = work.filter_ns < work.pass_ns * costs.STAY
    return Decision(HavingWay.FILTER if pays else HavingWay.PASS, BY_COST, work, both)
