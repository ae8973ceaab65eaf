r"""The syntax of every statement, for `\h` and for docs/cql.md, whose section Statements is made from this table.

In a syntax, words in capitals and signs are typed as they are, `[ ]` may be left out, `{a | b}` is a choice, `, …`
repeats what stands before it, and words in small letters stand for something of yours. A test builds every choice of
every syntax and parses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from windrow.errors import CatalogError


@dataclass(frozen=True)
class StatementHelp:
    """A statement: what it does, its syntax and an example. A note says what the words in small letters stand for."""

    name: str
    about: str
    syntax: str
    example: str
    note: str = ""

    def lines(self) -> Iterator[str]:
        yield f"{self.name}: {self.about}"
        yield ""
        yield from (f"  {line}" for line in self.syntax.splitlines())
        if self.note:
            yield ""
            yield from self.note.splitlines()
        yield ""
        yield "For example:"
        yield ""
        yield from (f"  {line}" for line in self.example.splitlines())


STATEMENTS = (
    StatementHelp(
        "CREATE STREAM",
        "declares a stream: its columns, its source, its time and its disorder.",
        """\
CREATE STREAM [IF NOT EXISTS] name [(column type [NULLABLE MISSING], …)]
  FROM source [OPTIONS (option 'value', …)]
  [TIMESTAMP BY column]
  [PUNCTUATE [ON column]
     {ORDERED | WITH SLACK length | WITH SLACK n ROWS | PER column [IDLE AFTER length] | BY SOURCE}
     [HEARTBEAT AFTER length]]
  [SEQUENCE BY column]
  [LATE {DROP | REVISE [FOR length]}]
  [RETAIN length]
  [TICK length]""",
        """\
CREATE STREAM readings (ts TIMESTAMP, sensor STRING, celsius DOUBLE)
  FROM files OPTIONS (path 'readings', format 'json')
  TIMESTAMP BY ts PUNCTUATE WITH SLACK 10 SECONDS;""",
        "Clauses come in any order. Sources: files, memory, rate, packets, nexmark. A stream from files finds its "
        "columns if they are left out. A length is 10 SECONDS, or a plain number for an integer column.",
    ),
    StatementHelp(
        "CREATE QUERY",
        "registers a standing query: with SLIDE it answers every window when it closes, without it is continuous.",
        """\
CREATE {QUERY [IF NOT EXISTS] | OR REPLACE QUERY} name AS
  [WITH name AS (SELECT expression FROM stream window), …]
  SELECT {[DISTINCT] expression [AS alias], … | {ISTREAM | DSTREAM | RSTREAM}(expression, …)
    | {ISTREAM | RSTREAM} RESTORE(expression, …) | WSTREAM(expression, …) window}
  FROM {stream window | (SELECT expression FROM stream window)} [AS alias]
  [JOIN stream window [AS alias] ON condition]
  [WHERE condition]
  [GROUP BY expression, …]
  [HAVING condition]
  [ORDER BY expression [{ASC | DESC}], …]
  [LIMIT n]
  [INTO {console | parquet OPTIONS (path 'dir' [, mode 'mode']) | jsonl OPTIONS (path 'file' [, mode 'mode'])}]
  [EMIT EVERY WINDOW]""",
        """\
CREATE QUERY climate AS
  SELECT sensor, COUNT(*) AS readings, AVG(celsius) AS mean
  FROM readings [RANGE 5 MINUTES SLIDE 1 MINUTE]
  GROUP BY sensor ORDER BY sensor;""",
        "OR REPLACE puts the query in the place of the one of its name, if there is one; it keeps what it can use. "
        "\\h WINDOW lists the windows; that of WSTREAM is [ROWS n] or [RANGE length]. Up to eight streams are joined. "
        "The mode of a sink is for continuous queries: changes, append or view.",
    ),
    StatementHelp(
        "ALTER QUERY",
        "pauses a standing query, or lets it go on.",
        "ALTER QUERY query {PAUSE | RESUME}",
        "ALTER QUERY climate PAUSE;",
        "Resumed, it goes on where it was: no answer is missing, and none comes twice.",
    ),
    StatementHelp(
        "CREATE STREAM AS",
        "makes a stream of the rows that a query reports, for other queries to read.",
        """\
CREATE STREAM [IF NOT EXISTS] name AS
  SELECT {expression [AS alias], … | ISTREAM [RESTORE](expression, …)}
  FROM stream window [AS alias]
  [JOIN stream window [AS alias] ON condition]
  [WHERE condition]
  [GROUP BY expression, …]
  [TICK length]""",
        """\
