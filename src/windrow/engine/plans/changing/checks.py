"""Which queries may take the place of others: a sink must be able to go on, and no tuple must be missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery
from windrow.dataplane.sinks import SinkMode
from windrow.dataplane.sinks.ownership import Claim
from windrow.engine.plans.due import TickGrid, due_upto, input_progress, table_progress
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.state import StreamState
from windrow.engine.tables.stored import StoredTable
from windrow.engine.tables.uses import known_from
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


def tick_of(
    old: ContinuousQuery, plan: ContinuousPlan, tables: Sequence[StoredTable], stream_of: Callable[[str], StreamState]
) -> int | None:
    """The tick as of which the new plan takes over; None if the old one has not ticked. `tables` are those of the new
    plan.

    It is the old plan's last one. Raises if the new plan has no such tick, or has a stream, or a table that a stream
    feeds, that is not complete up to it, or of which what it had then is not kept: something would be missed.
    """
    ticked, grid = old.progress.ticked, TickGrid(plan.step, plan.origin)
    if ticked is None:
        return None
    at, shown = grid.floor(ticked), point_text(ticked, plan.point)
    if at != ticked and not plan.periodic:
        raise StateError(
            f"query '{old.name}' has ticked at {shown}, which is no tick of the new one",
            remedy=f"Try again at another tick. Or {anew(old.name)}.",
        )
    inputs = [
        (f"stream '{window.stream}'", input_progress(window, stream_of(window.stream).progress))
        for window in plan.windows
    ]
    for table in tables:
        if table.feed is not None:
            inputs.append((f"table '{table.name}'", table_progress(table, stream_of(table.feed.stream).progress)))
    for name, one in inputs:
        upto = None if one.ended else due_upto([one], grid, plan.periodic)
        if not one.ended and (upto is None or upto < at):
            has = "has no tuple yet" if upto is None else f"is complete up to {point_text(upto, plan.point)}"
            raise StateError(
                f"query '{old.name}' has ticked at {shown}, and {name} of the new one {has}",
                remedy=f"Try again when its stream has passed that tick. Or {anew(old.name)}.",
            )
    known = known_from(tables)
    if known is not None and known > at:
        raise StateError(
            f"query '{old.name}' has ticked at {shown}, and what its tables held then is not kept: they are known from "
            f"{point_text(known, plan.point)} on",
            remedy=f"Try again when it has passed that tick. Or {anew(old.name)}.",
        )
    return at
