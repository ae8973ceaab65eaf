"""Random texts of continuous queries, without Spark: the optimized plan, by any strategy, in any batches, with restarts,
and in stages as Spark tasks run it, gives at every tick what the plan as bound gives by definition. Tables change
between batches, layouts after few rows, and a plan may take the place of another."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support.bound_plans import stream, types_of
from support.continuous import KERNEL, batches_of, counted, inputs_of, replayed, rows_of, run
from support.continuous import stored as stored_tuples
from support.continuous_strategies import CHANGED_TABLES, FED_TABLES, StandingTexts, Timed, standing_texts
from support.matrix import is_full, sized
from support.staged import run_staged

from windrow.catalog.relations import TableDef, define_table
from windrow.cql import parse_expression, parse_one
from windrow.cql.statements import CreateQuery, CreateTable
from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.kernels.plan_tables import StoredRelation
from windrow.errors import UnsupportedError
from windrow.operators.advance import advance
from windrow.operators.carrying.carrying import carry, rebuild
from windrow.operators.carrying.difference import difference
from windrow.operators.changes import in_order, stored
from windrow.operators.layouts import choosing
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.relations.changelog import (
    DELETES,
    FROM,
    after_change,
    fed_changes,
    read_changelog,
    rows_as_of,
)
from windrow.operators.relations.table_scan import TableRows
from windrow.operators.state import compacted, has_internal, restore
from windrow.operators.tables.edges import COUNT
from windrow.operators.ticks import DueTicks
from windrow.operators.view import beginning
from windrow.optimizer.execution import DIRECT, NEGATIVE, UPA, executed
from windrow.optimizer.facts import NOTHING_MEASURED, Facts, StreamFacts
from windrow.optimizer.pipeline import RULES, optimize
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Node,
    OutputRows,
    OutputWindow,
    TableScan,
    ToStream,
    walk,
)
from windrow.plan.continuous import bind_continuous
from windrow.reference.window_operators import History, WindowOperators, value_of

EXAMPLES = sized(5, 100, 500)
"""Of six plans each, three of which take the place of others."""


TEXTS = {**FED_TABLES, **CHANGED_TABLES}
TABLES = {name: define_table(cast(CreateTable, parse_one(text.format(stream="r")))) for name, text in TEXTS.items()}
Rows = Mapping[str, Mapping[str, Any]]
"""The rows of a table by their keys."""


def bound(select: str, texts: StandingTexts) -> ContinuousPlan:
    streams = {one.name: one for one in map(stream, texts.streams)}
    text = f"CREATE QUERY q AS {select}"
    statement = parse_one(text)
    assert isinstance(statement, CreateQuery)
    return bind_continuous(
        statement.select,
        text,
        lambda name, place: streams[name.lower()],
        types_of,
        lambda name: TABLES.get(name.lower()),
    )


class FedTable:
    """A table that a stream feeds: what plans read of it, and its rows by definition."""

    def __init__(self, table: TableDef, rows: list[Timed]):
        self._retroactive = table.is_retroactive
        deletes = [bool(row["f"] and row["x"] is not None and row["x"] % 2 == 0) for _, row in rows]
        self._rows = [(t, row, gone) for (t, row), gone in zip(rows, deletes, strict=True)]
        log = {name: pa.array([row[name] for _, row in rows], kind) for name, kind in _columns(table.schema)}
        log |= {FROM: pa.array([t for t, _ in rows], pa.int64()), DELETES: pa.array(deletes, pa.bool_())}
        gone = None if self._retroactive else Keyed(table.key)
        self._change = read_changelog(pa.table(log), Keyed(table.key), gone).change
        self._now = after_change(Keyed(table.key), self._change)

    def read(self, due: DueTicks, since: int | None) -> TableRows:
        """What the due ticks read after changes below a point are in effect; None: none is."""
        if not self._retroactive:
            return TableRows(self._change, self._now)
        known = None if since is None else due.before
        return TableRows(fed_changes(lambda: self._now, self._change, known, due), self._now)

    def written(self, writer: BlockWriter) -> tuple[tuple[int, str], ...]:
        """Its changes as blocks: all of them at once."""
        return ((1, writer.write("tables/1", self._change).path),)

    def effects(self, due: DueTicks, is_first: bool) -> tuple[int, int | None]:
        """The last change that is known, and what is in effect before the due ticks."""
        return 1, None if is_first else due.before

    @property
    def schema(self) -> pa.Schema | None:
        return self._change.schema

    def whole(self, ticked: int) -> TableRows:
        """All rows after a tick, as changes."""
        if not self._retroactive:
            return TableRows(self._change, self._now)
        now = self._now.rows(self._change.drop_columns([COUNT, FROM]).schema)
        return TableRows(rows_as_of(now, self._change, ticked).drop_columns([FROM]), self._now)

    def at(self, point: int) -> list[Mapping[str, Any]]:
        known, gone = dict[str, Mapping[str, Any]](), set[str]()
        for t, row, goes in self._rows:
            key = row["k"]
            if t >= point or key is None or key in gone:
                continue
            if goes:
                gone |= {key} if key in known and not self._retroactive else set()
                known.pop(key, None)
            else:
                known[key] = row
        return list(known.values())


class ChangedTable:
    """A table that statements change before some batches: each takes effect after the tick at which a batch begins."""

    def __init__(self, table: TableDef, begins: Sequence[int], rng: Random):
        self._table, self._versions = table, dict[int, Rows]()
        known, gone = dict[str, Mapping[str, Any]](), set[str]()
        for before in begins:
            if rng.random() < 0.5:
                left = {key: row for key, row in known.items() if rng.random() < 0.6}
                gone |= set() if table.is_retroactive else known.keys() - left.keys()
                keys = [key for key in ("a", "b", "é") if rng.random() < 0.5 and key not in gone]
                known = left | {key: {"k": key, "g": rng.randint(0, 2), "x": rng.randint(-2, 4)} for key in keys}
                self._versions[before] = known

    def _before(self, tick: int) -> Rows:
        return next((rows for at, rows in sorted(self._versions.items(), reverse=True) if at < tick), {})

    def read(self, due: DueTicks, since: int | None) -> TableRows:
        """What the due ticks read after the statements before a point are in effect; None: none is."""
        now = self._before(due.before + 1)
        old = {} if since is None else self._before(since)
        rows = after_change(Keyed(self._table.key), self._difference({}, now))
        return TableRows(self._difference(old if self._table.is_retroactive else now, now), rows)

    def _difference(self, old: Rows, new: Rows) -> pa.Table:
        goes = [row for key, row in old.items() if new.get(key) != row]
        return self._change(goes, [row for key, row in new.items() if old.get(key) != row])

    schema: pa.Schema | None = None

    def written(self, writer: BlockWriter) -> tuple[tuple[int, str], ...]:
        """Its changes as blocks."""
        rows, found = [{}, *(self._versions[at] for at in sorted(self._versions))], []
        for number, (old, new) in enumerate(pairwise(rows), 1):
            found.append((number, writer.write("tables/1", self._difference(old, new)).path))
        return tuple(found)

    def effects(self, due: DueTicks, is_first: bool) -> tuple[int, int | None]:
        """The last change before the due ticks, and the last that is in effect before them."""
        known, seen = (sum(at < tick for at in self._versions) for tick in (due.before + 1, due.before))
        return known, None if is_first else seen

    def whole(self, ticked: int) -> TableRows:
        """All rows as they are now, as changes."""
        return self.read(DueTicks(ticked, ticked + 1, 1), None)

    def is_changed(self, tick: int) -> bool:
        """Whether statements were executed after the tick."""
        return tick in self._versions

    def _change(self, goes: Sequence[Mapping[str, Any]], comes: Sequence[Mapping[str, Any]]) -> pa.Table:
        counts = pa.array([-1] * len(goes) + [1] * len(comes), pa.int64())
        rows, schema = [*goes, *comes], _columns(self._table.schema)
        return pa.table({COUNT: counts, **{name: pa.array([row[name] for row in rows], kind) for name, kind in schema}})

    def at(self, point: int) -> list[Mapping[str, Any]]:
        return list(self._before(point).values())


@dataclass(frozen=True)
class PlanTables:
    """What the scans of a plan read, by path."""

    tables: Mapping[str, FedTable | ChangedTable]

    @staticmethod
    def of(texts: StandingTexts, begins: Sequence[int], rng: Random) -> PlanTables:
        fed = sorted(texts.rows[texts.fed], key=lambda one: one[0]) if texts.fed else []
        made = {name: FedTable(TABLES[name], fed) for name in FED_TABLES}
        return PlanTables({**made, **{name: ChangedTable(TABLES[name], begins, rng) for name in CHANGED_TABLES}})

    def read(self, plan: ContinuousPlan, due: DueTicks, since: int | None) -> dict[str, TableRows]:
        return {path: self.tables[scan.table].read(due, since) for path, scan in scans(plan.root)}

    def whole(self, plan: ContinuousPlan, ticked: int) -> dict[str, TableRows]:
        return {path: self.tables[scan.table].whole(ticked) for path, scan in scans(plan.root)}

    def stored(self, root: Path, plan: ContinuousPlan) -> Callable[[DueTicks, bool], tuple[StoredRelation, ...]]:
        """As `read`, for tasks: by the due ticks, and whether they are the first."""
        writer, found = BlockWriter(root), scans(plan.root)
        blocks = {scan.table: self.tables[scan.table].written(writer) for _, scan in found}
        numbers = {name: i for i, name in enumerate(self.tables)}

        def relation(path: str, name: str, due: DueTicks, is_first: bool) -> StoredRelation:
            table, (known, since) = self.tables[name], self.tables[name].effects(due, is_first)
            changes = tuple(one for one in blocks[name] if one[0] <= known)
            return StoredRelation(path, numbers[name], TABLES[name].key, known, None, changes, since, table.schema)

        return lambda due, is_first: tuple(relation(path, scan.table, due, is_first) for path, scan in found)

    def is_changed(self, tick: int) -> bool:
        return any(isinstance(one, ChangedTable) and one.is_changed(tick) for one in self.tables.values())

    def at(self, name: str, point: int) -> list[Mapping[str, Any]]:
        return self.tables[name].at(point)


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def scans(node: Node, path: str = "0") -> list[tuple[str, TableScan]]:
    found = [(path, node)] if isinstance(node, TableScan) else []
    return found + [one for i, below in enumerate(node.inputs) for one in scans(below, f"{path}.{i}")]


def history_of(plan: ContinuousPlan, rows: Mapping[str, list[Timed]]) -> History:
    """What Spark computes of the tuples on arrival, for each window."""
    found = []
    for window in plan.windows:
        columns = [parse_expression(one.sql) for one in window.columns]
        kept = None if window.predicate is None else parse_expression(window.predicate)
        mine = [(t, row) for t, row in rows[window.stream.lower()] if kept is None or value_of(kept, row) is True]
        found.append([(t, tuple(value_of(one, row) for one in columns)) for t, row in mine])
    return found


def batch_ends(plans: Sequence[ContinuousPlan], rows: Mapping[str, list[Timed]], rng: Random) -> list[int]:
    """Where batches end: first the tick at which plans begin, last one above all tuples."""
    step, points = plans[0].step, [t for plan in plans for name in plan.streams for t, _ in rows[name.lower()]]
    if not points:
        return []
    begin, end = min(points) // step * step, (max(points) // step + rng.choice([1, 1, 10, 30])) * step
    every = range(begin, end + 1, step)
    return sorted({begin, end, *rng.sample(every, min(len(every), rng.choice([0, 1, 3, 6, 30])))})


def facts_of(texts: StandingTexts, rng: Random) -> Facts:
    """Something, true or not, that was measured: the rules choose by it, and answers do not depend on it."""
    if rng.random() < 0.3:
        return NOTHING_MEASURED
    columns = ("k", "g", "x")
    return {
        name: StreamFacts(rng.choice([0.1, 50.0, 1e6]), {one: rng.choice([1.0, 5.0, 500.0]) for one in columns})
        for name in texts.rows
    }


def texts_of(table: pa.Table) -> list[str]:
    return [repr(row) for row in rows_of(table)]


def _executed(plan: ContinuousPlan, execution: str) -> ContinuousPlan:
    """The plan for a strategy, or as it is if the strategy refuses it."""
    try:
        return executed(plan, execution)
    except UnsupportedError:
        return plan


def check(select: str, texts: StandingTexts, rng: Random) -> None:
    plan = bound(select, texts)
    ends = batch_ends([plan], texts.rows, rng)
    if not ends:
        return
    off = rng.choice([(), (), (rng.choice(RULES).name,)])
    optimized = optimize(plan, facts_of(texts, rng), off).plan if rng.random() < 0.8 else plan
    optimized = _executed(optimized, rng.choice([UPA, UPA, NEGATIVE, DIRECT]))
    history, tables = history_of(optimized, texts.rows), PlanTables.of(texts, ends[:-1], rng)
    explicit = rng.random() < 0.2
    made = run(
        optimized,
        history,
        ends,
        restart=lambda tick: rng.choice([None, None, "parts", "compacted"]),
        relations=lambda due: tables.read(optimized, due, None if due.before == ends[0] else due.before),
        explicit_expiry=explicit,
    )
    by_definition = WindowOperators(plan, history_of(plan, texts.rows), ends[0] + plan.step, table=tables.at)
    for tick in range(ends[0] + plan.step, ends[-1] + 1, plan.step):
        found, expected = replayed(made.all_changes, tick), counted(by_definition.answer(tick))
        assert found == expected, f"at tick {tick}, batches {ends}: {found - expected} instead of {expected - found}"
    if rng.random() < 0.4:
        how: dict[str, Any] = {name: lambda batch: rng.random() < 0.3 for name in ("merging", "lose")}
        how["explicit_expiry"] = explicit
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            how["relations"] = tables.stored(root, optimized)
            parts, _ = run_staged(root, optimized, history, ends, lambda batch: rng.choice([2, 2, 3]), **how)
        staged = [text for part in parts for text in texts_of(part)]
        assert staged == texts_of(stored(made.all_changes)), f"in stages, batches {ends}"


def check_replaced(select: str, other: str, texts: StandingTexts, rng: Random) -> None:
    """The plan of `other` takes the place of that of `select`: from then on changes give its own answers."""
    bounds = [bound(one, texts) for one in (select, other)]
    old, new = (optimize(one, facts_of(texts, rng)).plan for one in bounds)
    ends = batch_ends(bounds, texts.rows, rng)
    looks_back = any(isinstance(one, OutputWindow | OutputRows | ToStream) for one in walk(new.root))
    keeps_past = looks_back or has_internal(new) or "nrr" in new.tables
    if len(ends) < 3 or old.step != new.step or isinstance(old.root, ToStream) or has_internal(old) or keeps_past:
        return  # what was reported at earlier ticks is not made anew
    at = rng.choice(ends[1:-1])
    tables, upto = PlanTables.of(texts, ends[:-1], rng), [end for end in ends if end <= at]
    ran = run(
        old,
        history_of(old, texts.rows),
        upto,
        restart=lambda tick: rng.choice([None, "parts", "compacted"]),
        relations=lambda due: tables.read(old, due, None if due.before == ends[0] else due.before),
    )
    told, rows = stored(ran.all_changes), stored_tuples(new, history_of(new, texts.rows))
    answer = beginning(told, at)
    carried = carry(old, ran.state, new, at, answer, tables.is_changed(at))
    read = {i: table for i, table in enumerate(rows) if i not in carried.windows}
    made = rebuild(new, carried, read, at, KERNEL, relations=tables.whole(new, at))
    assert made.answer is not None
    is_same = [one.type for one in old.schema] == [one.type for one in new.schema]
    changes = [told, difference(answer, made.answer, at + new.step)] if is_same else [made.answer]
    state = made.state
    for due in batches_of([end for end in ends if end >= at], new.step):
        relations = tables.read(new, due, at + 1 if due.before == at else due.before)
        done = advance(new, state, inputs_of(new, rows, due), due, KERNEL, relations=relations)
        changes.append(stored(in_order([done.changes])))
        state = restore(new, compacted(done.state), due.upto) if rng.random() < 0.5 else done.state
    every = pa.concat_tables(changes)
    by_definition = WindowOperators(bounds[1], history_of(bounds[1], texts.rows), ends[0] + new.step, table=tables.at)
    for tick in range(at + new.step, ends[-1] + 1, new.step):
        found, expected = replayed(every, tick), counted(by_definition.answer(tick))
        where = f"replaced at {at}, at tick {tick}, batches {ends}"
        assert found == expected, f"{where}: {found - expected} instead of {expected - found}"


@pytest.mark.matrix
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.generate, *([Phase.shrink] if is_full() else [])],
    suppress_health_check=list(HealthCheck),
)
@given(texts=standing_texts())
def test_random_texts(texts: StandingTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "LEAST_LEFT", 2)  # so that layouts change
    for number, select in enumerate(texts.queries):
        other = texts.queries[number - 1]
        try:
            check(select, texts, Random(texts.seed + number))
            if number % 2:
                check_replaced(select, other, texts, Random(texts.seed - number))
        except Exception as error:
            raise AssertionError(f"{texts}\n{select}\n{other}\n{error}") from error
