"""The help on statements says what parses, all of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import pytest

from windrow.console.shell.statement_help import STATEMENT_NAMES, STATEMENTS, WINDOWS, StatementHelp, help_lines
from windrow.cql import create_stream, parse_one, parser, window_syntax
from windrow.cql.statements import (
    AlterQuery,
    CreateDerivedStream,
    CreateQuery,
    CreateStream,
    CreateTable,
    DeleteRows,
    Describe,
    Drop,
    Explain,
    InsertRows,
    LoadRows,
    Select,
    SetSetting,
    Show,
    UpdateRows,
)
from windrow.dataplane.sinks.registry import KINDS as SINKS
from windrow.dataplane.sources.registry import SOURCES
from windrow.errors import CatalogError

YOURS = {
    "name": "n1",
    "column": "c1",
    "type": "INT",
    "source": "memory",
    "option": "o1",
    "length": "10 SECONDS",
    "n": "3",
    "expression": "SUM(x)",
    "alias": "a1",
    "stream": "s1",
    "query": "q1",
    "window": "@WINDOW@",
    "condition": "x > 1",
    "setting": "cut_factor",
    "table": "t1",
}
KEPT = {"answers", "console", "parquet", "jsonl", "path", "mode", "dead_letters", "csv", "json"}
TOKEN = re.compile(r"'[^']*'|[A-Za-z_]\w*|, …|.", re.S)


def sentences(syntax: str) -> Iterator[str]:
    """Sentences of the syntax: with every option and the first of all choices, then by random choices."""
    tokens = TOKEN.findall(syntax)
    for seed in range(300):
        chosen = random.Random(seed)
        words = written(tokens, chosen.randrange if seed else lambda choices: 0)
        yield " ".join(words).replace("@WINDOW@", "[RANGE 10 SECONDS SLIDE 5 SECONDS]")


def written(tokens: list[str], pick: Callable[[int], int]) -> list[str]:
    """The words of one sentence."""

    def read(position: int, closing: str) -> tuple[list[list[str]], int]:
        alternatives: list[list[str]] = [[]]
        while position < len(tokens) and tokens[position] != closing:
            token = tokens[position]
            if token in "[{":
                inner, position = read(position + 1, {"[": "]", "{": "}"}[token])
                chosen = pick(len(inner) + (token == "["))
                alternatives[-1] += inner[chosen] if chosen < len(inner) else []
            elif token == "|":
                alternatives.append([])
            elif token != ", …" and not token.isspace():
                is_yours = token.islower() and token[0] != "'" and token not in KEPT
                alternatives[-1].append(YOURS[token] if is_yours else token)
            position += 1
        return alternatives, position

    (words,), _ = read(0, "")
    return words


KINDS = {
    "CREATE STREAM": CreateStream,
    "CREATE STREAM AS": CreateDerivedStream,
    "CREATE QUERY": CreateQuery,
    "CREATE TABLE": CreateTable,
    "INSERT": InsertRows,
    "UPDATE": UpdateRows,
    "DELETE": DeleteRows,
    "LOAD": LoadRows,
    "ALTER QUERY": AlterQuery,
    "SELECT": Select,
    "WITH": Select,
    "EXPLAIN": Explain,
    "SHOW": Show,
    "DESCRIBE": Describe,
    "DROP": Drop,
    "SET": SetSetting,
}


@pytest.mark.parametrize("one", STATEMENTS, ids=lambda one: one.name)
def test_every_choice_of_the_syntax_parses(one: StatementHelp) -> None:
    made = set(sentences(one.syntax))
    for text in made:
        assert isinstance(parse_one(text), KINDS[one.name]), text
    words = {word for text in made for word in re.findall(r"[A-Z]{2,}", text)}
    assert words >= set(re.findall(r"[A-Z]{2,}", one.syntax)), "a choice was never made"


@pytest.mark.parametrize("one", STATEMENTS, ids=lambda one: one.name)
def test_the_example_parses(one: StatementHelp) -> None:
    assert isinstance(parse_one(one.example), KINDS[one.name])


@pytest.mark.parametrize(("form", "meaning"), WINDOWS)
def test_every_window_parses(form: str, meaning: str) -> None:
    window = form.replace("length", "10 SECONDS").replace("column", "c1").replace("'time'", "'2026-01-01'")
    window = re.sub(r"\bn\b", "3", window)
    assert meaning and parse_one(f"SELECT SUM(x) FROM s {window}")


def test_every_statement_has_help() -> None:
    assert {name.split()[0] for name in STATEMENT_NAMES} == {*parser._STATEMENTS, "WINDOW"} - {"DESC"}


def test_every_word_of_the_parser_is_in_the_help() -> None:
    said = " ".join(one.syntax + one.note for one in STATEMENTS) + " ".join(form for form, _ in WINDOWS)
    later = {"INTERNAL", "SLACK", "TABLE", "PATTR", "RATTR"}
    known = (*create_stream._STARTS, *create_stream._POLICIES, *parser._SHOWN, *parser._KINDS)
    known += (*window_syntax._KINDS, *window_syntax._CLAUSES, *(name for name in SINKS), *SOURCES)
    assert [word for word in known if word not in said and word not in later] == []


def test_help_on_a_statement() -> None:
    text = "\n".join(help_lines("create query;"))
    assert text.startswith("CREATE QUERY: registers a standing query") and "GROUP BY expression" in text
    assert "For example:" in text and "CREATE QUERY climate AS" in text
    both = "\n".join(help_lines("CREATE"))
    assert "CREATE STREAM:" in both and "CREATE QUERY:" in both
    assert help_lines("drop stream")[0].startswith("DROP:")
    assert help_lines("desc") == help_lines("describe")
    assert "[ROWS n SLIDE n]" in "\n".join(help_lines("window"))
    assert [line.split("  ")[0] for line in help_lines("")[: len(STATEMENT_NAMES)]] == list(STATEMENT_NAMES)
    with pytest.raises(CatalogError, match="Did you mean SELECT"):
        help_lines("selekt")
