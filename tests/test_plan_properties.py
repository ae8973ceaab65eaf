"""Random texts of continuous queries, without Spark: the optimized plan, by any strategy, in any batches, with restarts,
and in stages as Spark tasks run it, gives at every tick what the plan as bound gives by definition."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from support.bound_plans import stream, types_of
from support.continuous import counted, replayed, rows_of, run
from support.continuous_strategies import FED_TABLE, StandingTexts, Timed, standing_texts
from support.matrix import is_full
from support.staged import run_staged

from windrow.catalog.relations import define_table
from windrow.cql import parse_expression, parse_one
from windrow.cql.statements import CreateQuery, CreateTable
from windrow.errors import UnsupportedError
from windrow.operators.changes import stored
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.relations.changelog import DELETES, FROM, after_change, fed_changes, read_changelog
from windrow.operators.relations.table_scan import TableRows
from windrow.operators.ticks import DueTicks
from windrow.optimizer.execution import DIRECT, NEGATIVE, UPA, executed
from windrow.optimizer.facts import NOTHING_MEASURED, Facts, StreamFacts
from windrow.optimizer.pipeline import RULES, optimize
from windrow.plan.algebra.nodes import ContinuousPlan, Node, TableScan
from windrow.plan.continuous import bind_continuous
from windrow.reference.window_operators import History, WindowOperators, value_of

EXAMPLES = 500 if is_full() else 8
"""Of six plans each."""


TAB = define_table(cast(CreateTable, parse_one(FED_TABLE.format(stream="r"))))


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
        lambda name: TAB if name.lower() == "tab" else None,
    )


class FedTable:
    """The table that a stream feeds: what plans read of it, and its rows by definition."""

    def __init__(self, rows: list[Timed]):
        deletes = [bool(row["f"] and row["x"] is not None and row["x"] % 2 == 0) for _, row in rows]
        self._rows = [(t, row, gone) for (t, row), gone in zip(rows, deletes, strict=True)]
        log = {name: pa.array([row[name] for _, row in rows], kind) for name, kind in _columns(TAB.schema)}
        log |= {FROM: pa.array([t for t, _ in rows], pa.int64()), DELETES: pa.array(deletes, pa.bool_())}
        self._change = read_changelog(pa.table(log), Keyed(TAB.key), None).change
        self._now = after_change(Keyed(TAB.key), self._change)

    def read(self, plan: ContinuousPlan, begin: int, due: DueTicks) -> dict[str, TableRows]:
        since = None if due.before == begin else due.before
        changes = fed_changes(lambda: self._now, self._change, since, due)
        return dict.fromkeys(scans(plan.root), TableRows(changes, self._now))

    def at(self, tick: int) -> list[Mapping[str, Any]]:
        known: dict[str, Mapping[str, Any]] = {}
        for t, row, gone in self._rows:
            if t < tick and row["k"] is not None:
                known.pop(row["k"], None)
                known |= {} if gone else {row["k"]: row}
        return list(known.values())


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def scans(node: Node, path: str = "0") -> list[str]:
    found = [path] if isinstance(node, TableScan) else []
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


def batch_ends(plan: ContinuousPlan, rows: Mapping[str, list[Timed]], rng: Random) -> list[int]:
    """Where batches end: first the tick at which the plan begins, last one above all tuples."""
    step, points = plan.step, [t for name in plan.streams for t, _ in rows[name.lower()]]
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
    ends = batch_ends(plan, texts.rows, rng)
    if not ends:
        return
    off = rng.choice([(), (), (rng.choice(RULES).name,)])
    optimized = optimize(plan, facts_of(texts, rng), off).plan if rng.random() < 0.8 else plan
    optimized = _executed(optimized, rng.choice([UPA, UPA, NEGATIVE, DIRECT]))
    history = history_of(optimized, texts.rows)
    table = FedTable(sorted(texts.rows[texts.fed], key=lambda one: one[0]) if texts.fed else [])
    made = run(
        optimized,
        history,
        ends,
        restart=lambda tick: rng.choice([None, None, "parts", "compacted"]),
        relations=lambda due: table.read(optimized, ends[0], due),
    )
    by_definition = WindowOperators(
        plan, history_of(plan, texts.rows), ends[0] + plan.step, table=lambda name, tick: table.at(tick)
    )
    for tick in range(ends[0] + plan.step, ends[-1] + 1, plan.step):
        found, expected = replayed(made.all_changes, tick), counted(by_definition.answer(tick))
        assert found == expected, f"at tick {tick}, batches {ends}: {found - expected} instead of {expected - found}"
    if rng.random() < 0.4 and not plan.tables:
        how: dict[str, Any] = {name: lambda batch: rng.random() < 0.3 for name in ("merging", "lose")}
        with tempfile.TemporaryDirectory() as directory:
            tables, _ = run_staged(
                Path(directory), optimized, history, ends, lambda batch: rng.choice([2, 2, 3]), **how
            )
        staged = [text for table in tables for text in texts_of(table)]
        assert staged == texts_of(stored(made.all_changes)), f"in stages, batches {ends}"


@pytest.mark.matrix
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.generate, *([Phase.shrink] if is_full() else [])],
    suppress_health_check=list(HealthCheck),
)
@given(standing_texts())
def test_random_texts(texts: StandingTexts) -> None:
    for number, select in enumerate(texts.queries):
        try:
            check(select, texts, Random(texts.seed + number))
        except AssertionError as error:
            raise AssertionError(f"{texts}\n{select}\n{error}") from error
