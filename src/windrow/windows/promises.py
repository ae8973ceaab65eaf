"""Promises that punctuation patterns make about a part of a stream (Li et al., SIGMOD 2005, section 5).

A pattern on one window attribute alone (`ts < v`) moves its frontier. A pattern with conditions on other columns is a
*promise*: no more tuples meet the conditions with the attribute below the bound. Such tuples are late from then on, and
the groups that meet the conditions are closed: their windows up to the bound are answered, other groups wait.

The number of promises does not grow with the age of the stream: of promises with equal conditions only the one with
the greatest bound is kept, and promises at or below the frontier are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from windrow.cql.patterns import BAD_VALUE, BadPatternError, Condition, Pattern, pattern_text
from windrow.types import SqlType, point_of

ALWAYS = 1 << 62
"""The bound of a pattern without a condition on the window attribute: it closes its groups for ever."""

FARTHEST = 10**18
"""A bound this far from zero is a mistake: it would make every later tuple late, and window ends exceed int64."""

MOST_EXPANDED = 1000
"""A pattern with lists (`k IN (…)`) becomes one promise per value, up to this many."""


Key = tuple[str, Pattern, bool]


@dataclass(frozen=True)
class Promise:
    """No more tuples meet the conditions with `axis` below `bound`.

    `given` is the point up to which its groups have been answered early (None: not yet). A promise with conditions on
    window attributes closes no group: it only makes tuples late.
    """

    axis: str
    conditions: Pattern
    bound: int
    given: int | None = None

    @property
    def key(self) -> Key:
        """Identity: promises that differ only in their bound are the same, except those without a bound."""
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
        """Whether every condition sets its column to one value."""
        return len(set(self.columns)) == len(self.conditions) and all(c.op == "=" for c in self.conditions)


@dataclass(frozen=True)
class Announcement:
    """What patterns promise: the new frontier of each axis, and promises."""

    frontiers: Mapping[str, int] = field(default_factory=dict)
    promises: tuple[Promise, ...] = ()


def announced_by(pattern: Pattern, axes: Mapping[str, SqlType]) -> Announcement:
    """What a pattern promises about the window attributes `axes`; raises BadPatternError if a bound is out of range."""
    attributes = [axis for axis in axes if any(condition.column == axis for condition in pattern)]
    others = tuple(condition for condition in pattern if condition.column not in axes)
    if not attributes:
        return Announcement(
            promises=tuple(promise for axis in axes for promise in _expanded(Promise(axis, others, ALWAYS)))
        )
    first = attributes[0]
    bound = _bound([c for c in pattern if c.column == first], axes[first])
    if len(attributes) != 1 or bound is None:
        return Announcement(promises=(_exclusion(pattern, first, bound, axes),))
    return (
        Announcement(promises=tuple(_expanded(Promise(first, others, bound))))
        if others
        else Announcement({first: bound})
    )


def united(parts: Iterable[Announcement]) -> Announcement:
    """The sum of several patterns, in their order."""
    frontiers: dict[str, int] = {}
    promises: list[Promise] = []
    for part in parts:
        frontiers |= {axis: max(upto, frontiers.get(axis, upto)) for axis, upto in part.frontiers.items()}
        promises += part.promises
    return Announcement(frontiers, tuple(promises))


def _exclusion(pattern: Pattern, axis: str, bound: int | None, axes: Mapping[str, SqlType]) -> Promise:
    """The promise of a pattern that closes no group: it covers an interval of an attribute, or two attributes."""
    if bound is not None:
        return Promise(axis, _canonical(c for c in pattern if c.column != axis), bound)
    return Promise(axis, _canonical(pattern), _upper([c for c in pattern if c.column == axis], axes[axis]))


def _bound(conditions: Sequence[Condition], kind: SqlType) -> int | None:
    """The point below which the attribute is complete; None if the conditions also have a lower bound."""
    if any(condition.op not in ("<", "<=") for condition in conditions):
        return None
    bound = min(point_of(c.values[0], kind) + (c.op == "<=") for c in conditions)
    if abs(bound) > FARTHEST:
        raise BadPatternError(BAD_VALUE, f"{bound} is beyond ±10^18")
    return bound


def _upper(conditions: Sequence[Condition], kind: SqlType) -> int:
    """A point above every value that meets the conditions."""
    bounds = [ALWAYS]
    for condition in conditions:
        if condition.op not in (">", ">=") and None not in condition.values:
            bounds.append(max(point_of(value, kind) for value in condition.values) + 1)
    return min(bounds)


def _canonical(conditions: Iterable[Condition]) -> Pattern:
    return tuple(sorted(set(conditions), key=str))


def _expanded(promise: Promise) -> list[Promise]:
    """One promise per value of the lists, so that a later promise about a value replaces an earlier one."""
    lists = [c for c in promise.conditions if c.op == "IN"]
    rest = [c for c in promise.conditions if c.op != "IN"]
    if not lists or prod(len(c.values) for c in lists) > MOST_EXPANDED:
        return [replace(promise, conditions=_canonical(promise.conditions))]
    singles = [[Condition(c.column, "=", (value,)) for value in dict.fromkeys(c.values)] for c in lists]
    return [replace(promise, conditions=_canonical((*rest, *chosen))) for chosen in product(*singles)]


@dataclass(frozen=True)
class Promises:
    """The promises of a stream that are still in force.

    `heard` counts all promises ever received, and names the answers that they caused.
    """

    held: Mapping[Key, Promise] = field(default_factory=dict)
    heard: int = 0

    def __bool__(self) -> bool:
        return bool(self.held)

    def __iter__(self) -> Iterator[Promise]:
        return iter(self.held.values())

    def on(self, axis: str) -> list[Promise]:
        return [promise for promise in self if promise.axis == axis]

    def after(self, announced: Sequence[Promise], ticked: Mapping[str, int]) -> Promises:
        """With these new promises; `ticked` is the point up to which each axis has been answered."""
        held = dict(self.held)
        for promise in announced:
            known = held.get(promise.key)
            reached = ticked.get(promise.axis)
            if (known is None or promise.bound > known.bound) and (reached is None or promise.bound > reached):
                given = None if known is None else known.given
                held[promise.key] = replace(promise, given=given)
        return Promises(held, self.heard + len(announced)) if announced else self

    def overtaken(self, axis: str, ticked: int) -> Promises:
        """Without promises on this axis up to `ticked`, where everything has been answered."""
        held = {key: p for key, p in self.held.items() if p.axis != axis or p.bound > ticked}
        return self if len(held) == len(self.held) else replace(self, held=held)

    def answered(self, axis: str) -> Promises:
        """With all promises on this axis marked as answered."""
        given = {key: replace(p, given=p.bound) for key, p in self.held.items() if p.axis == axis and p.is_waiting}
        return replace(self, held={**self.held, **given})

    def waiting(self, axis: str) -> bool:
        """Whether a promise on this axis has groups that are not answered yet."""
        return any(p.is_waiting for p in self.on(axis))
