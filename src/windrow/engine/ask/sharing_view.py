"""Who shares what by which rule: SHOW SHARING, and what EXPLAIN says of it.

Rules are named by asking the table (`optimizer/sharing.py`) about the synopsis and its queries as they are. What a
query has in common with thousands of others is found by index, once for all queries of a synopsis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from windrow.engine.state import StreamState
from windrow.optimizer.derivations import DUPLICATE_INSENSITIVE, SUBTRACTABLE, Derivation, name_of, read_of
from windrow.optimizer.predicates import Columns, predicate_of
from windrow.optimizer.same_answers import SHARE_ANSWERS, as_asked, leaders
from windrow.optimizer.shapes import Asked, Shape, SynopsisKind
from windrow.optimizer.sharing import rule
from windrow.optimizer.synopsis_plans import SHARE_SYNOPSES, SynopsisPlan, why_apart
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import Finalise
from windrow.settings import Settings
from windrow.windows import LandmarkWindow, PartitionedWindow

BASIC = SynopsisKind.BASIC_INTERVAL


@dataclass(frozen=True)
class Sharing:
    """What a query shares: its synopsis with so many others, what it derives, and whose answers it takes."""

    synopsis: int | None
    others: int
    rules: tuple[str, ...]
    derived: tuple[Derivation, ...]
    answers_of: str | None


class Shared:
    """The queries of one synopsis, and what they have in common. One may be among them that is not there yet."""

    def __init__(self, stream: StreamState, plan: SynopsisPlan, settings: Settings):
        self._plan, self._columns = plan, stream.definition.columns
        takes = SHARE_ANSWERS not in settings.text("disabled_rules").split(",") and not stream.promises
        known = stream.queries
        self._asked = [
            None if not takes else known[name].asked if name in known else as_asked(query)
            for name, query in plan.queries
        ]

    def of(self, name: str) -> Sharing:
        """What a query shares."""
        i, others = self._index[name], len(self._plan.queries) - 1
        plan, derived, leader = self._plan.queries[i][1], self._plan.derived.get(name, ()), self._leaders[i]
        names = [*self._by_state(plan, derived), *self._averages(name, plan)] if others else []
        names += [one for one in ("SS4", "CS7") if any(_is_relevant(one, d, self._columns) for d in derived)]
        names += ["CS8"] if leader is not None else []
        taken = None if leader is None else self._plan.queries[leader][0]
        return Sharing(self._plan.id, others, tuple(names), derived, taken)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, (name, _) in enumerate(self._plan.queries)}

    @cached_property
    def _leaders(self) -> list[int | None]:
        return leaders(self._asked)

    @cached_property
    def _shape(self) -> Shape:
        """The edges of all windows are on one grid, the coarsest that has the cuts."""
        s = self._plan.schedule.current.grid_density.denominator
        longest = max(_length(plan, s) for _, plan in self._plan.queries)
        return Shape(BASIC, s, longest // s, frozenset(a.id for a in self._plan.accumulators))

    @cached_property
    def _users(self) -> dict[tuple[str, int | None], list[str]]:
        """Up to two queries that read an accumulator, whatever their window (None) and of each length."""
        users: dict[tuple[str, int | None], list[str]] = {}
        for name, plan in self._plan.queries:
            for a in read_of(plan.input, self._plan.derived.get(name, ())):
                for key in ((a.id, None), (a.id, _length(plan, self._shape.s))):
                    if len(users.setdefault(key, [])) < 2:
                        users[key].append(name)
        return users

    def _by_state(self, plan: Finalise, derived: Sequence[Derivation]) -> Iterator[str]:
        mine = Asked(frozenset(a.id for a in read_of(plan.input, derived)), (_length(plan, self._shape.s),))
        yield from (one for one in ("SS1", "CS2") if rule(one).holds([self._shape], [mine]))

    def _averages(self, name: str, plan: Finalise) -> Iterator[str]:
        """SS2 and CS3, where other queries have the sum and the count that an AVG divides."""
        length = _length(plan, self._shape.s)
        parts = [{a.id for _, a in call.parts} for call in plan.input.aggregates if call.function == "AVG"]
        for one, over in (("SS2", None), ("CS3", length)):
            for data in parts:
                others = [self._other(part, over, name) for part in data]
                window = (self._shape.s,)
                shapes = [Shape(BASIC, self._shape.s, 1, frozenset({part})) for part in data]
                queries = [Asked(frozenset({part}), window) for part in data] + [Asked(frozenset(data), window)]
                if all(others) and rule(one).holds(shapes, queries):
                    yield one
                    break

    def _other(self, part: str, over: int | None, name: str) -> bool:
        return any(user != name for user in self._users.get((part, over), ()))


def _length(plan: Finalise, s: int) -> int:
    """The length of a window; a landmark's grows, and is one interval of its own."""
    window = plan.window
    if isinstance(window, LandmarkWindow):
        return s
    return window.rows if isinstance(window, PartitionedWindow) else window.range


