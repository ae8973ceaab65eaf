"""WSTREAM by its meaning (Golab's dissertation, section 3.4): a window on the output of a query whose windows are
INTERNAL.

    SELECT WSTREAM(a)[w] FROM s [RANGE 5]           SELECT * FROM (SELECT a FROM s [RANGE 5 INTERNAL]) [w]
    SELECT SUM(WSTREAM(MAX(a))[w]) FROM s [v]       SELECT SUM(r) FROM (SELECT MAX(a) AS r FROM s [v INTERNAL]) [w]
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from windrow.cql.dialect import RelationToStream, WindowedQuery
from windrow.cql.window_clause import WindowClause
from windrow.errors import UnsupportedError

RESULT, RESULTS = "__result", "__results"


def spelled_out(query: exp.Expr) -> exp.Expr:
    """The query without WSTREAM."""
    if query.find(RelationToStream) is None:
        return query
    query = query.copy()
    for select in reversed(list(query.find_all(exp.Select, bfs=False))):
        found = [one for one in _own(select) if one.this == "WSTREAM"]
        if found and query.find(exp.With) is not None:
            raise UnsupportedError("the oracle evaluates WSTREAM without WITH")
        if found:
            _spell_out(select, found)
    return query


def _own(select: exp.Select) -> list[RelationToStream]:
    """What stands in the select list, HAVING and ORDER BY of a SELECT itself."""
    clauses = [*select.expressions, *(select.args[name] for name in ("having", "order") if select.args.get(name))]
    found = (node for clause in clauses for node in clause.walk(prune=lambda one: isinstance(one, exp.Select)))
    return [node for node in found if isinstance(node, RelationToStream)]


def _spell_out(select: exp.Select, found: list[RelationToStream]) -> None:
    first = found[0]
    window = first.args["window"]
    assert isinstance(window, WindowClause)
    is_around = first.parent is select
    if not is_around and (select.args.get("group") or any(one != first for one in found)):
        raise UnsupportedError("the oracle evaluates one WSTREAM inside aggregates without GROUP BY")
    inner = exp.Select(expressions=[one.copy() for one in first.expressions])
    moved = ["from_", "joins", "where", *(["group", "having"] if is_around else [])]
    for name in moved:
        inner.set(name, select.args.get(name))
        select.set(name, None)
    _make_internal(inner)
    if is_around:
        select.set("expressions", [exp.Star()])
    else:
        is_star = first.expressions[0].is_star
        if not is_star:
            inner.set("expressions", [exp.alias_(first.expressions[0].unalias().copy(), RESULT)])
        for one in found:
            one.replace(exp.Star() if is_star else exp.column(RESULT))
    alias = exp.TableAlias(this=exp.to_identifier(RESULTS))
    select.set("from_", exp.From(this=WindowedQuery(this=inner, alias=alias, window=window)))


def _make_internal(source: exp.Expr) -> None:
    """Make the windows INTERNAL whose contents a query, or an item of FROM, shows; one on a sub-query hides those
    inside it."""
    window = source.args.get("window")
    if isinstance(window, WindowClause):
        source.set("window", replace(window, internal=True))
    elif isinstance(source, exp.Subquery):
        _make_internal(source.this)
    elif isinstance(source, exp.SetOperation):
        for branch in (source.this, source.expression):
            _make_internal(branch)
    elif isinstance(source, exp.Select):
        for holder in [source.args["from_"], *(source.args.get("joins") or [])]:
            _make_internal(holder.this)
