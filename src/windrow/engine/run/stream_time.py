"""Moves the frontiers of a stream by punctuations, heartbeats, and the end of the input."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windrow.cql.patterns import BadPatternError, Pattern
from windrow.engine.intake.punctuations import announcement_in, text_of
from windrow.engine.run.inputs import Inputs, refuse_derived
from windrow.engine.run.opening import OpenState
from windrow.engine.run.stream_ticks import StreamTicks
from windrow.engine.state import StreamState
from windrow.engine.store.deposit_commits import PunctuationCommit
from windrow.errors import BindError, UnsupportedError
from windrow.plan.nodes import ROW_NUM
from windrow.windows import Silence, beat
from windrow.windows import heartbeat as moved_on
from windrow.windows.promises import FARTHEST, Announcement, announced_by


class StreamTime:
    """Commits changes of frontiers between micro-batches, and runs the ticks."""

    def __init__(self, opened: OpenState, ticks: StreamTicks, inputs: Inputs):
        self._opened = opened
        self._ticks = ticks
        self._inputs = inputs

    # -- punctuations --------------------------------------------------------------------------

    def punctuate(self, name: str, promises: Mapping[str, int]) -> None:
        """Promise that no more tuples come below these points, by axis."""
        for axis, upto in promises.items():
            if abs(upto) > FARTHEST:
                raise BindError(
                    f"the punctuation {upto} on '{axis}' is beyond 10^18",
                    remedy="Give the point that the stream has really reached.",
                )
        self._punctuate(name, Announcement(promises))

    def punctuate_pattern(self, name: str, pattern: Pattern) -> None:
        """Promise that no more tuples come that match a pattern."""
        definition = self._opened.manager.stream(name).definition
        if definition.revises:
            raise UnsupportedError(
                f"stream '{name}' has LATE REVISE, so it can be punctuated on the window attribute only",
                remedy="Punctuate the whole stream, or create the stream with LATE DROP.",
            )
        try:
            announced = announced_by(pattern, definition.axes)
        except BadPatternError as error:
            raise BindError(str(error), remedy="Give the point that the stream has really reached.") from None
        self._punctuate(name, announced)

    def _punctuate(self, name: str, announced: Announcement) -> None:
        """Apply punctuations, or queue them behind the fed rows that are not read yet."""
        self._ticks.refuse_inside("punctuate")
        stream = self._opened.manager.stream(name)
        refuse_derived(stream, "a punctuation")
        spool, now_ms = self._inputs.fed(stream), self._opened.clock.now_us() // 1000
        if spool is None or not spool.punctuate(text_of(announced), now_ms, stream.last_batch):
            self._commit(name, PunctuationCommit(announced))

    def apply_fed(self, stream: StreamState) -> bool:
        """Apply the queued punctuations whose preceding rows have all been read; return whether there were any. After a
        crash one may be applied again, which changes nothing."""
        spool, applied = self._inputs.fed(stream), False
        while spool is not None and (text := spool.next_punctuation(stream.last_batch)) is not None:
            self._commit(
                stream.name, PunctuationCommit(announcement_in(text, stream.definition)), spool.pass_punctuation
            )
            applied = True
        return applied

    def _commit(self, name: str, commit: PunctuationCommit, applied: Callable[[], None] = lambda: None) -> None:
        """Commit and run the ticks; `applied` is called after the commit."""
        self._ticks.refuse_inside("punctuate")
        stream = self._opened.manager.stream(name)
        with self._opened.jvm.watched():
            if stream.promises:
                self._ticks.catch_up_stream(stream)
            with stream.batch_lock, stream.lock:
                self._opened.homes.settle(stream, self._opened.settings, bool(commit.announced.promises))
                stream.install(self._opened.journal.deposits.punctuate(stream, commit))
            applied()
            self._ticks.catch_up(stream)

    # -- silence -------------------------------------------------------------------------------

    def beat(self, stream: StreamState, is_silent: bool) -> None:
        """Advance the frontier of a silent stream with the clock, between micro-batches (HEARTBEAT AFTER).

        Silence counts up to the last look at the source, which is at most a trigger interval ago: data may have arrived
        since then.
        """
        since_look_s = self._opened.settings.integer("trigger_interval") / 1e6
        with stream.batch_lock:
            now_s, moved, silences = self._opened.clock.monotonic_s(), {}, {}
            for p in stream.definition.heartbeats:
                assert p.heartbeat is not None
                if not is_silent:
                    stream.silent_since[p.column] = now_s
                    continue
                known = Silence(stream.progress.silent.get(p.column, 0), stream.silent_since.get(p.column, 0.0))
                silence = known.in_steps(max(now_s - since_look_s, known.since_s), p.heartbeat)
                upto = beat(stream.frontiers[p.column], p.slack, silence)
                if upto is not None and upto <= FARTHEST:
                    moved[p.column], silences[p.column] = upto, silence
            if moved:
                stream.metrics.heartbeats += 1
                counted = {axis: silence.counted for axis, silence in silences.items()}
                since = {axis: silence.since_s for axis, silence in silences.items()}
                commit = PunctuationCommit(Announcement(moved), silent=counted)
                self._commit(stream.name, commit, lambda: stream.silent_since.update(since))

    def heartbeat(self, stream: StreamState) -> None:
        """Advance the frontier of a silent stream between micro-batches (setting `heartbeat`)."""
        silence, now = self._opened.settings["heartbeat"], self._opened.clock.now_us()
        if silence == "off":
            return
        promises = {}
        with stream.batch_lock:
            for p in stream.definition.punctuated:
                value = stream.frontiers[p.column].value
                upto = moved_on(now, stream.heard_us, int(silence), value) if p.type.is_timestamp else None
                if upto is not None:
                    promises[p.column] = upto
            if promises:
                self._commit(stream.name, PunctuationCommit(Announcement(promises)))

    # -- the end of the input ------------------------------------------------------------------

    def end_input(self, name: str) -> None:
        """Advance the frontiers so that every window that holds a tuple is answered."""
        stream = self._opened.manager.stream(name)
        refuse_derived(stream, "the end of the input")
        commit = _ending(stream)
        if commit is not None:
            self._commit(name, commit)

    def follow(self, stream: StreamState, ticked: int | None, ended: bool) -> bool:
        """Move the frontier of a derived stream to the point that its plan has ticked, or end it. Return whether that
        changed it. The caller submits its ticks."""
        axis, commits = stream.definition.attribute, list[PunctuationCommit]()
        assert axis is not None
        with stream.batch_lock, stream.lock:
            value = stream.frontiers[axis].value
            if ticked is not None and (value is None or value < ticked):
                commits.append(PunctuationCommit(Announcement({axis: ticked})))
            if ended and not stream.progress.has_ended:
                ending = _ending(stream)
                commits += [] if ending is None else [ending]
            for commit in commits:
                self._opened.homes.settle(stream, self._opened.settings, False)
                stream.install(self._opened.journal.deposits.punctuate(stream, commit))
        return bool(commits)


def _ending(stream: StreamState) -> PunctuationCommit | None:
    """The end of the input: it moves the frontiers so that every window that holds a tuple is answered. None if the
    stream has ended and nothing is left to promise."""
    promises, points = {}, {}
    for axis in stream.frontiers:
        if (greatest := stream.greatest(axis)) is not None:
            points[axis] = greatest
            windows = [q.plan.window for q in stream.active if q.axis == axis]
            ends = [w.closing(greatest) for w in windows]
            beyond = 2 if axis == ROW_NUM else 1
            promises[axis] = max([greatest + beyond, *ends])
    if not any(q.axis == ROW_NUM for q in stream.active):
        promises.pop(ROW_NUM, None)
    if not promises and stream.progress.has_ended:
        return None
    return PunctuationCommit(Announcement(promises), points)
