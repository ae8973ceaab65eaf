"""Answers lookups whose accumulators are partly derived (rule SS4): reads the kept ones and computes the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from windrow.optimizer.sharing.derivations import Derivation
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import States
from windrow.synopses.cells.folds import State
from windrow.synopses.lookups import Lookup, LookupAnswer

Derived = Mapping[str, Sequence[Derivation]]


def kept_lookups(lookups: Sequence[Lookup], derived: Derived) -> list[Lookup]:
    """The lookups with derived accumulators replaced by the kept ones they derive from."""
    return [_of_kept(lookup, derived.get(lookup.query, ())) for lookup in lookups]


def with_derived(found: Iterable[LookupAnswer], lookups: Sequence[Lookup], derived: Derived) -> Iterator[LookupAnswer]:
    """The rows of the lookups, from the answers to their `kept_lookups`."""
    by_query = {lookup.query: lookup for lookup in lookups}
    states = _DerivedStates()
    for looked in found:
        yield _completed(looked, by_query[looked.query], derived.get(looked.query, ()), states)


class _DerivedStates:
    """Derives each state once for queries that are looked up together: these share their rows and come in sequence."""

    def __init__(self) -> None:
        self._window: object = None
        self._known: dict[Derivation, State] = {}

    def of(self, looked: LookupAnswer, derivation: Derivation) -> State:
        if looked.window is not self._window:
            self._window, self._known = looked.window, {}
        if derivation not in self._known:
            self._known[derivation] = _derived(derivation, looked.states)
        return self._known[derivation]


def _of_kept(lookup: Lookup, derivations: Sequence[Derivation]) -> Lookup:
    """The lookup with derived accumulators replaced by their bases.

    A derived presence is a sum, so a group may have a row where any of its summands is positive.
    """
    if not derivations:
        return lookup
    by = {d.accumulator: d for d in derivations}
    wanted = dict.fromkeys((lookup.presence, *lookup.reads))
    reads = dict.fromkeys(base for a in wanted for base in (by[a].bases if a in by else (a,)))
    first, *others = by[lookup.presence].added if lookup.presence in by else (lookup.presence,)
    return replace(lookup, presence=first, others=tuple(others), reads=tuple(reads))


def _completed(
    looked: LookupAnswer, lookup: Lookup, derivations: Sequence[Derivation], known: _DerivedStates
) -> LookupAnswer:
    if not derivations:
        return looked
    by = {d.accumulator: d for d in derivations}
    states: States = {}
    for a in dict.fromkeys((lookup.presence, *lookup.reads)):
        states[a] = known.of(looked, by[a]) if a in by else looked.states[a]
    present = states[lookup.presence][0] > 0
    if lookup.always or present.all():
        return replace(looked, states=states)
    rows = np.flatnonzero(present)
    kept = {a: tuple(column[rows] for column in state) for a, state in states.items()}
    return LookupAnswer(looked.query, looked.windows, looked.window[rows], looked.groups[rows], kept)


def _derived(derivation: Derivation, states: States) -> State:
    fold = fold_of(derivation.accumulator)
    out = tuple(column.copy() for column in states[derivation.added[0]])
    for base in derivation.added[1:]:
        fold.merge_into(out, states[base])
    for base in derivation.subtracted:
        for target, column in zip(out, states[base], strict=True):
            np.subtract(target, column, out=target)
    return out
