"""Operators over sliding windows, by definition (Golab's dissertation, Definitions 2.1 and 3.1, sections 3.3 and 3.5).

Plain Python over lists: at every tick everything is computed anew from the full history. `operators/` does the same
incrementally; tests hold it equal to this.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import localcontext
from itertools import product
from typing import Any

from sqlglot import exp

from windrow.cql.select_text import parse_expression
from windrow.plan.accumulators import Accumulator, AggregateCall
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
    Window,
)
from windrow.reference.negation import last_rows, outer_join, semi_join, set_operation
from windrow.reference.window_join import Tuple, eager_join
from windrow.types import POINT_MAX

Values = dict[str, Any]
Row = tuple[Any, ...]
History = Sequence[Sequence[tuple[int, Row]]]
"""For every window of the plan, its tuples: point, and the values of the window's columns."""

NEVER = POINT_MAX


@dataclass(frozen=True)
class WindowOperators:
    """A plan over a history. `first` is the first tick that is processed. `at_instants`: it is looked at at every
    instant, not only at ticks, as RESTORE asks. `table` gives the rows of a table just before a point, by the names of
    its columns."""

    plan: ContinuousPlan
    history: History
    first: int
    at_instants: bool = False
    table: Callable[[str, int], Sequence[Mapping[str, Any]]] = lambda name, tick: ()
    _known: dict[tuple[int, int], list[Tuple]] = field(default_factory=dict)
    _below: dict[int, WindowOperators] = field(default_factory=dict)

    @property
    def step(self) -> int:
        return 1 if self.at_instants else self.plan.step

    @property
    def begins(self) -> int:
        """The first tick or instant."""
        return self.first - self.plan.step + self.step

    def answer(self, tick: int) -> list[Row]:
        """R(tick): the rows of the answer, in the order of the output columns."""
        names = [column.sql for column in self.plan.schema]
        return [tuple(values[name] for name in names) for values in self.relation(self.plan.root, tick)]

    def relation(self, node: Node, tick: int) -> list[Values]:
        """The rows that a node shows at a tick."""
        if isinstance(node, GroupBy) and not _is_internal(node):
            return list(self._groups(node, tick).values())
        if isinstance(node, TopRows):
            return _top(node, self.relation(node.input, tick))
        if isinstance(node, TableScan):
            rows = self.table(node.table, tick)
            return [{one.column.sql: row[one.name] for one in node.columns} for row in rows]
        if isinstance(node, SemiJoin | OuterJoin | SetOperation | RowsWindow):
            return self._withdrawn(node, tick)
        if isinstance(node, OutputRows):
            return self._last_results(node, tick)
        if isinstance(node, Join | MergeUnion | Distinct) and _is_strict(node):
            return self._of_relations(node, tick)
        if isinstance(node, Filter):
            return [row for row in self.relation(node.input, tick) if value_of(node.predicate, row) is True]
        if isinstance(node, Project):
            return [_projected(node, row) for row in self.relation(node.input, tick)]
        return [row.values for row in self.rows(node, tick) if row.ts < tick <= row.until]

    def _withdrawn(self, node: SemiJoin | OuterJoin | SetOperation | RowsWindow, tick: int) -> list[Values]:
        """What operators show whose rows may be withdrawn at any time."""
        if isinstance(node, RowsWindow):
            keys = [column.sql for column in node.partition]
            tuples = [(row.ts, row.values) for row in self._window(node)]
            return last_rows(tuples, node.size, lambda values: _key(values[key] for key in keys), tick)
        left, right = (self.relation(one, tick) for one in node.inputs)
        if isinstance(node, SetOperation):
            names = [column.sql for column in node.columns]
            shown = {_key(row.values()): list(row.values()) for row in (*left, *right)}
            mine, theirs = (Counter(_key(row.values()) for row in rows) for rows in (left, right))
            found = set_operation(mine, theirs, node.kind.value, node.is_all)
            return [dict(zip(names, shown[value], strict=True)) for value in found.elements()]
        if isinstance(node, SemiJoin):
            return semi_join(left, right, lambda a, b: _are_matches(node, a, b), node.is_anti)
        none = [dict.fromkeys(column.sql for column in one.schema) for one in node.inputs]
        padding = none[0] if node.keeps_right else None, none[1] if node.keeps_left else None
        return outer_join(left, right, lambda a, b: _are_matches(node, a, b), padding)

    def _last_results(self, node: OutputRows, tick: int) -> list[Values]:
        """By birth, then by all columns."""
        born = [row for row in self.rows(node.input, tick) if row.ts < tick]
        born.sort(key=lambda row: (row.ts, [_rank(value, True) for value in row.values.values()]))
        return [row.values for row in born[-node.size :]]

    def _of_relations(self, node: Join | MergeUnion | Distinct, tick: int) -> list[Values]:
        """The relational operator over what its inputs show at the tick: some of it may be withdrawn at any time."""
        inputs = [self.relation(one, tick) for one in node.inputs]
        if isinstance(node, Join):
            joined = ({name: v for part in parts for name, v in part.items()} for parts in product(*inputs))
            return [values for values in joined if _matches(node, values)]
        if isinstance(node, MergeUnion):
            return [_renamed(node, values) for rows in inputs for values in rows]
        return list({_key(values.values()): values for values in inputs[0]}.values())

    def rows(self, node: Node, tick: int) -> list[Tuple]:
        """All lifetimes of a node that were born below a tick, also those that have ended."""
        known = self._known.get((id(node), tick))
        if known is None:
            known = self._known[id(node), tick] = self._rows(node, tick)
        return known

    def _rows(self, node: Node, tick: int) -> list[Tuple]:
        if isinstance(node, StreamWindow):
            return [row for row in self._window(node) if row.ts < tick]
        if isinstance(node, Filter):
            return [row for row in self.rows(node.input, tick) if value_of(node.predicate, row.values) is True]
        if isinstance(node, Project):
            return [row._replace(values=_projected(node, row.values)) for row in self.rows(node.input, tick)]
        if isinstance(node, MergeUnion):
            return [
                row._replace(values=_renamed(node, row.values)) for one in node.inputs for row in self.rows(one, tick)
            ]
        if isinstance(node, Join):
            return eager_join([self.rows(one, tick) for one in node.inputs], lambda values: _matches(node, values))
        if isinstance(node, NrrJoin):
            return [one for row in self.rows(node.input, tick) for one in self._as_of_birth(node, row)]
        if isinstance(node, OutputWindow):
            born = (_windowed(row.ts, row.values, node) for row in self.rows(node.input, tick))
            return [row for row in born if row.ts < tick]
        if tick < self.begins:
            return []
        before = self.rows(node, tick - self.step) if tick > self.begins else []
        if isinstance(node, ToStream):
            return [*before, *self._streamed(node, tick)]
        return [*before, *self._reported(node, tick)]

    def _as_of_birth(self, node: NrrJoin, row: Tuple) -> list[Tuple]:
        """A row with those of a table that is NON RETROACTIVE, as it is when the row is born (Definition 3.1)."""
        known = self.relation(node.table, row.ts + 1)
        met = [one for one in known if _are_matches(node, row.values, one)]
        if node.is_left and not met:
            met = [dict.fromkeys(column.sql for column in node.table.schema)]
        return [row._replace(values={**row.values, **one}) for one in met]

    def _window(self, node: Window) -> list[Tuple]:
        at = next(i for i, one in enumerate(self.plan.windows) if one is node)
        names = [column.sql for column in node.schema]
        return [_windowed(t, dict(zip(names, row, strict=True)), node) for t, row in self.history[at]]

    def _reported(self, node: Node, tick: int) -> list[Tuple]:
        """What a node says at one tick: rows that are there for this tick alone, or that stay for ever."""
        if isinstance(node, Distinct):
            alive = [row.values for row in self.rows(node.input, tick) if tick <= row.exp]
            found = {_key(values.values()): values for values in alive}
            return [Tuple(tick - 1, tick, tick, values) for values in found.values()]
        if isinstance(node, SemiJoin | OuterJoin | SetOperation | RowsWindow):
            return [Tuple(tick - 1, tick, tick, values) for values in self._withdrawn(node, tick)]
        if isinstance(node, OutputRows):
            return [Tuple(tick - 1, tick, tick, values) for values in self._last_results(node, tick)]
        assert isinstance(node, GroupBy)
        before = self._groups(node, tick - self.step) if tick > self.begins else {}
        now = self._groups(node, tick)
        fresh = [row for key, row in now.items() if key not in before or not _same(before[key], row)]
        return [Tuple(tick - 1, NEVER, NEVER, values) for values in fresh]

    def _streamed(self, node: ToStream, tick: int) -> list[Tuple]:
        """What a stream reports above the tick or instant before this one, and up to it."""
        below = self._looking(node)
        found: list[Tuple] = []
        for at in range(tick - self.step + 1, tick + 1):
            if node.restores and node.kind is Streaming.ISTREAM:
                given = _minus(below.shown(at), below.shown(at - 1))
            else:
                given = self._of_tick(node, below, at) if (at - self.first) % self.plan.step == 0 else []
            found += [Tuple(at - 1, NEVER, NEVER, values) for values in given]
        return found

    def _of_tick(self, node: ToStream, below: WindowOperators, tick: int) -> list[Values]:
        before, now = below.shown(tick - self.plan.step), below.shown(tick)
        if node.kind is Streaming.ISTREAM:
            return _minus(now, before)
        if node.kind is Streaming.DSTREAM:
            return _minus(before, now)
        if not node.restores:
            return now
        stayed, came = before, list[Values]()
        for at in range(tick - self.plan.step + 1, tick + 1):
            stayed = _minus(stayed, _minus(stayed, below.shown(at)))
            came += _minus(below.shown(at), below.shown(at - 1))
        return [*stayed, *came]

    def _looking(self, node: ToStream) -> WindowOperators:
        """The plan below a stream, at the ticks or instants at which the stream looks at it."""
        if id(node) not in self._below:
            plan = replace(self.plan, root=node.input)
            mine = {id(window) for window in plan.windows}
            pairs = zip(self.plan.windows, self.history, strict=True)
            history = [rows for window, rows in pairs if id(window) in mine]
            self._below[id(node)] = WindowOperators(plan, history, self.first, node.restores, self.table)
        return self._below[id(node)]

    def shown(self, tick: int) -> list[Values]:
        """R(tick); before the first tick there is nothing."""
        return self.relation(self.plan.root, tick) if tick >= self.begins else []

    def _groups(self, node: GroupBy, tick: int) -> dict[Hashable, Values]:
        groups: dict[Hashable, list[Values]] = {} if node.keys else {(): []}
        if _is_strict(node.input):
            alive = self.relation(node.input, tick)
        else:
            alive = [row.values for row in self.rows(node.input, tick) if tick <= row.exp]
        for values in alive:
            groups.setdefault(_key(values[key.sql] for key in node.keys), []).append(values)
        out = {}
        for group, members in groups.items():
            keys = {key.sql: members[0][key.sql] for key in node.keys}
            out[group] = keys | {one.column.sql: aggregate(one.call, members) for one in node.aggregates}
        return out


