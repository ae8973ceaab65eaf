"""The result of a statement: an Arrow table that prints itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from windrow.types import rows_of, value_text

ROWS_SHOWN = 50


class Result:
    """A table, as `.arrow()`, `.pandas()` or `.rows()` (dicts)."""

    def __init__(self, table: pa.Table):
        self._table = table

    @classmethod
    def message(cls, text: str) -> Result:
        return cls.messages(text)

    @classmethod
    def messages(cls, *texts: str) -> Result:
        return cls(pa.table({"result": texts}))

    @classmethod
    def lines(cls, name: str, text: str) -> Result:
        return cls(pa.table({name: text.splitlines()}))

    def arrow(self) -> pa.Table:
        return self._table

    def pandas(self) -> Any:
        return self._table.to_pandas()

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self._table)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __str__(self) -> str:
        names = self._table.column_names
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
