"""Feeds derived streams: what their plans commit becomes their tuples, and what these have ticked their frontiers.

A commit of a plan is one micro-batch of its stream, under the commit's number, so a repetition after a crash changes
nothing. A plan keeps the changes of its last commit until the next one, which comes after the deposit.
"""

from __future__ import annotations

import logging
from itertools import groupby

from windrow.engine.plans.commits import CHANGES
from windrow.engine.plans.derived import tuples_of
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.run.inputs import Inputs
from windrow.engine.run.opening import OpenState
from windrow.engine.run.stream_ticks import StreamTicks
from windrow.engine.run.stream_time import StreamTime
from windrow.engine.state import StreamState
from windrow.operators.changes import in_order

log = logging.getLogger("windrow")


class DerivedStreams:
    """Deposits into derived streams, in the thread of the plans' ticks."""

    def __init__(self, opened: OpenState, ticks: StreamTicks, inputs: Inputs, time: StreamTime):
        self._opened = opened
        self._ticks = ticks
        self._inputs = inputs
        self._time = time

    def recover(self) -> None:
        """At opening, deposit what was committed and not deposited before a crash. Nothing ticks yet: sinks may have to
        be given first. What fails is tried again with the next tick of the plan."""
        for query in self._opened.plans.all():
            stream = self._opened.plans.into(query)
            if stream is not None:
                try:
                    self._bring(query, stream, ended=False)
                except Exception as error:
                    log.error("stream '%s' waits for committed tuples: %s", stream.name, error)

    def follow(self, query: ContinuousQuery, ended: bool) -> None:
        """Deposit what the plan has committed, move the frontier to its tick, and have the readers tick. `ended`: the
        streams of the plan have ended, and nothing is due."""
        stream = self._opened.plans.into(query)
        if stream is None:
            return
        if self._bring(query, stream, ended):
            error = self._ticks.retry(stream)
            if error is not None:
                log.error("stream '%s' tries to tick again after: %s", stream.name, error)

    def _bring(self, query: ContinuousQuery, stream: StreamState, ended: bool) -> bool:
        """Bring a stream up to its plan; return whether that changed it."""
        commits, moved = self._opened.plan_commits, False
        with self._opened.jvm.watched():
            for seq, parts in groupby(commits.parts(query.id, CHANGES), key=lambda part: part.seq):
                if seq > stream.last_batch:
                    changes = in_order([commits.read(part) for part in parts])
                    self._inputs.derive(stream, tuples_of(stream.definition, query.plan, changes), seq)
                    moved = True
            return self._time.follow(stream, query.progress.ticked, ended) or moved
