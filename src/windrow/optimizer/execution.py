"""Strategies: a whole plan run one way, for experiments (Golab's dissertation, sections 2.3.3 and 3.6).

`upa` leaves every operator to the update patterns of its edges. `negative` puts above every window an operator that
withdraws each row that expires. `direct` lets operators keep lists of rows and scan them. Answers are the same.
"""

from __future__ import annotations

from dataclasses import replace

from windrow.errors import UnsupportedError
from windrow.patterns import Annotated, UpdatePattern, annotate
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Expiring,
    Join,
    Node,
    NrrJoin,
    OutputWindow,
    StreamWindow,
    WindowExpiry,
    walk,
)
from windrow.plan.algebra.rewriting import rewritten

UPA, NEGATIVE, DIRECT = "upa", "negative", "direct"
"""The values of the setting `execution`."""

_REMEDY = "SET execution = 'upa', the default, which runs every query."


def rules_off_for(execution: str) -> tuple[str, ...]:
    """The rules that a strategy cannot use: with negative tuples every row may be withdrawn, so a semi-join counts the
    rows of a value itself."""
    return ("match_once",) if execution == NEGATIVE else ()


def executed(plan: ContinuousPlan, execution: str) -> ContinuousPlan:
    """The plan for a strategy. Raises UnsupportedError if the strategy cannot run it."""
    if execution == UPA:
        return plan
    if execution == NEGATIVE:
        _refuse_negative(plan)
        return replace(plan, root=rewritten(plan.root, _with_negative_tuples))
    _refuse_direct(plan)
    return replace(plan, root=rewritten(plan.root, _with_lists))


def execution_of(plan: ContinuousPlan) -> str:
    """The strategy that a plan was made for."""
    found = {one.how for one in walk(plan.root) if isinstance(one, WindowExpiry)}
    return UPA if not found else NEGATIVE if Expiring.NEGATIVE in found else DIRECT


def _with_negative_tuples(node: Node) -> Node:
    node = _without_reuse(node)
    is_window = isinstance(node, StreamWindow | OutputWindow) and node.lifetime.range is not None
    return WindowExpiry(node, Expiring.NEGATIVE) if is_window else node


def _with_lists(node: Node) -> Node:
    node = _without_reuse(node)
    return WindowExpiry(node, Expiring.DIRECT) if isinstance(node, StreamWindow) else node


def _without_reuse(node: Node) -> Node:
    """A join keeps its own rows: the state of δ*, which it may share otherwise, is not there."""
    return replace(node, reused=()) if isinstance(node, Join) and node.reused else node


def _refuse_negative(plan: ContinuousPlan) -> None:
    why = _why_not_negative(plan)
    if why is not None:
        raise UnsupportedError(f"execution = 'negative' withdraws every row that expires, and {why}", remedy=_REMEDY)


def _why_not_negative(plan: ContinuousPlan) -> str | None:
    for node in walk(plan.root):
        if isinstance(node, StreamWindow | OutputWindow) and node.lifetime.internal:
            return "results over an INTERNAL window stay"
        if isinstance(node, NrrJoin):
            return "a join with a NON RETROACTIVE table cannot take results back: the table may have changed since"
    return None


def _refuse_direct(plan: ContinuousPlan) -> None:
    strict = _lowest_strict(annotate(plan))
    if strict is not None:
        raise UnsupportedError(
            "execution = 'direct' finds expired rows by their exp, and rows of this query may be withdrawn before it: "
            f"{strict.why}",
            remedy=_REMEDY if _why_not_negative(plan) else f"{_REMEDY} Or SET execution = 'negative'.",
        )


def _lowest_strict(one: Annotated) -> Annotated | None:
    """The operator that makes rows STR: the first that is so over inputs that are not. The table of a join with one
    that is NON RETROACTIVE does not count: its rows are looked up, and never expire."""
    for below in one.inputs[:1] if isinstance(one.node, NrrJoin) else one.inputs:
        found = _lowest_strict(below)
        if found is not None:
            return found
    return one if UpdatePattern.STR in (one.state, one.output) else None
