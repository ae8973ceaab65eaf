"""EXISTS and IN under OR, as a UNION ALL of SELECTs that have them under AND.

    WHERE p OR e1 OR e2  is  WHERE p  UNION ALL  WHERE p IS NOT TRUE AND e1  UNION ALL  WHERE p IS NOT TRUE AND NOT e1
    AND e2

NOT goes inward before, by De Morgan's laws, so NOT (p AND e1) is such an OR, too. Each row is in one of them at most,
so nothing is counted twice. EXISTS is true or false, so NOT is its opposite; IN may
be unknown, so it stands in the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from windrow.cql.dialect import RelationToStream
from windrow.plan.continuous.deciding import is_grouped
from windrow.plan.continuous.shape import is_conditional


def with_alternatives(select: exp.Select) -> exp.Expr:
    """The SELECT, or the UNION ALL that it is. Unchanged if it has GROUP BY, DISTINCT, ORDER BY, LIMIT or ISTREAM, or
    if two of the conditions under OR may be unknown."""
    where = select.args.get("where")
    if where is None or not _is_plain(select):
        return select
    parts = list(_parts(_inward(where.this), exp.And))
    at = next((i for i, part in enumerate(parts) if isinstance(part, exp.Or) and _asks(part)), None)
    if at is None:
        return select
    every = list(_parts(parts[at], exp.Or))
    plain = [one for one in every if not _asks(one)]
    known = [one for one in every if _asks(one) and _is_known(one)]
    unknown = [one for one in every if _asks(one) and not _is_known(one)]
    if len(unknown) > 1:
        return select
    rest = [part for i, part in enumerate(parts) if i != at]
    branches, failed = list[exp.Expr](), list[exp.Expr]()
    if plain:
        either = exp.or_(*plain)
        branches.append(_selecting(select, [*rest, either]))
        failed.append(exp.Not(this=exp.Is(this=exp.paren(either), expression=exp.true())))
    for one in (*known, *unknown):
        branches.append(_selecting(select, [*rest, *failed, one]))
        failed.append(exp.Not(this=exp.paren(one)))
    whole = branches[0]
    for branch in branches[1:]:
        whole = exp.Union(this=whole, expression=branch, distinct=False)
    return whole


def _is_plain(select: exp.Select) -> bool:
    clauses = ("distinct", "order", "limit", "with_")
    streams = any(isinstance(item.unalias(), RelationToStream) for item in select.expressions)
    return not (is_grouped(select) or streams or any(select.args.get(name) for name in clauses))


def _parts(tree: exp.Expr, connector: type[exp.Expr]) -> Iterable[exp.Expr]:
    """What AND, or OR, connects."""
    tree = tree.unnest()
    if isinstance(tree, connector):
        yield from _parts(tree.this, connector)
        yield from _parts(tree.expression, connector)
    else:
        yield tree


def _inward(tree: exp.Expr, negated: bool = False) -> exp.Expr:
    """The condition, or its negation, with NOT only around plain conditions, EXISTS and IN."""
    bare = tree.unnest()
    if not _asks(bare):
        return exp.Not(this=exp.paren(bare)) if negated else bare
    if isinstance(bare, exp.Not):
        return _inward(bare.this, not negated)
    if isinstance(bare, (exp.And, exp.Or)):
        sides = (_inward(bare.this, negated), _inward(bare.expression, negated))
        return exp.and_(*sides) if isinstance(bare, exp.And) != negated else exp.or_(*sides)
    return exp.Not(this=bare.copy()) if negated else bare


def _asks(tree: exp.Expr) -> bool:
    """Whether there is an EXISTS or IN with a sub-query."""
    return any(is_conditional(node) for node in tree.walk(prune=is_conditional))


def _is_known(tree: exp.Expr) -> bool:
    """Whether it is EXISTS or NOT EXISTS, which is never unknown."""
    while isinstance(tree, exp.Not):
        tree = tree.this.unnest()
    return isinstance(tree, exp.Exists)


def _selecting(select: exp.Select, conditions: Sequence[exp.Expr]) -> exp.Select:
    made = select.copy()
    made.set("where", exp.Where(this=exp.and_(*conditions)))
    return made
