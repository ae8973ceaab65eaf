"""What a plan costs per unit of time (Golab and Özsu, SIGMOD 2005, section 5.4.1), for the layouts that it has here.

A cost is a number of rows handled per point of time, in four parts as in that section: inserting rows into state,
processing them, expiring them, and processing negative tuples; and a fifth, what an operator costs at a tick whatever
its rows are. For an operator let λᵢ be the rows per point of input i, μᵢ the negative tuples among what it gives, Nᵢ
its live rows, dᵢ the distinct values of its keys; λₒ, μₒ, Nₒ those of the output; s the points between two ticks. The
estimates are those of `estimates.py`. Where the paper's model and this one differ, that is because here

- a tick handles all its rows at once: state is looked through once per tick, which costs SCAN per row and tick, and
  only rows with a wanted key cost more; so nothing is multiplied by N as a nested loop is;
- expired rows of a FIFO and of a calendar are dropped by whole blocks, which costs nothing per row;
- rows of a window that a join reads again are in the window's store, which all plans share: they cost no insertion.

docs/internals/optimizer.md has the formula of every operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from windrow.optimizer.estimates import EdgeEstimate, Estimator, conditions_of, key_values
from windrow.optimizer.facts import Facts
from windrow.optimizer.join_order import compared_by
from windrow.patterns import Annotated, UpdatePattern, annotate, annotated_over
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
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
    SetOperation,
    Streaming,
    StreamWindow,
    TableScan,
    TopRows,
    ToStream,
    WindowExpiry,
)

LEAST_GAIN = 0.95
"""Estimates are rough: a plan that costs more than this part of the given one is not worth a change."""

SCAN = 0.02
"""Looking through one row of state at a tick, in rows handled: a hash and a bit, over a whole column."""

ROWS_PER_MS = 6_700
"""Rows handled in a millisecond: about 150 ns each, measured over all operators."""

GROUPED = 2.5
"""So many rows handled is a row whose values are sorted and numbered: by DISTINCT, group-by, set operations, LIMIT."""

STRICT = 2.0
"""An operator over strict input handles a row so many times: as what comes, and as an interval that may end early. It
is the factor that the paper gives to operators that process negative tuples."""


@dataclass(frozen=True)
class OperatorCost:
    """Rows handled per point. `starting` is what ticks cost without any row: statements are run, tables made."""

    inserting: float = 0.0
    processing: float = 0.0
    expiring: float = 0.0
    withdrawing: float = 0.0
    starting: float = 0.0

    @property
    def total(self) -> float:
        return self.inserting + self.processing + self.expiring + self.withdrawing + self.starting


@dataclass(frozen=True)
class CostedOperator:
    """A node with the patterns of its output, what it costs, and what is estimated of its output."""

    annotated: Annotated
    cost: OperatorCost
    output: EdgeEstimate


@dataclass(frozen=True)
class PlanCost:
    """What a plan costs: its operators, inputs first, and the answer that it keeps."""

    operators: tuple[CostedOperator, ...]
    answer: OperatorCost

    @property
    def total(self) -> float:
        return self.answer.total + sum(one.cost.total for one in self.operators)


def plan_cost(plan: ContinuousPlan, facts: Facts) -> PlanCost:
    """What a plan costs per point, by what is measured of its streams."""
    estimator, annotated = Estimator(plan.root, facts), annotate(plan)
    operators = tuple(_costed(one, estimator, plan.step) for one in annotated.walk())
    last = operators[-1].output
    return PlanCost(operators, OperatorCost(inserting=last.rate, withdrawing=last.withdrawn))


class Coster:
    """Costs nodes over one plan, for a rule that looks at many: what is known of an input is worked out once."""

    def __init__(self, plan: ContinuousPlan, facts: Facts):
        self.estimator = Estimator(plan.root, facts)
        self._step = plan.step
        self._known: dict[int, Annotated] = {}

    def own(self, node: Node) -> float:
        """What a node costs by itself."""
        return _costed(self._annotated(node), self.estimator, self._step).cost.total

    def total(self, node: Node) -> float:
        """What a node costs with all that is below it."""
        return self.own(node) + sum(map(self.total, node.inputs))

    def _annotated(self, node: Node) -> Annotated:
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = annotated_over(node, tuple(map(self._annotated, node.inputs)))
        return known


@dataclass(frozen=True)
class _Operator:
    """What the cost of an operator depends on."""

    node: Any
    inputs: tuple[EdgeEstimate, ...]
    output: EdgeEstimate
    strict: tuple[bool, ...]
    step: int
    estimator: Estimator = field(repr=False)

    @property
    def arriving(self) -> float:
        """Σ (λᵢ + μᵢ)"""
        return sum(one.rate + one.withdrawn for one in self.inputs)

    @property
    def leaving(self) -> float:
        """λₒ + μₒ"""
        return self.output.rate + self.output.withdrawn

    @property
    def negative(self) -> float:
        """Σ μᵢ"""
        return sum(one.withdrawn for one in self.inputs)

    def scanned(self, *sides: EdgeEstimate) -> float:
        """Looking through live rows at every tick."""
        return SCAN * sum(one.live for one in sides) / self.step

    def kept(self, inputs: Sequence[Node]) -> float:
        """λᵢ of the inputs whose rows the operator keeps itself."""
        sides = zip(inputs, self.inputs, strict=True)
        return sum(one.rate for i, (node, one) in enumerate(sides) if keeps_rows(self.node, i, node))


def keeps_rows(operator: Node, i: int, node: Node) -> bool:
    """Whether a join keeps the rows of an input itself: those of a window are in its store, those of a DISTINCT may be
    in the state of that."""
    while isinstance(node, Filter | Project):
        node = node.input
    is_reused = isinstance(operator, Join) and i in operator.reused
    return not (isinstance(node, StreamWindow) or is_reused)


def _costed(one: Annotated, estimator: Estimator, step: int) -> CostedOperator:
    inputs = tuple(estimator.of(below.node) for below in one.inputs)
    output = estimator.of(one.node)
    strict = tuple(below.state is UpdatePattern.STR for below in one.inputs)
    found = COSTS[type(one.node)](_Operator(one.node, inputs, output, strict, step, estimator))
    starting = _milliseconds(one.node, one.inputs, any(strict)) * ROWS_PER_MS / step
    return CostedOperator(one, replace(found, starting=starting), output)


def _milliseconds(node: Node, inputs: Sequence[Annotated], is_strict: bool) -> float:
    """What an operator costs at a tick whatever its rows are: CPU time with ten rows a tick. Those of count-based
    windows, windows over sub-queries and joins with tables are taken to be like others."""
    if isinstance(node, Join):
        by_statement = node.condition is not None or not node.keys
        return (8.5 if by_statement else 4.5) if is_strict else 5.0 if by_statement else 0.6
    if isinstance(node, SemiJoin | OuterJoin):
        by_statement = node.condition is not None or not node.keys
        kept = sum(keeps_rows(node, i, below.node) for i, below in enumerate(inputs))
        return STARTING_MS[type(node)] + KEPT_MS * kept + (STATEMENT_MS if by_statement else 0.0)
    if isinstance(node, Project):
        return 0.0 if all(one.is_renamed for one in node.columns) else 2.3
    if isinstance(node, Distinct):
        return 3.0 if is_strict else 1.7
    return STARTING_MS[type(node)]


KEPT_MS, STATEMENT_MS = 1.5, 3.0
"""What an input adds whose rows a semi-join or an outer join keeps itself, and what a condition adds that SQL tests."""

STARTING_MS: dict[type[Node], float] = {
    StreamWindow: 0.0,
    RowsWindow: 1.7,
    TableScan: 0.0,
    Filter: 1.8,
    MergeUnion: 0.1,
    SemiJoin: 2.2,
    OuterJoin: 3.6,
    NrrJoin: 5.0,
    SetOperation: 2.7,
    GroupBy: 3.5,
    OutputWindow: 0.1,
    OutputRows: 1.7,
    WindowExpiry: 0.1,
    ToStream: 2.0,
    TopRows: 5.5,
}


# -- operators -------------------------------------------------------------------------------------


def _window(one: _Operator) -> OperatorCost:
    """λ: written to the window's store; expired blocks are dropped whole."""
    return OperatorCost(inserting=one.output.rate)


