"""Plans as Mermaid flowcharts, which GitHub, GitLab and many editors draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from windrow.explain.tree import ExplainedPlan, PlanBox

CLASSES = {
    "MONOTONIC": "fill:#eef7ee,stroke:#2e7d32,color:#1b2327",
    "WKS": "fill:#ecf3fb,stroke:#1565c0,color:#1b2327",
    "WK": "fill:#fff6e5,stroke:#b26a00,color:#1b2327",
    "STR": "fill:#fdeeed,stroke:#b3261e,color:#1b2327",
}
SHOWN_NOTES = ("keeps", "reads", "ran")
"""The notes that a picture has room for."""

_ESCAPED = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;", "#": "#35;", ";": "#59;"}


def mermaid_text(plans: Sequence[ExplainedPlan]) -> str:
    """One flowchart; several plans are sub-graphs of it."""
    lines, numbers = ["flowchart BT"], count()
    for i, plan in enumerate(plans):
        inner = list(_plan(plan, numbers))
        if len(plans) > 1:
            inner = [f'subgraph q{i}["{_escaped(plan.name)}"]', *(f"  {line}" for line in inner), "end"]
        lines += [f"  {line}" for line in inner]
    used = {box.pattern.name for plan in plans for box in plan.root.walk() if box.pattern is not None}
    lines += [f"  classDef {name} {style}" for name, style in CLASSES.items() if name in used]
    return "\n".join(lines)


def _plan(plan: ExplainedPlan, numbers: count[int]) -> Iterator[str]:
    number = next(numbers)
    yield f'n{number}(["{_escaped(plan.title)}"])'
    yield from _box(plan.root, numbers, number)


def _box(box: PlanBox, numbers: count[int], above: int) -> Iterator[str]:
    number = next(numbers)
    kept = [text for label, text in box.notes if label in SHOWN_NOTES]
    label = "<br/>".join([f"<b>{_escaped(box.operator)}</b>", *map(_escaped, (box.text, *kept))])
    yield f'n{number}["{label}"]{"" if box.pattern is None else f":::{box.pattern.name}"}'
    edge = " · ".join(part for part in (box.edge, box.rate) if part)
    yield f'n{number} -->|"{_escaped(edge)}"| n{above}' if edge else f"n{number} --> n{above}"
    for one in box.inputs:
        yield from _box(one, numbers, number)


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(character, character) for character in text)