CREATE STREAM alarms AS
  SELECT sensor, celsius FROM readings [RANGE 1 MINUTE INTERNAL] WHERE celsius > 30;""",
        "Rows never leave a stream: write ISTREAM, or windows with INTERNAL.",
    ),
    StatementHelp(
        "CREATE TABLE",
        "declares a table, whose rows are inserted, updated and deleted, or come from a stream.",
        """\
CREATE TABLE [IF NOT EXISTS] name
  {(column type PRIMARY KEY, …) | (column type, …, PRIMARY KEY (column, …))}
  [NON RETROACTIVE]
  [FROM STREAM stream [DELETE WHEN condition]]""",
        """\
CREATE TABLE sites (sensor STRING PRIMARY KEY, city STRING) NON RETROACTIVE;""",
        "One column is the key, or several. A change of a row changes past results, too, unless the table is NON "
        "RETROACTIVE: then only later tuples see it. FROM STREAM: the tuples of a stream are the changes, and DELETE "
        "WHEN says which of them remove a row. docs/tables.md says which one you need.",
    ),
    StatementHelp(
        "INSERT",
        "adds rows to a table. Their keys are new.",
        """\
INSERT INTO table [(column, …)]
  {VALUES (expression, …), … | SELECT expression, … FROM {query | table | answers('query')}}""",
        "INSERT INTO sites VALUES ('a', 'Bern'), ('b', 'Basel');",
        "In Python, wr.table(name).upsert(rows) also replaces rows.",
    ),
    StatementHelp(
        "UPDATE",
        "changes rows of a table.",
        "UPDATE table SET column = expression, … [WHERE condition]",
        "UPDATE sites SET city = 'Thun' WHERE sensor = 'a';",
    ),
    StatementHelp(
        "DELETE",
        "removes rows of a table.",
        "DELETE FROM table [WHERE condition]",
        "DELETE FROM sites WHERE city = 'Basel';",
    ),
    StatementHelp(
        "LOAD",
        "adds the rows of files to a table; a row with a key that exists replaces its row.",
        "LOAD INTO table FROM 'path' [FORMAT {csv | parquet | json}] [OPTIONS (option 'value', …)]",
        "LOAD INTO sites FROM 'sites.csv';",
        "The columns are found by their names. CSV files begin with a line of names, or OPTIONS (header 'false').",
    ),
    StatementHelp(
        "SELECT",
        "asks once: over a window without SLIDE, over answers, tables or dead letters.",
        """\
SELECT expression [AS alias], …
  FROM {stream window | query | table | answers('query') | dead_letters('stream')} [AS alias]
  [WHERE condition]
  [GROUP BY expression, …]
  [HAVING condition]
  [ORDER BY expression [{ASC | DESC}], …]
  [LIMIT n]
  [ISOLATION {LATEST | WINDOW | SERIAL}]
  [PRIORITY n]
  [TIMEOUT length]""",
        """\
SELECT sensor, AVG(celsius) AS mean FROM readings [RANGE 3 MINUTES] GROUP BY sensor;""",
        "Over a window, the state of a standing query answers; EXPLAIN SELECT … says which. A query in FROM is its "
        "latest answer, answers('query') has all retained ones; over these, joins and sub-queries work too.",
    ),
    StatementHelp(
        "WITH",
        "asks once, over answers, with a name for a part of the question.",
        "WITH name AS (SELECT expression FROM answers('query')), … SELECT expression FROM name",
        """\