def _rows_window(one: _Operator) -> OperatorCost:
    """A row takes the place of another, which is withdrawn: λ in, λ out."""
    return OperatorCost(inserting=one.output.rate, withdrawing=one.output.withdrawn)


def _table_scan(one: _Operator) -> OperatorCost:
    return OperatorCost(processing=one.leaving)


def _per_row(one: _Operator) -> OperatorCost:
    """Σ λᵢ, and as much for negative tuples."""
    return OperatorCost(processing=one.arriving - one.negative, withdrawing=one.negative)


def _join(one: _Operator) -> OperatorCost:
    """Every new row of input i asks for its partners, X_i / λᵢ of them (section 5.3.1 of the dissertation); a negative
    one again."""
    node, parts = one.node, one.estimator.join_inputs(one.node)
    order, conditions = range(len(parts)), conditions_of(node)
    asked = [1 + compared_by(i, order, parts, conditions) for i in order]
    factor = STRICT if any(one.strict) else 1.0
    coming = sum(side.rate * met for side, met in zip(one.inputs, asked, strict=True))
    going = sum(side.withdrawn * met for side, met in zip(one.inputs, asked, strict=True))
    return OperatorCost(
        inserting=one.kept(node.inputs),
        processing=factor * (coming + one.output.rate) + one.scanned(*one.inputs),
        withdrawing=factor * (going + one.output.withdrawn),
    )


