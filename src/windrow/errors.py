"""Every error that a user can meet: a code, a message, a place in the query text, and a remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_CALL = "An error occurred while calling "
_CAUSE = re.compile(r"^(?:Caused by)?: [\w.$]+: (.+)$", re.M)


@dataclass(frozen=True)
class Place:
    """A position in a statement's text, 1-based, with enough of the text to draw a caret."""

    text: str
    line: int
    column: int
    length: int = 1

    def without_head(self, head: str) -> Place:
        """The same place in the text after its head, which has no line break; this place if it is in the head."""
        if self.line > 1:
            return replace(self, text=self.text[len(head) :])
        if self.column <= len(head):
            return self
        return replace(self, text=self.text[len(head) :], column=self.column - len(head))

    def caret(self) -> str:
        """The offending line with a caret under the offending part."""
        lines = self.text.splitlines() or [""]
        source = lines[min(self.line, len(lines)) - 1]
        width = max(1, min(self.length, len(source) - self.column + 1))
        margin = f"{self.line:>4} | "
        pad = "".join("\t" if c == "\t" else " " for c in source[: self.column - 1])
        return f"{margin}{source}\n{' ' * (len(margin) - 2)}| {pad}{'^' * width}"


class WindrowError(Exception):
    """Base class of all errors that Windrow raises.

    `code` is stable and searchable. `message` says what is wrong, `place` where in the statement, and `remedy` what
    to do. `str(error)` shows all four.
    """

    code = "WR000"

    def __init__(self, message: str, *, place: Place | None = None, remedy: str | None = None):
        self.message = message
        self.place = place
        self.remedy = remedy
        super().__init__(message)

    def __str__(self) -> str:
        parts = [f"[{self.code}] {self.message}"]
        if self.place is not None:
            parts[0] += f" (line {self.place.line}, column {self.place.column})"
            parts.append(self.place.caret())
        if self.remedy:
            parts.append(self.remedy)
        return "\n".join(parts)


class ParseError(WindrowError):
    """The text is not a statement of the language."""

    code = "WR100"


class BindError(WindrowError):
    """A name, a type or a clause does not fit the catalog."""

    code = "WR200"


class FunctionError(BindError):
    """A function that is not on the allow-list, or not allowed in this place."""

    code = "WR210"


class SpanError(BindError):
    """The state of the query cannot answer this window: it has other window edges, or does not reach so far back."""

    code = "WR220"


class UnsupportedError(BindError):
    """The statement is in the language, but this version does not execute it; or the call needs a package that is not
    installed."""

    code = "WR290"


class CatalogError(WindrowError):
    """A stream, query or setting does not exist, or exists already."""

    code = "WR300"


class SettingError(WindrowError):
    """An unknown setting, or a value that the setting does not accept."""

    code = "WR310"


class TableError(WindrowError):
    """Rows do not fit their table: a key exists already, was deleted before, or is NULL; or a value does not fit its
    column. Nothing was changed."""

    code = "WR320"


class StateError(WindrowError):
    """The state directory cannot be used: held by another process, damaged, or of a newer version."""

    code = "WR400"


class ReadOnlyError(StateError):
    """The state directory is open read-only, and the call would change it or needs the memory of its process."""

    code = "WR410"


class HistoryError(WindrowError):
    """A text or file is not a history of transactions."""

    code = "WR420"


class SourceError(WindrowError):
    """A source cannot be opened or read."""

    code = "WR500"


class FeedError(SourceError):
    """`feed` cannot read the rows at all (a record that only fails to fit the schema becomes a dead letter)."""

    code = "WR510"


class SessionError(WindrowError):
    """The Spark session cannot serve Windrow."""

    code = "WR600"


class SparkEndedError(SessionError):
    """The JVM of the Spark session has ended: it was killed or ran out of memory. Committed work is safe."""

    code = "WR610"


class ExecutionError(WindrowError):
    """A Spark job or a kernel failed."""

    code = "WR700"


class QuerySuspendedError(ExecutionError):
    """An expression of the query failed at run time: the query is suspended, other queries continue."""

    code = "WR710"


class SinkError(ExecutionError):
    """A sink may not write to its path, or failed to take an answer."""

    code = "WR720"


class QueryCancelledError(ExecutionError):
    """A one-time query was cancelled before it was answered."""

    code = "WR730"


class QueryTimeoutError(QueryCancelledError):
    """A one-time query took longer than its timeout, and was cancelled."""

    code = "WR731"


class ResultLimitError(ExecutionError):
    """The answer of a one-time query, or what it keeps until then, is larger than a setting allows."""

    code = "WR740"


def first_line(error: BaseException) -> str:
    """The first line of an error's message; the name of its class if the message is empty. Of an error of the JVM, the
    first cause: its own first line only names a call."""
    text = str(error).strip() or type(error).__name__
    causes = _CAUSE.findall(text) if text.startswith(_CALL) else []
    return str(causes[-1]) if causes else text.splitlines()[0]
