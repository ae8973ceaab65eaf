"""Tab completion: what may stand at the cursor, from the text before it. Pure functions of the text and the names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windrow.console.shell.statement_help import STATEMENT_NAMES
from windrow.console.shell.typed import Lexeme, lexemes
from windrow.cql.dialect import TO_STREAM
from windrow.cql.functions import AGGREGATES, OWN_AGGREGATES, ROW_FUNCTIONS
from windrow.cql.names import quote_name
from windrow.dataplane.sinks.registry import KINDS as SINKS
from windrow.dataplane.sources.registry import SOURCES
from windrow.settings import SPECS, Choice
from windrow.types import UNITS_US

TYPES = tuple("BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL STRING BINARY DATE TIMESTAMP".split())
TYPES += ("TIMESTAMP_NTZ",)
UNITS = tuple(f"{unit}S" for unit in UNITS_US)
FORMATS = ("json", "csv", "parquet")
OPTION_NAMES = (
    *("path", "format", "header", "missing_columns", "on_bad_file", "maxFilesPerTrigger"),
    *("rate", "hosts", "burst", "link", "rowsPerSecond"),
    *("kind", "events", "seed", "first_event_time", "maxEventsPerTrigger"),
)
STARTS = (
    *("CREATE", "ALTER QUERY", "SELECT", "WITH", "INSERT INTO", "UPDATE", "DELETE FROM", "LOAD INTO"),
    *("EXPLAIN", "SHOW", "DESCRIBE", "DROP", "SET"),
)
SHOWN = ("STREAMS", "QUERIES", "SHARING", "LATENESS", "SETTINGS", "TABLES", "FRESHNESS", "SNAPSHOTS")
STREAM_CLAUSES = ("FROM", "TIMESTAMP BY", "SEQUENCE BY", "PUNCTUATE", "LATE", "RETAIN", "TICK", "OPTIONS")
AFTER_PUNCTUATE = ("ORDERED", "WITH SLACK", "PER", "BY SOURCE", "ON")
WINDOW_STARTS = ("RANGE", "ROWS", "SINCE", "UNBOUNDED", "NOW")
WINDOW_CLAUSES = ("SLIDE", "OFFSET", "PARTITION BY", "WATTR", "RATTR", "SATTR", "PATTR", "ORIGIN")
OPERATORS = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "IS NOT NULL", "CASE")
CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "INTO", "EMIT")
QUERY_TAIL = ("INTO", "EMIT EVERY WINDOW")
TABLE_FUNCTIONS = ("answers('", "dead_letters('")

NEXT: Mapping[str, tuple[str, ...]] = {
    "SELECT": ("FROM", "AS", "DISTINCT", "FILTER (WHERE"),
    "FROM": ("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AS"),
    "WHERE": ("GROUP BY", "HAVING", "ORDER BY", "LIMIT", *OPERATORS),
    "GROUP": ("HAVING", "ORDER BY", "LIMIT"),
    "HAVING": ("ORDER BY", "LIMIT", *OPERATORS),
    "ORDER": ("ASC", "DESC", "LIMIT"),
    "LIMIT": (),
    "INTO": ("OPTIONS",),
    "EMIT": ("EVERY WINDOW",),
}
"""What may follow within a clause of a SELECT, and the clauses that may follow it."""

AFTER: Mapping[str, tuple[str, ...]] = {
    "GROUP": ("BY",),
    "ORDER": ("BY",),
    "PARTITION": ("BY",),
    "SEQUENCE": ("BY",),
    "WITH": ("SLACK",),
    "HEARTBEAT": ("AFTER",),
    "IDLE": ("AFTER",),
    "LATE": ("DROP", "REVISE"),
    "EMIT": ("EVERY WINDOW",),
    "EVERY": ("WINDOW",),
    "IS": ("NULL", "NOT NULL", "TRUE"),
    "PUNCTUATE": AFTER_PUNCTUATE,
    "IF": ("NOT EXISTS", "EXISTS"),
    "ISTREAM": ("RESTORE(",),
    "RSTREAM": ("RESTORE(",),
}
"""Words after which only these words may stand."""


@dataclass(frozen=True)
class Names:
    """The streams, queries and tables of a state with their columns, the commands and the arguments they take."""

    streams: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    queries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    """Each command and the kind of its argument: a key of `_arguments`, or a list of words."""
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Completions:
    """Texts that may replace what stands between `start` and the cursor."""

    start: int
    texts: tuple[str, ...] = ()


def complete(text: str, cursor: int, names: Names) -> Completions:
    """What may stand at the cursor, in the order of likelihood; every text begins with what is typed already."""
    before = text[:cursor]
    parts = lexemes(before)
    slash = next((part for part in reversed(parts) if part.text == "\\"), None)
    if slash is not None and "\n" not in before[slash.start :]:
        return _command(before, slash.start + 1, names)
    start = next((i + 1 for i in range(len(parts) - 1, -1, -1) if parts[i].text == ";"), 0)
    past, last = parts[start:], parts[-1] if parts[start:] else None
    whole = _statement_around(text, cursor)
    if last is not None and last.is_open:
        return _inside(past[:-1], last, whole, names)
    typed = ""
    if last is not None and last.end == cursor and last.kind in ("word", "number"):
        past, typed = past[:-1], last.text
    if typed[:1].isdigit():
        return Completions(cursor)
    known = [part for part in past if part.kind != "comment"]
    return _matching(cursor - len(typed), typed, _expected(known, whole, names))


def _statement_around(text: str, cursor: int) -> list[Lexeme]:
    """The lexemes of the statement that the cursor is in, also those behind it."""
    found: list[Lexeme] = []
    for part in lexemes(text):
        if part.text == ";" and part.start >= cursor:
            break
        found = [] if part.text == ";" else [*found, part]
    return [part for part in found if part.kind != "comment"]


def _matching(start: int, typed: str, texts: Iterable[str]) -> Completions:
    """The texts that begin with what is typed, ignoring case; keywords in lower case if that is typed so."""
    lower = typed.lower()
    found = [text for text in dict.fromkeys(texts) if text.lower().startswith(lower) and text != typed]
    if typed and typed.islower():
        found = [text.lower() if text.isupper() else text for text in found]
    return Completions(start, tuple(dict.fromkeys(found)))


# Strings, quoted names and commands


def _inside(past: Sequence[Lexeme], last: Lexeme, whole: Sequence[Lexeme], names: Names) -> Completions:
    """Inside a string: a path, a format, a value of a setting, or the stream of dead_letters. Inside ` `: a name."""
    if last.kind == "comment":
        return Completions(last.end)
    typed, start = last.text[1:], last.start + 1
    if last.kind == "name":
        every = (*names.streams, *names.queries, *names.tables, *_columns(whole, names))
        return _matching(start, typed, (f"{name}`" for name in every))
    quote, words = last.text[0], [part.upper for part in past]
    if words[:1] == ["SET"] and len(words) >= 2:
        return _matching(start, typed, (f"{value}{quote}" for value in _values(words[1])))
    if words[-1:] == ["("] and len(words) > 1:
        held = names.streams if words[-2] == "DEAD_LETTERS" else names.queries
        return _matching(start, typed, (f"{name}{quote})" for name in held))
    option = next((word for word in reversed(words) if word != "="), "")
    if option == "FORMAT":
        return _matching(start, typed, (f"{name}{quote}" for name in FORMATS))
    if option == "PATH" or words[:1] == ["LOAD"]:
        return Completions(start, paths(typed))
    return Completions(last.end)


def paths(typed: str) -> tuple[str, ...]:
    """The files and folders whose path begins with what is typed; a folder ends in a slash."""
    folder, _, name = typed.rpartition("/")
    where = os.path.expanduser(folder or ("/" if typed.startswith("/") else "."))
    try:
        with os.scandir(where) as found:
            entries = sorted((entry.name, entry.is_dir()) for entry in found)
    except OSError:
        return ()
    lead = typed[: len(typed) - len(name)]
    shown = [entry for entry in entries if entry[0].startswith(name) and (name or not entry[0].startswith("."))]
    return tuple(f"{lead}{entry}{'/' if is_folder else ''}" for entry, is_folder in shown)


def _values(setting: str) -> tuple[str, ...]:
    """The words that a setting takes, if it takes only a few."""
    spec = SPECS.get(setting.lower())
    return spec.parse.allowed if spec is not None and isinstance(spec.parse, Choice) else ()


def _command(before: str, start: int, names: Names) -> Completions:
    """A command's name, or its argument: the last word for names, everything behind the blank for the rest."""
    name, blank, argument = before[start:].partition(" ")
    if not blank:
        return _matching(start, name, sorted(names.commands))
    kind = names.commands.get(name, "")
    at = start + len(name) + 1
    typed = argument.lstrip()
    at += len(argument) - len(typed)
    if kind == "file":
        return Completions(at, paths(typed))
    if kind == "statement":
        return _matching(at, typed, STATEMENT_NAMES)
    if kind == "watched" and " " in typed:
        inner = complete(typed, len(typed), names)
        return Completions(at + inner.start, inner.texts)
    return _matching(at, typed, _arguments(kind, names))