WITH hot AS (SELECT sensor, mean FROM climate WHERE mean > 25)
SELECT COUNT(*) AS sensors FROM hot;""",
    ),
    StatementHelp(
        "EXPLAIN",
        "shows a plan, without running anything; with ANALYZE also what a running query has done, with VERBOSE also "
        "the plans that it was chosen from and their costs.",
        "EXPLAIN {[ANALYZE] [VERBOSE] {QUERY | STREAM} name | [VERBOSE] SELECT expression FROM stream window | "
        "[VERBOSE] CREATE {QUERY | STREAM} name AS SELECT expression FROM stream window}",
        "EXPLAIN QUERY climate;",
    ),
    StatementHelp(
        "SHOW",
        "lists what there is, and how it goes.",
        "SHOW {STREAMS | QUERIES | SHARING | SETTINGS | TABLES | FRESHNESS | SNAPSHOTS | LATENESS stream | "
        "CREATE STREAM stream | CREATE QUERY query | CREATE TABLE table}",
        "SHOW QUERIES;",
    ),
    StatementHelp(
        "DESCRIBE",
        "lists the columns of a stream, of a table, or of a query's answers.",
        "{DESCRIBE | DESC} name",
        "DESCRIBE climate;",
    ),
    StatementHelp(
        "DROP",
        "removes a query, or a stream or table that no query reads.",
        "DROP {STREAM | QUERY | TABLE} [IF EXISTS] name",
        "DROP QUERY IF EXISTS climate;",
    ),
    StatementHelp(
        "SET",
        "changes a setting and keeps it in the state directory.",
        "SET setting = 'value'",
        "SET empty_windows = 'emit';",
        "SHOW SETTINGS lists them with their meaning.",
    ),
)

WINDOWS = (
    ("[RANGE length SLIDE length]", "the last length of time, every SLIDE"),
    ("[RANGE length OFFSET length SLIDE length]", "the same, OFFSET ago"),
    ("[ROWS n SLIDE n]", "the last n tuples, every n tuples"),
    ("[ROWS n SLIDE n PARTITION BY column]", "the same, for each value of the column"),
    ("[RANGE length SLIDE n ROWS]", "the last length of time up to every n-th tuple"),
    ("[RANGE length SLIDE n ROWS SATTR rank(column)]", "the same, counted in order of the column"),
    ("[NOW]", "the tuples of one instant; continuous: of one tick"),
    ("[SINCE 'time' SLIDE length]", "all tuples since then, every SLIDE"),
    ("[UNBOUNDED SLIDE length]", "all tuples, every SLIDE"),
    ("[RANGE length SLIDE length ORIGIN 'time']", "windows end at multiples of SLIDE from there"),
    ("[RANGE length SLIDE length WATTR column]", "on another window attribute"),
    ("[RANGE length]", "in a standing query: continuous; one time, in a SELECT: the latest length of time"),
    ("[RANGE length INTERNAL]", "continuous: it bounds what is remembered, and its results stay"),
    ("[RANGE length OFFSET length]", "continuous, or one time: the same, OFFSET ago"),
    ("[ROWS n]", "continuous: the last n tuples; one time: the latest n tuples"),
    ("[ROWS n PARTITION BY column]", "continuous: the last n tuples of each value of the column"),
    ("[UNBOUNDED]", "continuous: all tuples"),
)
"""The forms of windows. Their brackets are typed."""

STATEMENT_NAMES = (*(one.name for one in STATEMENTS), "WINDOW")


def help_lines(topic: str) -> list[str]:
    """The help of a statement; of all statements, in one line each, without a topic."""
    wanted = " ".join(topic.upper().rstrip(";").split())
    if not wanted:
        return [*_overview()]
    if wanted in ("WINDOW", "WINDOWS"):
        return [*_windows()]
    found = [one for one in STATEMENTS if one.name == wanted or one.name.split()[0] == wanted]
    if not found:
        found = [one for one in STATEMENTS if wanted.startswith(one.name) or (one.name, wanted) == ("DESCRIBE", "DESC")]
    if not found:
        near = get_close_matches(wanted, STATEMENT_NAMES, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise CatalogError(f"there is no help on '{topic}'", remedy=f"{hint}There is: {', '.join(STATEMENT_NAMES)}.")
    lines: list[str] = []
    for one in found:
        lines += [*([""] if lines else []), *one.lines()]
    return lines


def _overview() -> Iterator[str]:
    width = max(map(len, STATEMENT_NAMES))
    for one in STATEMENTS:
        yield f"{one.name.ljust(width)}  {one.about}"
    yield f"{'WINDOW'.ljust(width)}  what stands in brackets after a stream."
    yield ""
    yield "\\h STATEMENT shows the syntax with an example."


def _windows() -> Iterator[str]:
    width = max(len(form) for form, _ in WINDOWS)
    yield "WINDOW: what stands in brackets after a stream. The brackets are typed."
    yield ""
    yield from (f"  {form.ljust(width)}  {meaning}" for form, meaning in WINDOWS)
    yield ""
    yield "For example:"
    yield ""
    yield "  SELECT COUNT(*) AS n FROM readings [RANGE 3 MINUTES];"


def statements_section() -> str:
    """The section Statements of docs/cql.md."""
    blocks = [f"```text\n{one.syntax}\n```\n" for one in STATEMENTS]
    width = max(len(form) for form, _ in WINDOWS)
    windows = "\n".join(f"{form.ljust(width)}  {meaning}" for form, meaning in WINDOWS)
    return "\n".join([*blocks, f"where a window is one of these, with its brackets:\n\n```text\n{windows}\n```\n"])
