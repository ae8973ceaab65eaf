"""Another plan takes the place of a query's, in one transaction: its plan and choices, the parts of its state and view,
its progress, what it reads, and what it reports of the difference.

Sinks and subscribers get the difference between the old answer and the new one once, as changes of the next tick,
before the commit (a stage: it is published after it). A crash before the commit leaves the old query, one after it the
new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from windrow.crash import crash_point
from windrow.dataplane.sinks import Sink, SinkMode
from windrow.engine.kept.window_stores import StoreUse, WindowStores
from windrow.engine.plans.changing.takeover import PlanTakeover, Takeovers, answer_of, is_stream, no_changes
from windrow.engine.plans.commits import ANSWERS, CHANGES, STATE, VIEW, NewPart, PlanCommits, PlanTick
from windrow.engine.plans.delivering import PlanDelivery
from windrow.engine.plans.homes import state_part, view_part
from windrow.engine.plans.query import ContinuousQuery, PlanProgress, PlanVersion, ShownPart, kept_columns
from windrow.engine.plans.tables import changes_table, ordered, view_table
from windrow.engine.tables.commits import TableCommits
from windrow.operators.carrying.difference import came, difference, lasting, withdrawn
from windrow.operators.state import compacted
from windrow.operators.tables.kernel import Kernel
from windrow.operators.view import lifespan, live_view
from windrow.settings import Settings


@dataclass(frozen=True)
class _Reported:
    """What a swap reports: `goes` in the columns of the old plan, `comes` in those of the new one; if these are the
    same, all of it is in `comes`. `view` is the new answer (None: it goes on as it is, or there is none)."""

    goes: pa.Table | None
    comes: pa.Table
    view: pa.Table | None
    drops: tuple[str, ...]


class PlanSwaps:
    """Swaps plans. The caller holds the query's `ticking`, and the `batch_lock` of all streams of both plans."""

    def __init__(
        self,
        commits: PlanCommits,
        stores: WindowStores,
        tables: TableCommits,
        delivery: PlanDelivery,
        takeovers: Takeovers,
        settings: Callable[[], Settings],
        kernel: Kernel,
    ):
        self.takeovers = takeovers
        self._commits = commits
        self._stores = stores
        self._tables = tables
        self._delivery = delivery
        self._settings = settings
        self._kernel = kernel

    def swap(self, old: ContinuousQuery, new: ContinuousQuery, taken: PlanTakeover, statement: str, saved: str) -> None:
        """Put the query `new`, which has the number and the name of the old one, in its place. `statement` and `saved`
        are what the catalog keeps of it. It gets its readers and its state here."""
        self._delivery.publish(old)
        seq, told = old.progress.seq + 1, self._reported(old, new, taken)
        staged = self._send(old, new, told, taken.ticked, seq)
        goes_on = old.version.since if told.view is None else ()
        tick = PlanTick(
            new.id,
            taken.ticked,
            seq,
            self._parts(new, taken, told),
            (STATE, *told.drops),
            keep=self._settings().integer(new.retention),
            shown_from=next((part.seq for part in goes_on), seq + 1),
            covered=taken.covered,
            blocks=taken.blocks,
            staged=staged,
        )
        uses, effects = list[StoreUse](), {} if taken.ticked is None else new.effects_at(taken.ticked)

        def along() -> None:
            moved = self._stores.move(new.id, [use.reader for use in old.uses], taken.readers)
            windows = zip(new.plan.windows, moved, strict=True)
            uses.extend(replace(use, predicate=kept_columns(window)[1]) for window, use in windows)
            self._tables.unread_by(new.id)
            for table in {use.table.id: use.table for use in new.tables}.values():
                self._tables.read_by(new.id, table, effects.get(table.id), taken.ticked)
            self._commits.changed(new.id, statement, saved, new.plan.streams)
            self._commits.discard(taken.unneeded)
            crash_point("plan-swapping")

        (committed,) = self._commits.tick([tick], along)
        entry = committed.entry
        new.uses = tuple(uses)
        progress = PlanProgress(taken.ticked, seq, None, taken.covered, effects)
        new.version = replace(old.version, progress=progress, state=taken.state)
        if told.view is not None:
            (view,) = (part for part in committed.parts if part.kind == VIEW)
            new.version = PlanVersion(progress, taken.state, (ShownPart.of(told.view, view),))
        new.home, new.home_reason = taken.home, "its plan has just changed"
        new.committed = new.merged_at = taken.ticked
        new.unmerged = old.unmerged if told.view is None else 0
        new.metrics.rows += told.comes.num_rows
        new.unshown = (*old.unshown, (entry, staged)) if entry is not None and staged is not None else old.unshown
        self._delivery.publish(new)

    # -- what is reported ----------------------------------------------------------------------

    def _reported(self, old: ContinuousQuery, new: ContinuousQuery, taken: PlanTakeover) -> _Reported:
        if taken.ticked is None:
            return _Reported(None, no_changes(new.plan), None, ())
        is_same = [one.type for one in old.plan.schema] == [one.type for one in new.plan.schema]
        nothing = no_changes(new.plan)
        if new.plan.periodic:
            return _Reported(None, nothing, None, () if is_same else (ANSWERS,))
        if is_stream(old.plan) and is_stream(new.plan) and is_same:
            return _Reported(None, nothing, None, ())  # what was reported stays
        before, after = answer_of(old), taken.rebuilt.answer
        after, tick = nothing if after is None else after, taken.ticked + new.plan.step
        if before is None:
            return _Reported(None, came(lasting(after, tick), tick), after, (VIEW,))
        if is_same:
            return _Reported(None, difference(before, after, tick), after, (VIEW,))
        goes, comes = withdrawn(lasting(before, tick), tick), came(lasting(after, tick), tick)
        return _Reported(goes, comes, after, (VIEW, CHANGES))

    def _send(
        self, old: ContinuousQuery, new: ContinuousQuery, told: _Reported, ticked: int | None, seq: int
    ) -> str | None:
        """Send the difference to subscribers and to the sink; return the stage, if there is one."""
        if new.plan.periodic or ticked is None:
            return None
        if told.goes is not None and told.goes.num_rows:
            rows = changes_table(old.plan, told.goes)
            follows = isinstance(old.sink, Sink) and old.mode is not SinkMode.VIEW
            self._delivery.send(old, rows, rows if follows else None, seq, "-")
        rows, shown = changes_table(new.plan, told.comes), None
        if new.mode is SinkMode.VIEW and told.view is not None:
            alive = live_view((no_changes(new.plan), told.view), ticked).at(ticked)
            shown = ordered(new.plan, view_table(new.plan, alive), self._kernel)
        elif new.sink is not None and rows.num_rows:
            shown = rows
        return self._delivery.send(new, rows, shown, seq)

    # -- what is written -----------------------------------------------------------------------

    def _parts(self, new: ContinuousQuery, taken: PlanTakeover, told: _Reported) -> tuple[NewPart, ...]:
        found = [state_part(part) for part in compacted(taken.rebuilt.state)]
        if told.comes.num_rows:
            found.append(NewPart(CHANGES, told.comes, lo=lifespan(told.comes)[0]))
        if told.view is not None:
            found.append(view_part(new, told.view))
        return tuple(found)
