"""One query's share of a tick batch: its answers, as they are delivered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.engine.state import QueryState
from windrow.engine.store.waiting_answers import WaitingEntry
from windrow.windows import Points

_WINDOW = "__window"


@dataclass(frozen=True)
class QueryAnswers:
    """One query's answers to the windows with these ends; `window` is the index of each row's window.

    `revisions`: the revision number of each window (0: a first answer); None: all are first answers. `early`: these are
    rows of groups that promises closed, and the windows themselves are answered later; its value is the number of
    promises heard so far.
    """

    query: QueryState
    ends: Points
    window: Points
    table: pa.Table
    overflows: int
    revisions: Points | None = None
    early: int | None = None

    @property
    def first_answers(self) -> int:
        if self.early is not None:
            return 0
        return int(self.ends.size if self.revisions is None else (self.revisions == 0).sum())

    @property
    def last_end(self) -> int | None:
        """The end of the latest answered window; a correction may be of an earlier one."""
        if self.early is not None:
            return self.query.last_end
        last = int(self.ends[-1])
        return last if self.query.last_end is None or self.revisions is None else max(last, self.query.last_end)

    @property
    def revised(self) -> tuple[tuple[int, int], ...]:
        """(end, revision number) of the corrected windows."""
        if self.revisions is None:
            return ()
        return tuple((e, r) for e, r in zip(self.ends.tolist(), self.revisions.tolist(), strict=True) if r)

    def key_of(self, window: int) -> str:
        """The suffix of the key that distinguishes corrections and early rows from the first answer to a window."""
        if self.early is not None:
            return f"/early-{self.early}"
        revision = 0 if self.revisions is None else int(self.revisions[window])
        return f"/{revision}" if revision else ""

    @property
    def key(self) -> str:
        """The key of the whole batch, the same when it is delivered again."""
        return f"{self.query.name}@{self.ends[0]}..{self.ends[-1]}{self.key_of(0)}"

    def saved(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows with the index of their window, and the windows, as tables."""
        revisions = None if self.revisions is None else pa.array(self.revisions, pa.int64())
        ends = pa.array(self.ends, pa.int64())
        windows = pa.table(
            {"end": ends, "revision": pa.nulls(len(ends), pa.int64()) if revisions is None else revisions}
        )
        return rows.append_column(_WINDOW, pa.array(self.window, pa.int64())), windows


def restored(query: QueryState, entry: WaitingEntry, rows: pa.Table, windows: pa.Table) -> QueryAnswers:
    """Saved answers, to be delivered again. What was counted at their commit is not counted again."""
    revisions = windows.column("revision")
    return QueryAnswers(
        query,
        np.asarray(windows.column("end")),
        np.asarray(rows.column(_WINDOW)),
        rows.drop_columns([_WINDOW]),
        0,
        None if revisions.null_count else np.asarray(revisions),
        entry.early,
    )
