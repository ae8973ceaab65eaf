"""How many rows an edge of a plan has: its rate, its live rows, how many are withdrawn, and distinct values by column.

*Negation* (section 2.2.2). With d₁ and d₂ values of the keys in the two inputs of a semi-join, contained in each other,
and D = max(d₁, d₂), a left row has a match with probability p = d₂ / D. A right row that comes is the first of its
value with probability q (`first_share`); then it changes what becomes of the N₁ / D left rows with that value, and so
does the last one that goes. So λ₂ q N₁ / D rows per point are withdrawn before their exp, and as many appear again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp as exp_
from math import expm1

from sqlglot import exp

from windrow.optimizer.facts import (
    ROWS_PER_VALUE,
    SELECTIVITY_EQUAL,
    SELECTIVITY_OTHER,
    UNBOUNDED_WINDOWS,
    Facts,
    StreamFacts,
    sampled,
)
from windrow.optimizer.join_order import JoinCondition, JoinInput, matches_of
from windrow.optimizer.samples import ValueSample, firsts, matched, meeting
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


MATCHED_LEAST, MATCHED_MOST = 0.05, 0.95
"""Of the left rows of a semi-join, the least and the most that are taken to have a match."""


@dataclass(frozen=True)
class EdgeEstimate:
    """Rows per point, rows alive at an instant, and distinct values by column (`c7`) among the latter. `withdrawn`:
    rows per point that go by a negative tuple. `samples`: by column, values of the stream that it comes from."""

    rate: float
    live: float
    distinct: Mapping[str, float]
    withdrawn: float = 0.0
    samples: Mapping[str, ValueSample] = field(default_factory=dict, repr=False)

    def values(self, columns: Sequence[str]) -> float:
        """Distinct combinations of some columns among the live rows: at least 1, at most the rows."""
        product = 1.0
        for name in columns:
            product *= self.distinct.get(name, max(1.0, self.live / ROWS_PER_VALUE))
        return max(1.0, min(product, self.live))

    def scaled(self, factor: float) -> EdgeEstimate:
        """With fewer rows; values that many rows have do not become fewer."""
        live = self.live * factor
        distinct = {name: min(v, live) for name, v in self.distinct.items()}
        return EdgeEstimate(self.rate * factor, live, distinct, self.withdrawn * factor, self.samples)

    def all_withdrawn(self) -> EdgeEstimate:
        """Every row that goes is withdrawn."""
        return replace(self, withdrawn=self.rate)


class Estimator:
    """Estimates the edges of one plan, by what is measured of its streams."""

    def __init__(self, root: Node, facts: Facts):
        self.facts = facts
        self._known: dict[int, tuple[Node, EdgeEstimate]] = {}
        lengths = [node.lifetime.range for node in walk(root) if isinstance(node, StreamWindow | OutputWindow)]
        self.longest = max((length for length in lengths if length is not None), default=1)

    def of(self, node: Node) -> EdgeEstimate:
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = node, self._estimate(node)
        return known[1]

    def _estimate(self, node: Node) -> EdgeEstimate:
        if isinstance(node, StreamWindow):
            return self._stream_window(node)
        if isinstance(node, RowsWindow):
            return self._rows_window(node)
        if isinstance(node, TableScan):
            live = float(TABLE_ROWS)
            return EdgeEstimate(live / self._length(None), live, {}).all_withdrawn()
        inputs = [self.of(one) for one in node.inputs]
        if isinstance(node, NrrJoin):
            return EdgeEstimate(inputs[0].rate, inputs[0].live, {**inputs[1].distinct, **inputs[0].distinct})
        if isinstance(node, Join):
            return self._join(node, inputs)
        if isinstance(node, MergeUnion):
            return _merge_union(node, inputs)
        if isinstance(node, SemiJoin):
            return _semi_join(node, inputs[0], self._coming(node.right))
        if isinstance(node, OuterJoin):
            return self._outer_join(node, inputs)
        if isinstance(node, SetOperation):
            return _set_operation(node, inputs).all_withdrawn()
        (one,) = inputs
        if isinstance(node, Filter):
            return one.scaled(selectivity_of(node.predicate))
        if isinstance(node, Project):
            return _project(node, one)
        if isinstance(node, OutputWindow):
            return EdgeEstimate(one.rate, one.rate * self._length(node.lifetime.range), one.distinct)
        if isinstance(node, OutputRows):
            return EdgeEstimate(one.rate, float(node.size), one.distinct).all_withdrawn()
        if isinstance(node, Distinct | GroupBy):
            keys = [column.sql for column in (node.schema if isinstance(node, Distinct) else node.keys)]
            found = one.scaled(one.values(keys) / one.live if one.live > 0 else 1.0)
            return found.all_withdrawn() if isinstance(node, GroupBy) or one.withdrawn else found
        if isinstance(node, TopRows):
            return one.scaled(min(1.0, node.limit / one.live) if one.live > 0 else 1.0).all_withdrawn()
        return replace(one, withdrawn=0.0)

    def _coming(self, node: Node) -> EdgeEstimate:
        """The rows that may match. DISTINCT changes how often they are looked at, but not when the first one of a value
        comes and the last one goes."""
        return self.of(node.input if isinstance(node, Distinct) else node)

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
        samples = {one.column.sql: _sample(known, one.sql, node.predicate) for one in node.columns}
        told = {name: sample for name, sample in samples.items() if sample is not None}
        estimate = EdgeEstimate(rate, live, {name: min(v, live) for name, v in distinct.items()}, samples=told)
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
        distinct = {name: min(v, live) for name, v in distinct.items()}
        return EdgeEstimate(known.rate_of(node.attribute.type), live, distinct).all_withdrawn()

    def _outer_join(self, node: OuterJoin, inputs: Sequence[EdgeEstimate]) -> EdgeEstimate:
        """At least as many rows as the sides that it keeps, of which those that get a first match are withdrawn."""
        found = self._join(Join(node.inputs, node.keys, node.condition), inputs)
        kept = [one for one, is_kept in zip(inputs, (node.keeps_left, node.keeps_right), strict=True) if is_kept]
        rate, live = (max([getattr(found, name), *(getattr(one, name) for one in kept)]) for name in ("rate", "live"))
        flips = 0.0
        for side, is_kept in enumerate((node.keeps_left, node.keeps_right)):
            if is_kept:
                mine, theirs = (key_values(node, at, inputs[at]) for at in (side, 1 - side))
                flips += _flips(inputs[side], inputs[1 - side], mine, theirs)
        return EdgeEstimate(rate + flips, live, found.distinct, found.withdrawn + flips)

    def _join(self, node: Join, inputs: Sequence[EdgeEstimate]) -> EdgeEstimate:
        parts = _join_inputs(node, inputs)
        live = matches_of(parts, conditions_of(node))
        births = sum(one.rate / one.live for one in parts if one.live > 0) * live
        withdrawn = sum(one.withdrawn / one.live for one in inputs if one.live > 0) * live
        distinct = {name: min(v, live) for one in inputs for name, v in one.distinct.items()}
        samples = {name: sample for one in inputs for name, sample in one.samples.items()}
        return EdgeEstimate(births, live, distinct, withdrawn, samples)


def _sample(known: StreamFacts, sql: str, predicate: str | None) -> ValueSample | None:
    """The sample of a column of a window; if there is none of the tuples that pass its condition, that of all."""
    return known.samples.get(sampled(sql, predicate), known.samples.get(sql))


def _join_inputs(join: Join, inputs: Sequence[EdgeEstimate]) -> list[JoinInput]:
    """λ, T and v of the inputs. Where samples tell which part 1 / v of all pairs meets, both have these v values."""
    found, met = [], _met(join, inputs)
    for i, one in enumerate(inputs):
        read = dict.fromkeys(name for key in join.keys for name in sorted(columns_in(key[i])))
        values = one.values(list(read)) if join.keys else 1.0
        values = values if met is None else met
        length = one.live / one.rate if one.rate > 0 else 0.0
        found.append(JoinInput(one.rate, length, values, values))
    return found


def _met(join: Join, inputs: Sequence[EdgeEstimate]) -> float | None:
    """v, if one in v pairs of two inputs have equal keys; None if no samples tell."""
    samples = _key_samples(join, inputs) if len(inputs) == 2 else None
    share = None if samples is None else meeting(*samples)
    return None if share is None else 1 / max(share, 1 / max(1.0, inputs[0].live * inputs[1].live))


def _key_samples(
    node: Join | SemiJoin | OuterJoin, inputs: Sequence[EdgeEstimate]
) -> tuple[ValueSample, ValueSample] | None:
    """The samples of the only key of two inputs, if both are there."""
    if len(node.keys) != 1 or not all(isinstance(one, exp.Column) for one in node.keys[0]):
        return None
    found = [one.samples.get(key.name) for one, key in zip(inputs, node.keys[0], strict=True)]
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def _semi_join(node: SemiJoin, left: EdgeEstimate, right: EdgeEstimate) -> EdgeEstimate:
    mine, theirs = key_values(node, 0, left), key_values(node, 1, right)
    share = _matched(node, left, right, mine, theirs)
    found = left.scaled(1 - share if node.is_anti else share)
    flips = _flips(left, right, mine, theirs, _key_samples(node, (left, right)))
    return replace(found, rate=found.rate + flips, withdrawn=found.withdrawn + flips)


def key_values(node: SemiJoin | OuterJoin, side: int, one: EdgeEstimate) -> float:
    """Distinct values of the keys of a side."""
    return one.values([name for key in node.keys for name in sorted(columns_in(key[side]))])


def _matched(node: SemiJoin, left: EdgeEstimate, right: EdgeEstimate, mine: float, theirs: float) -> float:
    """p: the share of left rows that have a match. Where the values of the keys are not measured, the share that is
    shown is the assumed one."""
    samples = _key_samples(node, (left, right))
    told = None if samples is None or node.condition is not None else matched(*samples)
    if told is not None:
        return min(max(told, MATCHED_LEAST), MATCHED_MOST)
    read = [name for key in node.keys for one in key for name in columns_in(one)]
    if not all(name in left.distinct or name in right.distinct for name in read):
        return 1 - SELECTIVITY_OTHER if node.is_anti else SELECTIVITY_OTHER
    share = theirs / max(mine, theirs)
    if node.condition is not None:
        share *= min(1.0, selectivity_of(node.condition) * right.live / theirs)
    return min(max(share, MATCHED_LEAST), MATCHED_MOST)


def _flips(
    one: EdgeEstimate,
    other: EdgeEstimate,
    mine: float,
    theirs: float,
    samples: tuple[ValueSample, ValueSample] | None = None,
) -> float:
    """Rows of one side per point whose first match comes, and also those whose last one goes."""
    told = None if samples is None else firsts(*samples, other.live)
    if told is not None:
        return other.rate * one.live * told
    return other.rate * first_share(other.live, theirs) * one.live / max(mine, theirs)


def first_share(live: float, values: float) -> float:
    """q: how often a new row is the only one of its value, if values come at random.

    With x live rows per value that may come, a value is absent with probability q = e⁻ˣ, so that the live rows have
    live (1 − e⁻ˣ) / x values. The number of these is known, and x is found by bisection.
    """
    if live <= values:
        return 1.0
    low, high = 0.0, live / values * 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if -expm1(-middle) / middle > values / live else (low, middle)
    return exp_(-high)


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
    renamed = {column.expression.name: column.column.sql for column in node.columns if column.is_renamed}
    samples = {renamed[name]: sample for name, sample in one.samples.items() if name in renamed}
    return replace(one, distinct=distinct, samples=samples)


def _merge_union(node: MergeUnion, inputs: Sequence[EdgeEstimate]) -> EdgeEstimate:
    """Value sets are contained in each other, so the largest one counts."""
    distinct: dict[str, float] = {}
    for i, column in enumerate(node.columns):
        own = [est.distinct.get(side.schema[i].sql) for est, side in zip(inputs, node.inputs, strict=True)]
        known = [value for value in own if value is not None]
        if len(known) == len(own):
            distinct[column.sql] = max(known)
    rate, live, withdrawn = (sum(getattr(one, name) for one in inputs) for name in ("rate", "live", "withdrawn"))
    return EdgeEstimate(rate, live, distinct, withdrawn)


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
