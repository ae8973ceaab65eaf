"""For every statement, `parse_one(to_text(s)) == s`."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from support.test_file import Statement as StatementCommand
from support.test_file import read_test_file

from windrow.cql import CQL, expression_text, parse, parse_one, to_text
from windrow.cql.names import quote_name, quote_text
from windrow.cql.parser import parse_select
from windrow.cql.printer import to_script
from windrow.cql.select_text import parse_expression
from windrow.cql.statements import (
    ColumnDef,
    CreateQuery,
    CreateStream,
    Describe,
    Drop,
    Emit,
    Explain,
    Late,
    Policy,
    Punctuate,
    Select,
    SetSetting,
    Show,
    SinkClause,
    Statement,
)
from windrow.cql.tokens import Cursor, tokenize
from windrow.cql.window_clause import Measure, Unit, WindowClause, WindowKind
from windrow.cql.window_syntax import window_text

TEST_FILES = Path(__file__).parents[2] / "cql"

texts = st.text(max_size=12) | st.sampled_from(
    [
        "it's",
        'say "x"',
        "\\",
        "\\n",
        "\n",
        "\t",
        "\012",
        "%_\\%",
        "''",
        "--",
        "/*",
        ";",
        "é𝒳",
        "${env:HOME}",
        "\x1a",
        "\x7f",
        "`",
        "\u2028",
    ]
)
names = st.sampled_from(
    "a b src ts Total x_1 tick range slide rows emit priority format select from group order date".split()
) | st.text(min_size=1, max_size=8).filter(lambda name: name.strip() == name and not re.search(r"\$\{|\0", name))
amounts = st.integers(1, 10**6) | st.sampled_from([60_000_000, 3_600_000_000, 604_800_000_000, 2**63 - 1])
times = st.builds(Measure, amounts, st.just(Unit.TIME))
counts = st.builds(Measure, amounts, st.just(Unit.VALUES))
rows = st.builds(Measure, amounts, st.just(Unit.ROWS))
measures = times | counts | rows
points = texts | st.integers(-(2**63) + 1, 2**63 - 1)


@st.composite
def windows(draw: st.DrawFn) -> WindowClause:
    kind = draw(st.sampled_from(WindowKind))
    size = {WindowKind.RANGE: times | counts, WindowKind.ROWS: rows}.get(kind)
    slides = times | rows if kind is WindowKind.ROWS else measures
    sattr = draw(st.none() | names)
    return WindowClause(
        kind,
        range=draw(size) if size is not None else None,
        slide=draw(st.none() | slides),
        offset=draw(st.none() | slides) if size is not None else None,
        since=draw(points) if kind is WindowKind.SINCE else None,
        origin=draw(st.none() | points),
        wattr=draw(st.none() | names),
        rattr=draw(st.none() | names),
        sattr=sattr,
        sattr_is_rank=sattr is not None and draw(st.booleans()),
        pattr=tuple(draw(st.lists(names, max_size=3))),
        internal=draw(st.booleans()),
    )


def _operators(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions as text, with and without parentheses, to test precedence."""
    binary = st.sampled_from("+ - * / % DIV || AND OR".split())
    comparison = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM"])
    function = st.sampled_from(["coalesce", "concat", "nullif", "date_add", "log", "regexp_replace"])
    type_ = st.sampled_from(["INT", "DECIMAL(10, 2)", "STRING", "TIMESTAMP"])
    return st.one_of(
        st.builds("{} {} {}".format, inner, binary, inner),
        st.builds("(({}) {} ({}))".format, inner, comparison, inner),
        st.builds("({})".format, inner),
        st.builds("-({})".format, inner),
        st.builds("(NOT ({}))".format, inner),
        st.builds("(({}) IS NOT NULL)".format, inner),
        st.builds("(({}) NOT BETWEEN ({}) AND ({}))".format, inner, inner, inner),
        st.builds("(({}) NOT IN ({}, {}))".format, inner, inner, inner),
        st.builds("(({}) NOT LIKE {})".format, inner, texts.map(quote_text)),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, inner, inner, inner),
        st.builds("CAST({} AS {})".format, inner, type_),
        st.builds("{}({}, {})".format, function, inner, inner),
        st.builds("SUM({}) FILTER (WHERE {})".format, inner, inner),
    )


literals = (
    texts.map(quote_text)
    | st.integers(0, 10**20).map(str)
    | st.sampled_from(["1.5", "1e3", "5L", "NULL", "TRUE", "X'1F'"])
)
columns = names.map(quote_name) | st.builds("{}.{}".format, names.map(quote_name), names.map(quote_name))
expressions = st.recursive(columns | literals, _operators, max_leaves=6)


@st.composite
def selects(draw: st.DrawFn) -> exp.Select:
    """A SELECT of the grammar, as the parser reads it: everything that is generated must be accepted."""
    items = draw(
        st.lists(st.builds("{} AS {}".format, expressions, names.map(quote_name)) | expressions, min_size=1, max_size=3)
    )
    text = f"SELECT {', '.join(items)} FROM {quote_name(draw(names))}"
    window = draw(st.none() | windows())
    text += f" {window_text(window)}" if window is not None else ""
    text += f" AS {quote_name(draw(names))}" if draw(st.booleans()) else ""
    for clause in ("WHERE", "GROUP BY", "HAVING", "ORDER BY"):
        if draw(st.booleans()):
            text += f" {clause} {draw(expressions)}"
    text += draw(st.sampled_from(["", " LIMIT 10"]))
    cursor = Cursor(tokenize(text, CQL()), text)
    return parse_select(cursor, until=len(cursor.tokens))


