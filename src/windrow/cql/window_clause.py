"""The window clause `[RANGE … SLIDE …]` as written: a frozen node, before names and types are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from windrow.errors import Place


class Unit(Enum):
    """What a measure counts: microseconds of time, units of an integer attribute, or rows."""

    TIME = "time"
    VALUES = "values"
    ROWS = "rows"


@dataclass(frozen=True)
class Measure:
    """A length, in microseconds for TIME, else a plain count. Never negative."""

    amount: int
    unit: Unit

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("a measure is not negative")


class WindowKind(Enum):
    RANGE = "range"
    ROWS = "rows"
    SINCE = "since"
    UNBOUNDED = "unbounded"
    NOW = "now"


@dataclass(frozen=True)
class WindowClause:
    """One bracketed clause. `place` is its place in the text and does not take part in equality."""

    kind: WindowKind
    range: Measure | None = None
    slide: Measure | None = None
    offset: Measure | None = None
    since: str | int | None = None
    origin: str | int | None = None
    wattr: str | None = None
    rattr: str | None = None
    sattr: str | None = None
    sattr_is_rank: bool = False
    pattr: tuple[str, ...] = ()
    internal: bool = False
    place: Place | None = field(default=None, compare=False, repr=False)
