"""Tokens with places: split a script into sqlglot's tokens, and read them with errors that name a place.

`Cursor` reads our own statements. sqlglot gets the SELECT inside them as a slice of the same tokens, so every place is
a place in the user's text, also in a script of many statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from windrow.errors import ParseError, Place

MAX_SCRIPT = 16_000_000
"""The most characters of a script; each of its statements is shorter still."""

_UNCLOSED = re.compile(r"Missing (.+) from \d+:(\d+)")
_WORD = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r"(?<!\()'([^']+)'")
_CLAUSE = re.compile(r"\b[A-Z][A-Z_]+(?: [A-Z_]+)*\b")
_TAKEN = re.compile(r"^(?:stream|table|query) '[^']+' exists already|^there is a (?:stream|table|query) '[^']+'")
"""A message that a name cannot be given to something new."""
_BEFORE_A_NAME = {"STREAM", "TABLE", "QUERY", "EXISTS"}
"""The words before the name in CREATE; EXISTS is that of IF NOT EXISTS."""


def place_at(text: str, start: int, end: int | None = None) -> Place:
    """The place of `text[start:end]`; lines are those of `str.splitlines`, as in `Place.caret`."""
    head = (text[:start] + "x").splitlines()
    length = 1 if end is None else max(1, end - start)
    return Place(text, line=len(head), column=len(head[-1]), length=length)


def place_of(node: exp.Expr, text: str) -> Place | None:
    """The place of a node in the script that it was parsed from; None if no part of it was parsed.

    A column, function or literal has its own place. Any other node extends from its first part to its last part, or to
    the end of the line.
    """
    spans = [
        (part.meta_get("start"), part.meta_get("end")) for part in node.walk() if part.meta_get("start") is not None
    ]
    if not spans:
        return None
    own = node.meta_get("start")
    if own is not None:
        return place_at(text, own, node.meta_get("end") + 1)
    start = min(span[0] for span in spans)
    end = max(span[1] for span in spans) + 1
    first_line = text[start:end].splitlines() or [""]
    return place_at(text, start, start + len(first_line[0]))


def nearest_place(node: exp.Expr, text: str) -> Place | None:
    """The place of a node, or of the nearest node around it that has one."""
    found: exp.Expr | None = node
    while found is not None:
        if place := place_of(found, text):
            return place
        found = found.parent
    return None


def named_place(message: str, text: str, dialect: Dialect) -> Place | None:
    """The place of the words that an error message names, for errors found after parsing.

    These are the first quoted words that occur in the text, or else the first words in capitals (a clause). If they
    occur several times in one statement, the last is meant (a column is declared before it is used); of a name that
    exists already, the place where it is created. None if they do not occur, or in several statements of a script.
    """
    tokens, is_taken = tokenize(text, dialect), _TAKEN.search(message) is not None
    for phrase in _QUOTED.findall(message) + _CLAUSE.findall(message)[:1]:
        spans = [span for start in range(len(tokens)) if (span := _phrase_at(tokens, start, phrase.lower()))]
        if is_taken:
            spans = [span for span in spans if span[0] and tokens[span[0] - 1].text.upper() in _BEFORE_A_NAME]
        if spans and not any(t.token_type == TokenType.SEMICOLON for t in tokens[spans[0][0] : spans[-1][0]]):
            first, last = spans[-1]
            return place_at(text, tokens[first].start, tokens[last].end + 1)
    return None


def _phrase_at(tokens: list[Token], start: int, phrase: str) -> tuple[int, int] | None:
    """The first and last token of a phrase that begins at `start`; sqlglot joins some words into one token."""
    read = ""
    for index in range(start, len(tokens)):
        read += (" " if read else "") + tokens[index].text.lower()
        if read == phrase:
            return start, index
        if not phrase.startswith(read + " "):
            return None
    return None


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that `word` probably misspells, ignoring case; None if none is similar."""
    by_upper = {name.upper(): name for name in known}
    matches = get_close_matches(word.upper(), by_upper, n=1, cutoff=cutoff)
    return by_upper[matches[0]] if matches else None


def tokenize(text: str, dialect: Dialect) -> list[Token]:
    """The tokens of a script without its comments; raises ParseError and no other error."""
    if len(text) > MAX_SCRIPT:
        raise ParseError(f"the text is too long: {len(text):,} characters, and at most {MAX_SCRIPT:,} are read at once")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ParseError(
            "the text contains half a surrogate pair, which is not a character",
            place=place_at(text, error.start),
        ) from None
    try:
        tokens = dialect.tokenize(text)
    except TokenError as error:
        raise _token_error(text, error) from None
    for token in tokens:
        if token.token_type == TokenType.HINT:
            raise ParseError("hints are not part of the language", place=_place(text, token))
        if token.token_type == TokenType.IDENTIFIER and "${" in token.text:
            # Spark would substitute a variable of the session or the environment.
            raise ParseError("a name cannot contain ${", place=_place(text, token))
        if token.token_type == TokenType.IDENTIFIER and "\0" in token.text:
            raise ParseError("a name cannot contain a null byte", place=_place(text, token))
        # sqlglot obeys some comments ("sqlglot.anonymous"), so it gets none.
        token.comments.clear()
        if token.token_type == TokenType.RAW_STRING:
            # The text of r'\d' is already unescaped, so it can be an ordinary string from here on.
            token.token_type = TokenType.STRING
    return _with_whole_numbers(tokens, text)


