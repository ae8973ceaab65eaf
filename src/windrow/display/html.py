"""Tables and text as HTML for notebooks: escaped, bounded, without scripts.

No foreground or background colour is set, so that it can be read in light and in dark themes.
"""

from __future__ import annotations

from html import escape

import pyarrow as pa

from windrow.types import is_number, rows_of, value_text

ROWS_SHOWN = 50
LINES_SHOWN = 500
CELL_CHARACTERS = 300
"""A longer cell is cut."""

_STYLE = """<style>
.windrow{max-width:100%;overflow-x:auto}
.windrow table{border-collapse:collapse;margin:.3em 0;color:inherit;background:none}
.windrow th,.windrow td{padding:.2em .7em;border-bottom:1px solid rgba(128,128,128,.35);text-align:left;
vertical-align:top;white-space:pre-wrap;max-width:40em}
.windrow th.number,.windrow td.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.windrow td.time{white-space:nowrap}
.windrow .null,.windrow .note{opacity:.65}
.windrow p{margin:.3em 0}
.windrow pre{margin:.3em 0;overflow-x:auto;color:inherit;background:none}
.windrow summary{cursor:pointer}
</style>"""


def whole(*parts: str) -> str:
    """The HTML of an object, from its parts."""
    return f'<div class="windrow">{_STYLE}{"".join(parts)}</div>'


def table_part(table: pa.Table, rows: int = ROWS_SHOWN) -> str:
    """The first rows of a table, and how many more there are."""
    classes = [_class(kind) for kind in table.schema.types]
    head = "".join(
        f'<th class="{css}" title="{escape(str(field.type))}">{escape(_cut(field.name))}</th>'
        for field, css in zip(table.schema, classes, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_cell(value, css) for value, css in zip(row.values(), classes, strict=True))}</tr>"
        for row in rows_of(table.slice(0, rows))
    )
    drawn = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    if table.num_rows > rows:
        return drawn + note_part(f"… {table.num_rows - rows:,} more rows, {table.num_rows:,} in all")
    return drawn if table.num_rows else drawn + note_part("no rows")


def text_part(text: str) -> str:
    """Text as it is, line by line."""
    lines = text.split("\n")
    shown = f"<pre>{escape(chr(10).join(lines[:LINES_SHOWN]))}</pre>"
    more = len(lines) - LINES_SHOWN
    return shown + (note_part(f"… {more:,} more lines, {len(lines):,} in all") if more > 0 else "")


def title_part(title: str, *notes: str) -> str:
    return f"<p><b>{escape(title)}</b>{''.join(f' · {escape(note)}' for note in notes)}</p>"


def note_part(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def folded_part(summary: str, part: str) -> str:
    """A part that is shown on a click on its summary."""
    return f"<details><summary>{escape(summary)}</summary>{part}</details>"


def _class(kind: pa.DataType) -> str:
    if is_number(kind):
        return "number"
    return "time" if pa.types.is_temporal(kind) else "text"


def _cell(value: object, css: str) -> str:
    css = f"{css} null" if value is None else css
    return f'<td class="{css}">{escape(_cut(value_text(value)))}</td>'


def _cut(text: str) -> str:
    return text if len(text) <= CELL_CHARACTERS else text[:CELL_CHARACTERS] + "…"
