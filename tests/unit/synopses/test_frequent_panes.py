"""FREQUENT_ITEMS over pruned panes: what the definition gives, and never a false positive."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.plan.accumulators import Key
from windrow.plan.aggregates import decompose
from windrow.plan.nodes import Attribute, Scan, Selection, WindowAggregate
from windrow.reference.frequent_items import FrequentItemsSynopsis
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.holistic.frequent_panes import FrequentSynopsis
from windrow.synopses.holistic.roll_up import rows_of
from windrow.synopses.lookups import Lookup
from windrow.types import SqlType
from windrow.windows import SlidingWindow

BIGINT, STRING = SqlType("BIGINT"), SqlType("STRING")
PANES = 6

tuples = st.lists(
    st.tuples(st.integers(0, PANES - 1), st.sampled_from(["a", "b", None]), st.sampled_from([None, *"uvwxyz"])),
    max_size=60,
)


def aggregate_of(keys: tuple[Key, ...], k: int) -> WindowAggregate:
    calls = (decompose("FREQUENT_ITEMS", "x", STRING, None, (k,)), decompose("COUNT", None, None, None))
    return WindowAggregate(Selection(Scan("s", Attribute("t", BIGINT)), None), SlidingWindow(3, 1), keys, calls)


def deposit(synopsis: FrequentSynopsis, aggregate: WindowAggregate, rows: list[Any]) -> None:
    if not rows:
        return
    columns = [pa.array([row[1 if key.sql == "k" else 2] for row in rows], pa.string()) for key in aggregate.cell_keys]
    groups = synopsis.groups.ids(columns)
    ones, zeros = np.ones(len(rows), np.int64), np.zeros(len(rows), np.int64)
    states = {a: (zeros if a.arg else ones,) for a in aggregate.accumulators}
    synopsis.deposit(Cells(np.array([row[0] for row in rows], np.int64), groups, states))


def defined(rows: list[Any], k: int) -> tuple[int, dict[str, tuple[int, int]]]:
    """By the definition: (δ, the items counted more often, each with what it is counted and may occur at most)."""
    lists = []
    for pane in range(PANES):
        counts = Counter(row[2] for row in rows if row[0] == pane and row[2] is not None)
        best = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:k]
        lists.append((dict(best), best[-1][1] if len(best) == k else 0))
    delta = sum(least for _, least in lists)
    found = {}
    for item in sorted({item for listed, _ in lists for item in listed}):
        counted = sum(listed.get(item, 0) for listed, _ in lists)
        if counted > delta:
            found[item] = (counted, counted + sum(least for listed, least in lists if item not in listed))
    return delta, found


@settings(deadline=None)
@given(tuples, st.integers(1, 3), st.booleans(), st.integers(0, PANES), st.integers(1, 4), st.integers(0, PANES - 1))
def test_lists_are_those_of_the_definition_and_no_item_is_reported_wrongly(
    rows: list[Any], k: int, grouped: bool, closed_first: int, parts: int, low: int
) -> None:
    aggregate = aggregate_of((Key("k", STRING),) if grouped else (), k)
    synopsis = FrequentSynopsis([pa.string()] * len(aggregate.cell_keys), aggregate)
    early = [row for row in rows if row[0] < closed_first]
    for part in range(parts):
        deposit(synopsis, aggregate, early[part::parts])
    synopsis.close(closed_first)
    deposit(synopsis, aggregate, [row for row in rows if row[0] >= closed_first])
    synopsis.close(PANES)
    lookup = Lookup("q", np.array([low]), np.array([PANES]), aggregate.presence, aggregate.accumulators, False)
    (looked,) = synopsis.answer([lookup])
    rolled = rows_of(aggregate, looked, synopsis.groups)
    mine = [row for row in rows if row[0] >= low]
    slots = sorted({row[1] for row in mine}, key=str) if grouped else [None]
    assert rolled.window.size == len(slots)
    for i in range(rolled.window.size):
        key = synopsis.groups.key_columns(rolled.cells[i : i + 1], 1)[0][0].as_py() if grouped else None
        some = [row for row in mine if not grouped or row[1] == key]
        answer = rolled.result(aggregate.aggregates[0])[i].as_py()
        delta, items = defined(some, k)
        assert answer["threshold"] == delta
        assert {e["item"]: (e["count"], e["at_most"]) for e in answer["items"]} == items
        assert answer["items"] == sorted(answer["items"], key=lambda e: (-e["count"], e["item"]))
        true = Counter(row[2] for row in some)
        for entry in answer["items"]:
            assert delta < entry["count"] <= true[entry["item"]] <= entry["at_most"]
        assert rolled.result(aggregate.aggregates[1])[i].as_py() == len(some)


@settings(deadline=None)
@given(tuples, st.integers(1, 3), st.lists(st.tuples(st.integers(0, PANES), st.integers(0, PANES)), max_size=4))
def test_pruned_panes_give_what_algorithm_6_gives(rows: list[Any], k: int, windows: list[tuple[int, int]]) -> None:
    """Golab's dissertation, Algorithm 6, for each group by itself; an item's id is its place in the order of items."""
    aggregate = aggregate_of((Key("k", STRING),), k)
    synopsis = FrequentSynopsis([pa.string()] * 2, aggregate)
    deposit(synopsis, aggregate, rows)
    synopsis.close(PANES)
    references = {}
    for key in {row[1] for row in rows}:
        references[key] = FrequentItemsSynopsis(k, PANES)
        for pane in range(PANES):
            items = [ord(x) for p, group, x in rows if (p, group) == (pane, key) and x is not None]
            references[key].update([np.array(items, np.int64)])
    for low, high in [(0, PANES), *((min(w), max(w)) for w in windows)]:
        lookup = Lookup("q", np.array([low]), np.array([high]), aggregate.presence, aggregate.accumulators, False)
        (looked,) = synopsis.answer([lookup])
        rolled = rows_of(aggregate, looked, synopsis.groups)
        keys = synopsis.groups.key_columns(rolled.cells, 1)[0].to_pylist()
        assert set(keys) == {key for pane, key, _ in rows if low <= pane < high}
        for key, answer in zip(keys, rolled.result(aggregate.aggregates[0]).to_pylist(), strict=True):
            right = references[key].lookup_one(low, high)
            assert answer["threshold"] == right.delta
            listed = zip(right.items.tolist(), right.counts.tolist(), right.most.tolist(), strict=True)
            assert [(ord(e["item"]), e["count"], e["at_most"]) for e in answer["items"]] == list(listed)


def test_a_closed_pane_keeps_the_list_and_one_cell_for_the_rest() -> None:
    aggregate = aggregate_of((), 2)
    synopsis = FrequentSynopsis([pa.string()], aggregate)
    deposit(synopsis, aggregate, [(0, None, x) for x in "uuuvvwxyz"])
    synopsis.close(1)
    (chunk,) = synopsis._chunks
    cells = chunk.cells()
    rows = {a.arg: cells.states[a][0].sum() for a in aggregate.accumulators}
    assert len(cells) == 3 and rows[None] == 9
    assert all(len(fold_of(a).dtypes) == 1 for a in aggregate.accumulators)
