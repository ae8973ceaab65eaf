"""Lookups of windows in a synopsis, and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import Accumulator, AggregateCall
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import States
from windrow.synopses.cells.folds import State
from windrow.synopses.cells.groups import AnyIds, Ids
from windrow.windows import Points


@dataclass(frozen=True)
class Pairs:
    """Distinct (window index, group id) pairs, ascending."""

    window: Ids
    groups: Ids


@dataclass(frozen=True)
class Lookup:
    """The windows [start, end) that one query has to answer, ends ascending, and the accumulators it reads.

    `presence` counts the query's qualifying tuples. A group has a row where it, or one of the `others`, is positive; an
    ungrouped query (`always`) has a row for every window. `only`: look up nothing but these pairs. `partitions`: the
    partition of each window, where windows count the rows of a partition.
    """

    query: str
    starts: Points
    ends: Points
    presence: Accumulator
    reads: tuple[Accumulator, ...]
    always: bool
    others: tuple[Accumulator, ...] = ()
    only: Pairs | None = None
    partitions: Ids | None = None

    def present(self, states: Mapping[Accumulator, State]) -> Ids:
        """Positive for each slot that has a row."""
        count = states[self.presence][0]
        for accumulator in self.others:
            count = count + states[accumulator][0]
        return count


@dataclass(frozen=True)
class TaskRows:
    """Finished rows from tasks, one table per bucket; the select list and HAVING are applied.

    `error`: the message, if an expression of the query failed in a task.
    """

    tables: tuple[pa.Table, ...] = ()
    overflows: int = 0
    error: str | None = None


@dataclass(frozen=True)
class LookupAnswer:
    """The rows of one query, in window order: window index, group, and states.

    `each`: the number of rows of every window, if all have the same number. `columns`: finished results in place of
    states. `by_tasks`: finished rows in place of everything else.
    """

    query: str
    windows: int
    window: Ids
    groups: AnyIds
    states: States
    each: int | None = None
    columns: Mapping[AggregateCall, pa.Array] | None = None
    by_tasks: TaskRows | None = None

    @classmethod
    def of_tasks(cls, lookup: Lookup, rows: TaskRows) -> LookupAnswer:
        """The answer to a lookup that tasks have finished."""
        nothing = np.empty(0, np.int64)
        return cls(lookup.query, int(lookup.ends.size), nothing, nothing, {}, by_tasks=rows)

    def where(self, wanted: Mask) -> LookupAnswer:
        """The rows where the mask is true."""
        if wanted.all():
            return self
        at = np.flatnonzero(wanted)
        states = {a: tuple(column[at] for column in state) for a, state in self.states.items()}
        columns = None if self.columns is None else {call: c.take(pa.array(at)) for call, c in self.columns.items()}
        return replace(self, window=self.window[at], groups=self.groups[at], states=states, each=None, columns=columns)


@dataclass(frozen=True)
class SharedLookup:
    """A lookup that answers several: those of queries over the same windows and tuples."""

    asked: Lookup
    served: tuple[Lookup, ...]

    def shares(self, looked: LookupAnswer) -> Iterator[LookupAnswer]:
        """Each served lookup's part of the answer."""
        for lookup in self.served:
            states = {a: looked.states[a] for a in dict.fromkeys((lookup.presence, *lookup.reads))}
            yield replace(looked, query=lookup.query, states=states)


def asked_once(lookups: Sequence[Lookup]) -> dict[str, SharedLookup]:
    """The distinct lookups, by query name; those over the same windows and tuples are merged (rules CS1 and CS3,
    Golab's dissertation, section 8.3.1)."""
    alike: dict[object, list[Lookup]] = {}
    for one in lookups:
        key = (one.starts.tobytes(), one.ends.tobytes(), one.presence, one.others, one.always)
        alike.setdefault(key, []).append(one)
    found = {}
    for group in alike.values():
        reads = tuple(dict.fromkeys(a for one in group for a in one.reads))
        found[group[0].query] = SharedLookup(replace(group[0], reads=reads), tuple(group))
    return found


def merged(some: LookupAnswer, more: LookupAnswer) -> LookupAnswer:
    """The rows of both answers, which are of the same windows; states are merged where both have the row."""
    width = int(max(some.groups.max(initial=0), more.groups.max(initial=0))) + 1
    keys = np.concatenate([some.window * width + some.groups, more.window * width + more.groups])
    slots, at = np.unique(keys, return_inverse=True)
    old, new = at[: some.window.size], at[some.window.size :]
    states: States = {}
    for accumulator, state in some.states.items():
        fold = fold_of(accumulator)
        states[accumulator] = fold.identity(slots.size)
        for target, column in zip(states[accumulator], state, strict=True):
            target[old] = column
        added = fold.identity(new.size)
        touched = tuple(column[new] for column in states[accumulator])
        for target, column in zip(added, touched, strict=True):
            target[...] = column
        fold.merge_into(added, more.states[accumulator])
        for target, column in zip(states[accumulator], added, strict=True):
            target[new] = column
    return LookupAnswer(some.query, some.windows, slots // width, slots % width, states)
