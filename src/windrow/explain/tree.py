"""An explained plan: boxes with notes, which text, SVG and Mermaid show alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windrow.patterns import UpdatePattern
from windrow.types import number_text


@dataclass(frozen=True)
class PlanBox:
    """An operator and its output edge.

    `notes` are short labels and texts, in order. `pattern` is the update pattern of the edge's state, `shown` that of
    its output; None for plans without patterns. `rate` is what flowed over the edge, if it was measured.
    """

    operator: str
    text: str
    notes: tuple[tuple[str, str], ...] = ()
    inputs: tuple[PlanBox, ...] = ()
    pattern: UpdatePattern | None = None
    shown: UpdatePattern | None = None
    rate: str | None = None

    @property
    def edge(self) -> str:
        """The label of the edge: its pattern, and the one shown if it differs."""
        if self.pattern is None:
            return ""
        return str(self.pattern) if self.shown in (None, self.pattern) else f"{self.pattern} (shown {self.shown})"

    def walk(self) -> Iterator[PlanBox]:
        """This box, then those below, from left to right."""
        yield self
        for one in self.inputs:
            yield from one.walk()


@dataclass(frozen=True)
class ExplainedPlan:
    """A plan to show: a title, the tree, and what else there is to know, line by line."""

    name: str
    title: str
    root: PlanBox
    more: tuple[str, ...] = ()

    def text(self) -> str:
        return "\n".join([self.title, *_lines(self.root, "", True), *self.more])


def _lines(box: PlanBox, indent: str, is_last: bool) -> Iterator[str]:
    label = f" {box.edge} ─ " if box.edge else " "
    yield f"{indent}{'└─' if is_last else '├─'}{label}{box.operator} {box.text}".rstrip()
    below = indent + ("   " if is_last else "│  ")
    bar = "│  " if box.inputs else "   "
    notes = [*box.notes, *([("rate", box.rate)] if box.rate else [])]
    width = max((len(label) for label, _ in notes), default=0)
    for label, text in notes:
        yield f"{below}{bar}{label.ljust(width)}  {text}"
    for i, one in enumerate(box.inputs):
        yield from _lines(one, below, i == len(box.inputs) - 1)


def count_text(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def bytes_text(count: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return count_text(count, "byte")


def seconds_text(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{number_text(seconds * 1000)} ms"
