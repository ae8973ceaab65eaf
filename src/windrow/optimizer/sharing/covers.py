"""Covers (Golab's dissertation, section 8.3.3): sets of synopses that together hold a query's tuples.

A set of synopses *covers* a query if the terms of their predicates together are the query's terms; a *subcover* has
fewer terms, a *supercover* more. A cover is *disjoint* if no tuple is in two of its synopses. (The dissertation also
requires the terms of each synopsis to be disjoint. A synopsis counts a tuple once even if several terms let it pass, so
that is not needed.)

    duplicate-insensitive (MIN, MAX)     any cover
    duplicate-sensitive (SUM, COUNT)     a disjoint cover, added
    subtractable (exact SUM, COUNT)      also a disjoint supercover, minus a disjoint cover of the surplus
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from windrow.optimizer.sharing.predicates import Predicate, Term, term_text

T = TypeVar("T")

MOST_STEPS = 2_000
"""The most synopses tried in a search for a cover; if it fails, the query gets its own cells."""


def concatenation(predicates: Sequence[Predicate]) -> Predicate:
    return Predicate(frozenset(term for one in predicates for term in one.terms))


@dataclass(frozen=True)
class RelevantSynopses(Generic[T]):
    """A set of synopses that answers a query: those to add, and those to subtract."""

    added: tuple[T, ...]
    subtracted: tuple[T, ...] = ()

    def __post_init__(self) -> None:
        if not self.added:
            raise ValueError("at least one synopsis must be added")


@dataclass(frozen=True)
class Candidate(Generic[T]):
    predicate: Predicate
    synopsis: T


def relevant(
    query: Predicate, candidates: Sequence[Candidate[T]], is_sensitive: bool, is_subtractable: bool
) -> RelevantSynopses[T] | None:
    """The relevant synopses of a new query (the first step of section 8.3.3), or None. It prefers few, large synopses,
    and addition to subtraction."""
    usable = [c for c in candidates if c.predicate.terms]
    within = [c for c in usable if c.predicate.terms <= query.terms]
    search = _Search(MOST_STEPS)
    cover = search.disjoint(query.terms, within) if is_sensitive else _any_cover(query.terms, within)
    if cover:
        return RelevantSynopses(tuple(c.synopsis for c in cover))
    if not (is_sensitive and is_subtractable):
        return None
    reaching = [c for c in usable if c.predicate.terms & query.terms]
    for chosen in search.every(query.terms, reaching):
        surplus = concatenation([c.predicate for c in chosen]).terms - query.terms
        if not Predicate(surplus).excludes(query):
            continue
        rest = search.disjoint(surplus, [c for c in usable if c.predicate.terms <= surplus])
        if rest:
            return RelevantSynopses(tuple(c.synopsis for c in chosen), tuple(c.synopsis for c in rest))
    return None


def _any_cover(wanted: frozenset[Term], within: Sequence[Candidate[T]]) -> list[Candidate[T]]:
    """A greedy cover: repeatedly the candidate with the most missing terms. Empty if there is none."""
    missing, chosen = set(wanted), list[Candidate[T]]()
    while missing and within:
        best = max(within, key=lambda c: len(c.predicate.terms & missing))
        if not best.predicate.terms & missing:
            return []
        chosen.append(best)
        missing -= best.predicate.terms
    return [] if missing else chosen


class _Search:
    """Backtracking over sets of disjoint synopses, with a limit on the steps."""

    def __init__(self, steps: int):
        self._steps = steps

    def disjoint(self, wanted: frozenset[Term], candidates: Sequence[Candidate[T]]) -> list[Candidate[T]]:
        """A disjoint set that has all wanted terms; empty if there is none."""
        return next(self.every(wanted, candidates), [])

    def every(self, wanted: frozenset[Term], candidates: Sequence[Candidate[T]]) -> Iterator[list[Candidate[T]]]:
        """All disjoint sets that have all wanted terms, and perhaps more; those with large members first."""
        order = sorted(candidates, key=lambda c: -len(c.predicate.terms))
        yield from self._completed(sorted(wanted, key=term_text), order, [])

    def _completed(
        self, missing: list[Term], candidates: Sequence[Candidate[T]], chosen: list[Candidate[T]]
    ) -> Iterator[list[Candidate[T]]]:
        if not missing:
            yield chosen
            return
        for candidate in candidates:
            if missing[0] not in candidate.predicate.terms:
                continue
            self._steps -= 1
            if self._steps < 0:
                return
            if all(candidate.predicate.excludes(other.predicate) for other in chosen):
                left = [term for term in missing if term not in candidate.predicate.terms]
                yield from self._completed(left, candidates, [*chosen, candidate])
