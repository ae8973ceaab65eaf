"""SHOW LATENESS: a chart of how late a stream's tuples arrive, and the slack that keeps a given share of them."""

from __future__ import annotations

from windrow.cql.intervals import format_interval
from windrow.types import SqlType
from windrow.windows.lateness import Lateness

_TIMES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 60_000_000, 600_000_000, 3_600_000_000, 86_400_000_000)
_BAR = 40


_ONE_BATCH = (
    "All came in one micro-batch, so none could be below an earlier one: this says nothing about disorder. Read the"
    " data in smaller files, one per micro-batch (maxFilesPerTrigger '1')."
)


def lateness_chart(stream: str, column: str, kind: SqlType, lateness: Lateness, batches: int) -> str:
    """One line per step of lateness, and the slacks that keep 99 %, 99.9 % and all tuples of these micro-batches."""
    total = lateness.total
    if not total:
        return f"stream '{stream}' has not had a tuple yet"
    if batches == 1:
        return f"{stream} by {column}: {total:,} tuples. {_ONE_BATCH}"
    rows = [(_upto(edge, kind), count) for edge, count in _steps(lateness, kind)]
    most = max(count for _, count in rows)
    width = max(len(label) for label, _ in rows)
    lines = [f"{stream} by {column}: {total:,} tuples, by how far below the greatest point of earlier micro-batches"]
    for label, count in rows:
        bar = "█" * max(1, round(_BAR * count / most)) if count else ""
        lines.append(f"  {label:<{width}}  {count:>12,}  {100 * count / total:>7.3f} %  {bar}".rstrip())
    kept = [f"{name}: {_slack(lateness.slack_for(share), kind)}" for name, share in _SHARES]
    lines.append(f"slack that keeps {', '.join(kept)}")
    return "\n".join(lines)


_SHARES = (("99 %", 0.99), ("99.9 %", 0.999), ("all", 1.0))


def _steps(lateness: Lateness, kind: SqlType) -> list[tuple[int, int]]:
    """(edge, number of tuples that are late by more than the previous edge and at most by this one)."""
    edges = _TIMES if kind.is_timestamp else tuple(10**n for n in range(19))
    found = [(0, lateness.counts.get(0, 0))]
    below = 0
    for edge in edges:
        count = sum(n for bucket, n in lateness.counts.items() if below < lateness.most(bucket) <= edge)
        below = edge
        found.append((edge, count))
        if edge >= lateness.greatest:
            break
    beyond = sum(n for bucket, n in lateness.counts.items() if lateness.most(bucket) > below)
    return [*found, (lateness.greatest, beyond)] if beyond else found


def _upto(edge: int, kind: SqlType) -> str:
    return f"up to {_slack(edge, kind)}" if edge else "in time"


def _slack(points: int, kind: SqlType) -> str:
    """A slack as CQL text; from ten units on it is rounded up to whole units."""
    if not points or not kind.is_timestamp:
        return f"{points:,}"
    step = next((unit for unit in (1_000_000, 1_000) if points >= 10 * unit), 1)
    return format_interval(-(-points // step) * step).lower()
