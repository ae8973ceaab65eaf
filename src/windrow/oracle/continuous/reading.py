"""What the oracle reads in the text of a continuous query: its windows, its sub-queries, ISTREAM and the like.

A query is a tree of SELECTs and set operations. A source is what stands in a FROM clause: a stream with a window, a
name that WITH defines, or a sub-query, which may have a window too. WHERE may have sub-queries in EXISTS and IN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from windrow.cql.dialect import RelationToStream
from windrow.cql.window_clause import WindowClause, WindowKind
from windrow.errors import UnsupportedError

Scope = Mapping[str, "NamedQuery"]
"""The names that WITH defines, in lower case."""


@dataclass(frozen=True)
class NamedQuery:
    """A query of a WITH clause, and the names that were defined before it."""

    query: exp.Expr
    scope: Scope


@dataclass(frozen=True)
class FromItem:
    """An item of a FROM clause. Exactly one of `stream`, `query` and `table` is set; `alias` is its name in the
    SELECT."""

    alias: str
    window: WindowClause | None
    stream: str | None = None
    query: exp.Expr | None = None
    scope: Scope | None = None
    table: str | None = None

    @property
    def inner_scope(self) -> Scope:
        return self.scope or {}


def clause_of(node: exp.Expr) -> WindowClause | None:
    """The window clause of a stream or of a sub-query."""
    clause = node.args.get("window")
    return clause if isinstance(clause, WindowClause) else None


def streaming_of(query: exp.Expr) -> str | None:
    """`istream`, `dstream` or `rstream`, or one of these with ` restore`, if it is around the select list; None
    otherwise."""
    query = unwrapped(query)
    items = query.expressions if isinstance(query, exp.Select) else []
    return items[0].words.lower() if len(items) == 1 and isinstance(items[0], RelationToStream) else None


def restores(query: exp.Expr) -> bool:
    """Whether RESTORE stands in the query or in a sub-query: instants between ticks count."""
    return any(one.args.get("restore") for one in query.find_all(RelationToStream))


def as_relation(select: exp.Select) -> exp.Select:
    """The SELECT without ISTREAM, DSTREAM or RSTREAM."""
    if streaming_of(select) is None:
        return select
    made = select.copy()
    made.set("expressions", made.expressions[0].expressions)
    return made


def unwrapped(query: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it."""
    while isinstance(query, exp.Subquery) and not query.alias and clause_of(query) is None:
        query = query.this
    return query


def scope_of(query: exp.Expr, outer: Scope) -> Scope:
    """The names that the query can use: those from outside and those of its own WITH clause."""
    clause = query.args.get("with_")
    scope = dict(outer)
    for one in clause.expressions if clause else ():
        if one.args["alias"].columns:
            raise UnsupportedError("the oracle reads WITH without a list of columns")
        scope[one.alias.lower()] = NamedQuery(one.this, dict(scope))
    return scope


def source_of(node: exp.Expr, scope: Scope) -> FromItem:
    window, alias = clause_of(node), node.alias_or_name
    if isinstance(node, exp.Subquery):
        return FromItem(alias, window, query=node.this, scope=scope)
    if not isinstance(node, exp.Table):
        raise UnsupportedError(f"the oracle does not read {node.sql()} in FROM")
    named = scope.get(node.name.lower())
    if named is not None:
        return FromItem(alias, window, query=named.query, scope=named.scope)
    if window is None:
        return FromItem(alias, None, table=node.name)
    return FromItem(alias, window, stream=node.name)


def source_nodes(select: exp.Select) -> list[exp.Expr]:
    """The items of its FROM clause, from left to right."""
    first = select.args.get("from_")
    if first is None:
        raise UnsupportedError("the oracle evaluates queries with FROM")
    joins = select.args.get("joins") or []
    if any(join.method for join in joins):
        raise UnsupportedError("the oracle evaluates no NATURAL joins")
    return [first.this, *(join.this for join in joins)]


def sources_of(select: exp.Select, scope: Scope) -> list[FromItem]:
    return [source_of(node, scope) for node in source_nodes(select)]


def is_conditional(node: exp.Expr) -> bool:
    """Whether the node is EXISTS or IN with a sub-query."""
    return isinstance(node, exp.Exists) or (isinstance(node, exp.In) and bool(node.args.get("query")))


