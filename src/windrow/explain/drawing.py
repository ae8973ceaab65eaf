"""Plans as pictures: SVG without any library. The root is on top; rows flow upwards.

Boxes have the colour of their edge's update pattern, with dark text on a light ground of their own, so that a picture
can be read on any background.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from windrow.explain.mermaid import SHOWN_NOTES, mermaid_text
from windrow.explain.tree import ExplainedPlan, PlanBox
from windrow.patterns import UpdatePattern

COLOURS: dict[UpdatePattern | None, tuple[str, str]] = {
    UpdatePattern.MONOTONIC: ("#2e7d32", "#eef7ee"),
    UpdatePattern.WKS: ("#1565c0", "#ecf3fb"),
    UpdatePattern.WK: ("#b26a00", "#fff6e5"),
    UpdatePattern.STR: ("#b3261e", "#fdeeed"),
    None: ("#546e7a", "#f3f6f8"),
}
"""For lines and labels, and for the ground of boxes."""

LEGEND = {
    UpdatePattern.MONOTONIC: "never expires",
    UpdatePattern.WKS: "expires first in, first out",
    UpdatePattern.WK: "end known at birth",
    UpdatePattern.STR: "may be withdrawn",
}

MONO, SANS = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace", "system-ui,'DejaVu Sans',sans-serif"
TITLE, CODE, NOTE = 14.0, 12.0, 11.0
"""Sizes of fonts in pixels."""
CODE_WIDTH = 0.602
"""The width of a character of MONO as a part of the font's size."""
WRAP_CODE, WRAP_NOTE = 54, 60
PAD, LINE, GAP_X, GAP_Y, MARGIN = 12.0, 1.4, 28.0, 62.0, 16.0


@dataclass(frozen=True)
class DrawnPlan:
    """An explained plan as a picture."""

    plan: ExplainedPlan

    def svg(self) -> str:
        return svg_text([self.plan])

    def mermaid(self) -> str:
        return mermaid_text([self.plan])


@dataclass(frozen=True)
class _Text:
    """A line of a box."""

    text: str
    size: float
    font: str
    weight: str = "normal"
    colour: str = "#1b2327"

    @property
    def width(self) -> float:
        if self.font == MONO:
            return len(self.text) * self.size * CODE_WIDTH
        return self.size * sum(map(_sans_width, self.text)) * (1.1 if self.weight == "bold" else 1.0)


def _sans_width(character: str) -> float:
    """About the width of a character of a wide font without serifs, as a part of its size."""
    if character in " .,:;'|il()[]":
        return 0.36
    return 0.78 if character.isupper() or character in "mw…δ" else 0.62


@dataclass(frozen=True)
class _Drawn:
    """A box that is measured: its lines, its size, the width of its sub-tree, and the boxes below it."""

    box: PlanBox
    lines: tuple[_Text, ...]
    width: float
    height: float
    span: float
    below: tuple[_Drawn, ...]

    @property
    def depth(self) -> float:
        """The height of the sub-tree."""
        return self.height + self.gap + max((one.depth for one in self.below), default=0.0)

    @property
    def gap(self) -> float:
        """The room for the edges below it; those without a label need less."""
        if not self.below:
            return 0.0
        return GAP_Y if any(_label(one.box) for one in self.below) else GAP_Y / 2


def svg_text(plans: Sequence[ExplainedPlan]) -> str:
    """One picture of plans, one below the other."""
    trees = [_measured(_titled(plan)) for plan in plans]
    legend = any(box.pattern is not None for plan in plans for box in plan.root.walk())
    width = max([one.span for one in trees] + ([_legend_width()] if legend else [])) + 2 * MARGIN
    parts, top = list[str](), MARGIN
    for tree in trees:
        parts += _placed(tree, (width - tree.span) / 2, top)
        top += tree.depth + GAP_Y
    height = top - GAP_Y + MARGIN
    if legend:
        parts += _legend((width - _legend_width()) / 2, height + 4)
        height += 30
    names = ", ".join(plan.name for plan in plans)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img"><title>{escape(f"The plan of {names}")}</title>'
        f'<rect width="100%" height="100%" rx="8" fill="#ffffff"/>{"".join(parts)}</svg>'
    )


def _titled(plan: ExplainedPlan) -> PlanBox:
    """The tree below a box for its result."""
    kind, _, rest = plan.title.partition(": ")
    return PlanBox(kind, rest, (), (plan.root,))


def _measured(box: PlanBox) -> _Drawn:
    below = tuple(map(_measured, box.inputs))
    lines = tuple(_lines(box))
    width = max(line.width for line in lines) + 2 * PAD
    height = sum(line.size * LINE for line in lines) + 2 * PAD - 4
    labels = sum(max(one.span, _label_width(one.box)) for one in below) + GAP_X * max(0, len(below) - 1)
    return _Drawn(box, lines, width, height, max(width, labels), below)


