"""Expressions: what is over one stream becomes a column that Spark computes, what is above is for DuckDB.

A resolved tree has columns of inputs (`scope.resolved`); a lowered tree has plan columns `c<id>`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from windrow.cql.final.sql import to_duckdb
from windrow.cql.tokens import nearest_place
from windrow.errors import BindError, FunctionError, Place
from windrow.plan.algebra.nodes import columns_in
from windrow.plan.binder import TypesOf
from windrow.plan.continuous.deciding import has_aggregate
from windrow.plan.continuous.inputs import Columns, StreamInput, named_column
from windrow.plan.continuous.scope import Scope, input_of, inputs_in, placed
from windrow.plan.continuous.shape import shown, signed_place
from windrow.plan.mistyped import refuse_mistyped
from windrow.plan.trees import replace_children
from windrow.types import SqlType

_ABOVE = "over aggregates and group keys"
_REMEDIES = (
    "Write its value.",
    "Compute it over one stream in a sub-query, where Spark evaluates it: "
    "FROM (SELECT …, f(x) AS y FROM s [RANGE …]) AS s.",
    "It needs columns of several inputs. Compute it over each of them first, where Spark evaluates it, and put the "
    "results together with + or CONCAT: CONCAT(f(s.x), f(t.x)) instead of f(CONCAT(s.x, t.x)).",
)
"""What to write for an expression that only Spark computes, over no input, over one, and over several."""


class Expressions:
    """Lowers the expressions of one SELECT. `extended` are the inputs that an outer join may fill with NULL so far:
    Spark computes their columns on arrival, but no expressions, which of NULL may be something else than NULL."""

    def __init__(self, scope: Scope, columns: Columns, types_of: TypesOf, text: str):
        self.scope = scope
        self.columns = columns
        self.types_of = types_of
        self.text = text
        self.extended: set[int] = set()

    def place(self, node: exp.Expr | None) -> Place | None:
        return None if node is None else nearest_place(node, self.text)

    def signed(self, value: exp.Expr | None) -> Place | None:
        return signed_place(value, self.text)

    def types_at(self, node: exp.Expr) -> TypesOf:
        """Spark's analyser; an error without a place gets that of the node."""

        def types_of(columns: Sequence[tuple[str, SqlType]], expressions: Sequence[str]) -> list[SqlType]:
            try:
                return self.types_of(columns, expressions)
            except BindError as error:
                raise BindError(error.message, place=error.place or self.place(node), remedy=error.remedy) from None

        return types_of

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """The tree with its columns resolved and its comparisons checked."""
        found = self.scope.resolve(tree)
        self._refuse_mistyped(found)
        return found

    def _refuse_mistyped(self, tree: exp.Expr) -> None:
        types: dict[str, set[SqlType]] = {}
        for column in tree.find_all(exp.Column):
            item = self.scope.fields(input_of(column))[column.name.lower()]
            types.setdefault(column.name.lower(), set()).add(item.type)
        known: Mapping[str, SqlType] = {name: min(of, key=str) for name, of in types.items() if len(of) == 1}
        refuse_mistyped(tree, known, self.place)

    def stream_of(self, tree: exp.Expr) -> StreamInput | None:
        """The stream that a resolved tree is over, if it is over one only."""
        inputs = inputs_in(tree)
        found = self.scope.inputs[next(iter(inputs))] if len(inputs) == 1 else None
        return found if isinstance(found, StreamInput) else None

    def spark_sql(self, tree: exp.Expr, stream: StreamInput) -> str:
        """The Spark SQL of a resolved tree over one stream, or over none."""
        return shown(self.spark_tree(tree, stream))

    def spark_tree(self, tree: exp.Expr, stream: StreamInput) -> exp.Expr:
        index = next(i for i, one in enumerate(self.scope.inputs) if one is stream)
        return stream.spark(tree, self.scope.fields(index))

    def lower(self, tree: exp.Expr) -> exp.Expr:
        """The lowered form of a resolved tree without aggregates."""
        if isinstance(tree, exp.Column):
            return self._column(tree)
        stream = self.stream_of(tree)
        if stream is not None and is_value(tree) and (is_null_of_null(tree) or not inputs_in(tree) & self.extended):
            return self.pushed(tree, stream)
        return replace_children(tree.copy(), self.lower)

    def pushed(self, tree: exp.Expr, stream: StreamInput) -> exp.Expr:
        """The column that Spark computes for the tree."""
        inner = tree.unnest()
        sql = self.spark_sql(inner, stream)
        kind = stream.type_of(sql, self.types_at(tree))
        name = inner.name if isinstance(inner, exp.Column) else shown(_unqualified(inner)).lower()
        return placed(named_column(stream.column(sql, kind, name)), tree)

    def _column(self, node: exp.Column) -> exp.Expr:
        given = self.scope.inputs[input_of(node)]
        if isinstance(given, StreamInput):
            return self.pushed(node, given)
        item = self.scope.fields(input_of(node))[node.name.lower()]
        column = item.tree.copy()
        assert isinstance(column, exp.Column)
        return placed(column, node)

    def type_of(self, lowered: exp.Expr) -> SqlType:
        if isinstance(lowered, exp.Column):
            return self.columns[lowered.name].type
        used = self.columns.types(sorted(columns_in(lowered), key=lambda sql: int(sql[1:])))
        return self.types_at(lowered)(list(used.items()), [shown(lowered)])[0]

    def type_of_resolved(self, tree: exp.Expr) -> SqlType:
        """The type of a resolved tree, which need not be lowered."""
        stream = self.stream_of(tree)
        if stream is not None:
            return stream.type_of(self.spark_sql(tree.unnest(), stream), self.types_at(tree))
        return self.type_of(self.lower(tree))

    def computable(
        self, lowered: exp.Expr, origin: exp.Expr, grouped: bool = False, inputs: Collection[int] = ()
    ) -> None:
        """Refuse what DuckDB cannot compute, at its place or else at that of the whole expression. `inputs`: those that
        it reads."""
        try:
            to_duckdb(lowered, self.columns.types(columns_in(lowered)), self.text)
        except FunctionError as error:
            message = error.message if grouped else error.message.replace(_ABOVE, self._where(inputs))
            remedy = error.remedy if grouped else _REMEDIES[min(len(inputs), 2)]
            raise FunctionError(message, place=error.place or self.place(origin), remedy=remedy) from None

    def _where(self, inputs: Collection[int]) -> str:
        """Over what an expression stands that Spark does not compute."""
        if len(inputs) > 1:
            return "over more than one input of FROM"
        if not inputs:
            return "over constants alone"
        (over,) = (self.scope.inputs[i] for i in inputs)
        return f"over {'a side of an outer join' if isinstance(over, StreamInput) else over.called}"

    def value(self, tree: exp.Expr, origin: exp.Expr) -> tuple[exp.Expr, SqlType]:
        """The lowered form of a resolved tree and its type; a constant that only Spark knows is a stream's column."""
        lowered = self.lower(tree)
        try:
            self.computable(lowered, origin, inputs=inputs_in(tree))
        except FunctionError:
            kept = (self.scope.inputs[i] for i in self.scope.visible if i not in self.extended)
            stream = next((one for one in kept if isinstance(one, StreamInput)), None)
            if inputs_in(tree) or stream is None:
                raise
            lowered = self.pushed(tree, stream)
        return lowered, self.type_of(lowered)

    def boolean(self, kind: SqlType, node: exp.Expr, clause: str) -> None:
        """Raise BindError unless the type is that of a condition."""
        if kind.name in ("BOOLEAN", "VOID"):
            return
        inner = node.unnest()
        named = inner.name if isinstance(inner, exp.Column) else "x"
        example = "> 0" if kind.is_numeric else "= 'a'" if kind.name == "STRING" else "IS NOT NULL"
        raise BindError(
            f"{clause} needs a condition, and this is {kind}",
            place=self.place(node),
            remedy=f"Write a comparison, for example {named} {example}.",
        )

    def no_aggregate(self, tree: exp.Expr, clause: str, remedy: str) -> None:
        found = tree.find(exp.AggFunc)
        if found is not None:
            raise BindError(f"an aggregate cannot stand in {clause}", place=self.place(found), remedy=remedy)


