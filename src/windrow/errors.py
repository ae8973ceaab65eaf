"""Every error a user can meet: a code, what went wrong, where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A position in a statement's text, 1-based, with enough of the text to draw a caret."""

    text: str
    line: int
    column: int
    length: int = 1

    def caret(self) -> str:
        """The offending line with a caret under the offending part."""
        lines = self.text.splitlines() or [""]
        source = lines[min(self.line, len(lines)) - 1]
        width = max(1, min(self.length, len(source) - self.column + 1))
        margin = f"{self.line:>4} | "
        pad = "".join("\t" if c == "\t" else " " for c in source[: self.column - 1])
        return f"{margin}{source}\n{' ' * (len(margin) - 2)}| {pad}{'^' * width}"


class WindrowError(Exception):
    """Base of all of Windrow's own errors.

    `code` is stable and searchable, `message` says what is wrong, `place` where in the
    statement, `remedy` what to do. `str(error)` shows them all.
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
    """A lookup of a window that the synopsis cannot answer: an edge is no cut, or it is out of what is kept."""

    code = "WR220"


class UnsupportedError(BindError):
    """The statement is in the language, but this version does not execute it."""

    code = "WR290"


class CatalogError(WindrowError):
    """A stream, query or setting does not exist, or exists already."""

    code = "WR300"


class SettingError(WindrowError):
    """An unknown setting, or a value it does not take."""

    code = "WR310"


class StateError(WindrowError):
    """The state directory cannot be used: held by another process, damaged, or of a newer version."""

    code = "WR400"


class SourceError(WindrowError):
    """A source cannot be opened or read."""

    code = "WR500"


class FeedError(SourceError):
    """Rows given to `feed` cannot be taken at all (a record that merely does not fit is a dead letter)."""

    code = "WR510"


class SessionError(WindrowError):
    """The Spark session cannot serve Windrow."""

    code = "WR600"


class SparkEndedError(SessionError):
    """The JVM of the Spark session has ended: killed, or out of memory. What was committed is not lost."""

    code = "WR610"


class ExecutionError(WindrowError):
    """A Spark job or a kernel failed."""

    code = "WR700"


class QuerySuspendedError(ExecutionError):
    """A query's own expression failed at run time; the query is suspended, others go on."""

    code = "WR710"


class SinkError(ExecutionError):
    """A sink did not take an answer."""

    code = "WR720"
