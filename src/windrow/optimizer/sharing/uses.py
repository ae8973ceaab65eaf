"""The arguments of the sharing rules: a query, and a synopsis with the queries that use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from windrow.optimizer.sharing.derivations import Derivation, derivations_of, read_of
from windrow.optimizer.sharing.periods import PeriodicAnswers, leaders, periodic_answers
from windrow.optimizer.sharing.predicates import Columns
from windrow.optimizer.sharing.synopsis_plans import Need, SynopsisPlan, need_of
from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.plan.nodes import Finalise
from windrow.windows import LandmarkWindow, PartitionedWindow

NEW = ""
"""The name of a query that does not exist yet."""


@dataclass(frozen=True)
class Applicant:
    """A query that may join a synopsis, or that uses it already (`is_user`)."""

    name: str
    plan: Finalise
    is_user: bool = False
    whole: Need | None = None
    """The need of the query's whole synopsis, if that is compared with another synopsis."""

    @cached_property
    def need(self) -> Need:
        return need_of(self.plan) if self.whole is None else self.whole

    @property
    def length(self) -> int:
        """The length of its window. Landmark windows of one synopsis begin at the same point, so their lengths count as
        equal."""
        window = self.plan.window
        if isinstance(window, LandmarkWindow):
            return 0
        return window.rows if isinstance(window, PartitionedWindow) else window.range


Periods = Callable[[str, Finalise], PeriodicAnswers | None]


def _worked_out(_: str, plan: Finalise) -> PeriodicAnswers | None:
    return periodic_answers(plan)


@dataclass(eq=False)
class SynopsisUse:
    """A synopsis and its users. Facts about its users, perhaps thousands, are computed once, at first use.

    `since` has the point from which each accumulator is kept (None: always). `answers_early`: groups that a punctuation
    closes are answered before their windows. `periods` may return cached results.
    """

    plan: SynopsisPlan
    since: Mapping[str, int | None]
    columns: Columns
    cut_factor: int
    answers_early: bool = False
    periods: Periods = _worked_out
    kind: SynopsisKind = SynopsisKind.BASIC_INTERVAL
    _derived: tuple[Applicant, tuple[Derivation, ...]] | None = field(default=None, init=False)

    def user(self, name: str) -> Applicant:
        return Applicant(name, self.plan.queries[self._index[name]][1], is_user=True)

    def others(self, query: Applicant) -> int:
        """The number of other queries that use the synopsis."""
        return len(self.plan.queries) - query.is_user

    def derived(self, query: Applicant) -> tuple[Derivation, ...]:
        """What a user derives, or what a new query would derive."""
        if query.is_user:
            return self.plan.derived.get(query.name, ())
        if self._derived is None or self._derived[0] is not query:
            found = derivations_of(query.plan.input, self.plan.accumulators, self.since, self.columns)
            self._derived = query, found
        return self._derived[1]

    def is_read(self, accumulator: str, query: Applicant, length: int | None = None) -> bool:
        """Whether another query reads an accumulator, over windows of this length if one is given."""
        return any(user != query.name for user in self._readers.get((accumulator, length), ()))

    def leader(self, query: Applicant) -> str | None:
        """The name of another user that gives all answers of the query, if there is one."""
        if query.is_user:
            found = self._leaders[self._index[query.name]]
        else:
            found = leaders([*self._answers, self.periods(query.name, query.plan)])[-1]
        return None if found is None else self.plan.queries[found][0]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, (name, _) in enumerate(self.plan.queries)}

    @cached_property
    def _answers(self) -> list[PeriodicAnswers | None]:
        return [self.periods(name, plan) for name, plan in self.plan.queries]

    @cached_property
    def _leaders(self) -> list[int | None]:
        return leaders(self._answers)

    @cached_property
    def _readers(self) -> dict[tuple[str, int | None], list[str]]:
        """Up to two queries that read an accumulator, by window length, and for any length (None)."""
        readers: dict[tuple[str, int | None], list[str]] = {}
        for name, plan in self.plan.queries:
            length = Applicant(name, plan).length
            for a in read_of(plan.input, self.plan.derived.get(name, ())):
                for key in ((a.id, None), (a.id, length)):
                    if len(readers.setdefault(key, [])) < 2:
                        readers[key].append(name)
        return readers
