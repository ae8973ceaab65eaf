"""Tokens with places: reads a script into sqlglot's tokens, and walks them with errors that point.

Our own statements are read with `Cursor`; the SELECT inside them is handed to sqlglot as a slice of the
same tokens, so every place counts in the text the user gave, also in a script of many statements.
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

_UNCLOSED = re.compile(r"Missing (.+) from \d+:(\d+)")
_WORD = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r"(?<!\()'([^']+)'")
_CLAUSE = re.compile(r"\b[A-Z][A-Z_]+(?: [A-Z_]+)*\b")


def place_at(text: str, start: int, end: int | None = None) -> Place:
    """The place of `text[start:end]`; lines are counted as `str.splitlines` does, as `Place.caret` does."""
    head = (text[:start] + "x").splitlines()
    length = 1 if end is None else max(1, end - start)
    return Place(text, line=len(head), column=len(head[-1]), length=length)


def place_of(node: exp.Expr, text: str) -> Place | None:
    """Where a node of a parsed tree stands in the script it was parsed from; None for a made-up node.

    A column, function or literal has its own place; any other node has the place of the first of its
    parts, as long as the part that stands furthest on the same line.
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


def named_place(message: str, text: str, dialect: Dialect) -> Place | None:
    """Where the words stand that a message quotes first: for what is refused after parsing, by its name alone.

    Where it quotes none that are written, its first words in capitals are looked for: a clause. Of several in one
    statement the last is meant (a column is declared before it is used); None where the words are not written, or
    in more than one statement of a script.
    """
    tokens = tokenize(text, dialect)
    for phrase in _QUOTED.findall(message) + _CLAUSE.findall(message)[:1]:
        found = [span for start in range(len(tokens)) if (span := _phrase_at(tokens, start, phrase.lower()))]
        if found and not any(t.token_type == TokenType.SEMICOLON for t in tokens[found[0][0] : found[-1][0]]):
            first, last = found[-1]
            return place_at(text, tokens[first].start, tokens[last].end + 1)
    return None


def _phrase_at(tokens: list[Token], start: int, phrase: str) -> tuple[int, int] | None:
    """The first and the last token of a phrase that begins at `start`; sqlglot joins some words into one token."""
    read = ""
    for index in range(start, len(tokens)):
        read += (" " if read else "") + tokens[index].text.lower()
        if read == phrase:
            return start, index
        if not phrase.startswith(read + " "):
            return None
    return None


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that `word` looks like a misspelling of, in any case."""
    by_upper = {name.upper(): name for name in known}
    found = get_close_matches(word.upper(), by_upper, n=1, cutoff=cutoff)
    return by_upper[found[0]] if found else None


def tokenize(text: str, dialect: Dialect) -> list[Token]:
    """The tokens of a script without its comments. Only a ParseError leaves it, whatever the text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ParseError(
            "the text holds half a surrogate pair, which is no character",
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
            # Spark would put a variable of the session or the environment in its place.
            raise ParseError("a name cannot hold ${", place=_place(text, token))
        # sqlglot takes orders from some comments ("sqlglot.anonymous"): none may reach it.
        token.comments.clear()
        if token.token_type == TokenType.RAW_STRING:
            # r'\d' is a string of the characters as they stand; one kind of string is enough from here on.
            token.token_type = TokenType.STRING
    return _with_whole_numbers(tokens, text)


def _with_whole_numbers(tokens: list[Token], text: str) -> list[Token]:
    """sqlglot reads 5L as 5::BIGINT, three tokens of one place; to Spark that cast is not a literal.

    Here it stays one number, with its suffix, and is printed as it was written.
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
    """sqlglot's tokenizer knows what was left open only in its message."""
    match = _UNCLOSED.match(str(error.__cause__))
    if match is None:
        start = text.rfind("/*")
        what = "a comment is not closed" if start >= 0 else "the text cannot be read"
        return ParseError(what, place=place_at(text, max(start, 0)))
    opener, start = match.group(1), min(int(match.group(2)), max(len(text) - 1, 0))
    what = "a quoted name" if opener == "`" else "a string"
    return ParseError(f"{what} is not closed: a {opener} is missing", place=place_at(text, start))


class Cursor:
    """A position in the tokens of one statement. Words are matched in any case, quoted names never."""

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
        """The upper-case keyword or name at the position; "" for anything else, quoted names included."""
        token = self.peek(ahead)
        if token is None or token.token_type == TokenType.STRING or token.token_type == TokenType.IDENTIFIER:
            return ""
        upper = token.text.upper()
        return upper if _WORD.match(upper) else ""

    def take(self, *words: str) -> bool:
        """Steps over the words if they come next, whether or not sqlglot joined some into one token."""
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
        """A name, bare or back-quoted; keywords are names too where a name is due."""
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
        """The place of the token at the position; past the last token, the place just after it."""
        token = self.peek(ahead)
        if token is not None:
            return _place(self.text, token)
        end = self.tokens[-1].end + 1 if self.tokens else len(self.text)
        return place_at(self.text, end)

    def unexpected(self, expected: str, known: Iterable[str] = (), remedy: str | None = None) -> ParseError:
        """An error that says what was due here, and which known word the user may have meant, else `remedy`."""
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
