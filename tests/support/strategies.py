"""Hypothesis strategies: streams with ties, disorder, nulls, silence, NaN and extremes, and queries of the grammar.

Doubles are quarters of small integers, infinities or NaN, and only aggregates that are well conditioned on a column are
used. So doubles in answers differ only by rounding, and the tolerance of 1e-9 hides no bug.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from windrow.plan.sketched import HAS_SKETCHES
from windrow.types import EPOCH

Row = dict[str, Any]

BIG = (1 << 63) - 1
COLUMNS = "k STRING, g SMALLINT, i INT, b BIGINT, d DOUBLE, m DECIMAL(12,2), f BOOLEAN, day DATE"
NUMBERS = ("i", "b", "d", "m", "g")


@dataclass(frozen=True)
class Attribute:
    """The window attribute: its type, how a point becomes a value, and how a length is written."""

    type: str
    unit_us: int
    unit: str

    def value(self, point: int) -> Any:
        return EPOCH + timedelta(microseconds=point * self.unit_us) if self.unit_us else point

    def measure(self, length: int) -> str:
        return f"{length} {self.unit}".strip()


SECONDS = Attribute("TIMESTAMP", 1_000_000, "SECONDS")
MILLISECONDS = Attribute("TIMESTAMP", 1_000, "MILLISECONDS")
INTEGERS = Attribute("BIGINT", 0, "")


@dataclass(frozen=True)
class Scenario:
    """A stream, its micro-batches and its queries, as text and rows.

    After the micro-batch `added_after` the last query is added (None: it exists from the start), after `dropped_after`
    the first of several is dropped, after `restart_after` the engine is restarted.
    """

    create_stream: str
    queries: tuple[tuple[str, str], ...]
    batches: tuple[tuple[Row, ...], ...]
    partitions: int
    preaggregate: str
    restart_after: int | None
    added_after: int | None
    dropped_after: int | None

    def __str__(self) -> str:
        shown = [self.create_stream, *(text for _, text in self.queries)]
        moments = f"added {self.added_after}, dropped {self.dropped_after}, restarted {self.restart_after}"
        return "\n".join([*shown, moments, *(f"batch {list(batch)}" for batch in self.batches)])


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.none())


_QUARTERS = st.integers(-64, 64).map(lambda n: n / 4)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": _maybe(st.sampled_from(["a", "b", "B", "", "é", "it's"])),
    "g": _maybe(st.integers(-2, 3)),
    "i": _maybe(st.one_of(st.integers(-50, 50), st.integers(0, 3))),
    "b": _maybe(st.one_of(st.integers(-9, 9), st.sampled_from([BIG, BIG - 1, -BIG, -BIG - 1]))),
    "d": _maybe(
        st.one_of(
            _QUARTERS,
            _QUARTERS,
            _QUARTERS,
            st.sampled_from([-0.0, float("nan"), float("inf"), float("-inf")]),
        )
    ),
    "m": _maybe(st.integers(-(10**6), 10**6).map(lambda n: Decimal(n).scaleb(-2))),
    "f": _maybe(st.booleans()),
    "day": _maybe(st.integers(-3, 3).map(lambda n: date(1970, 1, 1) + timedelta(days=n))),
}


@st.composite
def batches(draw: st.DrawFn, attribute: Attribute, slack: int) -> tuple[tuple[Row, ...], ...]:
    """Micro-batches in which time advances by small steps, with ties, silences, disorder and late tuples."""
    point = draw(st.sampled_from([0, -40, 1_000_003, -1_000_003]))
    made = []
    for number in range(draw(st.integers(2, 4))):
        rows: list[Row] = []
        for _ in range(draw(st.sampled_from([7, 3, 12, 0] if number else [7, 12]))):
            point += draw(st.sampled_from([0, 0, 1, 1, 2, 3, 7, 3600]))
            back = draw(st.sampled_from([0, 0, 0, 1, slack, slack + 1, 30]))
            rows.append(draw(row(attribute, point - back)))
        if rows and draw(st.booleans()):
            rows.append(dict(rows[0]))
        made.append(tuple(draw(st.permutations(rows))))
    return tuple(made)


@st.composite
def row(draw: st.DrawFn, attribute: Attribute, point: int) -> Row:
    values = {name: draw(strategy) for name, strategy in VALUES.items()}
    null = draw(st.integers(0, 24)) == 0
    return {"ts": None if null else attribute.value(point), **values}


KEYS = (
    "k",
    "g",
    "f",
    "day",
    "d",
    "m",
    "g % 2",
    "UPPER(k)",
    "CASE WHEN i > 0 THEN 'up' ELSE 'down' END",
    "i + g",
)
PREDICATES = (
    "i > 0",
    "k = 'a'",
    "k IS NULL",
    "NOT f",
    "d < 1.5",
    "g IN (0, 1)",
    "i % 2 = 0 OR f",
    "b >= 0",
    "1 = 0",
)
AGGREGATES = (
    "COUNT(*)",
    *(f"COUNT({column})" for column in ("k", "i", "d")),
    *(f"SUM({column})" for column in NUMBERS),
    *(f"AVG({column})" for column in ("i", "d", "m", "g")),
    *(f"{name}({column})" for name in ("MIN", "MAX") for column in (*NUMBERS, "k", "f", "day", "ts")),
    *(f"{name}({column})" for name in ("VARIANCE", "STDDEV") for column in ("i", "d", "g")),
    "SUM(i * g)",
    "SUM(CASE WHEN f THEN 1 ELSE 0 END)",
    "MAX(LENGTH(k))",
)
HOLISTIC = (
    *(f"MEDIAN({column})" for column in NUMBERS),
    *(f"QUANTILE({column}, {phi})" for column in ("i", "d", "m", "k", "day", "f") for phi in ("0.25", "0.9")),
    *(f"COUNT(DISTINCT {columns})" for columns in ("k", "d", "i", "k, g", "b")),
    *(f"TOP_K({column}, 2)" for column in ("k", "d", "g", "m")),
    "TOP_K(k, 2, i)",
    "TOP_K(g, 1, b)",
    "TOP_K(k, 3, m)",
)
APPROXIMATE = (
    *(f"APPROX_COUNT_DISTINCT({column})" for column in ("k", "d", "b", "m", "day")),
    *(f"APPROX_QUANTILE({column}, {phi})" for column in ("i", "d", "m") for phi in ("0.25", "0.9")),
    *(f"APPROX_TOP_K({column}, 2)" for column in ("k", "d", "g", "m", "day")),
)
"""Approximate aggregates, which are exact on the few values of these streams."""

HOLISTIC += APPROXIMATE if HAS_SKETCHES else ()
COMBINED = (
    "SUM(i) + COUNT(*)",
    "MAX(i) - MIN(i)",
    "SUM(i) / COUNT(i)",
    "COALESCE(SUM(g), 0) * 2",
    "ABS(MIN(i))",
)
HAVINGS = ("COUNT(*) > 1", "SUM(i) > 0", "MIN(g) IS NULL", "a0 IS NOT NULL")


@st.composite
def window_text(draw: st.DrawFn, attribute: Attribute) -> str:
    slide = draw(st.integers(1, 8))
    length = draw(st.one_of(st.integers(1, 8 * slide), st.just(slide), st.just(slide * 3)))
    return f"[RANGE {attribute.measure(length)} SLIDE {attribute.measure(slide)}]"


@st.composite
def aggregate(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(AGGREGATES))
    if draw(st.integers(0, 3)) == 0:
        return f"{text} FILTER (WHERE {draw(st.sampled_from(PREDICATES))})"
    return text


@st.composite
def holistic(draw: st.DrawFn) -> list[str]:
    """Up to two holistic aggregates, or FREQUENT_ITEMS alone."""
    texts = draw(st.one_of(st.just([]), st.lists(st.sampled_from(HOLISTIC), min_size=1, max_size=2)))
    if draw(st.integers(0, 7)) == 0:
        texts = [draw(st.sampled_from(["FREQUENT_ITEMS(k, 2)", "FREQUENT_ITEMS(g, 1)"]))]
    if texts and draw(st.integers(0, 3)) == 0:
        texts[0] += f" FILTER (WHERE {draw(st.sampled_from(PREDICATES))})"
    return texts


@st.composite
def query_text(draw: st.DrawFn, attribute: Attribute) -> str:
    """A SELECT of the grammar over the stream s. Keys come first, so that they break ties in ORDER BY."""
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    shapes = st.one_of(aggregate(), aggregate(), st.sampled_from(COMBINED))
    aggregates = draw(st.lists(shapes, min_size=1, max_size=3)) + draw(holistic())
    listed = [f"{key} AS k{n}" for n, key in enumerate(keys)]
    listed += [f"{text} AS a{n}" for n, text in enumerate(aggregates)]
    parts = [f"SELECT {', '.join(listed)} FROM s {draw(window_text(attribute))}"]
    if draw(st.integers(0, 2)) == 0:
        parts.append(f"WHERE {draw(st.sampled_from(PREDICATES))}")
    if keys:
        parts.append("GROUP BY " + ", ".join(_key_text(draw, n, key) for n, key in enumerate(keys)))
    if draw(st.integers(0, 4)) == 0:
        parts.append(f"HAVING {draw(st.sampled_from(HAVINGS))}")
    if draw(st.integers(0, 3)) == 0:
        parts.append(f"ORDER BY {draw(order(len(keys)))}")
    if draw(st.integers(0, 4)) == 0:
        parts.append(f"LIMIT {draw(st.integers(1, 3))}")
    return " ".join(parts)


def _key_text(draw: st.DrawFn, number: int, key: str) -> str:
    """A key as an expression, by its alias, or by its position."""
    return str(draw(st.sampled_from([key, f"k{number}", str(number + 1)])))


@st.composite
def order(draw: st.DrawFn, keys: int) -> str:
    """ORDER BY exact values: keys and counts. Ties are broken by the select list."""
    options = ["COUNT(*)", *(f"k{n}" for n in range(keys))]
    direction = draw(st.sampled_from(["", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"]))
    return draw(st.sampled_from(options)) + direction


@st.composite
def scenarios(draw: st.DrawFn, queries: int = 5) -> Scenario:
    """At least three queries and some rows in each: a Spark job is expensive, so an example should cover much."""
    attribute = draw(st.sampled_from([SECONDS, MILLISECONDS, INTEGERS]))
    slack = draw(st.sampled_from([0, 0, 5]))
    policy = f"WITH SLACK {attribute.measure(slack)}" if slack and attribute.unit_us else "ORDERED"
    texts = draw(st.lists(query_text(attribute), min_size=3, max_size=queries))
    made = draw(batches(attribute, slack))
    moment = st.one_of(st.none(), st.integers(0, len(made) - 1))
    return Scenario(
        f"CREATE STREAM s (ts {attribute.type}, {COLUMNS}) FROM memory TIMESTAMP BY ts PUNCTUATE {policy}",
        tuple((f"q{n}", f"CREATE QUERY q{n} AS {text}") for n, text in enumerate(texts)),
        made,
        draw(st.sampled_from([1, 2, 7])),
        draw(st.sampled_from(["spark", "driver"])),
        draw(moment),
        draw(moment),
        draw(moment),
    )