def _with_whole_numbers(tokens: list[Token], text: str) -> list[Token]:
    """The tokens with numbers such as 5L kept as one token, and so printed as written.

    sqlglot splits 5L into the three tokens of 5::BIGINT, all at one place; to Spark that cast is not a literal.
    """
    whole: list[Token] = []
    for token in tokens:
        if whole and whole[-1].start == token.start:
            whole[-1].text = text[token.start : token.end + 1]
        else:
            whole.append(token)
    return whole


def _place(text: str, token: Token) -> Place:
    return place_at(text, token.start, token.end + 1)


def _token_error(text: str, error: TokenError) -> ParseError:
    """The ParseError for sqlglot's error, which names an unclosed quote only in its message."""
    match = _UNCLOSED.match(str(error.__cause__))
    if match is None:
        start = text.rfind("/*")
        what = "a comment is not closed" if start >= 0 else "the text cannot be read"
        return ParseError(what, place=place_at(text, max(start, 0)))
    opener, start = match.group(1), min(int(match.group(2)), max(len(text) - 1, 0))
    what = "a quoted name" if opener == "`" else "a string"
    return ParseError(f"{what} is not closed: a {opener} is missing", place=place_at(text, start))


class Cursor:
    """A position in the tokens of one statement. Words match in any case; quoted names never match a word."""

    def __init__(self, tokens: list[Token], text: str, index: int = 0):
        self.tokens = tokens
        self.text = text
        self.index = index

    @property
    def at_end(self) -> bool:
        return self.index >= len(self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.index + ahead
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    def source(self, token: Token) -> str:
        """The token as the user wrote it (sqlglot upper-cases some keywords)."""
        return self.text[token.start : token.end + 1]

    def word(self, ahead: int = 0) -> str:
        """The keyword or name at the position in upper case; "" for anything else, including quoted names."""
        token = self.peek(ahead)
        if token is None or token.token_type == TokenType.STRING or token.token_type == TokenType.IDENTIFIER:
            return ""
        upper = token.text.upper()
        return upper if _WORD.match(upper) else ""

    def take(self, *words: str) -> bool:
        """Skip the words and return True if they come next; sqlglot may have joined some into one token."""
        step, rest = 0, " ".join(words)
        while rest:
            word = self.word(step)
            if not word or not (rest == word or rest.startswith(word + " ")):
                return False
            rest, step = rest[len(word) + 1 :], step + 1
        self.index += step
        return True

    def take_symbol(self, symbol: TokenType) -> bool:
        token = self.peek()
        if token is None or token.token_type != symbol:
            return False
        self.index += 1
        return True

    def expect(self, words: str, known: Iterable[str] = (), remedy: str | None = None) -> None:
        if not self.take(*words.split()):
            raise self.unexpected(words, known or [words.split()[0]], remedy)

    def expect_symbol(self, symbol: TokenType, shown: str, known: Iterable[str] = ()) -> None:
        if not self.take_symbol(symbol):
            raise self.unexpected(f"'{shown}'", known)

    def name(self, what: str) -> str:
        """Read a name, bare or back-quoted; a keyword counts as a name here."""
        token = self.peek()
        if token is not None and token.token_type == TokenType.IDENTIFIER and token.text:
            self.index += 1
            return token.text
        if token is not None and self.word() and _WORD.fullmatch(self.source(token)):
            self.index += 1
            return self.source(token)
        raise self.unexpected(what)

    def string(self, what: str) -> str:
        token = self.peek()
        if token is None or token.token_type != TokenType.STRING:
            raise self.unexpected(what)
        self.index += 1
        return token.text

    def at_string(self) -> bool:
        token = self.peek()
        return token is not None and token.token_type == TokenType.STRING

    def place(self, ahead: int = 0) -> Place:
        """The place of the token at the position; at the end, the place just after the last token."""
        token = self.peek(ahead)
        if token is not None:
            return _place(self.text, token)
        end = self.tokens[-1].end + 1 if self.tokens else len(self.text)
        return place_at(self.text, end)

    def unexpected(self, expected: str, known: Iterable[str] = (), remedy: str | None = None) -> ParseError:
        """An error that says what was expected here; its remedy is a similar known word, or else `remedy`."""
        token = self.peek()
        found = "the statement ends" if token is None else f"found {_shown(self.source(token))}"
        guess = nearest(self.word(), known) if self.word() else None
        remedy = f"Did you mean {guess}?" if guess else remedy
        return ParseError(f"expected {expected}, but {found}", place=self.place(), remedy=remedy)

    def error(self, message: str, *, remedy: str | None = None, ahead: int = 0) -> ParseError:
        return ParseError(message, place=self.place(ahead), remedy=remedy)


def _shown(source: str) -> str:
    line = " ".join(source.split())
    return f"'{line[:40]}…'" if len(line) > 40 else f"'{line}'"
