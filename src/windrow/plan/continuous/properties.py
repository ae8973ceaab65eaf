"""What the binder must know about the output of a plan: whether it only grows, or may withdraw rows.

`windrow.patterns` computes update patterns for execution; here are the rules of the language (Golab's dissertation,
sections 3.3.2 to 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windrow.errors import Place, UnsupportedError
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    GroupBy,
    Join,
    Lifetime,
    Node,
    NrrJoin,
    OuterJoin,
    OutputRows,
    OutputWindow,
    RowsWindow,
    SemiJoin,
    SetOperation,
    Streaming,
    StreamWindow,
    TableScan,
    TopRows,
    ToStream,
    walk,
)
from windrow.plan.algebra.rewriting import with_inputs

_WITHDRAW: dict[type[Node], str] = {
    GroupBy: "a new value of an aggregate replaces the old one",
    TopRows: "LIMIT withdraws rows that others push out",
    SemiJoin: "a row goes when its matches change",
    OuterJoin: "a row without a match goes when one comes",
    SetOperation: "a value goes when both sides change",
    TableScan: "a row goes when a statement changes its table",
    RowsWindow: "later tuples push earlier ones out of a window of ROWS",
    OutputRows: "later results push earlier ones out of a window of ROWS",
}
"""The operators that withdraw rows before their `exp`, and why."""

TICKS_PER_WINDOW = 10
"""A joined window of fewer ticks has many results that come and go between two ticks."""


def is_monotonic(node: Node) -> bool:
    """Whether rows of the output never leave it: windows are INTERNAL or UNBOUNDED, or it is a stream."""
    if isinstance(node, (StreamWindow, OutputWindow)):
        return node.lifetime.internal or node.lifetime.range is None
    if isinstance(node, ToStream):
        return True
    if isinstance(node, NrrJoin):
        return is_monotonic(node.input)
    return type(node) not in _WITHDRAW and all(map(is_monotonic, node.inputs))


def is_strict(node: Node) -> bool:
    """Whether the output may withdraw a row before its `exp`."""
    if isinstance(node, (ToStream, OutputWindow)):
        return False
    if isinstance(node, NrrJoin):
        return is_strict(node.input)
    return type(node) in _WITHDRAW or any(map(is_strict, node.inputs))


def per_window(node: Node) -> Node:
    """The result of each tick as rows that live at that tick alone. In a plan with SLIDE every tick delivers its whole
    answer, so a result that would be withdrawn is simply made anew: nothing above it is strict."""
    return OutputWindow(ToStream(node, Streaming.RSTREAM), Lifetime(1)) if _is_of_its_tick(node) else node


def _is_of_its_tick(node: Node) -> bool:
    """Whether rows may be withdrawn, or are what went or is there at a tick."""
    if isinstance(node, ToStream):
        return node.kind is not Streaming.ISTREAM
    if isinstance(node, OutputWindow):
        return False
    return type(node) in _WITHDRAW or any(map(_is_of_its_tick, node.inputs))


def windows_below(node: Node) -> Iterator[StreamWindow | RowsWindow | OutputWindow]:
    """The windows whose contents the node sees. A window on a sub-query hides those inside it."""
    if isinstance(node, (StreamWindow, RowsWindow, OutputWindow)):
        yield node
    elif not isinstance(node, ToStream | OutputRows):
        for one in node.inputs[:1] if isinstance(node, NrrJoin) else node.inputs:
            yield from windows_below(one)


def has_internal(node: Node) -> bool:
    return any(window.lifetime.internal for window in windows_below(node))


def refuse_internal(node: Node, place: Place | None, is_aggregated: bool = False) -> None:
    """Refuse INTERNAL windows beside or below what withdraws rows: a result over one outlives the state of its parts
    (section 3.3.2). An aggregate reports its values and keeps no results, so it may read [ROWS n INTERNAL]."""
    seen = as_external(node) if is_aggregated and not _is_negated(node) else node
    if has_internal(seen) and is_strict(seen):
        raise UnsupportedError(
            f"a result over an INTERNAL window would stay for ever and be withdrawn: here {why_strict(node)}",
            place=place,
            remedy="Leave INTERNAL out; or take what is reported: FROM (SELECT ISTREAM(…) …) [RANGE …] AS x.",
        )


def _is_negated(node: Node) -> bool:
    """Whether rows are withdrawn for another reason than that a window counts rows."""
    return any(type(one) in _WITHDRAW and not isinstance(one, RowsWindow) for one in walk(node))


def is_unbounded(node: Node) -> bool:
    """Whether rows stay in the output for ever, so that repeating it at every tick has no end. What semi-joins and set
    operations show is part of their left side."""
    if isinstance(node, (SemiJoin, SetOperation, NrrJoin)):
        return is_unbounded(node.inputs[0])
    if isinstance(node, (StreamWindow, OutputWindow)):
        return node.lifetime.range is None or node.lifetime.internal
    return not isinstance(node, ToStream | OutputRows) and any(map(is_unbounded, node.inputs))


def as_external(node: Node) -> Node:
    """The same plan over external windows: what an aggregate over INTERNAL windows keeps as state (section 3.3.2)."""
    return _over(node, internal=False)


def as_internal(node: Node) -> Node:
    """The same plan over INTERNAL windows: what stands below WSTREAM (section 3.4)."""
    return _over(node, internal=True)


def _over(node: Node, internal: bool) -> Node:
    """The plan with the windows whose contents it sees changed. Those that count rows are never INTERNAL in a plan."""
    if isinstance(node, RowsWindow):
        return replace(node, internal=False)
    if isinstance(node, (StreamWindow, OutputWindow)):
        return replace(node, lifetime=replace(node.lifetime, internal=internal))
    if isinstance(node, ToStream | OutputRows | TableScan):
        return node
    return with_inputs(node, [_over(one, internal) for one in node.inputs])


def refuse_unless_monotonic(node: Node, name: str) -> None:
    """Refuse CREATE STREAM … AS over a query whose rows leave its answer again."""
    if not is_monotonic(node):
        raise UnsupportedError(
            f"'{name}' cannot be a stream: {why_not_monotonic(node)}",
            remedy=f"{how_to_grow(node)}.",
        )


def why_strict(node: Node) -> str:
    """Why rows are withdrawn before their `exp`, in words."""
    if type(node) in _WITHDRAW:
        return _WITHDRAW[type(node)]
    return next(why_strict(one) for one in node.inputs if is_strict(one))


def how_to_grow(node: Node) -> str:
    """How a query is written so that rows never leave its output. ISTREAM does not report a row that comes when an
    equal one goes, so it is not the first choice where every row has a meaning of its own."""
    shown = "SELECT ISTREAM(…), which reports a row unless an equal one leaves at the same tick"
    if any(isinstance(one, (TopRows, Distinct)) for one in walk(node)):
        return f"Write {shown}"
    if any(isinstance(one, GroupBy) for one in walk(node)):
        return f"Write {shown}; or make all windows INTERNAL"
    return f"Make all windows INTERNAL, which reports every row; or write {shown}"


def why_not_monotonic(node: Node) -> str:
    """Why rows leave the output, in words."""
    if type(node) in _WITHDRAW:
        return _WITHDRAW[type(node)]
    if isinstance(node, (StreamWindow, OutputWindow)):
        return "its rows leave the answer when they leave their windows"
    return next(why_not_monotonic(one) for one in node.inputs if not is_monotonic(one))


def too_short(plan: ContinuousPlan) -> int | None:
    """The shortest window of a plan, if results may come and go between two of its ticks, which are then in no answer:
    a joined window of few ticks, or any window below one tick. None if the windows are long enough, or if every tick
    is answered by itself (SLIDE), or if points are no finer than ticks. [NOW] is as short as it is meant to be.
    """
    lifetimes = [one.lifetime for one in _at_ticks(plan.root) if isinstance(one, (StreamWindow, OutputWindow))]
    ranges = [one.range for one in lifetimes if one.range is not None and not one.internal and not one.is_now]
    if plan.periodic or plan.step == 1 or not ranges:
        return None
    is_joined = any(isinstance(one, Join) for one in _at_ticks(plan.root))
    least = plan.step * (TICKS_PER_WINDOW if is_joined else 1)
    return min(ranges) if min(ranges) < least else None


def _at_ticks(node: Node, at_instants: bool = False) -> Iterator[Node]:
    """The nodes whose rows are seen at ticks alone: RESTORE sees those of every instant."""
    at_instants = node.restores if isinstance(node, ToStream) else at_instants
    for one in node.inputs:
        yield from _at_ticks(one, at_instants)
    if not at_instants:
        yield node
