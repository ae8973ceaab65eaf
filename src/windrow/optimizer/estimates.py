"""How many rows an edge of a plan has: its rate, its live rows, and distinct values by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from windrow.optimizer.facts import (
    ROWS_PER_VALUE,
    SELECTIVITY_EQUAL,
    SELECTIVITY_OTHER,
    UNBOUNDED_WINDOWS,
    Facts,
    StreamFacts,
)
from windrow.optimizer.join_order import JoinCondition, JoinInput, matches_of
from windrow.plan.algebra.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    OutputRows,
    OutputWindow,
    Project,
    RowsWindow,
    SemiJoin,
    SetKind,
    SetOperation,
    StreamWindow,
    TableScan,
    TopRows,
    columns_in,
    walk,
)
from windrow.plan.algebra.rewriting import conjuncts, names_of, parsed

TABLE_ROWS = 1_000
"""So many rows a table is taken to have."""


@dataclass(frozen=True)
class EdgeEstimate:
    """Rows per point, rows alive at an instant, and distinct values by column (`c7`) among the latter."""

    rate: float
    live: float
    distinct: Mapping[str, float]

    def values(self, columns: Sequence[str]) -> float:
        """Distinct combinations of some columns among the live rows: at least 1, at most the rows."""
        product = 1.0
        for name in columns:
            product *= self.distinct.get(name, max(1.0, self.live / ROWS_PER_VALUE))
        return max(1.0, min(product, self.live))

    def scaled(self, factor: float) -> EdgeEstimate:
        """With fewer rows; values that many rows have do not become fewer."""
        live = self.live * factor
        return EdgeEstimate(self.rate * factor, live, {name: min(v, live) for name, v in self.distinct.items()})


class Estimator:
    """Estimates the edges of one plan, by what is measured of its streams."""

    def __init__(self, root: Node, facts: Facts):
        self.facts = facts
        lengths = [node.lifetime.range for node in walk(root) if isinstance(node, StreamWindow | OutputWindow)]
        self.longest = max((length for length in lengths if length is not None), default=1)

    def of(self, node: Node) -> EdgeEstimate:
        if isinstance(node, StreamWindow):
            return self._stream_window(node)
        if isinstance(node, RowsWindow):
            return self._rows_window(node)
        if isinstance(node, TableScan):
            live = float(TABLE_ROWS)
            return EdgeEstimate(live / self._length(None), live, {})
        inputs = [self.of(one) for one in node.inputs]
        if isinstance(node, NrrJoin):
            return EdgeEstimate(inputs[0].rate, inputs[0].live, {**inputs[1].distinct, **inputs[0].distinct})
        if isinstance(node, Join):
            return self._join(node, inputs)
        if isinstance(node, MergeUnion):
            return _merge_union(node, inputs)
        if isinstance(node, SemiJoin):
            return inputs[0].scaled(SELECTIVITY_OTHER)
        if isinstance(node, OuterJoin):
            return self._outer_join(node, inputs)
        if isinstance(node, SetOperation):
            return _set_operation(node, inputs)
        (one,) = inputs
        if isinstance(node, Filter):
            return one.scaled(selectivity_of(node.predicate))
        if isinstance(node, Project):
            return _project(node, one)
        if isinstance(node, OutputWindow):
            return EdgeEstimate(one.rate, one.rate * self._length(node.lifetime.range), one.distinct)
        if isinstance(node, OutputRows):
            return EdgeEstimate(one.rate, float(node.size), one.distinct)
        if isinstance(node, Distinct | GroupBy):
            keys = [column.sql for column in (node.schema if isinstance(node, Distinct) else node.keys)]
            return one.scaled(one.values(keys) / one.live if one.live > 0 else 1.0)
        return one.scaled(min(1.0, node.limit / one.live) if isinstance(node, TopRows) and one.live > 0 else 1.0)

    def join_inputs(self, join: Join) -> list[JoinInput]:
        """λ, T and v of the inputs of a join; joins on keys look up in hash tables, one bucket per value."""
        return _join_inputs(join, [self.of(one) for one in join.inputs])

    def _length(self, length: int | None) -> float:
        return self.longest * UNBOUNDED_WINDOWS if length is None else float(length)

    def _stream_window(self, node: StreamWindow) -> EdgeEstimate:
        known = self.facts.get(node.stream, StreamFacts())
        rate = known.rate_of(node.attribute.type)
        live = rate * self._length(node.lifetime.range)
        distinct = {one.column.sql: known.distinct[one.sql] for one in node.columns if one.sql in known.distinct}
        estimate = EdgeEstimate(rate, live, {name: min(v, live) for name, v in distinct.items()})
        if node.predicate is None:
            return estimate
        measured = known.selectivity.get(node.predicate)
        return estimate.scaled(selectivity_of(parsed(node.predicate)) if measured is None else measured)

    def _rows_window(self, node: RowsWindow) -> EdgeEstimate:
        known = self.facts.get(node.stream, StreamFacts())
        distinct = {one.column.sql: known.distinct[one.sql] for one in node.columns if one.sql in known.distinct}
        partitions = 1.0
        for column in node.partition:
            partitions *= distinct.get(column.sql, ROWS_PER_VALUE)
        live = node.size * partitions
        return EdgeEstimate(
            known.rate_of(node.attribute.type), live, {name: min(v, live) for name, v in distinct.items()}
        )

    def _outer_join(self, node: OuterJoin, inputs: Sequence[EdgeEstimate]) -> EdgeEstimate:
        """At least as many rows as the sides that it keeps."""
        found = self._join(Join(node.inputs, node.keys, node.condition), inputs)
        kept = [one for one, is_kept in zip(inputs, (node.keeps_left, node.keeps_right), strict=True) if is_kept]
        rate, live = (max([getattr(found, name), *(getattr(one, name) for one in kept)]) for name in ("rate", "live"))
        return EdgeEstimate(rate, live, found.distinct)

    def _join(self, node: Join, inputs: Sequence[EdgeEstimate]) -> EdgeEstimate:
        parts = _join_inputs(node, inputs)
        live = matches_of(parts, conditions_of(node))
        births = sum(one.rate / one.live for one in parts if one.live > 0) * live
        distinct = {name: min(v, live) for one in inputs for name, v in one.distinct.items()}
        return EdgeEstimate(births, live, distinct)


def _join_inputs(join: Join, inputs: Sequence[EdgeEstimate]) -> list[JoinInput]:
    found = []
    for i, one in enumerate(inputs):
        read = dict.fromkeys(name for key in join.keys for name in sorted(columns_in(key[i])))
        values = one.values(list(read)) if join.keys else 1.0
        length = one.live / one.rate if one.rate > 0 else 0.0
        found.append(JoinInput(one.rate, length, values, values))
    return found


def conditions_of(join: Join) -> list[JoinCondition]:
    """The conditions of a join, with the inputs that each reads."""
    names = [names_of(one) for one in join.inputs]
    return [
        JoinCondition(
            frozenset(i for i, own in enumerate(names) if columns_in(condition) & own), selectivity_of(condition)
        )
        for condition in conjuncts(join.condition)
    ]


def selectivity_of(predicate: exp.Expr) -> float:
    """The fraction of rows that pass, where nothing is measured."""
    factor = 1.0
    for one in conjuncts(predicate):
        if isinstance(one, exp.Boolean):
            factor *= 1.0 if one.this else 0.0
        elif isinstance(one, exp.Or):
            factor *= min(1.0, selectivity_of(one.left) + selectivity_of(one.right))
        elif isinstance(one, exp.In):
            factor *= min(1.0, SELECTIVITY_EQUAL * max(1, len(one.expressions)))
        else:
            factor *= SELECTIVITY_EQUAL if isinstance(one, exp.EQ) else SELECTIVITY_OTHER
    return factor


def _project(node: Project, one: EdgeEstimate) -> EdgeEstimate:
    distinct: dict[str, float] = {}
    for column in node.columns:
        read = sorted(columns_in(column.expression))
        if all(name in one.distinct for name in read):
            distinct[column.column.sql] = one.values(read)
    return EdgeEstimate(one.rate, one.live, distinct)


def _merge_union(node: MergeUnion, inputs: Sequence[EdgeEstimate]) -> EdgeEstimate:
    """Value sets are contained in each other, so the largest one counts."""
    distinct: dict[str, float] = {}
    for i, column in enumerate(node.columns):
        own = [est.distinct.get(side.schema[i].sql) for est, side in zip(inputs, node.inputs, strict=True)]
        known = [value for value in own if value is not None]
        if len(known) == len(own):
            distinct[column.sql] = max(known)
    return EdgeEstimate(sum(one.rate for one in inputs), sum(one.live for one in inputs), distinct)


def _set_operation(node: SetOperation, inputs: Sequence[EdgeEstimate]) -> EdgeEstimate:
    """No more rows than the left input has, nor INTERSECT than either has."""
    left, right = inputs
    names = [column.sql for column in node.inputs[0].schema]
    factor = SELECTIVITY_OTHER
    if node.kind is SetKind.INTERSECT and left.live > 0:
        factor = min(factor, right.live / left.live)
    found = left.scaled(factor)
    renamed = dict(zip(names, (column.sql for column in node.columns), strict=True))
    return EdgeEstimate(
        found.rate, found.live, {renamed[name]: v for name, v in found.distinct.items() if name in renamed}
    )