def _semi_join(one: _Operator) -> OperatorCost:
    """A right row is handled when it comes and when it goes, since either may change what is shown. Every row asks for
    the right rows with its key; a value that comes or goes on the right asks for the left rows that it withdraws or
    shows."""
    left, right = one.inputs
    values = key_values(one.node, 1, right)
    asking = left.rate + left.withdrawn + 2 * (right.rate + right.withdrawn)
    looked = min(asking * right.live / values, right.live / one.step)
    return OperatorCost(
        inserting=one.kept(one.node.inputs),
        processing=left.rate + right.rate + looked + one.output.rate + one.scanned(left, right),
        expiring=right.rate,
        withdrawing=STRICT * one.negative + one.output.withdrawn,
    )


def _outer_join(one: _Operator) -> OperatorCost:
    """The join, and for each side that it keeps what a semi-join does."""
    node = one.node
    pairs = _join(replace(one, node=Join(node.inputs, node.keys, node.condition)))
    both = sum(side.rate for side in one.inputs)
    return OperatorCost(
        pairs.inserting,
        pairs.processing + both + one.output.rate,
        both,
        pairs.withdrawing + one.output.withdrawn,
    )


def _nrr_join(one: _Operator) -> OperatorCost:
    """λ₁ lookups in the table's current version; nothing is kept, as a result needs it only once."""
    return OperatorCost(processing=one.inputs[0].rate + one.output.rate)


def _set_operation(one: _Operator) -> OperatorCost:
    """The counts of a value change when a row comes and when it goes."""
    positive = one.arriving - one.negative
    return OperatorCost(
        inserting=positive,
        processing=GROUPED * positive + one.output.rate,
        expiring=max(0.0, positive - one.negative),
        withdrawing=one.negative + one.output.withdrawn,
    )


def _distinct(one: _Operator) -> OperatorCost:
    """δ*: a lookup per row, and the ends of what is shown are looked through at every tick. Over strict input it
    counts: each row is kept, and handled again when it goes."""
    (below,) = one.inputs
    if not one.strict[0]:
        looked_up = GROUPED * below.rate + one.output.rate + one.scanned(one.output)
        return OperatorCost(inserting=one.output.rate, processing=looked_up)
    return OperatorCost(
        inserting=below.rate,
        processing=GROUPED * below.rate + one.output.rate,
        expiring=max(0.0, below.rate - below.withdrawn),
        withdrawing=GROUPED * below.withdrawn + one.output.withdrawn,
    )


def _group_by(one: _Operator) -> OperatorCost:
    """2 λ C: a row changes its group when it comes and when it goes, and the group's row is replaced. C is a row
    handled per aggregate, at least one."""
    (below,) = one.inputs
    calls = max(1, len(one.node.aggregates))
    replaced = min(2 * below.rate, one.output.live / one.step)
    return OperatorCost(
        inserting=below.rate,
        processing=GROUPED * below.rate * calls + replaced,
        expiring=max(0.0, below.rate - below.withdrawn) * calls,
        withdrawing=below.withdrawn * calls + replaced,
    )


def _output_window(one: _Operator) -> OperatorCost:
    return OperatorCost(inserting=one.output.rate)


def _to_stream(one: _Operator) -> OperatorCost:
    """RSTREAM gives all rows at every tick; the others what came or went."""
    (below,) = one.inputs
    given = below.live / one.step if one.node.kind is Streaming.RSTREAM else below.rate
    return OperatorCost(inserting=below.rate, processing=below.rate + given, withdrawing=below.withdrawn)


def _top_rows(one: _Operator) -> OperatorCost:
    """Rows are kept; at a tick at which one comes or goes the live rows are looked through."""
    (below,) = one.inputs
    return OperatorCost(
        inserting=below.rate,
        processing=GROUPED * below.rate + one.scanned(below) + one.output.rate,
        withdrawing=below.withdrawn + one.output.withdrawn,
    )


COSTS: dict[type[Node], Callable[[_Operator], OperatorCost]] = {
    StreamWindow: _window,
    RowsWindow: _rows_window,
    TableScan: _table_scan,
    Filter: _per_row,
    Project: _per_row,
    MergeUnion: _per_row,
    Join: _join,
    SemiJoin: _semi_join,
    OuterJoin: _outer_join,
    NrrJoin: _nrr_join,
    SetOperation: _set_operation,
    Distinct: _distinct,
    GroupBy: _group_by,
    OutputWindow: _output_window,
    OutputRows: _rows_window,
    WindowExpiry: _per_row,
    ToStream: _to_stream,
    TopRows: _top_rows,
}
"""The cost of every operator."""
