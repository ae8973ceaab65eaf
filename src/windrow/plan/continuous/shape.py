"""What a continuous query may consist of: the clauses that come later are refused, and WITH becomes sub-queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from sqlglot import exp

from windrow.cql.dialect import CQL, WindowedQuery, window_of
from windrow.cql.functions import OVER_SEVERAL, check_functions
from windrow.cql.tokens import nearest, nearest_place, place_at
from windrow.errors import BindError, Place, UnsupportedError

NEAR = "near"
"""The entry of a table's `meta` that has the name of WITH which its own resembles."""

MOST_SOURCES = 64
"""The most streams of a query, with those that WITH repeats."""

_JOIN_ONE = "Join with it: FROM s [RANGE 1 MINUTE] JOIN (SELECT AVG(x) AS m FROM t [RANGE 1 MINUTE]) AS t ON s.x > t.m."
_NO_LATERAL = (
    "Join with a sub-query that does not name the streams before it, and compare them in ON: "
    "JOIN (SELECT k, MAX(x) AS m FROM t [RANGE 1 MINUTE] GROUP BY k) AS t ON s.k = t.k."
)


class JoinKind(Enum):
    """How an input joins those before it."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def extends_left(self) -> bool:
        """Whether rows come in which the inputs before it are NULL."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def extends_right(self) -> bool:
        return self in (JoinKind.LEFT, JoinKind.FULL)


def shaped(query: exp.Expr, text: str) -> exp.Expr:
    """A copy of the query without WITH and parentheses; raises UnsupportedError for what this version lacks."""
    _refuse_later(query, text)
    check_functions(query, text, OVER_SEVERAL)
    return _Inlining(text).inlined(query.copy(), {})


def _refuse_later(query: exp.Expr, text: str) -> None:
    for node in query.walk():
        if is_conditional(node) and not _is_in_where(node):
            raise UnsupportedError(
                f"{'EXISTS' if isinstance(node, exp.Exists) else 'IN'} with a sub-query stands in WHERE",
                place=nearest_place(node, text),
                remedy="Move it to the WHERE of the query, or of a sub-query in FROM.",
            )
        what, remedy = _later(node)
        if what is not None:
            raise UnsupportedError(f"{what} comes with a later version", place=nearest_place(node, text), remedy=remedy)


def _later(node: exp.Expr) -> tuple[str | None, str]:
    """What the node is, if this version lacks it, and a remedy."""
    if isinstance(node, exp.Join):
        if join_kind(node) is None:
            words = " ".join(str(node.args[key]) for key in ("method", "side", "kind") if node.args.get(key))
            return f"{words} JOIN", f"This version has {', '.join(_JOINS)}, with ON or USING, and comma joins."
    elif isinstance(node, exp.Subquery) and not isinstance(
        node.parent, (exp.From, exp.Join, exp.SetOperation, exp.In, exp.Exists, exp.Subquery)
    ):
        return "a sub-query in an expression", _JOIN_ONE
    elif isinstance(node, exp.Lateral):
        return "a lateral join", _NO_LATERAL
    elif isinstance(node, exp.With) and node.args.get("recursive"):
        return "WITH RECURSIVE", "Leave RECURSIVE out."
    elif isinstance(node, (exp.Table, exp.Subquery)) and node.args.get("joins"):
        return "a join in parentheses", "Write the joins one after the other."
    return None, ""


_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN")


def join_kind(join: exp.Expr) -> JoinKind | None:
    """How a JOIN joins; None if this version lacks it."""
    side, kind, method = (str(join.args.get(key) or "") for key in ("side", "kind", "method"))
    if method:
        return None
    if kind in ("SEMI", "ANTI") and side in ("", "LEFT"):
        return JoinKind[kind]
    if side in ("LEFT", "RIGHT", "FULL") and kind in ("", "OUTER"):
        return JoinKind[side]
    return JoinKind.INNER if not side and kind in ("", "INNER", "CROSS") else None


def signed_place(value: exp.Expr | None, text: str) -> Place | None:
    """The place of a number including its minus sign, which sqlglot gives no place."""
    start = value.this.meta_get("start") if isinstance(value, exp.Neg) else None
    if value is None or start is None:
        return None if value is None else nearest_place(value, text)
    return place_at(text, text.rindex("-", 0, start), value.this.meta_get("end") + 1)