def _is_internal(node: Node) -> bool:
    """Whether rows that the node sees come from an INTERNAL window. A window on a sub-query makes them anew."""
    if isinstance(node, StreamWindow | OutputWindow):
        return node.lifetime.internal
    if isinstance(node, OutputRows):
        return False
    return any(_is_internal(one) for one in node.inputs)


def _is_strict(node: Node) -> bool:
    """Whether rows of the output may be withdrawn at any time, so that it has no lifetimes."""
    if isinstance(node, StreamWindow | OutputWindow | ToStream | NrrJoin):
        return False
    if isinstance(node, GroupBy):
        return not _is_internal(node)
    if isinstance(node, TopRows | SemiJoin | OuterJoin | SetOperation | RowsWindow | OutputRows | TableScan):
        return True
    return any(_is_strict(one) for one in node.inputs)


def _renamed(node: MergeUnion, values: Values) -> Values:
    return dict(zip((column.sql for column in node.columns), values.values(), strict=True))


def _windowed(point: int, values: Values, node: Window | OutputWindow) -> Tuple:
    ts = point + node.lifetime.offset
    end = NEVER if node.lifetime.range is None else ts + node.lifetime.range
    return Tuple(ts, end, NEVER if node.lifetime.internal else end, values)


def _projected(node: Project, row: Values) -> Values:
    return {one.column.sql: value_of(one.expression, row) for one in node.columns}


