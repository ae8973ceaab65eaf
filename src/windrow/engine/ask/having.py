"""HAVING queries and their SubStream Filters: which query fits, whether a filter pays, who may pass.

004_65e36a58973a8297.txt, section 4. The filters of a synopsis are shared by all its queries with a bound on the same
aggregate, whatever the threshold and the window. They name the groups that may pass; the synopsis is asked for these
alone, and HAVING itself decides: exact answers. By request (`SET approximate_having = 'on'`) the bound is not
compared once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from sqlglot import exp

from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.plan.accumulators import Accumulator
from windrow.plan.having import Bound, bounds_of, without
from windrow.plan.nodes import Finalise
from windrow.settings import Settings
from windrow.synopses import Ability, BasicIntervalSynopsis, Looked, Lookup, Synopsis
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
    """A query that a filter can serve: the bound that it is asked for, and how far windows reach."""

    plan: Finalise
    bound: Bound
    test: FilterTest
    window: SlidingWindow

    @cached_property
    def approximate(self) -> Finalise | None:
        """The query with the bound taken for met, of COUNT and SUM; None where the conjunct says more than that."""
        if isinstance(self.bound.conjunct, exp.Between) or not self.test.kind.is_collective:
            return None
        plan = without(self.plan, [self.bound])
        trees = [*(o.expression for o in plan.outputs), *(o.expression for o in plan.order), plan.having]
        read = {c.name for tree in trees if tree is not None for c in tree.find_all(exp.Column)}
        if any(f"a{i}" in read for i in range(len(plan.input.aggregates))):
            return plan
        return replace(plan, input=replace(plan.input, aggregates=()))


def fit_of(plan: Finalise, revises: bool) -> FilterFit | str:
    """How a query fits a filter, or why it does not."""
    if plan.having is None or not plan.input.keys:
        return "no HAVING over groups"
    if plan.input.is_holistic:
        return "its cells are of values, not of groups"
    window = plan.window
    if not isinstance(window, SlidingWindow) or window.offset:
        return "only windows that end when they are answered have one"
    if revises and not can_be_tabled(fold_of(a) for a in plan.input.accumulators):
        return "sums of doubles that may be corrected are always summed in the same order"
    found = [(bound, filter_test(bound, plan.input.presence)) for bound in bounds_of(plan)]
    fits = [FilterFit(plan, bound, test, window) for bound, test in found if test is not None]
    if not fits:
        return "HAVING has no conjunct of the form COUNT, SUM (of integers), MAX or MIN compared with a number"
    return min(fits, key=lambda fit: not fit.test.is_outer)


def is_kept(shared: SynopsisPlan, query: str, fit: FilterFit) -> bool:
    """Whether there are cells of all that a filter is fed with: what is derived (SS4) has none of its own."""
    return not any(one.accumulator in fit.test.reads for one in shared.derived.get(query, ()))


@dataclass(frozen=True)
class NarrowedLookups:
    """Due lookups after the filters: to be looked up; or answered already; `plans` finish queries otherwise."""

    lookups: list[Lookup]
    looked: list[Looked] = field(default_factory=list)
    plans: dict[str, Finalise] = field(default_factory=dict)


class HavingFilters:
    """The filters of one synopsis, and what is known of its HAVING queries."""

    def __init__(self) -> None:
        self.filters = PaneFilters()
        self.decisions: dict[Accumulator, FilterDecision] = {}
        self.unasked: set[str] = set()
        """The queries over whose last windows the filter could not be asked: negative sums, or too great ones."""
        self._fits: dict[int, tuple[Finalise, FilterFit | str]] = {}
        self._too_many: tuple[int, int, str] | None = None
        """So many groups, whose filters took more than so many bytes, at that ε."""

    @property
    def nbytes(self) -> int:
        return 8 * self.filters.size

    def clear(self) -> None:
        """There are no cells here any more to be filtered."""
        self.filters.keep(())
        self.decisions, self._fits = {}, {}
        self.unasked.clear()

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
        """The due lookups, those that a filter serves narrowed to the groups that may pass."""
        lookups, synopsis = [lookup for lookup, _ in due], shown.readable
        if synopsis is None:
            self.clear()
            return NarrowedLookups(lookups)
        self._forget(shared, settings)
        fits = {}
        if settings.text("substream_filters") != "off" and synopsis.cannot(Ability.NARROW) is None:
            found = {i: self.fit(plan, revises) for i, (_, plan) in enumerate(due)}
            fits = {i: fit for i, fit in found.items() if isinstance(fit, FilterFit) and lookups[i].ends.size}
            fits = {i: fit for i, fit in fits.items() if is_kept(shared, lookups[i].query, fit)}
        approximate = settings.text("approximate_having") == "on" and not revises
        chosen = self._chosen(synopsis, lookups, fits, settings, not approximate)
        self.unasked -= {lookups[i].query for i in fits if i not in chosen}
        if not chosen:
            return NarrowedLookups(lookups)
        plans = {i: fit.approximate for i, fit in chosen.items()} if approximate else {}
        asked = {
            i: FilterRequest(fit.test, lookups[i].starts, lookups[i].ends, fit.window.range, plans.get(i) is None)
            for i, fit in chosen.items()
        }
        pairs = self.filters.candidates(synopsis, list(asked.values()), levels_of(settings))
        self._bound(synopsis, settings)
        out = NarrowedLookups([lookups[i] for i in range(len(lookups)) if i not in chosen])
        for i, some in zip(chosen, pairs, strict=True):
            self._add(out, lookups[i], some, plans.get(i))
            (self.unasked.add if some is None else self.unasked.discard)(lookups[i].query)
            if some is not None:
                self._learn(chosen[i], some.groups.size, lookups[i].ends.size * (synopsis.groups.count - 1))
        return out

    def _bound(self, synopsis: BasicIntervalSynopsis, settings: Settings) -> None:
        """Let go of filters that take more than they may; with half the groups they are tried again."""
        if self.nbytes > settings.integer("index_bytes") and settings.text("substream_filters") != "on":
            self.filters.keep(())
            self._too_many = synopsis.groups.count, settings.integer("index_bytes"), settings.text("filter_epsilon")

    def _refused(self, synopsis: BasicIntervalSynopsis, settings: Settings) -> str | None:
        """Why there may be no filters; None where there may."""
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
            out.looked.append(Looked(lookup.query, int(lookup.ends.size), pairs.window, pairs.groups, {}))

    def passed(self, plan: Finalise, slots: int, rows: int) -> None:
        """How many rows a query without a filter has made of so many (window, group) slots: of all groups, as where a
        filter names them, or the share would jump when one comes."""
        _, fit = self._fits.get(id(plan), (plan, ""))
        used = isinstance(fit, FilterFit) and fit.test.of in self.filters
        if isinstance(fit, FilterFit) and not used and plan.limit is None:
            self._learn(fit, rows, slots)

    def _learn(self, fit: FilterFit, passed: int, slots: int) -> None:
        """How many of so many (window, group) slots passed."""
        if slots:
            self.filters.learn(fit.test.of, passed / slots)

    def _forget(self, shared: SynopsisPlan, settings: Settings) -> None:
        """Let go of what served queries that have left."""
        plans = {id(plan) for _, plan in shared.queries}
        self._fits = {key: known for key, known in self._fits.items() if key in plans}
        fits = [fit for _, fit in self._fits.values() if isinstance(fit, FilterFit)]
        wanted = {a for fit in fits for a in fit.test.reads}
        self.filters.keep(wanted if settings.text("substream_filters") != "off" else ())
        self.decisions = {a: made for a, made in self.decisions.items() if a in wanted}
        self.unasked &= {name for name, _ in shared.queries} if self.unasked else set()

    def _chosen(
        self,
        synopsis: BasicIntervalSynopsis,
        lookups: Sequence[Lookup],
        fits: dict[int, FilterFit],
        settings: Settings,
        exact: bool,
    ) -> dict[int, FilterFit]:
        """The fits whose filter is used, by the place of their lookup."""
        by_accumulator: dict[Accumulator, dict[int, FilterFit]] = {}
        for i, fit in fits.items():
            by_accumulator.setdefault(fit.test.of, {})[i] = fit
        chosen: dict[int, FilterFit] = {}
        for accumulator, mine in by_accumulator.items():
            share = self.filters.share(accumulator)
            forced, work = settings.text("substream_filters") == "on", None
            if share is not None:
                asked = [(lookups[i], fit) for i, fit in mine.items()]
                work = work_of(synopsis, asked, share, levels_of(settings), exact)
            refused = None if forced else self._refused(synopsis, settings)
            made = plan_filter(work, accumulator in self.filters, forced, refused)
            self.decisions[accumulator] = made
            chosen |= mine if made.chosen is HavingWay.FILTER else {}
        return dict(sorted(chosen.items()))


def levels_of(settings: Settings) -> Levels:
    return Levels.within(float(settings.text("filter_epsilon")))


def work_of(
    synopsis: BasicIntervalSynopsis,
    asked: Sequence[tuple[Lookup, FilterFit]],
    share: float,
    levels: Levels,
    exact: bool,
) -> FilterWork:
    """What some due lookups of one filter come to."""
    panes = synopsis.closed_panes
    lengths = np.concatenate(
        [np.searchsorted(panes, one.ends) - np.searchsorted(panes, one.starts) for one, _ in asked]
    )
    first = min(int(one.ends[0]) - fit.window.slide for one, fit in asked)
    last = max(int(one.ends[-1]) for one, _ in asked)
    looks = {(s, e, _level(fit.test, levels)) for one, fit in asked for s, e in _edges(one)}
    reads = {a for one, _ in asked for a in one.reads}
    test = asked[0][1].test
    return FilterWork(
        aggregate=test.kind.name,
        p=levels.p,
        fine=min(coarseness(fit.test, exact) for _, fit in asked) == 0,
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