def _arguments(kind: str, names: Names) -> Sequence[str]:
    if kind == "query":
        return tuple(names.queries)
    if kind == "watched":
        return (*names.queries, "SELECT", "SHOW")
    if kind == "object":
        return (*names.streams, *names.queries, *names.tables, *SPECS)
    return tuple(kind.split())


# Statements


_VERBOSE = ("SELECT", "CREATE QUERY", "QUERY")


def _expected(past: Sequence[Lexeme], whole: Sequence[Lexeme], names: Names) -> Sequence[str]:
    """What may follow these lexemes."""
    words = [part.upper for part in past]
    if not words:
        return STARTS
    if words[0] == "EXPLAIN":
        if len(words) == 1:
            return ("SELECT", "CREATE QUERY", "QUERY", "ANALYZE QUERY", "VERBOSE")
        if words[1] == "VERBOSE":
            return _expected([past[0], *past[2:]], whole, names) if len(words) > 2 else _VERBOSE
        if words[1] == "ANALYZE" and len(words) == 2:
            return ("QUERY",)
        if "QUERY" in words[1:3] and words[1] in ("QUERY", "ANALYZE"):
            return tuple(map(quote_name, names.queries))
        return _expected(past[1:], whole, names)
    if words[0] == "SHOW":
        return _shown(words, names)
    if words[0] in ("DESCRIBE", "DESC"):
        return tuple(map(quote_name, (*names.streams, *names.queries, *names.tables))) if len(words) == 1 else ()
    if words[0] == "DROP":
        return _dropped(words, names)
    if words[0] == "ALTER":
        return _altered(words, names)
    if words[0] == "SET":
        return _set(words)
    if words[0] == "CREATE":
        return _created(past, words, whole, names)
    if words[0] in ("INSERT", "UPDATE", "DELETE", "LOAD"):
        return _changed(past, words, whole, names)
    return _select(past, words, whole, names) if words[0] in ("SELECT", "WITH") else ()


