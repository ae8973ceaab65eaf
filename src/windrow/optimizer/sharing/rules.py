"""The table of sharing rules (Golab's dissertation, sections 8.3 and 8.4), and the decisions it makes.

State-sharing rules (SS) let a query use the state kept for others; they place a query when it is created. Computation-
sharing rules (CS) let queries be computed together; they apply whenever windows are due.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from windrow.optimizer.sharing.over_joins import cs4, cs5, ss3
from windrow.optimizer.sharing.over_windows import cs1, cs2, cs3, ss1, ss2
from windrow.optimizer.sharing.same_answers import cs8
from windrow.optimizer.sharing.selections import cs6, cs7, ss4
from windrow.optimizer.sharing.uses import Applicant, SynopsisUse
from windrow.optimizer.sharing.verdicts import Verdict, refusal

Decide = Callable[[Applicant, SynopsisUse], Verdict]


@dataclass(frozen=True)
class SharingRule:
    name: str
    section: str
    text: str
    decide: Decide

    @property
    def is_of_state(self) -> bool:
        return self.name.startswith("SS")


RULES: tuple[SharingRule, ...] = (
    SharingRule(
        "SS1",
        "8.3.1",
        "A synopsis serves queries that need the same data per interval, over windows of different lengths.",
        ss1,
    ),
    SharingRule(
        "CS1",
        "8.3.1",
        "Queries that share a running or interval synopsis are computed together if their windows have one length.",
        cs1,
    ),
    SharingRule("CS2", "8.3.1", "All queries on one basic interval synopsis are computed together.", cs2),
    SharingRule(
        "SS2",
        "8.3.1",
        "Sums and counts that are updated at the same times serve AVG. (In the dissertation, of running synopses.)",
        ss2,
    ),
    SharingRule("CS3", "8.3.1", "SUM, COUNT and AVG over one window length are computed together: AVG divides.", cs3),
    SharingRule(
        "SS3",
        "8.3.2",
        "A generalized join synopsis with parameters b, s and g serves joins of windows of n intervals each, "
        "1 ≤ n ≤ b, and of n1 and n2 intervals, b - g ≤ n1, n2 ≤ b.",
        ss3,
    ),
    SharingRule(
        "CS4",
        "8.3.2",
        "Queries on one generalized IJ or RJ synopsis are computed together if they join windows of the same lengths.",
        cs4,
    ),
    SharingRule("CS5", "8.3.2", "All queries on one generalized BIJ synopsis are computed together.", cs5),
    SharingRule(
        "SS4",
        "8.3.3",
        "A query uses a set of relevant synopses: a cover of its predicate, or a supercover minus the surplus.",
        ss4,
    ),
    SharingRule(
        "CS6",
        "8.3.3",
        "If the relevant synopses are running or interval synopses, the query is computed together with their other "
        "users if all windows have one length.",
        cs6,
    ),
    SharingRule(
        "CS7",
        "8.3.3",
        "If the relevant synopses are basic interval synopses, the query is computed together with their other users.",
        cs7,
    ),
    SharingRule("CS8", "8.4", "A query that differs from another only in a longer period shares its answers.", cs8),
)

_BY_NAME = {one.name: one for one in RULES}


def rule(name: str) -> SharingRule:
    return _BY_NAME[name]


def verdict_of(name: str, query: Applicant, use: SynopsisUse, off: Collection[str] = ()) -> Verdict:
    """The verdict of a rule; no if it is disabled."""
    return refusal(f"the rule {name} is disabled") if name in off else rule(name).decide(query, use)


def may_join(query: Applicant, use: SynopsisUse, off: Collection[str] = ()) -> Verdict:
    """Whether a new query may join a synopsis, by SS1. With SS2 disabled, an AVG does not join a synopsis whose sums
    and counts it would share."""
    joins = ss1(query, use)
    if not off or not joins.holds:
        return joins
    used = [name for name in ("SS1", "SS2") if name in off and rule(name).decide(query, use).holds]
    return verdict_of(used[0], query, use, off) if used else joins


def choose_synopsis(query: Applicant, uses: Iterable[SynopsisUse], off: Collection[str] = ()) -> SynopsisUse | None:
    """The first synopsis that a new query may join; None if it needs its own."""
    return next((use for use in uses if may_join(query, use, off).holds), None)


IN_ONE_PASS = frozenset({"CS1", "CS2", "CS3", "CS4", "CS5", "CS6", "CS7"})
"""The rules by which queries that are due at the same time are computed together."""


def computed_together(names: Sequence[str], use: SynopsisUse, off: Collection[str]) -> list[list[int]]:
    """Groups of queries to compute together, by index. A query to which a disabled rule would apply is alone."""
    missing = [rule(name) for name in off if name in IN_ONE_PASS]
    if not missing:
        return [list(range(len(names)))]
    alone = {i for i, name in enumerate(names) if any(one.decide(use.user(name), use).holds for one in missing)}
    rest = [i for i in range(len(names)) if i not in alone]
    return [*([rest] if rest else []), *([i] for i in sorted(alone))]