def conditional_queries(select: exp.Expr) -> list[exp.Expr]:
    """The sub-queries of EXISTS and IN in the WHERE of a SELECT, without those inside them."""
    where = select.args.get("where")
    found = [node for node in where.walk(prune=is_conditional) if is_conditional(node)] if where is not None else []
    return [node.this if isinstance(node, exp.Exists) else node.args["query"] for node in found]


def selects_of(query: exp.Expr, outer: Scope) -> Iterator[tuple[exp.Select, Scope]]:
    """The SELECTs of a query that set operations connect, and those in their WHERE, each with the names that it can
    use."""
    query = unwrapped(query)
    scope = scope_of(query, outer)
    if isinstance(query, exp.SetOperation):
        for branch in (query.this, query.expression):
            yield from selects_of(branch, scope)
    elif isinstance(query, exp.Select):
        yield query, scope
        for inner in conditional_queries(query):
            yield from selects_of(inner, scope)
    else:
        raise UnsupportedError(f"the oracle does not evaluate {type(query).__name__.upper()}")


def all_sources(query: exp.Expr, outer: Scope | None = None) -> Iterator[FromItem]:
    """Every source of the query and of its sub-queries. One that is used twice comes twice."""
    for select, scope in selects_of(query, outer or {}):
        for source in sources_of(select, scope):
            yield source
            if source.query is not None:
                yield from all_sources(source.query, source.inner_scope)


def windows_on_streams(
    query: exp.Expr, outer: Scope | None = None
) -> Iterator[tuple[FromItem, tuple[WindowClause, ...]]]:
    """Every stream that the query reads, with the windows that its tuples are in. A window on a plain selection of a
    stream counts instead of the stream's own, since a result is born with its tuple. They come innermost first; the
    last one counts, and offsets add up."""
    for select, scope in selects_of(query, outer or {}):
        sources = sources_of(select, scope)
        for source in sources:
            if source.stream is not None and source.window is not None:
                yield source, (source.window,)
            elif source.query is not None:
                below = list(windows_on_streams(source.query, source.inner_scope))
                is_timed = source.window is not None and source.window.kind is not WindowKind.ROWS
                if is_timed and source.window is not None and _is_selection(source.query, source.inner_scope):
                    below = [(stream, (*windows, source.window)) for stream, windows in below]
                yield from below


def _is_selection(query: exp.Expr, outer: Scope) -> bool:
    """Whether the results of a query are tuples of one stream."""
    query = unwrapped(query)
    if not isinstance(query, exp.Select) or streaming_of(query) or is_aggregated(query):
        return False
    if query.args.get("distinct") or query.args.get("limit") or conditional_queries(query):
        return False
    sources = sources_of(query, scope_of(query, outer))
    inner = sources[0].query
    return len(sources) == 1 and (inner is None or _is_selection(inner, sources[0].inner_scope))


def is_aggregated(select: exp.Select) -> bool:
    if select.args.get("group") is not None:
        return True
    having = select.args.get("having")
    return any(item.find(exp.AggFunc) for item in (*select.expressions, *([having] if having else [])))


def reports_all(query: exp.Expr, periodic: bool) -> bool:
    """Whether the query gives its whole answer at every tick: RSTREAM, and an aggregate over INTERNAL windows with
    SLIDE."""
    query = unwrapped(query)
    kind = streaming_of(query)
    if kind is None:
        return periodic and isinstance(query, exp.Select) and is_aggregated(query)
    return kind == "rstream"


def is_continuous(query: exp.Expr) -> bool:
    """Whether a query is a plan. All others are aggregates over one stream with SLIDE or NOW."""
    if not isinstance(query, exp.Select) or query.args.get("joins") or query.args.get("distinct"):
        return True
    if (
        query.args.get("with_")
        or query.find(RelationToStream)
        or not is_aggregated(query)
        or conditional_queries(query)
    ):
        return True
    first = query.args.get("from_")
    window = clause_of(first.this) if first and isinstance(first.this, exp.Table) else None
    return window is None or (window.slide is None and window.kind is not WindowKind.NOW)
