"""EXPLAIN of a one-time query: how it is answered, from what, and why; of one that a synopsis answers, the window."""

from __future__ import annotations

from windrow.dataplane.stores import WindowSource
from windrow.engine.ask.catalog_views import length_text
from windrow.engine.ask.onetime.choosing import Chosen
from windrow.engine.ask.snapshots import SnapshotFit
from windrow.engine.isolation.coordinator import RESTARTS
from windrow.engine.isolation.interface import OneTimeRead
from windrow.engine.state import StreamState
from windrow.explain.text import aggregate_lines, finalise_lines
from windrow.plan.nodes import Finalise
from windrow.schedulers.history import Isolation
from windrow.types import point_text
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


def asked_lines(chosen: Chosen) -> list[str]:
    """How a one-time query over windows is evaluated: where, why, as of when, and what it reads of each window."""
    read, version = chosen.read, chosen.version
    where = {"driver": "in the driver", "spark": "by Spark"}[read.answered_from]
    as_of = "the tuples that have come" if version.instant is None else point_text(version.instant, read.asked.point)
    lines = [f"One-time query, {where}: {chosen.reason}", f"  As of: {as_of}"]
    for i, (window, wish) in enumerate(zip(read.asked.windows, read.wishes, strict=True)):
        source = version.reading[i]
        assert isinstance(source, WindowSource)
        kept = ", ".join(one.sql for one in source.read) or "none"
        files = version.files[source.store].files
        rows = sum(one.rows for one in files)
        lines.append(
            f"  Read {wish.called}: window store {source.store} by {wish.axis}; {len(files):,} files, {rows:,} rows"
        )
        lines.append(f"    columns {kept}")
        if source.trees:
            lines.append(f"    computed of them: {', '.join(one.sql for one in source.trees)}")
        if i in version.complete_from:
            lines.append(f"    complete from {point_text(version.complete_from[i], window.attribute.type)} on")
    lines += [f"  Read {one.name}: {version.tables[name].num_rows:,} rows" for name, one in read.sources.ready.items()]
    return lines


def isolation_line(read: OneTimeRead, isolation: Isolation) -> str:
    """What a one-time query does when an update comes while it runs."""
    if isolation is Isolation.WINDOW:
        how = "it keeps to this version, whatever comes meanwhile"
    elif isolation is Isolation.SERIAL:
        how = "other one-time queries see no update while it runs, for at most serial_hold"
    elif read.keeps_partials:
        how = "runs of panes are read, the youngest first; what leaves meanwhile is dropped, and what comes is read"
    else:
        how = f"it begins again when an update comes; after {RESTARTS} times it runs serially"
    return f"  Isolation {isolation.value}: {how}"
