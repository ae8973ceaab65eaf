"""Mutations of a statement as text: of its words, and of its characters."""

from __future__ import annotations

import re
from random import Random

_WORD = re.compile(r"\s+|'(?:[^']|'')*'|\w+|.", re.S)
_WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT AS AND OR NOT NULL IS IN LIKE BETWEEN CASE WHEN THEN ELSE END CAST "
    "COUNT SUM DISTINCT FILTER OVER UNION JOIN ON WITH VALUES EXISTS LATERAL PIVOT INTERVAL DATE TIMESTAMP RANGE SLIDE "
    "ROWS OFFSET ORIGIN SINCE UNBOUNDED NOW PARTITION WATTR SATTR PATTR INTERNAL CREATE QUERY STREAM IF INTO OPTIONS EMIT "
    "EVERY LATEST PRIORITY EXPIRE AFTER PUNCTUATE SLACK ORDERED LATE REVISE DROP SHOW SET EXPLAIN DESCRIBE times numbers ts "
    "n x k d ok day raw user current_date rand input_file_name reflect answers dead_letters SECONDS MONTH YEAR"
).split()
_SIGNS = list("()[]{},.;:*+-/%<>=!|&^~@#$?'\"`\\\n\t") + [
    "--",
    "/*",
    "*/",
    "::",
    "->",
    "<=>",
    "||",
    "${x}",
    "1e",
    "0x",
    "[[",
]
_ODD = ["\0", "\ufeff", "\u2028", "\u00a0", "é", "ß", "İ", "ſ", "😀", "\ud800", "\u202e", "٣", "²", "\x1b", "\r"]
_REPEATED = (
    "(",
    "[",
    "-",
    "NOT ",
    "CASE WHEN ",
    "ABS(",
    "1+",
    "x,",
    "'a'||",
    "k = 'a' OR ",
    "9",
    " ",
    "\n",
    "a",
    "-- ",
)


def mutate_words(text: str, rng: Random, words: list[str]) -> str:
    """One to three words deleted, doubled, exchanged or replaced. `words` are those of other statements."""
    parts = _WORD.findall(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = [i for i, part in enumerate(parts) if not part.isspace()]
        if not places:
            break
        at, draw = rng.choice(places), rng.random()
        if draw < 0.2:
            del parts[at]
        elif draw < 0.35:
            parts.insert(at, parts[at] + " ")
        elif draw < 0.5:
            other = rng.choice(places)
            parts[at], parts[other] = parts[other], parts[at]
        elif draw < 0.75:
            parts[at] = rng.choice(words)
        elif draw < 0.9:
            parts[at] = rng.choice(_WORDS)
        else:
            parts.insert(at, f" {rng.choice(_WORDS + _SIGNS)} ")
    return "".join(parts)


def mutate_characters(text: str, rng: Random) -> str:
    """One to three characters or pieces deleted, inserted, repeated or cut off."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, draw = rng.randint(0, len(text)), rng.random()
        if draw < 0.2:
            text = text[:at] + text[at + rng.choice((1, 1, 2, 10)) :]
        elif draw < 0.35:
            text = text[:at] + rng.choice(_SIGNS) + text[at:]
        elif draw < 0.55:
            text = text[:at] + rng.choice(_ODD) + text[at:]
        elif draw < 0.65:
            text = text[:at]
        elif draw < 0.75:
            text = text[:at] + chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x20, 0x3000)))) + text[at + 1 :]
        elif draw < 0.85:
            text = text[:at] + rng.choice(_REPEATED) * rng.choice((2, 30, 60, 1000, 5000)) + text[at:]
        else:
            end = rng.randint(at, min(len(text), at + 30))
            text = text[:at] + text[at:end] * rng.choice((2, 3, 50)) + text[end:]
    return text


def words_of(texts: list[str]) -> list[str]:
    """The different words of statements, in order."""
    return sorted({part for text in texts for part in _WORD.findall(text) if not part.isspace()})
