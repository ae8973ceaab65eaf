"""Punctuation frontiers: pure functions from the tuples seen to the point below which a stream is complete.

A frontier f promises no more tuples with t < f; pane [a, b) closes when f ≥ b. Each policy of PUNCTUATE is one class.
No policy lowers what a punctuation or the end of the input promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

Key = str | None


@dataclass(frozen=True)
class Seen:
    """What a micro-batch admitted on one axis. Only some policies need the fields after `greatest`.

    `top` are the greatest points, descending, with repetitions. `by_key` is the greatest point of each sub-stream.
    """

    greatest: int | None = None
    top: tuple[int, ...] = ()
    by_key: Mapping[Key, int] = field(default_factory=dict)
    rows: int = 0


class Frontier(Protocol):
    """The progress of one axis of a stream. A point is None as long as it is unknown."""

    @property
    def greatest(self) -> int | None: ...

    @property
    def promised(self) -> int | None: ...

    @property
    def value(self) -> int | None:
        """The frontier f: tuples below it are late."""
        ...

    def after(self, seen: Seen) -> Frontier:
        """The frontier after a micro-batch."""
        ...

    def promise(self, upto: int) -> Frontier:
        """The frontier after a punctuation: no more tuples below `upto`."""
        ...

    def saved(self) -> dict[str, Any]:
        """The state as JSON, for `restored`."""
        ...

    def restored(self, saved: Mapping[str, Any]) -> Frontier: ...


@dataclass(frozen=True)
class SlackFrontier:
    """PUNCTUATE WITH SLACK d: f is the greatest point seen minus d. ORDERED is slack 0."""

    slack: int
    greatest: int | None = None
    promised: int | None = None

    def __post_init__(self) -> None:
        if self.slack < 0:
            raise ValueError("slack is not negative")

    @property
    def value(self) -> int | None:
        seen = None if self.greatest is None else self.greatest - self.slack
        return max_or_none(seen, self.promised)

    def after(self, seen: Seen) -> SlackFrontier:
        return replace(self, greatest=max_or_none(self.greatest, seen.greatest))

    def promise(self, upto: int) -> SlackFrontier:
        return replace(self, promised=max_or_none(self.promised, upto))

    def saved(self) -> dict[str, Any]:
        return {"greatest": self.greatest, "promised": self.promised}

    def restored(self, saved: Mapping[str, Any]) -> SlackFrontier:
        return SlackFrontier(self.slack, saved["greatest"], saved["promised"])


@dataclass(frozen=True)
class RowSlackFrontier:
    """PUNCTUATE WITH SLACK n ROWS: no tuple comes more than n positions late, so f is the (n+1)-th greatest point.

    This is Aurora's BSort with a buffer of n tuples (Li et al., SIGMOD 2005, section 7.2).
    """

    rows: int
    top: tuple[int, ...] = ()
    promised: int | None = None

    def __post_init__(self) -> None:
        if self.rows < 0:
            raise ValueError("slack is not negative")

    @property
    def greatest(self) -> int | None:
        return self.top[0] if self.top else None

    @property
    def value(self) -> int | None:
        seen = self.top[self.rows] if len(self.top) > self.rows else None
        return max_or_none(seen, self.promised)

    def after(self, seen: Seen) -> RowSlackFrontier:
        return replace(self, top=tuple(sorted((*self.top, *seen.top), reverse=True)[: self.rows + 1]))

    def promise(self, upto: int) -> RowSlackFrontier:
        return replace(self, promised=max_or_none(self.promised, upto))

    def saved(self) -> dict[str, Any]:
        return {"top": list(self.top), "promised": self.promised}

    def restored(self, saved: Mapping[str, Any]) -> RowSlackFrontier:
        return RowSlackFrontier(self.rows, tuple(saved["top"]), saved["promised"])


@dataclass(frozen=True)
class PerKeyFrontier:
    """PUNCTUATE PER key: each sub-stream is ordered, and f is the least of their greatest points. f never falls.

    A sub-stream is left out while the stream is more than `idle_after` ahead of it. Its next tuple brings it back.
    """

    idle_after: int | None
    keys: Mapping[Key, int] = field(default_factory=dict)
    greatest: int | None = None
    reached: int | None = None
    promised: int | None = None

    @property
    def value(self) -> int | None:
        return max_or_none(self.reached, self.promised)

    def after(self, seen: Seen) -> PerKeyFrontier:
        if seen.greatest is None:
            return self
        top = seen.greatest if self.greatest is None else max(self.greatest, seen.greatest)
        keys = dict(self.keys)
        for key, point in seen.by_key.items():
            keys[key] = max(point, keys.get(key, point))
        if self.idle_after is not None:
            keys = {key: point for key, point in keys.items() if top - point <= self.idle_after}
        return replace(self, keys=keys, greatest=top, reached=max_or_none(self.reached, min(keys.values())))

    def promise(self, upto: int) -> PerKeyFrontier:
        return replace(self, promised=max_or_none(self.promised, upto))

    def saved(self) -> dict[str, Any]:
        return {
            "keys": [[key, point] for key, point in self.keys.items()],
            "greatest": self.greatest,
            "reached": self.reached,
            "promised": self.promised,
        }

    def restored(self, saved: Mapping[str, Any]) -> PerKeyFrontier:
        keys: dict[Key, int] = dict(saved["keys"])
        return PerKeyFrontier(self.idle_after, keys, saved["greatest"], saved["reached"], saved["promised"])


@dataclass(frozen=True)
class SourceFrontier:
    """PUNCTUATE BY SOURCE: only punctuations move f."""

    greatest: int | None = None
    promised: int | None = None

    @property
    def value(self) -> int | None:
        return self.promised

    def after(self, seen: Seen) -> SourceFrontier:
        return replace(self, greatest=max_or_none(self.greatest, seen.greatest))

    def promise(self, upto: int) -> SourceFrontier:
        return replace(self, promised=max_or_none(self.promised, upto))

    def saved(self) -> dict[str, Any]:
        return {"greatest": self.greatest, "promised": self.promised}

    def restored(self, saved: Mapping[str, Any]) -> SourceFrontier:
        return SourceFrontier(saved["greatest"], saved["promised"])


@dataclass(frozen=True)
class RowFrontier:
    """Row numbers: admitted tuples are numbered from 1 as they arrive, so f is the next number."""

    count: int = 0
    promised: int | None = None

    @property
    def greatest(self) -> int | None:
        return self.count or None

    @property
    def value(self) -> int | None:
        return max_or_none(self.count + 1 if self.count else None, self.promised)

    def after(self, seen: Seen) -> RowFrontier:
        return replace(self, count=self.count + seen.rows)

    def promise(self, upto: int) -> RowFrontier:
        return replace(self, promised=max_or_none(self.promised, upto))

    def saved(self) -> dict[str, Any]:
        return {"count": self.count, "promised": self.promised}

    def restored(self, saved: Mapping[str, Any]) -> RowFrontier:
        return RowFrontier(saved["count"], saved["promised"])


@dataclass(frozen=True)
class Silence:
    """How long no tuple has arrived (HEARTBEAT AFTER): `counted` microseconds plus the time since `since_s`."""

    counted: int = 0
    since_s: float = 0.0

    def lasted(self, now_s: float) -> int:
        """The length of the silence in microseconds."""
        return self.counted + int((now_s - self.since_s) * 1e6)

    def in_steps(self, now_s: float, step: int) -> Silence:
        """The same silence, with `counted` advanced to the last whole step."""
        lasted = self.lasted(now_s)
        counted = lasted // step * step
        return Silence(counted, now_s - (lasted - counted) / 1e6)

    def paused(self, now_s: float) -> Silence:
        """The silence without the uncounted time: the stream did not run then."""
        return Silence(self.counted, now_s)


def beat(frontier: Frontier, slack: int, silence: Silence) -> int | None:
    """The point to which a heartbeat moves the frontier: the greatest point plus the counted silence minus the slack.

    None if that is not above the frontier, or if no tuple has arrived yet.
    """
    if frontier.greatest is None or not silence.counted:
        return None
    upto = frontier.greatest + silence.counted - slack
    return upto if frontier.value is None or upto > frontier.value else None


def heartbeat(now: int, heard: int, silence: int, value: int | None) -> int | None:
    """The point to which the setting `heartbeat` moves a silent stream: `now` minus `silence`, in whole seconds.

    None if the stream has not been silent that long, if the point is not above the frontier `value`, or if the stream
    has no frontier yet: its event time may then have nothing to do with the clock.
    """
    upto = (now - silence) // 1_000_000 * 1_000_000
    return upto if value is not None and now - heard >= silence and upto > value else None


def max_or_none(a: int | None, b: int | None) -> int | None:
    """The greater of two points; None is below every point."""
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)
