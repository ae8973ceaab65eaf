"""Ticks: they answer all windows that a frontier has passed, together per synopsis, then deliver and commit.

A stream has one axis per punctuated column and one of row numbers; each ticks by its own frontier. A tick batch is
everything due on an axis, in slices of bounded size; each slice is one commit. Answers do not depend on the slices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from windrow.dataplane.answers.finishing import Finished, Finisher
from windrow.dataplane.answers.revisions import first_answers
from windrow.engine.choices.having import NarrowedLookups
from windrow.engine.choices.index_choice import apply_choice
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.store.closed_groups import complete_from, group_bounds, release
from windrow.engine.store.homes import give_back_memory
from windrow.engine.store.journal import Journal
from windrow.engine.store.tick_commits import PromiseUpdate
from windrow.engine.ticks.corrections import Corrector, due_lookup
from windrow.engine.ticks.delivery import Delivery
from windrow.engine.ticks.due import SLOTS_PER_SLICE, DueWindows, due_on, slices
from windrow.engine.ticks.early import EarlyAnswers, left_to_answer
from windrow.engine.ticks.expiry import collapse, expire, expired
from windrow.engine.ticks.gaps import gaps, steps
from windrow.engine.ticks.guarded_finish import GuardedFinisher
from windrow.engine.ticks.query_answers import QueryAnswers
from windrow.engine.ticks.shared_answers import AnswerRequest, followers, taken_rows
from windrow.logs import log_event
from windrow.optimizer.sharing.rules import computed_together
from windrow.settings import Settings
from windrow.synopses import LookupAnswer
from windrow.synopses.holistic.selecting import selected
from windrow.types import point_text
from windrow.windows import Points

ANSWER_BLOCKS = 4
"""Small blocks of answers before they are merged, as a multiple of the setting `synopsis_blocks`."""


class Ticker:
    """Applies ticks to a stream."""

    def __init__(self, journal: Journal, delivery: Delivery, settings: Callable[[], Settings]):
        self._journal = journal
        self._delivery = delivery
        self._settings = settings
        self.finisher = Finisher(lambda: settings().integer("max_value_bytes"))
        self._guarded = GuardedFinisher(self.finisher, journal)

    def close(self) -> None:
        self.finisher.close()

    def tick(self, stream: StreamState) -> int:
        """Answer everything due, by the current settings; return the number of answered windows."""
        settings = self._settings()
        with stream.lock:
            self._delivery.publish(stream)
            apply_choice(stream, settings)
            answered = sum(self._tick_axis(stream, axis, settings) for axis in list(stream.frontiers))
        give_back_memory(stream)
        return answered

    def _tick_axis(self, stream: StreamState, axis: str, settings: Settings) -> int:
        frontier, ticked = stream.frontiers[axis].value, stream.ticked.get(axis)
        answered = self._correct(stream, axis, settings)
        # An axis without queries does not tick; its first query resumes at the frontier (`StreamProgress.resumed`).
        idle = not stream.on_axis(axis)
        if frontier is not None and (ticked is None or frontier > ticked) and not idle:
            self._refuse_gaps(stream, axis, frontier, settings)
            for upto in steps(stream, axis, frontier, settings):
                answered += self._tick_to(stream, axis, upto, settings)
        if stream.promises:
            self._answer_early(stream, axis, settings)
        return answered

    def _refuse_gaps(self, stream: StreamState, axis: str, frontier: int, settings: Settings) -> None:
        """Suspend the queries that would answer too many windows without tuples."""
        most = settings.integer("max_empty_windows")
        for gap in [gap for gap in gaps(stream, axis, frontier, settings) if gap.windows > most]:
            empty = gap.empty(frontier)
            if empty > most:
                self._journal.suspend(stream, gap.query, gap.why_refused(empty))

    def _tick_to(self, stream: StreamState, axis: str, frontier: int, settings: Settings) -> int:
        started, answered = time.monotonic(), 0
        due: list[DueWindows] = []
        for state in stream.on_axis(axis):
            state.synopsis.close(state.closed_at(frontier))
            due += due_on(stream, state, frontier, settings)
        for upto, part in slices(due, frontier):
            answered += self._slice(stream, axis, upto, part, upto == frontier, settings)
        self._end_batch(stream, started, settings)
        log_event(
            "tick",
            "stream '{stream}': ticked on {axis} up to {frontier}, {windows} windows answered in {seconds} s",
            stream=stream.name,
            axis=axis,
            frontier=_frontier_text(stream, axis, frontier),
            windows=answered,
            seconds=round(time.monotonic() - started, 3),
        )
        return answered

    def _end_batch(self, stream: StreamState, started: float, settings: Settings) -> None:
        """Compact the blocks of answers, and count the tick batch."""
        self._journal.answers.compact(
            ANSWER_BLOCKS * settings.integer("synopsis_blocks"), settings.integer("retained_answers")
        )
        stream.metrics.tick_s += time.monotonic() - started
        stream.metrics.tick_batches += 1

    def _correct(self, stream: StreamState, axis: str, settings: Settings) -> int:
        """Merge late cells and correct the answers that they change, in a commit of its own before due windows."""
        late = [state for state in stream.on_axis(axis) if state.synopsis.has_late]
        if not late:
            return 0
        delivered, applied = [], []
        for state in late:
            corrector = Corrector(stream, state, settings)
            windows = max(1, SLOTS_PER_SLICE // max(1, state.synopsis.slots(reduced=True)))
            delivered += list(corrector.corrections(self._guarded, self._journal.ticks, windows))
            applied.append(corrector.applied())
        self._delivery.commit(stream, axis, stream.ticked[axis], delivered, [], settings, applied)
        for taken in applied:
            taken.state.synopsis.merge_late()
        self._delivery.publish(stream)
        return sum(item.first_answers for item in delivered)

    def _answer_early(self, stream: StreamState, axis: str, settings: Settings) -> None:
        """Answer the groups that promises have closed, in a commit of its own after due windows."""
        fresh = tuple(query for query in stream.active if query.fresh and query.axis == axis)
        if not fresh and not stream.promises.waiting(axis):
            return
        started, delivered = time.monotonic(), []
        for state in stream.on_axis(axis):
            bounds = group_bounds(stream, state)
            if bounds is not None:
                delivered += list(EarlyAnswers(stream, state, bounds).delivered(self._guarded, SLOTS_PER_SLICE))
        complete = tuple((state, complete_from(stream, state)) for state in stream.on_axis(axis))
        promises, frontier = stream.promises.answered(axis), stream.frontiers[axis].value
        if not stream.on_axis(axis) and frontier is not None:
            promises = promises.overtaken(axis, frontier)  # no tick will
        left = PromiseUpdate(promises, fresh, complete)
        self._delivery.commit(stream, axis, stream.ticked.get(axis), delivered, [], settings, (), left)
        for state in stream.on_axis(axis):
            release(stream, state)
        self._delivery.publish(stream)
        self._end_batch(stream, started, settings)

    def _slice(
        self, stream: StreamState, axis: str, upto: int, due: Sequence[DueWindows], is_last: bool, settings: Settings
    ) -> int:
        delivered: list[QueryAnswers] = []
        for state in stream.on_axis(axis):
            mine = [item for item in due if item.state is state]
            if mine:
                delivered += self._answer_once(stream, state, mine, settings)
        leaving = [gone for state in stream.on_axis(axis) if (gone := expired(stream, state, upto)) is not None]
        left = PromiseUpdate(stream.promises.overtaken(axis, upto)) if stream.promises else None
        self._delivery.commit(stream, axis, upto, delivered, leaving, settings, (), left)
        for gone in leaving:
            expire(gone)
        for state in stream.on_axis(axis):
            collapse(stream, state, upto)
            if is_last:
                state.synopsis.answered()
        self._delivery.publish(stream)
        return sum(int(item.ends.size) for item in delivered)

    def _answer_once(
        self, stream: StreamState, state: SynopsisState, due: Sequence[DueWindows], settings: Settings
    ) -> list[QueryAnswers]:
        """The answers to all due windows, in the order of the queries. A query takes its rows from one that answers the
        same windows (CS8), unless groups were answered early: that depends on when a query came."""
        asking = [AnswerRequest(item.query, item.extents, item.shown()[1]) for item in due]
        following = {} if stream.promises or "CS8" in settings.rules_off else followers(asking)
        delivered = self._answer_some(stream, state, due, [i for i in range(len(due)) if i not in following], settings)
        taken = {
            i: rows
            for i, one in following.items()
            if (rows := taken_rows(delivered.get(one.leader), asking[i], one.places)) is not None
        }
        left = [i for i in following if i not in taken]
        if left:
            delivered |= self._answer_some(stream, state, due, left, settings)
        delivered |= taken
        return [delivered[i] for i in sorted(delivered)]

    def _answer_some(
        self,
        stream: StreamState,
        state: SynopsisState,
        due: Sequence[DueWindows],
        wanted: Sequence[int],
        settings: Settings,
    ) -> dict[int, QueryAnswers]:
        """By index in `due`, the answers of the wanted queries; without those that fail."""
        groups: Sequence[Sequence[int]] = [wanted]
        if settings.rules_off:
            use = stream.use_of(state.plan, state.since, settings.integer("cut_factor"))
            together = computed_together([due[i].query.name for i in wanted], use, settings.rules_off)
            groups = [[wanted[i] for i in group] for group in together]
        parts = [self._answer(stream, state, [due[i] for i in group], settings) for group in groups]
        by_name = {item.query.name: item for part in parts for item in part}
        return {i: by_name[due[i].query.name] for i in wanted if due[i].query.name in by_name}

    def _answer(
        self, stream: StreamState, state: SynopsisState, due: Sequence[DueWindows], settings: Settings
    ) -> list[QueryAnswers]:
        due = [item for item in due if item.query.error is None]
        parts: dict[str, list[Finished]] = {item.query.name: [] for item in due}
        done: dict[str, int] = dict.fromkeys(parts, 0)
        by_name = {item.query.name: item for item in due}
        early = group_bounds(stream, state) if stream.promises else None
        asked = [(due_lookup(item.query, item.extents), item.query.plan) for item in due if not item.by_selection]
        narrowed = state.having.narrowed(state.plan, state.synopsis, asked, settings, stream.definition.revises)
        for looked in _looked(state, due, narrowed):
            item = by_name[looked.query]
            if item.query.error is not None:
                continue
            first = done[looked.query]
            done[looked.query] += looked.windows
            shown = item.shown(slice(first, first + looked.windows))
            if early is not None:
                looked = left_to_answer(early, item.query, looked, item.extents.ticks[first:])
            plan = narrowed.plans.get(looked.query, item.query.plan)
            finished = self._guarded.finish(stream, item.query, looked, shown, state, plan)
            if finished is not None:
                parts[looked.query].append(finished)
                state.having.passed(plan, looked.windows * state.synopsis.group_count, finished.table.num_rows)
        return [
            _delivered(stream, item.query, item.shown()[1], parts[item.query.name])
            for item in due
            if item.query.error is None
        ]


def _frontier_text(stream: StreamState, axis: str, frontier: int) -> str:
    types = {p.column: p.type for p in stream.definition.punctuated}
    return point_text(frontier, types[axis]) if axis in types else str(frontier)


def _looked(state: SynopsisState, due: Sequence[DueWindows], narrowed: NarrowedLookups) -> Iterator[LookupAnswer]:
    """The looked-up windows of the due queries, each by the cheaper way."""
    yield from narrowed.looked
    yield from state.ask(narrowed.lookups)
    chosen = [(item.query.plan.input, due_lookup(item.query, item.extents)) for item in due if item.by_selection]
    if chosen and state.synopsis.readable is not None:
        yield from selected(state.synopsis.readable, chosen)


def _delivered(stream: StreamState, query: QueryState, ends: Points, parts: Sequence[Finished]) -> QueryAnswers:
    """The concatenated parts of an answer, with window indices counted through."""
    table, window = parts[0].table, parts[0].window
    if len(parts) > 1:
        before = np.cumsum([0, *(part.windows for part in parts)])
        window = np.concatenate([part.window + first for part, first in zip(parts, before, strict=False)])
        table = pa.concat_tables([part.table for part in parts])
    if stream.definition.revises:
        table = first_answers(table)
    return QueryAnswers(query, ends, window, table, sum(part.overflows for part in parts))
