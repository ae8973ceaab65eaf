"""Random expressions of a given family of types, as text: columns, literals, operators and allowed functions."""

from __future__ import annotations

import re
from random import Random

from fuzz.streams import FAMILIES, columns_like
from windrow.cql.functions import FINAL_FUNCTIONS, ROW_FUNCTIONS

LITERALS = {
    "n": "0 1 2 3 10 -1 -7 0.5 1.25 1.50 100 127 32768 2147483647 -2147483648 2147483648 9223372036854775807 "
    "1e3 1.5e-3 1e308 0.1D 3L 5S 2.5BD 99999999999999999999 NULL".split(),
    "s": ["'a'", "'b'", "''", "'é'", "'it''s'", "'10'", "'%a_'", "'2026-03-01'", "'\\\\d+'", "'A b,c'", "'😀'", "NULL"],
    "b": ["true", "false", "NULL"],
    "d": ["DATE '2026-03-01'", "DATE '1969-12-31'", "DATE '0001-01-01'", "DATE '9999-12-31'", "CAST(NULL AS DATE)"],
    "t": ["TIMESTAMP '2026-03-01 12:00:30'", "TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2026-03-01 12:00:00.25'"],
    "r": ["X'61'", "X''", "X'00FF'", "CAST('a' AS BINARY)"],
}

