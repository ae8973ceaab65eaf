"""WSTREAM inside an aggregate (Golab's dissertation, section 3.4).

    SELECT SUM(WSTREAM(SUM(a))[ROWS 10]) FROM s [RANGE 6 SECONDS SLIDE 6 SECONDS]

says: aggregate the last results of the query that has this FROM and WHERE,

    SELECT SUM(x) FROM (SELECT WSTREAM(SUM(a) AS x)[ROWS 10] FROM s [RANGE 6 SECONDS SLIDE 6 SECONDS])
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from windrow.cql.dialect import RelationToStream
from windrow.cql.tokens import nearest_place
from windrow.errors import BindError, UnsupportedError
from windrow.plan.continuous.shape import shown
from windrow.plan.continuous.streams.around_list import WSTREAM

_INNER, _VALUE = "__wstream", "__result"
_WRITTEN_OUT = "FROM (SELECT WSTREAM(k, SUM(x) AS total)[ROWS 10] FROM … GROUP BY k) AS x"


def unnested(query: exp.Expr, text: str) -> exp.Expr:
    """The query with a sub-query in FROM for each SELECT that has WSTREAM inside its aggregates. Changes the query."""
    for select in [one for one in query.find_all(exp.Select) if any(_nested(one))]:
        _unnest(select, text)
    return query


def _parts(select: exp.Select) -> list[exp.Expr]:
    clauses = [select.args.get(name) for name in ("having", "order")]
    return [*select.expressions, *(clause for clause in clauses if clause is not None)]


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc)


def _aggregates(select: exp.Select) -> Iterator[exp.Expr]:
    """The aggregates of a SELECT, without those inside them and inside what stands around its list."""
    for part in _parts(select):
        for node in part.walk(prune=lambda one: _is_aggregate(one) or isinstance(one, RelationToStream)):
            if _is_aggregate(node):
                yield node


def _nested(select: exp.Select) -> Iterator[RelationToStream]:
    for call in _aggregates(select):
        for node in call.find_all(RelationToStream):
            if node.this == WSTREAM:
                yield node


def _unnest(select: exp.Select, text: str) -> None:
    found = list(_nested(select))
    _check(select, found, text)
    value = found[0].expressions[0].unalias()
    is_star = isinstance(value, exp.Star)
    for item in list(select.expressions):
        if not isinstance(item, exp.Alias):
            item.replace(exp.alias_(item.copy(), shown(item).lower(), quoted=True))
    inner = exp.Select(expressions=[found[0].copy()], from_=select.args["from_"])
    for clause in ("joins", "where"):
        if select.args.get(clause):
            inner.set(clause, select.args[clause])
            select.set(clause, None)
    if not is_star:
        inner.expressions[0].set("expressions", [exp.alias_(value.copy(), _VALUE)])
    for node in _nested(select):
        node.replace(exp.Star() if is_star else exp.column(_VALUE))
    alias = exp.TableAlias(this=exp.to_identifier(_INNER))
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))


def _check(select: exp.Select, found: list[RelationToStream], text: str) -> None:
    first = found[0]
    place = nearest_place(first, text)
    if select.args.get("group") is not None:
        raise UnsupportedError(
            "GROUP BY does not go with WSTREAM inside an aggregate: the groups could be those of either aggregate",
            place=nearest_place(select.args["group"], text) or place,
            remedy=f"Write the sub-query: {_WRITTEN_OUT}.",
        )
    if any(one != first for one in found):
        other = next(one for one in found if one != first)
        raise UnsupportedError(
            "the aggregates of a query are of one WSTREAM(…)[…]",
            place=nearest_place(other, text),
            remedy=f"Write the same in all of them; or list the results in a sub-query: {_WRITTEN_OUT}.",
        )
    if len(first.expressions) != 1:
        raise BindError(
            "WSTREAM inside an aggregate has one expression, or * in COUNT",
            place=place,
            remedy="For example SUM(WSTREAM(SUM(x))[ROWS 10]), or COUNT(WSTREAM(*)[RANGE 10 MINUTES]).",
        )
    if isinstance(first.expressions[0], exp.Star) and not all(isinstance(one.parent, exp.Count) for one in found):
        raise BindError("only COUNT takes WSTREAM(*)", place=place, remedy="Name a column: MAX(WSTREAM(x)[ROWS 10]).")
    for call in _aggregates(select):
        if call.find(RelationToStream) is None:
            raise UnsupportedError(
                f"{shown(call)} stands beside WSTREAM inside an aggregate: it is not clear which rows it is of",
                place=nearest_place(call, text),
                remedy=f"Write WSTREAM in all aggregates; or the sub-query: {_WRITTEN_OUT}.",
            )
    for part in _parts(select):
        for node in part.walk(prune=lambda one: isinstance(one, RelationToStream)):
            if isinstance(node, exp.Column) and not _names_item(node, select):
                raise BindError(
                    f"'{shown(node)}' stands beside WSTREAM inside an aggregate, and the result has no such column",
                    place=nearest_place(node, text),
                    remedy=f"Write the sub-query: {_WRITTEN_OUT}.",
                )


def _names_item(column: exp.Column, select: exp.Select) -> bool:
    """Whether HAVING or ORDER BY name an item of the select list."""
    return not column.table and column.name.lower() in {item.alias.lower() for item in select.expressions if item.alias}
