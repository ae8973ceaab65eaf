"""Tables that a stream feeds, in plans, against their definition: random changelogs, batches of ticks, and bases."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.replay import Change, replay
from unit.operators.test_relations import KERNEL, LAST, QUERIES, TUPLES, Names, plan_of, table, told, tuples

from windrow.engine.tables.stored import LoggedChange, StoredTable, TableFeed, TableVersion
from windrow.engine.tables.uses import table_uses
from windrow.operators.advance import advance
from windrow.operators.changes import stored
from windrow.operators.layouts.parts import StatePart
from windrow.operators.relations.changelog import DELETES, FROM, read_changelog
from windrow.operators.scan import needs_history, split
from windrow.operators.state import PlanState, restore
from windrow.operators.ticks import DueTicks
from windrow.optimizer.execution import DIRECT, executed
from windrow.plan.algebra.nodes import ContinuousPlan

STEP = 3
STRICT = ("names", "EXISTS", "NOT IN", "AS e", "WSTREAM")
Entry = tuple[int, int | None, str, int, bool]
"""A row of the changelog: its point, k, name, n, and whether it says that the key is gone."""

FED = {
    "names": table("names (k INT PRIMARY KEY, name STRING, n INT) FROM STREAM log"),
    "later": table("later (k INT PRIMARY KEY, name STRING, n INT) NON RETROACTIVE FROM STREAM log"),
}


@dataclass(frozen=True)
class FedHistory:
    """The tuples of both streams, and the changelog in the order of arrival."""

    tuples: dict[str, list[tuple[int, int | None, int]]]
    log: list[Entry]

    def taken(self, retroactive: bool) -> list[Entry]:
        """What the table takes."""
        found, there, gone = list[Entry](), set[int](), set[int]()
        for one in sorted(self.log, key=lambda entry: entry[0]):
            k, deletes = one[1], one[4]
            if k is None or (not retroactive and not deletes and k in gone):
                continue
            if deletes and k in there:
                gone.add(k)
            (there.discard if deletes else there.add)(k)
            found.append(one)
        return found

    def _below(self, point: int, retroactive: bool) -> Names:
        known: Names = {}
        for t, k, name, n, deletes in self.taken(retroactive):
            if t < point and k is not None:
                known.pop(k, None)
                known |= {} if deletes else {k: (name, n)}
        return known

    def version(self, tick: int) -> Names:
        return self._below(tick, True)

    def seen(self, ts: int) -> Names:
        """The version as of a tuple's own point, not of its tick."""
        return self._below(ts + 1, False)

    def alive(self, name: str, tick: int, length: int) -> list[tuple[int, int | None, int]]:
        return [one for one in self.tuples[name] if tick - length <= one[0] < tick]


def entries(log: list[Entry], definition: Any) -> pa.Table:
    columns = list(zip(*log, strict=True)) or [()] * 5
    kinds = [pa.int64(), *definition.schema.types, pa.bool_()]
    names = [FROM, *definition.schema.names, DELETES]
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)], names)


class Fed:
    """A table that reads a changelog bit by bit."""

    def __init__(self, name: str, log: list[Entry]):
        definition = FED[name]
        feed = TableFeed("log", "t", (), None)
        self.table = StoredTable(1, definition, TableVersion.first(definition), feed=feed)
        self._log, self._applied = sorted(log, key=lambda one: one[0]), -1

    def apply(self, upto: int) -> None:
        definition, version = self.table.definition, self.table.version
        some = [one for one in self._log if self._applied <= one[0] < upto]
        gone = None if definition.is_retroactive else version.gone
        found = read_changelog(entries(some, definition), version.rows, gone)
        self._applied = max(self._applied, upto)
        if found.change.num_rows:
            self.table.version = version.after(found.change, definition)
            self.table.changes += (LoggedChange(self.table.version.seq, "", found.change),)

    def fold(self, ticked: int) -> None:
        """Forget the changes that all plans have seen."""
        self.table.changes = tuple(one for one in self.table.changes if one.end > ticked)