_COMPARED = "= <> < <= > >= <=>".split()
TEMPLATES: dict[str, tuple[str, ...]] = {
    "n": (
        "{n} + {n};{n} - {n};{n} * {n};{n} / {n};{n} % {n};{n} DIV {n};-{n};({n});{n} & {n};{n} ^ {n};~{n};"
        "ABS({n});CEIL({n});FLOOR({n});ROUND({n});ROUND({n}, 1);ROUND({n}, -1);BROUND({n}, 1);SIGN({n});MOD({n}, {n});"
        "PMOD({n}, {n});SQRT({n});EXP({n});LN({n});LOG({n}, {n});LOG10({n});LOG2({n});POWER({n}, 2);CBRT({n});SIN({n});"
        "COALESCE({n}, {n});NULLIF({n}, {n});NVL({n}, {n});IF({b}, {n}, {n});GREATEST({n}, {n});LEAST({n}, {n}, {n});"
        "CASE WHEN {b} THEN {n} ELSE {n} END;CASE {s} WHEN {s} THEN {n} END;NANVL({n}, {n});ZEROIFNULL({n});"
        "CAST({n} AS INT);CAST({n} AS BIGINT);CAST({n} AS DOUBLE);CAST({n} AS DECIMAL(10,2));CAST({n} AS FLOAT);"
        "CAST({n} AS SMALLINT);CAST({s} AS INT);CAST({b} AS INT);TRY_CAST({s} AS DOUBLE);LENGTH({s});"
        "CHAR_LENGTH({s});OCTET_LENGTH({s});ASCII({s});INSTR({s}, {s});LOCATE({s}, {s});LEVENSHTEIN({s}, {s});YEAR({t});"
        "MONTH({t});DAY({d});HOUR({t});MINUTE({t});SECOND({t});QUARTER({d});DAYOFWEEK({d});WEEKOFYEAR({d});"
        "EXTRACT(HOUR FROM {t});UNIX_SECONDS({t});UNIX_MILLIS({t});UNIX_MICROS({t});DATEDIFF({d}, {d});"
        "TIMESTAMPDIFF(SECOND, {t}, {t});MONTHS_BETWEEN({t}, {t});CRC32({s});HASH({s}, {n});XXHASH64({n});"
        "BIT_COUNT({n});SHIFTLEFT({n}, 1);TRY_DIVIDE({n}, {n});TRY_ADD({n}, {n});FACTORIAL({n});WIDTH_BUCKET({n}, 0, 9, 3)"
    ).split(";"),
    "s": (
        "UPPER({s});LOWER({s});CONCAT({s}, {s});{s} || {s};CONCAT_WS('-', {s}, {s});SUBSTRING({s}, 1, 2);SUBSTR({s}, -2);"
        "LEFT({s}, 1);RIGHT({s}, 2);REPLACE({s}, 'a', {s});TRIM({s});LTRIM({s});BTRIM({s}, 'a');LPAD({s}, 5, 'x');"
        "RPAD({s}, 3);REPEAT({s}, 3);SPACE(2);REVERSE({s});INITCAP({s});MD5({s});SHA2({s}, 256);CAST({n} AS STRING);"
        "CAST({d} AS STRING);CAST({t} AS STRING);CAST({b} AS STRING);STRING({n});DATE_FORMAT({t}, 'yyyy-MM-dd HH');"
        "REGEXP_REPLACE({s}, '[a-b]+', 'z');REGEXP_EXTRACT({s}, '(\\\\d+)', 1);SPLIT_PART({s}, '-', 1);"
        "SUBSTRING_INDEX({s}, '-', 1);TRANSLATE({s}, 'ab', 'xy');FORMAT_NUMBER({n}, 2);FORMAT_STRING('%s!', {s});"
        "HEX({n});HEX({s});BIN({n});CHR({n});CONV({s}, 10, 16);BASE64({r});SOUNDEX({s});DAYNAME({d});MASK({s});QUOTE({s});"
        "COALESCE({s}, {s});NULLIF({s}, {s});IF({b}, {s}, {s});CASE WHEN {b} THEN {s} END;GREATEST({s}, {s});({s});"
        "GET_JSON_OBJECT({s}, '$.a');ELT(1, {s}, {s});OVERLAY({s} PLACING 'zz' FROM 1);FROM_UNIXTIME(60);TO_CHAR({n}, '999')"
    ).split(";"),
    "b": (
        *(f"{{{family}}} {sign} {{{family}}}" for family in "nnnsdt" for sign in _COMPARED),
        *(
            "{b} AND {b};{b} OR {b};NOT {b};({b});{n} IS NULL;{s} IS NOT NULL;{b} IS TRUE;{s} LIKE '%a%';{s} RLIKE 'a|b';"
            "{s} ILIKE 'A_';{n} IN (0, 1, {n});{s} IN ('a', {s});{s} NOT IN ('a', 'b');{n} BETWEEN {n} AND {n};"
            "{t} BETWEEN {t} AND {t};CONTAINS({s}, {s});STARTSWITH({s}, 'a');ENDSWITH({s}, {s});ISNAN({n});ISNULL({s});"
            "IF({b}, {b}, {b});COALESCE({b}, {b});{n} IS DISTINCT FROM {n};REGEXP_LIKE({s}, '^a');LUHN_CHECK({s});"
            "CAST({s} AS BOOLEAN);CASE WHEN {b} THEN {b} ELSE {b} END"
        ).split(";"),
    ),
    "d": (
        "CAST({t} AS DATE);DATE({t});DATE_ADD({d}, 1);DATE_SUB({d}, {n});LAST_DAY({d});TRUNC({d}, 'MM');NEXT_DAY({d}, 'MO');"
        "TO_DATE({s});TO_DATE({s}, 'yyyy-MM-dd');ADD_MONTHS({d}, 1);COALESCE({d}, {d});GREATEST({d}, {d});"
        "MAKE_DATE(2026, 3, 1);{d} + INTERVAL 1 DAY;IF({b}, {d}, {d})"
    ).split(";"),
    "t": (
        "DATE_TRUNC('MINUTE', {t});DATE_TRUNC('HOUR', {t});{t} + INTERVAL 1 HOUR;{t} - INTERVAL '1' DAY;TO_TIMESTAMP({s});"
        "CAST({d} AS TIMESTAMP);CAST({s} AS TIMESTAMP);TIMESTAMP_SECONDS({n});TIMESTAMPADD(SECOND, 5, {t});COALESCE({t}, {t});"
        "FROM_UTC_TIMESTAMP({t}, 'Europe/Berlin');IF({b}, {t}, {t});GREATEST({t}, {t})"
    ).split(";"),
    "r": ("CAST({s} AS BINARY)", "UNHEX({s})", "ENCODE({s}, 'UTF-8')", "UNBASE64({s})", "COALESCE({r}, {r})"),
}