def _lines(box: PlanBox) -> Iterator[_Text]:
    colour = COLOURS[box.pattern][0]
    yield _Text(box.operator, TITLE, SANS, "bold", colour)
    for line in _wrapped(box.text, WRAP_CODE):
        yield _Text(line, CODE, MONO)
    for label, text in box.notes:
        if label in SHOWN_NOTES:
            for part in text.split("; "):
                for line in _wrapped(part, WRAP_NOTE):
                    yield _Text(line, NOTE, SANS, colour="#4a5a63")


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False, max_lines=6, placeholder=" …")


def _placed(one: _Drawn, left: float, top: float) -> Iterator[str]:
    """A sub-tree in the strip that begins at `left`: edges first, so that boxes lie above them."""
    middle, bottom = left + one.span / 2, top + one.height
    total = sum(max(b.span, _label_width(b.box)) for b in one.below) + GAP_X * max(0, len(one.below) - 1)
    at = left + (one.span - total) / 2
    for i, below in enumerate(one.below):
        strip = max(below.span, _label_width(below.box))
        spread = (i + 1) / (len(one.below) + 1) - 0.5
        yield from _edge(below.box, at + strip / 2, bottom + one.gap, middle + spread * one.width * 0.6, bottom)
        yield from _placed(below, at + (strip - below.span) / 2, bottom + one.gap)
        at += strip + GAP_X
    yield from _box(one, middle - one.width / 2, top)


def _box(one: _Drawn, left: float, top: float) -> Iterator[str]:
    line, ground = COLOURS[one.box.pattern]
    hint = "\n".join(f"{label}: {text}" for label, text in one.box.notes)
    yield f"<g><title>{escape(hint)}</title>" if hint else "<g>"
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{one.width:.1f}" height="{one.height:.1f}" rx="6" '
        f'fill="{ground}" stroke="{line}" stroke-width="1.4"/>'
    )
    y = top + PAD - 4
    for text in one.lines:
        y += text.size * LINE
        yield _text(text, left + PAD, y - text.size * 0.25)
    yield "</g>"


def _text(one: _Text, x: float, y: float, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="{escape(one.font)}" font-size="{one.size:g}" '
        f'font-weight="{one.weight}" fill="{one.colour}" text-anchor="{anchor}" xml:space="preserve">'
        f"{escape(one.text)}</text>"
    )


def _edge(box: PlanBox, x: float, y: float, to_x: float, to_y: float) -> Iterator[str]:
    """An arrow from a box up to the one that reads it, with its pattern and its rate above the box."""
    colour, label_y = COLOURS[box.pattern][0], y - 18
    turn = label_y - 8 if _label(box) else y
    bend = (turn + to_y) / 2
    yield (
        f'<path d="M{x:.1f} {y:.1f} V{turn:.1f} '
        f'C{x:.1f} {bend:.1f} {to_x:.1f} {bend + 6:.1f} {to_x:.1f} {to_y + 7:.1f}" '
        f'fill="none" stroke="{colour}" stroke-width="2"/>'
        f'<path d="M{to_x:.1f} {to_y + 1:.1f} l-5 8 h10 z" fill="{colour}"/>'
    )
    label = _label(box)
    if not label:
        return
    width = _label_width(box)
    yield (
        f'<rect x="{x - width / 2:.1f}" y="{label_y - 10:.1f}" width="{width:.1f}" height="20" rx="10" '
        f'fill="{colour}"/>'
    )
    yield _text(_Text(label, NOTE, SANS, "bold", "#ffffff"), x, label_y + 4, "middle")


def _label(box: PlanBox) -> str:
    return " · ".join(part for part in (box.edge, box.rate) if part)


def _label_width(box: PlanBox) -> float:
    label = _label(box)
    return _Text(label, NOTE, SANS, "bold").width + 16 if label else 0.0


def _legend_width() -> float:
    return sum(_entry_width(pattern, text) for pattern, text in LEGEND.items())


def _entry_width(pattern: UpdatePattern, text: str) -> float:
    return _Text(f"{pattern}: {text}", NOTE, SANS).width + 30


def _legend(left: float, top: float) -> Iterator[str]:
    for pattern, text in LEGEND.items():
        yield f'<circle cx="{left + 6:.1f}" cy="{top + 6:.1f}" r="5" fill="{COLOURS[pattern][0]}"/>'
        yield _text(_Text(f"{pattern}: {text}", NOTE, SANS, colour="#4a5a63"), left + 15, top + 10)
        left += _entry_width(pattern, text)
