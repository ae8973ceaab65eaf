"""The result of a statement: a table that shows itself as text or HTML, and converts to other tables."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, overload

import pyarrow as pa

from windrow.display.html import ROWS_SHOWN, folded_part, table_part, text_part, whole
from windrow.display.packages import optional_package
from windrow.types import column_values, rows_of, value_text

_SLICE = 4096
_PANDAS = {
    pa.bool_(): "boolean",
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
}
"""The dtypes of pandas that hold NULL beside every value."""


@dataclass(frozen=True)
class Staleness:
    """How far an answer is behind the newest tuple of a stream: a timedelta, or a number of points of an integer
    attribute. `slack` of it is disorder that the stream allows: tuples may still come there. `behind` is complete and
    not shown: less than a TICK, what another stream or view holds back, and updates that came after the version."""

    stream: str
    total: Any
    slack: Any
    behind: Any

    def __str__(self) -> str:
        if not self.total:
            return "nothing"
        parts = [f"{value} {name}" for value, name in ((self.slack, "slack"), (self.behind, "behind")) if value]
        return f"{self.total} ({' and '.join(parts)} of stream {self.stream})"


@dataclass(frozen=True)
class Asked:
    """How a one-time query was answered. `answered_from`: 'synopsis' (the state of a standing query), 'view' (a table,
    view or answers as they are), 'driver' or 'spark' (where windows and tables were evaluated). `isolation` as in SET
    isolation. `complete_from`: windows reach farther back, and tuples before this point are not all there. `stale_by`:
    how far the answer may be behind, `rescans` and `aborts` what it cost to be as fresh as it is."""

    answered_from: str | None = None
    isolation: str | None = None
    complete_from: Any = None
    stale_by: Any = None
    rescans: int = 0
    aborts: int = 0


class Result:
    """A table of rows: iterate it, index it (`r[0]`, `r[-1]`, `r[:10]`, `r["column"]`), or convert it (`to_arrow`,
    `to_pandas`, `to_polars`).

    A row is a dict. `is_text`: the rows are the lines of a text, such as a plan. `window` names what the rows are as
    of: the tick of a view, the end of the window of an answer, the instant of a one-time query, or the number of the
    last tuple if its windows go by arrival; None if they are of several, or of none. `answered_from`, `isolation`,
    `complete_from`, `stale_by`, `rescans` and `aborts` say how a one-time query was answered (`Asked`).
    """

    def __init__(
        self,
        table: pa.Table,
        is_text: bool = False,
        plan: Plan | None = None,
        window: Any = None,
        asked: Asked | None = None,
    ):
        asked = asked or Asked()
        self._table = table
        self._is_text = is_text
        self.plan = plan
        """What EXPLAIN gave; None for other statements."""
        self.window = window
        self.answered_from = asked.answered_from
        self.isolation = asked.isolation
        self.complete_from = asked.complete_from
        self.stale_by = asked.stale_by
        self.rescans = asked.rescans
        self.aborts = asked.aborts

    @classmethod
    def message(cls, text: str) -> Result:
        return cls.messages(text)

    @classmethod
    def messages(cls, *texts: str) -> Result:
        return cls(pa.table({"result": texts}))

    @classmethod
    def lines(cls, name: str, text: str) -> Result:
        return cls(pa.table({name: text.splitlines()}), is_text=True, plan=text if isinstance(text, Plan) else None)

    # -- rows and columns ----------------------------------------------------------------------

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._table.column_names)

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self._table)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, in order."""
        for start in range(0, len(self), _SLICE):
            yield from rows_of(self._table.slice(start, _SLICE))

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Result: ...
    @overload
    def __getitem__(self, at: str) -> list[Any]: ...

    def __getitem__(self, at: int | slice | str) -> Any:
        """A row by its number, some rows as a Result by a slice, or the values of a column by its name."""
        if isinstance(at, str):
            return column_values(self._table.column(self._position(at)))
        if isinstance(at, slice):
            return Result(self._part(range(len(self))[at]), self._is_text, window=self.window)
        number = operator.index(at)
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no row {number}: the result has {len(self):,} rows")
        return rows_of(self._table.slice(number % len(self), 1))[0]

    def _position(self, name: str) -> int:
        """The number of a column. Names are matched as CQL does, without regard to case, unless one is the same."""
        names = self.columns
        if name in names:
            return names.index(name)
        alike = [i for i, known in enumerate(names) if known.lower() == name.lower()]
        if len(alike) != 1:
            raise KeyError(f"there is no column '{name}': the columns are {', '.join(names)}")
        return alike[0]

    def _part(self, rows: range) -> pa.Table:
        if rows.step == 1:
            return self._table.slice(rows.start, len(rows))
        return self._table.take(pa.array(rows, pa.int64()))

    # -- conversions ---------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """The table itself."""
        return self._table

    def to_pandas(self) -> Any:
        """A pandas DataFrame. Its dtypes follow from the column types alone and hold every value exactly, NULL too."""
        pandas = optional_package("pandas", "to_pandas()")

        def dtype(kind: pa.DataType) -> Any:
            if pa.types.is_timestamp(kind):
                return None  # pandas' own: datetime64[us, UTC]
            known = _PANDAS.get(kind)
            return pandas.ArrowDtype(kind) if known is None else pandas.api.types.pandas_dtype(known)

        return self._table.to_pandas(types_mapper=dtype)

    def to_polars(self) -> Any:
        """A Polars DataFrame."""
        return optional_package("polars", "to_polars()").from_arrow(self._table)

    arrow = to_arrow
    pandas = to_pandas

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Lets any library that reads Arrow streams take the result: `pyarrow.table(r)`, `polars.DataFrame(r)`."""
        return self._table.__arrow_c_stream__(requested_schema)

    # -- display -------------------------------------------------------------------------------

    def __str__(self) -> str:
        names = self.columns
        shown = rows_of(self._table.slice(0, ROWS_SHOWN))
        cells = [[value_text(row[name]) for name in names] for row in shown]
        widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)]
        lines = [" | ".join(name.ljust(w) for name, w in zip(names, widths, strict=True)).rstrip()]
        lines.append("-+-".join("-" * w for w in widths))
        lines += [" | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        if len(self) > ROWS_SHOWN:
            lines.append(f"… {len(self) - ROWS_SHOWN} more rows")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if self.plan is not None:
            return self.plan._repr_html_()
        if self._is_text:
            return whole(text_part("\n".join(self._table.column(0).to_pylist())))
        return whole(table_part(self._table))


class PlanPicture(Protocol):
    """A drawn plan."""

    def svg(self) -> str: ...

    def mermaid(self) -> str: ...


class Plan(str):
    """A plan as text. At the prompt it shows as lines, in a notebook as a picture with the text below it.

    `picture` has it as SVG and Mermaid; it is None for what is not drawn (one-time queries).
    """

    __slots__ = ("picture",)
    picture: PlanPicture | None

    def __new__(cls, text: str, picture: PlanPicture | None = None) -> Plan:
        made = super().__new__(cls, text)
        made.picture = picture
        return made

    @property
    def svg(self) -> str | None:
        """The picture as SVG, for a file or a page."""
        return None if self.picture is None else self.picture.svg()

    @property
    def mermaid(self) -> str | None:
        """The picture as a Mermaid flowchart."""
        return None if self.picture is None else self.picture.mermaid()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        drawn = self.svg
        if drawn is None:
            return whole(text_part(str(self)))
        return whole(drawn, folded_part("as text", text_part(str(self))))
