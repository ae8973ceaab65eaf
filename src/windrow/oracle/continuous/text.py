"""The user's text with every window replaced by a sub-select of the full history, for many ticks at once.

In a sub-select each tuple comes once for each tick at which it is in the window. The number of the tick is carried
through the whole text: sources are joined on it (see `joins`), groups, DISTINCT and set operations are made within it,
ORDER BY and LIMIT number the rows of it, EXISTS and IN ask for rows of the same tick. Nothing else changes, but:

- An aggregate without GROUP BY has a row at every tick, also where no tuple qualifies.
- SUM of integers is exact, and aggregates that Spark SQL lacks are written with those it has (see `spark_sql`).
- In a query with an INTERNAL window, or below a window on a sub-query, each result also carries its birth (the latest
  point of its parts), its end, and the numbers of its parts, by which it is the same result at all ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from windrow.errors import UnsupportedError
from windrow.oracle import holistic, spark_sql
from windrow.oracle.continuous.joins import TickedFrom, TickedSource, joined
from windrow.oracle.continuous.plan import WindowMeaning
from windrow.oracle.continuous.reading import (
    FromItem,
    Scope,
    as_relation,
    conditional_queries,
    is_aggregated,
    is_conditional,
    reports_all,
    scope_of,
    sources_of,
    streaming_of,
    unwrapped,
)
from windrow.types import POINT_MAX

TICKS = "windrow_oracle_ticks"
TICK, AT, ORDINAL = "__b", "__at", "__k"
"""The columns of the table of ticks: a tick's number, from 0, its point, and its number among the ticks of the plan, or
NULL for an instant between them, at which results of INTERNAL windows may appear."""
BORN, UNTIL, PARTS = "__ts", "__until", "__id"
TRACE = (TICK, BORN, UNTIL, PARTS)
"""What a traced result carries, and a tuple in a window: a tick at which it is there, its birth, its end, its parts."""
RANK = "__n"

Columns = Callable[[str], list[tuple[str, str]]]
"""A function from a statement to the names and types of its columns."""

Table = Callable[[FromItem], tuple[str, tuple[str, ...]]]
"""A function from a stream with a window to a view and the stream's columns. The view has each tuple once for each tick
at which it is in the window, with TRACE."""

Meaning = Callable[[FromItem], WindowMeaning]

FROM, TO = "__from", "__to"
"""Of the rows of a table that is NON RETROACTIVE: a tuple sees them if FROM ≤ its birth < TO."""

Rows = Callable[[FromItem], tuple[str, tuple[str, ...], bool]]
"""A function from a table to a view, the table's columns, and whether it is NON RETROACTIVE. The view has each row once
for each tick at which it is there, with TICK; or with FROM and TO."""


@dataclass(frozen=True)
class Block:
    """A statement whose last columns are `carried`; the others are the user's. `ranked`: RANK is the last of them."""

    text: str
    carried: tuple[str, ...]

    @property
    def ranked(self) -> bool:
        return self.carried[-1] == RANK


