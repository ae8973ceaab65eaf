"""The console sink: prints the rows of answers on standard output."""

from __future__ import annotations

import sys

from windrow.dataplane.answers.finishing import plain
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.types import rows_of, value_text

ROWS_SHOWN = 20


class ConsoleSink:
    """Delivers at least once: rows may be printed again after a crash."""

    def write(self, batch: AnswerBatch) -> None:
        table = plain(batch.table)
        rows = rows_of(table.slice(max(0, table.num_rows - ROWS_SHOWN)))
        out = [
            f"-- {batch.query}"
            + (f" (last {ROWS_SHOWN} of {table.num_rows} rows)" if table.num_rows > ROWS_SHOWN else "")
        ]
        out += [_line(row) for row in rows]
        sys.stdout.write("\n".join(out) + "\n")
        sys.stdout.flush()


def _line(row: dict[str, object]) -> str:
    start, end = row.pop("window_start"), row.pop("window_end")
    row.pop("is_revision")
    return f"[{_text(start)} .. {_text(end)})  " + "  ".join(f"{name}={_text(value)}" for name, value in row.items())


def _text(value: object) -> str:
    return "None" if value is None else value_text(value)
