"""What is typed into the shell: where it ends, and the statements and commands in it."""

from __future__ import annotations

import pytest

from windrow.console.shell.typed import Typed, is_complete, is_empty, is_ready, lexemes, split, word_alone


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SHOW STREAMS;", True),
        ("SHOW STREAMS", False),
        ("SHOW STREAMS; -- and more", True),
        ("SELECT ';'", False),
        ("SELECT ';';", True),
        ("SELECT 'open;", False),
        ("-- only a remark;", True),
        ("", True),
        ("SHOW STREAMS; SHOW", False),
    ],
)
def test_end_of_a_statement(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.mark.parametrize(
    ("text", "ready"),
    [
        ("", True),
        ("  \n ", True),
        ("\\d", True),
        ("  \\watch 2 SELECT 'a", True),
        ("SELECT 1 \\watch 2", True),
        ("SELECT 1\n\\watch", True),
        ("SELECT '\n\\watch", False),
        ("SELECT '\\", False),
        ("quit", True),
        ("EXIT;", True),
        ("help", True),
        ("SHOW", False),
        ("SHOW STREAMS;", True),
        ("/* \\d", False),
    ],
)
def test_enter_executes(text: str, ready: bool) -> None:
    assert is_ready(text) is ready


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("SHOW STREAMS; SHOW QUERIES;", [Typed("SHOW STREAMS; SHOW QUERIES;")]),
        ("\\d s\nSHOW STREAMS;", [Typed("s", "d"), Typed("SHOW STREAMS;", line=2)]),
        ("SHOW STREAMS; \\timing", [Typed("SHOW STREAMS;"), Typed("", "timing")]),
        ("\n\nSHOW\nSTREAMS\n\\watch 2\n", [Typed("SHOW\nSTREAMS", line=3), Typed("2", "watch", 5)]),
        ("SELECT 'a\\nb' AS x;", [Typed("SELECT 'a\\nb' AS x;")]),
        ("SELECT r'\\d' AS x; \\q;", [Typed("SELECT r'\\d' AS x;"), Typed("", "q")]),
        ("-- \\d\n/* \\q */ SHOW TABLES", [Typed("-- \\d\n/* \\q */ SHOW TABLES")]),
        ("-- nothing\n;;\n\\q", [Typed("", "q", 3)]),
        ("", []),
    ],
)
def test_statements_and_commands(text: str, parts: list[Typed]) -> None:
    assert split(text) == parts


def test_errors_name_the_line_of_the_whole_input() -> None:
    (_, statement) = split("\\timing on\n\nSHOW STREEMS;")
    assert statement.placed == "\n\nSHOW STREEMS;"


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("'a", True),
        ("'a'", False),
        ("'a\\'", True),
        ("'a\\\\'", False),
        ("r'a\\'", False),
        ("'", True),
        ("`a", True),
        ("`a`", False),
        ("-- a", True),
        ("/* a", True),
        ("/*/", True),
        ("/* a */", False),
        ('"a', True),
    ],
)
def test_open_lexemes(text: str, is_open: bool) -> None:
    (lexeme,) = lexemes(text)
    assert lexeme.is_open is is_open


def test_words_and_emptiness() -> None:
    assert [word_alone(text) for text in ("quit", " Exit; ", "help", "?", "SHOW", "\\q")] == [
        "q",
        "q",
        "?",
        "?",
        None,
        None,
    ]
    assert is_empty("; -- x\n ;") and not is_empty("; SHOW")
