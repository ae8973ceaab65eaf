"""Punctuation policies by their definitions: the frontier that follows from the tuples on time.

A frontier f promises that no more tuples with t < f come. Each policy takes the tuples of a micro-batch and gives its
frontier at the end of it. The caller adds punctuations by hand and keeps a frontier from falling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from windrow.cql.statements import Policy, Punctuate
from windrow.cql.window_clause import Unit
from windrow.errors import UnsupportedError

Pointed = Sequence[tuple[int, Mapping[str, Any]]]
"""Tuples on time with their points, in order of arrival."""


class PolicyState(Protocol):
    def take(self, tuples: Pointed) -> None: ...

    def frontier(self) -> int | None: ...


def policy_of(clause: Punctuate, key: str | None) -> PolicyState:
    """`key` is the column of PER key, as the stream spells it."""
    if clause.policy is Policy.ORDERED:
        return _Slack(0)
    if clause.policy is Policy.SLACK and clause.slack is not None:
        rows = clause.slack.unit is Unit.ROWS
        return _SlackRows(clause.slack.amount) if rows else _Slack(clause.slack.amount)
    if clause.policy is Policy.PER_KEY and key is not None:
        return _PerKey(key, clause.idle_after.amount if clause.idle_after else None)
    if clause.policy is Policy.BY_SOURCE:
        return _BySource()
    raise UnsupportedError(f"the oracle does not know PUNCTUATE {clause.policy.value}")


class _Slack:
    """f = the greatest t − slack; ORDERED has slack 0."""

    def __init__(self, slack: int):
        self._slack = slack
        self._points: list[int] = []

    def take(self, tuples: Pointed) -> None:
        self._points += [point for point, _ in tuples]

    def frontier(self) -> int | None:
        return max(self._points) - self._slack if self._points else None


class _SlackRows:
    """f = the (n+1)-th greatest t so far, duplicates counted (Aurora's BSort)."""

    def __init__(self, rows: int):
        self._rows = rows
        self._points: list[int] = []

    def take(self, tuples: Pointed) -> None:
        self._points += [point for point, _ in tuples]

    def frontier(self) -> int | None:
        if len(self._points) <= self._rows:
            return None
        return sorted(self._points, reverse=True)[self._rows]


class _PerKey:
    """f = the least, over live keys, of the key's greatest t. A key more than `idle` behind the stream is not live."""

    def __init__(self, key: str, idle: int | None):
        self._key, self._idle = key, idle
        self._greatest: dict[Any, int] = {}
        self._live: set[Any] = set()

    def take(self, tuples: Pointed) -> None:
        for point, row in tuples:
            key = key_of(row[self._key])
            self._greatest[key] = max(point, self._greatest.get(key, point))
            self._live.add(key)
        if self._idle is not None and self._greatest:
            newest = max(self._greatest.values())
            self._live = {key for key in self._live if newest - self._greatest[key] <= self._idle}

    def frontier(self) -> int | None:
        return min((self._greatest[key] for key in self._live), default=None)


class _BySource:
    """The tuples promise nothing; the source's punctuations do."""

    def take(self, tuples: Pointed) -> None:
        """Tuples do not move this frontier."""

    def frontier(self) -> int | None:
        return None


def key_of(value: Any) -> Any:
    """A value as a key: all NaN are equal, −0.0 equals 0.0, NULL is a value."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
