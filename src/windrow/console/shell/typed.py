"""What is typed: its lexemes, where it ends, and the statements and backslash commands in it. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from windrow.cql.dialect import CQL
from windrow.cql.tokens import tokenize
from windrow.errors import ParseError

LEAVE = ("quit", "exit")
HELP = ("help", "?")

_LEXEMES = (
    ("comment", r"--[^\n]*|/\*(?:.*?\*/|.*)"),
    ("string", r"[rR]'[^']*(?:'|\Z)|[rR]\"[^\"]*(?:\"|\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)"),
    ("name", r"`[^`]*(?:`|\Z)"),
    ("word", r"[^\W\d]\w*"),
    ("number", r"\d[\w.]*"),
    ("blank", r"\s+"),
    ("symbol", r"."),
)
_LEXEME = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _LEXEMES), re.S)


@dataclass(frozen=True)
class Lexeme:
    """A comment, string, name (back-quoted), word, number or symbol, and its offset."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_open(self) -> bool:
        """Whether the closing quote or the end of the comment is missing, so that the next character belongs to it."""
        if self.kind == "comment":
            return self.text.startswith("--") or len(self.text) < 4 or not self.text.endswith("*/")
        if self.kind == "name":
            return len(self.text) < 2 or not self.text.endswith("`")
        if self.kind == "string":
            is_raw = self.text[0] in "rR"
            body = self.text[1:] if is_raw else self.text
            escapes = 0 if is_raw else len(body[:-1]) - len(body[:-1].rstrip("\\"))
            return len(body) < 2 or body[-1] != body[0] or escapes % 2 == 1
        return False

    @property
    def upper(self) -> str:
        """A word in upper case; other lexemes as they are."""
        return self.text.upper() if self.kind == "word" else self.text


def lexemes(text: str) -> list[Lexeme]:
    """The lexemes of a text, without blanks. Every text has lexemes, also one that does not parse."""
    return [
        Lexeme(str(match.lastgroup), match[0], match.start())
        for match in _LEXEME.finditer(text)
        if match.lastgroup != "blank"
    ]


@dataclass(frozen=True)
class Typed:
    """Statements, or the backslash command `name` (without its backslash) with `text` as its argument."""

    text: str
    name: str | None = None
    line: int = 1
    """The line on which it begins."""

    @property
    def placed(self) -> str:
        """The text at its line, so that errors name the line of the whole input."""
        return "\n" * (self.line - 1) + self.text


def split(text: str) -> list[Typed]:
    """The statements and commands of an input, in order. A command begins with a backslash and ends with its line."""
    return list(_split(text))


def _split(text: str) -> Iterator[Typed]:
    at = 0
    while True:
        found = next((part for part in lexemes(text[at:]) if part.text == "\\"), None)
        start = len(text) if found is None else at + found.start
        if not is_empty(text[at:start]):
            yield _statements(text, at, start)
        if found is None:
            return
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        name, _, argument = text[start + 1 : end].strip().partition(" ")
        if not argument and name.endswith(";"):
            name = name.rstrip(";")
        yield Typed(argument.strip(), name, line=text.count("\n", 0, start) + 1)
        at = end


def _statements(text: str, start: int, end: int) -> Typed:
    part = text[start:end]
    blank = len(part) - len(part.lstrip())
    return Typed(part.strip(), line=text.count("\n", 0, start + blank) + 1)


def is_ready(text: str) -> bool:
    """Whether Enter executes the text: it is empty, a command, a word that leaves or helps, or ends in a `;`."""
    stripped = text.strip()
    if not stripped or word_alone(stripped) is not None:
        return True
    if any(part.text == "\\" for part in lexemes(text.rpartition("\n")[2])) and split(text)[-1].name is not None:
        return True
    return is_complete(text)


def word_alone(text: str) -> str | None:
    """The command that a single word stands for: `quit` and `exit` for `q`, `help` for `?`."""
    word = text.strip().rstrip(";").lower()
    return "q" if word in LEAVE else "?" if word in HELP else None


def is_complete(text: str) -> bool:
    """Whether the text holds nothing, or ends in a `;` outside strings, quoted names and comments."""
    try:
        tokens = tokenize(text, CQL())
    except ParseError:
        return False
    return not tokens or tokens[-1].token_type == TokenType.SEMICOLON


def is_empty(text: str) -> bool:
    """Whether the text holds only blanks, comments and semicolons."""
    return all(part.kind == "comment" or part.text == ";" for part in lexemes(text))