@dataclass
class Writer:
    """Writes a query for the ticks in TICKS."""

    table: Table
    meaning: Meaning
    columns: Columns
    rows: Rows
    periodic: bool = False
    finishers: list[Callable[..., object] | None] = field(default_factory=list)
    _asked_before: int = field(default=0, init=False)

    def root(self, query: exp.Expr) -> Block:
        """The whole query. `finishers` has the functions that complete columns in Python."""
        query = unwrapped(query)
        if isinstance(query, exp.Select):
            query = as_relation(query)
            if not any(item.is_star for item in query.expressions):
                self.finishers = [holistic.finisher(item.unalias(), None) for item in query.expressions]
        if self._is_internal(query, {}) and not reports_all(query, self.periodic):
            return self._seen(self.appeared(query, {}), None)
        return self.block(query, {}, traced=False)

    def block(self, query: exp.Expr, outer: Scope, traced: bool) -> Block:
        """A query. If it is traced, the results carry TRACE, otherwise the tick alone."""
        query = unwrapped(query)
        scope = scope_of(query, outer)
        if isinstance(query, exp.Select):
            return self._select(query, scope, traced)
        if not isinstance(query, exp.SetOperation):
            raise UnsupportedError(f"the oracle does not evaluate {type(query).__name__.upper()}")
        if traced and (query.args.get("distinct") or not isinstance(query, exp.Union)):
            raise UnsupportedError("over INTERNAL windows the oracle evaluates UNION ALL alone")
        branches = [self._unranked(self.block(one, scope, traced)) for one in (query.this, query.expression)]
        texts = [f"({self._branch(one, i) if traced else one.text})" for i, one in enumerate(branches)]
        words = type(query).__name__.upper() + ("" if query.args.get("distinct") else " ALL")
        return self._ordered_output(Block(f"\n{words} ".join(texts), branches[0].carried), query)

    def _branch(self, block: Block, number: int) -> str:
        """Results of different branches have different parts."""
        names = [*self._names(block), *(name for name in TRACE if name != PARTS)]
        return f"SELECT {_listed(names)}, CONCAT('{number}:', `{PARTS}`) AS `{PARTS}` FROM ({block.text})"

    def _select(self, select: exp.Select, scope: Scope, traced: bool) -> Block:
        select = as_relation(select)
        if traced and conditional_queries(select):
            raise UnsupportedError("the oracle traces no EXISTS and no IN")
        made = self._from(select, scope, traced)
        condition = " AND ".join([*self._where(select, scope, made), *made.same_tick])
        if is_aggregated(select):
            return self._aggregated(select, made, condition, traced)
        if traced and (select.args.get("distinct") or select.args.get("limit")):
            raise UnsupportedError("the oracle evaluates no DISTINCT and no LIMIT over INTERNAL windows")
        kept = _traced(len(made.carried)) if traced else [f"{made.tick_text} AS `{TICK}`"]
        items = [_item(item, made) for item in select.expressions]
        where_text = f"\nWHERE {condition}" if condition else ""
        return self._finish(select, items, kept, f"FROM {made.text}{where_text}", TRACE if traced else (TICK,))

    def _from(self, select: exp.Select, scope: Scope, traced: bool, first: int = 0) -> TickedFrom:
        """FROM; the columns that its sources carry are numbered from `first` on."""
        joins = select.args.get("joins") or []
        if traced and any(join.side or join.kind in ("SEMI", "ANTI") for join in joins):
            raise UnsupportedError("the oracle traces inner joins")
        sources, found = [], sources_of(select, scope)
        if traced and any(one.table is not None for one in found):
            raise UnsupportedError("the oracle joins no tables with INTERNAL windows")
        for number, one in enumerate(found, start=first):
            alias, text = one.alias or f"__q{number}", self._source(one, number, traced)
            if one.table is not None and self.rows(one)[2]:
                meets = self._meets(found, first, number)
                sources.append(TickedSource(text, alias, (f"{FROM}{number}", f"{TO}{number}"), "", meets))
                continue
            carried = tuple(_carried(number, one, traced))
            sources.append(TickedSource(text, alias, carried, f"{TICK}{number}"))
        return joined(joins, sources)

    def _meets(self, sources: Sequence[FromItem], first: int, number: int) -> str:
        """A result sees the rows of a table that is NON RETROACTIVE as of its own birth, the latest of its parts."""
        if number == first or any(one.query is not None for one in sources):
            raise UnsupportedError("the oracle joins a table that is NON RETROACTIVE with streams before it")
        born = [f"`{BORN}{i}`" for i, one in enumerate(sources, start=first) if one.stream is not None]
        latest = born[0] if len(born) == 1 else f"GREATEST({', '.join(born)})"
        return f"(`{FROM}{number}` <= {latest} AND {latest} < `{TO}{number}`)"

    def _where(self, select: exp.Select, scope: Scope, made: TickedFrom) -> list[str]:
        """WHERE as text, with the sub-queries of EXISTS and IN asked for rows of the same tick."""
        where = select.args.get("where")
        if where is None:
            return []
        tree, texts = where.this.copy(), dict[str, str]()
        for node in [one for one in tree.walk(prune=is_conditional) if is_conditional(one)]:
            mark = f"__subquery{len(texts)}__"
            query = node.this if isinstance(node, exp.Exists) else node.args["query"]
            text = self._asked(query, scope, made.tick_text, isinstance(node, exp.In))
            left = "" if isinstance(node, exp.Exists) else node.this.sql(dialect="spark")
            texts[mark] = f"(EXISTS ({text}))" if isinstance(node, exp.Exists) else f"({left} IN ({text}))"
            if node is tree:
                tree = exp.column(mark, quoted=True)
            else:
                node.replace(exp.column(mark, quoted=True))
        written = str(tree.sql(dialect="spark"))
        for mark, text in texts.items():
            written = written.replace(f"`{mark}`", text)
        return [f"({written})"]

    def _asked(self, query: exp.Expr, outer: Scope, tick: str, is_compared: bool) -> str:
        """The sub-query of EXISTS or IN: its rows at the tick of the row around."""
        query = unwrapped(query)
        if not isinstance(query, exp.Select) or is_aggregated(query) or query.args.get("limit"):
            block = self._unranked(self.block(query, outer, traced=False))
            names = [f"__c{i}" for i in range(len(self._names(block)))]
            listed = _listed(names) if is_compared else "1"
            return (
                f"SELECT {listed} FROM ({block.text}) AS `__e`({_listed([*names, '__e'])}) WHERE `__e`.`__e` = {tick}"
            )
        self._asked_before += 1
        scope = scope_of(query, outer)
        made = self._from(query, scope, traced=False, first=100 * self._asked_before)
        conditions = [*self._where(query, scope, made), *made.same_tick, f"{made.tick_text} = {tick}"]
        items = ", ".join(item.unalias().sql(dialect="spark") for item in query.expressions) if is_compared else "1"
        return f"SELECT {items} FROM {made.text} WHERE {' AND '.join(conditions)}"

    def _aggregated(self, select: exp.Select, made: TickedFrom, condition: str, traced: bool) -> Block:
        if traced:
            raise UnsupportedError("the oracle traces no aggregates")
        group, having = select.args.get("group"), select.args.get("having")
        order = [] if select.args.get("distinct") else _orders(select)
        nodes = [item.unalias() for item in select.expressions] + [one.this for one in order]
        nodes += [having.this] if having else []
        kept = None if group else made.tick.is_(exp.null()).not_()
        exact = spark_sql.exact_aggregates(nodes, kept, lambda texts: self._types(texts, made.text), point="0L")
        texts = [node.sql(dialect="spark") for node in exact]
        items = [_aliased(text, item) for text, item in zip(texts, select.expressions, strict=False)]
        if group:
            keys = ", ".join([*(key.sql(dialect="spark") for key in group.expressions), made.tick_text])
            rest = f"FROM {made.text}{f' WHERE {condition}' if condition else ''}\nGROUP BY {keys}"
            tick = f"{made.tick_text} AS `{TICK}`"
        else:
            on = " AND ".join([f"`__ticks`.`{TICK}` = {made.tick_text}", *([condition] if condition else [])])
            rest = f"FROM {TICKS} AS `__ticks` LEFT JOIN ({made.text}) ON {on}\nGROUP BY `__ticks`.`{TICK}`"
            tick = f"`__ticks`.`{TICK}` AS `{TICK}`"
        if having:
            rest += f"\nHAVING {texts[-1]}"
        orders = texts[len(items) : len(items) + len(order)]
        return self._finish(select, items, [tick], rest, (TICK,), orders)

    def _finish(
        self,
        select: exp.Select,
        items: list[str],
        kept: list[str],
        rest: str,
        carried: tuple[str, ...],
        orders: list[str] | None = None,
    ) -> Block:
        """The statement of the items, with ORDER BY and LIMIT."""
        if select.args.get("distinct"):
            whole = Block(f"SELECT DISTINCT {', '.join([*items, *kept])}\n{rest}", carried)
            return self._ordered_output(whole, select)
        order = _orders(select)
        if orders is None:
            orders = [one.this.sql(dialect="spark") for one in order]
        listed = [*items, *(f"{text} AS `__o{i}`" for i, text in enumerate(orders)), *kept]
        block = Block(f"SELECT {', '.join(listed)}\n{rest}", carried)
        ordered = [_with(one, f"__o{i}") for i, one in enumerate(order)]
        return self._ranked(block, ordered, _limit(select), len(orders))

    def _ordered_output(self, block: Block, query: exp.Expr) -> Block:
        """ORDER BY and LIMIT of a UNION, or of a SELECT DISTINCT, over its own columns."""
        order = query.args.get("order")
        names = [name.lower() for name in self._names(block)] if order else []
        ordered = []
        for item in order.expressions if order else ():
            made = item.copy() if isinstance(item, exp.Ordered) else exp.Ordered(this=item.copy())
            at = int(made.this.name) - 1 if isinstance(made.this, exp.Literal) else names.index(made.this.name.lower())
            ordered.append(_with(made, f"__c{at}"))
        return self._ranked(block, ordered, _limit(query), 0)

    def _ranked(self, block: Block, order: list[exp.Ordered], limit: int | None, extra: int) -> Block:
        """The block with the rank of each row in its tick. Ties are broken by the user's columns, in their order."""
        if not order and limit is None:
            return block
        names = self._names(block)
        names = names[: len(names) - extra]
        mine = [f"__c{i}" for i in range(len(names))]
        finish = self.finishers if len(self.finishers) == len(mine) else [None] * len(mine)
        ties = [f"`{name}`" for name, finisher in zip(mine, finish, strict=True) if finisher is None]
        by = ", ".join([*(one.sql(dialect="spark") for one in order), *ties])
        renamed = ", ".join(f"`{name}`" for name in [*mine, *(f"__o{i}" for i in range(extra)), *block.carried])
        numbered = f"ROW_NUMBER() OVER (PARTITION BY `{TICK}` ORDER BY {by}) AS `{RANK}`"
        shown = [f"`{name}` AS `{shown}`" for name, shown in zip(mine, names, strict=True)]
        text = (
            f"SELECT {', '.join(shown)}, {_listed([*block.carried, RANK])}\n"
            f"FROM (SELECT *, {numbered} FROM ({block.text}) AS `__x`({renamed}))"
        )
        return Block(text if limit is None else f"{text}\nWHERE `{RANK}` <= {limit}", (*block.carried, RANK))

    def _unranked(self, block: Block) -> Block:
        if not block.ranked:
            return block
        carried = block.carried[:-1]
        return Block(f"SELECT {_listed([*self._names(block), *carried])} FROM ({block.text})", carried)

    def _source(self, source: FromItem, number: int, traced: bool) -> str:
        """A source as a statement; the columns that it carries end in its number."""
        if source.stream is not None:
            return self._stream(source, number)
        if source.table is not None:
            view, columns, is_seen = self.rows(source)
            names = ", ".join(f"`{name}` AS `{name}{number}`" for name in ((FROM, TO) if is_seen else (TICK,)))
            return f"SELECT {_listed(columns)}, {names} FROM {view}"
        assert source.query is not None
        if source.window is not None:
            block = self._seen(self.appeared(source.query, source.inner_scope), self.meaning(source))
        elif streaming_of(source.query):
            raise UnsupportedError("ISTREAM, DSTREAM and RSTREAM of a sub-query need a window on it")
        else:
            block = self._unranked(self.block(source.query, source.inner_scope, traced))
        if any(f is not None for f in self._collected(source.query)):
            raise UnsupportedError("the oracle evaluates TOP_K in the outermost query")
        renamed = [*self._names(block), *(f"{name}{number}" for name in block.carried)]
        return f"SELECT * FROM ({block.text}) AS `__x`({_listed(renamed)})"

    def _collected(self, query: exp.Expr) -> list[Callable[..., object] | None]:
        query = unwrapped(query)
        items = query.expressions if isinstance(query, exp.Select) else []
        return [holistic.finisher(item.unalias(), None) for item in items if not item.is_star]

    def _stream(self, source: FromItem, number: int) -> str:
        view, columns = self.table(source)
        carried = ", ".join(f"`{name}` AS `{name}{number}`" for name in TRACE)
        return f"SELECT {_listed(columns)}, {carried} FROM {view}"

    def appeared(self, query: exp.Expr, outer: Scope) -> Block:
        """Every result that ever appeared, once, with the tick at which it did.

        Rows of aggregates have no parts to be known by: they appear where the rows of a tick are not those of the tick
        before, like those of ISTREAM.
        """
        query = unwrapped(query)
        kind = "rstream" if reports_all(query, self.periodic) else streaming_of(query)
        if kind is None and not (isinstance(query, exp.Select) and is_aggregated(query)):
            block = self.block(query, outer, traced=True)
            names = _listed([*self._names(block), *TRACE])
            first = f"ROW_NUMBER() OVER (PARTITION BY `{PARTS}` ORDER BY `{TICK}`) AS `__first`"
            return Block(f"SELECT {names} FROM (SELECT *, {first} FROM ({block.text})) WHERE `__first` = 1", TRACE)
        if kind == "rstream restore" or (kind == "rstream" and not self.periodic):
            raise UnsupportedError("the oracle evaluates no window on RSTREAM")
        block = self._unranked(self.block(query, outer, traced=False))
        names = _listed(self._names(block))
        nth = TICK if kind == "istream restore" else ORDINAL  # every instant counts, or the ticks of the plan
        numbered = f"(SELECT `{TICK}` AS `__t`, `{nth}` AS `__nth` FROM {TICKS})"
        at_ticks = f"FROM ({block.text}) AS y JOIN {numbered} AS m ON y.`{TICK}` = m.`__t` WHERE m.`__nth` IS NOT NULL"
        now, before = (f"SELECT {names}, m.`__nth`{later} {at_ticks}" for later in ("", " + 1"))
        changed = f"{before} EXCEPT ALL {now}" if kind == "dstream" else f"{now} EXCEPT ALL {before}"
        changed = now if kind == "rstream" else changed
        number = "CAST(ROW_NUMBER() OVER (ORDER BY x.`__nth`) AS STRING)"
        text = (
            f"SELECT {', '.join(f'x.`{name}`' for name in self._names(block))}, n.`{TICK}`, n.`{AT}` - 1 AS `{BORN}`,"
            f" {POINT_MAX} AS `{UNTIL}`, {number} AS `{PARTS}`"
            f" FROM ({changed}) AS x({names}, `__nth`) JOIN {TICKS} AS n ON x.`__nth` = n.`{nth}`"
        )
        return Block(text, TRACE)

    def _seen(self, appeared: Block, meaning: WindowMeaning | None) -> Block:
        """The results that appeared, at each tick at which a window on them holds them, or without one, for ever."""
        names = ", ".join(f"x.`{name}`" for name in self._names(appeared))
        on, until = [f"x.`{TICK}` <= n.`{TICK}`", f"n.`{AT}` <= x.`{UNTIL}`"], f"x.`{UNTIL}`"
        born = f"x.`{BORN}`"
        if meaning is not None:
            born = f"(x.`{BORN}` + {meaning.offset})"
            on.append(f"{born} < n.`{AT}`")
            if meaning.range is not None:
                on.append(f"n.`{AT}` <= {born} + {meaning.range}")
                until = until if meaning.internal else f"LEAST({until}, {born} + {meaning.range})"
        if meaning is not None and meaning.rows is not None:
            return self._last(appeared, names, on, meaning.rows)
        text = (
            f"SELECT {names}, n.`{TICK}`, {born} AS `{BORN}`, {until} AS `{UNTIL}`, x.`{PARTS}`"
            f" FROM ({appeared.text}) AS x JOIN {TICKS} AS n ON {' AND '.join(on)}"
        )
        return Block(text, TRACE)

    def _last(self, appeared: Block, names: str, on: list[str], rows: int) -> Block:
        """The last results at each tick, by (birth, then all columns)."""
        by = ", ".join(f"x.`{name}` DESC NULLS LAST" for name in (BORN, *self._names(appeared)))
        text = (
            f"SELECT {names}, n.`{TICK}`, x.`{BORN}`, x.`{UNTIL}`, x.`{PARTS}`,"
            f" ROW_NUMBER() OVER (PARTITION BY n.`{TICK}` ORDER BY {by}) AS `__last`"
            f" FROM ({appeared.text}) AS x JOIN {TICKS} AS n ON {' AND '.join(on)}"
        )
        listed = _listed([*self._names(appeared), *TRACE])
        return Block(f"SELECT {listed} FROM ({text}) WHERE `__last` <= {rows}", TRACE)

    def _is_internal(self, query: exp.Expr, outer: Scope) -> bool:
        """Whether a window of the query is INTERNAL, except below a window on a sub-query."""
        query = unwrapped(query)
        scope = scope_of(query, outer)
        if isinstance(query, exp.SetOperation):
            return any(self._is_internal(one, scope) for one in (query.this, query.expression))
        found = False
        for source in sources_of(query, scope) if isinstance(query, exp.Select) else ():
            if source.window is not None:
                found = found or source.window.internal
            elif source.query is not None:
                found = found or self._is_internal(source.query, source.inner_scope)
        return found

    def _names(self, block: Block) -> list[str]:
        """The user's columns of a block."""
        return [name for name, _ in self.columns(block.text)][: -len(block.carried)]

    def _types(self, texts: list[str], from_text: str) -> list[str]:
        listed = ", ".join(f"{text} AS `__s{i}`" for i, text in enumerate(texts))
        return [kind for _, kind in self.columns(f"SELECT {listed} FROM {from_text}")]


