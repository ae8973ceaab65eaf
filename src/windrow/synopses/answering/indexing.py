"""Builds and drops the index over the panes of a basic interval synopsis: by cost, or by a setting.

`ProbingRates` counts lookups, smoothed. The planner chooses again at every probing and every closing of panes. An index
is built once walking has cost as much extra time as building it takes, so that a single lookup does not build one. It
is dropped when it no longer pays. Answers do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.plan.accumulators import Accumulator
from windrow.synopses.answering import costs
from windrow.synopses.answering.index_costs import IndexWork, candidates
from windrow.synopses.answering.planner import (
    BY_COST,
    Decision,
    IndexDecision,
    gains_from_index,
    plan_index,
    quickest_index,
    repays_building,
)
from windrow.synopses.answering.way_costs import Spans, WindowWork
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Chunk, panes_per_chunk
from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.asked_widths import AskedWidths
from windrow.synopses.index.pane_index import PaneIndex, can_be_indexed, state_columns

FirstEqual = Callable[[Sequence[Accumulator]], Mapping[Accumulator, Accumulator]]
"""Maps each accumulator to the first one that has equal states."""


@dataclass(frozen=True)
class IndexSetting:
    """The kind of synopsis to keep (None: by cost), and the bytes that all `indexers` may use together."""

    kind: SynopsisKind | None = None
    most_bytes: int = 512 << 20
    indexers: tuple[Indexer, ...] = ()

    @classmethod
    def of(cls, text: str, most_bytes: int, indexers: tuple[Indexer, ...] = ()) -> IndexSetting:
        """From the settings `synopsis` and `index_bytes`."""
        return cls(None if text == "auto" else SynopsisKind(text), most_bytes, indexers)


@dataclass
class ProbingRates:
    """Lookups in a synopsis, as sums that fade with every closing of panes.

    `walks` counts the probings that no index can speed up (`gains_from_index`). They are kept apart so that an
    occasional batch does not hide the cost of single lookups.
    """

    closed: float = 0.0
    walks: float = 0.0
    probings: float = 0.0
    windows: float = 0.0
    walked: float = 0.0
    saved: float = field(default=0.0)
    """Nanoseconds that an index would have saved since one was last built or dropped."""

    def walk(self) -> None:
        self.walks += 1

    def probe(self, windows: int, walked: int) -> None:
        self.probings += 1
        self.windows += windows
        self.walked += walked

    def close(self, panes: int) -> None:
        for name in ("closed", "walks", "probings", "windows", "walked"):
            setattr(self, name, costs.REMEMBERED * getattr(self, name))
        self.closed += panes

    def load(
        self, panes: int, groups: int, columns: tuple[int, int], at_once: int, intervals: tuple[int, int]
    ) -> IndexWork:
        """The expected load on a synopsis of this size.

        `columns`: subtractable and merged values per cell. `intervals`: landmark intervals written per pane, and kept.
        """
        probings = max(self.probings, 1e-9)
        per_pane = self.probings / max(self.closed, 1.0)
        together, width = max(self.windows / probings, 1.0), max(self.walked / probings, 1.0)
        return IndexWork(panes, groups, *columns, together, width, per_pane, at_once, *intervals)


class Indexer:
    """The index of one synopsis, if it keeps one, and the rates that decide about it."""

    def __init__(self) -> None:
        self.setting = IndexSetting()
        self.rates = ProbingRates()
        self.index: PaneIndex | None = None
        self._columns = (0, 0)
        self._widths = AskedWidths()

    @property
    def kind(self) -> SynopsisKind:
        """The present kind."""
        return SynopsisKind.BASIC_INTERVAL if self.index is None else self.index.kind

    @property
    def is_bare(self) -> bool:
        """Whether no lookup has read a value that an index can hold; there are no costs to compare then."""
        return self._columns == (0, 0)

    @property
    def nbytes(self) -> int:
        return 0 if self.index is None else self.index.nbytes

    def stale(self) -> None:
        """Drop the index: cells changed other than by panes that closed or expired."""
        self.index = None

    def closed(self, chunks: Sequence[Chunk], panes: int, groups: int) -> None:
        """Append closed panes to the index, or drop it if it does not pay; `panes`: closed panes in all."""
        self.rates.close(sum(chunk.panes.size for chunk in chunks))
        self._widths.close()
        if self.index is None:
            return
        by_cost = self.setting.kind is None
        if by_cost and self._planned(panes, groups) is SynopsisKind.BASIC_INTERVAL:
            self._drop()
        elif not self.index.append(chunks, groups):
            self.stale()

    def expired(self, panes: int) -> None:
        if self.index is not None:
            self.index.forget(panes)

    def _drop(self) -> None:
        self.index, self.rates.saved = None, 0.0

    def _load(self, panes: int, groups: int) -> IndexWork:
        return self.rates.load(panes, groups, self._columns, panes_per_chunk(groups), self._intervals())

    def _intervals(self) -> tuple[int, int]:
        """Landmark intervals for the widths in use: those that a pane extends, and all."""
        partitions = self._widths.partitions
        return sum(1 + one.rights for one in partitions), sum((1 + one.rights) * one.places for one in partitions)

    @property
    def _room(self) -> int:
        """The bytes that the other indexers leave."""
        return max(0, self.setting.most_bytes - sum(one.nbytes for one in self.setting.indexers if one is not self))

    def decision(self, panes: int, groups: int, forced: SynopsisKind | None) -> IndexDecision:
        """For EXPLAIN: the present kind, the expected load, the cost of each kind; `forced`: the kind that is set."""
        why = BY_COST if forced is None else f"SET synopsis = '{forced.value}'"
        if not self.rates.probings and not self.rates.walks:
            return Decision(self.kind, why)
        load = self._load(panes, max(groups - 1, 1))
        return Decision(self.kind, why, load, tuple((one.kind, one.total) for one in candidates(load)))

    def consider(
        self, work: WindowWork, spans: Spans, needed: Sequence[Accumulator], chunks: Sequence[Chunk], same: FirstEqual
    ) -> float | None:
        """Build or drop the index before a probing. Returns the cost by the index, None where none serves."""
        if not all(can_be_indexed(fold_of(a)) for a in needed):
            self.rates.walk()
            return None
        self._columns = state_columns(needed)
        lows = np.concatenate([np.minimum(low, high) for low, high in spans])
        highs = np.concatenate([high for _, high in spans])
        if self._columns[1] and lows.size:
            self._widths.ask(lows, highs, work.panes)
        alone = self._alone(work)
        if gains_from_index(alone):
            self.rates.probe(work.windows, work.walked)
        else:
            self.rates.walk()
        kind = self._planned(work.panes, work.groups)
        if kind is SynopsisKind.BASIC_INTERVAL:
            if self.index is not None:
                self._drop()
            return None
        if self.index is not None and (self.index.kind is not kind or not self.index.has_room_for(work.groups)):
            self.index = None
        if self.index is not None and self.index.nbytes > self._room:
            self._drop()
        if not self._has(needed, lows, highs) and self._pays(work, alone):
            self._build(work, needed, chunks, same, kind)
        if self.index is None or not self._has(needed, lows, highs):
            return None
        forced = self.setting.kind is not None
        return 0.0 if forced else work.by_index(self.index.parts_of(needed))

    def _has(self, needed: Sequence[Accumulator], lows: Ids, highs: Ids) -> bool:
        return self.index is not None and self.index.holds(needed) and self.index.serves(lows, highs)

    def _planned(self, panes: int, groups: int) -> SynopsisKind:
        return plan_index(self._load(panes, groups), self.kind, self._room, self.setting.kind).chosen

    def _alone(self, work: WindowWork) -> IndexWork:
        """The load of this probing alone."""
        at_once = panes_per_chunk(work.groups)
        probing = work.windows, work.walked, 1.0
        return IndexWork(work.panes, work.groups, *self._columns, *probing, at_once, *self._intervals())

    def _pays(self, work: WindowWork, alone: IndexWork) -> bool:
        """Whether walking has cost as much extra time as building an index takes."""
        if self.setting.kind is not None:
            return True
        best = quickest_index(alone)
        self.rates.saved += max(0.0, min(work.scans().values()) - best.lookup)
        return repays_building(self.rates.saved, work.panes, best)

    def _build(
        self,
        work: WindowWork,
        needed: Sequence[Accumulator],
        chunks: Sequence[Chunk],
        same: FirstEqual,
        kind: SynopsisKind,
    ) -> None:
        partitions = self._widths.partitions
        index = self.index
        if index is None or kind is SynopsisKind.LANDMARK and index.partitions != partitions:
            index = PaneIndex(work.panes, work.groups, kind, partitions)
        if index.bytes_with(dict.fromkeys(same(needed).values())) > self._room:
            return
        index.add(same(needed), chunks)
        self.index, self.rates.saved = index, 0.0
