"""The interactive prompt: statements over several lines and a history. An error does not end it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlglot.tokenizer_core import TokenType

from windrow.cql.dialect import CQL
from windrow.cql.tokens import tokenize
from windrow.errors import ParseError, WindrowError

FIRST, MORE = "windrow> ", "    ...> "
LEAVE = ("\\q", "quit", "exit")
HISTORY = Path("~/.windrow_history")
HISTORY_LINES = 2000


def prompt(
    execute: Callable[[str], None],
    show_error: Callable[[WindrowError], None],
    read: Callable[[str], str] = input,
) -> None:
    """Read statements up to a `;` and execute them until `\\q` or the end of the input.

    Ctrl-C drops the typed text, or leaves if nothing is typed.
    """
    typed = ""
    while True:
        try:
            with _raising():
                line = read(MORE if typed else FIRST)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            if not typed:
                return
            typed = ""
            continue
        if not typed and line.strip().rstrip(";").lower() in LEAVE:
            return
        typed = f"{typed}\n{line}" if typed else line
        if not is_complete(typed):
            continue
        text, typed = typed, ""
        if is_empty(text):
            continue
        try:
            execute(text)
        except WindrowError as error:
            show_error(error)


def is_complete(text: str) -> bool:
    """Whether the text holds nothing, or ends in a `;` outside strings, quoted names and comments."""
    try:
        tokens = tokenize(text, CQL())
    except ParseError:
        return False
    return not tokens or tokens[-1].token_type == TokenType.SEMICOLON


def is_empty(text: str) -> bool:
    return all(token.token_type == TokenType.SEMICOLON for token in tokenize(text, CQL()))


@contextlib.contextmanager
def _raising() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt while a line is typed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def history() -> Iterator[None]:
    """Line editing, and a history in the home directory, if Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = HISTORY.expanduser()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LINES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.write_history_file(path)