def _carried(number: int, source: FromItem, traced: bool) -> list[str]:
    names = TRACE if traced or source.window is not None else (TICK,)
    return [f"{name}{number}" for name in names]


def _traced(sources: int) -> list[str]:
    """The birth, the end and the parts of a result of so many sources."""
    if sources == 1:
        return [f"`{name}0` AS `{name}`" for name in TRACE]
    born, until, parts = ([f"`{name}{i}`" for i in range(sources)] for name in (BORN, UNTIL, PARTS))
    return [
        f"`{TICK}0` AS `{TICK}`",
        f"GREATEST({', '.join(born)}) AS `{BORN}`",
        f"LEAST({', '.join(until)}) AS `{UNTIL}`",
        f"CONCAT_WS(',', {', '.join(parts)}) AS `{PARTS}`",
    ]


def _item(item: exp.Expr, made: TickedFrom) -> str:
    """An item of a select list; `*` leaves out what the sources carry."""
    if not item.is_star:
        return str(item.sql(dialect="spark"))
    if isinstance(item, exp.Column):
        alias, names = next((alias, names) for alias, names in made.carried if alias.lower() == item.table.lower())
        return f"`{alias}`.* EXCEPT ({_listed(names)})"
    return f"* EXCEPT ({_listed(made.hidden)})"


def _aliased(text: str, item: exp.Expr) -> str:
    named = item.alias if isinstance(item, exp.Alias) else None
    return f"{text} AS `{named}`" if named else text


def _orders(select: exp.Select) -> list[exp.Ordered]:
    order = select.args.get("order")
    items = tuple(item.unalias() for item in select.expressions)
    aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    return [spark_sql.resolved_order(item, items, aliases) for item in (order.expressions if order else ())]


def _limit(query: exp.Expr) -> int | None:
    limit = query.args.get("limit")
    return int(limit.expression.name) if limit else None


def _with(ordered: exp.Ordered, column: str) -> exp.Ordered:
    made = ordered.copy()
    made.set("this", exp.column(column, quoted=True))
    return made


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
