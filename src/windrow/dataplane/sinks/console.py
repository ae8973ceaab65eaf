"""The console sink: prints the rows of answers on standard output."""

from __future__ import annotations

import sys

from windrow.dataplane.answers.finishing import plain
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.dataplane.sinks.modes import SinkMode
from windrow.types import rows_of, value_text

ROWS_SHOWN = 20


class ConsoleSink:
    """Delivers at least once: rows may be printed again after a crash. `mode` is that of a continuous query."""

    def __init__(self, mode: SinkMode | None = None):
        self._mode = mode

    def write(self, batch: AnswerBatch) -> None:
        table = plain(batch.table)
        rows = rows_of(table.slice(max(0, table.num_rows - ROWS_SHOWN)))
        out = [
            f"-- {batch.query}"
            + ("" if self._mode is not SinkMode.VIEW else f", {table.num_rows} rows now")
            + (f" (last {ROWS_SHOWN} of {table.num_rows} rows)" if table.num_rows > ROWS_SHOWN else "")
        ]
        out += [_line(row) if self._mode is None else _change(row, self._mode) for row in rows]
        sys.stdout.write("\n".join(out) + "\n")
        sys.stdout.flush()


def _line(row: dict[str, object]) -> str:
    start, end = row.pop("window_start"), row.pop("window_end")
    row.pop("is_revision")
    return f"[{_text(start)} .. {_text(end)})  {_values(row)}"


def _change(row: dict[str, object], mode: SinkMode) -> str:
    """A row of a continuous query, with its lifetime before it: `+ [from .. to)`, without an end if none is known."""
    head = [row.pop(name) for name in list(row)[: mode.head]]
    if mode is SinkMode.VIEW:
        return _values(row)
    if mode is SinkMode.APPEND:
        return f"{_text(head[0])}  {_values(row)}"
    op, ts, exp = head
    return f"{op} [{_text(ts)} .. {'' if exp is None else _text(exp)})  {_values(row)}"


def _values(row: dict[str, object]) -> str:
    return "  ".join(f"{name}={_text(value)}" for name, value in row.items())


def _text(value: object) -> str:
    return "None" if value is None else value_text(value)