AGGREGATES = (
    "COUNT(*);COUNT({n});COUNT({s});SUM({n});AVG({n});MIN({n});MAX({n});MIN({s});MAX({s});MIN({d});MAX({t});MIN({b});"
    "VARIANCE({n});VAR_POP({n});STDDEV({n});STDDEV_POP({n});STD({n});MEAN({n});COUNT(DISTINCT {n});COUNT(DISTINCT {s});"
    "COUNT(DISTINCT {t});MEDIAN({n});QUANTILE({n}, 0.25);QUANTILE({n}, 1);TOP_K({s}, 2);TOP_K({n}, 3);TOP_K({s}, 1, {n});"
    "FREQUENT_ITEMS({s}, 2);APPROX_COUNT_DISTINCT({s});APPROX_QUANTILE({n}, 0.5);APPROX_TOP_K({s}, 2)"
).split(";")
NUMERIC_AGGREGATES = [
    one for one in AGGREGATES if one.startswith(("COUNT", "SUM", "AVG", "MIN({n", "MAX({n", "MEDIAN"))
]

_HOLE = re.compile(r"\{([nsbdtr])\}")


class Expressions:
    """Draws expressions over the columns of a stream. `odd` is how often one of the wrong family is drawn."""

    def __init__(self, rng: Random, stream: str, odd: float = 0.03):
        self._rng, self._stream, self._odd = rng, stream, odd

    def of(self, family: str, depth: int = 2) -> str:
        rng = self._rng
        if rng.random() < self._odd:
            family = rng.choice(FAMILIES)
        draw = rng.random()
        if depth <= 0 or draw < 0.45:
            return rng.choice(columns_like(self._stream, family))
        if draw < 0.6:
            return rng.choice(LITERALS[family])
        if draw < 0.63:
            return self.call(depth)
        return self.fill(rng.choice(TEMPLATES[family]), depth)

    def fill(self, template: str, depth: int = 2) -> str:
        return _HOLE.sub(lambda hole: self.of(hole[1], depth - 1), template)

    def call(self, depth: int = 1) -> str:
        """Any allowed function, with arguments of any family."""
        rng = self._rng
        name = rng.choice(sorted(ROW_FUNCTIONS))
        args = [self.of(rng.choice(FAMILIES), depth - 1) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3)))]
        return f"{name}({', '.join(args)})"

    def around(self, family: str, inner: str) -> str | None:
        """An expression of the family that contains `inner`, which is of the same family."""
        fitting = [one for one in TEMPLATES[family] if f"{{{family}}}" in one]
        return self.fill(self._rng.choice(fitting).replace(f"{{{family}}}", f"({inner})", 1)) if fitting else None

    def aggregate(self, numeric: bool = False) -> str:
        rng = self._rng
        text = self.fill(rng.choice(NUMERIC_AGGREGATES if numeric else AGGREGATES), rng.choice((1, 1, 2)))
        return f"{text} FILTER (WHERE {self.of('b')})" if rng.random() < 0.15 else text

    def final(self) -> str:
        """An expression over aggregates."""
        rng = self._rng
        draw = rng.random()
        one, other = self.aggregate(numeric=True), self.aggregate(numeric=True)
        if draw < 0.4:
            return f"{one} {rng.choice('+-*/%')} {other}"
        if draw < 0.7:
            return f"{one} {rng.choice('+-*/')} {rng.choice(LITERALS['n'])}"
        name = rng.choice(sorted(FINAL_FUNCTIONS - {"CAST"}))
        return f"{name}({one})" if draw < 0.85 else f"{name}({one}, {other})"

    def condition(self) -> str:
        """A condition over aggregates, for HAVING."""
        rng = self._rng
        one = self.aggregate(numeric=True) if rng.random() < 0.7 else self.final()
        text = f"{one} {rng.choice(_COMPARED)} {rng.choice(LITERALS['n'][:12])}"
        return text if rng.random() < 0.8 else f"{text} {rng.choice(('AND', 'OR'))} {one} IS NOT NULL"
