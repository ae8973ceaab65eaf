"""What is asked of a synopsis, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from windrow.plan.accumulators import Accumulator, AggregateCall
from windrow.synopses.chunks import States
from windrow.synopses.folds import State
from windrow.synopses.groups import AnyIds, Ids
from windrow.windows import Points


@dataclass(frozen=True)
class Lookup:
    """The windows [start, end) that one query is due to answer, ends ascending, and what it reads.

    `presence` counts the query's qualifying tuples: a group has a row where it is positive. An
    ungrouped query (`always`) has a row for every window. A group also has one where one of the `others` is positive.
    """

    query: str
    starts: Points
    ends: Points
    presence: Accumulator
    reads: tuple[Accumulator, ...]
    always: bool
    others: tuple[Accumulator, ...] = ()

    def present(self, states: Mapping[Accumulator, State]) -> Ids:
        """Positive where a slot has a row."""
        count = states[self.presence][0]
        for accumulator in self.others:
            count = count + states[accumulator][0]
        return count


@dataclass(frozen=True)
class Looked:
    """The rows of one query, in window order: window index, group, and states.

    `each`: how many rows every window has, where all have as many. `columns`: results that are there already, in the
    place of states.
    """

    query: str
    windows: int
    window: Ids
    groups: AnyIds
    states: States
    each: int | None = None
    columns: Mapping[AggregateCall, pa.Array] | None = None


Ask = Callable[[Sequence[Lookup]], Iterator[Looked]]
"""Asks a synopsis, whatever its home."""


def asked_once(lookups: Sequence[Lookup], answer: Ask) -> Iterator[Looked]:
    """Queries over the same windows and tuples are looked up together, and share what is found (rules CS1 and CS3 of
    001_3bbbc8a20ffc7252.txt, 8.3.1)."""
    alike: dict[object, list[Lookup]] = {}
    for one in lookups:
        alike.setdefault((one.starts.tobytes(), one.ends.tobytes(), one.presence, one.others, one.always), []).append(
            one
        )
    together: dict[str, list[Lookup]] = {}
    asked = []
    for group in alike.values():
        together[group[0].query] = group
        asked.append(replace(group[0], reads=tuple(dict.fromkeys(a for one in group for a in one.reads))))
    for looked in answer(asked):
        for one in together[looked.query]:
            states = {a: looked.states[a] for a in dict.fromkeys((one.presence, *one.reads))}
            yield replace(looked, query=one.query, states=states)
