"""Which queries may take the place of others: a sink must be able to go on, and no tuple must be missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery
from windrow.dataplane.sinks import SinkMode
from windrow.dataplane.sinks.ownership import Claim
from windrow.engine.plans.due import TickGrid, due_upto, input_progress
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.state import StreamState
from windrow.errors import BindError, CatalogError, StateError, UnsupportedError
from windrow.optimizer.execution import UPA, execution_of
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.types import point_text

CONSOLE = "console"


def anew(name: str) -> str:
    """The remedy where a query cannot be replaced."""
    return f"DROP QUERY {name}, and create it anew"


def refuse_other_kind(old: ContinuousQuery, plan: ContinuousPlan) -> None:
    """Raise if the new query answers in another way than the old one, or if either is run by a strategy whose state
    cannot be carried over."""
    if {execution_of(old.plan), execution_of(plan)} != {UPA}:
        raise UnsupportedError(
            f"query '{old.name}' cannot be replaced: only state of execution = 'upa' is carried over to another query",
            remedy=f"{anew(old.name)}.",
        )
    if old.plan.periodic != plan.periodic:
        raise other_kind(old.name, old.plan.periodic, plan.periodic)
    if old.plan.point != plan.point:
        raise CatalogError(
            f"query '{old.name}' ticks on a {old.plan.point.name}, and the new one on a {plan.point.name}",
            remedy=f"{anew(old.name)}.",
        )


def other_kind(name: str, was_periodic: bool, is_periodic: bool) -> CatalogError:
    """The error of a query that would run in another way than the one that it replaces."""
    kinds = {True: "answers windows (SLIDE)", False: "is continuous"}
    how = f"{kinds[was_periodic]}, and the new one {kinds[is_periodic]}"
    if was_periodic and is_periodic:
        how = "answers windows as another kind of query does: one aggregates one stream, the other is a plan"
    return CatalogError(
        f"query '{name}' {how}",
        remedy=f"{anew(name)}.",
    )


def refuse_other_sink(
    name: str,
    old: CreateQuery,
    new: CreateQuery,
    mode: SinkMode | None,
    claims: Callable[[], tuple[Claim, Claim]],
) -> None:
    """Raise if the sink of a query cannot go on with what the new one gives it. `mode` is that of the old one,
    `claims` are what both would write."""
    if old.sink != new.sink:
        shown = "no INTO" if old.sink is None else "INTO" + to_text(old).rpartition(" INTO")[2]
        raise BindError(
            f"the sink of query '{name}' is another one: the query has {shown}",
            remedy=f"Write the same INTO. Or {anew(name)}.",
        )
    if old.sink is None:
        return
    if mode is SinkMode.APPEND:
        raise BindError(
            f"the sink of query '{name}' only appends, and rows of the old answer would have to go",
            remedy=f"{anew(name)} with another path; with mode 'changes' a query can be replaced.",
        )
    before, after = claims()
    if old.sink.kind == CONSOLE and before.owner.mode == after.owner.mode:
        return  # it shows any columns
    if not after.owner.goes_on(before.owner):
        raise BindError(
            f"the sink of query '{name}' cannot go on: it has {_columns(before)}, and the new query gives "
            f"{_columns(after)}",
            remedy=f"Give the same columns, by the same names, from the same first stream. Or {anew(name)} with "
            "another path.",
        )


def _columns(claim: Claim) -> str:
    mode = "" if claim.owner.mode is None else f" in mode '{claim.owner.mode}'"
    return f"({', '.join(claim.owner.columns)}){mode}"


def tick_of(old: ContinuousQuery, plan: ContinuousPlan, streams: Sequence[StreamState]) -> int | None:
    """The tick as of which the new plan takes over; None if the old one has not ticked.

    It is the old plan's last one. Raises if the new plan has no such tick, or has a stream that is not complete up to
    it: tuples that come later would be missed.
    """
    ticked, grid = old.progress.ticked, TickGrid(plan.step, plan.origin)
    if ticked is None:
        return None
    at, by_name = grid.floor(ticked), {stream.name.lower(): stream for stream in streams}
    shown = point_text(ticked, plan.point)
    if at != ticked and not plan.periodic:
        raise StateError(
            f"query '{old.name}' has ticked at {shown}, which is no tick of the new one",
            remedy=f"Try again at another tick. Or {anew(old.name)}.",
        )
    for window in plan.windows:
        inputs = [input_progress(window, by_name[window.stream.lower()].progress)]
        if inputs[0].ended:
            continue
        upto = due_upto(inputs, grid, plan.periodic)
        if upto is None or upto < at:
            has = "has no tuple yet" if upto is None else f"is complete up to {point_text(upto, plan.point)}"
            raise StateError(
                f"query '{old.name}' has ticked at {shown}, and stream '{window.stream}' of the new one {has}",
                remedy=f"Try again when the stream has passed that tick. Or {anew(old.name)}.",
            )
    return at
