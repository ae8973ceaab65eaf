"""What the sink of a continuous query is given: its changes, the rows that came, or its whole view."""

from __future__ import annotations

from enum import Enum

from windrow.cql.statements import SinkClause
from windrow.errors import BindError


class SinkMode(Enum):
    """CHANGES: op, ts, exp and the select list. APPEND: ts and the select list of rows that stay for ever. VIEW: the
    select list of all rows as of the last tick; each delivery replaces the one before."""

    APPEND = "append"
    CHANGES = "changes"
    VIEW = "view"

    @property
    def head(self) -> int:
        """How many columns stand before the select list."""
        return {SinkMode.APPEND: 1, SinkMode.CHANGES: 3, SinkMode.VIEW: 0}[self]


MODE = "mode"
_MODES = ", ".join(f"'{mode.value}'" for mode in SinkMode)


def given_mode(query: str, clause: SinkClause, is_continuous: bool) -> SinkMode | None:
    """The mode that a sink's options name; None if they name none. Only continuous queries have modes."""
    text = dict(clause.options).get(MODE)
    if text is None:
        return None
    if not is_continuous:
        raise BindError(
            f"'{MODE}' is for continuous queries, and query '{query}' answers windows: its sink gets every answer",
            remedy="Leave mode out; or leave SLIDE out, which makes the query continuous.",
        )
    try:
        return SinkMode(text.lower())
    except ValueError:
        raise BindError(f"there is no mode '{text}' of a sink", remedy=f"It takes {_MODES}.") from None