def run(plan: ContinuousPlan, history: FedHistory, ends: list[int], ahead: list[int], restarts: bool) -> list[Change]:
    """All changes. The table is ahead of the plan by up to so many points, and forgets what the plan has seen."""
    state, changes, before, parts = PlanState(), list[Change](), 0, list[StatePart]()
    tables = {name: Fed(name, history.log) for name in plan.tables}
    uses = table_uses(plan, {name: one.table for name, one in tables.items()})
    effects: dict[int, int] = {}
    for last, further in zip([*ends, LAST + STEP - LAST % STEP], [*ahead, 0], strict=False):
        if last <= before:
            continue
        due = DueTicks(before, last, STEP)
        for one in tables.values():
            one.apply(last + further)
        inputs = {i: split(w, tuples(history.tuples[w.stream], w), due) for i, w in enumerate(plan.windows)}
        inputs = {i: one if needs_history(plan)[i] else type(one)(one.new) for i, one in inputs.items()}
        relations = {use.path: use.rows(effects, due) for use in uses}
        done = advance(plan, state, inputs, due, KERNEL, relations=relations)
        effects = {use.table.id: use.effect(due) for use in uses}
        changes += told(stored(done.changes))
        parts += done.parts
        state = restore(plan, parts, last) if restarts else done.state
        for one in tables.values():
            one.fold(last)
        before = last
    return changes


LOGS = st.lists(
    st.tuples(
        st.integers(0, LAST - 1),
        st.one_of(st.none(), st.integers(0, 3), st.integers(0, 3)),
        st.sampled_from("ab"),
        st.integers(0, 4),
        st.booleans(),
    ),
    max_size=16,
)


LISTED = [text for text in QUERIES if "JOIN later" in text and not any(word in text for word in STRICT)]
"""The queries that execution = 'direct' runs: only a join with the table that is NON RETROACTIVE."""


@pytest.mark.parametrize("text", QUERIES)
@settings(max_examples=15, deadline=None)
@given(
    tuples_=st.fixed_dictionaries({"s": TUPLES, "d": TUPLES}),
    log=LOGS,
    ends=st.lists(st.integers(1, LAST // STEP), max_size=5),
    ahead=st.lists(st.integers(0, 7), min_size=5, max_size=5),
    restarts=st.booleans(),
    direct=st.booleans(),
)
def test_fed_tables_by_definition(
    text: str, tuples_: Any, log: Any, ends: list[int], ahead: list[int], restarts: bool, direct: bool
) -> None:
    sorted_ = {name: sorted(found, key=lambda one: one[0]) for name, found in tuples_.items()}
    history = FedHistory(sorted_, log)
    plan = plan_of(text, tables=FED, step=STEP)
    assert plan.step == STEP
    plan = executed(plan, DIRECT) if direct and text in LISTED else plan
    made = run(plan, history, sorted(end * STEP for end in ends), ahead, restarts)
    ticks = range(STEP, LAST + 1, STEP)
    shown = replay(made, ticks, lambda point: point // STEP * STEP + STEP)
    for tick in ticks:
        assert Counter(shown[tick]) == Counter(QUERIES[text](history, tick)), tick


def test_refused_rows() -> None:
    definition = FED["later"]
    log: list[Entry] = [
        (1, 7, "a", 1, False),
        (2, 7, "", 0, True),
        (2, 8, "", 0, True),  # nothing to delete, so nothing is remembered
        (3, 8, "b", 2, False),
        (3, 7, "c", 3, False),
        (4, None, "d", 4, False),
    ]
    version = TableVersion.first(definition)
    found = read_changelog(entries(log, definition), version.rows, version.gone)
    assert found.reused.column("name").to_pylist() == ["c"] and found.without_key.column("name").to_pylist() == ["d"]
    after = version.after(found.change, definition)
    assert after.rows.rows(definition.schema).column("k").to_pylist() == [8]
    assert after.gone.rows(definition.schema).column("k").to_pylist() == [7], "it came and went in one change"
    again = read_changelog(entries([(5, 7, "e", 5, False)], definition), after.rows, after.gone)
    assert again.change.num_rows == 0 and again.reused.num_rows == 1
    taken = read_changelog(entries(log, definition), version.rows, None)
    assert taken.reused.num_rows == 0 and np.unique(taken.change.column("k")).size == 2
