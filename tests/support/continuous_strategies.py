"""Hypothesis strategies for continuous queries: up to three streams with ties, disorder, NULLs, silence and different
TICKs, and plans of up to five operators over them.

Every source of a query has the columns k, g and x, so that texts are made of parts that fit. Doubles are quarters of
small integers: sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from support.strategies import INTEGERS, Attribute, Row

_TABLE = "(k STRING PRIMARY KEY, g SMALLINT, x INT)"
_FED = "FROM STREAM {stream} DELETE WHEN f AND x % 2 = 0"
FED_TABLES = {"tab": f"CREATE TABLE tab {_TABLE} {_FED}", "past": f"CREATE TABLE past {_TABLE} NON RETROACTIVE {_FED}"}
"""Tables of the last tuples by k."""

CHANGED_TABLES = {"rel": f"CREATE TABLE rel {_TABLE}", "nrr": f"CREATE TABLE nrr {_TABLE} NON RETROACTIVE"}
"""Tables that statements change."""

QUARTERS = Attribute("TIMESTAMP", 250_000, "MILLISECONDS")
"""A quarter of a second, so that tuples come and go between ticks."""

NAMES = ("r", "s", "t")
COLUMNS = "k STRING, g SMALLINT, x INT, d DOUBLE, f BOOLEAN"


@dataclass(frozen=True)
class Event:
    """A micro-batch of a stream ('feed'), a punctuation of it, its end ('close'), or a restart of the engine. Or a
    statement: one that changes a table ('change'), or one about a query ('replace', 'pause', 'resume')."""

    kind: str
    stream: str = ""
    rows: tuple[Row, ...] = ()
    upto: Any = None
    query: str = ""
    text: str = ""


@dataclass(frozen=True)
class Telling:
    """One way in which the same tuples come: in which micro-batches and order, on how many partitions, with a restart
    and punctuations at some points; and how the engine runs. `queries`: how many of the queries it has."""

    events: tuple[Event, ...]
    partitions: int
    home: str
    rules_off: bool
    queries: int
    execution: str = "upa"

    def __str__(self) -> str:
        shown = (f"{one.kind} {one.stream} {one.upto or ''} {one.text}{list(one.rows)}" for one in self.events)
        how = f"{self.home}, {self.partitions} partitions, rules off: {self.rules_off}, {self.execution}"
        return "\n".join([f"-- {how}", *shown])


@dataclass(frozen=True)
class StandingScenario:
    """Streams and queries, and two tellings of the streams: the answers are the same. `periodic` are the queries with
    SLIDE."""

    streams: tuple[str, ...]
    queries: tuple[tuple[str, str], ...]
    periodic: frozenset[str]
    tellings: tuple[Telling, ...]

    @property
    def is_timeless(self) -> bool:
        """Whether changes are the same in all tellings. Of a table that a stream feeds, equal points and keys go by
        arrival; a statement takes effect when it comes; and other strategies than the default show the same answers by
        changes that depend on the plan."""
        kinds = {event.kind for one in self.tellings for event in one.events}
        has_table = any(text.startswith("CREATE TABLE") for text in self.streams)
        return not has_table and "replace" not in kinds and all(one.execution == "upa" for one in self.tellings)

    def __str__(self) -> str:
        return "\n".join([*self.streams, *(text for _, text in self.queries), *map(str, self.tellings)])


def _length(attribute: Attribute, points: int) -> str:
    return f"{points * 250} MILLISECONDS" if attribute is QUARTERS else str(points)


def _tick(attribute: Attribute, ticks: int) -> str:
    return f"{ticks} SECOND" if attribute is QUARTERS else str(ticks)


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(*[values] * 7, st.none())


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": _maybe(st.sampled_from(["a", "b", "a", "é"])),
    "g": _maybe(st.integers(0, 2)),
    "x": _maybe(st.one_of(st.integers(0, 3), st.integers(-50, 50))),
    "d": _maybe(st.integers(-64, 64).map(lambda n: n / 4)),
    "f": _maybe(st.booleans()),
}


Timed = tuple[int, Row]
"""A tuple and its point."""


@st.composite
def timed_rows(draw: st.DrawFn, attribute: Attribute) -> list[Timed]:
    """The tuples of a stream: time goes on by small steps, with ties, equal tuples and silence."""
    point, made = draw(st.sampled_from([0, 3, -20])), list[Timed]()
    for _ in range(draw(st.sampled_from([16, 9, 24, 2, 0]))):
        point += draw(st.sampled_from([1, 0, 0, 0, 1, 1, 2, 3, 1, 0, 2, 7, 40]))
        if made and draw(st.integers(0, 9)) == 0:
            made.append((point, {**made[-1][1], "ts": attribute.value(point)}))
            continue
        values = {name: draw(strategy) for name, strategy in VALUES.items()}
        made.append((point, {"ts": attribute.value(point), **values}))
    return made


@dataclass(frozen=True)
class Teller:
    """Tells a stream: cuts its tuples into micro-batches, in an order in which none is late, and adds some that are."""

    rng: Random
    attribute: Attribute

    def events(self, stream: str, rows: list[Timed], slack: int, silence: int) -> list[Event]:
        """A tuple that comes later is earlier by no more than the slack. After the last one there is silence."""
        waiting = [(point + self.rng.randint(0, slack), self.rng.random(), point, row) for point, row in rows]
        order = [(point, row) for _, _, point, row in sorted(waiting, key=lambda one: one[:2])]
        cuts = sorted(self.rng.choices(range(len(order) + 1), k=self.rng.choice([0, 1, 1, 2, 3])))
        made, greatest = list[Event](), None
        for lo, hi in zip([0, *cuts], [*cuts, len(order)], strict=True):
            batch = [row for _, row in order[lo:hi]]
            if greatest is not None and self.rng.random() < 0.3:
                below = greatest - slack - 1 - self.rng.choice([0, 0, 5])
                late = {**self.rng.choice(order)[1], "ts": self.attribute.value(below)}
                batch.insert(self.rng.randint(0, len(batch)), late)
            made.append(Event("feed", stream, tuple(batch)))
            seen = [point for point, _ in order[:hi]]
            greatest = max(seen, default=None)
            if order[hi:] and greatest is not None and self.rng.random() < 0.3:
                least = min(point for point, _ in order[hi:])
                made.append(Event("punctuate", stream, upto=self.attribute.value(least)))
                greatest = max(greatest, least + slack)
        if rows and silence:
            made.append(Event("punctuate", stream, upto=self.attribute.value(rows[-1][0] + silence)))
        return [*made, Event("close", stream)]


@dataclass(frozen=True)
class Grammar:
    """Draws texts over the streams. With `slide`, every window has it. `tables` may stand wherever a stream has stood
    before; `nrrs`, which are NON RETROACTIVE, are joined with streams."""

    draw: st.DrawFn
    attribute: Attribute
    streams: tuple[str, ...]
    slide: int | None
    tables: tuple[str, ...] = ()
    nrrs: tuple[str, ...] = ()

    def _one(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def window(self, internal: bool = False, counts: bool = True) -> str:
        """A window; a count-based one only if it `counts`."""
        length = _length(self.attribute, self.draw(st.sampled_from([12, 8, 30, 4, 3, 1])))
        others = ["unbounded", "now", "offset", *(["rows"] if counts else [])]
        kind = "range" if internal else self._one("range", "range", "range", "range", *others)
        if self.slide is not None:
            return f"[RANGE {length} SLIDE {_length(self.attribute, self.slide)}{' INTERNAL' if internal else ''}]"
        if kind == "rows":
            return f"[ROWS {self._one(1, 2, 3, 7)}{self._one('', ' PARTITION BY k', ' PARTITION BY k, g')}]"
        if kind == "unbounded":
            return "[UNBOUNDED]"
        if kind == "now":
            return "[NOW]"
        offset = f" OFFSET {_length(self.attribute, self._one(1, 5))}" if kind == "offset" else ""
        return f"[RANGE {length}{offset}{' INTERNAL' if internal else ''}]"

    def stream(self) -> str:
        return str(self._one(*self.streams))

    def predicate(self, alias: str = "") -> str:
        dot = f"{alias}." if alias else ""
        return str(
            self._one(f"{dot}x >= 0", f"{dot}k IS NOT NULL", f"{dot}g IN (0, 1)", f"{dot}x % 2 = 0", f"{dot}k = 'a'")
        )

    def source(self, alias: str) -> str:
        """A stream, or a sub-query with the columns k, g and x."""
        if self.tables and alias != "a" and self._one(True, False, False):
            return self._table_source(alias)
        kind = self._one(
            *("stream", "stream", "stream", "stream", "filter", "distinct", "distinct", "union", "internal", "istream"),
            *("group", "top", "except", "negated", "outer", *(["enriched"] if self.nrrs else [])),
        )
        if kind == "stream":
            return f"{self.stream()} {self.window()} AS {alias}"
        if kind == "filter":
            return f"(SELECT k, g, x + 1 AS x FROM {self.stream()} {self.window()} WHERE {self.predicate()}) AS {alias}"
        if kind == "distinct":
            return f"(SELECT DISTINCT k, g, x FROM {self.stream()} {self.window()}) AS {alias}"
        if kind == "union":
            return f"({self._plain()} UNION ALL {self._plain()}) AS {alias}"
        if kind == "except":
            words = f"{self._one('EXCEPT', 'EXCEPT', 'INTERSECT')}{self._one('', ' ALL')}"
            left = self._one(self._plain(), f"SELECT k, g, x FROM ({self._plain()} UNION ALL {self._plain()}) AS u")
            return f"({left} {words} {self._plain()}) AS {alias}"
        if kind == "outer":
            sides = [f"{self.stream()} {self.window()} AS {one}" for one in ("m", "n")]
            joined = f" {self._one('LEFT', 'FULL')} JOIN ".join(sides)
            return f"(SELECT m.k, n.g, n.x FROM {joined} ON {self._matching('m', 'n')}) AS {alias}"
        if kind == "negated":
            where = f"{self._one('NOT ', 'NOT ', '')}EXISTS (SELECT 1 FROM {self.stream()} {self.window()} AS m "
            where += f"WHERE m.k = n.k{self._one('', '', ' AND m.x < n.x')})"
            return f"(SELECT k, g, x FROM {self.stream()} {self.window()} AS n WHERE {where}) AS {alias}"
        if kind == "enriched":
            source = f"{self.stream()} {self.window(counts=False)} AS m"
            joined = f"{source} {self._one('', 'LEFT ')}JOIN {self._one(*self.nrrs)} AS n ON m.k = n.k"
            return f"(SELECT m.k, n.g, n.x FROM {joined}) AS {alias}"
        if kind in ("group", "top"):
            return f"({self._withdrawn(kind)}) AS {alias}"
        if kind == "internal":
            inner = f"SELECT k, g, x FROM {self.stream()} {self.window(internal=True)}"
        else:
            word = self._one("ISTREAM", "ISTREAM", "ISTREAM RESTORE", "DSTREAM")
            inner = f"SELECT {word}(k, g, x) FROM {self._streamed()}"
        return f"({inner}) {self._one(self._ranged(), self._ranged(), self._ranged(), '[ROWS 3]')} AS {alias}"

    def _table_source(self, alias: str) -> str:
        """A table, or a sub-query over it alone."""
        table = self._one(*self.tables)
        kind = self._one("table", "table", "group", "top", "total")
        if kind == "table":
            return f"{table} AS {alias}"
        if kind == "total":
            return f"(SELECT MAX(k) AS k, MIN(g) AS g, COUNT(*) AS x FROM {table}) AS {alias}"
        if kind == "group":
            return f"(SELECT MIN(k) AS k, g, COUNT(*) AS x FROM {table} GROUP BY g) AS {alias}"
        return f"(SELECT k, g, x FROM {table} ORDER BY x DESC, k LIMIT 2) AS {alias}"

    def _plain(self) -> str:
        return f"SELECT k, g, x FROM {self.stream()} {self.window()}"

    def _withdrawn(self, kind: str) -> str:
        """A query that withdraws rows: GROUP BY, an aggregate, or LIMIT."""
        source = f"{self.stream()} {self.window()}"
        if kind == "top":
            return f"SELECT k, g, x FROM {source} ORDER BY x DESC LIMIT {self._one(1, 2, 4)}"
        total = self._one("COUNT(*)", "SUM(x)", "MAX(x)", "QUANTILE(x, 0.5)", "COUNT(DISTINCT x)")
        key, others = self._one(("k", "MAX(g)"), ("k", "COUNT(x)"), ("g", "MIN(k)"), ("", "MIN(k)"))
        if not key:
            return f"SELECT MIN(k) AS k, MAX(g) AS g, {total} AS x FROM {source}"
        listed = f"k, {others} AS g" if key == "k" else f"{others} AS k, g"
        return f"SELECT {listed}, {total} AS x FROM {source} GROUP BY {key}"

    def _streamed(self) -> str:
        """What ISTREAM and DSTREAM are of: a window, or its distinct values."""
        source = f"{self.stream()} {self._ranged()}"
        return self._one(source, f"(SELECT DISTINCT k, g, x FROM {source}) AS i")

    def _ranged(self) -> str:
        length = _length(self.attribute, self._one(12, 8, 4, 3))
        return f"[RANGE {length}{'' if self.slide is None else f' SLIDE {_length(self.attribute, self.slide)}'}]"

    def joined(self) -> tuple[str, list[str]]:
        """FROM and WHERE, and the aliases that other clauses can use."""
        count = self._one(1, 1, 2, 2, 2, 3)
        aliases = ["a"]
        text, where = f"FROM {self.source('a')}", []
        for alias in ["b", "c"][: count - 1]:
            last = aliases[-1]
            kind = self._one("on", "on", "on", "both", "less", "using", "comma", "cross", "outer", "outer", "semi")
            source = self.source(alias)
            if kind == "semi":
                text += f" LEFT {self._one('SEMI', 'ANTI')} JOIN {source} ON {self._matching(last, alias)}"
                continue
            aliases.append(alias)
            if kind == "using" and count == 2:
                text += f" {self._one('', '', 'LEFT ', 'RIGHT ', 'FULL OUTER ')}JOIN {source} USING (k)"
            elif kind == "outer":
                text += f" {self._one('LEFT', 'RIGHT', 'FULL')} JOIN {source} ON {self._matching(last, alias)}"
            elif kind == "comma":
                text += f" CROSS JOIN {source}"
                where.append(f"{last}.k = {alias}.k")
            elif kind == "cross" and count == 2:
                text += f" CROSS JOIN {source}"
                where.append(f"{last}.x < {alias}.x")
            else:
                more = {"both": f" AND {last}.g = {alias}.g", "less": f" AND {last}.x < {alias}.x"}.get(kind, "")
                text += f" JOIN {source} ON {last}.k = {alias}.k{more}"
        if self._one(True, False, False):
            where.append(self.predicate(self._one(*aliases)))
        if self._one(True, False, False):
            where.append(self.membership(self._one(*aliases)))
        return f"{text} WHERE {' AND '.join(where)}" if where else text, aliases

    def _matching(self, one: str, other: str) -> str:
        """What the rows of a side have to meet to match."""
        more = self._one("", "", f" AND {one}.g = {other}.g", f" AND {one}.x < {other}.x", f" AND {other}.x >= 0")
        key = self._one(*[f"{one}.k = {other}.k"] * 5, f"{one}.g = {other}.x", f"{one}.x < {other}.x")
        return f"{key}{more}{self._one('', '', f' AND {one}.x >= 0')}"

    def membership(self, alias: str) -> str:
        """EXISTS or IN with a sub-query, correlated with an input or not."""
        kind = self._one("exists", "exists", "in", "in", "group", "or")
        no, source = self._one("", "NOT ", "NOT "), self.source("z")
        if kind == "exists":
            where = self._one(f" WHERE {self._matching(alias, 'z')}", f" WHERE {self._matching(alias, 'z')}", "")
            return f"{no}EXISTS (SELECT {self._one('1', '*', 'z.x')} FROM {source}{where})"
        if kind == "in":
            where = self._one("", f" WHERE z.k = {alias}.k", f" WHERE z.x <= {alias}.x")
            return f"{alias}.{self._one('k {0}IN (SELECT z.k', 'g {0}IN (SELECT z.g').format(no)} FROM {source}{where})"
        if kind == "group":
            return f"{alias}.k {no}IN (SELECT z.k FROM {source} GROUP BY z.k HAVING COUNT(*) > 1)"
        return f"NOT ({self.predicate(alias)} OR {no}EXISTS (SELECT 1 FROM {source} WHERE z.g = {alias}.g))"

    def columns(self, aliases: list[str]) -> list[str]:
        last = aliases[-1]
        options = ["a.k", "a.x", "a.g", f"{last}.x", f"a.x + {last}.x", f"COALESCE({last}.k, 'none')", "a.x % 3"]
        chosen: list[str] = self.draw(st.lists(st.sampled_from(options), min_size=1, max_size=3))
        return [f"{text} AS c{i}" for i, text in enumerate(chosen)]

    def aggregates(self, aliases: list[str]) -> list[str]:
        x = f"{aliases[-1]}.x"
        options = [
            "COUNT(*)",
            f"COUNT({x})",
            f"SUM({x})",
            f"SUM(a.x * {x})",
            f"MIN({x})",
            f"MAX({x})",
            f"AVG({x})",
            f"VARIANCE({x})",
            f"MEDIAN({x})",
            f"QUANTILE({x}, 0.5)",
            f"COUNT(DISTINCT {x})",
            "MIN(a.k)",
            f"COUNT(*) FILTER (WHERE {x} > 0)",
            f"MAX({x}) - MIN(a.x)",
        ]
        chosen: list[str] = self.draw(st.lists(st.sampled_from(options), min_size=1, max_size=3))
        return [f"{text} AS n{i}" for i, text in enumerate(chosen)]

    def query(self) -> str:
        kind = self._one(
            *("plain", "plain", "distinct", "group", "group", "total", "union", "stream", "top", "over", "internal"),
            *("sets", "window", *(["enriched", "enriched"] if self.nrrs else []), "either"),
        )
        if kind == "enriched":
            return self._enriched()
        if kind == "either":
            return self._either()
        if kind == "internal" and self.slide is None:
            return self._append_only()
        if kind == "window" and self.slide is None:
            return self._last_results()
        if kind == "union":
            return f"{self._united()} UNION {self._one('ALL ', 'ALL ', '')}{self._united()}"
        if kind == "sets":
            words = f"{self._one('EXCEPT', 'EXCEPT', 'INTERSECT', 'MINUS')}{self._one(' ALL', ' ALL', '')}"
            return f"{self._united()} {words} {self._united()}"
        text, aliases = self.joined()
        if kind == "plain":
            return f"SELECT {', '.join(self.columns(aliases))} {text}"
        if kind == "distinct":
            return f"SELECT DISTINCT {', '.join(self.columns(aliases))} {text}"
        if kind == "stream":
            if self.slide is not None:
                return f"SELECT {', '.join(self.columns(aliases))} {text}"
            kinds = ["ISTREAM", "ISTREAM RESTORE", "ISTREAM RESTORE"]
            kinds += [] if "UNBOUNDED" in text else ["DSTREAM", "RSTREAM", "RSTREAM RESTORE"]  # rows must leave
            listed = self._one(self.columns, self.columns, self.columns, self.aggregates)(aliases)
            return f"SELECT {self._one(*kinds)}({', '.join(listed)}) {text}"
        if kind == "top":
            return f"SELECT {', '.join(self.columns(aliases))} {text} ORDER BY c0 DESC LIMIT {self._one(1, 3)}"
        if kind == "total":
            return f"SELECT {', '.join(self.aggregates(aliases))} {text}"
        keys = self._one(["a.k"], ["a.g"], ["a.k", "a.g"])
        listed = [*(f"{key} AS k{i}" for i, key in enumerate(keys)), *self.aggregates(aliases)]
        grouped = f"SELECT {', '.join(listed)} {text} GROUP BY {', '.join(keys)}"
        if self._one(True, False, False):
            grouped += f" HAVING {self._one('COUNT(*) > 1', 'n0 IS NOT NULL')}"
        return f"SELECT k0, n0 FROM ({grouped}) AS z WHERE k0 IS NOT NULL" if kind == "over" else grouped

    def _append_only(self) -> str:
        """A join of INTERNAL windows, or of one with one that is not."""
        windows = [self.window(self._one(True, True, i > 0), counts=False) for i in range(2)]
        sources = [f"{self.stream()} {window}" for window in windows]
        return f"SELECT a.k AS c0, a.x + b.x AS c1 FROM {sources[0]} AS a JOIN {sources[1]} AS b ON a.k = b.k"

    def _enriched(self) -> str:
        """A join with a table that is NON RETROACTIVE."""
        sources = [f"{self.stream()} {self.window(counts=False)}" for _ in range(2)]
        joined = self._one("", "", f" JOIN {sources[1]} AS b ON a.k = b.k")
        on = self._one("a.k = n.k", "a.k = n.k", "a.k = n.k AND a.x < n.x", "a.g = n.g", "a.x < n.x")
        text = f"FROM {sources[0]} AS a{joined} {self._one('', 'LEFT ')}JOIN {self._one(*self.nrrs)} AS n ON {on}"
        listed = "a.k AS c0, a.x AS c1, n.x AS c2"
        kinds = ["SELECT {}", "SELECT {}", "SELECT DISTINCT {}"]
        kinds += [] if self.slide is not None else ["SELECT ISTREAM({})", "SELECT ISTREAM RESTORE({})"]
        kind = self._one(*kinds, "group", "where")
        if kind == "where":
            no, source, more = self._one("", "NOT ", "NOT "), self.source("z"), self._one("", " AND z.x < n.x")
            exists = f"{no}EXISTS (SELECT 1 FROM {source} WHERE z.k = a.k{more})"
            return f"SELECT {listed} {text} WHERE {self._one(exists, f'n.x {no}IN (SELECT z.x FROM {source})')}"
        if kind == "group":
            return f"SELECT n.g AS c0, COUNT(*) AS n0, MAX(a.x) AS n1 {text} GROUP BY n.g"
        return f"{kind.format(listed)} {text}"

    def _either(self) -> str:
        """EXISTS under OR."""
        text = f"SELECT a.k AS c0, a.x AS c1 FROM {self.source('a')} WHERE "
        exists = [f"{self._one('', 'NOT ')}EXISTS (SELECT 1 FROM {self.source(z)} WHERE {{}})" for z in ("y", "z")]
        met = [one.format(self._matching("a", z)) for one, z in zip(exists, ("y", "z"), strict=True)]
        return text + self._one(f"({self.predicate('a')} OR {met[0]})", f"({met[0]} OR {met[1]})")

    def _last_results(self) -> str:
        """WSTREAM around a join or an aggregate, or inside an aggregate."""
        window = self._one("[ROWS 1]", "[ROWS 3]", "[ROWS 7]", self._ranged(), self._ranged())
        sources = [f"{self.stream()} {self.window(counts=False)}" for _ in range(2)]
        joined = f"FROM {sources[0]} AS a JOIN {sources[1]} AS b ON a.k = b.k"
        kind = self._one("join", "join", "group", "total", "nested", "nested")
        if kind == "join":
            return f"SELECT WSTREAM(a.k AS c0, a.x + b.x AS c1, b.g AS c2){window} {joined}"
        if kind == "group":
            return f"SELECT WSTREAM(a.k AS c0, {self.aggregates(['a', 'b'])[0]}){window} {joined} GROUP BY a.k"
        if kind == "total":
            return f"SELECT WSTREAM({self.aggregates(['a', 'b'])[0]}){window} {joined}"
        value = self._one("SUM(a.x)", "COUNT(*)", "a.x", "MAX(b.x)")
        return f"SELECT SUM(WSTREAM({value}){window}) AS c0, COUNT(WSTREAM({value}){window}) AS c1 {joined}"

    def _united(self) -> str:
        text, aliases = self.joined()
        return f"SELECT a.k AS c0, {aliases[-1]}.x AS c1 {text}"


@dataclass(frozen=True)
class StandingTexts:
    """Streams of integers with their tuples, and queries over them. `seed` is for what else is drawn at random."""

    streams: tuple[str, ...]
    rows: Mapping[str, list[Timed]]
    queries: tuple[str, ...]
    seed: int
    fed: str | None = None
    """The stream that feeds FED_TABLES, which queries may read; None: there are none."""

    def __str__(self) -> str:
        return "\n".join(
            [f"the table is fed by {self.fed}", *self.streams, *(f"{name}: {rows}" for name, rows in self.rows.items())]
        )


@st.composite
def standing_texts(draw: st.DrawFn, queries: int = 6) -> StandingTexts:
    names = NAMES[: draw(st.sampled_from([2, 2, 3, 1]))]
    ticks = [draw(st.sampled_from(["", " TICK 1", " TICK 2"])) for _ in names]
    streams = tuple(
        f"{name} (ts BIGINT, {COLUMNS}) FROM memory TIMESTAMP BY ts{tick}"
        for name, tick in zip(names, ticks, strict=True)
    )
    rows = {name: draw(timed_rows(INTEGERS)) for name in names}
    fed = draw(st.sampled_from([None, names[0], names[-1]]))
    tables, nrrs = (("tab", "rel"), ("past", "nrr")) if fed else (("rel",), ("nrr",))
    texts = tuple(Grammar(draw, INTEGERS, names, None, tables, nrrs).query() for _ in range(queries))
    return StandingTexts(streams, rows, texts, draw(st.integers(0, 1 << 30)), fed)


@st.composite
def standing_scenarios(draw: st.DrawFn, queries: int = 6, in_spark: int = 2) -> StandingScenario:
    """So many queries over one to three streams, which end in any order, all of them at the end. The first of them run
    in Spark, too."""
    attribute = draw(st.sampled_from([QUARTERS, QUARTERS, INTEGERS]))
    names = NAMES[: draw(st.sampled_from([2, 2, 3, 1]))]
    creates, streams = [], list[tuple[str, list[Timed], int, int]]()
    for name in names:
        slack = draw(st.sampled_from([0, 0, 4]))
        policy = f"WITH SLACK {_length(attribute, slack)}" if slack else "ORDERED"
        tick = f" TICK {_tick(attribute, ticks)}" if (ticks := draw(st.sampled_from([0, 1, 2]))) else ""
        creates.append(
            f"CREATE STREAM {name} (ts {attribute.type}, {COLUMNS}) FROM memory TIMESTAMP BY ts{tick} PUNCTUATE {policy}"
        )
        streams.append((name, draw(timed_rows(attribute)), slack, draw(st.sampled_from([0, 0, 30]))))
    made, periodic = [], set()
    fed = draw(st.sampled_from([(), names[:1], names[-1:]]))
    changed = draw(st.sampled_from([(), ("rel", "nrr")]))
    creates += [text.format(stream=name) for name in fed for text in FED_TABLES.values()]
    creates += [CHANGED_TABLES[name] for name in changed]
    tables = (*(("tab",) if fed else ()), *changed[:1])
    nrrs = (*(("past",) if fed else ()), *changed[1:])
    for number in range(queries):
        slide = draw(st.sampled_from([None, None, None, 8]))
        text = Grammar(draw, attribute, names, slide, tables, nrrs).query()
        made.append((f"q{number}", f"CREATE QUERY q{number} AS {text}"))
        periodic |= set() if slide is None else {f"q{number}"}
    rng = draw(st.randoms(use_true_random=True))
    strategies = ("upa", "upa", "negative", "direct")
    tellings = []
    for home, asked in (("driver", queries), ("spark", in_spark)):
        told = telling(rng, attribute, streams, home, asked, rng.choice(strategies))
        events = told.events
        if changed:
            events = _among(rng, events, _table_changes(rng))
        if told.execution == "upa":
            events = _among(rng, events, _query_changes(rng, made[:asked], periodic, bool(changed)))
        tellings.append(replace(told, events=events))
    return StandingScenario(tuple(creates), tuple(made), frozenset(periodic), tuple(tellings))


def _among(rng: Random, events: tuple[Event, ...], more: list[Event]) -> tuple[Event, ...]:
    """The events with others at random places, in their order."""
    places = sorted(rng.randint(0, len(events)) for _ in more)
    out = list(events)
    for place, event in zip(reversed(places), reversed(more), strict=True):
        out.insert(place, event)
    return tuple(out)


def _table_changes(rng: Random) -> list[Event]:
    """Statements that change the tables; of one that is NON RETROACTIVE no key comes back."""
    found, known, gone = list[Event](), {"rel": set[str](), "nrr": set[str]()}, set[str]()
    for _ in range(rng.choice([2, 4, 6])):
        table, key = rng.choice(["rel", "nrr"]), rng.choice(["a", "b", "é"])
        if key not in known[table] and (table == "rel" or key not in gone):
            known[table].add(key)
            text = f"INSERT INTO {table} VALUES ('{key}', {rng.randint(0, 2)}, {rng.randint(-2, 4)})"
        elif rng.random() < 0.5:
            text = f"UPDATE {table} SET x = x + 1, g = {rng.randint(0, 2)} WHERE k = '{key}'"
        else:
            gone |= {key} if table == "nrr" and key in known[table] else set()
            known[table].discard(key)
            text = f"DELETE FROM {table} WHERE k = '{key}'"
        found.append(Event("change", text=text))
    return found


def _query_changes(
    rng: Random, queries: list[tuple[str, str]], periodic: set[str], has_statements: bool
) -> list[Event]:
    """A query is replaced by another one's text, and one rests for a while. Where statements change tables, a query that
    rests would see them later."""
    stays = ("STREAM", "INTERNAL")  # what was reported stays
    usable = [one for one in queries if one[0] not in periodic and not any(word in one[1] for word in stays)]
    found = list[Event]()
    if len(usable) > 1 and rng.random() < 0.6:
        (name, _), (_, text) = rng.sample(usable, 2)
        body = text.split(" AS ", 1)[1]
        found.append(Event("replace", query=name, text=f"CREATE OR REPLACE QUERY {name} AS {body}"))
    elif queries and not has_statements and rng.random() < 0.6:
        name = rng.choice(queries)[0]
        found += [Event(kind, query=name, text=f"ALTER QUERY {name} {kind.upper()}") for kind in ("pause", "resume")]
    return found


def telling(
    rng: Random,
    attribute: Attribute,
    streams: list[tuple[str, list[Timed], int, int]],
    home: str,
    queries: int,
    execution: str,
) -> Telling:
    """Tell all streams, interleaved at random."""
    told = [Teller(rng, attribute).events(*stream) for stream in streams]
    order = [i for i, some in enumerate(told) for _ in some]
    rng.shuffle(order)
    waiting = [iter(some) for some in told]
    played = [next(waiting[i]) for i in order]
    played.insert(rng.randint(0, len(played)), Event("restart"))
    return Telling(tuple(played), rng.choice([1, 2, 7]), home, rng.random() < 0.4, queries, execution)