class _Inlining:
    def __init__(self, text: str):
        self._text = text
        self._sources = 0

    def inlined(self, query: exp.Expr, known: Mapping[str, exp.Expr]) -> exp.Expr:
        """The query with each name of WITH replaced by its sub-query. `known` are the names around it."""
        while type(query) is exp.Subquery and not query.alias:
            query = query.this
        names = dict(known)
        if with_ := query.args.get("with_"):
            for one in with_.expressions:
                if one.alias.lower() in {name.lower() for name in _own(with_, one)}:
                    raise BindError(
                        f"WITH has two sub-queries '{one.alias}'",
                        place=nearest_place(one, self._text),
                        remedy="Rename one.",
                    )
                names[one.alias.lower()] = self.inlined(one.this.copy(), names)
            query.set("with_", None)
        if isinstance(query, exp.SetOperation):
            for side in ("this", "expression"):
                query.set(side, self.inlined(query.args[side], names))
        elif isinstance(query, exp.Select):
            for item in _sources(query):
                self._replace(item, names)
            for holder, key in conditional_queries(query):
                holder.set(key, self.inlined(holder.args[key], names))
        return query

    def _replace(self, holder: exp.Expr, names: Mapping[str, exp.Expr]) -> None:
        """Replace the source of a FROM or JOIN."""
        item = holder.this
        if isinstance(item, exp.Subquery):
            item.set("this", self.inlined(item.this, names))
            return
        self._sources += 1
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier) and item.name.lower() in names:
            body = names[item.name.lower()].copy()
            self._sources += sum(1 for _ in body.find_all(exp.Table)) - 1
            alias = exp.TableAlias(this=exp.to_identifier(item.alias or item.name))
            alias.meta.update(item.this.meta)
            window = window_of(item)
            made = WindowedQuery(this=body, alias=alias, window=window) if window else None
            holder.set("this", made or exp.Subquery(this=body, alias=alias))
        elif isinstance(item, exp.Table) and (near := nearest(item.name, names)):
            item.meta[NEAR] = near
        if self._sources > MOST_SOURCES:
            raise UnsupportedError(
                f"the query reads more than {MOST_SOURCES} streams, with those that WITH repeats",
                place=nearest_place(item, self._text),
                remedy="Make a stream of a part that is used often: CREATE STREAM name AS SELECT …",
            )


def conditional_queries(select: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    """The EXISTS and IN of a SELECT's own WHERE, each with the argument that is its sub-query."""
    where = select.args.get("where")
    for node in where.walk(prune=is_conditional) if where is not None else ():
        if is_conditional(node):
            yield node, "this" if isinstance(node, exp.Exists) else "query"


def is_conditional(node: exp.Expr) -> bool:
    """Whether the node is EXISTS or IN with a sub-query."""
    return isinstance(node, exp.Exists) or (isinstance(node, exp.In) and bool(node.args.get("query")))


def _is_in_where(node: exp.Expr) -> bool:
    """Whether the node is in the WHERE of a SELECT, which is not that of an aggregate's FILTER."""
    clause = node.find_ancestor(exp.Where, exp.Join, exp.Select)
    return isinstance(clause, exp.Where) and isinstance(clause.parent, exp.Select)


def _own(with_: exp.Expr, before: exp.Expr) -> list[str]:
    """The names of WITH before this one."""
    names = []
    for one in with_.expressions:
        if one is before:
            break
        names.append(str(one.alias))
    return names


def _sources(select: exp.Select) -> list[exp.Expr]:
    """The FROM and the JOINs of a SELECT, which hold its sources."""
    source = select.args.get("from_")
    return ([source] if source is not None else []) + list(select.args.get("joins") or [])


def sources_of(select: exp.Select) -> list[exp.Expr]:
    """The tables and sub-queries of FROM, from left to right."""
    return [holder.this for holder in _sources(select)]


def shown(tree: exp.Expr) -> str:
    """An expression as text, for messages and names."""
    return tree.sql(dialect=CQL)
