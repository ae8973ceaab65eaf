"""Mutations of a SELECT as a tree: it stays a SELECT over the same stream, mostly of valid names and types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from fuzz.expressions import LITERALS, Expressions
from fuzz.streams import NUMBERS, TYPES, columns_like, family_of
from windrow.cql import CQL, parse_one
from windrow.cql.dialect import StreamTable, window_of
from windrow.cql.statements import CreateQuery
from windrow.cql.window_clause import Measure, WindowClause
from windrow.errors import WindrowError

_TIME_WINDOWS = (
    "RANGE 10 SECONDS SLIDE 5 SECONDS;RANGE 10 SECONDS SLIDE 10 SECONDS;RANGE 7 SECONDS SLIDE 3 SECONDS;"
    "RANGE 2 SECONDS SLIDE 9 SECONDS;RANGE 1 MINUTE SLIDE 250 MILLISECONDS;RANGE 10 SECONDS OFFSET 5 SECONDS SLIDE 5 SECONDS;"
    "RANGE 5 SECONDS SLIDE 1 ROW;RANGE 5 SECONDS SLIDE 4 ROWS;RANGE 5 SECONDS SLIDE 4 ROWS SATTR rank(ts);NOW;"
    "NOW SLIDE 1 SECOND;SINCE '2026-03-01 12:00:05' SLIDE 10 SECONDS;UNBOUNDED SLIDE 30 SECONDS;"
    "RANGE 100 SLIDE 50 WATTR odo;RANGE 100 SLIDE 2 ROWS RATTR odo;RANGE 10 SECONDS SLIDE 4 SECONDS ORIGIN '2026-03-01 00:00:01'"
).split(";")
_NUMBER_WINDOWS = (
    "RANGE 10 SLIDE 5;RANGE 10 SLIDE 10;RANGE 7 SLIDE 3;RANGE 2 SLIDE 9;RANGE 10 OFFSET 5 SLIDE 5;RANGE 5 SLIDE 1 ROW;"
    "RANGE 5 SLIDE 4 ROWS;RANGE 5 SLIDE 4 ROWS SATTR rank(n);NOW;SINCE 5 SLIDE 10;UNBOUNDED SLIDE 30;RANGE 10 SLIDE 4 ORIGIN 3"
).split(";")
_ROW_WINDOWS = (
    "ROWS 10 SLIDE 5;ROWS 3 SLIDE 7;ROWS 10 OFFSET 4 SLIDE 2;ROWS 4 SLIDE 2 PARTITION BY k;ROWS 3 SLIDE 3 PARTITION BY k, ok;"
    "ROWS 2 OFFSET 1 SLIDE 1 PATTR small"
).split(";")
_AMOUNTS = (1, 2, 3, 5, 7, 10, 100, 250_000, 1_000_000, 10**6 * 60, 10**18, 1 << 60, (1 << 63) - 1)
_BOOLEAN = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)
_NUMERIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Abs, exp.Round, exp.AggFunc)


def mutate(select: exp.Select, others: tuple[exp.Select, ...], rng: Random) -> exp.Select:
    """The SELECT with one to four mutations. `others` lend their parts."""
    mutated = _Tree(select.copy(), others, rng)
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        names, weights = zip(*_MUTATIONS, strict=True)
        mutated.apply(rng.choices(names, weights)[0])
    return mutated.select


def _parsed(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect=CQL)


class _Tree:
    def __init__(self, select: exp.Select, others: tuple[exp.Select, ...], rng: Random):
        self.select, self.others, self.rng = select, others, rng
        self.table = next(select.find_all(exp.Table))
        self.stream = self.table.name
        self.draw = Expressions(rng, self.stream)

    def apply(self, mutation: Callable[[_Tree], None]) -> None:
        """Text that does not parse is left out: `fuzz.texts` makes enough of it."""
        try:
            mutation(self)
        except (WindrowError, SqlglotError):
            pass

    # -- parts ---------------------------------------------------------------------------------

    def family(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.Column):
            kind = TYPES[self.stream].get(node.name)
            return None if kind is None else family_of(kind)
        if isinstance(node, exp.Literal):
            return "s" if node.is_string else "n"
        return "b" if isinstance(node, _BOOLEAN) else "n" if isinstance(node, _NUMERIC) else None

    def scalars(self) -> list[tuple[exp.Expr, str]]:
        """The nodes whose family is known, with it; not those of LIMIT, and not arguments that are constants."""
        found = []
        for node in self.select.walk():
            family = self.family(node)
            if family is not None and node.find_ancestor(exp.Limit, exp.Table) is None and node.parent is not None:
                found.append((node, family))
        return found

    def put(self, node: exp.Expr, text: str) -> None:
        if node.parent is not None:
            node.replace(exp.paren(_parsed(text)))

    def window(self) -> WindowClause:
        window = window_of(self.table)
        assert window is not None
        return window

    # -- mutations of expressions --------------------------------------------------------------

    def swap_column(self) -> None:
        columns = [c for c in self.select.find_all(exp.Column) if self.family(c)]
        if columns:
            column = self.rng.choice(columns)
            names = columns_like(self.stream, self.family(column) or "n")
            self._rename(column, self.rng.choice(names))

    def _rename(self, column: exp.Column, name: str) -> None:
        """Rename the column everywhere, so that what is grouped stays grouped; or only here, once in four times."""
        old, here = column.name, self.rng.random() < 0.25
        for one in [column] if here else list(self.select.find_all(exp.Column)):
            if one.name == old:
                one.set("this", exp.to_identifier(name))

    def swap_literal(self) -> None:
        literals = list(self.select.find_all(exp.Literal))
        if literals:
            literal = self.rng.choice(literals)
            in_limit = literal.find_ancestor(exp.Limit) is not None
            pool = ["0", "1", "2", "1000"] if in_limit else LITERALS["s" if literal.is_string else "n"]
            literal.replace(_parsed(self.rng.choice(pool)))

    def replace_scalar(self) -> None:
        scalars = self.scalars()
        if scalars:
            node, family = self.rng.choice(scalars)
            is_final = isinstance(node, exp.AggFunc)
            self.put(node, self.draw.aggregate(numeric=True) if is_final else self.draw.of(family))

    def wrap_scalar(self) -> None:
        scalars = [(node, family) for node, family in self.scalars() if not node.find_ancestor(exp.AggFunc)]
        if scalars:
            node, family = self.rng.choice(scalars)
            text = self.draw.around(family, node.sql(dialect=CQL))
            if text is not None and not node.find(exp.AggFunc):
                self.put(node, text)

    def swap_aggregate(self) -> None:
        calls = list(self.select.find_all(exp.AggFunc))
        if calls:
            call = self.rng.choice(calls)
            call.replace(_parsed(self.draw.aggregate(numeric=True)).unnest())

    def toggle_filter(self) -> None:
        filters = list(self.select.find_all(exp.Filter))
        if filters and self.rng.random() < 0.5:
            one = self.rng.choice(filters)
            one.replace(one.this)
        elif calls := [c for c in self.select.find_all(exp.AggFunc) if not isinstance(c.parent, exp.Filter)]:
            call = self.rng.choice(calls)
            where = exp.Where(this=_parsed(self.draw.of("b")))
            call.replace(exp.Filter(this=call.copy(), expression=where))

    # -- mutations of clauses ------------------------------------------------------------------

    def add_item(self) -> None:
        text = self.draw.aggregate() if self.rng.random() < 0.6 else self.draw.final()
        name = f"c{len(self.select.expressions)}"
        item = exp.alias_(_parsed(text), name) if self.rng.random() < 0.95 else _parsed(text)
        items = list(self.select.expressions)
        items.insert(self.rng.randint(0, len(items)), item)
        self.select.set("expressions", items)

    def drop_item(self) -> None:
        items = list(self.select.expressions)
        if len(items) > 1:
            items.pop(self.rng.randrange(len(items)))
            self.select.set("expressions", items)

    def set_where(self) -> None:
        self.select.set("where", exp.Where(this=_parsed(self.draw.of("b"))))

    def set_having(self) -> None:
        self.select.set("having", exp.Having(this=_parsed(self.draw.condition())))

    def drop_clause(self) -> None:
        present = [name for name in ("where", "having", "order", "limit", "group") if self.select.args.get(name)]
        if present:
            self.select.set(self.rng.choice(present[:4]), None)

    def add_key(self) -> None:
        """Group by one more expression, and select it, mostly."""
        text = self.draw.of(self.rng.choice("sssnnbdt"), self.rng.choice((0, 0, 1)))
        key = _parsed(text)
        group = self.select.args.get("group") or exp.Group(expressions=[])
        group.set("expressions", [*group.expressions, key])
        self.select.set("group", group)
        if self.rng.random() < 0.8:
            item = exp.alias_(key.copy(), f"k{len(self.select.expressions)}")
            self.select.set("expressions", [item, *self.select.expressions])

    def set_order(self) -> None:
        rng = self.rng
        names = [item.alias_or_name for item in self.select.expressions if item.alias_or_name]
        chosen = [rng.choice(names) if names and rng.random() < 0.7 else self.draw.aggregate(True)]
        if rng.random() < 0.3:
            chosen.append(str(rng.randint(1, len(self.select.expressions))))
        orders = []
        for text in chosen:
            nulls = rng.choice((None, None, True, False))
            orders.append(exp.Ordered(this=_parsed(text), desc=rng.random() < 0.5, nulls_first=nulls))
        self.select.set("order", exp.Order(expressions=orders))

    def set_limit(self) -> None:
        self.select.set("limit", exp.Limit(expression=exp.Literal.number(self.rng.choice((0, 1, 2, 3, 1000)))))

    def set_distinct(self) -> None:
        self.select.set("distinct", exp.Distinct())

    def lend(self) -> None:
        """Take a clause, or a select item, from another query."""
        other = self.rng.choice(self.others).copy()
        name = self.rng.choice(("where", "having", "order", "limit", "expressions", "expressions"))
        if name == "expressions":
            item = self.rng.choice(other.expressions).unalias()
            self.select.set(
                "expressions", [*self.select.expressions, exp.alias_(item, f"l{len(self.select.expressions)}")]
            )
        elif other.args.get(name):
            self.select.set(name, other.args[name])

    def set_alias(self) -> None:
        self.table.set("alias", exp.TableAlias(this=exp.to_identifier("p")))
        columns = list(self.select.find_all(exp.Column))
        if columns:
            self.rng.choice(columns).set("table", exp.to_identifier(self.rng.choice(("p", "p", self.stream))))

    # -- mutations of the window ---------------------------------------------------------------

    def set_window(self) -> None:
        own = _NUMBER_WINDOWS if self.stream == NUMBERS else _TIME_WINDOWS
        text = self.rng.choice((*own, *_ROW_WINDOWS))
        query = parse_one(f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM {self.stream} [{text}]")
        assert isinstance(query, CreateQuery)
        self.table.set("window", window_of(next(query.select.find_all(StreamTable))))

    def resize_window(self) -> None:
        window, name = self.window(), self.rng.choice(("range", "slide", "offset"))
        measure: Measure | None = getattr(window, name)
        if measure is not None:
            sizes = (measure.amount * 2, measure.amount // 2 or 1, measure.amount + 1, self.rng.choice(_AMOUNTS))
            amount = self.rng.choice(sizes)
            self.table.set("window", replace(window, **{name: replace(measure, amount=amount)}))

    def partition_window(self) -> None:
        pattr = self.rng.choice(((), ("k",), ("ok", "small"), (self.rng.choice(list(TYPES[self.stream])),)))
        self.table.set("window", replace(self.window(), pattr=pattr))


_MUTATIONS: tuple[tuple[Callable[[_Tree], None], int], ...] = (
    (_Tree.swap_column, 10),
    (_Tree.swap_literal, 8),
    (_Tree.replace_scalar, 10),
    (_Tree.wrap_scalar, 6),
    (_Tree.swap_aggregate, 8),
    (_Tree.toggle_filter, 5),
    (_Tree.add_item, 10),
    (_Tree.drop_item, 3),
    (_Tree.set_where, 8),
    (_Tree.set_having, 6),
    (_Tree.drop_clause, 4),
    (_Tree.add_key, 8),
    (_Tree.set_order, 6),
    (_Tree.set_limit, 3),
    (_Tree.set_distinct, 1),
    (_Tree.lend, 6),
    (_Tree.set_alias, 2),
    (_Tree.set_window, 10),
    (_Tree.resize_window, 5),
    (_Tree.partition_window, 2),
)
