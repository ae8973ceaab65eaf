"""Scripts of statements, which can be run again on the same state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console

from windrow.catalog.definitions import DERIVED
from windrow.console.tables import print_table, say
from windrow.cql import parse
from windrow.cql.printer import to_text
from windrow.cql.statements import (
    CreateDerivedStream,
    CreateQuery,
    CreateStream,
    CreateTable,
    Describe,
    Explain,
    InsertRows,
    Select,
    Show,
    Statement,
)
from windrow.dataplane.sources.completing import as_completed, resolve_stream
from windrow.engine.ask.create_texts import NOTE
from windrow.errors import CatalogError, ParseError, UnsupportedError
from windrow.result import Plan, Result

if TYPE_CHECKING:
    from windrow.api import Windrow


_Create: TypeAlias = CreateStream | CreateDerivedStream | CreateTable | CreateQuery


@dataclass(frozen=True)
class StatementScript:
    """Statements and the text they were parsed from. `name` is the file's name, or None if there is no file."""

    name: str | None
    text: str
    statements: tuple[Statement, ...]


def read_script(path: Path) -> StatementScript:
    """The parsed statements of a file. Nothing is executed yet, so a syntax error changes nothing."""
    return to_script(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a file; raises ParseError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParseError(f"{path} is not a text file in UTF-8: {error.reason} at byte {error.start}") from None
    except (OSError, ValueError) as error:
        raise ParseError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def to_script(text: str, name: str | None = None) -> StatementScript:
    statements = tuple(parse(text))
    if not statements:
        raise ParseError("there is no statement", remedy="Give one, such as SHOW STREAMS.")
    return StatementScript(name, text, statements)


def execute(wr: Windrow, statement: Statement, text: str) -> Result | None:
    """Execute a statement of a script. Return None if it creates what exists already with the same text.

    So a script may be run again on its state.
    """
    known = known_text(wr, statement)
    if known is None or (isinstance(statement, _Create) and statement.if_not_exists):
        return wr.execute(statement, text)
    if known != _wanted_text(wr, statement):
        if isinstance(statement, CreateStream) and _differs_in_leniency(wr, statement):
            return wr.execute(statement, text)
        if isinstance(statement, CreateQuery) and statement.or_replace:
            return wr.execute(statement, text)
        kind, name = _kind(statement)
        raise CatalogError(
            f"{kind} '{name}' exists with another text:\n  {known}",
            remedy=f"DROP {kind.upper()} {name} first, or use the existing text, or use another --state.",
        )
    return None


def repeatable(statement: Statement) -> Statement:
    """The statement as a script has it that may be run again: INSERT leaves out rows that are there already."""
    return replace(statement, is_repeatable=True) if isinstance(statement, InsertRows) else statement


def known_text(wr: Windrow, statement: Statement) -> str | None:
    """The text of the existing stream, table or query that has the statement's name; None if there is none."""
    manager = wr._engine.manager
    if isinstance(statement, CreateStream | CreateDerivedStream):
        return _stream_text(wr, statement.name)
    if isinstance(statement, CreateTable):
        table = wr._engine.tables.definition(statement.name)
        return None if table is None else _text(table.statement)
    if isinstance(statement, CreateQuery):
        for name, (_, query) in manager.queries().items():
            if name.lower() == statement.name.lower():
                return _text(query.statement)
        if wr._engine.plans.has(statement.name):
            return _text(wr._engine.plans.query(statement.name).statement)
    return None


def _stream_text(wr: Windrow, name: str) -> str | None:
    stream = wr._engine.manager.streams.get(name.lower())
    if stream is None:
        return None
    plan = wr._engine.plans.behind(stream)
    if plan is not None and plan.derived is not None:
        return _text(plan.derived)
    return _text(resolve_stream(stream.definition.statement))


def _wanted_text(wr: Windrow, statement: Statement) -> str:
    """The text to compare with that of the existing stream or query."""
    return _text(_completed(wr, statement) if isinstance(statement, CreateStream) else statement)


def _differs_in_leniency(wr: Windrow, statement: CreateStream) -> bool:
    definition = wr._engine.manager.stream(statement.name).definition
    return not definition.is_derived and definition.differs_in_leniency(_completed(wr, statement))


def _completed(wr: Windrow, statement: CreateStream) -> CreateStream:
    """The statement with what the existing stream of its name says of paths, format and columns."""
    stream = wr._engine.manager.streams.get(statement.name.lower())
    if stream is None or stream.definition.is_derived:
        return statement
    return as_completed(statement, resolve_stream(stream.definition.statement))


def _text(statement: Statement) -> str:
    if isinstance(statement, _Create):
        statement = replace(statement, name=statement.name.lower(), if_not_exists=False)
    if isinstance(statement, CreateQuery):
        statement = replace(statement, or_replace=False)
    return to_text(statement)


def _kind(statement: Statement) -> tuple[str, str]:
    assert isinstance(statement, _Create)
    if isinstance(statement, CreateTable):
        return "table", statement.name
    return "query" if isinstance(statement, CreateQuery) else "stream", statement.name


def print_outcome(out: Console, notes: Console, statement: Statement, result: Result | None) -> None:
    """Print the table of a statement that reads, or a note for one that changes something."""
    if result is None:
        kind, name = _kind(statement)
        say(notes, f"{kind} {name}: kept, it exists with the same text", "dim")
    elif isinstance(statement, Explain):
        say(out, "\n".join(str(row["plan"]) for row in result.rows()))
    elif isinstance(statement, Show) and statement.what.startswith("create "):
        say(out, "\n".join(str(row["statement"]) for row in result.rows()))
    elif isinstance(statement, Select | Show | Describe):
        print_table(out, result.arrow())
    else:
        for row in result.rows():
            say(notes, str(row["result"]), "" if str(row["result"]).startswith(NOTE) else "dim")


def explanations(wr: Windrow, script: StatementScript) -> list[Plan]:
    """EXPLAIN of each query of a script on a temporary state. All queries are created first, so that sharing shows."""
    texts = list[Plan]()
    for statement in script.statements:
        if isinstance(statement, Select):
            texts.append(_explain(wr, Explain(statement), script.text))
        elif isinstance(statement, Explain):
            texts.append(_explain(wr, statement, script.text))
        elif not isinstance(statement, Show | Describe):
            execute(wr, statement, script.text)
    return [*derived_plans(wr), *(wr.queries[name].explain() for name in wr.queries), *texts]


def derived_plans(wr: Windrow) -> list[Plan]:
    """The plans of all streams that are made by queries."""
    names = [row["name"] for row in wr.sql("SHOW STREAMS").rows() if row["source"] == DERIVED]
    return [_explain(wr, Explain(name=name, is_stream=True), "") for name in names]


def explanations_on(wr: Windrow, statements: Iterable[Statement], text: str) -> list[Plan]:
    """EXPLAIN of queries against the streams of an existing state, which is not changed."""
    texts = list[Plan]()
    for statement in statements:
        if isinstance(statement, CreateQuery | CreateDerivedStream | Select):
            texts.append(_explain(wr, Explain(statement), text))
        elif isinstance(statement, Explain):
            texts.append(_explain(wr, statement, text))
        elif not (
            isinstance(statement, CreateStream | CreateTable)
            and known_text(wr, statement) == _wanted_text(wr, statement)
        ):
            raise UnsupportedError(
                f"explain --state changes nothing, so it cannot execute: {to_text(statement)}",
                remedy="Give queries only; or leave out --state, and the script gets a temporary state.",
            )
    return texts


def _explain(wr: Windrow, statement: Explain, text: str) -> Plan:
    plan = wr.execute(statement, text).plan
    assert plan is not None
    return plan
