"""The latest answer of a query, under a heading that says which window or tick it is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa

from windrow.display.html import table_part, title_part, whole
from windrow.result import Result
from windrow.types import rows_of, value_text


class Latest(ABC):
    """What a query shows now: a table under a heading."""

    name: str

    @property
    @abstractmethod
    def version(self) -> tuple[object, ...]:
        """Changes whenever there is something new to show."""

    @property
    @abstractmethod
    def notes(self) -> list[str]:
        """What the heading says besides the name."""

    @property
    @abstractmethod
    def columns(self) -> pa.Table:
        """The rows, without what the heading says."""

    @property
    def heading(self) -> str:
        return " · ".join((self.name, *self.notes))

    def _repr_html_(self) -> str:
        return whole(title_part(self.name, *self.notes), table_part(self.columns))

    def __str__(self) -> str:
        return f"{self.heading}\n{Result(self.columns)}"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class LatestView(Latest):
    """The result of a query that runs as a plan. `as_of` says which tick or window it is of, `total` how much came in
    all, `stopped` why nothing more will come, if so."""

    name: str
    table: pa.Table
    as_of: str
    total: str
    stopped: str | None
    seen: tuple[object, ...]

    @property
    def version(self) -> tuple[object, ...]:
        return self.seen

    @property
    def notes(self) -> list[str]:
        return [self.as_of, self.total, *([] if self.stopped is None else [self.stopped])]

    @property
    def columns(self) -> pa.Table:
        return self.table


@dataclass(frozen=True, repr=False)
class LatestAnswer(Latest):
    """The latest answer of a query as it is shown. `windows` and `rows` are what the query has answered in all;
    `stopped` says why no answer will come, if so; `delivered_s` tells corrections apart."""

    name: str
    table: pa.Table
    windows: int
    rows: int
    stopped: str | None
    delivered_s: float | None = None

    @property
    def version(self) -> tuple[object, ...]:
        return self.windows, self.rows, self.stopped, self.delivered_s

    @property
    def notes(self) -> list[str]:
        """The window, how much was answered, and why no answer will come, if so."""
        if self.table.num_rows:
            last = rows_of(self.table.slice(self.table.num_rows - 1))[0]
            notes = [f"window {value_text(last['window_start'])} .. {value_text(last['window_end'])}"]
        else:
            notes = ["no answer yet" if self.windows == 0 else "the latest window has no rows"]
        notes.append(f"{self.windows:,} windows answered, {self.rows:,} rows")
        return notes if self.stopped is None else [*notes, self.stopped]

    @property
    def columns(self) -> pa.Table:
        """The answer without the columns that its heading says: the window, if there is only one."""
        bounds = ["window_start", "window_end"]
        known = bounds if all(len(self.table.column(name).unique()) <= 1 for name in bounds) else []
        if not any(self.table.column("is_revision").to_pylist()):
            known = [*known, "is_revision"]
        return self.table.drop_columns(known)
