"""Parsing any text gives statements or a printable WindrowError."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.cql import check_functions, parse, parse_one, to_text
from windrow.cql.functions import OVER_SEVERAL, OVER_STREAMS
from windrow.cql.statements import CreateDerivedStream, CreateQuery, Select
from windrow.errors import WindrowError

SEEDS = [
    "CREATE STREAM p (ts TIMESTAMP, `a b` DECIMAL(10,2), late INT) FROM files OPTIONS (path 'x', format 'json') "
    "TIMESTAMP BY ts TICK 1 SECOND PUNCTUATE ON ts WITH SLACK 5 SECONDS LATE DROP RETAIN 1 HOUR",
    "CREATE QUERY q AS SELECT src, SUM(length) FILTER (WHERE a > 3) / COUNT(*) AS x "
    "FROM p [RANGE 10 MINUTES SLIDE 1 MINUTE] AS p WHERE NOT a LIKE 'x%' GROUP BY src "
    "HAVING COUNT(*) > 3 ORDER BY x DESC LIMIT 5 INTO parquet OPTIONS (path 'x') "
    "EMIT EVERY WINDOW PRIORITY 3 EXPIRE AFTER 1 DAY",
    "SELECT CASE WHEN a THEN -b ELSE CAST(c AS INT) END, ts + INTERVAL '1' DAY, d IN (1, 2.5, 1e3, 5L) "
    "FROM s [ROWS 10 PATTR a]",
    "EXPLAIN SELECT upper(substring(a FROM 2)), x'1F' FROM s [SINCE '2026-01-01' SLIDE 1 HOUR ORIGIN -5]",
    "CREATE QUERY q AS WITH w AS (SELECT a FROM s [UNBOUNDED]) SELECT ISTREAM(x.*, y.b AS c) FROM w [RANGE 1 MINUTE] AS x "
    "JOIN (SELECT DISTINCT b FROM t [NOW]) [RANGE 5 SECONDS INTERNAL] AS y USING (b), u [NOW] WHERE x.a = u.a",
    "CREATE STREAM d AS SELECT DSTREAM(a) FROM s [RANGE 1 MINUTE] UNION ALL SELECT b FROM t [NOW] LIMIT 3 TICK 5 SECONDS",
    "SET x = 'y'; SHOW STREAMS; DROP QUERY IF EXISTS q; DESCRIBE `q`",
]
PIECES = [piece for seed in SEEDS for piece in seed.split()] + [
    *"()[]{}<>;,.'\"`\\-+*/%=!@#$&|?:^~",
    *("--", "/*", "*/", "/*+", "::", "->", "=>", "|>", "$$", "0x", "1e", "9" * 400, "\0", "\n", "é", "𝒳", "\u2028"),
    *(
        "x'",
        "r'",
        "b'",
        "OVER (",
        "CAST(",
        "DATE",
        "INTERVAL",
        "PIVOT",
        "UNNEST",
        "LATERAL VIEW",
        "TABLESAMPLE",
        "VALUES",
    ),
    *(
        "TRANSFORM",
        "IDENTIFIER(",
        "WITH",
        "UNION",
        "DISTINCT",
        "SELECT",
        "EXISTS(",
        "QUALIFY",
        "FOR UPDATE",
        "{fn",
        ":a",
        "NOT",
    ),
]


def survives(text: str) -> None:
    try:
        statements = parse(text)
    except WindrowError as error:
        shown = str(error)
        assert error.place is not None
        assert "\x1b" not in shown or "\x1b" in text
        assert "<class" not in shown and "TokenType" not in shown
        return
    for statement in statements:
        assert parse_one(to_text(statement)) == statement
        if isinstance(statement, (CreateQuery, CreateDerivedStream, Select)):
            for syntax in (OVER_STREAMS, OVER_SEVERAL):
                try:
                    check_functions(statement.select, text, syntax)
                except WindrowError as error:
                    assert str(error)


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    survives(text)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_sequence_of_pieces(pieces: list[str]) -> None:
    survives(" ".join(pieces))
    survives("SELECT " + "".join(pieces))


@pytest.mark.parametrize("seed", range(4))
def test_mutated_statements(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(1_500):
        text = chance.choice(SEEDS)
        parts = text.split(" ") if chance.random() < 0.7 else list(text)
        for _ in range(chance.randint(1, 6)):
            index = chance.randrange(len(parts) + 1)
            action = chance.random()
            if action < 0.4 or not parts:
                parts.insert(index, chance.choice(PIECES))
            elif action < 0.6:
                del parts[index % len(parts)]
            elif action < 0.8:
                parts[index % len(parts)] = chance.choice(PIECES)
            else:
                other = chance.randrange(len(parts))
                parts[index % len(parts)], parts[other] = parts[other], parts[index % len(parts)]
        survives((" " if " " not in parts else "").join(parts))