def _matches(node: Join, values: Values) -> bool:
    for key in node.keys:
        first, *others = (value_of(one, values) for one in key)
        if first is None or any(other is None or _key([other]) != _key([first]) for other in others):
            return False
    return node.condition is None or value_of(node.condition, values) is True


def _are_matches(node: SemiJoin | OuterJoin | NrrJoin, left: Values, right: Values) -> bool:
    safe = node.null_safe if isinstance(node, SemiJoin) else ()
    for k, (mine, theirs) in enumerate(node.keys):
        one, other = value_of(mine, left), value_of(theirs, right)
        if (one is None or other is None) and not (safe and safe[k] and one is other):
            return False
        if _key([one]) != _key([other]):
            return False
    return node.condition is None or value_of(node.condition, {**left, **right}) is True


def _top(node: TopRows, rows: Sequence[Values]) -> list[Values]:
    """By the order, ties by all columns."""
    ordered = sorted(rows, key=lambda row: [_rank(value, True) for value in row.values()])
    for one in reversed(node.order):
        ordered.sort(key=lambda row: _rank(value_of(one.expression, row), one.nulls_first != one.descending), reverse=one.descending)  # fmt: skip  # noqa: E501
    return ordered[: node.limit]


def _rank(value: Any, nulls_low: bool) -> tuple[int, Any]:
    if value is None:
        return (0 if nulls_low else 3), 0
    if isinstance(value, float) and math.isnan(value):
        return 2, 0
    return 1, value


