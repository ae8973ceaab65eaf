"""GROUP BY, HAVING and aggregates: a Project that computes keys and arguments, a GroupBy, and expressions over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from windrow.errors import BindError, FunctionError, UnsupportedError
from windrow.plan.aggregates import decompose
from windrow.plan.algebra.nodes import (
    Aggregated,
    Computed,
    Filter,
    GroupBy,
    Node,
    PlanColumn,
    Project,
    StreamWindow,
    columns_in,
)
from windrow.plan.calls import ArgumentError, ParsedCall, check_call, parameters_of, written_call
from windrow.plan.continuous.deciding import has_aggregate
from windrow.plan.continuous.expressions import Expressions, is_value
from windrow.plan.continuous.inputs import named_column
from windrow.plan.continuous.scope import placed
from windrow.plan.continuous.shape import shown
from windrow.plan.mistyped import OVER_GROUPS, refuse_mistyped
from windrow.plan.nodes import Key
from windrow.plan.trees import not_grouped, replace_children
from windrow.types import SqlType


@dataclass(frozen=True)
class SelectItem:
    """An item of the select list: its name, its expression, and the item as written."""

    name: str
    tree: exp.Expr
    written: exp.Expr


class GroupBinder:
    """Binds the grouped expressions of one SELECT."""

    def __init__(self, expressions: Expressions, items: Sequence[SelectItem]):
        self._expressions = expressions
        self._items = items
        self._below: dict[str, Computed] = {}
        self._keys: dict[str, PlanColumn] = {}
        self._calls: dict[str, Aggregated] = {}

    # -- keys ----------------------------------------------------------------------------------

    def add_keys(self, group: exp.Expr | None) -> None:
        for node in group.expressions if group is not None else ():
            tree = self._group_item(node)
            self._expressions.no_aggregate(tree, "GROUP BY", "Group by a column or an expression of columns.")
            self._add_key(self._expressions.resolve(tree).unnest(), node)

    def _add_key(self, tree: exp.Expr, node: exp.Expr) -> None:
        lowered, kind = self._expressions.value(tree, node)
        if kind.name == "VOID" or kind.is_nested:
            what = "NULL" if kind.name == "VOID" else f"a value of type {kind}"
            raise BindError(
                f"GROUP BY takes a typed expression, not {what}",
                place=self._expressions.place(node),
                remedy="Leave it out.",
            )
        self._keys.setdefault(shown(tree), self._computed(lowered, kind, _name(node)))

    def _group_item(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Literal) and not node.is_string:
            return ordinal(self._expressions, node, self._items, "GROUP BY").tree
        if isinstance(node, exp.Column) and not node.table and not self._expressions.scope.has(node.name):
            for item in self._items:
                if item.name.lower() == node.name.lower():
                    return item.tree
            raise self._expressions.scope.unknown(node, [item.name for item in self._items])
        return node

    def carry(self, tree: exp.Expr) -> None:
        """Make functions of the keys that only Spark can evaluate keys themselves; this splits no group."""
        if written_call(tree) is not None or tree.find(exp.Column) is None:
            return
        if has_aggregate(tree):
            for part in tree.iter_expressions():
                self.carry(part)
            return
        try:
            self._expressions.computable(self.final(tree, "the select list"), tree, grouped=True)
        except FunctionError:
            resolved = self._expressions.resolve(tree).unnest()
            if self._expressions.stream_of(resolved) is not None:
                self._add_key(resolved, tree)
        except BindError:
            return  # a column that is not grouped: binding the select list reports it with its place

    # -- expressions over keys and aggregates ------------------------------------------------------

    def final(self, tree: exp.Expr, clause: str) -> exp.Expr:
        """The expression over the columns of the GroupBy."""

        def rewrite(node: exp.Expr) -> exp.Expr:
            check_call(node, self._expressions.place)
            call = written_call(node)
            if call is not None:
                return placed(named_column(self._call(call)), node)
            if isinstance(node, (exp.Star, exp.Identifier)):
                return node
            if is_value(node):
                key = self._keys.get(shown(self._expressions.scope.resolve(node).unnest()))
                if key is not None:
                    return placed(named_column(key), node)
            if isinstance(node, exp.Column):
                self._expressions.resolve(node)
                raise not_grouped(node, clause, self._expressions.place(node))
            return replace_children(node, rewrite)

        return rewrite(tree.copy())

    def expanded(self, tree: exp.Expr) -> exp.Expr:
        """The tree with aliases of the select list replaced by their expressions; columns take precedence."""
        aliases = {item.name.lower(): item.tree for item in self._items}

        def expand(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or node.table or self._expressions.scope.has(node.name):
                return node
            meant = aliases.get(node.name.lower())
            if meant is None:
                raise self._expressions.scope.unknown(node, [item.name for item in self._items])
            return exp.paren(meant.copy())

        return tree.copy().transform(expand)

    # -- aggregates ----------------------------------------------------------------------------

    def _call(self, found: ParsedCall) -> PlanColumn:
        expressions = self._expressions
        for inner in found.arguments:
            expressions.no_aggregate(inner, "an aggregate", "Aggregates cannot be nested.")
        parameters = parameters_of(found, expressions.signed)
        values = [expressions.value(expressions.resolve(arg).unnest(), arg) for arg in found.arguments]
        condition = self._condition(found)
        key = "\0".join(map(str, (found.function, *(shown(v) for v, _ in values), *parameters, condition)))
        if key not in self._calls:
            self._check(found, [kind for _, kind in values], condition)
            given = [
                Key(self._computed(value, kind, _name(arg)).sql, kind)
                for (value, kind), arg in zip(values, found.arguments, strict=True)
            ]
            first, kind = (given[0].sql, given[0].type) if given else (None, None)
            call = decompose(found.function, first, kind, condition, parameters, tuple(given[1:]))
            name = shown(found.node).lower()
            self._calls[key] = Aggregated(expressions.columns.new(name, call.result), call)
        return self._calls[key].column

    def _condition(self, found: ParsedCall) -> str | None:
        if found.condition is None:
            return None
        self._expressions.no_aggregate(found.condition, "FILTER", "Aggregates cannot be nested.")
        lowered, kind = self._expressions.value(self._expressions.resolve(found.condition), found.condition)
        self._expressions.boolean(kind, found.condition, "FILTER")
        if kind.name == "VOID":
            lowered, kind = exp.cast(lowered, "BOOLEAN"), SqlType("BOOLEAN")
        return self._computed(lowered, kind, _name(found.condition)).sql

    def _check(self, found: ParsedCall, kinds: Sequence[SqlType], condition: str | None) -> None:
        """Raise the errors of the call with its arguments as the user wrote them."""
        place = self._expressions.place
        given = [Key(shown(arg), kind) for arg, kind in zip(found.arguments, kinds, strict=True)]
        first, kind = (given[0].sql, given[0].type) if given else (None, None)
        parameters = parameters_of(found, self._expressions.signed)
        try:
            decompose(found.function, first, kind, condition, parameters, tuple(given[1:]))
        except UnsupportedError as error:
            raise UnsupportedError(error.message, place=place(found.node), remedy=error.remedy) from None
        except BindError as error:
            at = error.at if isinstance(error, ArgumentError) else 0
            where = place(found.arguments[at] if found.arguments else None)
            raise BindError(error.message, place=where, remedy=error.remedy) from None

    def _computed(self, lowered: exp.Expr, kind: SqlType, name: str) -> PlanColumn:
        """The column below the GroupBy that has this value."""
        sql = shown(lowered)
        if sql not in self._below:
            is_column = isinstance(lowered, exp.Column)
            column = self._expressions.columns[lowered.name] if is_column else self._expressions.columns.new(name, kind)
            self._below[sql] = Computed(column, lowered)
        return self._below[sql].column

    # -- nodes ---------------------------------------------------------------------------------

    @property
    def used(self) -> set[str]:
        """The columns that keys and arguments read."""
        return {name for one in self._below.values() for name in columns_in(one.expression)}

    def node(self, base: Node, having: exp.Expr | None) -> Node:
        """GroupBy and HAVING over the inputs."""
        below = tuple(self._below.values())
        plain = isinstance(base, StreamWindow) and all(one.is_renamed for one in below)
        made: Node = GroupBy(
            base if plain else Project(base, below),
            tuple(dict.fromkeys(self._keys.values())),
            tuple(self._calls.values()),
        )
        return made if having is None else Filter(made, having)

    def having(self, clause: exp.Expr | None) -> exp.Expr | None:
        if clause is None:
            return None
        expressions = self._expressions
        lowered = self.final(self.expanded(clause.this), "HAVING")
        columns = [*self._keys.values(), *(one.column for one in self._calls.values())]
        types = {column.sql: column.type for column in columns}
        refuse_mistyped(lowered, types, expressions.place, OVER_GROUPS)
        expressions.computable(lowered, clause.this, grouped=True)
        expressions.boolean(expressions.type_of(lowered), clause.this, "HAVING")
        return lowered


def _name(tree: exp.Expr) -> str:
    return tree.name if isinstance(tree, exp.Column) else shown(tree).lower()


def ordinal(expressions: Expressions, node: exp.Expr, items: Sequence[SelectItem], clause: str) -> SelectItem:
    """The item of the select list with this number."""
    if not node.name.isdigit() or not 1 <= int(node.name) <= len(items):
        columns = "1 column" if len(items) == 1 else f"{len(items)} columns"
        raise BindError(
            f"{clause} {node.name}: the select list has {columns}",
            place=expressions.place(node),
            remedy="Give a number within it, counted from 1, or the name of a column.",
        )
    return items[int(node.name) - 1]