def _altered(words: Sequence[str], names: Names) -> Sequence[str]:
    if len(words) == 1:
        return ("QUERY",)
    return tuple(map(quote_name, names.queries)) if len(words) == 2 else ("PAUSE", "RESUME") if len(words) == 3 else ()


def _changed(past: Sequence[Lexeme], words: Sequence[str], whole: Sequence[Lexeme], names: Names) -> Sequence[str]:
    """Within INSERT, UPDATE, DELETE and LOAD."""
    lead = {"INSERT": ("INTO",), "DELETE": ("FROM",), "LOAD": ("INTO",), "UPDATE": ()}[words[0]]
    if len(words) <= len(lead):
        return lead
    at = len(lead) + 1
    if len(words) == at:
        return tuple(map(quote_name, names.tables))
    if words[0] == "INSERT" and "SELECT" in words:
        body = words.index("SELECT")
        return _select(past[body:], words[body:], whole, names)
    columns = _held(past[at].text.strip("`"), names) or ()
    if len(words) == at + 1:
        return {"INSERT": ("VALUES", "SELECT", "("), "UPDATE": ("SET",), "DELETE": ("WHERE",), "LOAD": ("FROM",)}[
            words[0]
        ]
    if words[0] == "LOAD":
        return ("csv", "json", "parquet") if words[-1] == "FORMAT" else ("FORMAT", "OPTIONS")
    if words[0] == "INSERT":
        return columns if words[-1] in ("(", ",") and "VALUES" not in words else ("VALUES", "SELECT")
    if words[-1] in ("SET", "WHERE", ",", "(", "AND", "OR", "NOT") or not _is_operand(past[-1]):
        return (*columns, *(f"{name}(" for name in sorted(ROW_FUNCTIONS)))
    return ("=",) if words[-2] in ("SET", ",") else (*(() if "WHERE" in words else ("WHERE",)), *OPERATORS)


