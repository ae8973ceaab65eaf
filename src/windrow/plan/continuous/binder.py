"""Turn a query over several streams into a continuous plan.

Names and types are resolved as in `plan/binder.py`; the rules for windows are those of Golab's dissertation, sections
3.3 and 3.4.
"""

from __future__ import annotations

from sqlglot import exp

from windrow.errors import BindError
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.plan.binder import RESERVED_OUTPUTS, TypesOf
from windrow.plan.continuous.clocks import SourceOf, TableOf, clock_of, no_tables
from windrow.plan.continuous.combining import bind_set_operation
from windrow.plan.continuous.context import BindContext, BoundQuery, InnerQuery
from windrow.plan.continuous.inputs import Columns, names_of, node_of
from windrow.plan.continuous.selects import bind_inner_select, bind_select
from windrow.plan.continuous.shape import around, shaped
from windrow.plan.continuous.streams.nested import unnested
from windrow.plan.continuous.subqueries.alternatives import with_alternatives


def bind_continuous(
    select: exp.Expr, text: str, source_of: SourceOf, types_of: TypesOf, table_of: TableOf = no_tables
) -> ContinuousPlan:
    """The plan of a continuous query; raises BindError at the place of a mistake.

    `source_of` finds a stream by its name, `table_of` a table; `types_of` is Spark's analyser. The query is one for
    which `is_periodic_chain` is false.
    """
    query = unnested(shaped(select, text), text)
    clock = clock_of(query, text, source_of, table_of)
    context = BindContext(text, source_of, types_of, clock, Columns(), _bind, _bind_inner, table_of=table_of)
    bound = _bind(query, context)
    root = node_of(bound.relation, context.columns)
    taken = next((column for column in root.schema if column.name.lower() in RESERVED_OUTPUTS), None)
    if clock.periodic and taken is not None:
        named = (one for one in query.find_all(exp.Alias, exp.Column) if one.alias_or_name == taken.name)
        raise BindError(
            f"'{taken.name}' is a column that every answer has",
            place=around(next(named, query), text),
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
