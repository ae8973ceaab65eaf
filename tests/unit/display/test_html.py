"""What notebooks display: escaped, bounded, without scripts and colours."""

from __future__ import annotations

import datetime as dt
import re
from html.parser import HTMLParser

import pyarrow as pa

from windrow.display.html import CELL_CHARACTERS, LINES_SHOWN, ROWS_SHOWN
from windrow.result import Plan, Result

EVIL = "<script>alert('1')</script> & \"x\""


class Reader(HTMLParser):
    """Reads HTML: its tags, the text of each cell, and the text outside the style sheet. Fails if tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def test_table() -> None:
    moment = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
    html = Result(
        pa.table({"at": pa.array([moment], pa.timestamp("us", tz="UTC")), "n": [7], "of": [["a", None]]})
    )._repr_html_()
    assert Reader(html).cells == ["at", "n", "of", "2026-03-01 00:00:00", "7", "[a, NULL]"]
    assert '<td class="number">7</td>' in html and '<th class="number" title="int64">n</th>' in html
    assert "more rows" not in html


def test_escaped() -> None:
    html = Result(pa.table({EVIL: [EVIL], "of": [[{"x": EVIL}]]}))._repr_html_()
    read = Reader(html)
    assert read.cells == [EVIL, "of", EVIL, f"[{{x: {EVIL}}}]"]
    assert "script" not in read.tags


def test_no_colours() -> None:
    """Foreground and background are those of the page, so dark themes work."""
    style = re.search(r"<style>(.*?)</style>", numbered_html(1), re.S)
    assert style is not None
    found = re.findall(r"(?:color|background)[^:;{}]*:([^;}]*)", style[1])
    assert set(found) == {"inherit", "none"} and "#" not in style[1]


def numbered_html(rows: int) -> str:
    return Result(pa.table({"n": range(rows)}))._repr_html_()


def test_bounded() -> None:
    read = Reader(numbered_html(ROWS_SHOWN + 1234))
    assert len(read.cells) == 1 + ROWS_SHOWN and read.cells[-1] == str(ROWS_SHOWN - 1)
    assert "… 1,234 more rows, 1,284 in all" in read.text
    assert "more" not in Reader(numbered_html(ROWS_SHOWN)).text
    (_, cell) = Reader(Result(pa.table({"s": ["x" * 10_000]}))._repr_html_()).cells
    assert cell == "x" * CELL_CHARACTERS + "…"


def test_empty() -> None:
    read = Reader(Result(pa.table({"n": pa.array([], pa.int64()), "s": pa.array([], pa.string())}))._repr_html_())
    assert read.cells == ["n", "s"] and "no rows" in read.text


def test_null_differs_from_its_text() -> None:
    html = Result(pa.table({"s": [None, "NULL"]}))._repr_html_()
    assert '<td class="text null">NULL</td>' in html and '<td class="text">NULL</td>' in html


def test_plan() -> None:
    text = f"Query q\n  Scan   s <{EVIL}>\n"
    plan = Plan(text)
    assert plan == text and repr(plan) == text and isinstance(plan.splitlines(), list)
    for shown in (plan, Result.lines("plan", text)):
        read = Reader(shown._repr_html_())
        assert read.text.strip() == text.strip() and "pre" in read.tags and "table" not in read.tags
    assert Reader(Result.lines("plan", text)[1:]._repr_html_()).text == text.splitlines()[1]


def test_long_text() -> None:
    read = Reader(Plan("\n".join(map(str, range(LINES_SHOWN + 3))))._repr_html_())
    assert f"{LINES_SHOWN - 1}… 3 more lines, {LINES_SHOWN + 3} in all" in read.text
