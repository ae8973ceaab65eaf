"""Promises about a part of a stream: what punctuation patterns come to, beside the frontiers (003, section 5).

A pattern on one window attribute alone (`ts < v`) moves its frontier. One that has conditions on other columns as well
is a *promise*: no more tuples with the attribute below its bound that meet the conditions. It makes such tuples late,
and it closes the groups that it speaks of: their windows up to the bound are answered, the others wait.

What is kept does not grow with the age of the stream: of equal conditions only the greatest bound is kept, and a
promise that the frontier has overtaken says nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from windrow.cql.patterns import BAD_VALUE, BadPatternError, Condition, Pattern, pattern_text
from windrow.types import SqlType, point_of

ALWAYS = 1 << 62
"""The bound of a pattern that says nothing of the window attribute: it closes its groups for ever."""

FARTHEST = 10**18
"""A promise this far from zero is a mistake: it would make every tuple to come late, and windows end beyond int64."""

MOST_EXPANDED = 1000
"""A pattern with lists (`k IN (…)`) becomes a promise per value, up to this many."""


Key = tuple[str, Pattern, bool]


@dataclass(frozen=True)
class Promise:
    """No more tuples with `axis` below `bound` that meet the conditions.

    `given`: up to where its groups have been answered early (None: not yet). Conditions on window attributes close no
    group: such a promise only makes tuples late.
    """

    axis: str
    conditions: Pattern
    bound: int
    given: int | None = None

    @property
    def key(self) -> Key:
        """What promises are known by: those that differ in their bound alone are one, but for those without a bound."""
        return self.axis, self.conditions, self.is_for_ever

    @property
    def is_for_ever(self) -> bool:
        return self.bound == ALWAYS

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(condition.column for condition in self.conditions)

    @property
    def text(self) -> str:
        return pattern_text(self.conditions)

    @property
    def is_waiting(self) -> bool:
        return self.given is None or self.given < self.bound

    @property
    def is_of_values(self) -> bool:
        """Whether every condition gives its column one value."""
        return len(set(self.columns)) == len(self.conditions) and all(c.op == "=" for c in self.conditions)


@dataclass(frozen=True)
class Announcement:
    """What patterns say: how far frontiers have come, by axis, and promises."""

    frontiers: Mapping[str, int] = field(default_factory=dict)
    promises: tuple[Promise, ...] = ()


def told_by(pattern: Pattern, axes: Mapping[str, SqlType]) -> Announcement:
    """What a pattern says about the window attributes `axes`; raises BadPatternError where a bound is out of range."""
    attributes = [axis for axis in axes if any(one.column == axis for one in pattern)]
    others = tuple(one for one in pattern if one.column not in axes)
    if not attributes:
        return Announcement(promises=tuple(one for axis in axes for one in _expanded(Promise(axis, others, ALWAYS))))
    first = attributes[0]
    bound = _bound([c for c in pattern if c.column == first], axes[first])
    if len(attributes) != 1 or bound is None:
        return Announcement(promises=(_exclusion(pattern, first, bound, axes),))
    return (
        Announcement(promises=tuple(_expanded(Promise(first, others, bound))))
        if others
        else Announcement({first: bound})
    )


def all_told(parts: Iterable[Announcement]) -> Announcement:
    """Several patterns together, in their order."""
    frontiers: dict[str, int] = {}
    promises: list[Promise] = []
    for part in parts:
        frontiers |= {axis: max(upto, frontiers.get(axis, upto)) for axis, upto in part.frontiers.items()}
        promises += part.promises
    return Announcement(frontiers, tuple(promises))


def _exclusion(pattern: Pattern, axis: str, bound: int | None, axes: Mapping[str, SqlType]) -> Promise:
    """A pattern that no group is closed by: a piece of an attribute, or a condition on two of them."""
    if bound is not None:
        return Promise(axis, _canonical(c for c in pattern if c.column != axis), bound)
    return Promise(axis, _canonical(pattern), _upper([c for c in pattern if c.column == axis], axes[axis]))


def _bound(conditions: Sequence[Condition], kind: SqlType) -> int | None:
    """The point below which the attribute is complete; None where the conditions do not begin at its least value."""
    if any(condition.op not in ("<", "<=") for condition in conditions):
        return None
    bound = min(point_of(c.values[0], kind) + (c.op == "<=") for c in conditions)
    if abs(bound) > FARTHEST:
        raise BadPatternError(BAD_VALUE, f"{bound} is beyond ±10^18")
    return bound


def _upper(conditions: Sequence[Condition], kind: SqlType) -> int:
    """A point that every value which meets the conditions lies below."""
    found = [ALWAYS]
    for condition in conditions:
        if condition.op not in (">", ">=") and None not in condition.values:
            found.append(max(point_of(value, kind) for value in condition.values) + 1)
    return min(found)


def _canonical(conditions: Iterable[Condition]) -> Pattern:
    return tuple(sorted(set(conditions), key=str))


def _expanded(promise: Promise) -> list[Promise]:
    """A promise per value of its lists, so that a later one finds the earlier of the same value."""
    lists = [c for c in promise.conditions if c.op == "IN"]
    rest = [c for c in promise.conditions if c.op != "IN"]
    if not lists or prod(len(c.values) for c in lists) > MOST_EXPANDED:
        return [replace(promise, conditions=_canonical(promise.conditions))]
    singles = [[Condition(c.column, "=", (value,)) for value in dict.fromkeys(c.values)] for c in lists]
    return [replace(promise, conditions=_canonical((*rest, *chosen))) for chosen in product(*singles)]


@dataclass(frozen=True)
class Promises:
    """The promises of a stream that still say something. `heard` counts those that came, for ever: it names what was
    answered by them."""

    held: Mapping[Key, Promise] = field(default_factory=dict)
    heard: int = 0

    def __bool__(self) -> bool:
        return bool(self.held)

    def __iter__(self) -> Iterator[Promise]:
        return iter(self.held.values())

    def on(self, axis: str) -> list[Promise]:
        return [promise for promise in self if promise.axis == axis]

    def after(self, told: Sequence[Promise], ticked: Mapping[str, int]) -> Promises:
        """With what has been told; `ticked` is how far each axis has been answered."""
        held = dict(self.held)
        for promise in told:
            known = held.get(promise.key)
            reached = ticked.get(promise.axis)
            if (known is None or promise.bound > known.bound) and (reached is None or promise.bound > reached):
                given = None if known is None else known.given
                held[promise.key] = replace(promise, given=given)
        return Promises(held, self.heard + len(told)) if told else self

    def overtaken(self, axis: str, ticked: int) -> Promises:
        """Without those that an axis has been answered beyond."""
        held = {key: p for key, p in self.held.items() if p.axis != axis or p.bound > ticked}
        return self if len(held) == len(self.held) else replace(self, held=held)

    def answered(self, axis: str) -> Promises:
        """With all of an axis given."""
        given = {key: replace(p, given=p.bound) for key, p in self.held.items() if p.axis == axis and p.is_waiting}
        return replace(self, held={**self.held, **given})

    def waiting(self, axis: str) -> bool:
        """Whether there is one whose groups have not been answered."""
        return any(p.is_waiting for p in self.on(axis))
