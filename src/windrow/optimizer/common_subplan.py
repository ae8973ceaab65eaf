"""Finds sub-plans that different queries have in common.

Two sub-plans are the same if they have the same nodes over the same windows, whatever their columns are called. So that
this is easy to see, the columns of every plan are numbered in the order in which they are met: a sub-plan that begins
with the first window of its plan has the same ids in every plan, and its state the same columns. A sub-plan that keeps
state and is another input of a join or a union has numbers of its own, which follow from what it is (`_Numbering`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from sqlglot import exp

from windrow.plan.accumulators import AggregateCall
from windrow.plan.algebra.nodes import (
    Aggregated,
    Computed,
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
    PlanColumn,
    Project,
    RowsWindow,
    SemiJoin,
    SetOperation,
    StreamWindow,
    TableScan,
    TopRows,
    ToStream,
    Window,
    WindowExpiry,
    walk,
)
from windrow.plan.algebra.rewriting import parsed, substituted, text_of, with_texts
from windrow.plan.nodes import Order

_STATEFUL = Distinct | GroupBy | OutputWindow | OutputRows | ToStream | TopRows | SemiJoin | OuterJoin | SetOperation


@dataclass(frozen=True)
class SharableSubPlan:
    """A sub-plan that keeps state. `place`: the inputs that lead to it from the root of its plan. `key` is equal for
    those that are the same; `windows` are the numbers of those that it reads."""

    place: tuple[int, ...]
    key: str
    windows: range


def sharable_subplans(plan: ContinuousPlan) -> tuple[SharableSubPlan, ...]:
    """The sub-plans that keep state and may be numbered alike in other plans; each comes before those that are in it.
    One that RESTORE asks at every instant is another than one that is asked at ticks."""
    return tuple(_sharable(plan.root, (), 0, is_first=True, at_instants=False))


def _sharable(
    node: Node, place: tuple[int, ...], window: int, is_first: bool, at_instants: bool
) -> Iterator[SharableSubPlan]:
    """Those at and below a node whose first window has this number. `is_first`: its columns are numbered from those of
    that window on."""
    is_first = is_first or _keeps(node)
    if is_first and _keeps(node):
        key = f"{_key(node)}{' at instants' if at_instants else ''}"
        yield SharableSubPlan(place, key, range(window, window + _windows(node)))
    at_instants = node.restores if isinstance(node, ToStream) else at_instants
    for i, one in enumerate(node.inputs):
        yield from _sharable(one, (*place, i), window, is_first and i == 0, at_instants)
        window += _windows(one)


def _windows(node: Node) -> int:
    return sum(isinstance(one, Window) for one in walk(node))


def _keeps(node: Node) -> bool:
    """Whether it is worth sharing: an operator that keeps state, a union of such, or a join that `common_join` does not
    share, since it reads more than windows. Of a table each plan has read its own version."""
    if any(isinstance(one, TableScan) for one in walk(node)):
        return False
    if isinstance(node, Join):
        return any(not isinstance(one, StreamWindow) for one in node.inputs)
    if isinstance(node, MergeUnion):
        return any(isinstance(one, _STATEFUL | Join) for one in walk(node))
    return isinstance(node, _STATEFUL)


def _key(node: Node) -> str:
    """Equal for sub-plans that are the same but for what users call their columns."""
    return hashlib.sha256(repr(_Columns().changed(node)).encode()).hexdigest()


def subplan_key(node: Node) -> str:
    """Equal for sub-plans that are the same, whatever the numbers and the names of their columns are."""
    return _key(_Numbered(_in_order(node)).changed(node))


# -- numbering -------------------------------------------------------------------------------------


def numbered_in_order(plan: ContinuousPlan) -> ContinuousPlan:
    """The plan with its columns numbered in the order in which they are met, inputs first, from left to right; those of
    sub-plans beside the first inputs by what these are."""
    numbering = _Numbering()
    numbering.meet(plan.root, count(), is_first=True)
    ids = numbering.ids
    if all(old == new for old, new in ids.items()):
        return plan
    columns = _Numbered(ids)
    return replace(plan, root=columns.changed(plan.root), order=columns.orders(plan.order))


OWN_IDS = 1 << 20
"""Ids from here on are those of sub-plans that are numbered by what they are."""


class _Numbering:
    """Gives columns ids, the same to a sub-plan in every plan that has it where it may be shared.

    From the root on, first inputs are numbered in order. Any other input that keeps state begins anew, at a number that
    is hashed from the sub-plan; if a plan has the same one twice, the second gets other numbers and is not shared.
    """

    def __init__(self) -> None:
        self.ids: dict[int, int] = {}
        self._begun: set[int] = set()

    def meet(self, node: Node, following: Iterator[int], is_first: bool) -> None:
        if not is_first and _keeps(node):
            following, is_first = self._beginning_at(node), True
        for i, one in enumerate(node.inputs):
            self.meet(one, following, is_first and i == 0)
        for column in node.schema:
            if column.id not in self.ids:
                self.ids[column.id] = next(following)

    def _beginning_at(self, node: Node) -> Iterator[int]:
        begin = OWN_IDS + (int(subplan_key(node)[:8], 16) << 16)
        while begin in self._begun:
            begin += 1 << 16
        self._begun.add(begin)
        return count(begin)


def _in_order(root: Node) -> dict[int, int]:
    """The places of columns by their ids, in the order in which they are met."""
    ids = dict[int, int]()
    for node in walk(root):
        for column in node.schema:
            ids.setdefault(column.id, len(ids))
    return ids


class _Columns:
    """Changes the columns of a plan. A subclass says what becomes of a column and of an expression."""

    def column(self, one: PlanColumn) -> PlanColumn:
        """Without its name."""
        return replace(one, name="")

    def tree(self, one: exp.Expr) -> exp.Expr:
        return one

    def call(self, one: AggregateCall) -> AggregateCall:
        return one

    def orders(self, orders: tuple[Order, ...]) -> tuple[Order, ...]:
        return tuple(replace(one, expression=self.tree(one.expression)) for one in orders)

    def changed(self, node: Node) -> Node:
        """The sub-plan with its columns changed."""
        inputs = tuple(map(self.changed, node.inputs))
        if isinstance(node, StreamWindow | RowsWindow):
            return self._window(node)
        if isinstance(node, TableScan):
            return replace(node, columns=tuple(replace(one, column=self.column(one.column)) for one in node.columns))
        if isinstance(node, Join | SemiJoin | OuterJoin | NrrJoin):
            return self._joined(node, inputs)
        if isinstance(node, MergeUnion | SetOperation):
            return replace(node, inputs=inputs, columns=tuple(map(self.column, node.columns)))
        return self._over(node, inputs[0])

    def _window(self, node: Window) -> Node:
        columns = tuple(replace(one, column=self.column(one.column)) for one in node.columns)
        if isinstance(node, RowsWindow):
            return replace(node, columns=columns, partition=tuple(map(self.column, node.partition)))
        return replace(node, columns=columns)

    def _joined(self, node: Join | SemiJoin | OuterJoin | NrrJoin, inputs: tuple[Node, ...]) -> Node:
        condition = None if node.condition is None else self.tree(node.condition)
        if isinstance(node, Join):
            joined = tuple(tuple(map(self.tree, key)) for key in node.keys)
            return replace(node, inputs=inputs, keys=joined, condition=condition)
        keys = tuple((self.tree(one), self.tree(other)) for one, other in node.keys)
        if isinstance(node, NrrJoin):
            return replace(node, input=inputs[0], table=inputs[1], keys=keys, condition=condition)
        return replace(node, left=inputs[0], right=inputs[1], keys=keys, condition=condition)

    def _over(
        self,
        node: Filter | Project | GroupBy | Distinct | OutputWindow | OutputRows | WindowExpiry | ToStream | TopRows,
        below: Node,
    ) -> Node:
        if isinstance(node, Filter):
            return Filter(below, self.tree(node.predicate))
        if isinstance(node, Project):
            made = ((self.column(one.column), self.tree(one.expression)) for one in node.columns)
            return Project(below, tuple(Computed(*one) for one in made))
        if isinstance(node, GroupBy):
            aggregates = tuple(Aggregated(self.column(one.column), self.call(one.call)) for one in node.aggregates)
            return GroupBy(below, tuple(map(self.column, node.keys)), aggregates)
        if isinstance(node, TopRows):
            return replace(node, input=below, order=self.orders(node.order))
        return replace(node, input=below)


class _Numbered(_Columns):
    """Gives columns other ids."""

    def __init__(self, ids: Mapping[int, int]):
        self._ids = ids
        self._names = {f"c{old}": exp.column(f"c{new}") for old, new in ids.items()}

    def column(self, one: PlanColumn) -> PlanColumn:
        return replace(one, id=self._ids[one.id])

    def tree(self, one: exp.Expr) -> exp.Expr:
        return substituted(one, self._names)

    def call(self, one: AggregateCall) -> AggregateCall:
        return with_texts(one, lambda text, _: text_of(self.tree(parsed(text))))
