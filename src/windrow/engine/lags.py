"""How far something has lagged behind over the last hour, in a ring of minutes that never grows."""

from __future__ import annotations

from dataclasses import dataclass, field

MINUTES = 60


@dataclass
class _Minute:
    """What was noted within one minute."""

    number: int
    count: int = 0
    total: int = 0
    worst: int = 0


@dataclass(frozen=True)
class LagSummary:
    """Lags of the last hour, in points of the window attribute: how many were noted, their mean, and the worst."""

    count: int
    mean: float
    worst: int


@dataclass
class LagRing:
    """Notes lags with the time of a monotonic clock. One thread notes; any thread may read."""

    _minutes: list[_Minute] = field(default_factory=list)

    def note(self, now_s: float, lag: int) -> None:
        """Note a lag; one below 0 counts as none."""
        number, lag = int(now_s // 60), max(0, lag)
        minutes = self._minutes
        if not minutes or minutes[-1].number < number:
            minutes.append(_Minute(number))
            del minutes[:-MINUTES]
        last = minutes[-1]
        last.count += 1
        last.total += lag
        last.worst = max(last.worst, lag)

    def summary(self, now_s: float) -> LagSummary | None:
        """What was noted in the last hour; None: nothing."""
        first = int(now_s // 60) - MINUTES
        known = [one for one in list(self._minutes) if one.number > first and one.count]
        if not known:
            return None
        count = sum(one.count for one in known)
        return LagSummary(count, sum(one.total for one in known) / count, max(one.worst for one in known))
