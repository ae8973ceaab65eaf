"""Shows plans: as text, as a Mermaid flowchart, or drawn into a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from windrow.console.tables import messages, output, say
from windrow.errors import SinkError, UnsupportedError
from windrow.result import Plan

if TYPE_CHECKING:
    from windrow.explain.drawing import DrawnPlan


def show_plans(plans: Sequence[Plan], svg: Path | None = None, mermaid: bool = False) -> None:
    """Draw the plans into the file `svg`, print them as Mermaid, or else print their texts."""
    if not plans:
        say(output(), "there is no query to explain")
        return
    if svg is not None:
        _write(svg, plans)
    if mermaid:
        from windrow.explain.mermaid import mermaid_text

        say(output(), mermaid_text([one.plan for one in _drawn(plans)]))
    elif svg is None:
        say(output(), "\n\n".join(plans))


def _write(file: Path, plans: Sequence[Plan]) -> None:
    from windrow.explain.drawing import svg_text

    drawn = _drawn(plans)
    try:
        file.write_text(svg_text([one.plan for one in drawn]) + "\n", encoding="utf-8")
    except OSError as error:
        raise SinkError(
            f"the plans cannot be written to {file}: {error.strerror or error}", remedy="Name another file."
        ) from None
    say(messages(), f"drew {len(drawn)} plan{'' if len(drawn) == 1 else 's'} into {file}", "dim")


def _drawn(plans: Sequence[Plan]) -> list[DrawnPlan]:
    from windrow.explain.drawing import DrawnPlan

    found = [plan.picture for plan in plans if isinstance(plan.picture, DrawnPlan)]
    if not found:
        raise UnsupportedError(
            "only standing queries are drawn, and these are one-time queries", remedy="Leave --svg and --mermaid out."
        )
    return found
