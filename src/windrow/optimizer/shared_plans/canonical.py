"""A name for what a sub-plan computes, whatever its column ids: sub-plans with one name can run once.

The name describes the whole sub-plan. A column is named by where it comes from, so neither ids, nor what the user calls
a column, nor the order of a window's columns matters. The inputs of a join are sorted by their own names, conditions by
their text. Two sub-plans that mean the same may have different names (then they run twice); never the reverse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from windrow.plan.accumulators import AggregateCall
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    OutputWindow,
    Project,
    StreamWindow,
    TopRows,
    ToStream,
)
from windrow.plan.algebra.rewriting import conjuncts, parsed, substituted, text_of, with_texts


@dataclass(frozen=True)
class CanonicalPlan:
    """`key`: equal for plans that compute the same. `columns`: the ids of the output's columns, in an order that is the
    same for all plans with this key: column i of one plan is column i of the other."""

    key: str
    columns: tuple[int, ...]

    @property
    def digest(self) -> str:
        """The key in 16 characters."""
        return hashlib.sha1(self.key.encode()).hexdigest()[:16]


def canonical(plan: ContinuousPlan | Node) -> CanonicalPlan:
    """The name of a sub-plan, or of a whole plan with its ticks."""
    if isinstance(plan, ContinuousPlan):
        named = _named(plan.root)
        shown = ", ".join(named.names[column.id] for column in plan.schema)
        key = f"plan({plan.point}, {plan.step}, {plan.origin}, {plan.periodic}, [{shown}], {named.key})"
        return CanonicalPlan(key, tuple(column.id for column in plan.schema))
    named = _named(plan)
    return CanonicalPlan(named.key, tuple(sorted(named.names, key=lambda i: named.names[i])))


@dataclass(frozen=True)
class _Named:
    """The key of a node, and the names of its columns by id; names differ from each other."""

    key: str
    names: dict[int, str]

    def text(self, expression: exp.Expr) -> str:
        values = {f"c{i}": exp.column(exp.to_identifier(name, quoted=True)) for i, name in self.names.items()}
        return text_of(substituted(expression, values))


def _named(node: Node) -> _Named:
    rule: Callable[[Any], _Named] = _RULES[type(node)]
    return rule(node)


def _distinct_names(names: list[tuple[int, str]]) -> dict[int, str]:
    """Names by id; of equal ones, later ones get a number."""
    found: dict[int, str] = {}
    count: dict[str, int] = {}
    for i, name in names:
        count[name] = count.get(name, 0) + 1
        found[i] = name if count[name] == 1 else f"{name} #{count[name]}"
    return found


def _condition(named: _Named, condition: exp.Expr | None) -> str:
    return " AND ".join(sorted(f"({named.text(one)})" for one in conjuncts(condition)))


def _stream_window(node: StreamWindow) -> _Named:
    names = _distinct_names([(one.column.id, f"{one.sql} {one.column.type}") for one in node.columns])
    axis = f"{node.stream}.{node.attribute.column} {node.attribute.type}"
    predicate = "" if node.predicate is None else _condition(_Named("", {}), parsed(node.predicate))
    lifetime = node.lifetime
    key = f"window({axis}, {lifetime.range}, {lifetime.offset}, {lifetime.internal}, {sorted(names.values())}"
    return _Named(f"{key}, {predicate})", names)


def _filter(node: Filter) -> _Named:
    named = _named(node.input)
    return _Named(f"filter({_condition(named, node.predicate)}, {named.key})", named.names)


def _project(node: Project) -> _Named:
    named = _named(node.input)
    texts = [(one.column.id, f"{named.text(one.expression)} {one.column.type}") for one in node.columns]
    names = _distinct_names(texts)
    return _Named(f"project({sorted(names.values())}, {named.key})", names)


def _merge_union(node: MergeUnion) -> _Named:
    parts = []
    for one in node.inputs:
        named = _named(one)
        parts.append(f"{[named.names[column.id] for column in one.schema]} {named.key}")
    names = {column.id: f"u{i}" for i, column in enumerate(node.columns)}
    return _Named(f"union({', '.join(sorted(parts))})", names)


def _join(node: Join) -> _Named:
    sides = [_named(one) for one in node.inputs]
    keyed = [(side.key, [side.text(key[i]) for key in node.keys]) for i, side in enumerate(sides)]
    order = sorted(range(len(sides)), key=lambda i: (keyed[i][0], sorted(keyed[i][1]), i))
    names = {i: f"{place}.{name}" for place, side in enumerate(order) for i, name in sides[side].names.items()}
    whole = _Named("", names)
    keys = sorted(" = ".join(whole.text(key[i]) for i in order) for key in node.keys)
    inputs = ", ".join(sides[i].key for i in order)
    return _Named(f"join({keys}, {_condition(whole, node.condition)}, {inputs})", names)


def _distinct(node: Distinct) -> _Named:
    named = _named(node.input)
    return _Named(f"distinct({named.key})", named.names)


def _group_by(node: GroupBy) -> _Named:
    named = _named(node.input)
    keys = [(key.id, named.names[key.id]) for key in node.keys]
    calls = [(one.column.id, _call_text(named, one.call)) for one in node.aggregates]
    names = _distinct_names([*keys, *calls])
    return _Named(f"group by({sorted(name for _, name in keys)}, {sorted(names.values())}, {named.key})", names)


def _call_text(named: _Named, call: AggregateCall) -> str:
    """An aggregate over named columns. Everything of the call counts: accumulators, values and parameters."""
    return repr(with_texts(call, lambda text, kind: named.text(parsed(text))))


def _output_window(node: OutputWindow) -> _Named:
    named = _named(node.input)
    return _Named(f"output window({node.lifetime}, {named.key})", named.names)


def _to_stream(node: ToStream) -> _Named:
    named = _named(node.input)
    return _Named(f"{node.kind.value}({named.key})", named.names)


def _top_rows(node: TopRows) -> _Named:
    """Ties are broken by all columns in their order, so that order counts here."""
    named = _named(node.input)
    order = [f"{named.text(one.expression)} {one.descending} {one.nulls_first}" for one in node.order]
    ties = [named.names[column.id] for column in node.schema]
    return _Named(f"top rows({order}, {ties}, {node.limit}, {named.key})", named.names)


_RULES: dict[type[Node], Callable[[Any], _Named]] = {
    StreamWindow: _stream_window,
    Filter: _filter,
    Project: _project,
    MergeUnion: _merge_union,
    Join: _join,
    Distinct: _distinct,
    GroupBy: _group_by,
    OutputWindow: _output_window,
    ToStream: _to_stream,
    TopRows: _top_rows,
}