def _minus(one: Sequence[Values], other: Sequence[Values]) -> list[Values]:
    """The difference of multisets."""
    left = Counter(_key(values.values()) for values in other)
    out = []
    for values in one:
        key = _key(values.values())
        if left[key]:
            left[key] -= 1
        else:
            out.append(values)
    return out


def _same(one: Values, other: Values) -> bool:
    return _key(one.values()) == _key(other.values())


def _key(values: Any) -> Hashable:
    """Values as GROUP BY compares them: NULL, NaN and zero are one value each."""
    return tuple(_plain(value) for value in values)


def _plain(value: Any) -> Hashable:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(_plain(one) for one in value)
    if isinstance(value, dict):
        return tuple((name, _plain(one)) for name, one in value.items())
    scalar: Hashable = value
    return scalar


def aggregate(call: AggregateCall, members: Sequence[Values]) -> Any:
    """An aggregate over the rows of a group."""
    part = call.parts[0][1]
    if call.function == "COUNT":
        return len(_arguments(part, members))
    if call.values:
        return _holistic(call, members)
    found = _arguments(part, members)
    if not found:
        return None
    if call.function in ("MIN", "MAX"):
        return (min if call.function == "MIN" else max)(found, key=lambda value: _rank(value, True))
    if call.function == "SUM":
        total = _sum(found)
        return None if isinstance(total, int) and not -(1 << 63) <= total < 1 << 63 else total
    if call.function == "AVG":
        return _sum(found) / len(found)
    mean = _sum(found) / len(found)
    divisor = len(found) - (call.function in ("VARIANCE", "STDDEV"))
    if not divisor:
        return None
    variance = math.fsum((value - mean) ** 2 for value in found) / divisor
    return math.sqrt(variance) if call.function.startswith("STDDEV") else variance


