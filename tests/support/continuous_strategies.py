"""Hypothesis strategies for continuous queries: up to three streams with ties, disorder, NULLs, silence and different
TICKs, and plans of up to five operators over them.

Every source of a query has the columns k, g and x, so that texts are made of parts that fit. Doubles are quarters of
small integers: sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from support.strategies import INTEGERS, Attribute, Row

QUARTERS = Attribute("TIMESTAMP", 250_000, "MILLISECONDS")
"""A quarter of a second, so that tuples come and go between ticks."""

NAMES = ("r", "s", "t")
COLUMNS = "k STRING, g SMALLINT, x INT, d DOUBLE, f BOOLEAN"


@dataclass(frozen=True)
class Event:
    """A micro-batch of a stream, its end, or a restart of the engine."""

    kind: str
    stream: str = ""
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class StandingScenario:
    """Streams, queries, and what happens, in order. `periodic` are the queries with SLIDE."""

    streams: tuple[str, ...]
    queries: tuple[tuple[str, str], ...]
    periodic: frozenset[str]
    events: tuple[Event, ...]
    partitions: int
    home: str
    rules_off: bool

    def __str__(self) -> str:
        shown = [*self.streams, *(text for _, text in self.queries)]
        return "\n".join([*shown, *(f"{one.kind} {one.stream} {list(one.rows)}" for one in self.events)])


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


@st.composite
def feeds(draw: st.DrawFn, attribute: Attribute, stream: str, slack: int) -> list[Event]:
    """The micro-batches of a stream: time goes on by small steps, with ties, silence, disorder and late tuples."""
    point, made = draw(st.sampled_from([0, 3, -20])), []
    for number in range(draw(st.integers(2, 3))):
        rows: list[Row] = []
        for _ in range(draw(st.sampled_from([7, 4, 10, 0] if number else [7, 10]))):
            point += draw(st.sampled_from([1, 0, 0, 0, 1, 1, 2, 3, 1, 0, 2, 7, 40]))
            back = draw(st.sampled_from([0, 0, 0, 1, slack, slack + 1]))
            values = {name: draw(strategy) for name, strategy in VALUES.items()}
            rows.append({"ts": attribute.value(point - back), **values})
        if rows and draw(st.booleans()):
            rows.append(dict(rows[0]))
        made.append(Event("feed", stream, tuple(draw(st.permutations(rows)))))
    return made


@dataclass(frozen=True)
class Grammar:
    """Draws texts over the streams. With `slide`, every window has it."""

    draw: st.DrawFn
    attribute: Attribute
    streams: tuple[str, ...]
    slide: int | None

    def _one(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def window(self, internal: bool = False) -> str:
        length = _length(self.attribute, self.draw(st.sampled_from([12, 8, 30, 4, 3, 1])))
        kind = "range" if internal else self._one("range", "range", "range", "range", "unbounded", "now", "offset")
        if self.slide is not None:
            return f"[RANGE {length} SLIDE {_length(self.attribute, self.slide)}{' INTERNAL' if internal else ''}]"
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
        kind = self._one("stream", "stream", "stream", "stream", "filter", "distinct", "union", "internal", "istream")
        if kind == "stream":
            return f"{self.stream()} {self.window()} AS {alias}"
        if kind == "filter":
            return f"(SELECT k, g, x + 1 AS x FROM {self.stream()} {self.window()} WHERE {self.predicate()}) AS {alias}"
        if kind == "distinct":
            return f"(SELECT DISTINCT k, g, x FROM {self.stream()} {self.window()}) AS {alias}"
        if kind == "union":
            return f"({self._plain()} UNION ALL {self._plain()}) AS {alias}"
        if kind == "internal":
            inner = f"SELECT k, g, x FROM {self.stream()} {self.window(internal=True)}"
        else:
            inner = f"SELECT ISTREAM(k, g, x) FROM {self.stream()} {self._ranged()}"
        return f"({inner}) {self._ranged()} AS {alias}"

    def _plain(self) -> str:
        return f"SELECT k, g, x FROM {self.stream()} {self.window()}"

    def _ranged(self) -> str:
        length = _length(self.attribute, self._one(12, 8, 4, 3))
        return f"[RANGE {length}{'' if self.slide is None else f' SLIDE {_length(self.attribute, self.slide)}'}]"

    def joined(self) -> tuple[str, list[str]]:
        """FROM and WHERE, and the aliases in it."""
        count = self._one(1, 1, 2, 2, 2, 3)
        aliases = ["a", "b", "c"][:count]
        text, where = f"FROM {self.source('a')}", []
        for last, alias in zip(aliases, aliases[1:], strict=False):
            kind = self._one("on", "on", "on", "both", "less", "using", "comma", "cross")
            source = self.source(alias)
            if kind == "using" and count == 2:
                text += f" JOIN {source} USING (k)"
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
        return f"{text} WHERE {' AND '.join(where)}" if where else text, aliases

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
            "plain", "plain", "distinct", "group", "group", "total", "union", "istream", "top", "over", "internal"
        )
        if kind == "internal" and self.slide is None:
            return self._append_only()
        if kind == "union":
            return f"{self._united()} UNION ALL {self._united()}"
        text, aliases = self.joined()
        if kind == "plain":
            return f"SELECT {', '.join(self.columns(aliases))} {text}"
        if kind == "distinct":
            return f"SELECT DISTINCT {', '.join(self.columns(aliases))} {text}"
        if kind == "istream":
            distinct = self._one("", "DISTINCT ")
            if distinct or self.slide is not None:
                return f"SELECT {distinct}{', '.join(self.columns(aliases))} {text}"
            return f"SELECT ISTREAM({', '.join(self.columns(aliases))}) {text}"
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
        sources = [f"{self.stream()} {self.window(internal=self._one(True, True, i > 0))}" for i in range(2)]
        return f"SELECT a.k AS c0, a.x + b.x AS c1 FROM {sources[0]} AS a JOIN {sources[1]} AS b ON a.k = b.k"

    def _united(self) -> str:
        text, aliases = self.joined()
        return f"SELECT a.k AS c0, {aliases[-1]}.x AS c1 {text}"


@st.composite
def standing_scenarios(draw: st.DrawFn) -> StandingScenario:
    """At least two queries over one to three streams, which end in any order, all of them at the end."""
    attribute = draw(st.sampled_from([QUARTERS, QUARTERS, INTEGERS]))
    names = NAMES[: draw(st.sampled_from([2, 2, 3, 1]))]
    creates, events = [], []
    for name in names:
        slack = draw(st.sampled_from([0, 0, 4]))
        policy = f"WITH SLACK {_length(attribute, slack)}" if slack else "ORDERED"
        tick = f" TICK {_tick(attribute, ticks)}" if (ticks := draw(st.sampled_from([0, 1, 2]))) else ""
        creates.append(
            f"CREATE STREAM {name} (ts {attribute.type}, {COLUMNS}) FROM memory TIMESTAMP BY ts{tick} PUNCTUATE {policy}"
        )
        events.append([*draw(feeds(attribute, name, slack)), Event("close", name)])
    queries, periodic = [], set()
    for number in range(draw(st.integers(2, 4))):
        slide = draw(st.sampled_from([None, None, None, 8]))
        text = Grammar(draw, attribute, names, slide).query()
        queries.append((f"q{number}", f"CREATE QUERY q{number} AS {text}"))
        periodic |= set() if slide is None else {f"q{number}"}
    order = draw(st.permutations([i for i, some in enumerate(events) for _ in some]))
    waiting = [iter(some) for some in events]
    played = [next(waiting[i]) for i in order]
    played.insert(draw(st.integers(0, len(played))), Event("restart"))
    return StandingScenario(
        tuple(creates),
        tuple(queries),
        frozenset(periodic),
        tuple(played),
        draw(st.sampled_from([1, 2, 7])),
        draw(st.sampled_from(["driver", "spark"])),
        draw(st.booleans()),
    )