def _shown(words: Sequence[str], names: Names) -> Sequence[str]:
    if len(words) == 1:
        return (*SHOWN, "CREATE")
    if words[1:] == ["CREATE"]:
        return ("STREAM", "QUERY", "TABLE")
    held = {("LATENESS",): names.streams, ("CREATE", "STREAM"): names.streams, ("CREATE", "QUERY"): names.queries}
    held |= {("CREATE", "TABLE"): names.tables}
    return tuple(map(quote_name, held.get(tuple(words[1:]), ())))


def _dropped(words: Sequence[str], names: Names) -> Sequence[str]:
    if len(words) == 1:
        return ("STREAM", "QUERY", "TABLE")
    if words[-1] == "IF":
        return ("EXISTS",)
    held = {"STREAM": names.streams, "TABLE": names.tables}.get(words[1], names.queries)
    if len(words) == 2:
        return (*map(quote_name, held), "IF EXISTS")
    return tuple(map(quote_name, held)) if words[2:] == ["IF", "EXISTS"] else ()


def _set(words: Sequence[str]) -> Sequence[str]:
    if len(words) == 1:
        return tuple(SPECS)
    if len(words) == 2:
        return ("=",)
    return tuple(f"'{value}'" for value in _values(words[1])) if len(words) == 3 else ()


def _created(past: Sequence[Lexeme], words: Sequence[str], whole: Sequence[Lexeme], names: Names) -> Sequence[str]:
    if len(words) == 1:
        return ("STREAM", "QUERY", "TABLE", "OR REPLACE QUERY")
    if words[1] == "OR":
        if len(words) < 4:
            return ("REPLACE QUERY", "QUERY")[len(words) - 2 :][:1]
        if len(words) == 4:
            return tuple(map(quote_name, names.queries))
        return _created([past[0], *past[3:]], [words[0], *words[3:]], whole, names)
    if len(words) == 2:
        return ("IF NOT EXISTS",)
    if words[-1] in ("IF", "NOT"):
        return ("NOT EXISTS",) if words[-1] == "IF" else ("EXISTS",)
    if words[1] == "STREAM":
        return () if words[2:] == ["IF", "NOT", "EXISTS"] else _stream(words, whole)
    if words[1] == "TABLE":
        return () if words[2:] == ["IF", "NOT", "EXISTS"] else _table(words, names)
    if "AS" not in words:
        return ("AS",)
    body = words.index("AS") + 1
    if len(words) == body:
        return ("SELECT",)
    follow = _select(past[body:], words[body:], whole, names)
    if words[-1] == "SELECT":
        return (*follow, *(f"{word}(" for word in TO_STREAM))
    is_after_from = "FROM" in words[body:] and not _opened(words) and words[-1] not in ("FROM", "BY", "INTO", ",")
    return (*follow, *QUERY_TAIL) if is_after_from and not set(words) & {"INTO", "EMIT"} else follow