def is_value(tree: exp.Expr) -> bool:
    """Whether the node is an expression with a value of its own, that can become a column."""
    if isinstance(tree, (exp.Interval, exp.IntervalSpan, exp.Distinct, exp.Star, exp.Tuple)) or has_aggregate(tree):
        return False
    return not (isinstance(tree, exp.If) and isinstance(tree.parent, exp.Case))


_NULL_OF_NULL = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.Upper, exp.Lower, exp.Length, exp.Trim, exp.Substring, exp.Abs, exp.Round, exp.Ceil, exp.Floor, exp.Like),
)
_NULL_OF_NULL_FUNCTIONS = frozenset(
    "DATE_FORMAT DATE_TRUNC DAY HOUR INITCAP LEFT MD5 MINUTE MONTH REGEXP_EXTRACT REPLACE REVERSE RIGHT SECOND SHA2 "
    "SPLIT_PART TO_DATE TRIM TRUNC UNIX_TIMESTAMP YEAR".split()
)


def is_null_of_null(tree: exp.Expr) -> bool:
    """Whether an expression over columns is known to be NULL if one of them is: then it does not matter whether it is
    computed below or above an outer join."""
    return all(
        isinstance(node, _NULL_OF_NULL)
        or (isinstance(node, exp.Anonymous) and node.name.upper() in _NULL_OF_NULL_FUNCTIONS)
        for node in tree.walk()
    )


def _unqualified(tree: exp.Expr) -> exp.Expr:
    def plain(node: exp.Expr) -> exp.Expr:
        return exp.column(node.name) if isinstance(node, exp.Column) else node

    return tree.copy().transform(plain)


def cast_to(tree: exp.Expr, kind: SqlType) -> exp.Expr:
    """The tree as this type."""
    return exp.Cast(this=tree.copy(), to=exp.DataType.build(kind.name, dialect="spark"))


def conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    """The parts of a conjunction."""
    inner = tree.unnest()
    if isinstance(inner, exp.And):
        return conjuncts(inner.this) + conjuncts(inner.expression)
    return [inner]
