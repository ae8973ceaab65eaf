"""`windrow check-history`: what isolation a history has, in words."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from windrow.console.tables import output, say
from windrow.errors import HistoryError
from windrow.schedulers.check_history import HistoryCheck, Violation, check_history
from windrow.schedulers.history import History, Op, TransactionBegins
from windrow.schedulers.notation import read_history

SHOWN = 5
"""How many violations of a property are printed."""


class IsolationLevel(str, Enum):
    """What a history may have to be."""

    SERIALIZABLE = "serializable"
    WINDOW = "window"
    LATEST = "latest"
    COMMIT_ORDER = "commit-order"


TITLES = {
    IsolationLevel.SERIALIZABLE: "conflict-serializable",
    IsolationLevel.WINDOW: "window-serializable (WS)",
    IsolationLevel.LATEST: "latest-window-serializable (LWS)",
    IsolationLevel.COMMIT_ORDER: "commit-order-preserving (CPS)",
}


def report_history(file: Path, level: IsolationLevel | None) -> bool:
    """Print which properties the history of a file has; whether it has the one it must have."""
    try:
        history = read_history(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(f"the file cannot be read: {error}", remedy="Name a text file.") from None
    checked = check_history(history)
    say(output(), _summary(history))
    width = max(map(len, TITLES.values()))
    for one, title in TITLES.items():
        violations = violations_of(checked, one)
        say(output(), f"{title.ljust(width)}  {'no' if violations else 'yes'}")
        _list(violations)
    if level is not None:
        return not violations_of(checked, level)
    unkept = checked.violations_of(history.committed_queries)
    say(output(), f"{'as each query claims'.ljust(width)}  {'no' if unkept else 'yes'}")
    return not unkept


def violations_of(checked: HistoryCheck, level: IsolationLevel) -> tuple[Violation, ...]:
    """What keeps a history from a level."""
    return {
        IsolationLevel.SERIALIZABLE: checked.conflict_serializable,
        IsolationLevel.WINDOW: checked.window_serializable,
        IsolationLevel.LATEST: checked.latest_window_serializable,
        IsolationLevel.COMMIT_ORDER: checked.commit_order_preserving,
    }[level]


def _list(violations: tuple[Violation, ...]) -> None:
    for one in violations[:SHOWN]:
        say(output(), f"  {one.reason}")
    if len(violations) > SHOWN:
        say(output(), f"  and {len(violations) - SHOWN} more")


def _summary(history: History) -> str:
    queries = {one.by for one in history.entries if isinstance(one, TransactionBegins)}
    updates = {one.by for one in history.operations if one.op is Op.WRITE}
    aborted = sum(one.op is Op.ABORT for one in history.operations)
    operations = sum(1 for _ in history.operations)
    parts = (_counted(operations, "operation"), _counted(len(updates), "window update"))
    return f"{', '.join(parts)}, {_counted(len(queries), 'query', 'queries')}, {aborted} aborted"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
