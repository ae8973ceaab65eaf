"""Decides which HAVING queries use a SubStream Filter, and narrows their lookups to the groups that may pass.

Arasu and Widom, VLDB 2004, section 4. All queries of a synopsis with a bound on the same aggregate share a filter,
whatever their thresholds and windows. The filter finds the groups that may pass; only these are looked up, and HAVING
is then evaluated on them, so answers are exact. With `SET approximate_having = 'on'` the bound is not compared again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from sqlglot import exp

from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.plan.accumulators import Accumulator
from windrow.plan.having import Bound, having_bounds, without
from windrow.plan.nodes import Finalise
from windrow.settings import Settings
from windrow.synopses import Ability, Lookup, LookupAnswer, Synopsis
from windrow.synopses.answering.closed_panes import ClosedPanes
from windrow.synopses.answering.filter_costs import FilterWork
from windrow.synopses.answering.pane_tables import can_be_tabled
from windrow.synopses.answering.planner import FilterDecision, HavingWay, plan_filter
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.having.collective_index import Levels
from windrow.synopses.having.filter_tests import FilterTest, filter_test
from windrow.synopses.having.pane_filters import FilterRequest, PaneFilters
from windrow.synopses.having.units import coarseness, level_of
from windrow.synopses.lookups import Pairs
from windrow.windows import SlidingWindow


@dataclass(frozen=True)
class FilterFit:
    """A query that a filter can serve: the bound, its test, and the window."""

    plan: Finalise
    bound: Bound
    test: FilterTest
    window: SlidingWindow

    @cached_property
    def approximate(self) -> Finalise | None:
        """The query without the comparison of a bound on COUNT or SUM; None if the bound must be compared."""
        if isinstance(self.bound.conjunct, exp.Between) or not self.test.kind.is_collective:
            return None
        plan = without(self.plan, [self.bound])
        trees = [*(o.expression for o in plan.outputs), *(o.expression for o in plan.order), plan.having]
        read = {c.name for tree in trees if tree is not None for c in tree.find_all(exp.Column)}
        if any(f"a{i}" in read for i in range(len(plan.input.aggregates))):
            return plan
        return replace(plan, input=replace(plan.input, aggregates=()))


def fit_of(plan: Finalise, revises: bool) -> FilterFit | str:
    """How a filter can serve a query, or the reason why it cannot."""
    if plan.having is None or not plan.input.keys:
        return "no HAVING over groups"
    if plan.input.is_holistic:
        return "its state is kept per value, not per group"
    window = plan.window
    if not isinstance(window, SlidingWindow) or window.offset:
        return "only windows that end when they are answered can use one"
    if revises and not can_be_tabled(fold_of(a) for a in plan.input.accumulators):
        return "answers may be corrected, so sums of doubles must keep their order"
    found = [(bound, filter_test(bound, plan.input.presence)) for bound in having_bounds(plan)]
    fits = [FilterFit(plan, bound, test, window) for bound, test in found if test is not None]
    if not fits:
        return "HAVING has no conjunct of the form COUNT, SUM (of integers), MAX or MIN compared with a number"
    return min(fits, key=lambda fit: not fit.test.is_outer)


def is_kept(shared: SynopsisPlan, query: str, fit: FilterFit) -> bool:
    """Whether the synopsis keeps cells of all that the filter reads; derived accumulators (SS4) have none."""
    return not any(one.accumulator in fit.test.reads for one in shared.derived.get(query, ()))


@dataclass(frozen=True)
class NarrowedLookups:
    """Due lookups after filtering: still to look up, or answered already; `plans` replaces the plan of some queries."""

    lookups: list[Lookup]
    looked: list[LookupAnswer] = field(default_factory=list)
    plans: dict[str, Finalise] = field(default_factory=dict)


class HavingFilters:
    """The filters of one synopsis, and the decisions about its HAVING queries."""

    def __init__(self) -> None:
        self.filters = PaneFilters()
        self.decisions: dict[Accumulator, FilterDecision] = {}
        self.unfiltered: set[str] = set()
        """The queries whose last windows the filter could not answer, because of negative or too large sums."""
        self._fits: dict[int, tuple[Finalise, FilterFit | str]] = {}
        self._too_many: tuple[int, int, str] | None = None
        """The number of groups, index_bytes and ε at which the filters last took too many bytes."""

    @property
    def nbytes(self) -> int:
        return 8 * self.filters.size

    def clear(self) -> None:
        """Drop all filters and decisions: the driver no longer has the cells."""
        self.filters.keep(())
        self.decisions, self._fits = {}, {}
        self.unfiltered.clear()

    def fit(self, plan: Finalise, revises: bool) -> FilterFit | str:
        known = self._fits.get(id(plan))
        if known is None or known[0] is not plan:
            known = self._fits[id(plan)] = (plan, fit_of(plan, revises))
        return known[1]

    def narrowed(
        self,
        shared: SynopsisPlan,
        shown: Synopsis,
        due: Sequence[tuple[Lookup, Finalise]],
        settings: Settings,
        revises: bool,
    ) -> NarrowedLookups:
        """The due lookups; those that use a filter are narrowed to the groups that may pass."""
        lookups, synopsis = [lookup for lookup, _ in due], shown.readable
        if synopsis is None:
            self.clear()
            return NarrowedLookups(lookups)
        self._forget(shared, settings)
        fits = {}
        if settings.text("substream_filters") != "off" and shown.cannot(Ability.NARROW) is None:
            fit_or_reason = {i: self.fit(plan, revises) for i, (_, plan) in enumerate(due)}
            fits = {i: fit for i, fit in fit_or_reason.items() if isinstance(fit, FilterFit) and lookups[i].ends.size}
            fits = {i: fit for i, fit in fits.items() if is_kept(shared, lookups[i].query, fit)}
        approximate = settings.text("approximate_having") == "on" and not revises
        chosen = self._chosen(synopsis, lookups, fits, settings, not approximate)
        self.unfiltered -= {lookups[i].query for i in fits if i not in chosen}
        if not chosen:
            return NarrowedLookups(lookups)
        plans = {i: fit.approximate for i, fit in chosen.items()} if approximate else {}
        requests = {
            i: FilterRequest(fit.test, lookups[i].starts, lookups[i].ends, fit.window.range, plans.get(i) is None)
            for i, fit in chosen.items()
        }
        pairs = self.filters.candidates(synopsis, list(requests.values()), levels_of(settings))
        self._bound(synopsis, settings)
        out = NarrowedLookups([lookups[i] for i in range(len(lookups)) if i not in chosen])
        for i, found in zip(chosen, pairs, strict=True):
            self._add(out, lookups[i], found, plans.get(i))
            (self.unfiltered.add if found is None else self.unfiltered.discard)(lookups[i].query)
            if found is not None:
                self._learn(chosen[i], found.groups.size, lookups[i].ends.size * (synopsis.groups.count - 1))
        return out

    def _bound(self, synopsis: ClosedPanes, settings: Settings) -> None:
        """Drop the filters if they take too many bytes. They are tried again with half the groups or other settings."""
        if self.nbytes > settings.integer("index_bytes") and settings.text("substream_filters") != "on":
            self.filters.keep(())
            self._too_many = synopsis.groups.count, settings.integer("index_bytes"), settings.text("filter_epsilon")

    def _refused(self, synopsis: ClosedPanes, settings: Settings) -> str | None:
        """The reason why there may be no filters; None if there may."""
        if self._too_many is not None:
            groups, most, epsilon = self._too_many
            same = settings.integer("index_bytes") <= most and settings.text("filter_epsilon") == epsilon
            if synopsis.groups.count < groups // 2 or not same:
                self._too_many = None
        return "it took more than index_bytes" if self._too_many is not None else None

    def _add(self, out: NarrowedLookups, lookup: Lookup, pairs: Pairs | None, plan: Finalise | None) -> None:
        if plan is None or pairs is None:
            out.lookups.append(replace(lookup, only=pairs))
            return
        out.plans[lookup.query] = plan
        if plan.input.aggregates:
            out.lookups.append(replace(lookup, only=pairs))
        else:
            out.looked.append(LookupAnswer(lookup.query, int(lookup.ends.size), pairs.window, pairs.groups, {}))

    def passed(self, plan: Finalise, slots: int, rows: int) -> None:
        """Learn the share of slots that passed for a query answered without a filter.

        `slots` counts (window, group) pairs over all groups, as with a filter; else the share would jump when a filter
        comes.
        """
        _, fit = self._fits.get(id(plan), (plan, ""))
        used = isinstance(fit, FilterFit) and fit.test.of in self.filters
        if isinstance(fit, FilterFit) and not used and plan.limit is None:
            self._learn(fit, rows, slots)

    def _learn(self, fit: FilterFit, passed: int, slots: int) -> None:
        """Record that `passed` of `slots` (window, group) pairs passed."""
        if slots:
            self.filters.learn(fit.test.of, passed / slots)

    def _forget(self, shared: SynopsisPlan, settings: Settings) -> None:
        """Drop what served queries that no longer exist."""
        plans = {id(plan) for _, plan in shared.queries}
        self._fits = {key: known for key, known in self._fits.items() if key in plans}
        fits = [fit for _, fit in self._fits.values() if isinstance(fit, FilterFit)]
        wanted = {a for fit in fits for a in fit.test.reads}
        self.filters.keep(wanted if settings.text("substream_filters") != "off" else ())
        self.decisions = {a: made for a, made in self.decisions.items() if a in wanted}
        self.unfiltered &= {name for name, _ in shared.queries} if self.unfiltered else set()

    def _chosen(
        self,
        synopsis: ClosedPanes,
        lookups: Sequence[Lookup],
        fits: dict[int, FilterFit],
        settings: Settings,
        exact: bool,
    ) -> dict[int, FilterFit]:
        """The fits whose filter is used, by the position of their lookup."""
        by_accumulator: dict[Accumulator, dict[int, FilterFit]] = {}
        for i, fit in fits.items():
            by_accumulator.setdefault(fit.test.of, {})[i] = fit
        chosen: dict[int, FilterFit] = {}
        for accumulator, members in by_accumulator.items():
            share = self.filters.share(accumulator)
            forced, work = settings.text("substream_filters") == "on", None
            if share is not None:
                served = [(lookups[i], fit) for i, fit in members.items()]
                work = work_of(synopsis, served, share, levels_of(settings), exact)
            refused = None if forced else self._refused(synopsis, settings)
            made = plan_filter(work, accumulator in self.filters, forced, refused)
            self.decisions[accumulator] = made
            chosen |= members if made.chosen is HavingWay.FILTER else {}
        return dict(sorted(chosen.items()))


def levels_of(settings: Settings) -> Levels:
    return Levels.within(float(settings.text("filter_epsilon")))


def work_of(
    synopsis: ClosedPanes,
    served: Sequence[tuple[Lookup, FilterFit]],
    share: float,
    levels: Levels,
    exact: bool,
) -> FilterWork:
    """The work of the due lookups that one filter serves."""
    panes = synopsis.closed_panes
    lengths = np.concatenate(
        [np.searchsorted(panes, one.ends) - np.searchsorted(panes, one.starts) for one, _ in served]
    )
    first = min(int(one.ends[0]) - fit.window.slide for one, fit in served)
    last = max(int(one.ends[-1]) for one, _ in served)
    looks = {(s, e, _level(fit.test, levels)) for one, fit in served for s, e in _edges(one)}
    reads = {a for one, _ in served for a in one.reads}
    test = served[0][1].test
    return FilterWork(
        aggregate=test.kind.name,
        p=levels.p,
        fine=min(coarseness(fit.test, exact) for _, fit in served) == 0,
        groups=max(synopsis.groups.count - 1, 1),
        cells=synopsis.count_cells(first, last),
        windows=int(lengths.size),
        intervals=len({(s, e) for s, e, _ in looks}),
        looks=len(looks),
        panes=float(lengths.mean()),
        longest=int(lengths.max()),
        columns=len(reads),
        share=share,
    )


def _level(test: FilterTest, levels: Levels) -> int:
    return level_of(test, levels) if test.kind.is_collective else test.value


def _edges(lookup: Lookup) -> zip[tuple[int, int]]:
    return zip(lookup.starts.tolist(), lookup.ends.tolist(), strict=True)
