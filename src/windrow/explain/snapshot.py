"""EXPLAIN of a one-time query: the synopsis that answers it, and the window."""

from __future__ import annotations

from windrow.engine.ask.catalog_views import length_text
from windrow.engine.ask.snapshots import SnapshotFit
from windrow.engine.state import StreamState
from windrow.explain.text import aggregate_lines, finalise_lines
from windrow.plan.nodes import Finalise
from windrow.windows import SlidingWindow


def explain_snapshot(plan: Finalise, stream: StreamState, fit: SnapshotFit) -> str:
    """One line per operator, then the synopsis and the window."""
    kind, window, state = plan.scan.attribute.type, plan.window, fit.state
    assert isinstance(window, SlidingWindow)
    offset = f" OFFSET {length_text(window.offset, kind)}" if window.offset else ""
    text = f"{'ROWS' if plan.scan.attribute.is_rows else 'RANGE'} {length_text(window.range, kind)}{offset}"
    names = [name for name, _ in state.plan.queries]
    kept = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    title = "Snapshot query: one-time, from the state of a standing query"
    lines = [title, *finalise_lines(plan), *aggregate_lines(plan, text)]
    lines.append(
        f"      Synopsis {state.plan.id}: {state.synopsis.kind}, home: {state.synopsis.home.value}, kept for {kept}"
    )
    lines += [f"        SS4: {one}" for one in fit.derived]
    lines.append(f"        window edges {fit.span.cuts()}; {fit.span}")
    lines.append(f"        answers {fit.span.shown(fit.start, fit.end)}, the latest closed window with such edges")
    lines.append(f"        Selection {plan.input.input.predicate or 'true'}   (applied when the tuples came)")
    lines.append(f"          Scan {stream.name} by {plan.scan.attribute} ({kind}): no tuple is read")
    return "\n".join(lines)