def _stream(words: Sequence[str], whole: Sequence[Lexeme]) -> Sequence[str]:
    """Within CREATE STREAM, after its name."""
    last, opened = words[-1], _opened(words)
    if opened is not None and words[opened - 1] == "OPTIONS":
        return OPTION_NAMES if last in ("(", ",") else ()
    if opened is not None:
        if last == "NULLABLE":
            return ("MISSING",)
        if last in ("(", ",", "MISSING"):
            return ()
        return TYPES if words[-2] in ("(", ",") else ("NULLABLE MISSING",)
    if last[:1].isdigit():
        return (*UNITS, "ROWS")
    if last == "FROM":
        return tuple(SOURCES)
    if last == "TIMESTAMP":
        return ("BY",)
    if last in ("BY", "ON", "PER"):
        return (*_declared(whole), *(("SOURCE",) if words[-2] == "PUNCTUATE" else ()))
    if last in AFTER:
        return AFTER[last]
    if "PUNCTUATE" in words:
        return ("HEARTBEAT AFTER", "IDLE AFTER", *STREAM_CLAUSES)
    return STREAM_CLAUSES


def _table(words: Sequence[str], names: Names) -> Sequence[str]:
    """Within CREATE TABLE, after its name."""
    last, opened = words[-1], _opened(words)
    if opened is not None:
        if last in ("(", ","):
            return ("PRIMARY KEY (",) if last == "," else ()
        return TYPES if words[-2] in ("(", ",") else ("PRIMARY KEY",)
    if words[-2:] == ["FROM", "STREAM"]:
        return tuple(map(quote_name, names.streams))
    return ("NON RETROACTIVE", "FROM STREAM", "DELETE WHEN") if ")" in words else ()


def _declared(whole: Sequence[Lexeme]) -> tuple[str, ...]:
    """The columns that a CREATE STREAM declares."""
    found, depth = [], 0
    for before, part in zip(whole, whole[1:], strict=False):
        depth += (before.text == "(") - (before.text == ")")
        if before.text == ")" and depth == 0:
            break
        if depth == 1 and before.text in ("(", ",") and part.kind in ("word", "name"):
            found.append(part.text)
    return tuple(found)


def _opened(words: Sequence[str]) -> int | None:
    """The index of the innermost bracket that is open."""
    stack: list[int] = []
    for index, word in enumerate(words):
        if word in ("(", "["):
            stack.append(index)
        elif word in (")", "]") and stack:
            stack.pop()
    return stack[-1] if stack else None


def _select(past: Sequence[Lexeme], words: Sequence[str], whole: Sequence[Lexeme], names: Names) -> Sequence[str]:
    """Within a SELECT."""
    opened = _opened(words)
    columns = _columns(whole, names)
    if opened is not None and words[opened] == "[":
        return _window(words[opened + 1 :], columns)
    last = words[-1]
    if last == ".":
        return _columns_of(past[-2], whole, names) if len(past) > 1 else ()
    clause = next((word for word in reversed(words) if word in CLAUSES), "SELECT")
    if last == "FROM" and opened is None:
        return (*map(quote_name, (*names.streams, *names.queries, *names.tables)), *TABLE_FUNCTIONS)
    if last == "INTO":
        return SINKS
    if last in AFTER and last not in ("IF",):
        return AFTER[last]
    if clause in ("INTO", "EMIT", "LIMIT"):
        is_option = opened is not None and words[opened - 1] == "OPTIONS"
        return ("path",) if is_option else NEXT[clause]
    if clause == "FROM":
        return ("[", *NEXT[clause]) if words[-2:-1] == ["FROM"] else NEXT[clause]
    functions = (*sorted(AGGREGATES), *sorted(OWN_AGGREGATES), *sorted(ROW_FUNCTIONS))
    values = (*columns, *(f"{name}(" for name in functions))
    if last in ("SELECT", "WHERE", "BY", "HAVING", ",", "(", "AND", "OR", "NOT") or not _is_operand(past[-1]):
        aliases = _aliases(whole) if clause in ("HAVING", "ORDER") else ()
        return (*aliases, *values, *(("DISTINCT",) if last == "(" else ()), *(("*",) if last == "SELECT" else ()))
    return (*NEXT[clause], *values)


