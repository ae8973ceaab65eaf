"""Accepted queries, run by the hundred over the fuzzed streams in one engine, and compared with the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from sqlglot import exp
from support.matrix import Variation
from support.replay import ReplayMismatch, changes_of, check_replay
from support.runner import START, EngineBackend, OracleBackend

from fuzz.streams import CREATE, batches
from windrow.cql.dialect import StreamTable, window_of
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery
from windrow.cql.window_clause import Unit, WindowKind
from windrow.errors import UnsupportedError, WindrowError
from windrow.oracle import equal_rows
from windrow.oracle.continuous import is_continuous
from windrow.oracle.values import sort_key
from windrow.testing import ManualClock

Row = tuple[Any, ...]

_MOST_WINDOWS = 50
_SPREADS = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop)
_SUMS = (exp.Sum, exp.Avg, *_SPREADS)
_EXACT = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Neg),
    *(exp.Predicate, exp.Connector, exp.Not, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
    *(exp.Abs, exp.Length, exp.Sign),
)


def is_comparable(query: CreateQuery) -> bool:
    """Whether the answer is defined up to the rounding of one sum, and has few windows."""
    select = query.select
    tables = [table for table in select.find_all(exp.Table) if table.name.lower() in CREATE]
    if not tables or query.sink is not None:
        return False
    return (
        all(map(_is_small, tables)) and all(_is_exact(call) for call in select.find_all(*_SUMS)) and _is_stable(select)
    )


def _is_small(table: exp.Table) -> bool:
    """Few windows hold each tuple."""
    window = window_of(table)
    if window is None:
        return False
    if window.slide is None or window.slide.unit is Unit.ROWS:
        return window.kind is not WindowKind.ROWS or window.range is None or window.range.amount <= 1000
    width = 120_000_000 if window.slide.unit is Unit.TIME else 500
    if window.kind is WindowKind.RANGE and window.range is not None:
        width = window.range.amount
    return width <= _MOST_WINDOWS * window.slide.amount


def _is_exact(call: exp.Expr) -> bool:
    """Whether the sum does not depend on the order of addition, beyond the tolerance of the comparison."""
    inner = call.this.expressions[0] if isinstance(call.this, exp.Distinct) else call.this
    if not isinstance(inner, exp.Expr):
        return True
    for node in inner.walk():
        if not isinstance(node, _EXACT) or (isinstance(node, exp.Literal) and not _is_plain(node)):
            return False
        if isinstance(node, exp.Column) and node.name.lower() == "big" and not isinstance(call, exp.Sum):
            return False
    return not (
        isinstance(call, exp.Sum) and inner.find(exp.Mul) and any(c.name == "big" for c in inner.find_all(exp.Column))
    )


def _is_plain(literal: exp.Literal) -> bool:
    return bool(literal.is_string) or (len(literal.name) <= 5 and literal.name.replace(".", "").isdigit())


def _is_stable(select: exp.Expr) -> bool:
    """Whether no variance, which is rounded in both, decides about rows or is part of an expression."""
    spreads = list(select.find_all(*_SPREADS))
    decided = any(select.args.get(name) for name in ("having", "order", "limit"))
    alone = all(isinstance(s.parent, exp.Alias | exp.Select | exp.Filter) for s in spreads)
    return not spreads or (alone and not decided)


@dataclass
class Compared:
    """How many queries were equal, refused in both or not known to the oracle; and what differed."""

    equal: int = 0
    refused: int = 0
    unknown: int = 0
    different: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.equal:,} queries answered as the oracle does, {len(self.different)} otherwise;"
            f" {self.refused} suspended where the oracle fails, too; {self.unknown} that it does not evaluate"
        )


def compare(queries: Sequence[tuple[int, CreateQuery]], seed: int, spark: Any, directory: Path, mode: str) -> Compared:
    """Run the queries, known by their numbers, in one engine and compare each with the oracle."""
    clock, compared = ManualClock(START), Compared()
    engine = EngineBackend(spark, clock, directory / "state", Variation(preaggregate=mode))
    try:
        run = _Comparison(engine, OracleBackend(spark, clock), compared)
        run.play(queries, Random(f"{seed}/rows"))
    finally:
        engine.close()
    return compared


class _Comparison:
    def __init__(self, engine: EngineBackend, oracle: OracleBackend, compared: Compared):
        self.engine, self.oracle, self.compared = engine, oracle, compared

    def play(self, queries: Iterable[tuple[int, CreateQuery]], rng: Random) -> None:
        for create in CREATE.values():
            self.engine.sql(create)
            self.oracle.sql(create)
        created = [(number, made) for number, query in queries if (made := self._create(number, query))]
        for stream in CREATE:
            for batch in batches(stream, rng):
                self.engine.deposit(stream, [dict(row) for row in batch])
                self.oracle.deposit(stream, [dict(row) for row in batch])
            self.engine.end_input(stream)
            self.oracle.end_input(stream)
        for number, query in created:
            self._compare(number, query)

    def _create(self, number: int, query: CreateQuery) -> CreateQuery | None:
        named = replace(query, name=f"q{number}", if_not_exists=False)
        try:
            self.engine.sql(to_text(named))
        except WindrowError as error:
            self.compared.different.append(f"statement {number}, explained, is refused by CREATE QUERY: {error}")
            return None
        try:
            self.oracle.sql(to_text(named))
        except UnsupportedError:
            self.compared.unknown += 1
            return None
        return named

    def _compare(self, number: int, query: CreateQuery) -> None:
        engine = self.engine.engine._engine
        is_plan = engine.plans.has(query.name)
        error = engine.plans.query(query.name).error if is_plan else engine.manager.query(query.name)[1].error
        windows = [window_of(one) for one in query.select.find_all(StreamTable)]
        if is_continuous(query.select) and not any(one and one.slide for one in windows):
            self._replay(number, query, error)
            return
        try:
            expected = self.oracle.answers(query.name)
        except Exception:  # Spark fails on this query, or the oracle does not evaluate it
            self.compared.unknown += error is None
            self.compared.refused += error is not None
            return
        if error is not None:
            self.compared.different.append(f"statement {number} is suspended: {error}\n{to_text(query)}")
            return
        found = self.engine.answers(query.name)
        if equal_rows(_in_order(found, query), _in_order(expected, query)):
            self.compared.equal += 1
        else:
            self.compared.different.append(_difference(number, query, found, expected))

    def _replay(self, number: int, query: CreateQuery, error: str | None) -> None:
        """Compare a continuous query at every tick."""
        oracle = self.oracle.oracle
        found = [] if error else changes_of(self.engine.changes(query.name), oracle.plan(query.name).attribute)
        try:
            check_replay(found, oracle, query.name)
        except ReplayMismatch as mismatch:
            self.compared.different.append(f"statement {number}: {to_text(query)}\n{error or mismatch}")
        except Exception:  # Spark fails on this query, or the oracle does not evaluate it
            self.compared.unknown += error is None
            self.compared.refused += error is not None
        else:
            self.compared.equal += 1


def _in_order(rows: list[Row], query: CreateQuery) -> list[Row]:
    """The rows in an order in which they can be compared: that of ORDER BY, if there is one for all of a window."""
    window = window_of(next(query.select.find_all(exp.Table)))
    is_ordered = query.select.args.get("order") is not None and not (window and window.pattr)
    return rows if is_ordered else sorted(rows, key=lambda row: (row[1], sort_key(row[2:])))


def _difference(number: int, query: CreateQuery, found: list[Row], expected: list[Row]) -> str:
    found, expected = _in_order(found, query), _in_order(expected, query)
    pairs = [(a, b) for a, b in zip(found, expected, strict=False) if not equal_rows([a], [b])]
    shown = [f"engine {a}\noracle {b}" for a, b in pairs[:3]]
    return "\n".join([f"statement {number}: {to_text(query)}", f"{len(found)} rows, oracle {len(expected)}", *shown])
