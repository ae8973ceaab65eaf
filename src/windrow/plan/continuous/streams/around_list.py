"""What stands around a select list: ISTREAM, DSTREAM or RSTREAM, perhaps with RESTORE, or WSTREAM with its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from windrow.cql.dialect import RelationToStream, window_of
from windrow.cql.tokens import nearest_place
from windrow.cql.window_clause import WindowClause, WindowKind
from windrow.errors import BindError, Place, UnsupportedError
from windrow.plan.algebra.nodes import Streaming

WSTREAM = "WSTREAM"


@dataclass(frozen=True)
class StreamedList:
    """The operator around a select list. `kind` None: it is WSTREAM, and `window` is the window behind it."""

    kind: Streaming | None
    restores: bool = False
    window: WindowClause | None = None

    def __post_init__(self) -> None:
        if (self.kind is None) == (self.window is None):
            raise ValueError("WSTREAM has a window, and nothing else has")


def streamed_list(select: exp.Select, text: str) -> tuple[Sequence[exp.Expr], StreamedList | None]:
    """The items of a select list, and what stands around all of them; the SELECT keeps the items alone."""
    items = select.expressions
    bare = [item.this if isinstance(item, exp.Alias) else item for item in items]
    found = next((one for one in bare if isinstance(one, RelationToStream)), None)
    if found is None:
        return items, None
    if len(items) > 1 or bare[0] is not items[0] or not found.expressions:
        behind = "[ROWS 10]" if found.this == WSTREAM else ""
        raise BindError(
            f"{found.words} stands around the whole select list",
            place=nearest_place(found, text),
            remedy=f"Write SELECT {found.words}(a AS x, b){behind} FROM …, or {found.words}(*){behind}.",
        )
    streamed = _checked(found, nearest_place(found, text))
    select.set("expressions", [item.copy() for item in found.expressions])
    return select.expressions, streamed


def _checked(found: RelationToStream, place: Place | None) -> StreamedList:
    window, restores = window_of(found), bool(found.args.get("restore"))
    if restores:
        _refuse_restore(str(found.this), place)
    if found.this == WSTREAM:
        return StreamedList(None, window=wstream_window(found, place))
    if window is not None:
        raise BindError(
            f"a window stands behind WSTREAM(…), not behind {found.words}(…)",
            place=window.place,
            remedy=f"Write WSTREAM(…)[…]; or a window on what {found.words} reports: FROM (SELECT {found.words}(…) …) "
            "[RANGE …] AS x.",
        )
    return StreamedList(Streaming[found.this], restores)


def _refuse_restore(word: str, place: Place | None) -> None:
    if word == WSTREAM:
        raise UnsupportedError(
            "WSTREAM RESTORE is not defined: if more results come between two ticks than the window holds, it is not "
            "clear which of them it holds at the tick (Golab's dissertation, section 3.4)",
            place=place,
            remedy="Leave RESTORE out; or put a window on every result: FROM (SELECT ISTREAM RESTORE(…) …) [RANGE …] "
            "AS x.",
        )
    if word == Streaming.DSTREAM.name:
        raise UnsupportedError(
            "DSTREAM RESTORE is not defined: RESTORE reports results that came and went between two ticks, and DSTREAM "
            "is of results that were there at a tick (Golab's dissertation, section 3.4)",
            place=place,
            remedy="Leave RESTORE out; or write ISTREAM RESTORE(…), which reports every result that came.",
        )


def wstream_window(found: RelationToStream, place: Place | None) -> WindowClause:
    """The window behind WSTREAM(…): the last results, or those of the last time."""
    window = window_of(found)
    if window is None:
        raise BindError(
            "WSTREAM(…) has a window behind it: which results it keeps",
            place=place,
            remedy="For example WSTREAM(…)[ROWS 10], or WSTREAM(…)[RANGE 10 MINUTES].",
        )
    if window.kind not in (WindowKind.ROWS, WindowKind.RANGE) or window.internal:
        raise BindError(
            "the window behind WSTREAM(…) is [ROWS n] or [RANGE t]: results leave it",
            place=window.place,
            remedy="For results that stay, leave WSTREAM out and make the windows of the streams INTERNAL.",
        )
    return window
