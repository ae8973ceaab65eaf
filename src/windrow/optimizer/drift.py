"""How far what is measured of streams has moved from what a plan was chosen by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from windrow.optimizer.facts import Facts, StreamFacts
from windrow.types import number_text


@dataclass(frozen=True)
class Drift:
    """The fact that has changed most: by which factor (infinite if it had not been measured), and which."""

    factor: float
    what: str


NO_DRIFT = Drift(1.0, "nothing has changed")


def drift(before: Facts, now: Facts, streams: Iterable[str]) -> Drift:
    """The greatest drift of a rate, of distinct values or of a selectivity of these streams. What is not measured any
    more has not changed."""
    found = [one for name in streams for one in _of_stream(name, before.get(name, StreamFacts()), now.get(name))]
    return max(found, key=lambda one: one.factor, default=NO_DRIFT)


def _of_stream(name: str, before: StreamFacts, now: StreamFacts | None) -> Iterator[Drift]:
    if now is None:
        return
    if now.rate is not None:
        yield _between(before.rate, now.rate, f"the rate of {name}")
    for what, old, new in (
        ("distinct values of {} in {}", before.distinct, now.distinct),
        ("the share of tuples with {} in {}", before.selectivity, now.selectivity),
    ):
        for sql, value in new.items():
            yield _between(old.get(sql), value, what.format(sql, name))


def _between(before: float | None, now: float, what: str) -> Drift:
    if before is None:
        return Drift(inf, f"{what}: measured now, and not before")
    if before == now:
        return Drift(1.0, what)
    low, high = sorted((before, now))
    factor = high / low if low > 0 else inf
    return Drift(factor, f"{what}: {number_text(factor)} times {'more' if now > before else 'less'} than before")