options = st.lists(
    st.tuples(st.from_regex(r"[a-z][a-z.]{0,6}[a-z]", fullmatch=True).filter(lambda n: ".." not in n) | names, texts),
    max_size=3,
    unique_by=lambda option: option[0].lower(),
).map(lambda found: tuple(option for option in found if option[0].lower() != "path"))
kinds = st.sampled_from(["memory", "files", "console", "parquet", "jsonl", "my_sink"])
types = st.sampled_from(["BOOLEAN", "BIGINT", "DECIMAL(10,2)", "STRING", "TIMESTAMP", "TIMESTAMP_NTZ", "DOUBLE"])
punctuations = st.one_of(
    st.builds(Punctuate, st.just(Policy.ORDERED), st.none() | names, heartbeat=st.none() | times),
    st.builds(Punctuate, st.just(Policy.BY_SOURCE), st.none() | names),
    st.builds(Punctuate, st.just(Policy.SLACK), st.none() | names, slack=measures),
    st.builds(Punctuate, st.just(Policy.PER_KEY), st.none() | names, key=names, idle_after=st.none() | times),
    st.builds(Punctuate, st.just(Policy.PER_KEY), key=names, idle_after=st.none() | times, heartbeat=times),
)


@st.composite
def streams(draw: st.DrawFn) -> CreateStream:
    late = draw(st.none() | st.sampled_from(Late))
    return CreateStream(
        name=draw(names),
        columns=tuple(
            draw(
                st.lists(
                    st.builds(ColumnDef, names, types, st.booleans()),
                    max_size=4,
                    unique_by=lambda column: column.name.lower(),
                )
            )
        ),
        source=draw(kinds),
        options=draw(options) + tuple(("path", path) for path in draw(st.lists(texts, max_size=3))),
        timestamp_by=draw(st.none() | names),
        sequence_by=draw(st.none() | names),
        tick=draw(st.none() | measures),
        punctuate=tuple(draw(st.lists(punctuations, max_size=3))),
        late=late,
        late_for=draw(st.none() | measures) if late is Late.REVISE else None,
        retain=draw(st.none() | measures),
        if_not_exists=draw(st.booleans()),
    )


queries = st.builds(
    CreateQuery,
    names,
    selects(),
    sink=st.none() | st.builds(SinkClause, kinds, options),
    emit=st.none() | st.sampled_from(Emit),
    priority=st.none() | st.integers(-1000, 1000),
    expire_after=st.none() | times,
    if_not_exists=st.booleans(),
)
statements: st.SearchStrategy[Statement] = st.one_of(
    streams(),
    queries,
    st.builds(Select, selects()),
    st.builds(Explain, statement=queries | st.builds(Select, selects())),
    st.builds(Explain, name=names),
    st.builds(Drop, st.sampled_from(["stream", "query", "table"]), names, st.booleans()),
    st.builds(Show, st.sampled_from(["streams", "queries", "tables", "settings"])),
    st.builds(Show, st.sampled_from(["lateness", "create stream", "create query"]), names),
    st.builds(Describe, names),
    st.builds(SetSetting, st.sampled_from(["max_future", "a.b.c"]) | names, texts),
)


@settings(max_examples=150, deadline=None)
@given(statements)
def test_parse_of_printed_statement(statement: Statement) -> None:
    text = to_text(statement)
    assert parse_one(text) == statement
    assert to_text(parse_one(text)) == text


@settings(max_examples=100, deadline=None)
@given(st.lists(statements, max_size=4))
def test_parse_of_printed_script(script: list[Statement]) -> None:
    assert parse(";\n".join(to_text(statement) for statement in script)) == script


@settings(max_examples=150, deadline=None)
@given(texts)
def test_strings(value: str) -> None:
    literal = parse_expression(quote_text(value))
    assert isinstance(literal, exp.Literal) and literal.this == value
    again = parse_expression(expression_text(literal))
    assert again.this == value


@given(names)
def test_names(name: str) -> None:
    column = parse_expression(quote_name(name))
    assert isinstance(column, exp.Column) and column.name == name


def test_script_of_every_statement_in_the_test_files() -> None:
    """What SHOW CREATE prints creates the same again."""
    texts = [
        command.text
        for path in sorted(TEST_FILES.rglob("*.test"))
        for command in read_test_file(path).commands
        if isinstance(command, StatementCommand) and command.error is None
    ]
    created = [s for text in texts for s in parse(text) if isinstance(s, CreateStream | CreateQuery)]
    assert len(created) > 100
    for statement in created:
        assert parse_one(to_script(statement)) == statement
        assert to_script(parse_one(to_script(statement))) == to_script(statement)  # type: ignore[arg-type]


@settings(deadline=None)
@given(streams() | queries)
def test_parse_of_a_script(statement: CreateStream | CreateQuery) -> None:
    assert parse_one(to_script(statement)) == statement


def test_script_has_a_line_per_clause() -> None:
    text = "CREATE STREAM s (t INT, `a b` STRING) FROM files OPTIONS (path ('x', 'y'), format 'csv') TIMESTAMP BY t"
    lines = [
        "CREATE STREAM s (t INT, `a b` STRING)",
        "  FROM files OPTIONS (path ('x', 'y'), format 'csv')",
        "  TIMESTAMP BY t;",
    ]
    assert to_script(parse_one(text)).splitlines() == lines  # type: ignore[arg-type]
    long = "c" * 90
    wide = parse_one(f"CREATE STREAM s (a INT, {long} INT) FROM memory")
    assert to_script(wide).splitlines()[:2] == ["CREATE STREAM s (a INT,", f"    {long} INT)"]  # type: ignore[arg-type]