def _is_operand(part: Lexeme) -> bool:
    return part.kind in ("word", "name", "number", "string") or part.text in (")", "]")


def _window(words: Sequence[str], columns: Sequence[str]) -> Sequence[str]:
    """Within the brackets of a window."""
    if not words:
        return WINDOW_STARTS
    last = words[-1]
    if last[:1].isdigit():
        return (*UNITS, "ROWS", *WINDOW_CLAUSES, "]") if words[0] != "ROWS" else (*WINDOW_CLAUSES, "]")
    if last in ("BY", "PATTR", "WATTR", "RATTR"):
        return columns
    if last == "PARTITION":
        return ("BY",)
    if last == "SATTR":
        return ("row_num", "rank(")
    return () if last in ("RANGE", "ROWS", "SLIDE", "OFFSET") and words != ["ROWS"] else (*WINDOW_CLAUSES, "]")


def _sources(whole: Sequence[Lexeme]) -> list[tuple[str, str]]:
    """The names after FROM, each with its alias (or the name itself)."""
    found = []
    for index, part in enumerate(whole[:-1]):
        if part.upper == "FROM" and whole[index + 1].kind in ("word", "name"):
            name = whole[index + 1].text.strip("`")
            rest = whole[index + 2 :]
            close = next((i for i, one in enumerate(rest) if one.text == "]"), None)
            rest = rest[close + 1 :] if rest[:1] and rest[0].text == "[" and close is not None else rest
            rest = rest[1:] if rest[:1] and rest[0].upper == "AS" else rest
            is_alias = rest[:1] and rest[0].kind in ("word", "name") and rest[0].upper not in CLAUSES
            found.append((name, rest[0].text.strip("`") if is_alias else name))
    return found


def _held(name: str, names: Names) -> tuple[str, ...] | None:
    for held in (names.streams, names.queries, names.tables):
        for known, columns in held.items():
            if known.lower() == name.lower():
                return tuple(map(quote_name, columns))
    return None


def _columns(whole: Sequence[Lexeme], names: Names) -> tuple[str, ...]:
    """The columns of what is in FROM; of all streams while there is no FROM."""
    known = [columns for name, _ in _sources(whole) if (columns := _held(name, names)) is not None]
    if not known and not any(part.upper == "FROM" for part in whole):
        known = [tuple(map(quote_name, columns)) for columns in names.streams.values()]
    return tuple(dict.fromkeys(name for columns in known for name in columns))


def _columns_of(qualifier: Lexeme, whole: Sequence[Lexeme], names: Names) -> tuple[str, ...]:
    """The columns of the stream that a qualifier (`p.`) names."""
    wanted = qualifier.text.strip("`").lower()
    for name, alias in _sources(whole):
        if wanted in (name.lower(), alias.lower()):
            return _held(name, names) or ()
    return ()


def _aliases(whole: Sequence[Lexeme]) -> tuple[str, ...]:
    """The names after AS in the select list."""
    end = next((i for i, part in enumerate(whole) if part.upper == "FROM"), len(whole))
    first = next((i for i, part in enumerate(whole) if part.upper == "SELECT"), 0)
    listed = whole[first:end]
    pairs = zip(listed, listed[1:], strict=False)
    return tuple(part.text for before, part in pairs if before.upper == "AS" and part.kind in ("word", "name"))
