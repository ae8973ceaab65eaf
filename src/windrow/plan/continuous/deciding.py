"""Which queries the periodic chain answers, and which are continuous plans."""

from __future__ import annotations

from sqlglot import exp

from windrow.cql.dialect import RelationToStream, window_of
from windrow.cql.window_clause import WindowKind
from windrow.plan.continuous.shape import conditional_queries


def is_periodic_chain(select: exp.Expr) -> bool:
    """Whether a query is an aggregate over windows of one stream with a SLIDE, or [NOW]: `bind_query` binds it.

    Every other query is a continuous plan: `bind_continuous` binds it.
    """
    source = select.args.get("from_") if isinstance(select, exp.Select) else None
    if source is None or not isinstance(source.this, exp.Table) or source.this.args.get("joins"):
        return False
    if any(select.args.get(name) for name in ("joins", "with_", "distinct")) or any(conditional_queries(select)):
        return False
    window = window_of(source.this)
    if window is None or window.internal or (window.slide is None and window.kind is not WindowKind.NOW):
        return False
    if any(select.find_all(RelationToStream)):
        return False
    return bool(window.pattr) or is_grouped(select)


def has_slide(query: exp.Expr) -> bool:
    """Whether a window of the query has a SLIDE, so that it answers windows. A wrong query may have only some."""
    windows = (window_of(one) for one in query.find_all(exp.Table, exp.Subquery))
    return any(window is not None and window.slide is not None for window in windows)


def is_grouped(select: exp.Expr) -> bool:
    """Whether a SELECT has GROUP BY or an aggregate."""
    clauses = [select.args.get(name) for name in ("having", "order")]
    trees = [*select.expressions, *(clause for clause in clauses if clause is not None)]
    return select.args.get("group") is not None or any(has_aggregate(tree) for tree in trees)


def has_aggregate(tree: exp.Expr) -> bool:
    return tree.find(exp.AggFunc) is not None
