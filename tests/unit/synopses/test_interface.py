"""Every kind of synopsis has the interface and says what it cannot do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses import (
    Ability,
    BasicIntervalSynopsis,
    BufferSynopsis,
    Cells,
    DueRequest,
    Home,
    Lookup,
    PartitionedSynopsis,
    StoredSynopsis,
    Synopsis,
)
from windrow.types import SqlType
from windrow.windows import Cuts, CutSchedule, PartitionedWindow, SlidingWindow

COUNT = Accumulator(Kind.COUNT, None, None, None)
RANK = Accumulator(Kind.GREATEST, "`rank`", SqlType("BIGINT"), None)
PLAN = SynopsisPlan(1, (), CutSchedule.of(Cuts.of({(1, 0)})), (), "t", ("", 0))
EVERY = (BasicIntervalSynopsis, BufferSynopsis, PartitionedSynopsis, StoredSynopsis)


def partitioned() -> PartitionedSynopsis:
    return PartitionedSynopsis([pa.string()], 1, PartitionedWindow(2, 1), RANK)


def tuples(synopsis: Synopsis, keys: list[str], panes: list[int]) -> Cells:
    """A tuple of each key; its pane is its rank."""
    ids, ones = synopsis.groups.ids([pa.array(keys)]), np.ones(len(keys), np.int64)
    return Cells(np.array(panes), ids, {COUNT: (ones,), RANK: (np.array(panes),)})


def due(synopsis: Synopsis, ended: bool = False) -> list[tuple[int, int, int]]:
    """(partition, start, end) of each due window."""
    found = synopsis.due(DueRequest(PartitionedWindow(2, 1), None, None, 9, ended))
    assert found.partitions is not None and (found.ticks == 9).all()
    return list(zip(found.partitions.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True))


@pytest.mark.parametrize("kind", EVERY)
def test_missing_abilities_have_reasons(kind: type[Synopsis]) -> None:
    assert issubclass(kind, Synopsis) and kind.kind
    assert all(why and not why.endswith(".") for why in kind._cannot.values())


def test_readable_agrees_with_ability() -> None:
    for synopsis in (BasicIntervalSynopsis([]), BufferSynopsis([]), partitioned()):
        assert (synopsis.readable is None) == (synopsis.cannot(Ability.READ) is not None)
        assert synopsis.home is Home.DRIVER and synopsis.buckets is None and synopsis.groups_seen is None
    assert StoredSynopsis.home is Home.SPARK and Ability.READ in StoredSynopsis._cannot


def test_abilities_of_kinds() -> None:
    assert [BasicIntervalSynopsis([]).cannot(ability) for ability in Ability] == [None] * len(Ability)
    assert BufferSynopsis([]).cannot(Ability.INDEX) == "its tuples are buffered"
    assert partitioned().cannot(Ability.MOVE) == "its windows count the rows of each partition"


def test_pane_windows_due() -> None:
    synopsis = BasicIntervalSynopsis([pa.string()])
    synopsis.deposit(tuples(synopsis, ["a", "b"], [1, 5]))
    synopsis.close(9)
    found = synopsis.due(DueRequest(SlidingWindow(2, 2), 2, None, 9, False))
    assert found.ends.tolist() == [6] and found.partitions is None


def test_partitioned_windows_due() -> None:
    synopsis = partitioned()
    synopsis.deposit(tuples(synopsis, ["a", "b", "a"], [1, 1, 2]))
    a, b = synopsis.ranks.partitions.ids([pa.array(["a", "b"])]).tolist()
    assert due(synopsis) == [(a, 0, 2), (b, 0, 2), (a, 1, 3)]
    synopsis.answered()
    assert due(synopsis) == []
    assert due(synopsis, ended=True) == [(b, 1, 3), (a, 2, 4)]


def test_partitioned_answers() -> None:
    synopsis = partitioned()
    synopsis.deposit(tuples(synopsis, ["a", "b", "a"], [1, 1, 2]))
    found = synopsis.due(DueRequest(PartitionedWindow(2, 1), None, None, 9, False))
    lookup = Lookup("q", found.starts, found.ends, COUNT, (COUNT,), False, partitions=found.partitions)
    (looked,) = synopsis.ask([lookup], PLAN)
    assert looked.windows == 3 and looked.states[COUNT][0].tolist() == [1, 1, 2]


@pytest.mark.parametrize("answered_first", [True, False])
def test_partitioned_restore(answered_first: bool) -> None:
    synopsis = partitioned()
    old, new = tuples(synopsis, ["a", "a"], [1, 2]), tuples(synopsis, ["a", "b"], [3, 1])
    for cells, answered in ((old, True), (new, False)) if answered_first else ((new, False), (old, True)):
        synopsis.restore(cells, answered)
    a, b = synopsis.ranks.partitions.ids([pa.array(["a", "b"])]).tolist()
    assert due(synopsis) == [(b, 0, 2), (a, 2, 4)]


def test_held_cells_count_after_merge() -> None:
    synopsis = BasicIntervalSynopsis([pa.string()])
    synopsis.deposit(tuples(synopsis, ["a"], [1]))
    synopsis.close(9)
    synopsis.hold_late(tuples(synopsis, ["a"], [1]))
    lookup = Lookup("q", np.array([0]), np.array([4]), COUNT, (COUNT,), False)
    there = (np.ones(1, bool), np.ones(1, bool))
    ((was, now),) = synopsis.revise([lookup], [there], PLAN)
    assert (was.states[COUNT][0].tolist(), now.states[COUNT][0].tolist()) == ([1], [2])
    panes = synopsis.late_panes
    assert synopsis.totals(COUNT, panes).tolist() == synopsis.totals(COUNT, panes, late=True).tolist() == [1]
    synopsis.hold_late(tuples(synopsis, ["b"], [3]))
    assert synopsis.late_panes.tolist() == [1, 3]
    synopsis.merge_late()
    assert not synopsis.has_late and synopsis.late_panes.size == 0
    assert synopsis.totals(COUNT, panes).tolist() == [2]
