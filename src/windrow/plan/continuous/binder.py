"""Turn a query over several streams into a continuous plan.

Names and types are resolved as in `plan/binder.py`; the rules for windows are those of Golab's dissertation, sections
3.3 and 3.4.
"""

from __future__ import annotations

from sqlglot import exp

from windrow.cql.dialect import RelationToStream, WindowedQuery, window_of
from windrow.cql.tokens import nearest_place
from windrow.errors import BindError, UnsupportedError
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.plan.binder import RESERVED_OUTPUTS, TypesOf
from windrow.plan.continuous.clocks import SourceOf, TableOf, clock_of, no_tables
from windrow.plan.continuous.combining import bind_set_operation
from windrow.plan.continuous.context import BindContext, BoundQuery, InnerQuery
from windrow.plan.continuous.inputs import Columns, names_of, node_of
from windrow.plan.continuous.selects import bind_inner_select, bind_select
from windrow.plan.continuous.shape import shaped
from windrow.plan.continuous.streams.nested import unnested
from windrow.plan.continuous.subqueries.alternatives import with_alternatives


def bind_once(
    select: exp.Expr, text: str, source_of: SourceOf, types_of: TypesOf, table_of: TableOf = no_tables
) -> ContinuousPlan:
    """The plan of a query that is asked once, at one instant; as `bind_continuous`. Its windows do not slide, and it
    may read tables alone. What a query gave at earlier ticks is not there to be asked for."""
    for node in select.walk():
        if isinstance(node, RelationToStream):
            raise UnsupportedError(
                f"{node.words} is of a standing query: it tells what changes from tick to tick, and a one-time "
                "question sees one instant",
                place=nearest_place(node, text),
                remedy="Leave it out, or create a standing query: CREATE QUERY name AS SELECT …",
            )
        if isinstance(node, WindowedQuery):
            clause = window_of(node)
            raise UnsupportedError(
                "a window on a sub-query holds what it gave at earlier ticks, and a one-time question sees one instant",
                place=None if clause is None else clause.place,
                remedy="Leave the window out, or create a standing query: CREATE QUERY name AS SELECT …",
            )
    return bind_continuous(select, text, source_of, types_of, table_of, once=True)


def bind_continuous(
    select: exp.Expr,
    text: str,
    source_of: SourceOf,
    types_of: TypesOf,
    table_of: TableOf = no_tables,
    once: bool = False,
) -> ContinuousPlan:
    """The plan of a continuous query; raises BindError at the place of a mistake.

    `source_of` finds a stream by its name, `table_of` a table; `types_of` is Spark's analyser. The query is one for
    which `is_periodic_chain` is false. `once`: it is asked once (`bind_once`).
    """
    query = unnested(shaped(select, text), text)
    clock = clock_of(query, text, source_of, table_of, once)
    context = BindContext(text, source_of, types_of, clock, Columns(), _bind, _bind_inner, table_of=table_of, once=once)
    bound = _bind(query, context)
    root = node_of(bound.relation, context.columns)
    taken = next((column for column in root.schema if column.name.lower() in RESERVED_OUTPUTS), None)
    if clock.periodic and taken is not None:
        named = (one for one in query.find_all(exp.Alias, exp.Column) if one.alias_or_name == taken.name)
        raise BindError(
            f"'{taken.name}' is a column that every answer has",
            place=nearest_place(next(named, query), text),
            remedy="Give this column another name: AS …",
        )
    return ContinuousPlan(root, clock.point, clock.step, clock.origin, clock.periodic, bound.order)


def _bind(query: exp.Expr, context: BindContext) -> BoundQuery:
    """Bind a query without WITH."""
    if isinstance(query, exp.Select):
        query = with_alternatives(query)
    if isinstance(query, exp.SetOperation):
        return bind_set_operation(query, context)
    assert isinstance(query, exp.Select)
    return bind_select(query, context)


def _bind_inner(query: exp.Expr, context: BindContext, index: int, is_compared: bool) -> InnerQuery:
    """Bind the sub-query of EXISTS, or of IN, which is compared."""
    if isinstance(query, exp.Select):
        return bind_inner_select(query, context, index, is_compared)
    bound = _bind(query, context.barred("inside UNION, EXCEPT or INTERSECT")).relation
    return InnerQuery(bound, tuple(names_of(bound)))
