"""The prompt on a terminal: multi-line editing, history and completion by prompt_toolkit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus, is_searching
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.patch_stdout import patch_stdout

from windrow.console.interrupts import Cancels, Interrupted, Interrupts
from windrow.console.shell.completion import Names, complete
from windrow.console.shell.session import LeaveShell, Shell, steps_of
from windrow.console.shell.typed import is_empty, is_ready, word_alone
from windrow.console.tables import print_error
from windrow.errors import ExecutionError, WindrowError, first_line

FIRST, MORE = "windrow> ", "...> "
HISTORY = Path("~/.windrow_history")
HISTORY_ENTRIES = 2000
MENU_LINES = 6
POLL_S = 0.2

Read = Callable[[str], str]
"""Reads a whole input that begins with the given text. Raises KeyboardInterrupt (Ctrl-C) or EOFError (Ctrl-D)."""


def converse(
    shell: Shell, cancels: Cancels, read: Read, show_error: Callable[[WindrowError], None] = print_error
) -> None:
    r"""Execute what is read until `\q` or the end of the input.

    Neither an error nor a Ctrl-C ends it; SIGTERM does.
    """
    while not cancels.is_ended:
        draft, shell.draft = shell.draft, ""
        try:
            text = read(draft)
        except EOFError:
            return
        except KeyboardInterrupt:
            continue
        word = word_alone(text)
        text = text if word is None else f"\\{word}"
        if is_empty(text):
            continue
        cancels.clear()
        try:
            shell.execute(steps_of(text))
        except LeaveShell:
            return
        except Interrupted:
            shell.note("cancelled")
        except WindrowError as error:
            show_error(error)
        except Exception as error:
            show_error(
                ExecutionError(
                    f"unexpected {type(error).__name__}: {first_line(error)}",
                    remedy="This is a defect of Windrow; please report it. The session goes on.",
                )
            )
        finally:
            cancels.clear()
            if not text.startswith("\\"):
                shell.last_text = text


def prompt(shell: Shell, interrupts: Interrupts, cancels: Cancels) -> None:
    """Converse on the terminal until the user leaves, or SIGTERM comes."""
    session: PromptSession[str] = PromptSession(
        FIRST,
        multiline=True,
        prompt_continuation=lambda width, line, wrapped: (" " if wrapped else MORE).rjust(width),
        completer=_Completer(shell.names),
        complete_while_typing=False,
        reserve_space_for_menu=MENU_LINES,
        history=_history(HISTORY.expanduser()),
        key_bindings=_keys(),
        enable_open_in_editor=True,
        enable_suspend=True,
        tempfile_suffix=".cql",
        output=None if _is_dumb() else create_output(always_prefer_tty=True),
    )

    async def leave_when_ended() -> None:
        while not interrupts.requested:
            await asyncio.sleep(POLL_S)
        with contextlib.suppress(Exception):
            get_app().exit(exception=EOFError())

    def watch_for_the_end() -> None:
        get_app().create_background_task(leave_when_ended())

    def read(draft: str) -> str:
        with _printing_above():
            return session.prompt(default=draft, pre_run=watch_for_the_end)

    converse(shell, cancels, read)


def _is_dumb() -> bool:
    return os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")


@contextlib.contextmanager
def _printing_above() -> Iterator[None]:
    """Print what other threads write (console sinks, warnings) above the prompt."""
    if _is_dumb() or not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield
        return
    with patch_stdout(raw=True):
        yield


class _Completer(Completer):
    def __init__(self, names: Callable[[], Names]):
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        found = complete(document.text, document.cursor_position, self._names())
        for text in found.texts:
            yield Completion(text, start_position=found.start - document.cursor_position)


def _keys() -> KeyBindings:
    """Enter executes what is complete and begins a new line otherwise; Alt-Enter always begins one."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER) & ~is_searching

    @keys.add("enter", filter=typing)
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_ready(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    @keys.add("escape", "enter", filter=typing)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    return keys


class _FileHistory(FileHistory):
    """A history whose file may fail: it is then kept in memory only."""

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)


def _history(path: Path) -> History:
    """The history in the home directory, readable by its owner only, cut to the newest entries."""
    try:
        path.touch(mode=0o600, exist_ok=True)
        path.chmod(0o600)
        history = _FileHistory(path)
        kept: list[Any] = list(history.load_history_strings())
        if len(kept) > 2 * HISTORY_ENTRIES:
            path.write_bytes(b"")
            for text in reversed(kept[:HISTORY_ENTRIES]):
                history.store_string(text)
    except OSError:
        return InMemoryHistory()
    return history