def _sum(values: Sequence[Any]) -> Any:
    if not any(isinstance(value, float) for value in values):
        with localcontext() as exactly:
            exactly.prec = 100
            return sum(values)
    if any(math.isnan(value) for value in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _arguments(part: Accumulator, members: Sequence[Values]) -> list[Any]:
    """The arguments of the rows that count."""
    condition = None if part.condition is None else parse_expression(part.condition)
    counting = [row for row in members if condition is None or value_of(condition, row) is True]
    if part.arg is None:
        return [True] * len(counting)
    tree = parse_expression(part.arg)
    return [value for row in counting if (value := value_of(tree, row)) is not None]


def _holistic(call: AggregateCall, members: Sequence[Values]) -> Any:
    condition = call.parts[0][1].condition
    tree = None if condition is None else parse_expression(condition)
    counting = [row for row in members if tree is None or value_of(tree, row) is True]
    trees = [parse_expression(value.sql) for value in call.values]
    found = [tuple(value_of(one, row) for one in trees) for row in counting]
    found = [values for values in found if None not in values]
    if call.function == "COUNT(DISTINCT)":
        return len({_key(values) for values in found})
    values = sorted((one for (one,) in found), key=lambda value: _rank(value, True))
    if call.function in ("TOP_K", "FREQUENT_ITEMS"):
        return _most_frequent(call, values)
    if not values:
        return None
    if call.function == "MEDIAN":
        return 0.5 * values[(len(values) - 1) // 2] + 0.5 * values[len(values) // 2]
    return values[max(1, math.floor(call.parameters[0] * len(values))) - 1]


def _most_frequent(call: AggregateCall, values: Sequence[Any]) -> Any:
    """TOP_K; or FREQUENT_ITEMS with the group as its only pane (Algorithm 6): the values above the k-th count."""
    counts, k = Counter(_key([value]) for value in values), int(call.parameters[0])
    first = {_key([value]): value for value in reversed(values)}
    ranked = sorted(counts, key=lambda key: (-counts[key], _rank(first[key], True)))
    top = [{"item": first[key], "count": counts[key]} for key in ranked[:k]]
    if call.function == "TOP_K":
        return top
    least = top[-1]["count"] if len(top) == k else 0
    above = [one | {"at_most": one["count"]} for one in top if one["count"] > least]
    return {"threshold": least, "items": above}


def value_of(tree: exp.Expr, row: Mapping[str, Any]) -> Any:
    """An expression over a row, with SQL's NULL: columns, literals, comparisons, + − * %, AND, OR, NOT, IN, IS NULL,
    IS TRUE, COALESCE, casts of numbers.
    """
    if isinstance(tree, exp.Column):
        return row[tree.name]
    if isinstance(tree, exp.Literal):
        return str(tree.this) if tree.is_string else float(tree.this) if "." in str(tree.this) else int(tree.this)
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Paren):
        return value_of(tree.this, row)
    if isinstance(tree, exp.Cast):
        inner = value_of(tree.this, row)
        return None if inner is None else float(inner) if tree.to.this == exp.DataType.Type.DOUBLE else int(inner)
    if isinstance(tree, exp.Coalesce):
        found = (value_of(one, row) for one in (tree.this, *tree.expressions))
        return next((value for value in found if value is not None), None)
    if isinstance(tree, exp.Is):
        inner = value_of(tree.this, row)
        return inner is None if isinstance(tree.expression, exp.Null) else inner is bool(tree.expression.this)
    if isinstance(tree, exp.Not):
        inner = value_of(tree.this, row)
        return None if inner is None else not inner
    if isinstance(tree, exp.In):
        inner = value_of(tree.this, row)
        return None if inner is None else inner in [value_of(one, row) for one in tree.expressions]
    one, other = value_of(tree.this, row), value_of(tree.expression, row)
    if isinstance(tree, exp.And | exp.Or):
        decisive = isinstance(tree, exp.Or)
        return decisive if decisive in (one, other) else None if None in (one, other) else not decisive
    return None if one is None or other is None else _binary(tree, one, other)


def _binary(tree: exp.Expr, one: Any, other: Any) -> Any:
    if isinstance(tree, exp.Add):
        return one + other
    if isinstance(tree, exp.Sub):
        return one - other
    if isinstance(tree, exp.Mul):
        return one * other
    if isinstance(tree, exp.Mod):
        return None if not other else int(math.fmod(one, other))
    left, right = _rank(one, True), _rank(other, True)
    if isinstance(tree, exp.EQ):
        return left == right
    if isinstance(tree, exp.NEQ):
        return left != right
    if isinstance(tree, exp.LT):
        return left < right
    if isinstance(tree, exp.GT):
        return left > right
    if isinstance(tree, exp.LTE):
        return left <= right
    if isinstance(tree, exp.GTE):
        return left >= right
    raise ValueError(f"not in the reference: {tree}")