def _is_relevant(name: str, derivation: Derivation, columns: Columns) -> bool:
    """Whether the rule holds of the accumulators that one is derived from."""
    wanted, data = derivation.accumulator, frozenset({name_of(derivation.accumulator)})

    def predicate(a: Accumulator) -> Any:
        return predicate_of(a.condition, columns)

    shapes = [Shape(BASIC, 1, 1, data, predicate=predicate(a)) for a in derivation.bases]
    insensitive = derivation.is_sign or wanted.kind in DUPLICATE_INSENSITIVE
    new = Asked(
        data,
        (1,),
        predicate(wanted),
        is_sensitive=not insensitive,
        is_subtractable=not insensitive and wanted.kind in SUBTRACTABLE,
    )
    return rule(name).holds(shapes, [new])


MOST_COMPARED = 100
"""Other synopses that one is compared with."""


def apart(stream: StreamState, plan: SynopsisPlan, settings: Settings) -> str | None:
    """Why the queries of a synopsis, or one that would have this, do not use the stream's other synopses: reasons with
    the numbers of those (0: it is not there yet). None where there are no others."""
    others = [state.plan for state in stream.synopses.values() if state.plan.id != plan.id and state.plan.queries]
    switched_off = SHARE_SYNOPSES in settings.text("disabled_rules").split(",")
    agreed = (
        f"the rule {SHARE_SYNOPSES} is disabled" if switched_off else "queries or settings were others when it came"
    )
    factor, reasons = settings.integer("cut_factor"), dict[str, list[int]]()
    for other in others[:MOST_COMPARED]:
        came, there = (other, plan) if 0 < plan.id < other.id else (plan, other)
        why = why_apart(came.need, there, factor)
        reasons.setdefault(why or agreed, []).append(other.id)
    told = [f"{_numbers(ids)}: {why}" for why, ids in reasons.items()]
    return "; ".join(told + (["and more"] if len(others) > MOST_COMPARED else [])) or None


def _numbers(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def sharing_table(streams: Sequence[StreamState], settings: Settings) -> pa.Table:
    """SHOW SHARING: a row for each query."""
    names = ("name", "stream", "synopsis", "home", "shared_with", "rules", "derived", "answers_of", "apart_from")
    rows = []
    for stream in streams:
        told: dict[str, Sharing] = {}
        homes: dict[int | None, str] = {}
        reasons: dict[int | None, str | None] = {}
        for state in stream.synopses.values():
            plan = state.plan
            shared = Shared(stream, plan, settings)
            told |= {name: shared.of(name) for name, _ in plan.queries}
            reasons[plan.id] = apart(stream, plan, settings)
            homes[plan.id] = state.synopsis.home.value
        for name in stream.queries:
            one = told.get(name, Sharing(None, 0, (), (), None))  # suspended: it takes no part
            derived = "; ".join(map(str, one.derived)) or None
            rules = ", ".join(one.rules) or None
            where = (one.synopsis, homes.get(one.synopsis))
            rows.append(
                (name, stream.name, *where, one.others, rules, derived, one.answers_of, reasons.get(one.synopsis))
            )
    types = [pa.int64() if name in ("synopsis", "shared_with") else pa.string() for name in names]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})
